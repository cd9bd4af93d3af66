// optimise: -O1
/// @file
/// Codes of error_bounded by executors: the host's bytes, values and complaints.

#include <doctest/doctest.h>

#include <algorithm>
#include <collective/coder.hpp>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/error_bounded/error_bounded.hpp>
#include <hcomp/collective/engine/variable_rate_coder.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/random.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <limits>
#include <string>
#include <support/error_bounded.hpp>
#include <support/guarded_executor.hpp>
#include <support/worker_executor.hpp>
#include <utility>
#include <vector>

using hcomp::error_bounded;
using hcomp::variable_rate_coder;
using hcomp::testing::check_coder;
using hcomp::testing::check_damage;
using hcomp::testing::complaint_of;
using hcomp::testing::encoded;
using hcomp::testing::guarded_executor;
using workers::array;

namespace {

using floats = std::vector<float>;
using bytes = std::vector<std::byte>;

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

/// Blocks in all forms, in runs of some and alone: zeros, few values, differences, integers; and
/// some with floats, among them NaN and infinity.
floats of_all_forms(std::size_t n, std::uint64_t seed, double step) {
  auto const smooth = bounded_values::smooth(n, seed).x;
  floats x(n);
  for (std::size_t i = 0; i < n; ++i) {
    std::uint64_t const block = i / 32, random = hcomp::mix(seed * 1000 + i);
    std::uint64_t const form = hcomp::mix(seed * 77 + (block % 16 < 8 ? block / 8 : block)) % 6;
    double const laplace = bounded_values::laplace(seed, i);
    if (form == 1) x[i] = static_cast<float>(random % 9 == 0 ? 300 * step * laplace : 0);
    if (form == 2) x[i] = smooth[i] * static_cast<float>(3e4 * step);
    if (form == 3) x[i] = static_cast<float>(40 * step * laplace);
    if (form == 4) x[i] = static_cast<float>(1e5 * step * (1 + 1e-4 * laplace));
    if (form == 5) {
      x[i] = static_cast<float>((random % 11 == 0 ? 1e9 : 1e3) * step * laplace);
      if (random % 200 == 1) x[i] = random % 400 == 1 ? not_a_number : -infinity;
      if (random % 200 == 2) x[i] = hcomp::same_bits<float>(0xffabcdefu);
    }
  }
  return x;
}

template <class E> void check_forms(E& executor, error_bounded<> const& codec, std::size_t n) {
  check_coder(executor, codec, of_all_forms(n, n + 1, codec.step()),
              of_all_forms(n, n + 2, codec.step()));
}

}  // namespace

