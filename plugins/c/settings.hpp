#pragma once
/// @file
/// What a user asked of the drop-in library, as text and as values.

#include <cstddef>
#include <cstdint>
#include <hcomp/collective/schedule/algorithm.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace hcomp::drop_in {

/// Of halves there are no rules; they have names in messages only. Unsigned integers, whose sums have
/// the same bits, are int32 and int64.
enum class value_type : std::uint8_t { float32, float64, float16, bfloat16, int32, int64 };

constexpr std::size_t size_of(value_type type) {
  switch (type) {
    case value_type::float32:
    case value_type::int32: return 4;
    case value_type::float64:
    case value_type::int64: return 8;
    default: return 2;
  }
}
/// "float", "double", "float16", "bfloat16", "int32" or "int64".
std::string_view to_text(value_type type);

/// How vectors are summed.
struct codec_spec {
  std::string codec = "none";  ///< one of codec_names()
  std::string keys = {};       ///< of the codec, the first of them always: "bits=4,transform=64"
  hcomp::algorithm algorithm = {};  ///< the codec's own unless asked otherwise
  bool feedback = false;            ///< what a rank's encoding lost is added to its next vector
  int turns = 1;                    ///< tensors that share one buffer, one after the other
  int threads = 1;                  ///< that encode and decode, per rank

  /// As a rule has it: "thc:bits=4 feedback=yes".
  std::string text() const;
  /// As make_plan reads it: "thc:bits=4".
  std::string entry_text() const { return keys.empty() ? codec : codec + ":" + keys; }
  friend bool operator==(codec_spec const&, codec_spec const&) = default;
};

/// Which vectors it concerns, and how they are summed.
struct rule {
  value_type type = value_type::float32;
  codec_spec sum;
  std::size_t min_bytes = 64 * 1024;
  std::size_t max_bytes = static_cast<std::size_t>(-1);
  int min_ranks = 2;
  bool if_faster = false;    ///< sums are MPI's where that is quicker
  bool takes_device = true;  ///< vectors in a device's memory, too
  int check_every =
      0;  ///< every so manieth call by this rule is compared with MPI's own sum; 0: none

  bool concerns(value_type t, std::size_t bytes, int ranks) const {
    return t == type && bytes >= min_bytes && bytes <= max_bytes && ranks >= min_ranks;
  }
  /// "float: thc:bits=4 feedback=yes min=1MiB".
  std::string text() const;
  friend bool operator==(rule const&, rule const&) = default;
};

/// All of it. Equal on all ranks.
///
///     float: thc:bits=4 min=1MiB; float: fp16; double: none; nonblocking=yes
///
/// Clauses are separated by ';'. A clause `<type>: <codec> <key>=<value>...` is a rule for vectors
/// of `float`, `double`, `int32`, `int64` or `all` (float and double, or float alone where the codec
/// is for float only); of several the first that concerns a vector counts. Codecs and the keys they have: see
/// codec_names() and help(). Sizes are in bytes, or with KiB, MiB, GiB, kB, MB, GB behind them.
/// Vectors below 64 KiB and communicators of one rank are MPI's unless asked otherwise by `min` and
/// `ranks`. A clause `<key>=<value>` is for the whole program.
struct settings {
  std::vector<rule> rules;
  bool nonblocking = false;  ///< MPI_Init asks for MPI_THREAD_MULTIPLE, which MPI_Iallreduce needs
  std::size_t feedback_bytes = std::size_t{1} << 30;  ///< most memory for what encoding lost
  std::size_t shadow_calls = 0;  ///< so many calls are only tried, beside MPI's own sum

  /// No rules if the text is empty.
  /// @throws std::invalid_argument  what cannot be understood or would never count, where, and
  ///                                what could be there instead
  static settings from(std::string_view text);
  /// The rule for such a vector; none: it is MPI's.
  rule const* find(value_type type, std::size_t bytes, int ranks) const;
  /// Why there is none, for such a vector.
  char const* why_none(value_type type, std::size_t bytes, int ranks) const;
  /// Always written in the same way: equal texts mean equal settings. from() reads it.
  std::string text() const;
  friend bool operator==(settings const&, settings const&) = default;
};

/// Adds the codecs of the shared objects in HCOMP_CODECS, once. Returns their names, with commas.
/// What needs codecs calls it by itself.
/// @throws std::invalid_argument  they cannot be had; nothing is added, and every call says so
std::string const& add_codecs_from_environment();
/// none, which is MPI's own sum, and those of registered_codecs.
std::vector<std::string> const& codec_names();
/// What it does and costs, in a line; empty if there is no such codec.
std::string_view about_codec(std::string_view codec);
/// All that can be set, a line each: for hcomp-info and messages.
std::string help();

}  // namespace hcomp::drop_in
