// Errors of THC and of the schemes in its paper's comparison: NMSE of the mean over n workers, one
// way (the server sends the exact mean) / both ways (it compresses the mean again with the same
// scheme). THC, uniform THC and min-max quantization have one number: the server sends their
// integer sums unchanged.
//
//   bench_thc_baselines            2^15 values, 4 trials, 1, 4, 10 and 32 workers
//
// THC as published, b = 4, g = 30, p = 1/32, but with rotations of 16384 values. Source: Li et al.,
// THC, NSDI 2024.

#include <cstdio>
#include <cstring>
#include <hcomp/codec/thc/thc.hpp>
#include <string>
#include <support/baselines.hpp>
#include <support/mean_of_blocks.hpp>
#include <vector>

namespace {

using baselines::errors;
using baselines::vector;

/// One row of the table.
struct row {
  double thc = 0, uniform_thc = 0;
  errors terngrad, top_k, drive, eden2, eden4;
  double min_max = 0, rotated_min_max = 0;
};

template <class C> double error_of(C const& codec, std::vector<vector> const& x, int trial) {
  std::vector<std::vector<float>> floats;
  for (vector const& one : x) floats.emplace_back(one.begin(), one.end());
  auto const mean =
      hcomp::testing::mean_of_blocks(codec.fitted(static_cast<std::uint32_t>(x.size())), floats,
                                     {.seed = 1, .step = static_cast<std::uint64_t>(trial)});
  return baselines::nmse(x, {mean.begin(), mean.end()});
}

void add(errors& sum, errors const& one) {
  sum.one_direction += one.one_direction;
  sum.both_directions += one.both_directions;
}

row measured(baselines::input which, int workers, std::size_t values, int trials) {
  static baselines::lloyd_max const two_bits(2), four_bits(4);
  hcomp::thc<float> const thc({.bits = 4, .granularity = 30, .transform = 16384});
  hcomp::uniform_thc<float> const uniform_thc({.bits = 4, .transform = 16384});
  row sum;
  for (int trial = 0; trial < trials; ++trial) {
    baselines::randomness random(static_cast<std::uint64_t>(1000 * workers + trial));
    auto const x = baselines::vectors(which, workers, values, random);
    auto const of = [&](auto const& scheme) { return baselines::errors_of(x, scheme); };
    sum.thc += error_of(thc, x, trial);
    sum.uniform_thc += error_of(uniform_thc, x, trial);
    add(sum.terngrad, of([&](vector const& v) { return baselines::terngrad(v, random); }));
    add(sum.top_k, of([&](vector const& v) { return baselines::top_k(v); }));
    add(sum.drive, of([&](vector const& v) { return baselines::drive(v, random); }));
    add(sum.eden2, of([&](vector const& v) { return baselines::eden(v, two_bits, random); }));
    add(sum.eden4, of([&](vector const& v) { return baselines::eden(v, four_bits, random); }));
    sum.min_max += baselines::nmse(x, baselines::min_max_mean(x, 4, random));
    sum.rotated_min_max += baselines::nmse(x, baselines::rotated_min_max_mean(x, 4, random));
  }
  return sum;
}

std::string to_text(double value, int trials) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.3g", value / trials);
  return text;
}
std::string to_text(errors const& both, int trials) {
  return to_text(both.one_direction, trials) + " / " + to_text(both.both_directions, trials);
}

}  // namespace

int main(int argc, char** argv) {
  bool brief = false;  // for ctest, which only checks that the program works
  for (int i = 1; i < argc; ++i) brief |= std::strncmp(argv[i], "--benchmark", 11) == 0;
  std::size_t const values = brief ? 4096 : 32768;
  int const trials = brief ? 1 : 4;

  std::printf(
      "| input, n | THC | UTHC | TernGrad | TopK 10%% | DRIVE 1b | EDEN 2b | EDEN 4b "
      "| min-max 4b | rotated min-max 4b |\n|---|---|---|---|---|---|---|---|---|---|\n");
  for (auto const which :
       {baselines::input::normal, baselines::input::lognormal, baselines::input::heavy})
    for (int const workers : {1, 4, 10, 32}) {
      row const r = measured(which, workers, values, trials);
      std::printf("| %s %d ", baselines::to_text(which), workers);
      for (std::string const& cell :
           {to_text(r.thc, trials), to_text(r.uniform_thc, trials), to_text(r.terngrad, trials),
            to_text(r.top_k, trials), to_text(r.drive, trials), to_text(r.eden2, trials),
            to_text(r.eden4, trials), to_text(r.min_max, trials),
            to_text(r.rotated_min_max, trials)})
        std::printf("| %s ", cell.c_str());
      std::printf("|\n");
    }
}
