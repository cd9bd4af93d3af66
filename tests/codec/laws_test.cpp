// optimise: -O0
/// @file
/// The laws of tests/support/laws.hpp about blocks and merging, for every codec of the registry and
/// every value type.

#include <support/laws.hpp>

TEST_CASE("every codec: a block takes exactly its block_bytes, at any address") {
  laws::for_each_codec([]<class C>() {
    INFO(laws::name_of<C>());
    laws::size<C>();
  });
}

TEST_CASE("every codec: one rank's values come back within the documented error") {
  laws::for_each_codec([]<class C>() {
    INFO(laws::name_of<C>());
    laws::round_trip<C>();
  });
}

TEST_CASE("every codec: adding encoded blocks equals adding decoded values, as documented") {
  laws::for_each_codec([]<class C>() {
    INFO(laws::name_of<C>());
    laws::sum<C>();
  });
}

TEST_CASE("every codec: max_summands fit, and one more is marked") {
  laws::for_each_codec([]<class C>() {
    INFO(laws::name_of<C>());
    laws::headroom<C>();
  });
}

TEST_CASE("every codec: the order of merging changes no byte, unless documented") {
  laws::for_each_codec([]<class C>() {
    INFO(laws::name_of<C>());
    laws::order<C>();
  });
}
