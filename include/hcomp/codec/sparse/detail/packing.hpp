#pragma once
/// @file
/// Common parts of all sparse codecs: settings, checks, and packing the values of an index.

#include <cstddef>
#include <cstdint>
#include <hcomp/codec/compressor.hpp>
#include <hcomp/codec/sparse/detail/index_words.hpp>
#include <hcomp/codec/sparse/detail/lane_numbers.hpp>
#include <hcomp/codec/sparse/index.hpp>
#include <hcomp/core/detail/error_text.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/core/group.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

namespace hcomp {

/// Settings of the sparse codecs; equal on all ranks.
struct sparse_options {
  std::uint32_t ranks = 1;  ///< number of ranks; fixed point reserves bits for it
  reduce_op op = reduce_op::sum;
  /// Floats only. Unless throw_error, values pass unchanged, and NaN and infinity appear where a
  /// plain sum has them. Fixed point cannot carry them and always throws.
  nonfinite_policy nonfinite = nonfinite_policy::throw_error;
};

namespace detail::sparse {

/// Marked values of a vector, and the number of marks before each word.
struct marked_values {
  std::span<std::uint64_t const> marks;
  std::span<std::uint32_t const> marks_before;
};
inline marked_values marked_by(sparse_index const& index) {
  return {index.marks(), index.marks_before()};
}

/// @throws nonfinite_error  always; on all ranks alike
[[noreturn]] inline void refuse_nonfinite(std::string_view codec) {
  throw nonfinite_error(error_text({codec, ": NaN or infinity on some rank; x is unchanged"}));
}

/// Returns the conversion of values to lanes on which the ranks agree.
/// @param exponent  the largest of all ranks
/// @throws nonfinite_error        according to options.nonfinite; on all ranks alike
/// @throws std::invalid_argument  no ranks
template <class Lane>
lane_numbers<Lane> agreed_numbers(char const* name, std::uint32_t exponent,
                                  sparse_options const& options) {
  if (options.ranks == 0)
    throw std::invalid_argument(error_text({name, ": 0 ranks to be summed, at least 1 is needed"}));
  if (exponent == nonfinite_exponent &&
      (!lane_numbers<Lane>::pass_nonfinite || options.nonfinite == nonfinite_policy::throw_error))
    refuse_nonfinite(name);
  return {exponent, options.ranks,
          options.op == reduce_op::mean ? options.ranks : std::uint32_t{1}};
}
template <class Lane>
lane_numbers<Lane> agreed_numbers(char const* name, sparse_index const& index,
                                  sparse_options const& options) {
  return agreed_numbers<Lane>(name, index.exponent(), options);
}

inline void require_lanes(char const* name, std::size_t values, std::size_t united,
                          std::size_t given, std::size_t needed) {
  if (values != united)
    throw std::invalid_argument(
        error_text({name, ": ", values, " values, but the ranks' index is of ", united}));
  if (given != needed)
    throw std::invalid_argument(
        error_text({name, ": ", given, " lanes for ", values, " values, ", needed, " are needed"}));
}

/// Returns x[i] as a lane.
/// @throws std::invalid_argument  x[i] is larger than all marked values
template <class Lane>
Lane checked_lane(char const* name, lane_numbers<Lane> const& numbers, float const* x,
                  std::size_t i) {
  if (!numbers.can_represent(x[i]))
    throw std::invalid_argument(
        error_text({name, ": value ", i, " is ", x[i],
                    ", larger than all that were marked; has x changed since?"}));
  return numbers.lane(x[i]);
}

/// Writes this rank's values as lanes at the positions of the index; 0 where only other ranks have
/// one.
template <class Lane, class Index>
void pack_own(lane_numbers<Lane> const& numbers, Index const& index, std::span<Lane> out) {
  index.own().spread(index.marks(), index.marks_before(), out,
                     [&](float value) { return numbers.lane(value); });
}

/// Packs the marked values, in order.
template <class Lane>
void pack_values(char const* name, lane_numbers<Lane> const& numbers, marked_values const& which,
                 float const* x, Lane* out) {
  for_marked(simd_group{}, which.marks.data(), which.marks.size(), which.marks_before.data(),
             [&](std::size_t value, std::size_t place) {
               out[place] = checked_lane(name, numbers, x, value);
             });
}

/// The inverse of pack_values; unmarked values become 0.
template <class Lane>
void unpack_values(lane_numbers<Lane> const& numbers, marked_values const& which, Lane const* in,
                   std::span<float> x) {
  unpack_marked(simd_group{}, which.marks.data(), x.size(), which.marks_before.data(), x.data(),
                [&](std::size_t place) { return numbers.value(in[place]); });
}

}  // namespace detail::sparse
}  // namespace hcomp
