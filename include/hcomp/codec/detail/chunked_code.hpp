#pragma once
/// @file
/// Codes of variable rate: a header, a table of where every chunk begins (4 bytes each), and the
/// chunks. What is the same for all of them, chunk by chunk with any group, and for whole vectors
/// in the calling thread.

#include <cstddef>
#include <cstdint>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/core/group.hpp>
#include <hcomp/core/simd.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace hcomp::detail {

/// What becomes a code: what code `a` holds, or x if there is none, and added to it what code `b`
/// holds, if there is one. Codes are sound, and on devices at multiples of 4.
template <class T> struct code_sources {
  std::size_t values;
  T const* x = nullptr;
  std::byte const* a = nullptr;
  std::byte const* b = nullptr;
};

template <class Header> HCOMP_HD constexpr std::size_t chunks_of(std::size_t values) {
  return (values + Header::chunk_values - 1) / Header::chunk_values;
}
/// Values of chunk i of `values`.
template <class Header>
HCOMP_HD constexpr std::size_t values_of_chunk(std::size_t i, std::size_t values) {
  std::size_t const left = values - i * Header::chunk_values;
  return left < Header::chunk_values ? left : Header::chunk_values;
}
/// Where the first of so many chunks begins.
template <class Header> HCOMP_HD constexpr std::size_t first_chunk_at(std::size_t chunks) {
  return sizeof(Header) + chunks * sizeof(std::uint32_t);
}

/// Bytes of a code.
struct code_part {
  std::size_t begin, end;
};
/// What a code's table says of chunk i of `chunks`, and its header of the last.
template <class Header>
HCOMP_HD code_part part_of_code(std::byte const* in, std::size_t i, std::size_t chunks) {
  std::byte const* const begins = in + sizeof(Header);
  return {load_aligned<std::uint32_t>(begins, i),
          i + 1 < chunks ? load_aligned<std::uint32_t>(begins, i + 1)
                         : static_cast<std::size_t>(load_aligned<Header>(in).bytes)};
}

/// @throws wire_error  `given` bytes are less than a header
template <class Header> void require_header(std::size_t given) {
  if (given < sizeof(Header))
    Header::refuse(std::to_string(given) + " bytes, the header has " +
                   std::to_string(sizeof(Header)));
}
/// The header of a code, behind which there may be other bytes.
/// @throws wire_error  it is none, or bytes of the code are missing
template <class Header> Header header_of_code(std::span<std::byte const> in) {
  require_header<Header>(in.size());
  return Header::checked(load<Header>(in.data()), in.size());
}
/// @param values, bytes  of the code
/// @throws wire_error  always: chunk i is not sound
template <class Header>
[[noreturn]] void refuse_chunk(std::size_t i, std::size_t values, code_part part,
                               std::size_t bytes) {
  Header::refuse(
      "chunk " + std::to_string(i) + " of " + std::to_string(values_of_chunk<Header>(i, values)) +
      " values, bytes " + std::to_string(part.begin) + " to " + std::to_string(part.end) + " of " +
      std::to_string(bytes) + ": its " + Header::chunks_are_of + " or neighbours say otherwise");
}

/// Makes chunks `first` to `end` of a code, one behind the other from byte `at` of `out` on, and
/// what the table says of them. Returns where they end.
/// @param limit  where bytes of `out` end that may be overwritten
/// @param note   what is found out is added to it
template <class Group, class Coder>
std::size_t encode_run(Group group, Coder const& coder,
                       code_sources<typename Coder::value_type> const& from, std::size_t first,
                       std::size_t end, std::byte* out, std::size_t at, std::size_t limit,
                       typename Coder::note& note) {
  for (std::size_t i = first; i < end; ++i) {
    store(out + sizeof(typename Coder::header), i, static_cast<std::uint32_t>(at));
    at += coder.encode_chunk(group, from, i, out + at, limit - at, note);
  }
  return at;
}

