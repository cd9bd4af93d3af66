#pragma once
/// @file
/// Format of variable-rate codecs: a header, a table of chunk offsets (4 bytes each), and the
/// chunks. The parts here are common to all of these codecs, chunk by chunk with any group, and for
/// complete vectors in the calling thread.

#include <cstddef>
#include <cstdint>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/core/detail/error_text.hpp>
#include <hcomp/core/group.hpp>
#include <hcomp/core/simd.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

namespace hcomp::detail {

/// Sources of an encoded vector: the content of `a`, or x if `a` is null, plus the content of `b`
/// unless null. The encoded vectors `a` and `b` are valid, and on devices at multiples of 4.
template <class T> struct encoded_sources {
  std::size_t values;
  T const* x = nullptr;
  std::byte const* a = nullptr;
  std::byte const* b = nullptr;
};

template <class Header> HCOMP_HD constexpr std::size_t chunks_of(std::size_t values) {
  return (values + Header::chunk_values - 1) / Header::chunk_values;
}
/// Number of values in chunk i of `values` values.
template <class Header>
HCOMP_HD constexpr std::size_t values_of_chunk(std::size_t i, std::size_t values) {
  std::size_t const left = values - i * Header::chunk_values;
  return left < Header::chunk_values ? left : Header::chunk_values;
}
/// Offset of the first of `chunks` chunks.
template <class Header> HCOMP_HD constexpr std::size_t first_chunk_at(std::size_t chunks) {
  return sizeof(Header) + chunks * sizeof(std::uint32_t);
}

/// A byte range of an encoded vector.
struct encoded_part {
  std::size_t begin, end;
};
/// Range of chunk i of `chunks`, according to the table; for the last chunk also to the header.
template <class Header>
HCOMP_HD encoded_part part_of_encoded(std::byte const* in, std::size_t i, std::size_t chunks) {
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
/// Returns the header of an encoded vector; other bytes may follow the vector.
/// @throws wire_error  not a valid header, or bytes of the encoded vector are missing
template <class Header> Header header_of_encoded(std::span<std::byte const> in) {
  require_header<Header>(in.size());
  return Header::checked(load<Header>(in.data()), in.size());
}
/// @param values, bytes  of the encoded vector
/// @throws wire_error  always: chunk i is invalid
template <class Header>
[[noreturn]] void refuse_chunk(std::size_t i, std::size_t values, encoded_part part,
                               std::size_t bytes) {
  Header::refuse(
      "chunk " + std::to_string(i) + " of " + std::to_string(values_of_chunk<Header>(i, values)) +
      " values, bytes " + std::to_string(part.begin) + " to " + std::to_string(part.end) + " of " +
      std::to_string(bytes) + ": its " + Header::chunks_are_of + " or neighbours say otherwise");
}

/// Encodes chunks `first` to `end` contiguously from byte `at` of `out` on, and writes their table
/// entries. Returns their end.
/// @param limit  end of the writable bytes of `out`
/// @param note   receives information for `finish`
template <class Group, class Coder>
std::size_t encode_run(Group group, Coder const& coder,
                       encoded_sources<typename Coder::value_type> const& from, std::size_t first,
                       std::size_t end, std::byte* out, std::size_t at, std::size_t limit,
                       typename Coder::note& note) {
  for (std::size_t i = first; i < end; ++i) {
    store(out + sizeof(typename Coder::header), i, static_cast<std::uint32_t>(at));
    at += coder.encode_chunk(group, from, i, out + at, limit - at, note);
  }
  return at;
}

/// Whether chunk i of an encoded vector of `values` values is valid and at a valid offset; the same
/// in all workers. Reads nothing beyond the vector.
/// @param bytes  length of the vector according to its header; at least its table
template <class Group, class Coder>
HCOMP_HD bool is_sound_chunk(Group group, Coder const& coder, std::byte const* in, std::size_t i,
                             std::size_t values, std::size_t bytes) {
  using header = typename Coder::header;
  std::size_t const chunks = chunks_of<header>(values), front = first_chunk_at<header>(chunks);
  auto const part = part_of_encoded<header>(in, i, chunks);
  return (i == 0 ? part.begin == front : part.begin >= front) && part.begin <= part.end &&
         part.end <= bytes && part.end - part.begin <= header::slot_bytes &&
         coder.is_chunk(group, in + part.begin, part.end - part.begin,
                        values_of_chunk<header>(i, values));
}

/// Finds NaN and infinity among n values, at most 4096: one bit per 64 values.
template <class T> std::uint64_t nonfinite_runs(T const* x, std::size_t n) {
  std::uint64_t runs = 0;
  for (std::size_t first = 0; first < n; first += 64) {
    bool finite = true;
    for (std::size_t i = first; i < n && i < first + 64; ++i) finite &= is_finite(x[i]);
    runs |= std::uint64_t{!finite} << first / 64;
  }
  return runs;
}

// ---- Complete vectors, in the calling thread. Encoded vectors may begin at any address.

/// @throws std::invalid_argument  too many values, or fewer bytes than their capacity
/// @param where  the class name
template <class C>
void require_capacity(std::string_view where, char const* who, std::size_t values,
                      std::size_t bytes) {
  if (values > C::max_values)
    throw std::invalid_argument(
        error_text({where, "::", who, ": ", values, " values; an encoded vector has at most ",
                    C::max_values}));
  if (bytes < C::capacity(values))
    throw std::invalid_argument(error_text({where, "::", who, ": ", bytes, " bytes for ", values,
                                            " values; it takes ", C::capacity(values)}));
}

/// Encodes a vector and returns its bytes.
/// @throws wire_error             the codec cannot encode the sum; the content of `out` is then
///                                unspecified
/// @throws std::invalid_argument  as require_capacity
template <class C>
std::size_t encode_vector(char const* who, C const& codec,
                          encoded_sources<typename C::value_type> const& from,
                          std::span<std::byte> out) {
  using coder = typename C::coder_type;
  using header = typename coder::header;
  require_capacity<C>(C::name, who, from.values, out.size());
  auto front = header::of(codec.options(), from.values);
  typename coder::note note{};
  front.bytes = encode_run(simd_group{}, codec.coder(), from, 0, front.chunks, out.data(),
                           first_chunk_at<header>(front.chunks), out.size(), note);
  store(out.data(), 0, front);
  typename coder::outcome made;
  codec.coder().finish(simd_group{}, from, &note, 1, front.bytes, out.data(), made);
  return codec.bytes_of(made);
}

/// @throws wire_error  not an encoded vector of `values` values with these parameters, or damaged
template <class C>
void check_encoded(C const& codec, std::span<std::byte const> in, std::size_t values) {
  using header = typename C::coder_type::header;
  auto const front = header_of_encoded<header>(in);
  front.require(codec.options(), values);
  std::size_t const chunks = front.chunks;
  for (std::size_t i = 0; i < chunks; ++i) {
    if (i + 4 < chunks) {  // hardware prefetchers do not predict the next chunks
      std::size_t const next = part_of_encoded<header>(in.data(), i + 4, chunks).begin;
      for (std::size_t line = 0; line < 256; line += 64) prefetch(in.data(), next + line);
    }
    if (!is_sound_chunk(simd_group{}, codec.coder(), in.data(), i, values, front.bytes))
      refuse_chunk<header>(i, values, part_of_encoded<header>(in.data(), i, chunks), front.bytes);
  }
}

/// Decodes `in` into `out`, and adds `addends` unless null.
/// @throws wire_error  as check_encoded; `out` is unchanged
template <class C>
void decode_vector(C const& codec, std::span<std::byte const> in,
                   typename C::value_type const* addends, std::span<typename C::value_type> out) {
  using header = typename C::coder_type::header;
  check_encoded(codec, in, out.size());
  for (std::size_t i = 0; i < chunks_of<header>(out.size()); ++i)
    codec.coder().decode_chunk(simd_group{}, in.data(), i, out.size(), addends,
                               typename C::value_type{0}, out.data());
}

}  // namespace hcomp::detail
