#pragma once
/// @file
/// Implements bucket_coder for an executor.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <hcomp/collective/agreement/options.hpp>
#include <hcomp/collective/by_name/codec_entry.hpp>
#include <hcomp/collective/by_name/make_plan.hpp>
#include <hcomp/collective/by_name/registered_codecs.hpp>
#include <hcomp/collective/plan/any_parts.hpp>
#include <hcomp/core/compensated.hpp>
#include <hcomp/core/random.hpp>
#include <hcomp/exec/executor.hpp>
#include <hcomp/exec/mirror.hpp>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "device_plan.hpp"
#include "magnitude_statistics.hpp"

namespace hcomp::drop_in {

/// The steps of an all-reduce of several vectors, in the memory space of E.
template <Executor E> class coded_bucket final : public bucket_coder {
 public:
  /// @param arguments  of the executor
  template <class... Arguments>
  explicit coded_bucket(bucket_request const& asked, Arguments&&... arguments)
      : executor_(std::forward<Arguments>(arguments)...),
        values_(asked.values.begin(), asked.values.end()),
        ranks_(asked.ranks),
        parts_(make_parts<float>(asked.codec, asked.values, asked.ranks, asked.rank, executor_,
                                 nonfinite_policy::propagate)) {
    if (codec_from(registered_codecs<float, E>(), asked.codec).entry->has_magnitude())
      magnitudes_.emplace(executor_, values_, *parts_);
  }

  bucket_sizes sizes() const override {
    std::size_t const words =
        magnitudes_ ? values_.size() * words_of_vector : parts_->statistics_words();
    return {parts_->part_bytes(), parts_->reduced_bytes(), words, magnitudes_ ? 1 : 0, 0};
  }
  void measure(bucket_vector const* vectors, std::uint32_t* statistics) override {
    for_each(vectors, 0, [&](auto x, auto* feedback, draw_key const&, std::size_t v) {
      if (!magnitudes_) return parts_->measure(x, feedback, statistics, v);
      auto* const out = reinterpret_cast<magnitude_statistics*>(statistics) + v;
      auto& meter = magnitudes_->meter;
      if (feedback)
        meter.enqueue(executor_, compensated<float>{x.data(), feedback->residual().data()},
                      x.size(), out);
      else
        meter.enqueue(executor_, x.data(), x.size(), out);
    });
  }
  void encode(bucket_vector const* vectors, std::uint64_t step, std::uint32_t const* statistics,
              std::byte* out) override {
    if (magnitudes_)
      executor_.for_each_block(
          values_.size(),
          detail::put_magnitudes{reinterpret_cast<magnitude_statistics const*>(statistics),
                                 values_.size(), ranks_, magnitudes_->values.for_work(),
                                 magnitudes_->out()});
    for_each(vectors, step, [&](auto x, auto* feedback, draw_key const& key, std::size_t v) {
      parts_->encode(x, feedback, key, statistics, out, v);
    });
  }
  void merge(std::byte const* in, std::byte* out) override { parts_->merge(in, out); }
  void decode(std::byte const* in, bool is_own_part, bucket_vector const* vectors,
              std::uint64_t step, reduce_op op) override {
    for_each(vectors, step, [&](auto x, auto* feedback, draw_key const& key, std::size_t v) {
      parts_->decode(in, is_own_part, x, feedback, key, op, v);
    });
  }
  void check(bool wait) override {
    if (wait || parts_->has_failed()) parts_->check();
  }
  void synchronize() override { executor_.synchronize(); }

 private:
  /// Calls f(x, its feedback or null, key, v) for every vector.
  template <class F> void for_each(bucket_vector const* vectors, std::uint64_t step, F const& f) {
    using error_type = typename any_parts<float, E>::error_type;
    for (std::size_t v = 0; v < values_.size(); ++v) {
      auto const& one = vectors[v];
      std::optional<error_type> feedback;
      if (one.residual)
        feedback.emplace(std::span(one.residual, values_[v]), std::span(one.pending, values_[v]),
                         std::span<std::uint64_t, 1>(one.withheld, 1));
      draw_key const key{.step = step, .tensor = one.number};
      f(std::span(one.x, values_[v]), feedback ? &*feedback : nullptr, key, v);
    }
  }

  /// Of the codecs of signs: per vector what a sign stands for, in the executor's memory.
  struct magnitudes {
    magnitude_meter<E> meter;
    mirror<std::uint64_t, E> values;  ///< of each vector
    typename E::buffer memory;

    magnitudes(E& executor, std::vector<std::size_t> const& sizes, any_parts<float, E>& parts)
        : meter(sizes.empty() ? 0 : std::ranges::max(sizes)),
          values(sizes.size()),
          memory(sizes.size() * sizeof(float)) {
      std::ranges::copy(sizes, values.for_host());
      values.send(executor, sizes.size());
      for (std::size_t v = 0; v < sizes.size(); ++v) parts.set_magnitude_at(out() + v, v);
    }
    float* out() const { return reinterpret_cast<float*>(memory.data()); }
  };
  static constexpr std::size_t words_of_vector =
      sizeof(magnitude_statistics) / sizeof(std::uint32_t);

  E executor_;
  std::vector<std::size_t> values_;
  int ranks_;
  std::unique_ptr<any_parts<float, E>> parts_;
  std::optional<magnitudes> magnitudes_;
};

}  // namespace hcomp::drop_in
