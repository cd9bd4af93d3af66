#pragma once
/// @file
/// What hcomp throws beside std::invalid_argument. Every text carries the values that matter.

#include <stdexcept>
#include <string>

namespace hcomp {

/// Moving bytes failed. The transport that threw it must not be used again.
class transport_error : public std::runtime_error {
 public:
  /// @param peer  the rank that could not be reached, or -1 where the cause has no single peer
  transport_error(int peer, std::string const& text) : std::runtime_error(text), peer_(peer) {}

  int peer() const noexcept { return peer_; }

 private:
  int peer_;
};

/// Ranks called a collective with arguments that contradict each other. Thrown on all ranks alike.
class disagreement_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Some rank's values are not in memory that its executor can work on. Thrown on all ranks alike.
class memory_error : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

/// An encoded block is not what it must be: other version, codec, step or length, or damaged bytes.
class wire_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Some rank put NaN or infinity in, or a sum of finite values overflows, and the caller asked to
/// be told. Thrown on all ranks alike.
class nonfinite_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace hcomp
