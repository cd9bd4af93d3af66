#pragma once
/// @file
/// variable_rate_work and variable_rate_values of a codec and an executor.

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/codec/compressor.hpp>
#include <hcomp/codec/detail/chunked_code.hpp>
#include <hcomp/codec/variable_rate.hpp>
#include <hcomp/collective/detail/code_work.hpp>
#include <hcomp/collective/detail/codec_terms.hpp>
#include <hcomp/collective/detail/variable_rate_work.hpp>
#include <hcomp/collective/options.hpp>
#include <hcomp/collective/variable_rate_coder.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/exec/executor.hpp>
#include <hcomp/feedback/feedback.hpp>
#include <hcomp/op/code_layout.hpp>
#include <hcomp/op/detail/code_check.hpp>
#include <hcomp/op/detail/divide_values.hpp>
#include <limits>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace hcomp::detail {

/// Codes between messages, which are in the host's memory, and the executor's. On hosts they are
/// read and made where they are.
template <VariableRate C, Executor E> class code_passage {
  using value_type = typename C::value_type;

 public:
  using memory = std::vector<std::byte>;
  using coder = variable_rate_coder<C, E>;

  code_passage(E& executor, C const& codec, std::size_t longest, bool merges)
      : executor_(&executor), merged_(merges ? codec.capacity(longest) : 0) {}

  /// Codes of the last call are needed no more.
  void start() {}
  /// A code, for the executor.
  /// @param is_other  there are two of them
  /// @throws wire_error  it is not sound
  std::span<std::byte const> sent(coder& by, C const& codec, std::span<std::byte const> in,
                                  std::size_t values, bool /*is_other*/ = false) {
    by.check(codec, in, values);
    return in;
  }
  /// The host's memory of what was sent is free.
  void end_of_sent() { executor_->synchronize(); }
  /// Where to make a code that becomes `out`.
  /// @param merges  of codes one of which may be there
  std::span<std::byte> room(std::span<std::byte> out, bool merges = false) {
    return made_ = merges ? std::span(merged_) : out;
  }
  /// What was made there to `out`; returns its length.
  /// @throws wire_error  it could not be made
  std::size_t fetch(coder& by, C const& codec, std::span<std::byte> out) {
    std::size_t const bytes = by.bytes(codec);
    if (made_.data() != out.data()) std::memcpy(out.data(), made_.data(), bytes);
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
  std::span<std::byte> made_;
};

/// On a device: codes are checked by the host before the device sees them, and copied there and
/// back in the order of its work. Decoding is not waited for; encoding is, once or, if a code is
/// longer than the one before, twice.
template <VariableRate C, DeviceExecutor E> class code_passage<C, E> {
  using value_type = typename C::value_type;

 public:
  using memory = typename E::staging;
  using coder = variable_rate_coder<C, E>;

  /// @param longest  values of a code
  /// @param merges   two codes are sent at once
  code_passage(E& executor, C const& codec, std::size_t longest, bool merges)
      : executor_(&executor),
        came_(codec.capacity(longest)),
        other_(merges ? codec.capacity(longest) : 0),
        made_(codec.capacity(longest)),
        outcome_(sizeof(outcome)) {}

  void start() { executor_->wait(copied_); }
  std::span<std::byte const> sent(coder&, C const& codec, std::span<std::byte const> in,
                                  std::size_t values, bool is_other = false) {
    codec.check(in, values);
    auto& to = is_other ? other_ : came_;
    std::size_t const bytes = header_of_code<typename C::header_type>(in).bytes;
    copied_ = executor_->write(to.data(), in.data(), bytes);
    return {to.data(), bytes};
  }
  void end_of_sent() { executor_->wait(copied_); }
  std::span<std::byte> room(std::span<std::byte>, bool = false) {
    return {made_.data(), made_.size()};
  }
  std::size_t fetch(coder& by, C const& codec, std::span<std::byte> out) {
    std::size_t const hoped = std::min({likely_, made_.size(), out.size()});
    executor_->read(outcome_.data(), reinterpret_cast<std::byte const*>(by.outcome_there()),
                    sizeof(outcome));
    executor_->wait(executor_->read(out.data(), made_.data(), hoped));
    std::size_t const bytes = codec.bytes_of(load<outcome>(outcome_.data()));
    if (bytes > hoped)
      executor_->wait(executor_->read(out.data() + hoped, made_.data() + hoped, bytes - hoped));
    likely_ = bytes + bytes / 8;
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
  using outcome = typename C::coder_type::outcome;

  E* executor_;
  typename E::buffer came_, other_, made_;
  typename E::staging outcome_;
  typename E::mark copied_{};  ///< the last code, to the device
  std::size_t likely_ = 0;     ///< length of the next code
};

/// What an engine needs a codec and an executor for.
template <VariableRate C, Executor E> class codec_variable_rate final : public variable_rate_work {
  using value_type = typename C::value_type;

 public:
  /// @throws std::invalid_argument  more ranks than can share the codec's bound
  codec_variable_rate(C const& codec, std::size_t values, int ranks, E& executor,
                      plan_options const&)
      : ranks_(ranks),
        given_(for_ranks(codec, ranks)),
        codec_(given_),
        layout_(layout_of(values)),
        executor_(&executor) {}

  E& executor() const { return *executor_; }
  code_layout const& layout() const { return layout_; }
  /// Of the last call: as it was given, or fitted.
  C const& codec() const { return codec_; }
  variable_rate_engine_settings settings() const {
    return {terms(given_), layout_, MergingVariableRate<C>, fits_calls(given_),
            DeviceExecutor<E> ? message_memory::staged : message_memory::host};
  }
  /// @throws std::invalid_argument  as the constructor, or its codes can be longer
  void set_codec(C const& codec) {
    auto const wanted = for_ranks(codec, ranks_);
    if (fits_calls(wanted) != fits_calls(given_))
      throw std::invalid_argument(std::string("set_codec: a codec that is ") +
                                  (fits_calls(wanted) ? "" : "not ") +
                                  "fitted in every call, the plan was made for the other kind");
    if (wanted.capacity(layout_.values) > given_.capacity(layout_.values))
      throw std::invalid_argument(
          "set_codec: codes of up to " + std::to_string(wanted.capacity(layout_.values)) +
          " bytes, the plan was made for " + std::to_string(given_.capacity(layout_.values)));
    given_ = codec_ = wanted;
  }
  codec_terms terms(C const& codec) const {
    return terms_of(for_ranks(codec, ranks_), sizeof(value_type),
                    std::numeric_limits<std::uint32_t>::max());
  }
  any_buffer allocate(std::size_t bytes) override {
    return {std::in_place_type<typename code_passage<C, E>::memory>, bytes};
  }
  std::size_t capacity(std::size_t values) const override {
    return by_codec([&](auto const& codec, auto const&) {
      return std::max(codec.capacity(values), values * sizeof(value_type));
    });
  }
  void reserve(std::size_t longest, std::size_t sums, bool merges) override {
    by_codec([&](auto const& codec, auto& there) {
      there.emplace(*executor_, codec, longest, sums, merges);
    });
  }
  void start() override {
    if constexpr (has_fine) {
      if (is_fine_) fine_->there->passage.start();
      is_fine_ = false;
    }
    if (there_) there_->passage.start();
  }
  std::uint8_t refine() override {
    if constexpr (has_fine) {
      there_->passage.start();
      if (!fine_) fine_.emplace(codec_.fine());
      fine_->codec = codec_.fine();
      is_fine_ = true;
      if (fine_->there) fine_->there->passage.start();
    }
    return by_codec([](auto const& codec, auto const&) { return codec.wire_kind; });
  }
  double bound() const override {
    if constexpr (has_fine) return codec_.bound();
    return 0;
  }
  bool fit([[maybe_unused]] std::uint32_t largest, [[maybe_unused]] int ranks) override {
    if constexpr (FittedVariableRate<C>) codec_ = given_.fitted(largest, ranks);
    if constexpr (FittedVariableRate<C> && has_fine) return codec_.needs_fine_for(largest);
    return false;
  }
  std::size_t merge([[maybe_unused]] std::span<std::byte const> a,
                    [[maybe_unused]] std::span<std::byte const> b,
                    [[maybe_unused]] std::size_t values,
                    [[maybe_unused]] std::span<std::byte> out) override {
    if constexpr (MergingVariableRate<C>) {
      return by_codec([&](auto const& codec, auto& there) {
        auto const first = there->sent(codec, a, values, true),
                   second = there->sent(codec, b, values);
        there->coder.merge(codec, first, second, values, there->passage.room(out, true));
        return there->fetch(codec, out);
      });
    }
    return 0;
  }
  void check(std::span<std::byte const> in, std::size_t values, bool plain) override {
    if (!plain)
      return by_codec(
          [&](auto const& codec, auto& there) { there->coder.check(codec, in, values); });
    if (in.size() != values * sizeof(value_type))
      throw wire_error("plan: " + std::to_string(in.size()) + " bytes for " +
                       std::to_string(values) + " uncompressed values");
  }
  void find_error([[maybe_unused]] std::span<std::byte const> in, [[maybe_unused]] int parts,
                  [[maybe_unused]] code_findings& found) const override {
    if constexpr (has_fine) {
      by_codec([&](auto const& codec, auto const&) {
        found.error = std::max(found.error, codec.error_of(in, parts));
      });
      if (!is_fine_ && C::needs_fine(in)) found.needs_fine = 1;
    }
  }
  void find_nonfinite(std::span<std::byte const> in, std::size_t values, bool plain,
                      std::size_t first_block, code_findings& found) override {
    auto const note = [&](std::size_t first, std::uint64_t runs) {
      for (; runs != 0; runs &= runs - 1) {
        std::size_t const block = first_block + first / 64 + lowest_one(runs);
        found.nonfinite = std::min<std::uint64_t>(found.nonfinite, block);
        ++found.nonfinite_blocks;
      }
    };
    if (plain) {
      constexpr std::size_t some = 1024;
      value_type x[some];
      for (std::size_t first = 0; first < values; first += some) {
        std::size_t const n = std::min(some, values - first);
        std::memcpy(x, in.data() + first * sizeof(value_type), n * sizeof(value_type));
        note(first, nonfinite_runs(x, n));
      }
    } else {
      by_codec([&](auto const& codec, auto& there) {
        auto const code = there->sent(codec, in, values);
        std::size_t first = 0;
        for (std::uint64_t const runs : there->coder.find_nonfinite(codec, code, values)) {
          note(first, runs);
          first += codec.chunk_values;
        }
      });
    }
  }

  // ---- Of codec_variable_rate_values, whose values are in the executor's memory

  std::uint32_t measure([[maybe_unused]] std::span<value_type const> x) {
    if constexpr (FittedVariableRate<C>) return there_->coder.measure(x);
    return 0;
  }
  /// Room for values, as they are added up.
  value_type* sums() {
    return by_codec(
        [](auto const&, auto& there) { return reinterpret_cast<value_type*>(there->sums.data()); });
  }

  /// Functions that write a code return its length.
  std::size_t encode(std::span<value_type const> x, std::span<std::byte> out) {
    return by_codec([&](auto const& codec, auto& there) {
      there->coder.encode(codec, x, there->passage.room(out));
      return there->fetch(codec, out);
    });
  }
  std::size_t decode_add_encode(std::span<std::byte const> in, std::span<value_type const> x,
                                std::span<std::byte> out) {
    return by_codec([&](auto const& codec, auto& there) {
      auto const code = there->sent(codec, in, x.size());
      there->coder.decode_add_encode(codec, code, x, there->passage.room(out));
      return there->fetch(codec, out);
    });
  }
  void decode_add(std::span<std::byte const> in, std::span<value_type const> addends,
                  std::span<value_type> out) {
    by_codec([&](auto const& codec, auto& there) {
      there->coder.decode_add(codec, there->sent(codec, in, out.size()), addends, out);
      there->passage.end_of_sent();
    });
  }
  void decode(std::span<std::byte const> in, std::span<value_type> x, int parts = 0) {
    by_codec([&](auto const& codec, auto& there) {
      there->coder.decode(codec, there->sent(codec, in, x.size()), x, parts);
    });
  }
  std::size_t copy_out(std::span<value_type const> x, std::span<std::byte> out) {
    there_->passage.copy_out(x, out);
    return x.size_bytes();
  }
  void copy_in(std::span<std::byte const> in, std::span<value_type> x, [[maybe_unused]] int parts) {
    check(in, x.size(), true);
    there_->passage.copy_in(in, x);
    if constexpr (std::floating_point<value_type>) {  // of others there are no means
      divide_values<value_type> const work{x.size(), static_cast<value_type>(parts), x.data()};
      if (parts > 0) executor_->for_each_block(work.runs(), work);
    }
  }

 private:
  /// Of one segment, by this codec or the finer one.
  template <class D> struct memory {
    variable_rate_coder<D, E> coder;
    code_passage<D, E> passage;
    typename E::buffer sums;

    memory(E& executor, D const& codec, std::size_t longest, std::size_t sum_values, bool merges)
        : coder(longest, executor),
          passage(executor, codec, longest, merges),
          sums(sum_values * sizeof(value_type)) {}

    std::span<std::byte const> sent(D const& codec, std::span<std::byte const> in,
                                    std::size_t values, bool is_other = false) {
      return passage.sent(coder, codec, in, values, is_other);
    }
    std::size_t fetch(D const& codec, std::span<std::byte> out) {
      return passage.fetch(coder, codec, out);
    }
  };
  static constexpr bool has_fine = BoundedVariableRate<C>;
  template <class D> struct fine_of { using type = D; };
  template <BoundedVariableRate D> struct fine_of<D> { using type = typename D::fine_type; };
  using fine_codec = typename fine_of<C>::type;
  /// What a call is summed by whose values the codec's bound does not hold for.
  struct fine_work {
    explicit fine_work(fine_codec const& of) : codec(of) {}

    fine_codec codec;
    std::optional<memory<fine_codec>> there;
  };

  /// f(codec, memory) of those that this call sums by.
  template <class F> auto by_codec(F const& f) { return by_codec_of(*this, f); }
  template <class F> auto by_codec(F const& f) const { return by_codec_of(*this, f); }
  template <class Self, class F> static auto by_codec_of(Self& self, F const& f) {
    if constexpr (has_fine)
      if (self.is_fine_) return f(std::as_const(self.fine_->codec), self.fine_->there);
    return f(std::as_const(self.codec_), self.there_);
  }
  static C for_ranks(C const& codec, [[maybe_unused]] int ranks) {
    if constexpr (BoundedVariableRate<C>)
      return codec.fitted(static_cast<std::uint32_t>(ranks));
    else
      return codec;
  }
  static bool fits_calls([[maybe_unused]] C const& codec) {
    if constexpr (FittedVariableRate<C>) return codec.fits_calls();
    return false;
  }
  /// Chunks are cut between cache lines.
  static code_layout layout_of(std::size_t values) {
    constexpr std::size_t block = 64;
    std::size_t const last = values == 0 ? 0 : (values - 1) % block + 1;
    return {values, block, block * sizeof(value_type), last * sizeof(value_type)};
  }

  int ranks_;
  C given_, codec_;
  code_layout layout_;
  E* executor_;
  std::optional<memory<C>> there_;
  bool is_fine_ = false;
  std::optional<fine_work> fine_;
};

/// The values of one call.
template <VariableRate C, Executor E>
class codec_variable_rate_values final : public variable_rate_values {
  using value_type = typename C::value_type;

 public:
  /// @param x  of the whole vector
  codec_variable_rate_values(codec_variable_rate<C, E>& work, value_type* x,
                             no_feedback<value_type>&)
      : work_(&work), x_(x) {}

  bool seem_to_need_fine() const override {
    if constexpr (BoundedVariableRate<C> && !DeviceExecutor<E>) {
      constexpr std::size_t few = 16;
      std::size_t const n = work_->layout().values, apart = n / few + 1;
      for (std::size_t i = 0; i < n; i += apart)
        if (work_->codec().needs_fine(x_[i])) return true;
    }
    return false;
  }
  std::uint32_t measure() override { return work_->measure({x_, work_->layout().values}); }
  std::size_t encode(value_range part, bool of_sums, bool plain,
                     std::span<std::byte> out) override {
    return plain ? work_->copy_out(values(part, of_sums), out)
                 : work_->encode(values(part, of_sums), out);
  }
  std::size_t add_and_encode(value_range part, bool of_sums, std::span<std::byte const> in,
                             std::span<std::byte> out) override {
    return work_->decode_add_encode(in, values(part, of_sums), out);
  }
  void add_to_sums(value_range part, bool of_sums, std::span<std::byte const> in) override {
    work_->decode_add(in, values(part, of_sums), sums(part));
  }
  void decode_to_sums(value_range part, std::span<std::byte const> in) override {
    work_->decode(in, sums(part));
  }
  void decode(value_range part, std::span<std::byte const> in, bool plain, int parts) override {
    std::span const out(x_ + part.first, part.count);
    if (plain)
      work_->copy_in(in, out, parts);
    else
      work_->decode(in, out, parts);
  }

 private:
  std::span<value_type> sums(value_range part) const {
    return {work_->sums() + part.first, part.count};
  }
  std::span<value_type const> values(value_range part, bool of_sums) const {
    return {(of_sums ? work_->sums() : x_) + part.first, part.count};
  }

  codec_variable_rate<C, E>* work_;
  value_type* x_;
};

}  // namespace hcomp::detail
