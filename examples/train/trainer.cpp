#include "trainer.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <hcomp/collective/agreement/agreement.hpp>
#include <hcomp/collective/agreement/digest.hpp>
#include <hcomp/core/error.hpp>
#include <numeric>
#include <stdexcept>
#include <utility>
#include <vector>

#include "data.hpp"
#include "sgd.hpp"

namespace train {
namespace {

/// Adds in the order of the ranks, so that all ranks get the same bits.
template <std::size_t N>
std::array<double, N> sum_over_ranks(std::array<double, N> const& values,
                                     paced_transport& transport) {
  std::vector<std::array<double, N>> of_rank;
  hcomp::all_gather_records(transport, 0, values, of_rank);
  std::array<double, N> sums{};
  for (auto const& one : of_rank)
    for (std::size_t i = 0; i < N; ++i) sums[i] += one[i];
  return sums;
}

/// Evaluates this rank's part of the test set.
score evaluate(model& trained, int test_size, int rank, int ranks) {
  constexpr int most_examples = 250;
  auto const at = [&](int r) { return static_cast<int>(std::int64_t{test_size} * r / ranks); };
  score total;
  std::vector<std::uint32_t> numbers;
  for (int first = at(rank), end = at(rank + 1); first < end; first += most_examples) {
    numbers.resize(static_cast<std::size_t>(std::min(most_examples, end - first)));
    std::iota(numbers.begin(), numbers.end(), static_cast<std::uint32_t>(first));
    total += trained.evaluate(numbers);
  }
  return total;
}

/// Often at first, while curves are steep, then four times per epoch; 20 times in short runs.
bool is_observed(std::uint64_t step, std::uint64_t steps, std::uint64_t steps_per_epoch) {
  constexpr std::array first{10, 20, 40, 80};
  auto const every = std::max<std::uint64_t>(1, std::min(steps_per_epoch / 4, steps / 20));
  return step == steps || step % every == 0 ||
         std::ranges::find(first, static_cast<int>(step)) != first.end();
}

/// @throws std::runtime_error  parameters differ; on all ranks
void require_same_parameters(std::span<float const> parameters, std::string_view codec,
                             paced_transport& transport) {
  auto const found = hcomp::digest(parameters, transport);
  if (found.same()) return;
  auto const [least, most] = std::ranges::minmax(found.of_rank);
  throw std::runtime_error(
      fmt::format("{}: the ranks ended with different parameters (fingerprints {:016x} to {:016x})",
                  codec, least, most));
}

class stopwatch {
 public:
  /// Seconds since the last call.
  double operator()() {
    auto const now = clock::now();
    return std::chrono::duration<double>(now - std::exchange(last_, now)).count();
  }

 private:
  using clock = std::chrono::steady_clock;
  clock::time_point last_ = clock::now();
};

}  // namespace

history trainer::operator()(trial const& what, std::uint64_t seed) const {
  auto const& how = *what.how;
  auto const name = what.name();
  int const rank = transport.rank(), ranks = transport.size();

  auto const trained = learnt.make_model(seed);
  auto const parameters = trained->parameters();
  sampler samples(
      learnt.train_size(), settings.batch, rank, ranks, seed,
      settings.partition == "by_label" ? learnt.labels() : std::span<std::uint8_t const>());
  auto const steps_in = [&](double epochs) {
    return static_cast<std::uint64_t>(
        std::llround(epochs * static_cast<double>(samples.steps_per_epoch())));
  };
  auto const steps = std::max<std::uint64_t>(1, steps_in(settings.epochs));
  auto const resync = how.name == "local_sgd" ? settings.period
                      : settings.resync > 0 ? std::max<std::uint64_t>(1, steps_in(settings.resync))
                                            : steps;

  history run{.codec = name,
              .algorithm = algorithm_of(what, settings),
              .seed = seed,
              .rate = settings.rate.value_or(how.rate),
              .momentum = settings.momentum.value_or(how.momentum),
              .sign_step = how.sign_step > 0 ? settings.sign_step.value_or(how.sign_step) : 0,
              .steps = steps,
              .parameters = parameters.size()};
  auto const optimise = place.make_optimiser(parameters.size(), static_cast<float>(run.momentum));
  auto const synchronize =
      place.make_synchronizer(what, settings.sign_step.value_or(how.sign_step), *trained, seed);

  hcomp::report sent;
  double seconds = 0;
  score learning;  // since the last observation
  auto const observe_now = [&](std::uint64_t step) {
    auto const part = evaluate(*trained, learnt.test_size(), rank, ranks);
    auto const total = sum_over_ranks<7>({learning.loss, learning.count, part.loss, part.count,
                                          double(part.correct), double(sent.bytes_sent), seconds},
                                         transport);
    learning = {};
    double const test_loss = total[2] / total[3];
    run.curve.push_back({.step = step,
                         .epoch = double(step) / double(samples.steps_per_epoch()),
                         .bytes = total[5] / ranks,
                         .seconds = total[6] / ranks,
                         .train_loss = (step == 0 ? test_loss : total[0] / total[1]),
                         .test_loss = test_loss,
                         .accuracy = 100 * total[4] / total[3]});
    observe(run, run.curve.back());
  };

  observe_now(0);
  stopwatch watch;
  auto const seconds_of_work = [&] {
    place.finish();  // asynchronous work belongs to its caller's time
    return watch();
  };
  for (std::uint64_t step = 0; step < steps; ++step) {
    if (stops && stops()) break;
    watch();
    float const now = schedule(step, steps);
    learning += trained->learn(samples(step));
    if (gradient) {
      run.seconds_compute += seconds_of_work();
      gradient(run, place.on_host(trained->gradient()), step + 1);
      watch();
    }
    auto const update = (*optimise)(trained->gradient(), now * static_cast<float>(run.rate));
    run.seconds_compute += seconds_of_work();

    auto const synchronized = [&](auto const& call) {
      try {
        auto const stats = call();
        sent += stats;
        // all work of a synchronizer except communication counts as encoding
        run.seconds_encode += seconds_of_work() - stats.seconds_communicate;
      } catch (hcomp::nonfinite_error const& e) {
        throw std::runtime_error(
            fmt::format("{} with seed {} diverged in step {}: {}", name, seed, step + 1, e.what()));
      }
    };
    synchronized([&] { return (*synchronize)(update, step, now); });
    run.messages = sent.messages;
    optimise->apply(parameters);
    run.seconds_compute += seconds_of_work();
    if ((step + 1) % resync == 0 || step + 1 == steps)
      synchronized([&] { return synchronize->settle(parameters); });
    run.steps_made = step + 1;
    seconds = run.seconds_compute + run.seconds_encode + sent.seconds_communicate;
    if (is_observed(step + 1, steps, samples.steps_per_epoch())) {
      observe_now(step + 1);
      watch();
    }
  }
  if (run.is_complete())  // replicas of interrupted runs may have drifted apart
    require_same_parameters(place.on_host(parameters), name, transport);

  auto const lost = synchronize->lost();
  auto const mean =
      sum_over_ranks<6>({run.seconds_compute, run.seconds_encode, sent.seconds_communicate,
                         double(sent.bytes_sent), lost.left_out, lost.missed},
                        transport);
  run.seconds_compute = mean[0] / ranks;
  run.seconds_encode = mean[1] / ranks;
  run.seconds_communicate = mean[2] / ranks;
  run.lost = {mean[4] / ranks, mean[5] / ranks};
  run.bytes_per_step =
      mean[3] / ranks / static_cast<double>(std::max<std::uint64_t>(1, run.steps_made));
  return run;
}

}  // namespace train
