#pragma once
/// @file
/// Implements variable_rate_work and variable_rate_values for a codec and an executor.

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/codec/compressor.hpp>
#include <hcomp/codec/detail/chunked_encoding.hpp>
#include <hcomp/codec/variable_rate.hpp>
#include <hcomp/collective/agreement/detail/codec_terms.hpp>
#include <hcomp/collective/agreement/options.hpp>
#include <hcomp/collective/engine/detail/code_work.hpp>
#include <hcomp/collective/engine/detail/segment_staging.hpp>
#include <hcomp/collective/engine/detail/variable_rate_work.hpp>
#include <hcomp/collective/engine/variable_rate_coder.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/exec/executor.hpp>
#include <hcomp/feedback/feedback.hpp>
#include <hcomp/op/detail/divide_values.hpp>
#include <hcomp/op/detail/encoded_check.hpp>
#include <hcomp/op/encoded_layout.hpp>
#include <limits>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace hcomp::detail {

/// The work of an engine that depends on the codec and the executor.
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
  encoded_layout const& layout() const { return layout_; }
  /// The codec of the last call: as given, or fitted.
  C const& codec() const { return codec_; }
  variable_rate_engine_settings settings() const {
    return {terms(given_),
            layout_,
            MergingVariableRate<C>,
            fits_calls(given_),
            std::min(C::max_values, fallback_codec::max_values),
            DeviceExecutor<E> ? message_memory::host_staged : message_memory::host};
  }
  /// @throws std::invalid_argument  as the constructor, or its encoded vectors can be longer
  void set_codec(C const& codec) {
    auto const wanted = for_ranks(codec, ranks_);
    if (fits_calls(wanted) != fits_calls(given_))
      throw std::invalid_argument(std::string("set_codec: a codec that is ") +
                                  (fits_calls(wanted) ? "" : "not ") +
                                  "fitted in every call, the plan was made for the other kind");
    if (wanted.capacity(layout_.values) > given_.capacity(layout_.values))
      throw std::invalid_argument(
          "set_codec: encoded vectors of up to " + std::to_string(wanted.capacity(layout_.values)) +
          " bytes, the plan was made for " + std::to_string(given_.capacity(layout_.values)));
    given_ = codec_ = wanted;
  }
  codec_terms terms(C const& codec) const {
    return terms_of(for_ranks(codec, ranks_), sizeof(value_type),
                    std::numeric_limits<std::uint32_t>::max());
  }
  any_buffer allocate(std::size_t bytes) override {
    return {std::in_place_type<typename segment_staging<C, E>::memory>, bytes};
  }
  std::size_t capacity(std::size_t values) const override {
    return by_codec([&](auto const& codec, auto const&) {
      return std::max(codec.capacity(values), values * sizeof(value_type));
    });
  }
  void reserve(std::size_t longest, std::size_t sums, bool merges) override {
    by_codec([&](auto const& codec, auto& segment) {
      segment.emplace(*executor_, codec, longest, sums, merges);
    });
  }
  void start() override {
    if constexpr (has_fallback) {
      if (is_fallback_) fallback_->segment->staging.start();
      is_fallback_ = false;
    }
    if (memory_) memory_->staging.start();
  }
  std::uint8_t refine([[maybe_unused]] bool mean) override {
    if constexpr (has_fallback) {
      memory_->staging.start();
      if (!fallback_) fallback_.emplace(codec_.fallback(mean));
      fallback_->codec = codec_.fallback(mean);
      is_fallback_ = true;
      if (fallback_->segment) fallback_->segment->staging.start();
    }
    return by_codec([](auto const& codec, auto const&) { return codec.codec_id; });
  }
  double bound() const override {
    if constexpr (has_fallback) return codec_.bound();
    return 0;
  }
  bool fit([[maybe_unused]] std::uint32_t largest, [[maybe_unused]] int ranks) override {
    if constexpr (FittedVariableRate<C>) codec_ = given_.fitted(largest, ranks);
    if constexpr (FittedVariableRate<C> && has_fallback) return codec_.needs_fallback_for(largest);
    return false;
  }
  std::size_t most_under_way() const override { return segment_staging<C, E>::most_under_way; }
  std::size_t end(std::size_t first_block, encoded_findings& found) override {
    return by_codec([&](auto const& codec, auto& segment) {
      return segment->staging.end(segment->coder, codec, first_block, found);
    });
  }
  void merge([[maybe_unused]] std::span<std::byte const> a,
             [[maybe_unused]] std::span<std::byte const> b, [[maybe_unused]] std::size_t values,
             [[maybe_unused]] bool seeks_nonfinite,
             [[maybe_unused]] std::span<std::byte> out) override {
    if constexpr (MergingVariableRate<C>)
      by_codec([&](auto const& codec, auto& segment) {
        auto const first = segment->upload(codec, a, values, encoded_by::this_rank, true),
                   second = segment->upload(codec, b, values, encoded_by::another);
        auto const validation = segment->staging.unverified();
        segment->coder.merge(codec, first, second, values,
                             segment->staging.output_memory(out, true), validation);
        segment->begin(codec, values, seeks_nonfinite, validation);
      });
  }
  void check(std::span<std::byte const> in, std::size_t values, bool plain) override {
    if (!plain)
      return by_codec(
          [&](auto const& codec, auto& segment) { segment->coder.check(codec, in, values); });
    if (in.size() != values * sizeof(value_type))
      throw wire_error("plan: " + std::to_string(in.size()) + " bytes for " +
                       std::to_string(values) + " uncompressed values");
  }
  bool decoded_all() override {
    return by_codec([](auto const&, auto& segment) { return segment->staging.rejected_none(); });
  }
  void find_error([[maybe_unused]] std::span<std::byte const> in, [[maybe_unused]] int parts,
                  [[maybe_unused]] encoded_findings& found) const override {
    if constexpr (has_fallback) {
      by_codec([&](auto const& codec, auto const&) {
        found.error = std::max(found.error, codec.error_of(in, parts));
      });
      if (!is_fallback_ && C::needs_fallback(in)) found.needs_fallback = 1;
    }
  }
  void find_nonfinite(std::span<std::byte const> in, std::size_t values, std::size_t first_block,
                      encoded_findings& found) const override {
    constexpr std::size_t some = 1024;
    value_type x[some];
    for (std::size_t first = 0; first < values; first += some) {
      std::size_t const n = std::min(some, values - first);
      std::memcpy(x, in.data() + first * sizeof(value_type), n * sizeof(value_type));
      note_nonfinite(nonfinite_runs(x, n), first_block + first / 64, found);
    }
  }

  // ---- For codec_variable_rate_values, with values in the executor's memory

  std::uint32_t measure([[maybe_unused]] std::span<value_type const> x) {
    if constexpr (FittedVariableRate<C>) return memory_->coder.measure(x);
    return 0;
  }
  /// Memory for values that are added before they are encoded.
  value_type* sums() {
    return by_codec([](auto const&, auto& segment) {
      return reinterpret_cast<value_type*>(segment->sums.data());
    });
  }

  void encode(std::span<value_type const> x, bool seeks_nonfinite, std::span<std::byte> out) {
    by_codec([&](auto const& codec, auto& segment) {
      segment->coder.encode(codec, x, segment->staging.output_memory(out));
      segment->begin(codec, x.size(), seeks_nonfinite, {});
    });
  }
  void decode_add_encode(std::span<std::byte const> in, std::span<value_type const> x,
                         bool seeks_nonfinite, std::span<std::byte> out) {
    by_codec([&](auto const& codec, auto& segment) {
      auto const encoded = segment->upload(codec, in, x.size(), encoded_by::another);
      auto const validation = segment->staging.unverified();
      segment->coder.decode_add_encode(codec, encoded, x, segment->staging.output_memory(out),
                                       validation);
      segment->begin(codec, x.size(), seeks_nonfinite, validation);
    });
  }
  void decode_add(std::span<std::byte const> in, std::span<value_type const> addends,
                  std::span<value_type> out) {
    by_codec([&](auto const& codec, auto& segment) {
      auto const encoded = segment->upload(codec, in, out.size(), encoded_by::another);
      segment->coder.decode_add(codec, encoded, addends, out, segment->staging.unverified());
      segment->staging.finish_upload();
    });
  }
  void decode(std::span<std::byte const> in, std::span<value_type> x, encoded_by whose,
              int parts = 0) {
    by_codec([&](auto const& codec, auto& segment) {
      auto const encoded = segment->upload(codec, in, x.size(), whose);
      segment->coder.decode(codec, encoded, x, parts, segment->staging.unverified());
    });
  }
  std::size_t copy_out(std::span<value_type const> x, std::span<std::byte> out) {
    memory_->staging.copy_out(x, out);
    return x.size_bytes();
  }
  void copy_in(std::span<std::byte const> in, std::span<value_type> x, [[maybe_unused]] int parts) {
    check(in, x.size(), true);
    memory_->staging.copy_in(in, x);
    if constexpr (std::floating_point<value_type>) {  // integers have no means
      divide_values<value_type> const work{x.size(), static_cast<value_type>(parts), x.data()};
      if (parts > 0) executor_->for_each_block(work.runs(), work);
    }
  }

 private:
  /// Memory for one segment, for this codec or its fallback.
  template <class D> struct segment_memory {
    variable_rate_coder<D, E> coder;
    segment_staging<D, E> staging;
    typename E::buffer sums;

    segment_memory(E& executor, D const& codec, std::size_t longest, std::size_t sum_values,
                   bool merges)
        : coder(longest, executor),
          staging(executor, codec, longest, merges),
          sums(sum_values * sizeof(value_type)) {}

    std::span<std::byte const> upload(D const& codec, std::span<std::byte const> in,
                                      std::size_t values, encoded_by whose, bool is_other = false) {
      return staging.upload(coder, codec, in, values, whose, is_other);
    }
    void begin(D const& codec, std::size_t values, bool seeks_nonfinite,
               deferred_validation const& validation) {
      staging.begin(coder, codec, values, seeks_nonfinite, validation);
    }
  };
  static constexpr bool has_fallback = BoundedVariableRate<C>;
  template <class D> struct fallback_of { using type = D; };
  template <BoundedVariableRate D> struct fallback_of<D> {
    using type = typename D::fallback_type;
  };
  using fallback_codec = typename fallback_of<C>::type;
  /// The fallback, for calls whose values the codec's bound cannot hold for.
  struct fallback_work {
    explicit fallback_work(fallback_codec const& of) : codec(of) {}

    fallback_codec codec;
    std::optional<segment_memory<fallback_codec>> segment;
  };

  /// Calls f(codec, memory) for the codec of this call.
  template <class F> auto by_codec(F const& f) { return by_codec_of(*this, f); }
  template <class F> auto by_codec(F const& f) const { return by_codec_of(*this, f); }
  template <class Self, class F> static auto by_codec_of(Self& self, F const& f) {
    if constexpr (has_fallback)
      if (self.is_fallback_)
        return f(std::as_const(self.fallback_->codec), self.fallback_->segment);
    return f(std::as_const(self.codec_), self.memory_);
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
  /// Parts are cut at cache lines.
  static encoded_layout layout_of(std::size_t values) {
    constexpr std::size_t block = 64;
    std::size_t const last = values == 0 ? 0 : (values - 1) % block + 1;
    return {values, block, block * sizeof(value_type), last * sizeof(value_type)};
  }

  int ranks_;
  C given_, codec_;
  encoded_layout layout_;
  E* executor_;
  std::optional<segment_memory<C>> memory_;
  bool is_fallback_ = false;
  std::optional<fallback_work> fallback_;
};

