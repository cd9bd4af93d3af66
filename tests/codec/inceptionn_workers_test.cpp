// optimise: -O0
/// @file
/// INCEPTIONN's chunks by several workers: the bytes and the values of the host's coder.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/codec/detail/votes.hpp>
#include <hcomp/codec/inceptionn/detail/chunks.hpp>
#include <hcomp/codec/inceptionn/detail/workers.hpp>
#include <hcomp/codec/inceptionn/inceptionn.hpp>
#include <hcomp/core/group.hpp>
#include <string>
#include <support/inceptionn.hpp>
#include <support/worker_group.hpp>
#include <vector>

using inceptionn::floats;
using inceptionn::same;

namespace {

/// A chunk before and after: what the host's coder makes of it, and what workers do.
struct chunk_case {
  std::string name;
  hcomp::detail::inceptionn::cpu_coder coder;
  floats x, addend;
  std::vector<std::byte> encoded = {};  ///< of the host
  floats decoded = {}, sum = {};
  std::size_t shift = 0;  ///< from an aligned address

  std::vector<std::byte> found_encoding = {};
  std::size_t found_bytes = 0;
  floats found = {}, found_sum = {}, found_mean = {}, found_in_words = {};
  unsigned nonfinite = 0;
  std::uint32_t largest = 0;
  std::vector<bool> valid = {};
};

constexpr std::byte guard{0x5a};

/// Damaged versions of a chunk; the first is not. All as long as their first byte says.
std::vector<std::vector<std::byte>> versions_of(chunk_case const& one) {
  std::vector<std::vector<std::byte>> all{one.encoded};
  for (std::size_t const byte : {std::size_t{0}, (one.x.size() + 3) / 4 - 1})
    for (int const bit : {1, 2, 64, 128}) {
      all.push_back(one.encoded);
      if (byte < one.encoded.size()) all.back()[byte] ^= static_cast<std::byte>(bit);
    }
  for (std::size_t const bytes : {std::size_t{0}, one.encoded.size() / 2, one.encoded.size() - 1})
    all.emplace_back(one.encoded.begin(), one.encoded.begin() + static_cast<std::ptrdiff_t>(bytes));
  all.push_back(one.encoded);
  all.back().push_back(std::byte{1});
  return all;
}

std::vector<chunk_case> all_cases() {
  std::vector<chunk_case> cases;
  auto const add = [&](std::string const& name, hcomp::inceptionn_options const& options,
                       floats const& x) {
    hcomp::detail::inceptionn::cpu_coder const coder{hcomp::detail::inceptionn::rule_of(options),
                                                     hcomp::simd_level::baseline};
    chunk_case one{.name = name + ", " + hcomp::detail::inceptionn::text_of(options) + ", " +
                           std::to_string(x.size()) + " values",
                   .coder = coder,
                   .x = x,
                   .addend = inceptionn::mixed(x.size(), {.seed = 77}),
                   .shift = cases.size() % 3};
    one.encoded.resize(hcomp::detail::inceptionn::chunk_capacity);
    one.encoded.resize(coder.encode(x.data(), x.size(), one.encoded.data(), one.encoded.size()));
    one.decoded.resize(x.size());
    coder.decode(one.encoded.data(), one.encoded.size(), 0, x.size(), nullptr, one.decoded.data());
    one.sum.resize(x.size());
    coder.decode(one.encoded.data(), one.encoded.size(), 0, x.size(), one.addend.data(),
                 one.sum.data());
    one.found_encoding.assign(x.size() * sizeof(float) + 1, guard);
    one.found.assign(x.size() + 8, 7.0f);
    one.found_sum = one.found_mean = one.found_in_words = one.found;
    one.valid.resize(versions_of(one).size());
    cases.push_back(one);
  };
  for (auto const& options : inceptionn::all_settings({1, 10, 14}))
    for (std::size_t const n : options.bound_exponent == 10
                                   ? std::vector<std::size_t>{1, 5, 127, 130, 1023, 1024}
                                   : std::vector<std::size_t>{130})
      add("mixed", options, inceptionn::mixed(n, {.seed = n}));
  for (int const prescale : {-64, -3, 0, 64})
    for (std::size_t const n : {3, 200, 1024}) {
      hcomp::inceptionn_options const options{.prescale = prescale};
      auto small = inceptionn::normal(n, 1e-2, {.seed = n});
      add("normal", options, small);
      for (float& value : small) value = std::ldexp(value, -prescale);
      add("normal, scaled", options, small);
      add("large", options, inceptionn::normal(n, 1e5, {.seed = n}));
      add("zeros", options, floats(n, -0.0f));
      add("denormals", options, floats(n, 1e-40f));
      for (std::uint32_t const bits : {0xffabcdefu, 0x7fccccccu})
        add("NaN", options, floats(n, hcomp::same_bits<float>(bits)));
      // as large as the floats, but for a value more or less: there chunks change their form
      auto edge = floats(n, 1.5f);
      for (std::size_t i = 0; i < std::min<std::size_t>(n, n / 8 + 1); ++i) edge[i] = 0.4f;
      add("edge", options, edge);
      edge[n / 8] = 1.5f;
      add("edge", options, edge);
    }
  return cases;
}

/// What all workers of a group do, in step.
template <class Group> void work(Group group, std::vector<chunk_case>& cases) {
  for (auto& one : cases) {
    auto const& rule = one.coder.rule;
    std::size_t const n = one.x.size();
    // everything by its own address, so that also what is not aligned is met
    static floats x, addend;
    if (group.worker() == 0) {
      x.assign(one.shift, 0.0f);
      x.insert(x.end(), one.x.begin(), one.x.end());
      addend.assign(one.shift, 0.0f);
      addend.insert(addend.end(), one.addend.begin(), one.addend.end());
    }
    group.sync();
    hcomp::detail::inceptionn::worker_values<Group> mine;
    mine.read(group, x.data() + one.shift, n);
    auto const made = mine.put_tags(group, rule, n, one.found_encoding.data());
    std::size_t const bytes = made.bytes;
    mine.put_payloads(group, rule, made, one.found_encoding.data());
    unsigned const nonfinite = mine.nonfinite(group);
    auto const largest = hcomp::detail::largest_in(
        group, hcomp::detail::largest_magnitude(group, x.data() + one.shift, n), 31);
    mine.decode(group, rule, one.encoded.data(), one.encoded.size(), n);
    mine.write(group, one.found.data() + one.shift, n);
    mine.divide(3);
    mine.write(group, one.found_mean.data() + one.shift, n);
    mine.decode(group, rule, one.encoded.data(), one.encoded.size(), n);
    mine.add(group, addend.data() + one.shift, n);
    mine.write(group, one.found_sum.data() + one.shift, n);
    // a copy in words, at any place in them, with some that may be read behind it
    static std::vector<std::uint32_t> words;
    static std::byte* copy;
    if (group.worker() == 0) {
      words.assign(one.encoded.size() / 4 + 4, 0xffffffffu);
      copy = reinterpret_cast<std::byte*>(words.data()) + one.encoded.size() % 4;
      std::copy(one.encoded.begin(), one.encoded.end(), copy);
    }
    group.sync();
    mine.decode_words(group, rule, copy, one.encoded.size(), n);
    mine.write(group, one.found_in_words.data() + one.shift, n);
    std::size_t i = 0;
    for (auto const& version : versions_of(one)) {
      bool const valid =
          hcomp::detail::inceptionn::is_chunk(group, version.data(), version.size(), n);
      group.sync();
      if (group.worker() == 0) one.valid[i] = valid;
      ++i;
    }
    if (group.worker() + 1 == Group::workers) {  // all workers know it
      one.found_bytes = bytes;
      one.nonfinite = nonfinite;
      one.largest = largest;
    }
    group.sync();
  }
}

/// Between the guards, which are unchanged.
floats inner(floats const& found, std::size_t shift, std::size_t n) {
  for (std::size_t i = 0; i < found.size(); ++i)
    if (i < shift || i >= shift + n) CHECK(found[i] == 7.0f);
  auto const first = found.begin() + static_cast<std::ptrdiff_t>(shift);
  return {first, first + static_cast<std::ptrdiff_t>(n)};
}

template <class F> void check_workers(F const& run) {
  auto cases = all_cases();
  run(cases);
  std::size_t plain = 0;
  for (auto const& one : cases) {
    CAPTURE(one.name);
    std::size_t const n = one.x.size();
    CHECK(one.found_bytes == one.encoded.size());
    CHECK(std::equal(one.encoded.begin(), one.encoded.end(), one.found_encoding.begin()));
    CHECK(one.found_encoding.back() == guard);
    plain += one.encoded.size() == n * sizeof(float);
    CHECK(same(inner(one.found, one.shift, n), one.decoded));
    CHECK(same(inner(one.found_in_words, one.shift, n), one.decoded));
    CHECK(same(inner(one.found_sum, one.shift, n), one.sum));
    auto mean = one.decoded;
    for (float& value : mean) value /= 3;
    CHECK(same(inner(one.found_mean, one.shift, n), mean));
    unsigned nonfinite = 0;
    for (std::size_t i = 0; i < n; ++i)
      if (!hcomp::is_finite(one.x[i])) nonfinite |= 1u << i / 64;
    CHECK(one.nonfinite == nonfinite);
    CHECK(one.largest == hcomp::inceptionn::measure(one.x));
    std::size_t i = 0;
    for (auto const& version : versions_of(one)) {
      CAPTURE(i);
      CHECK(one.valid[i++] == one.coder.valid(version.data(), version.size(), n));
    }
  }
  CHECK(plain > 10);
  CHECK(plain + 10 < cases.size());
}

}  // namespace

TEST_CASE("inceptionn: a chunk by one worker has the host's bytes and values") {
  check_workers([](auto& cases) { work(hcomp::serial_group{}, cases); });
}

TEST_CASE("inceptionn: a chunk by several workers has the host's bytes and values") {
  check_workers([](auto& cases) {
    workers::run<32>([&](auto group) { work(group, cases); });  // as many as a warp
  });
  check_workers([](auto& cases) { workers::run<3>([&](auto group) { work(group, cases); }); });
}
