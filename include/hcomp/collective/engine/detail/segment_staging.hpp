#pragma once
/// @file
/// How codes of variable rate come to an executor's memory and leave it.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/codec/detail/chunked_code.hpp>
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

/// Notes runs of 64 values among which there is NaN or infinity.
/// @param runs   a bit for each
/// @param first  the number of the first one
inline void note_nonfinite(std::uint64_t runs, std::size_t first, code_findings& found) {
  for (; runs != 0; runs &= runs - 1) {
    found.nonfinite = std::min<std::uint64_t>(found.nonfinite, first + lowest_one(runs));
    ++found.nonfinite_blocks;
  }
}

/// Codes between messages, which are in the host's memory, and the executor's. On hosts they are
/// read and made where they are, one at a time.
template <VariableRate C, Executor E> class segment_staging {
  using value_type = typename C::value_type;

 public:
  using memory = std::vector<std::byte>;
  using coder = variable_rate_coder<C, E>;
  static constexpr std::size_t most_under_way = 1;

  segment_staging(E& executor, C const& codec, std::size_t longest, bool merges)
      : executor_(&executor), merged_(merges ? codec.capacity(longest) : 0) {}

  /// Codes of the last call are needed no more.
  void start() {}
  /// A code, for the executor.
  /// @param is_other  there are two of them
  /// @throws wire_error  it is not sound
  std::span<std::byte const> sent(coder& by, C const& codec, std::span<std::byte const> in,
                                  std::size_t values, code_of whose, bool /*is_other*/ = false) {
    if (whose == code_of::another) by.check(codec, in, values);
    return in;
  }
  /// Whether what was sent last is sound, as far as the host does not know yet; for its coder.
  refusal doubted() const { return {}; }
  bool refused_none() { return true; }
  /// The host's memory of what was sent is free.
  void end_of_sent() { executor_->synchronize(); }
  /// Where to make a code that becomes `out`.
  /// @param merges  of codes one of which may be there
  std::span<std::byte> room(std::span<std::byte> out, bool merges = false) {
    out_ = out;
    return made_ = merges ? std::span(merged_) : out;
  }
  /// What the executor is making there is to be copied to `out`.
  /// @param seeks_nonfinite  also where NaN and infinity are in it
  /// @param sources_are      as the work has it
  void begin(coder&, C const&, std::size_t values, bool seeks_nonfinite,
             refusal const& /*sources_are*/) {
    values_ = values;
    seeks_nonfinite_ = seeks_nonfinite;
  }
  /// Returns its length, when it is there.
  /// @throws wire_error  it could not be made
  std::size_t end(coder& by, C const& codec, std::size_t first_block, code_findings& found) {
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

  // values as they are
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

/// On a device: codes are copied there and back, beside the work where the executor AsyncCopy;
/// two are made at once. Of a code of another rank the host checks the header, and the device all
/// else, before work reads it. The host learns what the device has found when the code that was
/// made of it ends, or when it asks. Encoding is waited for once or, if a code is longer than the
/// one before, twice; decoding is not.
template <VariableRate C, DeviceExecutor E> class segment_staging<C, E> {
  using value_type = typename C::value_type;
  using header_type = typename C::header_type;
  using report_type = code_report<typename C::coder_type>;

 public:
  using memory = typename E::staging;
  using coder = variable_rate_coder<C, E>;
  static constexpr std::size_t most_under_way = 2;

  /// @param longest  values of a code
  /// @param merges   two codes are sent at once
  segment_staging(E& executor, C const& codec, std::size_t longest, bool merges)
      : executor_(&executor),
        came_{place(codec.capacity(longest)), place(codec.capacity(longest))},
        other_(merges ? codec.capacity(longest) : 0),
        codes_{code(codec.capacity(longest), longest), code(codec.capacity(longest), longest)},
        refused_(1),
        seen_(sizeof(std::uint32_t)) {
    *refused_.for_host() = 0;
    start();
  }

  void start() {
    executor_->wait(copied_);
    for (; first_ != next_; ++first_) wait_for(under_way(first_));  // of a call that failed
    refused_.send(*executor_, 1);
    number_ = 0;
    doubted_ = {};
  }
  std::span<std::byte const> sent(coder& by, C const& codec, std::span<std::byte const> in,
                                  std::size_t values, code_of whose, bool is_other = false) {
    auto const header = header_of_code<header_type>(in);
    header.require(codec.options(), values);
    std::span<std::byte const> const there = copied(in.first(header.bytes), is_other);
    doubted_ = {};
    if (whose == code_of::another) {
      doubted_ = {refused_.for_work(), ++number_};
      by.doubt(codec, header, there, doubted_);
    }
    return there;
  }
  refusal doubted() const { return doubted_; }
  bool refused_none() {
    executor_->wait(copy_refused(seen_.data()));
    return load<std::uint32_t>(seen_.data()) == 0;
  }
  /// @throws wire_error  what was sent last is not sound
  void end_of_sent() {
    if (!doubted_.last) return executor_->wait(copied_);
    executor_->wait(copy_refused(seen_.data()));
    if (load<std::uint32_t>(seen_.data()) == doubted_.number) refuse();
  }
  std::span<std::byte> room(std::span<std::byte> out, bool = false) {
    auto& next = under_way(next_);
    next.out = out;
    return {next.made.data(), next.made.size()};
  }
  void begin(coder& by, C const& codec, std::size_t values, bool seeks_nonfinite,
             refusal const& sources_are) {
    auto& one = under_way(next_++);
    one.values = values;
    one.seeks_nonfinite = seeks_nonfinite;
    one.hoped = std::min({likely_, one.made.size(), one.out.size()});
    if constexpr (AsyncCopy<E>)
      one.copied = executor_->read_beside(one.out.data(), one.made.data(), one.hoped);
    else
      one.copied = executor_->read(one.out.data(), one.made.data(), one.hoped);
    if (seeks_nonfinite)
      by.seek_nonfinite(codec, {one.made.data(), one.made.size()}, values, sources_are);
    auto const about = by.report_there(seeks_nonfinite, values);
    one.told = executor_->read(one.about.data(), about.data(), about.size());
  }
  std::size_t end(coder&, C const& codec, std::size_t first_block, code_findings& found) {
    auto& one = under_way(first_++);
    wait_for(one);
    auto const about = load<report_type>(one.about.data());
    if (about.is_refused) refuse();
    std::size_t const bytes = codec.bytes_of(about.made);
    if (std::size_t const have = one.hoped; bytes > have)
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
  /// Where codes come.
  struct place {
    explicit place(std::size_t size) : bytes(size) {}

    typename E::buffer bytes;
    typename E::mark free{};  ///< when nothing reads the last one any more
  };
  /// A code that is made on the device.
  struct code {
    code(std::size_t bytes, std::size_t values)
        : made(bytes),
          about(sizeof(report_type) + chunks_of<header_type>(values) * sizeof(std::uint64_t)) {}

    typename E::buffer made;
    typename E::staging about;  ///< the report, and for every chunk the runs with NaN or infinity
    std::span<std::byte> out;
    std::size_t values = 0, hoped = 0;  ///< so many bytes are copied before their number is known
    bool seeks_nonfinite = false;
    typename E::mark copied{};  ///< to `out`
    typename E::mark told{};    ///< what is in `about`
  };

  /// A code to the device. Where executors copy beside their work, while codes before are read.
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
  code& under_way(std::size_t number) { return codes_[number % most_under_way]; }
  void wait_for(code& one) {
    executor_->wait(one.copied);
    executor_->wait(one.told);
  }
  typename E::mark copy_refused(std::byte* to) {
    return executor_->read(to, reinterpret_cast<std::byte const*>(refused_.for_work()),
                           sizeof(std::uint32_t));
  }
  [[noreturn]] static void refuse() {
    throw wire_error("plan: a code is not sound, as the device has found");
  }

  E* executor_;
  place came_[2];
  typename E::buffer other_;
  std::size_t turn_ = 0;  ///< where the last code came
  code codes_[most_under_way];
  std::size_t first_ = 0, next_ = 0;  ///< of those under way, and behind them
  mirror<std::uint32_t, E> refused_;
  typename E::staging seen_;
  std::uint32_t number_ = 0;   ///< of the code sent last
  refusal doubted_ = {};       ///< of what was sent last
  typename E::mark copied_{};  ///< the last code, to the device
  std::size_t likely_ = 0;     ///< length of the next code
};

}  // namespace hcomp::detail
