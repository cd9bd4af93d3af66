// max_simd: avx2 baseline

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <hcomp/core/simd_level.hpp>
#include <optional>
#include <stdexcept>
#include <string>

using hcomp::simd_level;

namespace {

constexpr simd_level levels[] = {simd_level::baseline, simd_level::avx2, simd_level::avx512};

/// Sets HCOMP_MAX_SIMD during its lifetime; null: unset.
class max_simd {
 public:
  explicit max_simd(char const* value) {
    if (char const* const now = std::getenv(name)) before_ = now;
    set(value);
  }
  max_simd(max_simd const&) = delete;
  max_simd& operator=(max_simd const&) = delete;
  ~max_simd() { set(before_ ? before_->c_str() : nullptr); }

 private:
  static constexpr char const* name = "HCOMP_MAX_SIMD";
  static void set(char const* value) {
    if (value)
      setenv(name, value, 1);
    else
      unsetenv(name);
  }
  std::optional<std::string> before_;
};

std::string error_with(char const* value) {
  max_simd const limit(value);
  try {
    hcomp::detail::find_simd_level();
  } catch (std::invalid_argument const& what) {
    return what.what();
  }
  return "none";
}

}  // namespace

TEST_CASE("best_simd_level: keeps the level of HCOMP_MAX_SIMD at the first call") {
  auto const level = hcomp::best_simd_level();
  CHECK(level == hcomp::detail::find_simd_level());
  for (char const* const later : {"baseline", "avx512", "none"}) {
    max_simd const limit(later);
    CHECK(hcomp::best_simd_level() == level);
  }
}

TEST_CASE("HCOMP_MAX_SIMD: lowers the processor's level and never raises it") {
  auto const processor = hcomp::processor_simd_level();
  for (auto const level : levels) {
    CAPTURE(name_of(level));
    max_simd const limit(name_of(level));
    CHECK(hcomp::detail::find_simd_level() == std::min(level, processor));
    for (auto const other : levels)
      CHECK(hcomp::detail::simd_level_below(other, name_of(level)) == std::min(level, other));
  }
  for (char const* const no_limit : {static_cast<char const*>(nullptr), ""}) {
    max_simd const limit(no_limit);
    CHECK(hcomp::detail::find_simd_level() == processor);
  }
}

TEST_CASE("HCOMP_MAX_SIMD: an unknown level is refused with its value and the known levels") {
  for (char const* const word : {"AVX2", "avx", "avx512 ", "sse4", "2"})
    CHECK(error_with(word) ==
          "HCOMP_MAX_SIMD: '" + std::string(word) + "'; it can be baseline, avx2 or avx512");
  CHECK(error_with("avx\x1b") == "HCOMP_MAX_SIMD: 'avx\\x1b'; it can be baseline, avx2 or avx512");
  for (auto const level : levels) {
    CHECK(error_with("sse4").find(name_of(level)) != std::string::npos);
    CHECK(error_with(name_of(level)) == "none");
  }
}
