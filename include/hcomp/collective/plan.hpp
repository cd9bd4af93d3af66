#pragma once
/// @file
/// The collectives: sum a vector over all ranks without decoding it on the way.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/compressor.hpp>
#include <hcomp/collective/agreement.hpp>
#include <hcomp/collective/call_check.hpp>
#include <hcomp/collective/chunk_moves.hpp>
#include <hcomp/collective/code_check.hpp>
#include <hcomp/collective/options.hpp>
#include <hcomp/collective/report.hpp>
#include <hcomp/collective/schedule.hpp>
#include <hcomp/core/random.hpp>
#include <hcomp/exec/executor.hpp>
#include <hcomp/feedback/feedback.hpp>
#include <hcomp/op/block_work.hpp>
#include <hcomp/op/code_layout.hpp>
#include <hcomp/transport/transport.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace hcomp {

/// Values of a vector, by their places.
struct value_range {
  std::size_t first = 0;
  std::size_t count = 0;
};

/// Everything that sums vectors of one size with one codec over one transport: schedule, layout and
/// scratch memory. Calls after the first allocate nothing.
///
/// Transport and executor are used, not owned, and must outlive the plan. One call at a time.
/// Making a plan involves no communication; every call is collective over all ranks.
/// Memory: the code twice over (once and two chunks for rings), in the executor's memory space.
template <HomomorphicSum C, Transport T, Executor E>
class plan {
 public:
  using value_type = typename C::value_type;

  /// @param values   of every vector to be summed, >= 0
  /// @throws std::invalid_argument  a torus that does not fit the ranks, algorithm `owner` (see
  ///                                owner_selection), a codec parameter that is not finite, or a
  ///                                transport that cannot reach the executor's memory
  plan(std::size_t values, C const& codec, T& transport, E& executor,
       plan_options const& options = {})
      : codec_(codec),
        layout_(layout_of(codec, values)),
        options_(options),
        transport_(&transport),
        executor_(&executor),
        schedule_(make_schedule(options.how, transport.rank(), transport.size())),
        moves_(layout_, schedule_, options.segment_bytes),
        memory_(code_bytes() + moves_.scratch_bytes()) {
    if (!transport.reaches(E::space))
      throw std::invalid_argument("plan: the transport does not reach the executor's memory");
    for (double const parameter : codec.parameters())
      if (!std::isfinite(parameter))
        throw std::invalid_argument("plan: codec '" + std::string(C::name) + "' has a parameter " +
                                    std::to_string(parameter));
  }
  plan(plan const&) = delete;
  plan& operator=(plan const&) = delete;

  std::size_t values() const { return layout_.values; }
  C const& codec() const { return codec_; }
  plan_options const& options() const { return options_; }

  /// The values this rank holds after `reduce_scatter` and gives in `all_gather`.
  value_range owned() const {
    block_range const blocks = owned_blocks();
    std::size_t const first = std::min(blocks.first * layout_.block_values, layout_.values);
    std::size_t const end = std::min(blocks.end() * layout_.block_values, layout_.values);
    return {first, end - first};
  }

  /// Sum `x` over all ranks, in place.
  ///
  /// @param x  values() values in the executor's memory space; on return the same bits on all ranks
  /// @throws std::invalid_argument  wrong size, misaligned, weight 0, headroom of the codec exceeded
  /// @throws disagreement_error     ranks passed different sizes, codecs, parameters, steps, ...
  /// @throws nonfinite_error        NaN or infinity on some rank, and the policy is throw_error
  /// @throws wire_error             damaged or contradicting blocks met
  /// @throws transport_error        a peer failed; the transport must not be used again
  /// The first four come on all ranks alike (but for wrong local arguments), and then x is unchanged.
  /// Cost: ring: 2 (P - 1) hops, 2 (P - 1) / P of the encoded vector sent by each rank.
  report all_reduce(std::span<value_type> x, call_options const& call = {}) {
    no_feedback<value_type> nothing(x.size());
    return all_reduce(x, nothing, call);
  }

  /// The same with compensation: what is summed is x and what `feedback` adds to it.
  ///
  /// @param feedback  of values() values; unchanged if anything is thrown
  /// @throws std::invalid_argument  also if x and the feedback's memory overlap
  template <Feedback<value_type> F>
  report all_reduce(std::span<value_type> x, F& feedback, call_options const& call = {}) {
    auto figures = start(detail::operation::all_reduce, x, feedback, call);
    encode(layout_.all(), x, feedback, call, figures);
    moves_.reduce_scatter(codec_, code(), scratch(), *transport_, *executor_, options_.tag,
                          figures);
    moves_.all_gather(code(), *transport_, options_.tag, figures);
    finish(detail::operation::all_reduce, layout_.all(), call, options_.checksum, figures);
    decode(layout_.all(), x, feedback, call, figures);
    feedback.commit();
    return done(figures);
  }

  /// Sum over all ranks, but leave each rank only its `owned()` part of the result in x; the rest
  /// of x keeps its values. What a sharded optimizer needs. Errors as for all_reduce.
  report reduce_scatter(std::span<value_type> x, call_options const& call = {}) {
    no_feedback<value_type> nothing(x.size());
    auto figures = start(detail::operation::reduce_scatter, x, nothing, call);
    encode(layout_.all(), x, nothing, call, figures);
    moves_.reduce_scatter(codec_, code(), scratch(), *transport_, *executor_, options_.tag,
                          figures);
    finish(detail::operation::reduce_scatter, owned_blocks(), call, true, figures);
    decode(owned_blocks(), x, nothing, call, figures);
    return done(figures);
  }

