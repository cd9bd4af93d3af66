#include <doctest/doctest.h>

#include <hcomp/core/error.hpp>
#include <string>

TEST_CASE("transport_error: carries the peer and the text, and is a runtime_error") {
  try {
    throw hcomp::transport_error(3, "send to rank 3 failed at hop 5");
  } catch (std::runtime_error const& error) {
    CHECK(std::string(error.what()) == "send to rank 3 failed at hop 5");
    CHECK(dynamic_cast<hcomp::transport_error const&>(error).peer() == 3);
  }
}
