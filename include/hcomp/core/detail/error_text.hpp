#pragma once
/// @file
/// Builds error texts out of line.

#include <bit>
#include <charconv>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

namespace hcomp::detail {

/// One piece of a text: words or a number. A double has the fewest digits that identify it.
class text_piece {
 public:
  text_piece(char const* words) : words_(words) {}
  text_piece(std::string_view words) : words_(words.data()), number_(words.size()), is_(view) {}
  text_piece(std::string const& words) : text_piece(std::string_view(words)) {}
  template <std::integral T>
  text_piece(T number)
      : number_(static_cast<std::uint64_t>(number)),
        is_(std::signed_integral<T> ? whole : natural) {}
  text_piece(double number) : number_(std::bit_cast<std::uint64_t>(number)), is_(real) {}

  void append_to(std::string& text) const {
    char digits[24];  // as long as -1.7976931348623157e+308
    char* const end = digits + sizeof(digits);
    switch (is_) {
      case literal: text += words_; return;
      case view: text.append(words_, number_); return;
      case whole:
        text.append(digits, std::to_chars(digits, end, static_cast<std::int64_t>(number_)).ptr);
        return;
      case natural: text.append(digits, std::to_chars(digits, end, number_).ptr); return;
      case real:
        text.append(digits, std::to_chars(digits, end, std::bit_cast<double>(number_)).ptr);
    }
  }

 private:
  char const* words_ = nullptr;
  std::uint64_t number_ = 0;  ///< its bits, or the length of a string view
  enum { literal, view, whole, natural, real } is_ = literal;
};

/// Concatenates pieces: error_text({"peer ", 7, ", but there are ", ranks}). Keeps throwing
/// functions small and fast to compile; `+` and std::to_string would be inlined into every caller.
[[gnu::cold, gnu::noinline]] inline std::string error_text(
    std::initializer_list<text_piece> pieces) {
  std::string text;
  for (auto const& piece : pieces) piece.append_to(text);
  return text;
}

}  // namespace hcomp::detail
