// optimise: -O0
// max_simd: avx2 baseline
/// @file
/// Every codec gives the same bytes in every group of workers, and detects blocks that contradict
/// it.

#include <support/laws.hpp>

TEST_CASE("every codec: SIMD gives the bytes of the serial reference") {
  laws::for_each_codec([]<class C>() {
    INFO(laws::name_of<C>());
    laws::groups<C>(laws::block_sizes<C>(), false);
    std::vector<int> small(140);
    for (int n = 0; n < 140; ++n) small[static_cast<std::size_t>(n)] = n;
    laws::groups<C>(small, false);
  });
}

TEST_CASE("every codec: several workers at once give the bytes of one") {
  laws::for_each_codec([]<class C>() {
    INFO(laws::name_of<C>());
    laws::groups<C>({0, 1, 64, 65, 200, 1000}, true);
  });
}

TEST_CASE("every codec: narrow messages decode to the original bytes") {
  laws::for_each_codec([]<class C>() {
    INFO(laws::name_of<C>());
    laws::narrow<C>();
  });
}

TEST_CASE(
    "every codec: blocks that contradict each other are marked, stay marked and do not decode") {
  laws::for_each_codec([]<class C>() {
    INFO(laws::name_of<C>());
    laws::contradictions<C>();
  });
}
