// optimise: -O0
/// @file
/// The laws of tests/support/laws.hpp about blocks and sums, for every codec of the registry and
/// every value type.

#include <support/laws.hpp>

TEST_CASE("every codec: a block takes exactly the bytes it says, at any address") {
  laws::for_each_codec([]<class C>() {
    INFO(laws::name_of<C>());
    laws::size<C>();
  });
}

TEST_CASE("every codec: one rank's values come back within the stated error") {
  laws::for_each_codec([]<class C>() {
    INFO(laws::name_of<C>());
    laws::round_trip<C>();
  });
}

TEST_CASE("every codec: adding encoded blocks equals adding decoded values, as stated") {
  laws::for_each_codec([]<class C>() {
    INFO(laws::name_of<C>());
    laws::sum<C>();
  });
}

TEST_CASE("every codec: as many summands fit as it says, and one more is marked") {
  laws::for_each_codec([]<class C>() {
    INFO(laws::name_of<C>());
    laws::headroom<C>();
  });
}

TEST_CASE("every codec: the order of merging shows in no byte where none is stated") {
  laws::for_each_codec([]<class C>() {
    INFO(laws::name_of<C>());
    laws::order<C>();
  });
}
