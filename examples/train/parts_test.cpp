/// The parts of train that need no MPI.

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <hcomp/codec/thc.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/transport/any_transport.hpp>
#include <hcomp/transport/loopback.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "data.hpp"
#include "mlp.hpp"
#include "random.hpp"
#include "report.hpp"
#include "sgd.hpp"
#include "synchronizer.hpp"
#include "trial.hpp"

namespace {

train::batch first_images(train::dataset const& data, std::uint32_t images) {
  std::vector<std::uint32_t> numbers(images);
  std::iota(numbers.begin(), numbers.end(), 0u);
  train::batch out;
  train::gather(data, numbers, out);
  return out;
}

using vectors = std::vector<std::vector<float>>;  // by rank

vectors random_vectors(int ranks, std::size_t values, std::uint64_t seed) {
  train::generator random(seed);
  vectors all(static_cast<std::size_t>(ranks), std::vector<float>(values));
  for (auto& x : all) std::ranges::generate(x, [&] { return 2 * train::uniform(random) - 1; });
  return all;
}

/// Calls f(synchronizer, rank) on a thread for every rank. What they threw, by rank.
template <class F>
std::vector<std::string> with_synchronizers(int ranks, std::string const& codec, std::size_t values,
                                            std::uint64_t seed, F const& f) {
  hcomp::loopback_world world(ranks);
  std::vector<std::string> thrown(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      auto const own = static_cast<std::size_t>(rank);
      try {
        hcomp::loopback loopback(world, rank);
        hcomp::any_transport any(loopback);
        train::paced_transport transport(any, 0);
        hcomp::host_executor executor(1);
        auto const synchronize = train::make_synchronizer(train::trial_from(codec), 0, values, {},
                                                          seed, transport, executor);
        f(*synchronize, own);
      } catch (hcomp::nonfinite_error const&) {
        thrown[own] = "nonfinite_error";
      } catch (std::exception const& e) {
        thrown[own] = e.what();
        world.fail(rank, e.what());
      }
    });
  for (auto& thread : threads) thread.join();
  return thrown;
}

std::vector<std::string> nothing_thrown(int ranks) {
  return std::vector<std::string>(static_cast<std::size_t>(ranks));
}

/// What `steps` updates make of zeros, by rank.
vectors trained(int ranks, std::string const& codec, std::size_t values, std::uint64_t seed,
                std::uint64_t steps, std::vector<train::losses>* lost = nullptr,
                bool settles = false) {
  vectors parameters(static_cast<std::size_t>(ranks), std::vector<float>(values));
  auto const x = random_vectors(ranks, values, 3);
  auto const thrown =
      with_synchronizers(ranks, codec, values, seed, [&](auto& synchronize, std::size_t rank) {
        for (std::uint64_t step = 0; step < steps; ++step) {
          auto update = x[rank];
          synchronize(update, step, 1);
          for (std::size_t i = 0; i < values; ++i) parameters[rank][i] -= update[i];
        }
        if (settles) synchronize.settle(parameters[rank]);
        if (lost) (*lost)[rank] = synchronize.lost();
      });
  CHECK(thrown == nothing_thrown(ranks));
  return parameters;
}

}  // namespace

TEST_CASE("mlp: the gradient is what the loss does when a parameter moves") {
  auto const images = first_images(train::load_data("synthetic", 1).train, 25);
  std::vector<int> const widths{64, 20, 15, 10};
  train::mlp network(widths, 3);
  network.learn(images);
  std::vector<float> const gradient(network.gradient().begin(), network.gradient().end());
  float const h = 1e-3f;
  for (std::size_t i = 0; i < gradient.size(); i += 7) {
    CAPTURE(i);
    float& parameter = network.parameters()[i];
    float const before = parameter;
    parameter = before + h;
    double const above = network.evaluate(images).loss;
    parameter = before - h;
    double const below = network.evaluate(images).loss;
    parameter = before;
    // h^2 of the third derivative, 1e-7 / h of rounding, and kinks of ReLU that lie between
    CHECK(std::abs((above - below) / (2.0 * h) / 25 - double(gradient[i])) < 1e-3);
  }
}

