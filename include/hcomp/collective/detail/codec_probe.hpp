#pragma once
/// @file
/// Times what a collective does with blocks, with the very functors that it uses.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/codec/compressor.hpp>
#include <hcomp/codec/detail/owner_tree.hpp>
#include <hcomp/codec/sign.hpp>
#include <hcomp/collective/costs.hpp>
#include <hcomp/collective/detail/owned_bits.hpp>
#include <hcomp/collective/report.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/core/detail/error_text.hpp>
#include <hcomp/core/random.hpp>
#include <hcomp/exec/executor.hpp>
#include <hcomp/feedback/feedback.hpp>
#include <hcomp/op/block_work.hpp>
#include <hcomp/op/code_layout.hpp>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

namespace hcomp::detail {

inline double median(std::vector<double> seconds) {
  auto const middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
  std::nth_element(seconds.begin(), middle, seconds.end());
  return *middle;
}

/// Ordinary values of both signs in no order.
template <class V> struct fill_block {
  V* x;
  code_layout layout;

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t b) const {
    std::size_t const first = b * layout.block_values;
    for (int i = group.lane(); i < layout.values_in(b); i += Group::lanes) {
      std::size_t const at = first + static_cast<std::size_t>(i);
      x[at] = static_cast<V>(static_cast<float>(mix(at) % 2001) / 1000.0f - 1.0f);
    }
    group.sync();
  }
};

