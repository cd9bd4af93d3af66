#include <doctest/doctest.h>

#include <hcomp/codec/registry.hpp>
#include <set>
#include <stdexcept>
#include <string>
#include <support/laws.hpp>
#include <vector>

TEST_CASE_TEMPLATE("builtin_codecs: names and codec ids are unique", T, float, double) {
  std::vector<std::string> names;
  std::set<std::string> different_names;
  std::set<int> kinds;
  hcomp::builtin_codecs<T>::for_each([&]<class C>() {
    names.emplace_back(C::name);
    different_names.insert(C::name);
    kinds.insert(C::codec_id);
  });
  CHECK(different_names.size() == names.size());
  CHECK(kinds.size() == names.size());
}

TEST_CASE("builtin_codecs: every codec is mergeable, and satisfies its concepts") {
  laws::for_each_codec([]<class C>() {
    INFO(laws::name_of<C>());
    CHECK(hcomp::HomomorphicSum<C>);
    CHECK(C{}.max_summands() >= 1);
    CHECK(hcomp::fit(C{}, 12).max_summands() >= 12);
    CHECK(C{}.parameters().size() <= 4);
    CHECK(C::block_values % 64 == 0);
    CHECK(C::block_values <= 65535);  // a block header counts in 16 bits
    CHECK(C{}.block_bytes(C::block_values) == C{}.block_bytes());
    CHECK(C{}.block_bytes() % 8 == 0);  // words of the next block keep their alignment
  });
}

TEST_CASE("codec_list: finds every codec by its name and calls for that one only") {
  hcomp::builtin_codecs<float>::for_each([]<class Wanted>() {
    int calls = 0;
    hcomp::builtin_codecs<float>::with(Wanted::name, [&]<class C>() {
      CHECK(std::is_same_v<C, Wanted>);
      ++calls;
    });
    CHECK(calls == 1);
  });
}

TEST_CASE("codec_list: an unknown name is refused with the list of codecs") {
  CHECK_THROWS_WITH_AS(
      hcomp::builtin_codecs<float>::with("gzip", []<class C>() {}),
      "no codec is called 'gzip'; hcomp has: identity, float_cast:fp16, float_cast:bf16, sign, "
      "sign_count, thc, uniform_thc, reproducible",
      std::invalid_argument);
  CHECK_THROWS_AS(hcomp::builtin_codecs<float>::with("", []<class C>() {}), std::invalid_argument);
  CHECK_THROWS_AS(hcomp::builtin_codecs<float>::with("sign ", []<class C>() {}),
                  std::invalid_argument);
}
