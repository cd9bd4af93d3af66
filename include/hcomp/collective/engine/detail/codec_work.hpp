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
#include <hcomp/op/detail/call_verdict.hpp>
#include <hcomp/op/encoded_layout.hpp>
#include <optional>
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
  void prepare_verdict() final {
    verdict_.emplace(std::size_t{1});
    reset_verdict();
  }
  void put(agreement_words const& words, std::uint32_t* to, std::size_t zeros) final {
    enqueue(1, put_agreement{words, to, zeros});
  }
  void spoil(block_range blocks, std::byte* encoded) final {
    enqueue(blocks.count,
            spoil_blocks{encoded + layout_.offset(blocks.first), layout_.block_bytes});
  }
  void note(std::uint32_t const* agreed, bool refuses_nonfinite, std::uint32_t* out) final {
    enqueue(1, note_trouble{verdict(), agreed, refuses_nonfinite, out});
  }
  void seal(std::uint32_t const* number, sealed_number* out, std::uint64_t call) final {
    enqueue(1, seal_number{number, out, call});
  }
  void unite(std::uint32_t* number, sealed_number const* in, std::uint64_t call,
             std::uint32_t* lost) final {
    enqueue(1, unite_sealed_number{number, in, call, lost});
  }
  void judge(std::uint32_t const* troubles, std::uint64_t number, std::uint32_t what) final {
    enqueue(1, judge_call{verdict(), verdict_->for_host(), troubles, number, what});
  }
  bool has_failed() const final {
    return *static_cast<std::uint64_t const volatile*>(&verdict_->for_host()->failed) != 0;
  }
  call_verdict fetch_verdict() final {
    executor_->synchronize();
    return *verdict_->for_host();
  }
  void reset_verdict() final {
    *verdict_->for_host() = {};
    verdict_->send(*executor_, 1);
  }
  /// Not 0 if a stream-ordered call has failed, in the executor's memory; null without such calls.
  std::uint64_t const* failed() const { return verdict_ ? &verdict()->failed : nullptr; }

  encoded_layout const& layout() const { return layout_; }
  E& executor() const { return *executor_; }

 protected:
  /// Work of stream-ordered calls, which only devices have.
  template <class Work>
  void enqueue([[maybe_unused]] std::size_t blocks, [[maybe_unused]] Work const& work) {
    if constexpr (DeviceExecutor<E>) executor_->for_each_block(blocks, work);
  }
  call_verdict* verdict() const { return verdict_->for_work(); }

 private:
  encoded_layout layout_;
  E* executor_;
  std::optional<mirror<call_verdict, E>> verdict_;
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
  double largest_dominance() override {
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
                      [[maybe_unused]] std::byte const* in_host, [[maybe_unused]] std::byte* to,
                      [[maybe_unused]] std::uint32_t weight) override {
    if constexpr (Narrowable<C>)
      return narrow_.widen(codec_, this->executor(), blocks, message, in_host, to, weight);
    return 0;
  }
  std::size_t narrow_bytes(block_range blocks, std::uint32_t weight) const override {
    return travelling_layout(codec_, this->layout(), weight).bytes(blocks);
  }
  void verify(block_range blocks, std::byte const* encoded, std::uint64_t key, std::uint64_t weight,
              bool checksum, reduce_op op) override {
    this->enqueue(blocks.count, verify_blocks<C>{codec_, this->layout(), blocks.first, encoded, key,
                                                 weight, checksum, op, this->verdict()});
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

  void measure([[maybe_unused]] std::uint32_t* words) override {
    if constexpr (Calibrated<C>) {
      auto const source = feedback_->view(x_).source();
      work_->executor().for_each_block(layout().blocks(),
                                       measure_blocks<C, std::remove_const_t<decltype(source)>>{
                                           codec(), layout(), source, words, work_->dominances()});
    }
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
    decode_with_feedback<C, std::remove_const_t<decltype(view)>> const work{
        {codec(), layout(), blocks.first, encoded, x_, op, spread_nan}, view};
    if constexpr (DeviceExecutor<E>) {
      work_->executor().for_each_block(
          blocks.count, unless_failed<std::remove_const_t<decltype(work)>>{work, work_->failed()});
    } else {
      work_->executor().for_each_block(blocks.count, work);
      work_->executor().synchronize();
    }
  }

 private:
  C const& codec() const { return work_->codec(); }
  encoded_layout const& layout() const { return work_->layout(); }

  codec_work<C, E>* work_;
  value_type* x_;
  F* feedback_;
};

}  // namespace hcomp::detail
