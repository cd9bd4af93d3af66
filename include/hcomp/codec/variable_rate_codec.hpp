#pragma once
/// @file
/// Base classes of codecs whose encoded length depends on the data. They process complete vectors
/// in the calling thread.

#include <cstddef>
#include <hcomp/codec/detail/chunked_encoding.hpp>
#include <span>

namespace hcomp {

/// Encodes and decodes vectors in host memory, chunk by chunk. A codec inherits it and adds the
/// remaining members of VariableRate.
///
/// Encoded vectors may begin at any address. For several threads, or for device memory, use
/// variable_rate_coder.
/// @tparam Codec  the derived class
/// @tparam Coder  the coder of its chunks
template <class Codec, class Coder> class variable_rate_codec {
 public:
  using value_type = typename Coder::value_type;
  using header_type = typename Coder::header;
  using coder_type = Coder;
  static constexpr std::size_t chunk_values = header_type::chunk_values;
  /// Largest number of values in an encoded vector: chunk offsets have 32 bits. Plans have no such
  /// limit, because they encode shorter segments.
  static constexpr std::size_t max_values = header_type::max_values;

  /// Upper bound on the encoded bytes of `values` values.
  static constexpr std::size_t capacity(std::size_t values) {
    return header_type::capacity(values);
  }

  /// Encodes x and returns the encoded bytes.
  /// @param out  bytes behind the encoded vector may be overwritten as well
  /// @throws std::invalid_argument  `out` has less than capacity(x.size()) bytes, or x has more
  ///                                than max_values values
  std::size_t encode(std::span<value_type const> x, std::span<std::byte> out) const {
    return detail::encode_vector("encode", self(), {x.size(), x.data()}, out);
  }
  /// Encodes the sum of x and the decoded `in` in one pass, as one hop of a ring. Returns the
  /// encoded bytes.
  /// @param out  must overlap neither `in` nor x
  /// @throws wire_error             as decode, or the codec cannot encode the sum; the content of
  ///                                `out` is then unspecified
  /// @throws std::invalid_argument  as encode
  std::size_t decode_add_encode(std::span<std::byte const> in, std::span<value_type const> x,
                                std::span<std::byte> out) const {
    check(in, x.size());
    return detail::encode_vector("decode_add_encode", self(),
                                 {.values = x.size(), .x = x.data(), .b = in.data()}, out);
  }
  /// Decodes `in` into x.
  /// @throws wire_error  not an encoded vector of x.size() values with these parameters, or
  ///                     damaged; x is unchanged
  void decode(std::span<std::byte const> in, std::span<value_type> x) const {
    detail::decode_vector(self(), in, nullptr, x);
  }
  /// Adds the decoded `in` to `sums`. All NaNs become the same NaN.
  /// @throws wire_error  as decode; `sums` is unchanged
  void decode_add(std::span<std::byte const> in, std::span<value_type> sums) const {
    detail::decode_vector(self(), in, sums.data(), sums);
  }
  /// Performs all checks of decode.
  /// @throws wire_error  not an encoded vector of `values` values with these parameters, or damaged
  void check(std::span<std::byte const> in, std::size_t values) const {
    detail::check_encoded(self(), in, values);
  }

 protected:
  Codec const& self() const { return static_cast<Codec const&>(*this); }
};

/// Base class of a MergingVariableRate codec.
template <class Codec, class Coder>
class merging_variable_rate_codec : public variable_rate_codec<Codec, Coder> {
 public:
  /// Encodes the sum of two encoded vectors and returns the encoded bytes.
  /// @param out  must overlap neither input
  /// @throws wire_error             as check; or the numbers of values differ, or the codec cannot
  ///                                encode the sum; the content of `out` is then unspecified
  /// @throws std::invalid_argument  as encode
  std::size_t merge(std::span<std::byte const> a, std::span<std::byte const> b,
                    std::span<std::byte> out) const {
    std::size_t const values = detail::header_of_encoded<typename Coder::header>(a).values;
    this->check(a, values);
    this->check(b, values);
    return detail::encode_vector("merge", this->self(),
                                 {.values = values, .a = a.data(), .b = b.data()}, out);
  }
};

}  // namespace hcomp
