// optimise: -O0
// max_simd: avx2 baseline

#include <support/laws.hpp>

TEST_CASE("every codec that defers rounding: all groups give the same bytes, and keep faults") {
  laws::for_each_codec([]<class C>() {
    INFO(laws::name_of<C>());
    laws::wide_sums<C>();
  });
}