TEST_CASE(
    "variable_rate_coder of error_bounded: the host's bytes and values; the host touches no "
    "memory") {
  for (double const bound : {1e-20, 1e-3, 1e4})
    for (int const bits : {10, 18, 22})
      for (std::size_t const n : {0, 1, 31, 32, 33, 4095, 4096, 4097, 21'000}) {
        CAPTURE(bound);
        CAPTURE(bits);
        CAPTURE(n);
        guarded_executor executor;
        check_forms(executor, error_bounded({bound, 3, bits}), n);
      }
  // all integers, all floats, and all zeros
  error_bounded const codec({.bound = 1e-3, .ranks = 3});
  for (float const scale : {1e-2f, 1e20f, 0.0f}) {
    CAPTURE(scale);
    floats x[2] = {floats(9000), floats(9000)};
    for (std::size_t i = 0; i < 9000; ++i) {
      x[0][i] = scale * static_cast<float>(bounded_values::laplace(5, i));
      x[1][i] = i % 3 == 0 ? -x[0][i] : x[0][i];  // floats that cancel
    }
    guarded_executor executor;
    check_coder(executor, codec, x[0], x[1]);
  }
}

TEST_CASE("variable_rate_coder of error_bounded: by several workers, and by threads") {
  workers::sharing_executor<5> five;
  workers::sharing_executor<32> warp;
  hcomp::reference_executor threads(3);
  hcomp::host_executor one, three(3);
  error_bounded const codec({.bound = 1e-3, .ranks = 3});
  for (std::size_t const n : {0, 1, 33, 4097, 9000}) {
    CAPTURE(n);
    check_forms(five, codec, n);
    check_forms(threads, codec, n);
    check_forms(one, codec, n);
    check_forms(three, codec, n);
  }
  // runs of 4 chunks, of which the last is short or one chunk alone
  for (std::size_t const n : {16384, 16385, 50'007})
    for (auto* const executor : {&one, &three}) {
      CAPTURE(n);
      check_forms(*executor, codec, n);
      floats const largest(n, 1e30f);  // codes as long as can be
      check_coder(*executor, codec, largest, largest);
    }
  check_forms(warp, codec, 9000);
  workers::sharing_executor<128> block;
  check_forms(block, codec, 5000);
}

TEST_CASE("variable_rate_coder of error_bounded: many chunks") {
  error_bounded const codec({.bound = 1e-3, .ranks = 3});
  hcomp::reference_executor executor(2);
  check_forms(executor, codec, 600 * 4096 + 5);
}

TEST_CASE(
    "variable_rate_coder of error_bounded: sums that no ranks have are told as on the host, "
    "the first one") {
  constexpr std::size_t n = 9000;
  error_bounded const codec({.bound = 1e-3, .ranks = 3});
  auto const complaints = [&](auto& executor, bytes const& a, bytes const& b) {
    variable_rate_coder<error_bounded<>, std::decay_t<decltype(executor)>> coder(n, executor);
    array const first(executor, a), second(executor, b), code(executor, bytes(codec.capacity(n)));
    auto const found = complaint_of([&] {
      coder.merge(codec, first.span(), second.span(), n, code.span());
      coder.bytes(codec);
    });
    bytes out(codec.capacity(n));
    CHECK(found == complaint_of([&] { codec.merge(a, b, out); }));
    return found;
  };
  /// Codes of blocks of floats and integers, whose first words at some places are other ones.
  auto const changed = [&](std::vector<std::pair<std::size_t, std::uint32_t>> const& changes) {
    floats x(n, 1e30f);
    auto code = encoded(codec, x);
    for (auto const& [i, word] : changes) {
      std::size_t const chunk = i / 4096;
      std::size_t const at = hcomp::load<std::uint32_t>(code.data() + 56, chunk) + 4 +
                             (std::min<std::size_t>(n - chunk * 4096, 4096) + 31) / 32;
      hcomp::store(code.data() + at, i % 4096, word);
    }
    return code;
  };
  constexpr std::uint32_t one_too_many = 3u << 18, huge = 0x28000000u;
  std::vector<std::vector<std::pair<std::size_t, std::uint32_t>>> all = {
      {},
      {{70, one_too_many}},
      {{8500, huge}},
      {{4200, huge}, {4231, one_too_many}, {4300, huge + 5}},
      {{8999, one_too_many}, {4400, huge}},
      {{5000, one_too_many}, {5100, huge}}};
  // in the second chunk, one in every block from some on, and all another sum
  for (std::uint32_t const first : {3, 30, 61}) {
    auto& changes = all.emplace_back();
    for (std::uint32_t block = first; block < 128; ++block)
      changes.push_back({4096 + 32 * block, huge + block});
  }
  floats const zeros(n, 0.0f);
  floats const integers(n, 1.0f);
  auto const check = [&](auto& executor) {
    std::vector<std::string> texts;
    for (auto const& changes : all)
      for (auto const& added : {encoded(codec, zeros), encoded(codec, integers), changed(changes)})
        texts.push_back(complaints(executor, changed(changes), added));
    CHECK(std::ranges::count(texts, "") < 8);
    CHECK(std::ranges::count_if(texts, [](auto& text) { return text.find("no ranks") < 99; }) > 2);
    CHECK(std::ranges::count_if(texts, [](auto& text) { return text.find("the most") < 99; }) > 2);

    auto const one = encoded(codec, integers);
    bytes two(codec.capacity(n));
    two.resize(codec.merge(one, one, two));
    CHECK(complaints(executor, two, one) == "");
    CHECK(complaints(executor, two, two).find("sums of 2 and 2 ranks") != std::string::npos);
    CHECK(complaints(executor, one, one) == "");  // what was wrong before is forgotten
  };
  guarded_executor device;
  check(device);
  workers::sharing_executor<5> five;
  check(five);
  hcomp::host_executor one, two(2);
  check(one);
  check(two);
}

TEST_CASE("variable_rate_coder of error_bounded: damage is told as on the host") {
  error_bounded const codec({.bound = 1e-3, .ranks = 3});
  for (std::size_t const n : {0, 33, 9000}) check_damage(codec, of_all_forms(n, 3, codec.step()));
}

TEST_CASE("variable_rate_coder of error_bounded: what there is no room for is refused") {
  hcomp::testing::check_refusals(error_bounded());
}
