#pragma once
/// @file
/// Helpers for tests of codecs of variable rate: encode, merge, and damage encoded vectors.

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/codec/detail/chunked_encoding.hpp>
#include <hcomp/core/random.hpp>
#include <new>
#include <span>
#include <vector>

namespace hcomp::testing {

using encoded_bytes = std::vector<std::byte>;

/// Compares bit by bit.
template <class T> bool same_values(std::vector<T> const& a, std::vector<T> const& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

/// Encodes without spare capacity behind the result, so that sanitizers detect reads there.
template <class C>
encoded_bytes encoded(C const& codec, std::vector<typename C::value_type> const& x) {
  encoded_bytes out(codec.capacity(x.size()));
  out.resize(codec.encode(x, out));
  return {out.begin(), out.end()};
}
template <class C>
encoded_bytes merged(C const& codec, encoded_bytes const& a, encoded_bytes const& b) {
  encoded_bytes out(
      codec.capacity(detail::header_of_encoded<typename C::coder_type::header>(a).values));
  out.resize(codec.merge(a, b, out));
  return {out.begin(), out.end()};
}
/// Decodes n values into memory that is not 0 before.
template <class C>
std::vector<typename C::value_type> decoded(C const& codec, encoded_bytes const& in,
                                            std::size_t n) {
  std::vector<typename C::value_type> y(n, 77);
  codec.decode(in, y);
  return y;
}

/// Returns `in` damaged by `seed`: cut off, or with up to three bytes changed, mostly among the
/// first `front`: the header, the table and the modes. Some seeds change nothing.
inline encoded_bytes damaged(encoded_bytes in, std::uint64_t seed, std::size_t front) {
  auto const draw = [&](std::size_t below) { return (seed = mix(seed)) % below; };
  if (draw(4) == 0) in.resize(draw(in.size()));
  for (std::size_t i = draw(4); i > 0 && !in.empty(); --i) {
    std::size_t const at = draw(draw(3) == 0 ? in.size() : std::min(in.size(), front));
    in[at] = draw(2) == 0 ? static_cast<std::byte>(draw(256))
                          : in[at] ^ static_cast<std::byte>(1u << draw(8));
  }
  in.shrink_to_fit();
  return in;
}

/// Memory that ends where an unreadable page begins: a read beyond the bytes ends the program, also
/// without sanitizers.
class before_guard_page {
 public:
  explicit before_guard_page(std::size_t capacity)
      : pages_((capacity + page - 1) / page),
        begin_(static_cast<std::byte*>(mmap(nullptr, (pages_ + 1) * page, PROT_READ | PROT_WRITE,
                                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    if (begin_ == MAP_FAILED || mprotect(begin_ + pages_ * page, page, PROT_NONE) != 0)
      throw std::bad_alloc();
  }
  before_guard_page(before_guard_page const&) = delete;
  before_guard_page& operator=(before_guard_page const&) = delete;
  ~before_guard_page() { munmap(begin_, (pages_ + 1) * page); }

  /// A copy of `bytes`, valid until the next call; at most `capacity` bytes.
  std::span<std::byte const> copy(encoded_bytes const& bytes) {
    auto* const first = begin_ + pages_ * page - bytes.size();
    std::ranges::copy(bytes, first);
    return {first, bytes.size()};
  }

 private:
  static constexpr std::size_t page = 4096;
  std::size_t pages_;
  std::byte* begin_;
};

}  // namespace hcomp::testing
