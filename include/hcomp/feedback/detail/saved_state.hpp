#pragma once
/// @file
/// The checkpoint format of compensation state: self-describing bytes.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/detail/error_text.hpp>
#include <hcomp/core/group.hpp>
#include <hcomp/core/hash.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace hcomp::detail {

/// Header of a saved state.
struct saved_state_header {
  std::uint32_t magic = 0x74734368;  ///< "hCst"
  std::uint16_t version = 1;
  std::uint16_t kind = 0;         ///< identifies the class that wrote it
  std::uint32_t value_bytes = 0;  ///< 4: float, 8: double
  std::uint32_t reserved = 0;
  std::uint64_t values = 0;
  std::uint64_t round = 0;
  std::uint64_t fingerprint = 0;  ///< of the values
};

template <class T>
std::vector<std::byte> save_state(std::uint16_t kind, std::uint64_t round,
                                  std::vector<T> const& values) {
  saved_state_header header;
  header.kind = kind;
  header.value_bytes = sizeof(T);
  header.values = values.size();
  header.round = round;
  auto const* const bytes = reinterpret_cast<std::byte const*>(values.data());
  std::size_t const count = values.size() * sizeof(T);
  header.fingerprint = fingerprint(serial_group{}, bytes, count);
  std::vector<std::byte> saved(sizeof(header) + count);
  store(saved.data(), 0, header);
  if (count > 0) std::memcpy(saved.data() + sizeof(header), bytes, count);
  return saved;
}

/// Reads a saved state into `values` and returns its round. Strong exception guarantee.
template <class T>
std::uint64_t restore_state(char const* who, std::uint16_t kind, std::span<std::byte const> saved,
                            std::vector<T>& values) {
  auto const refuse = [&](std::string const& what) {
    throw std::invalid_argument(error_text({who, ": cannot restore: ", what}));
  };
  saved_state_header const expected;
  if (saved.size() < sizeof(expected))
    refuse(std::to_string(saved.size()) + " bytes are less than a header of " +
           std::to_string(sizeof(expected)));
  auto const header = load<saved_state_header>(saved.data());
  if (header.magic != expected.magic || header.version != expected.version)
    refuse("not a state of version " + std::to_string(expected.version));
  if (header.kind != kind)
    refuse("the state is of kind " + std::to_string(header.kind) + ", this is kind " +
           std::to_string(kind));
  if (header.value_bytes != sizeof(T))
    refuse("its values have " + std::to_string(header.value_bytes) + " bytes, " +
           std::to_string(sizeof(T)) + " are expected");
  if (header.values != values.size())
    refuse("it has " + std::to_string(header.values) + " values, the tensor has " +
           std::to_string(values.size()));
  auto const* const bytes = saved.data() + sizeof(header);
  std::size_t const count = values.size() * sizeof(T);
  if (saved.size() != sizeof(header) + count)
    refuse("it has " + std::to_string(saved.size()) + " bytes, " +
           std::to_string(sizeof(header) + count) + " are expected");
  if (header.fingerprint != fingerprint(serial_group{}, bytes, count))
    refuse("its values do not match their fingerprint");
  if (count > 0) std::memcpy(values.data(), bytes, count);
  return header.round;
}

}  // namespace hcomp::detail
