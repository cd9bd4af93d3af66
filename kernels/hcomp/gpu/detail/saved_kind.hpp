#pragma once
/// @file
/// What a host class calls its saved states.

#include <cstdint>
#include <hcomp/core/bits.hpp>
#include <hcomp/feedback/detail/saved_state.hpp>

namespace hcomp::gpu::detail {

/// The kind of state that objects of class `State` save, by asking one of them.
template <class State> std::uint16_t saved_kind() {
  return load<hcomp::detail::saved_state_header>(State(0).save().data()).kind;
}

}  // namespace hcomp::gpu::detail
