#pragma once
/// @file
/// The data that a rank keeps of its vector when it marks it, so that it need not read the complete
/// vector again.

#include <cstddef>
#include <cstdint>
#include <hcomp/codec/sparse/detail/index_words.hpp>
#include <hcomp/codec/sparse/detail/index_words_simd.hpp>
#include <hcomp/core/bits.hpp>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

namespace hcomp::detail::sparse {

/// The nonzero values of a rank's vector, in order, and their positions.
class own_values {
 public:
  /// Marks the nonzero values as mark_nonzeros does.
  /// @param words  index_words(x.size()) + exponent_words of them
  void mark(std::span<float const> x, std::uint64_t* words) {
    if (x.size() > capacity_) {  // pages that are never written take no memory
      kept_ = std::make_unique_for_overwrite<float[]>(x.size() + marking_slack);
      capacity_ = x.size();
    }
    auto const found = mark_and_keep(x.data(), x.size(), words, kept_.get());
    count_ = found.kept;
    negative_zeros_ = found.negative_zeros;
    marks_.assign(words, words + index_words(x.size()));
  }

  std::span<std::uint64_t const> marks() const { return marks_; }
  std::span<float const> values() const { return {kept_.get(), count_}; }
  /// Whether some unmarked value is -0.
  bool negative_zeros() const { return negative_zeros_; }

  /// Sets out[place] = lane(value) for each value of this rank, and lane(0) for values that only
  /// other ranks have.
  /// @param all           marks of the union; contains marks()
  /// @param marks_before  number of marks in `all` before each word
  /// @param out           one lane per mark of `all`
  template <class Lane, class ToLane>
  void spread(std::span<std::uint64_t const> all, std::span<std::uint32_t const> marks_before,
              std::span<Lane> out, ToLane const& lane) const {
    spread_values const values{all.data(), marks_before.data(), marks_.data(), kept_.get(),
                               marks_.size()};
    if constexpr (sizeof(Lane) == sizeof(float)) {
      sparse::spread(values, out.size(), reinterpret_cast<std::byte*>(out.data()));
      if constexpr (!std::is_same_v<Lane, float>)
        for (Lane& bits : out) bits = lane(same_bits<float>(bits));
    } else {
      spread_words(values, 0, 0, [&](std::size_t place, float x) { out[place] = lane(x); });
    }
  }

 private:
  std::unique_ptr<float[]> kept_ = std::make_unique_for_overwrite<float[]>(marking_slack);
  std::size_t capacity_ = 0, count_ = 0;
  bool negative_zeros_ = false;
  std::vector<std::uint64_t> marks_;
};

}  // namespace hcomp::detail::sparse