/// Measures one codec on one executor. Every figure is the median of 3 batches, each the mean over
/// repetitions: ranks that share a core take turns, which single repetitions may be too short to
/// notice.
template <HomomorphicSum C, Executor E> class codec_probe {
 public:
  using value_type = typename C::value_type;

  codec_probe(C const& codec, E& executor, int ranks, std::size_t values, double seconds)
      : codec_(codec),
        executor_(&executor),
        ranks_(static_cast<std::size_t>(ranks)),
        layout_(layout_of(codec, values)),
        seconds_(seconds) {
    if (ranks < 1 || values < 1)
      throw std::invalid_argument(error_text(
          {"measure_codec: ", values, " values, ", ranks, " ranks; at least 1 is needed of both"}));
    values_ = buffer(values * sizeof(value_type));
    decoded_ = buffer(values * sizeof(value_type));
    code_ = buffer(layout_.bytes());
    other_ = buffer(layout_.bytes());
    if constexpr (Narrowable<C> && E::space == memory_space::host)
      narrow_ = buffer(layout_.bytes());
    statistics_ = buffer(statistics_words(codec, layout_) * sizeof(std::uint32_t));
  }

  /// @param line_up  returns when all ranks called it, so that they work at the same time
  template <class F> codec_cost measured(F const& line_up) {
    executor_->for_each_block(layout_.blocks(), fill_block<value_type>{x(), layout_});
    measure();
    encode(other_, 1, 1);
    auto cost = size_of(codec_);
    auto const per_value = [&](double seconds) {
      return std::max(0.0, seconds - cost.call) / static_cast<double>(layout_.values);
    };

    line_up();
    cost.call = timed([] {}, [&] { executor_->for_each_block(2, any_block_work{}); });
    if constexpr (Calibrated<C>) {
      line_up();
      cost.measure = per_value(timed([] {}, [&] { measure(); }));
    }
    line_up();
    cost.encode = per_value(timed([] {}, [&] { encode(code_, 0, 1); }));
    line_up();
    std::uint32_t const most =
        std::min<std::uint32_t>({4, codec_.max_summands() - 1, static_cast<unsigned>(ranks_) - 1});
    for (std::uint32_t weight = 1; weight <= most; ++weight)  // hop by hop it grows
      cost.merge += per_value(timed([&] { encode(code_, 0, weight); }, [&] { merge(); })) / most;
    if constexpr (Narrowable<C> && E::space == memory_space::host) {
      std::vector<std::size_t> places(layout_.blocks());
      for (std::size_t b = 0; b < places.size(); ++b) places[b] = layout_.offset(b);
      auto const change = [&](std::uint32_t weight, double& narrow, double& widen) {
        encode(code_, 0, weight);
        line_up();
        narrow = per_value(timed([] {},
                                 [&] {
                                   executor_->for_each_block(
                                       layout_.blocks(),
                                       narrow_blocks<C>{codec_, code_.data(), layout_.block_bytes,
                                                        narrow_.data(), places.data()});
                                 }));
        line_up();
        widen = per_value(timed([] {},
                                [&] {
                                  executor_->for_each_block(
                                      layout_.blocks(),
                                      widen_blocks<C>{codec_, narrow_.data(), places.data(),
                                                      code_.data(), layout_.block_bytes});
                                }));
      };
      change(1, cost.narrow_one, cost.widen_one);
      change(std::min(static_cast<std::uint32_t>(ranks_), codec_.max_summands()), cost.narrow,
             cost.widen);
    }
    line_up();
    cost.decode = per_value(timed([] {}, [&] { decode(); }));
    if constexpr (std::is_same_v<C, sign<value_type>> && E::space == memory_space::host)
      if (ranks_ > 1 && ranks_ <= max_owner_ranks) measure_selection(line_up, cost);
    return cost;
  }

 private:
  using buffer = typename E::buffer;
  using view = typename no_feedback<value_type>::kernel_view;

  value_type* x() const { return reinterpret_cast<value_type*>(values_.data()); }
  value_type* decoded() const { return reinterpret_cast<value_type*>(decoded_.data()); }

  std::uint32_t* statistics() const { return reinterpret_cast<std::uint32_t*>(statistics_.data()); }

  void measure() {
    if constexpr (Calibrated<C>)
      executor_->for_each_block(layout_.blocks(), measure_blocks<C, value_type const*>{
                                                      codec_, layout_, x(), statistics()});
  }
  void encode(buffer const& code, std::uint32_t rank, std::uint32_t weight) {
    executor_->for_each_block(
        layout_.blocks(), encode_with_feedback<C, view>{
                              codec_,
                              layout_,
                              view{x()},
                              code.data(),
                              {0, rank, weight, 0, statistics_.size() > 0 ? statistics() : nullptr},
                              false});
    executor_->synchronize();
  }
  void merge() {
    executor_->for_each_block(layout_.blocks(),
                              merge_blocks<C>{codec_, code_.data(), other_.data()});
  }
  void decode() {
    decode_blocks<C> const work{codec_,    layout_,         0,    code_.data(),
                                decoded(), reduction::mean, false};
    executor_->for_each_block(layout_.blocks(),
                              decode_with_feedback<C, view>{work, view{decoded()}});
  }

  /// What algorithm owner does besides, per rank.
  template <class F> void measure_selection(F const& line_up, codec_cost& cost) {
    auto const tree = owner_tree(std::vector<std::uint32_t>(ranks_, 1));
    std::vector<std::uint32_t> counts(layout_.blocks() * ranks_);
    auto const per_rank = [&](double seconds) {
      return std::max(0.0, seconds - cost.call) / static_cast<double>(layout_.values * ranks_);
    };
    line_up();
    cost.pack = per_rank(timed(
        [] {},
        [&] {
          executor_->for_each_block(
              layout_.blocks(),
              pack_owned_bits{layout_, {tree.data(), ranks_, 0}, 0, code_.data(), counts.data()});
        }));
    std::vector<std::size_t> starts(counts.size());
    std::size_t end = 0;
    for (std::size_t r = 0; r < ranks_; ++r)
      for (std::size_t b = 0; b < layout_.blocks(); ++b) {
        starts[b * ranks_ + r] = end;
        end += (counts[b * ranks_ + r] + 7) / 8;
      }
    std::vector<std::byte> const messages(end + 16);
    auto const header = load<block_header>(other_.data());
    line_up();
    cost.unpack = per_rank(timed([] {},
                                 [&] {
                                   executor_->for_each_block(
                                       layout_.blocks(),
                                       unpack_owned_bits{layout_,
                                                         {tree.data(), ranks_, header.stream},
                                                         header,
                                                         messages.data(),
                                                         starts.data(),
                                                         code_.data()});
                                 }));
  }

  template <class Prepare, class Work> double timed(Prepare const& prepare, Work const& work) {
    prepare();
    work();
    executor_->synchronize();  // the first one touches the memory
    std::vector<double> batches;
    while (batches.size() < 3) {
      double seconds = 0, spent = 0;
      int repetitions = 0;
      stopwatch batch;
      do {
        prepare();
        stopwatch watch;
        work();
        executor_->synchronize();
        watch.add_to(seconds);
        batch.add_to(spent);
        ++repetitions;
      } while (spent < seconds_ / 3);
      batches.push_back(seconds / repetitions);
    }
    return median(std::move(batches));
  }

  C codec_;
  E* executor_;
  std::size_t ranks_;
  code_layout layout_;
  double seconds_;
  buffer values_{0}, decoded_{0}, code_{0}, other_{0}, narrow_{0}, statistics_{0};
};

}  // namespace hcomp::detail
