// optimise: -O0
/// @file
/// The laws of tests/support/laws.hpp about single values and draws, for every codec of the
/// registry and every value type. Separate from laws_test.cpp to shorten compile times.

#include <support/laws.hpp>

TEST_CASE("every codec: unused lanes and old contents of a block never leak") {
  laws::for_each_codec([]<class C>() {
    INFO(laws::name_of<C>());
    laws::tail<C>();
  });
}

TEST_CASE("every codec: the key and the indices determine all draws") {
  laws::for_each_codec([]<class C>() {
    INFO(laws::name_of<C>());
    laws::key<C>();
  });
}

TEST_CASE("every codec: 10^4 merges have the exact mean") {
  laws::for_each_codec([]<class C>() {
    INFO(laws::name_of<C>());
    laws::mean<C>();
  });
}

TEST_CASE(
    "every codec: zeros, denormals, largest values, NaN and infinity give the documented results") {
  laws::for_each_codec([]<class C>() {
    INFO(laws::name_of<C>());
    laws::special<C>();
  });
}
