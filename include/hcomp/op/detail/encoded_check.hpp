#pragma once
/// @file
/// Validation of an encoded vector before decoding, from the headers and checksums of its blocks.

#include <cstddef>
#include <cstdint>
#include <hcomp/codec/block_header.hpp>
#include <hcomp/codec/compressor.hpp>
#include <hcomp/core/detail/error_text.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/core/group.hpp>
#include <hcomp/core/half.hpp>
#include <hcomp/op/block_work.hpp>
#include <hcomp/op/encoded_layout.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

namespace hcomp::detail {

/// True if [a, a + a_bytes) and [b, b + b_bytes) overlap.
inline bool overlap(void const* a, std::size_t a_bytes, void const* b, std::size_t b_bytes) {
  auto const first = reinterpret_cast<std::uintptr_t>(a);
  auto const second = reinterpret_cast<std::uintptr_t>(b);
  return a_bytes > 0 && b_bytes > 0 && first < second + b_bytes && second < first + a_bytes;
}

/// @throws std::invalid_argument  the encoded vector has the wrong size or overlaps the values
inline void require_encoded(char const* who, std::string_view codec, std::size_t given,
                            std::size_t needed, std::size_t values, bool overlapping) {
  auto const start = [&] { return error_text({who, ": codec '", codec, "', "}); };
  if (given != needed)
    throw std::invalid_argument(error_text(
        {start(), "a code of ", given, " bytes, ", needed, " are needed for ", values, " values"}));
  if (overlapping)
    throw std::invalid_argument(
        error_text({start(), "the code of ", given, " bytes overlaps the ", values, " values"}));
}

/// The findings of a check in a form that ranks can compare. No padding: it is sent as bytes.
struct encoded_findings {
  static constexpr std::uint64_t nowhere = ~std::uint64_t{0};

  std::uint64_t damaged = nowhere;    ///< first damaged block
  std::uint64_t fault = 0;            ///< block_fault of that block
  std::uint64_t nonfinite = nowhere;  ///< first block with NaN or infinity
  std::uint64_t nonfinite_blocks = 0;
  std::uint64_t weight = 0;          ///< of the first block; 0: no block checked
  double error = 0;                  ///< bound on the error of a value, if the codec has one
  std::uint64_t needs_fallback = 0;  ///< 1: BoundedVariableRate, and its bound may be exceeded
  std::uint64_t overflow = nowhere;  ///< first block whose finite values decode to infinity

  bool is_sound() const {
    return damaged == nowhere && nonfinite == nowhere && overflow == nowhere;
  }

  /// Combines the findings of two ranks.
  void merge(encoded_findings const& other) {
    if (other.damaged < damaged) {
      damaged = other.damaged;
      fault = other.fault;
    }
    if (other.nonfinite < nonfinite) nonfinite = other.nonfinite;
    nonfinite_blocks += other.nonfinite_blocks;
    if (weight == 0) weight = other.weight;
    if (other.overflow < overflow) overflow = other.overflow;
    if (other.error > error) error = other.error;
    needs_fallback |= other.needs_fallback;
  }
};

/// The combined findings of all ranks: enough to see whether they must exchange all of them. No
/// padding.
struct findings_summary {
  std::uint64_t trouble;             ///< 1: some rank found an invalid block
  std::uint64_t lightest, heaviest;  ///< weights over ranks with blocks; no such rank: lightest >
                                     ///< heaviest
  double error;
  std::uint64_t needs_fallback;

  findings_summary() = default;
  explicit findings_summary(encoded_findings const& found)
      : trouble(found.is_sound() ? 0 : 1),
        lightest(found.weight > 0 ? found.weight : ~std::uint64_t{0}),
        heaviest(found.weight),
        error(found.error),
        needs_fallback(found.needs_fallback) {}

  void unite(findings_summary const& other) {
    trouble |= other.trouble;
    if (other.lightest < lightest) lightest = other.lightest;
    if (heaviest < other.heaviest) heaviest = other.heaviest;
    if (error < other.error) error = other.error;
    needs_fallback |= other.needs_fallback;
  }
};

/// Returns why a reduced block is damaged, or none.
/// @param weight     required weight
/// @param is_intact  (): verifies the checksum; called only if the header is valid
template <class F>
HCOMP_HD block_fault fault_of(block_header const& header, block_header const& expected,
                              std::uint64_t weight, F const& is_intact) {
  if (auto const fault = mismatch(header, expected); fault != block_fault::none) return fault;
  if (header.flags & block_is_damaged)
    return header.fault != block_fault::none ? header.fault : block_fault::format;
  if (header.weight != weight) return block_fault::weight;
  return is_intact() ? block_fault::none : block_fault::checksum;
}

/// Checks blocks one after the other.
class block_check {
 public:
  /// @param codec     expected codec_id of all blocks
  /// @param key       expected key of all blocks
  /// @param weight    expected weight of all blocks; 0: unknown, then all must equal the first
  ///                  block
  /// @param checksum  whether all blocks must have one; empty: as the first block
  block_check(std::uint8_t codec, encoded_layout const& layout, std::uint64_t key,
              std::uint64_t weight, std::optional<bool> checksum)
      : codec_(codec), layout_(&layout), key_(key), weight_(weight), checksum_(checksum) {}

