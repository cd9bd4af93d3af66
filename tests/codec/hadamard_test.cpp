#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <hcomp/codec/thc/detail/hadamard.hpp>
#include <hcomp/core/group.hpp>
#include <hcomp/core/simd.hpp>
#include <stdexcept>
#include <support/data.hpp>
#include <support/worker_group.hpp>
#include <vector>

using hcomp::simd_level;

namespace {

using vector = std::vector<float>;

vector transformed(vector x) {
  hcomp::detail::thc::hadamard(hcomp::serial_group{}, x.data(), static_cast<int>(x.size()));
  return x;
}

struct by_vectors {
  float const* in;
  float* out;
  int size;

  template <int Lanes> [[gnu::always_inline]] bool run() const {
    using vectors = hcomp::detail::thc::hadamard_by<Lanes>;
    vectors::begin(
        out, size, [&](auto& v, int i) __attribute__((always_inline)) {
          std::memcpy(&v, in + i, sizeof(v));
        });
    vectors::end(out, size);
    return true;
  }
};

bool same_bits(float const* a, float const* b, std::size_t n) {
  return std::memcmp(a, b, n * sizeof(float)) == 0;
}

}  // namespace

TEST_CASE("hadamard: row i, column j is the parity of i and j as bits, +1 or -1") {
  for (int size = 1; size <= 256; size *= 2)
    for (int j = 0; j < size; ++j) {
      std::vector<float> unit(static_cast<std::size_t>(size));
      unit[static_cast<std::size_t>(j)] = 1;
      auto const column = transformed(unit);
      for (int i = 0; i < size; ++i)
        REQUIRE(column[static_cast<std::size_t>(i)] ==
                (std::popcount(static_cast<unsigned>(i & j)) % 2 ? -1 : 1));
    }
}

TEST_CASE(
    "hadamard: applied twice it multiplies by the size, and once it scales lengths by the root of "
    "it") {
  for (std::size_t size = 1; size <= 16384; size *= 4) {
    CAPTURE(size);
    auto x = data::whole_numbers(size, 3);  // all partial sums are below 2^24: exact
    auto const once = transformed(x), twice = transformed(once);
    double before = 0, after = 0;
    for (std::size_t i = 0; i < size; ++i) {
      REQUIRE(twice[i] == x[i] * static_cast<float>(size));
      before += static_cast<double>(x[i]) * x[i];
      after += static_cast<double>(once[i]) * once[i];
    }
    CHECK(after == before * static_cast<double>(size));
  }
}

TEST_CASE("hadamard: every level gives the bits of the plain loop") {
  for (auto const level : {simd_level::baseline, simd_level::avx2, simd_level::avx512}) {
    if (level > hcomp::best_simd_level()) continue;
    CAPTURE(static_cast<int>(level));
    for (std::size_t size = 64; size <= 16384; size *= 2) {
      CAPTURE(size);
      auto const x = data::uniform<float>(size, -8, 8, {.seed = size});
      auto const expected = transformed(x);
      alignas(64) static float out[16384];
      hcomp::run_at(level, by_vectors{x.data(), out, static_cast<int>(size)});
      REQUIRE(same_bits(out, expected.data(), size));
    }
  }
}

TEST_CASE("hadamard: three workers give the bits of one") {
  for (std::size_t const size :
       {std::size_t{1}, std::size_t{2}, std::size_t{64}, std::size_t{512}}) {
    CAPTURE(size);
    auto x = data::uniform<float>(size, -8, 8, {.seed = size});
    auto const expected = transformed(x);
    workers::run<3>(
        [&](auto group) { hcomp::detail::thc::hadamard(group, x.data(), static_cast<int>(size)); });
    REQUIRE(same_bits(x.data(), expected.data(), size));
  }
}

TEST_CASE("hadamard: stages in registers give the bits of the plain loop, for every last stage") {
  using namespace hcomp::detail::thc;
  for (unsigned size = 64; size <= 16384; size *= 2)
    for (unsigned end = 32; end <= size; end *= 2) {
      CAPTURE(size);
      CAPTURE(end);
      auto const x = data::uniform<float>(size, -8, 8, {.seed = 4});
      auto expected = x;  // strides below `end`
      for (unsigned i = 0; i < size; i += end)
        hadamard(hcomp::serial_group{}, expected.data() + i, static_cast<int>(end));
      vector in_places(place_of(size));
      workers::run<3>([&](auto group) {
        for (unsigned i = hcomp::detail::worker_of(group); i < size; i += 3)
          in_places[place_of(i)] = x[i];
        group.sync();
        unsigned seen = 0;
        hadamard_first(group, in_places.data(), size, [&](unsigned i, auto const& values) {
          for (unsigned j = 0; j < 32; ++j) seen += values[j][0] == x[i + j];
        });
        if (group.sum(seen) != size)
          throw std::logic_error("other values were shown than there are");
        hadamard_middle(group, in_places.data(), size, end);
      });
      for (unsigned i = 0; i < size; ++i)
        REQUIRE(same_bits(&in_places[place_of(i)], &expected[i], 1));
    }
}
