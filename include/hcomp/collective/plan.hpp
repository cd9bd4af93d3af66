#pragma once
/// @file
/// The collectives: sum a vector over all ranks without decoding it on the way.

#include <algorithm>
#include <cstddef>
#include <hcomp/codec/compressor.hpp>
#include <hcomp/collective/detail/block_engine.hpp>
#include <hcomp/collective/detail/call_check.hpp>
#include <hcomp/collective/detail/codec_terms.hpp>
#include <hcomp/collective/detail/codec_work.hpp>
#include <hcomp/collective/options.hpp>
#include <hcomp/collective/report.hpp>
#include <hcomp/exec/executor.hpp>
#include <hcomp/feedback/feedback.hpp>
#include <hcomp/op/block_work.hpp>
#include <hcomp/op/code_layout.hpp>
#include <hcomp/transport/any_transport.hpp>
#include <hcomp/transport/transport.hpp>
#include <span>
#include <stdexcept>
#include <string>

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
      : transport_(transport),
        work_(codec, layout_of(codec, values, transport.size()), executor, options.segment_bytes,
              options.narrow && transport.size() > 1),
        engine_({terms(codec), layout(), work_.is_narrow(), statistics_words(codec, layout()),
                 E::space},
                work_, transport_, options) {}
  plan(plan const&) = delete;
  plan& operator=(plan const&) = delete;

  std::size_t values() const { return layout().values; }
  C const& codec() const { return work_.codec(); }
  /// Other parameters from the next call on, such as a magnitude that follows a learning rate.
  /// @throws std::invalid_argument  blocks of another size, or a parameter that is not finite
  void set_codec(C const& codec) {
    auto const wanted = layout_of(codec, values(), transport_.size());
    if (wanted.block_bytes != layout().block_bytes || wanted.block_values != layout().block_values)
      throw std::invalid_argument(
          "set_codec: blocks of " + std::to_string(wanted.block_values) + " values in " +
          std::to_string(wanted.block_bytes) + " bytes, the plan was made for " +
          std::to_string(layout().block_values) + " in " + std::to_string(layout().block_bytes));
    engine_.set_codec(terms(codec));
    work_.set_codec(codec);
  }
  plan_options const& options() const { return engine_.options(); }

  /// The values this rank holds after `reduce_scatter` and gives in `all_gather`.
  value_range owned() const {
    block_range const blocks = engine_.owned_blocks();
    std::size_t const first = std::min(blocks.first * layout().block_values, values());
    std::size_t const end = std::min(blocks.end() * layout().block_values, values());
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
    detail::codec_values<C, E, F> values(work_, x.data(), feedback);
    auto const figures = engine_.all_reduce(arguments(x, feedback), values, call);
    feedback.commit();
    return figures;
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
    detail::codec_values<C, E, F> values(work_, x.data(), feedback);
    auto const figures = engine_.reduce_scatter(arguments(x, feedback), values, call);
    feedback.commit();
    return figures;
  }

  /// Give every rank all ranks' `owned()` parts of x, encoded once and decoded everywhere, here
  /// too: the same bits in x on every rank. `call.weight` must be 1. Errors as for all_reduce.
  report all_gather(std::span<value_type> x, call_options const& call = {}) {
    no_feedback<value_type> nothing(x.size());
    detail::codec_values<C, E, no_feedback<value_type>> values(work_, x.data(), nothing);
    return engine_.all_gather(arguments(x, nothing), values, call);
  }

 private:
  code_layout const& layout() const { return work_.layout(); }
  static detail::codec_terms terms(C const& codec) {
    return detail::terms_of(codec, sizeof(value_type), codec.max_summands());
  }
  template <class F>
  detail::call_arguments arguments(std::span<value_type> x, F const& feedback) const {
    return detail::arguments_of(&work_.executor(), x, feedback);
  }

  detail::erased_transport<T> transport_;
  detail::codec_work<C, E> work_;
  detail::block_engine engine_;
};

/// Sum `x` over all ranks, in place: a plan for one call. See plan::all_reduce.
template <HomomorphicSum C, Transport T, Executor E>
report all_reduce(std::span<typename C::value_type> x, C const& codec, T& transport, E& executor,
                  call_options const& call = {}, plan_options const& options = {}) {
  return plan<C, T, E>(x.size(), codec, transport, executor, options).all_reduce(x, call);
}

}  // namespace hcomp
