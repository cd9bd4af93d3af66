#pragma once
/// @file
/// Parts of command lines, shared by the examples.

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <hcomp/collective/schedule/algorithm.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace example {

/// Thrown for --help (status 0) and for command-line errors. `text` is for the user.
struct usage {
  std::string text;
  int status;
};

/// Rejects the command line.
/// @throws usage  status 1, with this text and a line break
template <class... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> text, Args&&... args) {
  throw usage{fmt::format(text, std::forward<Args>(args)...) + "\n", 1};
}

/// Parses the command line.
/// @throws usage  --help, or an error
inline void parse(CLI::App& app, int argc, char const* const* argv) {
  try {
    app.parse(argc, argv);
  } catch (CLI::ParseError const& e) {
    std::ostringstream out, err;
    int const status = app.exit(e, out, err);
    throw usage{out.str() + err.str(), status};
  }
}

/// Accepts names of algorithms.
/// @param also  one further name; empty: none
inline CLI::Validator algorithm_name(std::string const& also = {}) {
  return {[also](std::string const& text) {
            if (!also.empty() && text == also) return std::string();
            try {
              hcomp::algorithm::from(text);
              return std::string();
            } catch (std::invalid_argument const& e) {
              return e.what() + (also.empty() ? std::string() : ", " + also);
            }
          },
          "ALGORITHM"};
}

/// Splits lists of codecs with settings: "thc:bits=2,transform=1024,fp16" has two codecs.
inline std::vector<std::string> codec_list(std::vector<std::string> const& lists) {
  std::vector<std::string> codecs;
  for (auto const& list : lists)
    for (auto const& word : CLI::detail::split(list, ',')) {
      bool const is_setting = word.find('=') < word.find(':');
      if (is_setting && !codecs.empty())
        codecs.back() += "," + word;
      else
        codecs.push_back(word);
    }
  return codecs;
}

/// Accepts finite numbers above 0 or from 0 on. The error text of CLI11's own check would contain
/// the largest double.
inline CLI::Validator number(char const* name, bool allows_zero) {
  return {[=](std::string const& text) {
            double value = 0;
            bool const is_valid = CLI::detail::lexical_cast(text, value) && std::isfinite(value) &&
                                  (value > 0 || (allows_zero && value == 0));
            return is_valid ? std::string()
                            : fmt::format("'{}' is not a number {}", text,
                                          allows_zero ? "from 0 on" : "above 0");
          },
          name};
}
inline CLI::Validator above_zero() { return number("> 0", false); }
inline CLI::Validator from_zero() { return number(">= 0", true); }

}  // namespace example
