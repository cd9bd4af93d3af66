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
#include <support/encoded_vectors.hpp>
#include <vector>

namespace hcomp::testing {

/// Bytes in front of the blocks for up to 1024 values: the header and the table.
inline constexpr std::size_t front_of_one_chunk = 24 + 4;

/// The compression ratio.
template <class C> double ratio_of(C const& codec, std::vector<typename C::value_type> const& x) {
  return static_cast<double>(x.size() * sizeof(x[0])) /
         static_cast<double>(encoded(codec, x).size());
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