  /// @param is_intact  (): verifies the checksum; called only if the header is valid
  template <class F> void add(std::size_t b, block_header const& header, F const& is_intact) {
    if (!checksum_) checksum_ = (header.flags & block_has_checksum) != 0;
    auto const expected =
        make_header(codec_, layout_->values_in(b), false,
                    {key_, 0, 0, static_cast<std::uint32_t>(b), nullptr, *checksum_});
    if (found_.weight == 0) found_.weight = header.weight;
    if (auto const fault =
            fault_of(header, expected, weight_ == 0 ? found_.weight : weight_, is_intact);
        fault != block_fault::none)
      damaged(b, fault);
    if (header.flags & block_has_nonfinite) {
      if (found_.nonfinite == encoded_findings::nowhere) found_.nonfinite = b;
      ++found_.nonfinite_blocks;
    }
  }
  encoded_findings const& found() const { return found_; }

 private:
  void damaged(std::size_t b, block_fault fault) {
    if (found_.damaged != encoded_findings::nowhere) return;
    found_.damaged = b;
    found_.fault = static_cast<std::uint64_t>(fault);
  }

  std::uint8_t codec_;
  encoded_layout const* layout_;
  std::uint64_t key_, weight_;
  std::optional<bool> checksum_;
  encoded_findings found_;
};

/// Checks the headers of `blocks`, and their checksums if present.
inline encoded_findings check_encoded(std::uint8_t codec, encoded_layout const& layout,
                                      block_range blocks, std::byte const* encoded,
                                      std::uint64_t key, std::uint64_t weight,
                                      std::optional<bool> checksum = {}) {
  block_check check(codec, layout, key, weight, checksum);
  for (std::size_t b = blocks.first; b < blocks.end(); ++b) {
    std::byte const* const block = encoded + layout.offset(b);
    check.add(b, load<block_header>(block), [&] {
      return is_intact(serial_group{}, block, layout.bytes({b, 1}));
    });
  }
  return check.found();
}

/// Whether values of type V with magnitudes up to `largest`, before rounding, may overflow to
/// infinity. If not, no scan is necessary.
template <class V> HCOMP_HD constexpr bool may_be_infinite(double largest) {
  // a double is converted to float first
  constexpr double of_type = largest_v<V>, of_float = largest_v<float>;
  return !(largest < (of_type < of_float ? of_type : of_float) * (1 - 0x1p-10));
}

/// Whether a value of a block may decode to infinity.
template <MayOverflow C> struct may_overflow {
  C codec;
  reduce_op result;

  HCOMP_HD bool operator()(std::byte const* block, int n) const {
    return may_be_infinite<typename C::value_type>(codec.largest_decoded(block, n, result));
  }
};

/// check_encoded, and in valid blocks the first value that decodes to infinity.
template <Compressor C>
encoded_findings check_sums([[maybe_unused]] C const& codec, encoded_layout const& layout,
                            block_range blocks, std::byte const* encoded,
                            [[maybe_unused]] reduce_op result, encoded_findings found) {
  if constexpr (MayOverflow<C>) {
    if (!found.is_sound()) return found;
    may_overflow<C> const is_worth_while{codec, result};
    for (std::size_t b = blocks.first; b < blocks.end(); ++b) {
      std::byte const* const block = encoded + layout.offset(b);
      int const n = layout.values_in(b);
      if (!is_worth_while(block, n) || codec.stays_finite(simd_group{}, block, n, result)) continue;
      found.overflow = b;
      break;
    }
  }
  return found;
}

/// @throws wire_error       a block is damaged
/// @throws nonfinite_error  the policy is throw_error, and a block has NaN or infinity, or decodes
///                          to infinity
inline void require_sound(char const* who, std::string_view codec, encoded_findings const& found,
                          nonfinite_policy policy, encoded_layout const& layout) {
  auto const where = [&](std::uint64_t block) {
    std::size_t const b = static_cast<std::size_t>(block), first = b * layout.block_values;
    auto const last = first + static_cast<std::size_t>(layout.values_in(b)) - 1;
    return error_text({"block ", block, " (values ", first, " to ", last, ")"});
  };
  if (found.damaged != encoded_findings::nowhere)
    throw wire_error(error_text({who, ": codec '", codec, "', ", where(found.damaged), ": ",
                                 to_text(static_cast<block_fault>(found.fault))}));
  if (found.nonfinite != encoded_findings::nowhere && policy == nonfinite_policy::throw_error)
    throw nonfinite_error(
        error_text({who, ": NaN or infinity on some rank, or overflow, first in ",
                    where(found.nonfinite), " of ", layout.values, " values, ",
                    found.nonfinite_blocks, " blocks concerned; x is unchanged"}));
  if (found.overflow != encoded_findings::nowhere && policy == nonfinite_policy::throw_error)
    throw nonfinite_error(
        error_text({who, ": a sum of finite values overflows, first in ", where(found.overflow),
                    " of ", layout.values, " values; x is unchanged"}));
}

}  // namespace hcomp::detail
