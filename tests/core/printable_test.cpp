#include <doctest/doctest.h>

#include <hcomp/core/detail/printable.hpp>

using hcomp::detail::printable;

TEST_CASE("printable: leaves no control byte") {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  for (unsigned char const byte : printable(all)) {
    CAPTURE(int{byte});
    CHECK((byte >= 0x20 || byte == '\n' || byte == '\t'));
    CHECK(byte != 0x7f);
  }
  CHECK(printable("th\x1b[31mc") == "th\\x1b[31mc");
  CHECK(printable(std::string_view("a\0b\r", 4)) == "a\\x00b\\x0d");
  CHECK(printable("\xc2\x9b"
                  "31m") == "\xc2\\x9b31m");  // the same command in two bytes
}

TEST_CASE("printable: keeps all other bytes") {
  for (auto const* const text : {"", "no codec is called 'gzip'", "two\nlines\tand a tab",
                                 "gr\xc3\xb6\xc3\x9f"
                                 "er, \xe2\x82\xac"})
    CHECK(printable(text) == text);
}
