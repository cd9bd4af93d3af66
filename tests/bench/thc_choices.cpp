// Compares hcomp's choices in THC with the paper's: the granularity, a norm per transform, and
// fresh signs. Also the benefit of a small truncation, and the error of rounding partial results.
// Uses the real codec, and theoretical expectations.
//
//   bench_thc_choices            2^16 values, 32 trials, 256 rotations and rounds
//
// Errors are in units of the energy of the vector, or of the mean energy of n workers' vectors.
// Source: Li et al., THC, NSDI 2024.

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <hcomp/codec/thc/thc.hpp>
#include <hcomp/collective/cost/hop_error.hpp>
#include <hcomp/collective/schedule/algorithm.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/op/encode.hpp>
#include <span>
#include <string>
#include <support/baselines.hpp>
#include <support/mean_of_blocks.hpp>
#include <support/norms.hpp>
#include <utility>
#include <vector>

namespace {

using hcomp::testing::distance;
using hcomp::testing::energy;
using vector = std::vector<float>;

constexpr std::uint64_t seed = 42;

struct sizes {
  std::size_t values = 1 << 16;
  int trials = 32;  // gives a granularity's error to 0.2 %, less than the difference of 30 and 31
  int layouts = 8;
  std::uint64_t rounds = 256;
};

vector to_floats(baselines::vector const& x) { return {x.begin(), x.end()}; }

std::vector<vector> normal_vectors(int workers, std::size_t values, std::uint64_t number) {
  baselines::randomness random(seed + number);
  std::vector<vector> all;
  for (auto const& x : baselines::vectors(baselines::input::normal, workers, values, random))
    all.push_back(to_floats(x));
  return all;
}

/// || x - y ||^2 / || x ||^2
double error_of(vector const& x, vector const& y) { return distance(x, y) / energy(x); }

/// One rank's x, encoded and decoded.
vector sent_alone(hcomp::thc<> const& codec, vector const& x, hcomp::draw_key const& key, int rank,
                  std::span<std::uint32_t const> norms) {
  auto const code =
      hcomp::encode(codec, std::span(x), {.key = key, .rank = rank, .statistics = norms});
  vector y(x.size());
  hcomp::decode(codec, code, std::span(y), {.key = key});
  return y;
}

/// The same with separate norms.
vector sent_alone(hcomp::thc<> const& codec, vector const& x, hcomp::draw_key const& key,
                  int rank) {
  return sent_alone(codec, x, key, rank, hcomp::measure(codec, std::span(x)));
}

double expected_error(hcomp::thc_table const& table) {
  return table.rounding_error + table.truncation_error;
}

// ---- Granularity

void compare_granularities(sizes const& size) {
  constexpr std::array workers{1, 4, 8};
  std::printf(
      "Granularity: n times the error of the mean of n normal vectors. The largest of n norms,\n"
      "which all use, truncates a little less than is expected.\n\n"
      "| granularity | ranks in 8 bits | expected | n = 1 | n = 4 | n = 8 |\n"
      "|---|---|---|---|---|---|\n");
  constexpr std::array granularities{15, 17, 30, 31, 51};
  std::array<std::array<double, workers.size()>, granularities.size()> errors = {};
  for (std::size_t k = 0; k < workers.size(); ++k)
    for (int trial = 0; trial < size.trials; ++trial) {
      auto const number = static_cast<std::uint64_t>(trial);
      auto const x = normal_vectors(workers[k], size.values, 1000 * (k + 1) + number);
      std::vector<baselines::vector> exact;
      for (auto const& one : x) exact.emplace_back(one.begin(), one.end());
      for (std::size_t g = 0; g < granularities.size(); ++g) {
        auto const codec = hcomp::thc<>({.granularity = granularities[g]})
                               .fitted(static_cast<std::uint32_t>(workers[k]));
        auto const mean = hcomp::testing::mean_of_blocks(codec, x, {.seed = seed, .step = number});
        errors[g][k] += baselines::nmse(exact, {mean.begin(), mean.end()}) * workers[k] /
                        static_cast<double>(size.trials);
      }
    }
  for (std::size_t g = 0; g < granularities.size(); ++g) {
    hcomp::thc<> const codec({.granularity = granularities[g]});
    char const* const whose = granularities[g] == hcomp::thc<>().granularity() ? " (ours)"
                              : granularities[g] == 30                         ? " (paper)"
                                                                               : "";
    std::printf("| %d%s | %u | %.5f | %.5f | %.5f | %.5f |\n", granularities[g], whose,
                codec.max_summands(), expected_error(codec.table()), errors[g][0], errors[g][1],
                errors[g][2]);
  }
}

// ---- Norms

/// The error of a normal number whose magnitude differs from the norm's, in units of the norm's
/// square: rounding between the levels, and truncation beyond.
double error_at_size(hcomp::thc_table const& table, double size) {
  auto const at = [&](std::size_t level) {
    return table.limit * (2.0 * table.levels[level] / table.granularity - 1);
  };
  constexpr int steps = 4000;
  double sum = 0;
  for (int i = 0; i < steps; ++i) {
    double const u = (i + 0.5) / steps * 16 - 8, a = u * size;
    double error = 0;
    if (std::fabs(a) > table.limit) {
      error = (std::fabs(a) - table.limit) * (std::fabs(a) - table.limit);
    } else {
      std::size_t q = 0;
      while (q + 2 < static_cast<std::size_t>(table.size()) && at(q + 1) <= a) ++q;
      error = (a - at(q)) * (at(q + 1) - a);
    }
    sum += error * std::exp(-u * u / 2);
  }
  return sum * 16 / steps * 0.3989422804014326779;
}

void compare_norms(sizes const& size) {
  constexpr std::size_t layer = 1024;
  hcomp::thc<> const codec({.transform = static_cast<int>(layer)});
  enum { each, whole, largest, strategies };
  double found[strategies] = {}, expected[strategies] = {};
  for (int trial = 0; trial < size.layouts; ++trial) {
    auto const number = static_cast<std::uint64_t>(trial);
    auto x = normal_vectors(1, size.values, 5000 + number)[0];
    baselines::randomness random(seed + 6000 + number);
    for (std::size_t first = 0; first < x.size(); first += layer) {
      auto const scale = static_cast<float>(std::pow(10, 3 * random.uniform() - 1.5));
      for (std::size_t i = first; i < first + layer; ++i) x[i] *= scale;
    }
    auto const own = hcomp::measure(codec, std::span<float const>(x));
    auto const of_whole = static_cast<float>(std::sqrt(energy(x) / static_cast<double>(x.size())));
    std::vector<std::uint32_t> norms[strategies] = {
        own, std::vector(own.size(), hcomp::same_bits<std::uint32_t>(of_whole)),
        std::vector(own.size(), *std::max_element(own.begin(), own.end()))};
    for (int strategy = 0; strategy < strategies; ++strategy) {
      hcomp::draw_key const key{.seed = seed, .step = number};
      found[strategy] += error_of(x, sent_alone(codec, x, key, 0, norms[strategy])) / size.layouts;
      for (std::size_t k = 0; k < own.size(); ++k) {
        double const unit = hcomp::same_bits<float>(norms[strategy][k]);
        expected[strategy] += error_at_size(codec.table(), hcomp::same_bits<float>(own[k]) / unit) *
                              unit * unit * static_cast<double>(layer) / energy(x) / size.layouts;
      }
    }
  }
  std::printf(
      "\nNorms: error of one vector of layers of 1024 values, their sizes spread over three\n"
      "powers of ten.\n\n| norm | expected | measured |\n|---|---|---|\n");
  char const* const names[strategies] = {"one per transform of 1024", "one, of the whole vector",
                                         "one, of the largest layer"};
  for (int strategy = 0; strategy < strategies; ++strategy)
    std::printf("| %s | %.4f | %.4f |\n", names[strategy], expected[strategy], found[strategy]);
}

// ---- Truncation

void compare_averages(sizes const& size) {
  std::printf(
      "\nTruncation: error of the average of K rotations of one vector.\n\n"
      "| K | 1/4096, expected | measured | 1/64, expected | measured |\n"
      "|---|---|---|---|---|\n");
  auto const x = normal_vectors(1, size.values, 7000)[0];
  hcomp::thc<> const codecs[] = {hcomp::thc<>({.truncation = 1.0 / 4096}), hcomp::thc<>()};
  vector sums[2] = {vector(x.size()), vector(x.size())};
  for (std::uint64_t k = 1; k <= size.rounds; ++k) {
    double found[2] = {};
    for (std::size_t strategy = 0; strategy < 2; ++strategy) {
      auto const y = sent_alone(codecs[strategy], x, {.seed = seed, .step = k}, 0);
      for (std::size_t i = 0; i < x.size(); ++i) sums[strategy][i] += y[i];
      if (k != 1 && k != 16 && k != 256) continue;
      auto average = sums[strategy];
      for (float& value : average) value /= static_cast<float>(k);
      found[strategy] = error_of(x, average);
    }
    auto const expected = [&](hcomp::thc<> const& codec) {
      double const stays = codec.truncation() * codec.truncation();  // of the total energy
      return stays + (expected_error(codec.table()) - stays) / static_cast<double>(k);
    };
    if (found[0] > 0)
      std::printf("| %d | %.6f | %.6f | %.6f | %.6f |\n", static_cast<int>(k), expected(codecs[0]),
                  found[0], expected(codecs[1]), found[1]);
  }
}

// ---- Signs

/// Residual after each round if every coordinate returns to its own place: the part beyond the
/// limit accumulates there. Coordinates are represented by the quantiles of their magnitudes.
std::vector<double> expected_with_the_same_signs(hcomp::thc_table const& table,
                                                 std::uint64_t rounds) {
  constexpr std::size_t count = 10000;
  std::vector<double> magnitude, left(count), residual;
  for (std::size_t i = 0; i < count; ++i)
    magnitude.push_back(
        hcomp::detail::thc::truncation_limit((static_cast<double>(i) + 0.5) / count));
  double rounding = 0;
  for (std::uint64_t t = 0; t < rounds; ++t) {
    double whole = rounding, beyond = 0;
    for (std::size_t i = 0; i < count; ++i)
      whole += (magnitude[i] + left[i]) * (magnitude[i] + left[i]) / count;
    for (std::size_t i = 0; i < count; ++i) {
      left[i] = std::max(magnitude[i] + left[i] - table.limit * std::sqrt(whole), 0.0);
      beyond += left[i] * left[i] / count;
    }
    rounding = table.rounding_error * whole;
    residual.push_back(beyond + rounding);
  }
  return residual;
}

void compare_signs(sizes const& size) {
  hcomp::thc<> const codec;
  double const p = codec.truncation(), delta = expected_error(codec.table());
  auto const expected = expected_with_the_same_signs(codec.table(), size.rounds);
  std::printf(
      "\nSigns: residual of error feedback where the gradient is the same in all rounds.\n\n"
      "| round | fresh signs, expected | measured | the same signs, expected | measured |\n"
      "|---|---|---|---|---|\n");
  auto const x = normal_vectors(1, size.values, 8000)[0];
  vector left[2] = {vector(x.size()), vector(x.size())};
  for (std::uint64_t round = 1; round <= size.rounds; ++round) {
    double found[2] = {};
    for (std::size_t strategy = 0; strategy < 2; ++strategy) {
      // Signs depend on the key; rounding also depends on the rank, so it is fresh with both
      // strategies.
      hcomp::draw_key const key{.seed = seed, .step = strategy == 0 ? round : 0};
      vector y(x.size());
      for (std::size_t i = 0; i < x.size(); ++i) y[i] = x[i] + left[strategy][i];
      auto const sent = sent_alone(codec, y, key, static_cast<int>(round));
      for (std::size_t i = 0; i < x.size(); ++i) left[strategy][i] = y[i] - sent[i];
      found[strategy] = energy(left[strategy]) / energy(x);
    }
    if (round == 8 || round == 32 || round == 256)
      std::printf("| %d | %.4f | %.4f | %.2f | %.2f |\n", static_cast<int>(round),
                  delta * (1 + 2 * p / (1 - p)) / (1 - delta), found[0], expected[round - 1],
                  found[1]);
  }
}

// ---- Sums rounded on every hop

/// A block of the sum of all vectors, reduced in the order of a schedule.
class block_sums {
 public:
  using code = std::vector<std::byte>;

