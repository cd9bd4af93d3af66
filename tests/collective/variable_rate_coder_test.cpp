// optimise: -O1
/// @file
/// The laws of tests/support/laws/variable_rate_coder.hpp about threads and errors, and what only
/// some codecs have: sums of integers that no ranks have, and exponents.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <support/laws/variable_rate_coder.hpp>
#include <type_traits>
#include <utility>
#include <vector>

using hcomp::error_bounded;
using hcomp::variable_rate_coder;
using hcomp::testing::encoded;
using hcomp::testing::guarded_executor;
using laws::variable_rate::all_codecs;
using laws::variable_rate_coder::error_of;
using workers::array;

namespace {

using floats = std::vector<float>;
using bytes = std::vector<std::byte>;

}  // namespace

TEST_CASE_TEMPLATE_DEFINE("variable_rate_coder: bytes and values of the codec by threads", C,
                          threads_law) {
  laws::variable_rate_coder::by_threads<C>();
}
TEST_CASE_TEMPLATE_APPLY(threads_law, all_codecs);

TEST_CASE_TEMPLATE_DEFINE("variable_rate_coder: many chunks", C, chunks_law) {
  laws::variable_rate_coder::many_chunks<C>();
}
TEST_CASE_TEMPLATE_APPLY(chunks_law, all_codecs);

TEST_CASE_TEMPLATE_DEFINE("variable_rate_coder: errors of the codec about damaged vectors", C,
                          damage_law) {
  laws::variable_rate_coder::damage<C>();
}
TEST_CASE_TEMPLATE_APPLY(damage_law, all_codecs);

TEST_CASE_TEMPLATE_DEFINE("variable_rate_coder: wrong sizes and addresses are refused", C,
                          refusal_law) {
  laws::variable_rate_coder::refusals<C>();
}
TEST_CASE_TEMPLATE_APPLY(refusal_law, all_codecs);

TEST_CASE("variable_rate_coder of error_bounded: the first sum that no ranks have is reported") {
  constexpr std::size_t n = 9000;
  error_bounded const codec({.bound = 1e-3, .ranks = 3});
  auto const errors = [&](auto& executor, bytes const& a, bytes const& b) {
    variable_rate_coder<error_bounded<>, std::decay_t<decltype(executor)>> coder(n, executor);
    array const first(executor, a), second(executor, b), code(executor, bytes(codec.capacity(n)));
    auto const found = error_of([&] {
      coder.merge(codec, first.span(), second.span(), n, code.span());
      coder.bytes(codec);
    });
    bytes out(codec.capacity(n));
    CHECK(found == error_of([&] { codec.merge(a, b, out); }));
    return found;
  };
  /// Encoded blocks of floats and integers; `changes` replace the first words of some.
  auto const changed = [&](std::vector<std::pair<std::size_t, std::uint32_t>> const& changes) {
    floats x(n, 1e30f);
    auto code = encoded(codec, x);
    for (auto const& [i, word] : changes) {
      std::size_t const chunk = i / 4096;
      std::size_t const at = hcomp::load<std::uint32_t>(code.data() + 56, chunk) + 4 +
                             (std::min<std::size_t>(n - chunk * 4096, 4096) + 31) / 32;
      hcomp::store(code.data() + at, i % 4096, word);
    }
    return code;
  };
  constexpr std::uint32_t one_too_many = 3u << 18, huge = 0x28000000u;
  std::vector<std::vector<std::pair<std::size_t, std::uint32_t>>> all = {
      {},
      {{70, one_too_many}},
      {{8500, huge}},
      {{4200, huge}, {4231, one_too_many}, {4300, huge + 5}},
      {{8999, one_too_many}, {4400, huge}},
      {{5000, one_too_many}, {5100, huge}}};
  // in the second chunk, one in every block from some on, and all another sum
  for (std::uint32_t const first : {3, 30, 61}) {
    auto& changes = all.emplace_back();
    for (std::uint32_t block = first; block < 128; ++block)
      changes.push_back({4096 + 32 * block, huge + block});
  }
  floats const zeros(n, 0.0f);
  floats const integers(n, 1.0f);
  auto const check = [&](auto& executor) {
    std::vector<std::string> texts;
    for (auto const& changes : all)
      for (auto const& added : {encoded(codec, zeros), encoded(codec, integers), changed(changes)})
        texts.push_back(errors(executor, changed(changes), added));
    CHECK(std::ranges::count(texts, "") < 8);
    CHECK(std::ranges::count_if(texts, [](auto& text) { return text.find("no ranks") < 99; }) > 2);
    CHECK(std::ranges::count_if(texts, [](auto& text) { return text.find("the most") < 99; }) > 2);

    auto const one = encoded(codec, integers);
    bytes two(codec.capacity(n));
    two.resize(codec.merge(one, one, two));
    CHECK(errors(executor, two, one) == "");
    CHECK(errors(executor, two, two).find("sums of 2 and 2 ranks") != std::string::npos);
    CHECK(errors(executor, one, one) == "");  // errors of earlier calls are forgotten
  };
  guarded_executor device;
  check(device);
  workers::sharing_executor<5> five;
  check(five);
  hcomp::host_executor one, two(2);
  check(one);
  check(two);
}

TEST_CASE("variable_rate_coder of inceptionn: measures more chunks than a device has blocks") {
  guarded_executor executor;
  variable_rate_coder<hcomp::inceptionn, guarded_executor> coder(0, executor);
  for (std::size_t const place : {0, 1023 * 1024, 1024 * 1024, 1'500'000 - 1}) {
    floats x(1'500'000, 1e-3f);
    x[place] = -7;
    CHECK(coder.measure(array(executor, x).span()) == hcomp::inceptionn::measure(x));
  }
}
