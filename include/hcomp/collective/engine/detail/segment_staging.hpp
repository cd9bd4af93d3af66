#pragma once
/// @file
/// Moves variable-rate segments between messages in host memory and an executor's memory.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/codec/detail/chunked_encoding.hpp>
#include <hcomp/codec/variable_rate.hpp>
#include <hcomp/collective/engine/detail/variable_rate_work.hpp>
#include <hcomp/collective/engine/variable_rate_coder.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/exec/executor.hpp>
#include <hcomp/exec/mirror.hpp>
#include <hcomp/op/detail/chunk_work.hpp>
#include <hcomp/op/detail/encoded_check.hpp>
#include <span>
#include <vector>

namespace hcomp::detail {

/// Records the runs of 64 values that contain NaN or infinity.
/// @param runs   a bit per run
/// @param first  the number of the first run
inline void note_nonfinite(std::uint64_t runs, std::size_t first, encoded_findings& found) {
  for (; runs != 0; runs &= runs - 1) {
    found.nonfinite = std::min<std::uint64_t>(found.nonfinite, first + lowest_one(runs));
    ++found.nonfinite_blocks;
  }
}

/// Encoded segments between messages, which are in host memory, and the executor's memory. Host
/// executors read and write them in place, one at a time.
template <VariableRate C, Executor E> class segment_staging {
  using value_type = typename C::value_type;

 public:
  using memory = std::vector<std::byte>;
  using coder = variable_rate_coder<C, E>;
  static constexpr std::size_t most_under_way = 1;

  segment_staging(E& executor, C const& codec, std::size_t longest, bool merges)
      : executor_(&executor), merged_(merges ? codec.capacity(longest) : 0) {}

  /// Ends the use of the last call's segments.
  void start() {}
  /// Uploads an encoded segment for the executor.
  /// @param is_other  the second of two segments in use
  /// @throws wire_error  it is invalid
  std::span<std::byte const> upload(coder& by, C const& codec, std::span<std::byte const> in,
                                    std::size_t values, encoded_by whose,
                                    bool /*is_other*/ = false) {
    if (whose == encoded_by::another) by.check(codec, in, values);
    return in;
  }
  /// The pending validation of the last upload, for its coder.
  deferred_validation unverified() const { return {}; }
  bool rejected_none() { return true; }
  /// Waits until the host memory of the last upload is free.
  void finish_upload() { executor_->synchronize(); }
  /// The memory in which to encode a segment for `out`.
  /// @param merges  for the sum of two segments, one possibly in `out`
  std::span<std::byte> output_memory(std::span<std::byte> out, bool merges = false) {
    out_ = out;
    return made_ = merges ? std::span(merged_) : out;
  }
  /// Starts the copy of the segment that the executor encodes to `out`.
  /// @param seeks_nonfinite  also find its NaN and infinity
  /// @param validation      as for the work
  void begin(coder&, C const&, std::size_t values, bool seeks_nonfinite,
             deferred_validation const& /*validation*/) {
    values_ = values;
    seeks_nonfinite_ = seeks_nonfinite;
  }
  /// Waits for the oldest segment; returns its length.
  /// @throws wire_error  it could not be encoded
  std::size_t end(coder& by, C const& codec, std::size_t first_block, encoded_findings& found) {
    std::size_t const bytes = by.bytes(codec);
    if (made_.data() != out_.data()) std::memcpy(out_.data(), made_.data(), bytes);
    if (seeks_nonfinite_) {
      for (std::uint64_t const runs : by.find_nonfinite(codec, out_.first(bytes), values_)) {
        note_nonfinite(runs, first_block, found);
        first_block += C::chunk_values / 64;
      }
    }
    return bytes;
  }

  // uncompressed values
  void copy_out(std::span<value_type const> x, std::span<std::byte> out) {
    executor_->synchronize();
    if (!x.empty()) std::memcpy(out.data(), x.data(), x.size_bytes());
  }
  void copy_in(std::span<std::byte const> in, std::span<value_type> x) {
    if (!x.empty()) std::memcpy(x.data(), in.data(), in.size());
  }

 private:
  E* executor_;
  std::vector<std::byte> merged_;
  std::span<std::byte> made_, out_;
  std::size_t values_ = 0;
  bool seeks_nonfinite_ = false;
};

/// On a device, segments are copied in both directions, overlapping work if the executor is
/// AsyncCopy; two are encoded at once. For a segment of another rank, the host checks the header,
/// and the device the rest before work reads it. The host learns the result when it ends a segment
/// made from it, or when it asks. Encoding causes one wait, or two if a segment is longer than
/// expected from the previous one. Decoding causes none.
template <VariableRate C, DeviceExecutor E> class segment_staging<C, E> {
  using value_type = typename C::value_type;
  using header_type = typename C::header_type;
  using report_type = encoded_report<typename C::coder_type>;

 public:
  using memory = typename E::staging;
  using coder = variable_rate_coder<C, E>;
  static constexpr std::size_t most_under_way = 2;

  /// @param longest  values of a segment
  /// @param merges   two segments are uploaded at once
  segment_staging(E& executor, C const& codec, std::size_t longest, bool merges)
      : executor_(&executor),
        came_{place(codec.capacity(longest)), place(codec.capacity(longest))},
        other_(merges ? codec.capacity(longest) : 0),
        encodings_{encoding(codec.capacity(longest), longest),
                   encoding(codec.capacity(longest), longest)},
        rejected_(1),
        seen_(sizeof(std::uint32_t)) {
    *rejected_.for_host() = 0;
    start();
  }

  void start() {
    executor_->wait(copied_);
    for (; first_ != next_; ++first_) wait_for(under_way(first_));  // from a failed call
    rejected_.send(*executor_, 1);
    number_ = 0;
    unverified_ = {};
  }
  std::span<std::byte const> upload(coder& by, C const& codec, std::span<std::byte const> in,
                                    std::size_t values, encoded_by whose, bool is_other = false) {
    auto const header = header_of_encoded<header_type>(in);
    header.require(codec.options(), values);
    std::span<std::byte const> const uploaded = copied(in.first(header.bytes), is_other);
    unverified_ = {};
    if (whose == encoded_by::another) {
      unverified_ = {rejected_.for_work(), ++number_};
      by.validate_later(codec, header, uploaded, unverified_);
    }
    return uploaded;
  }
  deferred_validation unverified() const { return unverified_; }
  bool rejected_none() {
    executor_->wait(copy_rejected(seen_.data()));
    return load<std::uint32_t>(seen_.data()) == 0;
  }
  /// @throws wire_error  the last upload is invalid
  void finish_upload() {
    if (!unverified_.last) return executor_->wait(copied_);
    executor_->wait(copy_rejected(seen_.data()));
    if (load<std::uint32_t>(seen_.data()) == unverified_.number) throw_rejected();
  }
  std::span<std::byte> output_memory(std::span<std::byte> out, bool = false) {
    auto& next = under_way(next_);
    next.out = out;
    return {next.made.data(), next.made.size()};
  }
  void begin(coder& by, C const& codec, std::size_t values, bool seeks_nonfinite,
             deferred_validation const& validation) {
    auto& one = under_way(next_++);
    one.values = values;
    one.seeks_nonfinite = seeks_nonfinite;
    one.speculative = std::min({likely_, one.made.size(), one.out.size()});
    if constexpr (AsyncCopy<E>)
      one.copied = executor_->read_beside(one.out.data(), one.made.data(), one.speculative);
    else
      one.copied = executor_->read(one.out.data(), one.made.data(), one.speculative);
    if (seeks_nonfinite)
      by.seek_nonfinite(codec, {one.made.data(), one.made.size()}, values, validation);
    auto const about = by.device_report(seeks_nonfinite, values);
    one.ready = executor_->read(one.about.data(), about.data(), about.size());
  }
  std::size_t end(coder&, C const& codec, std::size_t first_block, encoded_findings& found) {
    auto& one = under_way(first_++);
    wait_for(one);
    auto const about = load<report_type>(one.about.data());
    if (about.is_rejected) throw_rejected();
    std::size_t const bytes = codec.bytes_of(about.made);
    if (std::size_t const have = one.speculative; bytes > have)
      executor_->wait(executor_->read(one.out.data() + have, one.made.data() + have, bytes - have));
    likely_ = bytes + bytes / 8;
    if (one.seeks_nonfinite)
      for (std::size_t i = 0; i < chunks_of<header_type>(one.values); ++i)
        note_nonfinite(load<std::uint64_t>(one.about.data() + sizeof(report_type), i),
                       first_block + i * (C::chunk_values / 64), found);
    return bytes;
  }

  void copy_out(std::span<value_type const> x, std::span<std::byte> out) {
    executor_->wait(
        executor_->read(out.data(), reinterpret_cast<std::byte const*>(x.data()), x.size_bytes()));
  }
  void copy_in(std::span<std::byte const> in, std::span<value_type> x) {
    copied_ = executor_->write(reinterpret_cast<std::byte*>(x.data()), in.data(), in.size());
  }

 private:
  /// Device memory for uploads.
  struct place {
    explicit place(std::size_t size) : bytes(size) {}

    typename E::buffer bytes;
    typename E::mark free{};  ///< when nothing reads the last upload any more
  };
  /// A segment that the device encodes.
  struct encoding {
    encoding(std::size_t bytes, std::size_t values)
        : made(bytes),
          about(sizeof(report_type) + chunks_of<header_type>(values) * sizeof(std::uint64_t)) {}

    typename E::buffer made;
    typename E::staging about;  ///< the report, and per chunk the runs with NaN or infinity
    std::span<std::byte> out;
    std::size_t values = 0,
                speculative = 0;  ///< `speculative`: bytes copied before the length is known
    bool seeks_nonfinite = false;
    typename E::mark copied{};  ///< to `out`
    typename E::mark ready{};   ///< `about` is ready
  };

  /// Uploads a segment. With AsyncCopy the copy overlaps reading of the previous segments.
  std::span<std::byte const> copied(std::span<std::byte const> in, bool is_other) {
    if constexpr (AsyncCopy<E>) {
      if (!is_other) {
        came_[turn_].free = executor_->now();
        turn_ = (turn_ + 1) % 2;
        auto& to = came_[turn_];
        copied_ = executor_->write_beside(to.bytes.data(), in.data(), in.size(), to.free);
        return {to.bytes.data(), in.size()};
      }
    }
    auto& to = is_other ? other_ : came_[0].bytes;
    copied_ = executor_->write(to.data(), in.data(), in.size());
    return {to.data(), in.size()};
  }
  encoding& under_way(std::size_t number) { return encodings_[number % most_under_way]; }
  void wait_for(encoding& one) {
    executor_->wait(one.copied);
    executor_->wait(one.ready);
  }
  typename E::mark copy_rejected(std::byte* to) {
    return executor_->read(to, reinterpret_cast<std::byte const*>(rejected_.for_work()),
                           sizeof(std::uint32_t));
  }
  [[noreturn]] static void throw_rejected() {
    throw wire_error("plan: the device found an invalid encoded segment");
  }

  E* executor_;
  place came_[2];
  typename E::buffer other_;
  std::size_t turn_ = 0;  ///< index of the last upload
  encoding encodings_[most_under_way];
  std::size_t first_ = 0, next_ = 0;  ///< the oldest in progress, and one past the newest
  mirror<std::uint32_t, E> rejected_;
  typename E::staging seen_;
  std::uint32_t number_ = 0;             ///< number of the last upload
  deferred_validation unverified_ = {};  ///< validation of the last upload
  typename E::mark copied_{};            ///< completion of the last upload
  std::size_t likely_ = 0;               ///< expected length of the next segment
};

}  // namespace hcomp::detail
