#pragma once
/// @file
/// Codecs as data: names, settings and promises.

#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <hcomp/collective/schedule/algorithm.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hcomp {

/// A setting of a codec chosen by name, such as bits=4.
struct codec_key {
  enum class kind { whole, real, yes_no };

  std::string name;
  kind is = kind::whole;
  double least = 0, most = 1;
  std::optional<double> usual = {};  ///< default value; none: required
  std::string about = {};            ///< in a few words
  std::string instead_of = {};  ///< a key without a default: exactly one of the two must be given

  /// @throws std::invalid_argument  not a valid value
  double read(std::string_view value) const {
    if (is == kind::yes_no) {
      if (value != "yes" && value != "no") refuse(value);
      return value == "yes" ? 1 : 0;
    }
    double number = 0;
    char const* const end = value.data() + value.size();
    auto const [at, error] = std::from_chars(value.data(), end, number);
    bool const is_number = error == std::errc{} && at == end && number >= least && number <= most;
    if (!is_number || (is == kind::whole && std::floor(number) != number)) refuse(value);
    return number;
  }
  /// The value as a user writes it.
  std::string text(double value) const {
    if (is == kind::yes_no) return value != 0 ? "yes" : "no";
    char digits[32];
    return {digits, std::to_chars(digits, digits + sizeof(digits), value).ptr};
  }
  /// "yes|no", "1..8" or "NUMBER".
  std::string values() const {
    if (is == kind::yes_no) return "yes|no";
    return is == kind::whole ? text(least) + ".." + text(most) : "NUMBER";
  }
  /// "yes or no", "a whole number from 1 to 8".
  std::string range() const {
    if (is == kind::yes_no) return "yes or no";
    char limits[64];
    std::snprintf(limits, sizeof(limits), " from %.3g to %.3g", least, most);
    return (is == kind::whole ? "a whole number" : "a number") + std::string(limits);
  }
  /// "bits, of one rank's value: a whole number from 1 to 8".
  std::string description() const { return name + ", " + about + ": " + range(); }

 private:
  [[noreturn]] void refuse(std::string_view value) const {
    throw std::invalid_argument("'" + name + "=" + std::string(value) + "': " + name + " is " +
                                range());
  }
};

/// How accurate the result of a reduction is.
enum class accuracy_class {
  exact,          ///< the bits of an uncompressed sum in some order; zeros may change their sign
  rounded,        ///< every encoding and every addition rounds to the precision of the encoding
  error_bounded,  ///< the error of every value is at most what the codec states
  noisy,  ///< large error of each value: for training, with error feedback where the codec takes it
};

class codec_settings;

/// One value of a sum over `ranks` ranks.
struct summed_value {
  int ranks;
  double magnitude;  ///< sum of the ranks' magnitudes
  double exact;
  double largest;  ///< largest magnitude of any value of the vector on any rank
};

/// Properties of a codec, without its type.
struct codec_info {
  std::string name;
  std::string about = {};                       ///< effect and cost, in one line
  std::vector<codec_key> keys = {};             ///< the name of the first may be omitted
  std::vector<algorithm_kind> algorithms = {};  ///< the first is the default
  accuracy_class promise = accuracy_class::rounded;
  /// accuracy_class::rounded: relative error of each rounding; 0: that of the value type.
  double rounding = 0;
  /// accuracy_class::error_bounded: largest error of a value of a sum. Null: unknown.
  double (*largest_error)(codec_settings const&, summed_value const&) = nullptr;
  bool takes_feedback = true;   ///< error_feedback and global_compensation
  bool wants_feedback = false;  ///< the residual is large enough to be worth its memory
  /// See RefusesFeedback. Null: refuses with no settings.
  std::string (*feedback_refusal)(codec_settings const&) = nullptr;
  /// Propagates NaN and infinity, and turns no other value into one of them.
  bool carries_nonfinite = false;
  bool is_uncompressed = false;        ///< sends values unchanged
  std::vector<std::string> also = {};  ///< other names

  /// Whether any_plan::set_magnitude has an effect.
  bool has_magnitude() const {
    for (auto const& key : keys)
      if (key.name == "magnitude") return true;
    return false;
  }
  bool is_called(std::string_view text) const {
    for (auto const& other : also)
      if (other == text) return true;
    return name == text;
  }
};

/// The settings of one codec.
class codec_settings {
 public:
  /// The default values, where keys have one.
  explicit codec_settings(codec_info const& codec) {
    for (auto const& key : codec.keys) values_.emplace_back(key, key.usual);
  }

  /// @throws std::invalid_argument  unknown key or invalid value; the text lists what exists
  void set(std::string_view key, std::string_view value) {
    auto& one = values_[place_of(key)];
    one.second = one.first.read(value);
  }
  /// As `set`, and removes the value of the key that this one replaces.
  void replace(std::string_view key, std::string_view value) {
    set(key, value);
    auto const& set_one = values_[place_of(key)].first;
    for (auto& [other, its_value] : values_)
      if (stand_in_one_place(set_one, other)) its_value.reset();
  }
  /// Empty if the key is neither set nor has a default.
  /// @throws std::invalid_argument  unknown key
  std::optional<double> get(std::string_view key) const { return values_[place_of(key)].second; }
  /// @throws std::invalid_argument  unknown key, or a key without a value
  double operator[](std::string_view key) const {
    auto const value = get(key);
    if (!value) throw std::invalid_argument(need_of(values_[place_of(key)].first));
    return *value;
  }
  int whole(std::string_view key) const { return static_cast<int>((*this)[key]); }
  bool yes(std::string_view key) const { return (*this)[key] != 0; }

  /// @throws std::invalid_argument  a required key is missing, or two exclusive keys are both given
  void require_all() const {
    for (auto const& [key, value] : values_) {
      if (key.instead_of.empty()) {
        bool given = value.has_value();
        for (auto const& [other, its_value] : values_)
          given |= other.instead_of == key.name && its_value;
        if (!given) throw std::invalid_argument(need_of(key));
      } else if (value && get(key.instead_of)) {
        throw std::invalid_argument("it takes " + key.instead_of + " or " + key.name +
                                    ", not both");
      }
    }
  }
  /// The settings that differ from the defaults: "bits=4,transform=64"; empty if none does.
  std::string text() const {
    std::string text;
    for (auto const& [key, value] : values_)
      if (value && value != key.usual)
        text += (text.empty() ? "" : ",") + key.name + "=" + key.text(*value);
    return text;
  }

 private:
  static bool stand_in_one_place(codec_key const& a, codec_key const& b) {
    return a.instead_of == b.name || b.instead_of == a.name;
  }
  std::string need_of(codec_key const& key) const {
    std::string text = "it needs " + key.description();
    for (auto const& [other, value] : values_)
      if (other.instead_of == key.name) text += "; or " + other.description();
    return text;
  }
  std::size_t place_of(std::string_view key) const {
    for (std::size_t i = 0; i < values_.size(); ++i)
      if (values_[i].first.name == key) return i;
    std::string known;
    for (auto const& one : values_) known += (known.empty() ? "" : ", ") + one.first.name;
    throw std::invalid_argument("it has no key '" + std::string(key) + "'; " +
                                (known.empty() ? "it has none" : "it has: " + known));
  }

  std::vector<std::pair<codec_key, std::optional<double>>> values_;
};

}  // namespace hcomp
