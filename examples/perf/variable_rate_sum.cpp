#include "variable_rate_sum.hpp"

#include <fmt/core.h>

#include <cmath>

namespace perf {
namespace {

std::string about_bits(std::string const& codec, double bits) {
  return fmt::format("{} sent {:.1f} bits per value and hop", codec, bits);
}

}  // namespace

std::string about_sum(std::string const& codec, double bits, hcomp::inceptionn const& fitted,
                      hcomp::report const&) {
  return about_bits(codec, bits) + fmt::format(", prescaled by 2^{}", fitted.options().prescale);
}
std::string about_sum(std::string const& codec, double bits, hcomp::error_bounded const&,
                      hcomp::report const& figures) {
  return about_bits(codec, bits) + fmt::format(", integers off by up to {:.2g}", figures.error);
}

promise promise_of(hcomp::error_bounded const& codec, bool mean) {
  auto const& options = codec.options();
  double const parts = mean ? options.ranks : 1;
  double const largest_integer = (std::ldexp(1.0, options.magnitude_bits) - 1) * codec.step();
  double const roundings = options.ranks;  // of as many sums to float
  return {{}, false, [=](double magnitude) {
            double const by_floats = magnitude * parts > largest_integer ? roundings : 0;
            double const by_division = mean ? 2 : 0;
            return options.bound / parts +
                   (by_floats + by_division) * rounding<float>() * magnitude;
          }};
}

}  // namespace perf
