#pragma once
/// @file
/// Exceptions of hcomp besides std::invalid_argument. Every text contains the relevant values.

#include <stdexcept>
#include <string>

namespace hcomp {

/// Data transfer failed. The transport that threw it must not be used again.
class transport_error : public std::runtime_error {
 public:
  /// @param peer  the rank that could not be reached, or -1 if the cause is not a single peer
  transport_error(int peer, std::string const& text) : std::runtime_error(text), peer_(peer) {}

  int peer() const noexcept { return peer_; }

 private:
  int peer_;
};

/// Arguments of a collective contradict each other between ranks. Thrown on all ranks alike.
class disagreement_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The values of some rank are not in its executor's memory space. Thrown on all ranks alike.
class memory_error : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

/// An encoded block is invalid: wrong version, codec, step or length, or damaged bytes.
class wire_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// NaN or infinity in some rank's input, or a sum of finite values that overflows, if the caller
/// asked for an error. Thrown on all ranks alike.
class nonfinite_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace hcomp
