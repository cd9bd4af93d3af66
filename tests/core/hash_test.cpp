#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <hcomp/core/hash.hpp>
#include <set>
#include <support/data.hpp>
#include <support/worker_group.hpp>
#include <vector>

namespace {

std::uint64_t fingerprint(std::vector<std::byte> const& bytes) {
  return hcomp::fingerprint(hcomp::serial_group{}, bytes.data(), bytes.size());
}

}  // namespace

TEST_CASE("fingerprint: any changed bit changes it") {
  for (std::size_t const count : {1u, 7u, 8u, 9u, 64u, 100u}) {
    auto bytes = data::bytes(count, {.seed = count});
    std::set<std::uint64_t> seen{fingerprint(bytes)};
    for (std::size_t bit = 0; bit < 8 * count; ++bit) {
      bytes[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
      seen.insert(fingerprint(bytes));
      bytes[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    }
    CHECK(seen.size() == 8 * count + 1);
  }
}

TEST_CASE("fingerprint: length and order of the bytes count, also of zeros") {
  std::set<std::uint64_t> seen;
  for (std::size_t count = 0; count <= 40; ++count)
    seen.insert(fingerprint(std::vector<std::byte>(count)));
  CHECK(seen.size() == 41);
  auto bytes = data::bytes(32, {.seed = 1});
  auto const before = fingerprint(bytes);
  for (std::size_t i = 0; i < 8; ++i) std::swap(bytes[i], bytes[16 + i]);
  CHECK(fingerprint(bytes) != before);
}

TEST_CASE("fingerprint: neither the address nor the number of workers matters") {
  for (std::size_t const count : {0u, 1u, 8u, 9u, 31u, 32u, 33u, 1000u}) {
    CAPTURE(count);
    auto const bytes = data::bytes(count, {.seed = 2});
    auto const expected = fingerprint(bytes);
    for (std::size_t shift = 1; shift < 8; ++shift) {
      std::vector<std::byte> moved(count + shift);
      std::copy(bytes.begin(), bytes.end(), moved.begin() + static_cast<std::ptrdiff_t>(shift));
      REQUIRE(hcomp::fingerprint(hcomp::serial_group{}, moved.data() + shift, count) == expected);
    }
    std::uint64_t of_worker[5];
    workers::run<5>([&](auto group) {
      of_worker[group.worker()] = hcomp::fingerprint(group, bytes.data(), count);
    });
    for (std::uint64_t const found : of_worker) REQUIRE(found == expected);
  }
}

TEST_CASE("fingerprint: keeps its value from wire format 1") {
  CHECK(fingerprint(std::vector<std::byte>{}) == hcomp::mix(0));
  std::vector<std::byte> bytes(20);
  for (std::size_t i = 0; i < 20; ++i) bytes[i] = static_cast<std::byte>(i);
  CHECK(fingerprint(bytes) == 0xe11fa8db4423f43cu);
}