TEST_CASE("sampler: in an epoch the ranks together see every image once") {
  constexpr int images = 120, batch = 5;
  for (int ranks : {1, 2, 3, 4}) {
    CAPTURE(ranks);
    std::multiset<std::uint32_t> seen;
    for (int rank = 0; rank < ranks; ++rank) {
      train::sampler sample(images, batch, rank, ranks, 7);
      for (std::uint64_t step = 0; step < sample.steps_per_epoch(); ++step)
        for (auto const image : sample(step)) seen.insert(image);
    }
    CHECK(seen.size() == images);
    CHECK(std::set(seen.begin(), seen.end()).size() == images);
  }
}

TEST_CASE("sampler: every epoch has another order, a seed has always the same") {
  train::sampler once(1000, 10, 0, 1, 7), again(1000, 10, 0, 1, 7), other(1000, 10, 0, 1, 8);
  auto const copy = [](auto images) { return std::vector(images.begin(), images.end()); };
  CHECK(copy(once(3)) == copy(again(3)));
  CHECK(copy(once(3)) != copy(other(3)));
  CHECK(copy(once(3)) != copy(once(3 + 100)));
  CHECK_THROWS_WITH(train::sampler(99, 25, 0, 4, 1),
                    "99 training images are too few for 4 ranks with batches of 25");
}

TEST_CASE("sgd: momentum sums what came before, the schedule ends above zero") {
  train::sgd optimiser(100, 0.5f);
  std::vector<float> const gradient(100, 1.0f);
  std::vector<float> update(100);
  optimiser(gradient, 2, update);
  CHECK(update[99] == 2);
  optimiser(gradient, 2, update);
  CHECK(update[99] == 3);  // 2 * (1 + 0.5)
  CHECK(train::schedule(0, 10) == 1);
  CHECK(train::schedule(9, 10) == doctest::Approx(0.1));
}

TEST_CASE("data: a file that is not IDX is refused with its name and its first bytes") {
  auto const folder = std::filesystem::temp_directory_path() / "hcomp_train_parts_test";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "train-images-idx3-ubyte") << "PNG.";
  CHECK_THROWS_WITH_AS(
      train::load_data(folder.string(), 1),
      doctest::Contains("is no IDX file of bytes with 3 extents: it starts with 80, 78, 71, 46"),
      std::runtime_error);
  std::filesystem::remove_all(folder);
}

TEST_CASE("report: figures of several seeds become mean and deviation") {
  train::comparison all;
  all.ranks = 4;
  for (double const accuracy : {88.0, 90.0}) {
    train::history run;
    run.codec = "marsit";
    run.parameters = 1000;
    run.bytes_per_step = 600;
    run.curve.push_back({});
    run.curve.back().accuracy = accuracy;
    all.add(run);
  }
  auto const json = train::to_json(all);
  CHECK(json["runs"].size() == 2);
  CHECK(json["runs"][0]["compression_ratio"] == 10);  // a ring of 4 sends 6000 of 4000 bytes
  CHECK(json["mean_over_seeds"]["marsit"]["test_accuracy"] == 89);
  CHECK(json["mean_over_seeds"]["marsit"]["test_accuracy_deviation"] ==
        doctest::Approx(std::sqrt(2.0)));
}

TEST_CASE("trial: its name says what goes wrong; what cannot be is refused with its value") {
  CHECK(train::trial_from("thc").name() == "thc");
  CHECK(train::trial_from("thc:late=0.1:lost=0.01").name() == "thc, 10 % late, 1 % lost");
  CHECK(train::trial_from("uniform_thc:lost=0.07").name() == "uniform_thc, 7 % lost");
  CHECK(train::trial_from("thc:late=0").name() == "thc, aggregated");
  CHECK_FALSE(train::trial_from("marsit").by_aggregators);
  CHECK_THROWS_WITH(train::trial_from("thc:late=1.5"), "'1.5' is no share from 0 to below 1");
  for (auto const* share : {"1", "-0.1", "nan", "", "0.1x"}) {
    CAPTURE(share);
    CHECK_THROWS_AS(train::share_from(share), std::invalid_argument);
  }
  CHECK_THROWS_WITH(train::trial_from("marsit:lost=0.1"),
                    "marsit:lost=0.1: marsit has no aggregator; these have: thc, uniform_thc");
  CHECK_THROWS_WITH(train::trial_from("thc:slow=0.1"),
                    "thc:slow=0.1: 'slow=0.1' is neither late=SHARE nor lost=SHARE");
}

