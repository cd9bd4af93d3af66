#pragma once
/// @file
/// Helpers for tests of lossless and lossless_integers, whose encoded vectors consist of blocks of
/// 64 values.

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/core/group.hpp>
#include <hcomp/core/hash.hpp>
#include <hcomp/core/random.hpp>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <support/encoded_vectors.hpp>
#include <vector>

namespace hcomp::testing {

/// Bytes in front of the blocks for up to 1024 values: the header and the table.
inline constexpr std::size_t front_of_one_chunk = 24 + 4;

template <class C>
std::vector<typename C::value_type> decoded(C const& codec, encoded_bytes const& in,
                                            std::size_t n) {
  std::vector<typename C::value_type> y(n, 77);
  codec.decode(in, y);
  return y;
}
/// The compression ratio.
template <class C> double ratio_of(C const& codec, std::vector<typename C::value_type> const& x) {
  return static_cast<double>(x.size() * sizeof(x[0])) /
         static_cast<double>(encoded(codec, x).size());
}

/// Values come back bit by bit. The encoded vector exceeds their bytes by at most 1 %, plus the
/// front and one form.
/// @param form_bytes  bytes of a block's form
template <class C>
void check_values_come_back(C const& codec, std::vector<typename C::value_type> const& x,
                            std::size_t form_bytes) {
  auto const code = encoded(codec, x);
  CHECK(same_values(decoded(codec, code, x.size()), x));
  CHECK(static_cast<double>(code.size()) <=
        1.01 * static_cast<double>(x.size() * sizeof(x[0])) +
            static_cast<double>(front_of_one_chunk + form_bytes));
}

/// All functions that add x and y give `sum`, and its encoding.
template <class C>
void check_sums(C const& codec, std::vector<typename C::value_type> const& x,
                std::vector<typename C::value_type> const& y,
                std::vector<typename C::value_type> const& sum) {
  auto const a = encoded(codec, x), b = encoded(codec, y);
  CHECK(same_values(decoded(codec, merged(codec, a, b), x.size()), sum));
  CHECK(merged(codec, a, b) == encoded(codec, sum));
  CHECK(merged(codec, a, b) == merged(codec, b, a));
  encoded_bytes out(codec.capacity(x.size()));
  out.resize(codec.decode_add_encode(a, y, out));
  CHECK(out == encoded(codec, sum));
  auto added = y;
  codec.decode_add(a, added);
  CHECK(same_values(added, sum));
}

/// Damaged encodings of 1500 values, a wrong number of values, and too small a buffer are refused.
/// @param make  make(kind) returns 1500 values
template <class C, class Make>
void check_rejected_encodings(C const& codec, std::size_t form_bytes,
                              std::initializer_list<int> kinds, Make const& make) {
  using T = typename C::value_type;
  std::size_t const front = 24 + 2 * 4 + 16 * form_bytes;  // header, table, forms of a chunk
  for (int const kind : kinds) {
    CAPTURE(kind);
    // some draws change nothing
    CHECK(refused_when_damaged(codec, encoded(codec, make(kind)), 1500, front) > 1500);
  }
  auto const text = std::string(C::name) + ": 5 values, 6 were expected";
  CHECK_THROWS_WITH_AS(codec.check(encoded(codec, std::vector<T>(5)), 6), text.c_str(), wire_error);
  encoded_bytes small(10);
  CHECK_THROWS_AS(codec.encode(std::vector<T>(5), small), std::invalid_argument);
}
/// Whether an encoded vector of 64 values with another form is refused.
template <class C, class Form>
bool refuses_form(C const& codec, std::vector<typename C::value_type> const& x, Form form) {
  REQUIRE(x.size() == 64);
  auto code = encoded(codec, x);
  store(code.data() + front_of_one_chunk, 0, form);
  try {
    codec.check(code, x.size());
  } catch (wire_error const&) {
    return true;
  }
  return false;
}

/// Fingerprint of the encodings of make(kind), over all kinds.
template <class C, class Make>
std::uint64_t fingerprint_of_encodings(C const& codec, int kinds, Make const& make) {
  std::uint64_t all = 0;
  for (int kind = 0; kind < kinds; ++kind) {
    auto const code = encoded(codec, make(kind));
    all = mix(all + fingerprint(serial_group{}, code.data(), code.size()));
  }
  return all;
}

}  // namespace hcomp::testing
