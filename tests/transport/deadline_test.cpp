#include <doctest/doctest.h>

#include <chrono>
#include <hcomp/transport/detail/deadline.hpp>

using hcomp::detail::deadline;
using namespace std::chrono_literals;

TEST_CASE("deadline: passes after the limit if it is polled often") {
  deadline limit(2s, 100s);
  CHECK(limit.left(100s) == 2s);
  for (auto now = 100s + 250ms; now < 102s; now += 250ms) CHECK_FALSE(limit.passed(now));
  CHECK(limit.left(101s + 900ms) == 100ms);
  CHECK(limit.passed(102s));
  CHECK(limit.left(102s + 1ms) == -1ms);
}

TEST_CASE("deadline: time in which the process did not run does not count") {
  deadline limit(2s, 0s);
  CHECK_FALSE(limit.passed(500ms));
  CHECK_FALSE(limit.passed(1h));  // stopped for an hour; counts as a quarter of the limit
  CHECK(limit.left(1h) == 1s);
  CHECK(limit.longest_sleep() == 500ms);
  CHECK_FALSE(limit.passed(1h + 500ms));
  CHECK(limit.passed(1h + 1s));
}

TEST_CASE("deadline: 0 is no limit, and a short limit ends") {
  deadline never(0s, 0s), soon(1ns, 0s);
  for (int hours = 1; hours < 10; ++hours) CHECK_FALSE(never.passed(std::chrono::hours(hours)));
  CHECK(never.left(10h) == deadline::time::max());
  CHECK(soon.passed(1ns));
}
