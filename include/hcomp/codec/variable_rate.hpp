#pragma once
/// @file
/// The concept VariableRate: codecs whose encoded length depends on the data.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace hcomp {

/// A codec of vectors of floats, doubles or integers whose encoded length depends on the data: a
/// small value that holds its parameters, equal on all ranks. Integers have no means.
///
/// An encoded vector is a header, a table of chunk offsets, and the chunks
/// (codec/detail/chunked_encoding.hpp). `capacity(n)` is an upper bound on its bytes for n values,
/// independent of the data. The result for a value depends only on the values of its chunk, not on
/// how the vector is divided. NaN and infinity decode to NaN or infinity.
///
/// `coder()` encodes and decodes single chunks, with a group of any number of workers, on CPUs and
/// GPUs alike; overloads for simd_group are vectorized. It is copied to devices.
/// - `encode_chunk(group, from, i, out, capacity, note)` writes chunk i to the `capacity` bytes at
///   `out`, returns the chunk's bytes, and adds to `note` the information that `finish` needs. A
///   group of several workers overwrites `note`. With workers that share memory, `out` may also be
///   a function: all workers call out(bytes) once the size is known, and it returns the
///   destination.
/// - `finish(group, from, notes, count, bytes, out, outcome)` completes the header from the notes.
/// - `joined(group, notes, count)` combines many notes into one, if `joins_notes` exists and is
///   true.
/// - `decode_chunk(group, in, i, values, addends, divided_by, out)` requires a valid encoded
///   vector.
/// - `nonfinite_in_chunk(group, in, i, values)` returns one bit per 64 values.
/// - `is_chunk(group, chunk, bytes, n)` validates a chunk and reads only its bytes, whatever they
///   contain.
/// - `scratch_bytes(inputs)` is the shared memory that workers need to read or write this number of
///   chunks.
/// - `chunks_at_once` (optional) is the number of chunks of a thread block, one per warp.
///   `planned_chunk<Warp>(coder, warp, chunk)` then assembles a chunk at `chunk` in scratch memory:
///   `plan(from, i)` returns its bytes, `put()` writes it. It takes no note.
/// - `blocks_at_once(inputs)` (optional) is passed to the executor.
///
/// `header_type::of(options(), values)` is a header without its length. `checked` validates a
/// received header by itself; `require(options, values)` throws wire_error if its parameters or its
/// number of values differ. `bytes_of(outcome)` returns the encoded length, or throws wire_error if
/// encoding failed. Codecs inherit variable_rate_codec, which processes complete vectors in the
/// calling thread, for example `check(in, n)`. variable_rate_coder does the same with an executor.
template <class C>
concept VariableRate = std::copyable<C> &&
    requires(C const c, typename C::header_type header, typename C::coder_type::outcome made,
             std::span<std::byte const> in, std::size_t n) {
  requires std::floating_point<typename C::value_type> || std::integral<typename C::value_type>;
  { C::name } -> std::convertible_to<std::string_view>;           // for messages
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

/// A codec that can be fitted to the magnitude of the values.
///
/// The caller reduces `measure(x)` to its maximum over all ranks and passes it to `fitted(largest,
/// ranks)`, which returns a codec for a sum over `ranks` ranks. NaN and infinity must not affect
/// the measure. A plan does this in every call if `fits_calls()`. `measure_work{values, chunks per
/// block, x, found}` is the same for an executor: it writes one measure per block of chunks. For a
/// BoundedVariableRate, `needs_fallback_for(largest)` returns whether the codec fitted to `largest`
/// needs fallback().
template <class C>
concept FittedVariableRate = VariableRate<C> &&
    requires(C const c, std::span<typename C::value_type const> x, std::uint32_t largest,
             int ranks) {
  typename C::measure_work;
  { C::measure(x) } -> std::same_as<std::uint32_t>;
  { c.fitted(largest, ranks) } -> std::same_as<C>;
  { c.fits_calls() } -> std::same_as<bool>;
};

/// A codec whose encoded vectors can be added: its coder also encodes the sum of two encoded
/// vectors.
template <class C>
concept MergingVariableRate = VariableRate<C> &&
    requires(C const c, std::span<std::byte const> a, std::span<std::byte const> b,
             std::span<std::byte> out) {
  { c.merge(a, b, out) } -> std::same_as<std::size_t>;
};

/// A codec whose sums have an error bound that all ranks share.
///
/// `fitted(ranks)` has the same `bound()` for a sum over this number of ranks. `error_of(in,
/// parts)` is an upper bound on the error of the decoded values, rounding to float included; it is
/// divided by `parts` unless that is 0. `needs_fallback(value)` returns whether the bound cannot
/// hold for a value of this magnitude. `needs_fallback(in)` returns whether some rank had such a
/// value; the sum must then use the codec `fallback(mean)`, which has `error_of` as well.
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
  { c.fallback(true) } -> std::same_as<typename C::fallback_type>;
  { fallback.error_of(in, parts) } -> std::same_as<double>;
};

}  // namespace hcomp
