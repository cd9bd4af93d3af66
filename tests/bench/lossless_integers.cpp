// lossless_integers on one thread, compared with reading the same values from memory
// (coded_vectors.hpp), and compression ratios of one rank's vector and of the sum of two.
//
//   bench_lossless_integers --benchmark_repetitions=5 --benchmark_min_time=0.05

#include <cstdint>
#include <functional>
#include <hcomp/codec/lossless_integers/lossless_integers.hpp>
#include <memory>
#include <string>
#include <support/integers.hpp>
#include <vector>

#include "coded_vectors.hpp"
#include "paired.hpp"

namespace {

template <class T> void add(char const* level, std::vector<std::function<void()>>& report) {
  using vectors = bench::coded_vectors<hcomp::lossless_integers<T>>;
  struct {
    int kind;
    char const* name;
  } const inputs[] = {{0, "counts below 100"}, {4, "indexes"}, {1, "of any bits"}};
  for (auto const& [kind, name] : inputs) {
    auto const of_rank = [&, kind = kind](std::uint64_t rank) {
      return hcomp::testing::integers_of_kind<T>(kind, bench::values, rank);
    };
    auto const s = std::make_shared<vectors>(vectors{name, {}, of_rank(1), of_rank(2)});
    bench::add_coding<hcomp::lossless_integers<T>>(s, s->codec, level);
    report.push_back([s, level] { bench::print_ratios(*s, level); });
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::function<void()>> report;
  add<std::int32_t>("32 bits", report);
  add<std::int64_t>("64 bits", report);
  int const failed =
      bench::run(argc, argv, "Time of lossless_integers / time of reading; values per second");
  for (auto const& line : report) line();
  return failed;
}