  block_sums(hcomp::thc<> const& codec, int ranks, std::uint64_t key)
      : codec_(codec), ranks_(ranks), key_(key), norms_(codec.statistics_in(n), 0) {
    for (int rank = 0; rank < ranks; ++rank) {
      std::vector<std::uint32_t> words(norms_.size());
      codec_.measure_block(hcomp::simd_group{}, of(rank).data(), n, words.data());
      for (std::size_t i = 0; i < words.size(); ++i) norms_[i] = std::max(norms_[i], words[i]);
    }
  }

  static constexpr int n = 16384;

  /// Adds `count` ranks from `first` on, every `stride`th, in order, as on a ring.
  code chain(int first, int count, int stride, bool rounds) const {
    code sum = encoded(first);
    for (int k = 1; k < count; ++k) add(sum, encoded(first + k * stride), rounds, false);
    return sum;
  }
  /// Reduces each row on a ring, then adds the results of the rows.
  code torus(int rows, int columns, bool rounds) const {
    code sum = chain(0, columns, 1, rounds);
    for (int row = 1; row < rows; ++row)
      add(sum, chain(row * columns, columns, 1, rounds), rounds, false);
    return sum;
  }
  code recursive_doubling(int first, int count, bool rounds) const {
    if (count == 1) return encoded(first);
    code sum = recursive_doubling(first, count / 2, rounds);
    add(sum, recursive_doubling(first + count / 2, count / 2, rounds), rounds, true);
    return sum;
  }
  code rounded(code block, bool rounds) const {
    if (rounds) codec_.round_block(hcomp::simd_group{}, block.data());
    return block;
  }
  /// The error of rounding, relative to the energy.
  double error(code const& rounded, code const& exact) const {
    vector x(n), y(n);
    codec_.decode_block(hcomp::simd_group{}, exact.data(), n, x.data(), hcomp::reduce_op::sum);
    codec_.decode_block(hcomp::simd_group{}, rounded.data(), n, y.data(), hcomp::reduce_op::sum);
    return distance(x, y) / n / ranks_;
  }