  /// Give every rank all ranks' `owned()` parts of x, encoded once and decoded everywhere, here
  /// too: the same bits in x on every rank. `call.weight` must be 1. Errors as for all_reduce.
  report all_gather(std::span<value_type> x, call_options const& call = {}) {
    no_feedback<value_type> nothing(x.size());
    auto figures = start(detail::operation::all_gather, x, nothing, call);
    encode(owned_blocks(), x, nothing, call, figures);
    moves_.all_gather(code(), *transport_, options_.tag, figures);
    expected_weight_ = 1;
    finish(detail::operation::all_gather, layout_.all(), call, options_.checksum, figures);
    decode(layout_.all(), x, nothing, call, figures);
    return done(figures);
  }

 private:
  std::size_t code_bytes() const { return (layout_.bytes() + 63) / 64 * 64; }
  std::byte* code() { return memory_.data(); }
  std::byte* scratch() { return memory_.data() + code_bytes(); }
  block_range owned_blocks() const {
    return schedule_.blocks_of(schedule_.owned, layout_.blocks());
  }

  /// Checks this rank's arguments, then those of all ranks; before anything is changed.
  template <class F>
  report start(detail::operation what, std::span<value_type> x, F const& feedback,
               call_options const& call) {
    bytes_before_ = transport_->bytes_sent();
    report figures;
    detail::stopwatch watch;
    auto const mine =
        detail::describe(what, x, layout_.values, codec_, feedback, options_, call);
    if (options_.check && transport_->size() > 1) {
      all_gather_records(*transport_, options_.tag, mine, records_);
      watch.add_to(figures.seconds_communicate);
    } else {
      // every rank answers for itself: equal weights are assumed, and verified in the blocks
      records_.assign(static_cast<std::size_t>(transport_->size()), mine);
    }
    detail::require_agreement(records_, layout_.values);
    auto const total = detail::total_weight(codec_, records_);
    expected_weight_ = options_.check ? total : 0;
    return figures;
  }

  template <class F>
  void encode(block_range blocks, std::span<value_type const> x, F& feedback,
              call_options const& call, report& figures) {
    detail::stopwatch watch;
    block_origin const origin{stream_of(call.key()),
                              static_cast<std::uint32_t>(transport_->rank()), call.weight, 0};
    auto const view = feedback.view(x.data());
    encode_with_feedback<C, decltype(view)> const work{codec_, layout_,  view,
                                                       code(), origin, options_.checksum};
    executor_->for_each_block(blocks.count, shifted<decltype(work)>{work, blocks.first});
    executor_->synchronize();
    watch.add_to(figures.seconds_encode);
  }

  /// Throws what is wrong with the finished blocks, on all ranks alike. Ranks that all hold the
  /// same blocks need not ask the others.
  void finish(detail::operation what, block_range blocks, call_options const& call,
              bool ask_others, report& figures) {
    detail::stopwatch watch;
    auto found = detail::check_code(codec_, layout_, blocks, code(), stream_of(call.key()),
                                    expected_weight_);
    if (ask_others && transport_->size() > 1) {
      all_gather_records(*transport_, options_.tag, found, findings_);
      for (auto const& other : findings_) found.merge(other);
      watch.add_to(figures.seconds_communicate);
    }
    detail::require_sound(to_text(what), C::name, found, options_.nonfinite, layout_);
    figures.weight = found.weight;
    watch.add_to(figures.seconds_decode);
  }

  template <class F>
  void decode(block_range blocks, std::span<value_type> x, F& feedback, call_options const& call,
              report& figures) {
    detail::stopwatch watch;
    auto const view = feedback.view(x.data());
    decode_blocks<C> const plain{codec_, layout_, blocks.first, code(), x.data(), call.result,
                                 options_.nonfinite == nonfinite_policy::propagate};
    executor_->for_each_block(blocks.count,
                              decode_with_feedback<C, decltype(view)>{plain, view});
    executor_->synchronize();
    watch.add_to(figures.seconds_decode);
  }

  report done(report& figures) const {
    figures.bytes_sent = transport_->bytes_sent() - bytes_before_;
    return figures;
  }

  C codec_;
  code_layout layout_;
  plan_options options_;
  T* transport_;
  E* executor_;
  schedule schedule_;
  detail::chunk_moves<C, T> moves_;
  typename E::buffer memory_;
  std::vector<detail::call_record> records_;
  std::vector<detail::code_findings> findings_;
  std::uint64_t expected_weight_ = 0;  // 0: not known
  std::uint64_t bytes_before_ = 0;
};

/// Sum `x` over all ranks, in place: a plan for one call. See plan::all_reduce.
template <HomomorphicSum C, Transport T, Executor E>
report all_reduce(std::span<typename C::value_type> x, C const& codec, T& transport, E& executor,
                  call_options const& call = {}, plan_options const& options = {}) {
  return plan<C, T, E>(x.size(), codec, transport, executor, options).all_reduce(x, call);
}

}  // namespace hcomp
