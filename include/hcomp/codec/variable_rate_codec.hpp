#pragma once
/// @file
/// Bases of codecs whose codes have a length that depends on the data: whole vectors, in the calling
/// thread.

#include <cstddef>
#include <hcomp/codec/detail/chunked_code.hpp>
#include <span>

namespace hcomp {

/// Encodes and decodes vectors in host memory, chunk by chunk. A codec inherits it, and adds what
/// else VariableRate asks for.
///
/// Codes may begin at any address. With several threads, or in a device's memory,
/// variable_rate_coder does the same.
/// @tparam Codec  the class that inherits
/// @tparam Coder  of its chunks
template <class Codec, class Coder> class variable_rate_codec {
 public:
  using value_type = typename Coder::value_type;
  using header_type = typename Coder::header;
  using coder_type = Coder;
  static constexpr std::size_t chunk_values = header_type::chunk_values;
  /// Of a vector: places in a code have 32 bits.
  static constexpr std::size_t max_values = header_type::max_values;

  /// The most bytes that `values` values can take.
  static constexpr std::size_t capacity(std::size_t values) {
    return header_type::capacity(values);
  }

  /// Returns the bytes of the code.
  /// @param out  may be overwritten behind the code, too
  /// @throws std::invalid_argument  `out` has less than capacity(x.size()) bytes, or there are more
  ///                                than max_values
  std::size_t encode(std::span<value_type const> x, std::span<std::byte> out) const {
    return detail::encode_code("encode", self(), {x.size(), x.data()}, out);
  }
  /// The code of x and what a code holds, added, in one pass: a hop of a ring. Returns as encode.
  /// @param out  must overlap neither `in` nor x
  /// @throws wire_error             as decode, or the codec has no code of the sum. `out` is of no
  ///                                use then
  /// @throws std::invalid_argument  as encode
  std::size_t decode_add_encode(std::span<std::byte const> in, std::span<value_type const> x,
                                std::span<std::byte> out) const {
    check(in, x.size());
    return detail::encode_code("decode_add_encode", self(),
                               {.values = x.size(), .x = x.data(), .b = in.data()}, out);
  }
  /// x = what `in` holds
  /// @throws wire_error  not a code of x.size() values with these parameters, or damaged; x is
  ///                     unchanged
  void decode(std::span<std::byte const> in, std::span<value_type> x) const {
    detail::decode_code(self(), in, nullptr, x);
  }
  /// sums += what `in` holds. NaNs become one NaN.
  /// @throws wire_error  as decode; sums are unchanged
  void decode_add(std::span<std::byte const> in, std::span<value_type> sums) const {
    detail::decode_code(self(), in, sums.data(), sums);
  }
  /// Checks all that decode does.
  /// @throws wire_error  not a code of `values` values with these parameters, or damaged
  void check(std::span<std::byte const> in, std::size_t values) const {
    detail::check_code(self(), in, values);
  }

 protected:
  Codec const& self() const { return static_cast<Codec const&>(*this); }
};

/// The same of a MergingVariableRate.
template <class Codec, class Coder>
class merging_variable_rate_codec : public variable_rate_codec<Codec, Coder> {
 public:
  /// The code of what two codes hold, added. Returns as encode.
  /// @param out  must overlap neither
  /// @throws wire_error             as check; or their numbers of values differ, or the codec has no
  ///                                code of the sum. `out` is of no use then
  /// @throws std::invalid_argument  as encode
  std::size_t merge(std::span<std::byte const> a, std::span<std::byte const> b,
                    std::span<std::byte> out) const {
    std::size_t const values = detail::header_of_code<typename Coder::header>(a).values;
    this->check(a, values);
    this->check(b, values);
    return detail::encode_code("merge", this->self(),
                               {.values = values, .a = a.data(), .b = b.data()}, out);
  }
};

}  // namespace hcomp
