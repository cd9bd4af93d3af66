
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <hcomp/codec/registry.hpp>
#include <hcomp/op/encoded_layout.hpp>
#include <support/laws.hpp>
#include <vector>

TEST_CASE(
    "layout_of: every codec's blocks are full, follow each other, and end with the last value") {
  laws::for_each_codec([]<class C>() {
    INFO(laws::name_of<C>());
    auto const codec = laws::with_headroom<C>();
    auto const block = static_cast<std::size_t>(C::block_values);
    for (std::size_t const n : {std::size_t{0}, std::size_t{1}, block - 1, block, block + 1,
                                2 * block - 1, 2 * block, 2 * block + 1, 10 * block + 7}) {
      CAPTURE(n);
      auto const layout = hcomp::layout_of(codec, n);
      REQUIRE(layout.values == n);
      REQUIRE(layout.blocks() == (n + block - 1) / block);
      std::size_t values = 0, bytes = 0;
      for (std::size_t b = 0; b < layout.blocks(); ++b) {
        REQUIRE(layout.offset(b) == bytes);
        bool const last = b + 1 == layout.blocks();
        REQUIRE(layout.values_in(b) == static_cast<int>(last ? n - b * block : block));
        REQUIRE(layout.bytes({b, 1}) == codec.block_bytes(layout.values_in(b)));
        values += static_cast<std::size_t>(layout.values_in(b));
        bytes += layout.bytes({b, 1});
      }
      REQUIRE(values == n);
      REQUIRE(layout.bytes() == bytes);
    }
  });
}

TEST_CASE("encoded_layout: the bytes of neighbouring ranges add up") {
  hcomp::sign_count<float> const codec;
  for (std::size_t const n : {0, 1, 8192, 8193, 5 * 8192 - 1, 5 * 8192}) {
    auto const layout = hcomp::layout_of(codec, n);
    for (std::size_t cut = 0; cut <= layout.blocks(); ++cut) {
      CAPTURE(n);
      CAPTURE(cut);
      hcomp::block_range const left{0, cut}, right{cut, layout.blocks() - cut};
      CHECK(left.end() == right.first);
      CHECK(layout.bytes(left) + layout.bytes(right) == layout.bytes());
      CHECK(layout.bytes({cut, 0}) == 0);
    }
  }
}

TEST_CASE("layout_of: ranks get equal shares of a short vector, to 512 bytes and a unit") {
  hcomp::builtin_codecs<float>::for_each([]<class C>() {
    CAPTURE(std::string(C::name));
    auto const codec = hcomp::fit(C{}, 8);
    auto const full = hcomp::block_size_of(codec);
    for (int const ranks : {1, 2, 3, 4, 7, 8, 64})
      for (std::size_t const values : {0u, 1u, 64u, 2048u, 4097u, 100'001u, 1'000'000u}) {
        CAPTURE(ranks);
        CAPTURE(values);
        auto const layout = hcomp::layout_of(codec, values, ranks);
        auto const parts = static_cast<std::size_t>(ranks);
        REQUIRE(layout.block_values <= full.values);
        REQUIRE(codec.block_bytes(static_cast<int>(layout.block_values)) == layout.block_bytes);
        bool const is_cut = layout.block_values < full.values;
        if (ranks == 1 || values >= 8 * parts * full.values) REQUIRE(!is_cut);
        if (is_cut) {
          REQUIRE(layout.block_values % full.unit == 0);
          REQUIRE(layout.block_bytes >= full.header_bytes + hcomp::least_block_payload);
        }
        std::size_t const rounds = (layout.blocks() + parts - 1) / parts;
        std::size_t const least =
            hcomp::least_block_payload * full.values / (full.bytes - full.header_bytes);
        // no rank has much more than its share
        if (is_cut && layout.block_values > least + full.unit)
          REQUIRE(rounds * layout.block_values <= values / parts + (rounds + 1) * full.unit);
      }
  });
  auto const cut = hcomp::layout_of(hcomp::identity<>{}, 6000, 4);
  CHECK(cut.blocks() == 4);
  CHECK(cut.block_values == 1536);
}

TEST_CASE("layout_of: each of 1,024 ranks has a part if parts have 512 bytes or more") {
  hcomp::builtin_codecs<float>::for_each([]<class C>() {
    CAPTURE(std::string(C::name));
    auto const codec = hcomp::fit(C{}, 1024);
    auto const full = hcomp::block_size_of(codec);
    for (std::size_t const ranks : {64u, 256u, 1024u}) {
      CAPTURE(ranks);
      std::size_t const least =
          std::max(full.unit, 512 * full.values / (full.bytes - full.header_bytes));
      for (std::size_t const values : {ranks * least, 3 * ranks * least, 40 * ranks * least}) {
        auto const layout = hcomp::layout_of(codec, values, static_cast<int>(ranks));
        CHECK(layout.blocks() >
              // except for ranks without a part because of rounding to units
              (ranks - 1) * 15 / 16);
      }
    }
  });
}
