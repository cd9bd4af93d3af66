#pragma once
/// @file
/// The algorithms of each codec.

#include <hcomp/codec/compressor.hpp>
#include <hcomp/codec/device_hints.hpp>
#include <hcomp/codec/sparse.hpp>
#include <hcomp/codec/variable_rate.hpp>
#include <hcomp/collective/schedule/algorithm.hpp>
#include <hcomp/core/detail/error_text.hpp>
#include <stdexcept>
#include <string_view>

namespace hcomp::detail {

/// The algorithms of plans of C.
template <class C> constexpr algorithm_set algorithms_of() {
  auto some = algorithm_set::merging();
  if constexpr (VariableRate<C>) some.remove(algorithm_kind::recursive_doubling);
  if constexpr (SampledSign<C>) some.add(algorithm_kind::sampled);
  return some;
}

/// The algorithm of a plan of C without options.
template <class C>
inline constexpr algorithm_kind usual_algorithm =
    Sparse<C> ? algorithm_kind::direct : algorithm_kind::ring;

/// @throws std::invalid_argument  the codec does not support the algorithm
[[gnu::cold]] inline void require_algorithm(std::string_view codec, algorithm_set has,
                                            algorithm const& how) {
  if (how.hierarchical)
    throw std::invalid_argument(error_text(
        {"plan: algorithm '", how.name(), "' needs to know nodes; hcomp::node::make_plan does"}));
  if (!has.contains(how.kind))
    throw std::invalid_argument(error_text(
        {"plan: codec '", codec, "' has no algorithm '", how.name(), "'; it has: ", has.names()}));
}

}  // namespace hcomp::detail
