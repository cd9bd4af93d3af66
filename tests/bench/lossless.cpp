// lossless on one thread, compared with reading the same values from memory (coded_vectors.hpp),
// and compression ratios of one rank's vector and of the sum of two. Target: 4.0 times the time of
// reading.
//
//   bench_lossless --benchmark_repetitions=5 --benchmark_min_time=0.05

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <hcomp/codec/lossless/lossless.hpp>
#include <hcomp/core/random.hpp>
#include <memory>
#include <string>
#include <support/error_bounded.hpp>
#include <vector>

#include "coded_vectors.hpp"
#include "paired.hpp"

namespace {

enum class kind { gradient, smooth, floats };

template <class T> std::vector<T> values_of(kind what, std::uint64_t seed) {
  std::vector<T> x(bench::values);
  for (std::size_t i = 0; i < x.size(); ++i) {
    double const random = bounded_values::laplace(seed, i), at = static_cast<double>(i);
    x[i] = static_cast<T>(what == kind::gradient ? random
                          : what == kind::smooth
                              ? 300 + 5 * std::sin(0.01 * at + static_cast<double>(seed))
                              : static_cast<double>(static_cast<float>(random)));
  }
  return x;
}

template <class T> void add(char const* level, std::vector<std::function<void()>>& report) {
  using vectors = bench::coded_vectors<hcomp::lossless<T>>;
  struct {
    kind what;
    char const* name;
  } const inputs[] = {{kind::gradient, "Laplace gradient"},
                      {kind::smooth, "smooth field"},
                      {kind::floats, "floats"}};
  for (auto const& [what, name] : inputs) {
    if (sizeof(T) == 4 && what == kind::floats) continue;  // equals the gradient
    auto const s =
        std::make_shared<vectors>(vectors{name, {}, values_of<T>(what, 1), values_of<T>(what, 2)});
    bench::add_coding<hcomp::lossless<T>>(s, s->codec, level);
    report.push_back([s, level] { bench::print_ratios(*s, level); });
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::function<void()>> report;
  add<float>("floats", report);
  add<double>("doubles", report);
  int const failed =
      bench::run(argc, argv, "Time of lossless / time of reading; values per second");
  for (auto const& line : report) line();
  return failed;
}
