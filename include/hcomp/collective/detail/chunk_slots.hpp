#pragma once
/// @file
/// Streams of chunks whose lengths are known only when they are encoded, where an executor's memory
/// is.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <hcomp/exec/executor.hpp>
#include <hcomp/op/detail/chunk_places.hpp>

namespace hcomp::detail {

/// Room in which chunks are encoded before they are put in their places.
/// @tparam Header  as of put_chunks
template <class Header, Executor E> class chunk_slots {
 public:
  /// @param chunks      of the longest code
  /// @param most_bytes  of memory for chunks; longer codes are made in parts of so many, at least
  ///                    of words_per_sum chunks
  chunk_slots(std::size_t chunks, std::size_t most_bytes)
      : slots_(slots_for(chunks, most_bytes) * Header::slot_bytes),
        before_(chunks * sizeof(std::uint32_t)),
        sums_((2 * sums_of(chunks) + 1) * sizeof(std::uint32_t)) {}

  /// Gives the executor the work of making a code.
  /// @param header   whose `bytes` are not known yet
  /// @param lengths  of header.chunks chunks, written by `encode`, in the executor's memory
  /// @param encode   (first, end, slots) gives the executor the work of encoding those chunks, each
  ///                 into a slot, and of writing their lengths
  /// @param bytes    of the code; like `out` in the executor's memory
  template <class Encode>
  void make(E& executor, Header const& header, std::uint32_t* lengths, Encode const& encode,
            std::byte* out, std::uint64_t* bytes) {
    std::size_t const slots = slots_.size() / Header::slot_bytes;
    constexpr std::size_t step = words_per_sum;
    auto* const before = reinterpret_cast<std::uint32_t*>(before_.data());
    auto* const sums = reinterpret_cast<std::uint32_t*>(sums_.data());
    std::uint32_t* const before_sums = sums + sums_of(header.chunks);
    std::size_t first = 0, end = 0;
    do {
      end = std::min<std::size_t>(first + slots, header.chunks);
      encode(first, end, slots_.data());
      executor.for_each_block(sums_of(end - first), sum_words{end - first, step, lengths + first,
                                                              before + first, sums + first / step});
      if (end > step)
        executor.for_each_block(1, sum_words{sums_of(end), sums_of(end), sums, before_sums,
                                             before_sums + sums_of(end)});
      executor.for_each_block(put_chunks<Header>::blocks(end - first),
                              put_chunks<Header>{header, first, end, slots_.data(), lengths, before,
                                                 before_sums, out, bytes});
      first = end;
    } while (end < header.chunks);
  }

 private:
  static constexpr std::size_t sums_of(std::size_t chunks) {
    return (chunks + words_per_sum - 1) / words_per_sum;
  }
  /// Of whole sums.
  static std::size_t slots_for(std::size_t chunks, std::size_t most_bytes) {
    std::size_t const steps = most_bytes / (words_per_sum * Header::slot_bytes);
    return std::min(chunks, std::max<std::size_t>(steps, 1) * words_per_sum);
  }

  typename E::buffer slots_;          ///< chunk by chunk
  typename E::buffer before_, sums_;  ///< of lengths
};

}  // namespace hcomp::detail
