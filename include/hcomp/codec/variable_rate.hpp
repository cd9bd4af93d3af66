#pragma once
/// @file
/// What a codec is whose codes have a length that depends on the data.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace hcomp {

/// A codec of vectors of floats, doubles or integers whose code has a length that depends on the
/// data: a small value, its parameters, equal on all ranks. Of integers there are no means.
///
/// A code is a header, a table of where every chunk begins, and the chunks (codec/detail/
/// chunked_code.hpp). `capacity(n)` is the most bytes that n values can take, known without them.
/// Values are encoded one by one: what becomes of a value depends on no other but those of its
/// chunk, and not at all on where a vector is cut. NaN and infinity come out as NaN or infinity.
///
/// `coder()` works on single chunks, with a group of any number of workers, on CPUs and GPUs alike;
/// overloads for simd_group are as fast as a CPU can. It is copied to devices.
/// - `encode_chunk(group, from, i, out, room, note)` returns its bytes and adds to `note` what the
///   end of the code has to know; a group of several workers overwrites it. Workers that share memory
///   take a function for `out`, too, which they call together when they know the bytes: out(bytes) is
///   the place.
/// - `finish(group, from, notes, count, bytes, out, outcome)` makes the rest of the header of them.
/// - Where `joins_notes` is there and true, `joined(group, notes, count)` is one note for many.
/// - `decode_chunk(group, in, i, values, addends, divided_by, out)`, of sound codes
/// - `nonfinite_in_chunk(group, in, i, values)`: a bit for every 64 values
/// - `is_chunk(group, chunk, bytes, n)` reads only those bytes, whatever they say.
/// - `scratch_bytes(codes)` of memory workers share while so many chunks are read or made.
/// - Where warps of a group are to work on a chunk each: `chunks_at_once`, of a block, and
///   `planned_chunk<Warp>(coder, warp, chunk)`, which puts one together at `chunk`, in the scratch
///   memory: `plan(from, i)` returns its bytes, then `put()` makes it; no note is taken.
/// - `blocks_at_once(codes)`, if it is there, goes to the executor.
///
/// `header_type::of(options(), values)` is a header without its length. One that came is `checked`
/// by itself, and `require(options, values)` throws wire_error if it is not of the same parameters
/// and as many values. `bytes_of(outcome)` says how long a code is, or throws wire_error if there
/// is none. Codecs inherit variable_rate_codec, which does whole vectors in the calling thread:
/// `check(in, n)` and others. variable_rate_coder does them with an executor.
template <class C>
concept VariableRate = std::copyable<C> &&
    requires(C const c, typename C::header_type header, typename C::coder_type::outcome made,
             std::span<std::byte const> in, std::size_t n) {
  requires std::floating_point<typename C::value_type> || std::integral<typename C::value_type>;
  { C::name } -> std::convertible_to<std::string_view>;           // messages
  { C::codec_id } -> std::convertible_to<std::uint8_t>;           // on the wire
  { c.parameters().size() } -> std::convertible_to<std::size_t>;  // doubles, at most 4
  { C::capacity(n) } -> std::same_as<std::size_t>;
  { c.coder() } -> std::convertible_to<typename C::coder_type>;
  { C::header_type::of(c.options(), n) } -> std::same_as<typename C::header_type>;
  { C::header_type::checked(header, n) } -> std::same_as<typename C::header_type>;
  { header.require(c.options(), n) } -> std::same_as<void>;
  { c.bytes_of(made) } -> std::same_as<std::size_t>;
  { c.check(in, n) } -> std::same_as<void>;
};

/// A codec that can be fitted to how large values are.
///
/// The largest of all ranks' `measure(x)` is what `fitted(largest, ranks)` makes a codec of, for
/// sums over so many ranks. NaN and infinity must not spoil it. A plan does so in every call if
/// `fits_calls()`. `measure_work{values, chunks per block, x, found}` measures for an executor: of
/// every block what `measure` says of its chunks. Of a BoundedVariableRate, `needs_fine_for(
/// largest)` says of what was fitted to it that it needs fine().
template <class C>
concept FittedVariableRate = VariableRate<C> &&
    requires(C const c, std::span<typename C::value_type const> x, std::uint32_t largest,
             int ranks) {
  typename C::measure_work;
  { C::measure(x) } -> std::same_as<std::uint32_t>;
  { c.fitted(largest, ranks) } -> std::same_as<C>;
  { c.fits_calls() } -> std::same_as<bool>;
};

/// A codec whose codes are added as they are: its coder encodes sums of two codes, too.
template <class C>
concept MergingVariableRate = VariableRate<C> &&
    requires(C const c, std::span<std::byte const> a, std::span<std::byte const> b,
             std::span<std::byte> out) {
  { c.merge(a, b, out) } -> std::same_as<std::size_t>;
};

/// A codec of sums that are off by no more than a bound, which the ranks share.
///
/// `fitted(ranks)` has the same `bound()` for the sum of so many; `error_of(in, parts)` is how far
/// off the values of a code are at most, the rounding to float included, divided by `parts` unless
/// that is 0. Where `needs_fine(in)`, some value of some rank was not of a size that the bound
/// holds for, as `needs_fine(value)` says of one, and what `fine()` encodes is to be summed
/// instead; it has `error_of`, too.
template <class C>
concept BoundedVariableRate = MergingVariableRate<C> &&
    MergingVariableRate<typename C::fallback_type> &&
    requires(C const c, typename C::fallback_type const fallback, std::uint32_t ranks, int parts,
             std::span<std::byte const> in, typename C::value_type value) {
  { c.fitted(ranks) } -> std::same_as<C>;
  { c.bound() } -> std::same_as<double>;
  { c.error_of(in, parts) } -> std::same_as<double>;
  { C::needs_fallback(in) } -> std::same_as<bool>;
  { c.needs_fallback(value) } -> std::same_as<bool>;
  { c.fallback() } -> std::same_as<typename C::fallback_type>;
  { fallback.error_of(in, parts) } -> std::same_as<double>;
};

}  // namespace hcomp
