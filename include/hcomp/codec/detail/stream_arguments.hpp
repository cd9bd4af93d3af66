#pragma once
/// @file
/// What functions that make and read streams of chunks want of their arguments. Errors name
/// `where` and `who`, a class with its colons and its function.

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace hcomp::detail {

/// @throws std::invalid_argument  too many values, or less bytes than they can take
template <class Header>
void require_room(char const* where, char const* who, std::size_t values, std::size_t bytes) {
  if (values > Header::max_values || bytes < Header::capacity(values))
    throw std::invalid_argument(std::string(where) + who + ": " + std::to_string(bytes) +
                                " bytes for " + std::to_string(values) + " values; it takes " +
                                std::to_string(Header::capacity(values)) + ", for at most " +
                                std::to_string(Header::max_values));
}

/// @throws std::invalid_argument  more values than memory was made for
inline void require_values(char const* where, char const* who, std::size_t values,
                           std::size_t most) {
  if (values > most)
    throw std::invalid_argument(std::string(where) + who + ": " + std::to_string(values) +
                                " values, made for " + std::to_string(most));
}

/// @throws std::invalid_argument  `stream` does not begin at a multiple of 4
inline void require_address(char const* where, char const* who, std::byte const* stream) {
  auto const address = reinterpret_cast<std::uintptr_t>(stream);
  if (address % 4 != 0)
    throw std::invalid_argument(std::string(where) + who + ": a stream at " +
                                std::to_string(address) + ", not a multiple of 4");
}

}  // namespace hcomp::detail