TEST_CASE("aggregators: when nothing goes wrong, updates are those of the ring, bit by bit") {
  for (std::string const codec : {"thc", "uniform_thc"})
    for (int const ranks : {1, 2, 4}) {
      CAPTURE(codec);
      CAPTURE(ranks);
      // of as many whole blocks for every rank: the ring cuts others into smaller ones
      std::size_t const values = 4 * hcomp::thc<float>::block_values;
      CHECK(trained(ranks, codec + ":late=0", values, 7, 4) == trained(ranks, codec, values, 7, 4));
    }
}

TEST_CASE("aggregators: who is late is in no sum of the step, and all ranks get the same bits") {
  constexpr int ranks = 4;
  constexpr std::size_t values = 30000;
  auto const x = random_vectors(ranks, values, 3);
  int late = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    auto updates = x;
    std::array<double, ranks> left_out{};
    auto const thrown = with_synchronizers(ranks, "thc:late=0.3", values, seed,
                                           [&](auto& synchronize, std::size_t rank) {
                                             synchronize(updates[rank], 0, 1);
                                             left_out[rank] = synchronize.lost().left_out;
                                             CHECK(synchronize.lost().missed == 0);
                                           });
    REQUIRE(thrown == nothing_thrown(ranks));
    for (auto const& update : updates) CHECK(update == updates.front());
    double error = 0, square = 0;
    auto const in = static_cast<double>(std::ranges::count(left_out, 0.0));
    late += static_cast<int>(std::ranges::count(left_out, 1.0));
    CHECK(in + static_cast<double>(std::ranges::count(left_out, 1.0)) == ranks);
    for (std::size_t i = 0; i < values; ++i) {
      double mean = 0;
      for (std::size_t rank = 0; rank < ranks; ++rank)
        if (left_out[rank] == 0) mean += static_cast<double>(x[rank][i]) / in;
      error += std::pow(static_cast<double>(updates[0][i]) - mean, 2);
      square += std::pow(static_cast<double>(x[0][i]), 2);
    }
    CHECK(error / square < 1.1 * 0.0204 / in);  // (V + B) / k of the default table
  }
  CHECK(late > 24 - 13);  // 80 draws of 0.3: three standard deviations of 4.1
  CHECK(late < 24 + 13);
}

TEST_CASE(
    "aggregators: lost sums let replicas drift, alike with the same seed, until they settle") {
  constexpr int ranks = 3;
  constexpr std::size_t values = 100000;
  std::vector<train::losses> lost(ranks);
  auto const drifted = trained(ranks, "thc:lost=0.1", values, 5, 5, &lost);
  for (auto const& one : lost) {
    // 490 sums: three standard deviations of 0.0136
    CHECK(one.missed == doctest::Approx(0.1).epsilon(0.4));
    CHECK(one.left_out == doctest::Approx(0.1 * 0.9).epsilon(0.4));
  }
  CHECK(drifted[0] != drifted[1]);
  CHECK(trained(ranks, "thc:lost=0.1", values, 5, 5) == drifted);
  CHECK(trained(ranks, "thc:lost=0.1", values, 6, 5) != drifted);
  auto const settled = trained(ranks, "thc:lost=0.1", values, 5, 5, nullptr, true);
  for (auto const& parameters : settled) CHECK(parameters == settled.front());
  for (std::size_t i = 0; i < values; i += 999)
    CHECK(settled[0][i] ==
          doctest::Approx((drifted[0][i] + drifted[1][i] + drifted[2][i]) / 3).epsilon(1e-5));
}

TEST_CASE("aggregators: NaN on one rank, late or not, ends all of them") {
  constexpr int ranks = 3;
  constexpr std::size_t values = 20000;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    CAPTURE(seed);
    auto const thrown = with_synchronizers(
        ranks, "thc:late=0.5:lost=0.2", values, seed, [&](auto& synchronize, std::size_t rank) {
          auto update = random_vectors(ranks, values, seed)[rank];
          synchronize(update, 0, 1);
          if (rank == 1) update[values / 2] = std::nanf("");
          for (std::uint64_t step = 1; step < 4; ++step) synchronize(update, step, 1);
        });
    CHECK(thrown == std::vector<std::string>(ranks, "nonfinite_error"));
  }
}
