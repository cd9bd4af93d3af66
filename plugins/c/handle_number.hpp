#pragma once
/// @file
/// Numbers that identify the plans of one program.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <hcomp/collective/agreement/agreement.hpp>
#include <hcomp/collective/agreement/options.hpp>
#include <hcomp/transport/transport.hpp>

namespace hcomp::drop_in {

/// Counter of handle numbers in this process.
class handle_numbers {
 public:
  static std::uint64_t next() { return counter().load(); }
  /// Returns the next number and marks it as used.
  static std::uint64_t take() { return counter()++; }
  /// Marks a number as used that another rank has chosen for a shared handle.
  static void skip(std::uint64_t number) {
    std::uint64_t seen = next();
    while (seen <= number && !counter().compare_exchange_weak(seen, number + 1)) {
    }
  }

 private:
  static std::atomic<std::uint64_t>& counter() {
    static std::atomic<std::uint64_t> one = 0;
    return one;
  }
};

/// A number that no other handle of this process or of any rank of `transport` has. As
/// call_options::tensor it makes the random draws of different handles independent. Collective; the
/// first number is 0.
template <Transport T> std::uint64_t next_handle_number(T& transport) {
  std::uint64_t number = handle_numbers::next();
  unite_records(transport, plan_options{}.tag, number,
                [](std::uint64_t& a, std::uint64_t b) { a = std::max(a, b); });
  handle_numbers::skip(number);
  return number;
}

}  // namespace hcomp::drop_in
