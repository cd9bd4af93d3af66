#pragma once
/// @file
/// Text without terminal control sequences.

#include <cstddef>
#include <string>
#include <string_view>

namespace hcomp::detail {

/// Returns `text` with each control byte escaped, for example as \x1b, so that a terminal does not
/// obey it. Keeps line breaks and tabs. Use it in messages for text from outside: settings, names,
/// paths.
inline std::string printable(std::string_view text) {
  constexpr char digits[] = "0123456789abcdef";
  std::string shown;
  shown.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    auto const byte = static_cast<unsigned char>(text[i]);
    // U+0080 to U+009f are control characters, too; in UTF-8 they have two bytes
    bool const is_second = i > 0 && static_cast<unsigned char>(text[i - 1]) == 0xc2;
    bool const is_control = (byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7f ||
                            (is_second && byte >= 0x80 && byte < 0xa0);
    if (is_control)
      ((shown += "\\x") += digits[byte >> 4]) += digits[byte & 15];
    else
      shown += text[i];
  }
  return shown;
}

}  // namespace hcomp::detail
