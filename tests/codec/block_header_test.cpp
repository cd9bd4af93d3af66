#include <doctest/doctest.h>

#include <cstring>
#include <hcomp/codec/block_header.hpp>
#include <set>
#include <string>

using hcomp::block_fault;
using hcomp::block_header;

namespace {

block_header header_of(std::uint32_t rank, std::uint32_t weight = 1) {
  return hcomp::make_header(16, 100, false, {.key = 5, .rank = rank, .weight = weight, .index = 7});
}

}  // namespace

TEST_CASE("make_header: names the rank, the weight and the codec of a block") {
  auto const header =
      hcomp::make_header(16, 100, true, {.key = 5, .rank = 3, .weight = 9, .index = 7});
  CHECK(header.codec == 16);
  CHECK(header.values == 100);
  CHECK(header.flags == hcomp::block_has_nonfinite);
  CHECK(header.fault == block_fault::none);
  CHECK(header.weight == 9);
  CHECK(header.lowest_rank == 3);
  CHECK(header.index == 7);
  CHECK(header.key == 5);
  CHECK(header.checksum == 0);
  CHECK(header_of(3).flags == 0);
}

TEST_CASE("merge_fault: names the first contradiction, and none where the blocks match") {
  auto const a = header_of(0);
  CHECK(hcomp::merge_fault(a, header_of(1), 2) == block_fault::none);
  struct {
    block_fault fault;
    void (*change)(block_header&);
  } const cases[] = {
      {block_fault::format, [](block_header& h) { h.magic = 0; }},
      {block_fault::format, [](block_header& h) { h.version = 2; }},
      {block_fault::codec, [](block_header& h) { h.codec = 17; }},
      {block_fault::length, [](block_header& h) { h.values = 101; }},
      {block_fault::place, [](block_header& h) { h.index = 8; }},
      {block_fault::key, [](block_header& h) { h.key = 6; }},
      {block_fault::ranks, [](block_header& h) { h.lowest_rank = 0; }},
      {block_fault::weight, [](block_header& h) { h.weight = 2; }},
  };
  for (auto const& one : cases) {
    auto b = header_of(1);
    one.change(b);
    CAPTURE(hcomp::to_text(one.fault));
    CHECK(hcomp::merge_fault(a, b, 2) == one.fault);
    CHECK(hcomp::merge_fault(b, a, 2) == one.fault);
  }
}

TEST_CASE("merge_fault: weights may reach the capacity and not pass it, without overflowing") {
  constexpr std::uint32_t most = ~std::uint32_t{0};
  struct {
    std::uint32_t a, b, limit;
    bool fits;
  } const cases[] = {{1, 1, 2, true},        {1, 1, 1, false},         {1, 2, 3, true},
                     {2, 2, 3, false},       {5, 1, 4, false},         {most - 1, 1, most, true},
                     {most, 1, most, false}, {most, most, most, false}};
  for (auto const& one : cases) {
    CAPTURE(one.a);
    CAPTURE(one.b);
    CAPTURE(one.limit);
    auto const fault = hcomp::merge_fault(header_of(0, one.a), header_of(1, one.b), one.limit);
    CHECK(fault == (one.fits ? block_fault::none : block_fault::weight));
  }
}

TEST_CASE("merged_header: adds weights, keeps the lowest rank and every flag") {
  auto a = header_of(4, 3), b = header_of(2, 5);
  b.flags = hcomp::block_has_nonfinite;
  for (auto const& sum : {hcomp::merged_header(a, b), hcomp::merged_header(b, a)}) {
    CHECK(sum.weight == 8);
    CHECK(sum.lowest_rank == 2);
    CHECK(sum.flags == hcomp::block_has_nonfinite);
    CHECK(sum.fault == block_fault::none);
  }
  a.flags = hcomp::block_is_damaged;
  a.fault = block_fault::key;
  for (auto const& sum : {hcomp::merged_header(a, b), hcomp::merged_header(b, a)}) {
    CHECK(sum.flags == (hcomp::block_has_nonfinite | hcomp::block_is_damaged));
    CHECK(sum.fault == block_fault::key);
  }
}

TEST_CASE("to_text: every fault has its own text") {
  std::set<std::string> texts;
  int faults = 0;
  for (; faults <= static_cast<int>(block_fault::scale); ++faults)
    texts.insert(hcomp::to_text(static_cast<block_fault>(faults)));
  CHECK(static_cast<int>(texts.size()) == faults);
  CHECK(texts.count("unknown fault") == 0);
  CHECK(std::string(hcomp::to_text(static_cast<block_fault>(200))) == "unknown fault");
}