/// Whether chunk i of a code of `values` values can be one and is in its place; the same to all
/// workers. Reads nothing beyond the code.
/// @param bytes  of the code, as its header says; no less than its table
template <class Group, class Coder>
HCOMP_HD bool is_sound_chunk(Group group, Coder const& coder, std::byte const* in, std::size_t i,
                             std::size_t values, std::size_t bytes) {
  using header = typename Coder::header;
  std::size_t const chunks = chunks_of<header>(values), front = first_chunk_at<header>(chunks);
  auto const part = part_of_code<header>(in, i, chunks);
  return (i == 0 ? part.begin == front : part.begin >= front) && part.begin <= part.end &&
         part.end <= bytes && part.end - part.begin <= header::slot_bytes &&
         coder.is_chunk(group, in + part.begin, part.end - part.begin,
                        values_of_chunk<header>(i, values));
}

/// Where there is NaN or infinity among n values, at most 4096: a bit for every 64.
template <class T> std::uint64_t nonfinite_runs(T const* x, std::size_t n) {
  std::uint64_t runs = 0;
  for (std::size_t first = 0; first < n; first += 64) {
    bool finite = true;
    for (std::size_t i = first; i < n && i < first + 64; ++i) finite &= is_finite(x[i]);
    runs |= std::uint64_t{!finite} << first / 64;
  }
  return runs;
}

// ---- Whole vectors, in the calling thread. Codes may begin anywhere.
// ------------------------------

/// @throws std::invalid_argument  too many values, or less bytes than they can take
/// @param where  a class, with its colons
template <class C>
void require_room(std::string const& where, char const* who, std::size_t values,
                  std::size_t bytes) {
  if (values > C::max_values || bytes < C::capacity(values))
    throw std::invalid_argument(where + who + ": " + std::to_string(bytes) + " bytes for " +
                                std::to_string(values) + " values; it takes " +
                                std::to_string(C::capacity(values)) + ", for at most " +
                                std::to_string(C::max_values));
}

/// Returns the bytes of the code.
/// @throws wire_error             it cannot be made; `out` is of no use then
/// @throws std::invalid_argument  as require_room
template <class C>
std::size_t encode_code(char const* who, C const& codec,
                        code_sources<typename C::value_type> const& from,
                        std::span<std::byte> out) {
  using coder = typename C::coder_type;
  using header = typename coder::header;
  require_room<C>(std::string(C::name) + "::", who, from.values, out.size());
  auto front = header::of(codec.options(), from.values);
  typename coder::note note{};
  front.bytes = encode_run(simd_group{}, codec.coder(), from, 0, front.chunks, out.data(),
                           first_chunk_at<header>(front.chunks), out.size(), note);
  store(out.data(), 0, front);
  typename coder::outcome made;
  codec.coder().finish(simd_group{}, from, &note, 1, front.bytes, out.data(), made);
  return codec.bytes_of(made);
}

/// @throws wire_error  not a code of `values` values by the same parameters, or damaged
template <class C>
void check_code(C const& codec, std::span<std::byte const> in, std::size_t values) {
  using header = typename C::coder_type::header;
  auto const front = header_of_code<header>(in);
  front.require(codec.options(), values);
  std::size_t const chunks = front.chunks;
  for (std::size_t i = 0; i < chunks; ++i) {
    if (i + 4 < chunks) {  // where the next are, processors do not guess
      std::size_t const next = part_of_code<header>(in.data(), i + 4, chunks).begin;
      for (std::size_t line = 0; line < 256; line += 64) prefetch(in.data(), next + line);
    }
    if (!is_sound_chunk(simd_group{}, codec.coder(), in.data(), i, values, front.bytes))
      refuse_chunk<header>(i, values, part_of_code<header>(in.data(), i, chunks), front.bytes);
  }
}

/// out = addends, which may be there or null, and what `in` holds.
/// @throws wire_error  as check_code; `out` is unchanged
template <class C>
void decode_code(C const& codec, std::span<std::byte const> in,
                 typename C::value_type const* addends, std::span<typename C::value_type> out) {
  using header = typename C::coder_type::header;
  check_code(codec, in, out.size());
  for (std::size_t i = 0; i < chunks_of<header>(out.size()); ++i)
    codec.coder().decode_chunk(simd_group{}, in.data(), i, out.size(), addends,
                               typename C::value_type{0}, out.data());
}

}  // namespace hcomp::detail
