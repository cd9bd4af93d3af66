#include "codec_table.hpp"

#include <c/settings.hpp>
#include <cstdint>
#include <hcomp/collective/by_name/codec_info.hpp>
#include <hcomp/collective/by_name/registered_codecs.hpp>
#include <hcomp/collective/schedule/algorithm.hpp>
#include <hcomp/core/half.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace hcomp::info {
namespace {

/// "`a`, `b`"; "-" for an empty list.
std::string list(std::vector<std::string> const& words) {
  std::string text;
  for (auto const& word : words) text += (text.empty() ? "`" : ", `") + word + "`";
  return text.empty() ? "-" : text;
}

/// Keys with their defaults, or with a placeholder if required: "`bits=4`", "`bound=NUMBER`".
std::string settings_of(codec_info const& codec) {
  std::vector<std::string> words;
  for (auto const& key : codec.keys)
    words.push_back(key.name + "=" + (key.usual ? key.text(*key.usual) : key.values()));
  return list(words);
}

std::string algorithms_of(codec_info const& codec) {
  std::vector<std::string> words;
  for (auto const kind : codec.algorithms) words.push_back(algorithm{kind}.name());
  return list(words);
}

std::string_view to_text(accuracy_class promise) {
  switch (promise) {
    case accuracy_class::exact: return "exact";
    case accuracy_class::rounded: return "rounded";
    case accuracy_class::error_bounded: return "error-bounded";
    case accuracy_class::noisy: return "noisy";
  }
  return "?";
}

}  // namespace

std::string codec_table() {
  drop_in::add_codecs_from_environment();
  std::string text =
      "| codec | value types | description | keys and defaults | algorithms | accuracy "
      "| propagates NaN, infinity |\n|---|---|---|---|---|---|---|\n";
  auto const row = [&](codec_info const& codec, std::string_view values) {
    auto names = codec.also;
    names.insert(names.begin(), codec.name);
    text.append("| ").append(list(names)).append(" | ").append(values);
    text.append(" | ").append(codec.about);
    text.append(" | ").append(settings_of(codec)).append(" | ").append(algorithms_of(codec));
    text.append(" | ").append(to_text(codec.promise));
    text.append(codec.carries_nonfinite ? " | yes |\n" : " | no |\n");
  };
  registered_codecs<float>().for_each([&](codec_info const& codec) {
    bool const of_doubles = registered_codecs<double>().find(codec.name) != nullptr,
               of_halves = registered_codecs<float16>().find(codec.name) != nullptr;
    row(codec, of_halves ? "any" : of_doubles ? "float, double" : "float");
  });
  registered_codecs<std::int32_t>().for_each(
      [&](codec_info const& codec) { row(codec, "int32, int64"); });
  return text;
}

}  // namespace hcomp::info
