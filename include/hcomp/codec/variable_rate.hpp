#pragma once
/// @file
/// What a codec is whose codes have a length that depends on the data.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace hcomp {

/// A codec of whole vectors of floats: a small value, its parameters, equal on all ranks.
///
/// `capacity(n)` is the most bytes that n values can take, known without them; `encode` returns how
/// many they took. Values are encoded one by one: what becomes of a value depends on no other, so
/// that it does not matter where a vector is cut. NaN and infinity come out as NaN or infinity.
/// `decode_add(in, sums)` adds to sums; `decode_add_encode(in, x, out)` is a hop of a ring: x and
/// what `in` holds, added and encoded. All that read throw wire_error, and change nothing, if `in`
/// is not the code of as many values by the same parameters; `check(in, n)` does only that. They
/// must read nothing beyond `in`, whatever it says.
template <class C>
concept VariableRate = std::copyable<C> &&
    requires(C const c, std::span<float const> x, std::span<float> sums,
             std::span<std::byte const> in, std::span<std::byte> out, std::size_t n) {
  requires std::same_as<typename C::value_type, float>;
  { C::name } -> std::convertible_to<std::string_view>;           // messages
  { C::tag } -> std::convertible_to<std::uint8_t>;                // on the wire
  { c.parameters().size() } -> std::convertible_to<std::size_t>;  // doubles, at most 4
  { c.capacity(n) } -> std::same_as<std::size_t>;
  { c.encode(x, out) } -> std::same_as<std::size_t>;
  { c.decode(in, sums) } -> std::same_as<void>;
  { c.decode_add(in, sums) } -> std::same_as<void>;
  { c.decode_add_encode(in, x, out) } -> std::same_as<std::size_t>;
  { c.check(in, n) } -> std::same_as<void>;
};

/// A codec that can be fitted to how large values are.
///
/// The largest of all ranks' `measure(x)` is what `fitted(largest, ranks)` makes a codec of, for
/// sums over so many ranks. NaN and infinity must not spoil it. A plan does so in every call if
/// `fits_calls()`.
template <class C>
concept FittedVariableRate = VariableRate<C> &&
    requires(C const c, std::span<float const> x, std::uint32_t largest, int ranks) {
  { C::measure(x) } -> std::same_as<std::uint32_t>;
  { c.fitted(largest, ranks) } -> std::same_as<C>;
  { c.fits_calls() } -> std::same_as<bool>;
};

/// A codec whose codes are added as they are: `merge(a, b, out)` is decode_add_encode of two codes.
template <class C>
concept MergingVariableRate = VariableRate<C> &&
    requires(C const c, std::span<std::byte const> a, std::span<std::byte const> b,
             std::span<std::byte> out) {
  { c.merge(a, b, out) } -> std::same_as<std::size_t>;
};

/// A codec of sums that are off by no more than a bound, which the ranks share.
///
/// `fitted(ranks)` has the same bound for the sum of so many; `error_of(in)` is how far off the
/// values of a code are at most.
template <class C>
concept BoundedVariableRate = MergingVariableRate<C> &&
    requires(C const c, std::uint32_t ranks, std::span<std::byte const> in) {
  { c.fitted(ranks) } -> std::same_as<C>;
  { C::error_of(in) } -> std::same_as<double>;
};

}  // namespace hcomp
