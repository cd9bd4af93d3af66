#pragma once
/// @file
/// The collectives: sum a vector over all ranks without decoding it on the way.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/compressor.hpp>
#include <hcomp/collective/detail/calibration.hpp>
#include <hcomp/collective/detail/call_session.hpp>
#include <hcomp/collective/detail/chunk_moves.hpp>
#include <hcomp/collective/detail/code_inspection.hpp>
#include <hcomp/collective/detail/ready_to_move.hpp>
#include <hcomp/collective/options.hpp>
#include <hcomp/collective/report.hpp>
#include <hcomp/collective/schedule.hpp>
#include <hcomp/exec/detail/own_memory.hpp>
#include <hcomp/exec/executor.hpp>
#include <hcomp/feedback/feedback.hpp>
#include <hcomp/op/block_work.hpp>
#include <hcomp/op/code_layout.hpp>
#include <hcomp/op/detail/code_check.hpp>
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
/// Memory: the code and two of its chunks, in the executor's memory space; with options.narrow and
/// a codec that is Narrowable as much again.
template <HomomorphicSum C, Transport T, Executor E> class plan {
 public:
  using value_type = typename C::value_type;

  /// @param values  of every vector to be summed, >= 0
  /// @throws std::invalid_argument  a torus that does not fit the ranks, algorithm `owner` (see
  ///                                owner_selection), a codec parameter that is not finite, or a
  ///                                transport that cannot reach the executor's memory
  plan(std::size_t values, C const& codec, T& transport, E& executor,
       plan_options const& options = {})
      : session_(codec, values, transport, options, E::space),
        layout_(layout_of(codec, values, transport.size())),
        executor_(&executor),
        calibration_(codec, layout_),
        schedule_(make_schedule(options.how, transport.rank(), transport.size())),
        moves_(layout_, schedule_, options.segment_bytes, options.narrow),
        inspect_(layout_.blocks()),
        code_bytes_((layout_.bytes() + 63) / 64 * 64),
        memory_(code_bytes_ + moves_.scratch_bytes()) {}
  plan(plan const&) = delete;
  plan& operator=(plan const&) = delete;

  std::size_t values() const { return layout_.values; }
  C const& codec() const { return session_.codec(); }
  /// Other parameters from the next call on, such as a magnitude that follows a learning rate.
  /// @throws std::invalid_argument  blocks of another size, or a parameter that is not finite
  void set_codec(C const& codec) {
    auto const wanted = layout_of(codec, layout_.values, transport().size());
    if (wanted.block_bytes != layout_.block_bytes || wanted.block_values != layout_.block_values)
      throw std::invalid_argument(
          "set_codec: blocks of " + std::to_string(wanted.block_values) + " values in " +
          std::to_string(wanted.block_bytes) + " bytes, the plan was made for " +
          std::to_string(layout_.block_values) + " in " + std::to_string(layout_.block_bytes));
    session_.set_codec(codec);
  }
  plan_options const& options() const { return session_.options(); }

  /// The values this rank holds after `reduce_scatter` and gives in `all_gather`.
  value_range owned() const {
    block_range const blocks = owned_blocks();
    std::size_t const first = std::min(blocks.first * layout_.block_values, layout_.values);
    std::size_t const end = std::min(blocks.end() * layout_.block_values, layout_.values);
    return {first, end - first};
  }

  /// Sum `x` over all ranks, in place.
  ///
  /// @param x  values() values in the executor's memory space; on return the same bits on all
  ///           ranks; on a device for work that is given to the executor afterwards
  /// @throws std::invalid_argument  wrong size, misaligned, weight 0, headroom of the codec
  ///                                exceeded; memory_error: x is not in the executor's memory
  /// @throws disagreement_error     ranks passed different sizes, codecs, parameters, steps, ...
  /// @throws nonfinite_error        NaN or infinity on some rank, and the policy is throw_error
  /// @throws wire_error             damaged or contradicting blocks met
  /// @throws transport_error        a peer failed; the transport must not be used again
  /// All but the last come on all ranks alike, and then x is unchanged; with options.check off a
  /// wrong argument is noticed only by the rank that passed it. Only what a message suffers on its
  /// last way, when the sum is finished, or with algorithm doubling on any way, is noticed by its
  /// receivers alone, unless options.checksum is on; then an x of options.decode_on_arrival_bytes
  /// or more holds parts of the sum.
  ///
  /// Cost: ring: 2 (P - 1) hops, each rank sends 2 (P - 1) / P of the encoded vector; doubling:
  /// log2 P hops of all of it, and memory for two codes more.
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
    auto figures = session_.start(detail::operation::all_reduce, reachable(x), feedback, call);
    calibrate(x, feedback, figures);
    reduce(x, feedback, call, figures);
    if (decodes_on_arrival()) {
      spread_and_decode(x, feedback, call, figures);
    } else {
      if (!schedule_.reduces_all) spread(figures);
      finish(layout_.all(), session_.expected_weight(), of_all(), figures);
      decode(layout_.all(), x, feedback, call, figures);
    }
    feedback.commit();
    return session_.done(figures);
  }

  /// Sum over all ranks, but leave each rank only its `owned()` part of the result in x; the rest
  /// of x keeps its values. What a sharded optimizer needs. Errors as for all_reduce.
  report reduce_scatter(std::span<value_type> x, call_options const& call = {}) {
    no_feedback<value_type> nothing(x.size());
    return reduce_scatter(x, nothing, call);
  }

  /// The same with compensation that does not have to see all of the sum, such as error_feedback.
  template <Feedback<value_type> F>
  report reduce_scatter(std::span<value_type> x, F& feedback,
                        call_options const& call = {}) requires(F::is_of_own_encoding) {
    auto figures = session_.start(detail::operation::reduce_scatter, reachable(x), feedback, call);
    calibrate(x, feedback, figures);
    reduce(x, feedback, call, figures);
    finish(owned_blocks(), session_.expected_weight(), detail::findings::of_parts, figures);
    decode(owned_blocks(), x, feedback, call, figures);
    feedback.commit();
    return session_.done(figures);
  }

  /// Give every rank all ranks' `owned()` parts of x, encoded once and decoded everywhere, here
  /// too: the same bits in x on every rank. `call.weight` must be 1. Errors as for all_reduce.
  report all_gather(std::span<value_type> x, call_options const& call = {}) {
    no_feedback<value_type> nothing(x.size());
    auto figures = session_.start(detail::operation::all_gather, reachable(x), nothing, call);
    encode(owned_blocks(), x, nothing, call, figures, nullptr);  // in a unit of its own
    spread(figures);
    finish(layout_.all(), 1, of_all(), figures);
    decode(layout_.all(), x, nothing, call, figures);
    return session_.done(figures);
  }

 private:
  T& transport() const { return session_.transport(); }
  std::span<value_type> reachable(std::span<value_type> x) const {
    return detail::reachable(executor_, x);
  }
  std::byte* code() const { return memory_.data(); }
  detail::code_in_motion<C, T, E> motion(report& figures) {
    return {codec(),       code(), memory_.data() + code_bytes_, transport(), *executor_,
            options().tag, figures};
  }
  block_range owned_blocks() const {
    return schedule_.blocks_of(schedule_.owned, layout_.blocks());
  }

  template <class F> void calibrate(std::span<value_type const> x, F& feedback, report& figures) {
    calibration_.agree(codec(), layout_, feedback.view(x.data()).source(), transport(),
                       options().tag, *executor_, figures);
  }

  /// Encodes and adds up; every block is encoded when it is first needed.
  template <class F>
  void reduce(std::span<value_type const> x, F& feedback, call_options const& call,
              report& figures) {
    encoded_.assign(layout_.blocks(), 0);
    moves_.reduce_scatter(motion(figures), [&](block_range range) {
      for (std::size_t b = range.first; b < range.end(); ++b) {
        std::size_t const first = b;
        while (b < range.end() && !encoded_[b]) encoded_[b++] = 1;
        if (b > first) encode({first, b - first}, x, feedback, call, figures, calibration_.words());
      }
    });
  }

  /// Long vectors are decoded while others are on their way. Not with checksums, which promise that
  /// x stays as it was whatever happens to a message.
  bool decodes_on_arrival() const {
    return transport().size() > 1 && !schedule_.reduces_all && !options().checksum &&
           layout_.values * sizeof(value_type) >= options().decode_on_arrival_bytes;
  }

  void spread(report& figures) {
    moves_.all_gather(
        motion(figures), [] {}, [](block_range) {});
  }

  /// The all-gather, decoding what has arrived. That the sum is sound is known before.
  template <class F>
  void spread_and_decode(std::span<value_type> x, F& feedback, call_options const& call,
                         report& figures) {
    finish(owned_blocks(), session_.expected_weight(), detail::findings::of_parts, figures);
    auto const weight = figures.weight;  // on which all ranks agree now
    detail::code_findings found;
    auto const decode_sound = [&](block_range blocks) {
      found.merge(check(blocks, weight, figures));
      if (found.damaged == detail::code_findings::nowhere)
        decode(blocks, x, feedback, call, figures);
    };
    moves_.all_gather(
        motion(figures), [&] { decode_sound(owned_blocks()); }, decode_sound);
    session_.finish(found, detail::findings::of_all, layout_, figures);
  }

  template <class F>
  void encode(block_range blocks, std::span<value_type const> x, F& feedback,
              call_options const& call, report& figures, std::uint32_t const* statistics) {
    detail::stopwatch watch;
    block_origin const origin{session_.stream(), static_cast<std::uint32_t>(transport().rank()),
                              call.weight, 0, statistics};
    auto const view = feedback.view(x.data());
    encode_with_feedback<C, decltype(view)> const work{codec(), layout_, view,
                                                       code(),  origin,  options().checksum};
    executor_->for_each_block(blocks.count, shifted<decltype(work)>{work, blocks.first});
    detail::ready_to_move(transport(), *executor_);
    watch.add_to(figures.seconds_encode);
  }

  /// Of a code that all ranks hold: with checksums any of them may have met damage.
  detail::findings of_all() const {
    return options().checksum ? detail::findings::of_all_to_compare : detail::findings::of_all;
  }

  detail::code_findings check(block_range blocks, std::uint64_t weight, report& figures) {
    detail::stopwatch watch;
    auto const found =
        inspect_(*executor_, codec(), layout_, blocks, code(), session_.stream(), weight);
    watch.add_to(figures.seconds_decode);
    return found;
  }

  void finish(block_range blocks, std::uint64_t weight, detail::findings whose, report& figures) {
    session_.finish(check(blocks, weight, figures), whose, layout_, figures);
  }

  template <class F>
  void decode(block_range blocks, std::span<value_type> x, F& feedback, call_options const& call,
              report& figures) {
    detail::stopwatch watch;
    auto const view = feedback.view(x.data());
    decode_blocks<C> const work{codec(),
                                layout_,
                                blocks.first,
                                code(),
                                x.data(),
                                call.result,
                                options().nonfinite == nonfinite_policy::propagate};
    executor_->for_each_block(blocks.count, decode_with_feedback<C, decltype(view)>{work, view});
    if constexpr (!DeviceExecutor<E>) executor_->synchronize();
    watch.add_to(figures.seconds_decode);
  }

  detail::call_session<C, T> session_;
  code_layout layout_;
  E* executor_;
  detail::calibration<C, E> calibration_;
  schedule schedule_;
  detail::chunk_moves<C, T, E> moves_;
  detail::code_inspection<C, E> inspect_;
  std::vector<char> encoded_;  ///< block by block
  std::size_t code_bytes_;
  typename E::buffer memory_;
};

/// Sum `x` over all ranks, in place: a plan for one call. See plan::all_reduce.
template <HomomorphicSum C, Transport T, Executor E>
report all_reduce(std::span<typename C::value_type> x, C const& codec, T& transport, E& executor,
                  call_options const& call = {}, plan_options const& options = {}) {
  return plan<C, T, E>(x.size(), codec, transport, executor, options).all_reduce(x, call);
}

}  // namespace hcomp