 private:
  /// The vector of a rank, with variance 1.
  vector of(int rank) const {
    return normal_vectors(1, n, 9000 + key_ * 5000 + static_cast<std::uint64_t>(rank))[0];
  }
  code encoded(int rank) const {
    code block(codec_.block_bytes(n));
    codec_.encode_block(hcomp::simd_group{}, of(rank).data(), n, block.data(),
                        {key_, static_cast<std::uint32_t>(rank), 1, 0, norms_.data()});
    return block;
  }
  void add(code& sum, code other, bool rounds, bool both) const {
    sum = rounded(std::move(sum), rounds);
    if (both) other = rounded(std::move(other), rounds);
    codec_.merge_block(hcomp::simd_group{}, sum.data(), other.data());
  }

  hcomp::thc<> codec_;
  int ranks_;
  std::uint64_t key_;
  std::vector<std::uint32_t> norms_;
};

void compare_settings(sizes const& size) {
  std::printf(
      "\nSums rounded on their way (hop_bits): what is lost besides the %.4f of exact sums, as a\n"
      "share of the energy of the sum of independent vectors; expected / measured.\n\n"
      "| ranks | bits | exact sums have | ring | torus | recursive_doubling | direct |\n"
      "|---|---|---|---|---|---|---|\n",
      expected_error(hcomp::thc<>().table()));
  for (int const ranks : size.values > 4096 ? std::vector{64, 256, 1024} : std::vector{16})
    for (int const bits : {8, 10, 12}) {
      auto const weight = static_cast<std::uint32_t>(ranks);
      auto const codec = hcomp::thc<>({.hop_bits = bits}).fitted(weight);
      int const exact_bits = hcomp::thc<>().fitted(weight).narrow_bits(weight);
      if (bits >= exact_bits) continue;
      int const side = 1 << std::bit_width(weight) / 2, other = ranks / side;
      block_sums const sums(codec, ranks, static_cast<std::uint64_t>(bits));
      auto const exact = sums.chain(0, ranks, 1, false);
      auto const cell = [&](char const* how, block_sums::code const& sum) {
        std::printf(" %.2g / %.2g |", hop_error(codec, hcomp::algorithm::from(how), ranks),
                    sums.error(sum, exact));
      };
      std::printf("| %d | %d | %d |", ranks, bits, exact_bits);
      cell("ring", sums.rounded(sums.chain(0, ranks, 1, true), true));
      cell(("torus:" + std::to_string(other) + "x" + std::to_string(side)).c_str(),
           sums.rounded(sums.torus(other, side, true), true));
      cell("recursive_doubling", sums.recursive_doubling(0, ranks, true));
      cell("direct", sums.rounded(exact, true));
      std::printf("\n");
    }
}

}  // namespace

int main(int argc, char** argv) {
  sizes size;
  for (int i = 1; i < argc; ++i)  // for ctest, which only checks that the program works
    if (std::strncmp(argv[i], "--benchmark", 11) == 0) size = {4096, 1, 1, 16};
  compare_granularities(size);
  compare_norms(size);
  compare_averages(size);
  compare_signs(size);
  compare_settings(size);
}
