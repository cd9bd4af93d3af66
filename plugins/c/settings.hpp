#pragma once
/// @file
/// HCOMP_CONFIG: its text, and the parsed rules.

#include <cstddef>
#include <cstdint>
#include <hcomp/collective/schedule/algorithm.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace hcomp::drop_in {

/// Only NCCL has rules for 16-bit floats. Unsigned integers map to int32 and int64, whose sums have
/// the same bits.
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

/// A codec with its keys, algorithm and error feedback.
struct codec_spec {
  std::string codec = "none";  ///< one of codec_names()
  std::string keys = {};       ///< of the codec, always with its first key: "bits=4,transform=64"
  hcomp::algorithm algorithm = {};  ///< default: the codec's own
  bool feedback = false;            ///< error feedback
  int turns = 1;                    ///< number of tensors that take turns in one buffer
  int threads = 1;                  ///< for encoding and decoding, per rank

  /// As in a rule: "thc:bits=4 feedback=yes".
  std::string text() const;
  /// As make_plan reads it: "thc:bits=4".
  std::string entry_text() const { return keys.empty() ? codec : codec + ":" + keys; }
  friend bool operator==(codec_spec const&, codec_spec const&) = default;
};

/// Selects vectors, and says how to reduce them.
struct rule {
  value_type type = value_type::float32;
  codec_spec spec;
  std::size_t min_bytes = 64 * 1024;
  std::size_t max_bytes = static_cast<std::size_t>(-1);
  int min_ranks = 2;
  bool if_faster = false;    ///< MPI reduces the vector where it is faster
  bool takes_device = true;  ///< also concerns vectors in device memory
  int check_every = 0;       ///< every n-th call of this rule is compared with MPI; 0: none

  bool concerns(value_type t, std::size_t bytes, int ranks) const {
    return t == type && bytes >= min_bytes && bytes <= max_bytes && ranks >= min_ranks;
  }
  /// "float: thc:bits=4 feedback=yes min=1MiB".
  std::string text() const;
  friend bool operator==(rule const&, rule const&) = default;
};

/// The library whose calls the rules are for.
///
/// nccl: types are float, float16 and bfloat16, and `all` means these; codecs have a fixed rate;
/// rules have the keys feedback (default no), algorithm (hierarchical), min, max and ranks, and the
/// program feedback_memory.
enum class calls_of : std::uint8_t { mpi, nccl };

/// The complete configuration. Equal on all ranks. For MPI:
///
///     float: thc:bits=4 min=1MiB; float: fp16; double: none; nonblocking=yes
///
/// Clauses are separated by ';'. A clause `<type>: <codec> <key>=<value>...` is a rule for vectors
/// of `float`, `double`, `int32`, `int64` or `all`. `all` means float and double, or float alone if
/// the codec supports only float. The first rule that concerns a vector applies. codec_names() and
/// help() list codecs and keys.
///
/// Sizes are in bytes, or have a suffix KiB, MiB, GiB, kB, MB or GB. By default MPI reduces vectors
/// below 64 KiB and communicators of one rank; `min` and `ranks` change this. A clause
/// `<key>=<value>` applies to the entire program.
struct settings {
  std::vector<rule> rules;
  bool nonblocking = false;  ///< MPI_Init requests MPI_THREAD_MULTIPLE, which MPI_Iallreduce needs
  std::size_t feedback_bytes = std::size_t{1} << 30;  ///< memory limit for residuals
  std::size_t shadow_calls = 0;                       ///< number of trial calls, beside MPI's own

  /// Parses the text. An empty text has no rules.
  /// @throws std::invalid_argument  a clause is invalid or can never apply; the text names the
  ///                                clause and the valid choices
  static settings from(std::string_view text, calls_of whose = calls_of::mpi);
  /// The first rule for the vector; null: MPI reduces it.
  rule const* find(value_type type, std::size_t bytes, int ranks) const;
  /// Why no rule concerns the vector.
  char const* why_none(value_type type, std::size_t bytes, int ranks) const;
  /// Canonical text: equal texts mean equal settings. from() parses it.
  std::string text() const;
  friend bool operator==(settings const&, settings const&) = default;
};

/// Adds the codecs of the shared objects in HCOMP_CODECS, once. Returns their names, separated by
/// commas. Functions that need codecs call it themselves.
/// @throws std::invalid_argument  a shared object cannot be loaded; nothing is added, and every
///                                call throws
std::string const& add_codecs_from_environment();
/// "none", which means MPI's own all-reduce, and the names in registered_codecs.
std::vector<std::string> const& codec_names();
/// One line on the codec's function and cost; empty for an unknown codec.
std::string_view about_codec(std::string_view codec);
/// All settings, one per line, for hcomp-info and messages.
std::string help();

}  // namespace hcomp::drop_in
