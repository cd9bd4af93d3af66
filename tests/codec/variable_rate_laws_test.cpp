// max_simd: avx2 baseline
// optimise: -O1
// optimise sanitized: -O1
/// @file
/// The laws of tests/support/laws/variable_rate.hpp about vectors in the calling thread, for every
/// codec with encoded vectors of variable length.

#include <support/laws/variable_rate.hpp>

using laws::variable_rate::all_codecs;

TEST_CASE_TEMPLATE_DEFINE("variable rate: encoded vectors stay within their capacity", C,
                          size_law) {
  laws::variable_rate::size<C>();
}
TEST_CASE_TEMPLATE_APPLY(size_law, all_codecs);

TEST_CASE_TEMPLATE_DEFINE("variable rate: vectors beyond the limit are refused with both numbers",
                          C, longest_law) {
  laws::variable_rate::longest<C>();
}
TEST_CASE_TEMPLATE_APPLY(longest_law, all_codecs);

TEST_CASE_TEMPLATE_DEFINE("variable rate: decoded values do not change again", C, round_trip_law) {
  laws::variable_rate::round_trip<C>();
}
TEST_CASE_TEMPLATE_APPLY(round_trip_law, all_codecs);

TEST_CASE_TEMPLATE_DEFINE("variable rate: all functions that add two vectors agree", C, sums_law) {
  laws::variable_rate::sums<C>();
}
TEST_CASE_TEMPLATE_APPLY(sums_law, all_codecs);

TEST_CASE_TEMPLATE_DEFINE("variable rate: sums are the same bytes in any order", C, order_law) {
  laws::variable_rate::order<C>();
}
TEST_CASE_TEMPLATE_APPLY(order_law, all_codecs);

TEST_CASE_TEMPLATE_DEFINE("variable rate: NaN and infinity propagate", C, nonfinite_law) {
  laws::variable_rate::nonfinite<C>();
}
TEST_CASE_TEMPLATE_APPLY(nonfinite_law, all_codecs);

TEST_CASE_TEMPLATE_DEFINE("variable rate: damaged vectors are refused or decoded in place", C,
                          damage_law) {
  laws::variable_rate::damage<C>();
}
TEST_CASE_TEMPLATE_APPLY(damage_law, all_codecs);

TEST_CASE_TEMPLATE_DEFINE("variable rate: vectors that end inside a chunk are refused", C,
                          cut_law) {
  laws::variable_rate::cut_chunks<C>();
}
TEST_CASE_TEMPLATE_APPLY(cut_law, all_codecs);

TEST_CASE_TEMPLATE_DEFINE("variable rate: other lengths, settings and codecs are refused", C,
                          mismatch_law) {
  laws::variable_rate::mismatch<C>();
}
TEST_CASE_TEMPLATE_APPLY(mismatch_law, all_codecs);

TEST_CASE_TEMPLATE_DEFINE("variable rate: every SIMD level gives the same bytes", C, levels_law) {
  laws::variable_rate::levels<C>();
}
TEST_CASE_TEMPLATE_APPLY(levels_law, all_codecs);