/// The values of one call.
template <VariableRate C, Executor E>
class codec_variable_rate_values final : public variable_rate_values {
  using value_type = typename C::value_type;

 public:
  /// @param x  the complete vector
  codec_variable_rate_values(codec_variable_rate<C, E>& work, value_type* x,
                             no_feedback<value_type>&)
      : work_(&work), x_(x) {}

  bool seem_to_need_fallback() const override {
    if constexpr (BoundedVariableRate<C> && !DeviceExecutor<E>) {
      constexpr std::size_t few = 16;
      std::size_t const n = work_->layout().values, apart = n / few + 1;
      for (std::size_t i = 0; i < n; i += apart)
        if (work_->codec().needs_fallback(x_[i])) return true;
    }
    return false;
  }
  std::uint32_t measure() override { return work_->measure({x_, work_->layout().values}); }
  void encode(value_range part, bool of_sums, bool seeks_nonfinite,
              std::span<std::byte> out) override {
    work_->encode(values(part, of_sums), seeks_nonfinite, out);
  }
  void add_and_encode(value_range part, bool of_sums, std::span<std::byte const> in,
                      bool seeks_nonfinite, std::span<std::byte> out) override {
    work_->decode_add_encode(in, values(part, of_sums), seeks_nonfinite, out);
  }
  std::size_t copy(value_range part, bool of_sums, std::span<std::byte> out) override {
    return work_->copy_out(values(part, of_sums), out);
  }
  void add_to_sums(value_range part, bool of_sums, std::span<std::byte const> in) override {
    work_->decode_add(in, values(part, of_sums), sums(part));
  }
  void decode_to_sums(value_range part, std::span<std::byte const> in, int parts) override {
    work_->decode(in, sums(part), encoded_by::this_rank, parts);
  }
  void decode(value_range part, std::span<std::byte const> in, bool plain, encoded_by whose,
              int parts) override {
    std::span const out(x_ + part.first, part.count);
    if (plain)
      work_->copy_in(in, out, parts);
    else
      work_->decode(in, out, whose, parts);
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
