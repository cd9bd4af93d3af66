#pragma once
/// @file
/// Implements code_work and value_work for a codec, an executor and an error feedback: passes the
/// functors of block_work.hpp and feedback.hpp to the executor.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/compressor.hpp>
#include <hcomp/codec/device_hints.hpp>
#include <hcomp/collective/agreement/detail/codec_terms.hpp>
#include <hcomp/collective/agreement/options.hpp>
#include <hcomp/collective/engine/detail/code_work.hpp>
#include <hcomp/collective/engine/detail/collective_engine.hpp>
#include <hcomp/collective/engine/detail/inspection.hpp>
#include <hcomp/collective/engine/detail/narrow_encoding.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/core/detail/error_text.hpp>
#include <hcomp/exec/executor.hpp>
#include <hcomp/exec/mirror.hpp>
#include <hcomp/feedback/feedback.hpp>
#include <hcomp/op/block_work.hpp>
#include <hcomp/op/encoded_layout.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

namespace hcomp::detail {

/// Work that depends on the executor only.
template <Executor E> class executor_work : public code_work {
 public:
  executor_work(encoded_layout const& layout, E& executor)
      : layout_(layout), executor_(&executor) {}

  any_buffer allocate(std::size_t bytes) final {
    return {std::in_place_type<typename E::buffer>, bytes};
  }
  void synchronize() final { executor_->synchronize(); }
  void copy(block_range blocks, std::byte* to, std::byte const* from) final {
    executor_->for_each_block(blocks.count, copy_blocks{layout_, blocks.first, to, from});
  }
  void unite(std::uint32_t* words, std::uint32_t const* other, std::size_t count) final {
    executor_->for_each_block((count + unite_statistics::run - 1) / unite_statistics::run,
                              unite_statistics{words, other, count});
  }

  encoded_layout const& layout() const { return layout_; }
  E& executor() const { return *executor_; }

 private:
  encoded_layout layout_;
  E* executor_;
};

/// Work that depends on the codec, too.
template <HomomorphicSum C, Executor E> class codec_work final : public executor_work<E> {
 public:
  /// @param values  size of the vectors
  codec_work(C const& codec, std::size_t values, int ranks, E& executor,
             plan_options const& options)
      : executor_work<E>(layout_of(codec, values, options.algorithm.sharers(ranks)), executor),
        inspect_(this->layout().blocks()),
        dominances_(MeasuresDominance<C> ? statistics_words(codec, this->layout()) : 0),
        sharers_(options.algorithm.sharers(ranks)),
        codec_(codec),
        is_narrow_(Narrowable<C> && options.narrow && ranks > 1),
        narrow_(this->layout(), is_narrow_
                                    ? std::min(this->layout().blocks_per(options.segment_bytes),
                                               this->layout().blocks())
                                    : 0) {}

  block_engine_settings settings() const {
    return {terms(codec_), this->layout(), is_narrow_, statistics_words(codec_, this->layout()),
            wide_bytes(),  E::space};
  }
  codec_terms terms(C const& codec) const {
    return terms_of(codec, sizeof(typename C::value_type), codec.max_summands());
  }
  C const& codec() const { return codec_; }
  /// @throws std::invalid_argument  blocks have another size
  void set_codec(C const& codec) {
    auto const& layout = this->layout();
    auto const wanted = layout_of(codec, layout.values, sharers_);
    if (wanted.block_bytes != layout.block_bytes || wanted.block_values != layout.block_values)
      throw std::invalid_argument(error_text(
          {"set_codec: blocks of ", wanted.block_values, " values in ", wanted.block_bytes,
           " bytes, the plan was made for ", layout.block_values, " in ", layout.block_bytes}));
    codec_ = codec;
  }

  void merge(block_range blocks, std::byte* acc, std::byte const* in,
             std::uint32_t lowest) override {
    this->executor().for_each_block(
        blocks.count, merge_blocks<C>{codec_, acc, in, this->layout().block_bytes, lowest});
  }
  void merge([[maybe_unused]] block_range blocks, [[maybe_unused]] std::byte* acc,
             [[maybe_unused]] std::byte const* in, [[maybe_unused]] std::uint32_t lowest,
             [[maybe_unused]] wide_sum const& wide) override {
    if constexpr (DefersRounding<C>)
      this->executor().for_each_block(
          blocks.count, merge_wide_blocks<C>{codec_, acc, in, this->layout().block_bytes, lowest,
                                             wide, wide_bytes()});
  }
  /// Memory for the dominances of all blocks, in the executor's memory; null if the codec has none.
  float* dominances() const { return MeasuresDominance<C> ? dominances_.for_work() : nullptr; }
  /// The largest dominance, after they are written.
  double largest_dominance() {
    if constexpr (!MeasuresDominance<C>) return 0;
    std::size_t const words = statistics_words(codec_, this->layout());
    dominances_.fetch(this->executor(), words);
    auto const* const first = dominances_.for_host();
    return words == 0 ? 0 : *std::max_element(first, first + words);
  }

  encoded_findings inspect(block_range blocks, std::byte const* encoded, std::uint64_t key,
                           std::uint64_t weight, bool checksum, reduce_op op) override {
    return inspect_(this->executor(), codec_, this->layout(), blocks, encoded, key, weight, op,
                    checksum);
  }
  bool round([[maybe_unused]] block_range blocks, [[maybe_unused]] std::byte* encoded) override {
    if constexpr (HopRounding<C>) {
      if (codec_.hop_bits() == 0) return false;
      this->executor().for_each_block(blocks.count,
                                      round_blocks<C>{codec_, encoded, this->layout().block_bytes});
      return true;
    }
    return false;
  }
  std::size_t narrow([[maybe_unused]] block_range blocks, [[maybe_unused]] std::byte const* from,
                     [[maybe_unused]] std::byte* out,
                     [[maybe_unused]] std::uint32_t weight) override {
    if constexpr (Narrowable<C>)
      return narrow_.narrow(codec_, this->executor(), blocks, from, out, weight);
    return 0;
  }
  std::uint32_t widen([[maybe_unused]] block_range blocks,
                      [[maybe_unused]] std::span<std::byte const> message,
                      [[maybe_unused]] std::byte const* in_host,
                      [[maybe_unused]] std::byte* to) override {
    if constexpr (Narrowable<C>)
      return narrow_.widen(codec_, this->executor(), blocks, message, in_host, to);
    return 0;
  }

 private:
  std::size_t wide_bytes() const {
    if constexpr (DefersRounding<C>)
      return codec_.wide_bytes(static_cast<int>(this->layout().block_values));
    else
      return 0;
  }

  inspection<E> inspect_;
  mirror<float, E> dominances_;  ///< per word of the statistics
  int sharers_;                  ///< ranks that share the blocks
  C codec_;
  bool is_narrow_;
  narrow_encoding<C, E> narrow_;
};

/// The values of one call, and what `feedback` adds to them.
template <HomomorphicSum C, Executor E, class F> class codec_values final : public value_work {
 public:
  using value_type = typename C::value_type;

  /// @param x  the complete vector
  codec_values(codec_work<C, E>& work, value_type* x, F& feedback)
      : work_(&work), x_(x), feedback_(&feedback) {}

  double measure([[maybe_unused]] std::uint32_t* words) override {
    if constexpr (Calibrated<C>) {
      auto const source = feedback_->view(x_).source();
      work_->executor().for_each_block(layout().blocks(),
                                       measure_blocks<C, std::remove_const_t<decltype(source)>>{
                                           codec(), layout(), source, words, work_->dominances()});
      return work_->largest_dominance();
    }
    return 0;
  }
  void encode(block_range blocks, std::byte* encoded, block_origin const& origin) override {
    auto const view = feedback_->view(x_);
    using work = encode_with_feedback<C, std::remove_const_t<decltype(view)>>;
    work_->executor().for_each_block(
        blocks.count, shifted<work>{{codec(), layout(), view, encoded, origin}, blocks.first});
  }
  void decode(block_range blocks, std::byte const* encoded, reduce_op op,
              bool spread_nan) override {
    auto const view = feedback_->view(x_);
    work_->executor().for_each_block(
        blocks.count, decode_with_feedback<C, std::remove_const_t<decltype(view)>>{
                          {codec(), layout(), blocks.first, encoded, x_, op, spread_nan}, view});
    if constexpr (!DeviceExecutor<E>) work_->executor().synchronize();
  }

 private:
  C const& codec() const { return work_->codec(); }
  encoded_layout const& layout() const { return work_->layout(); }

  codec_work<C, E>* work_;
  value_type* x_;
  F* feedback_;
};

}  // namespace hcomp::detail
