#pragma once
/// @file
/// The collectives: sum a vector over all ranks without decoding it on the way.

#include <algorithm>
#include <cstddef>
#include <hcomp/codec/compressor.hpp>
#include <hcomp/codec/sparse.hpp>
#include <hcomp/codec/sparse_strategy.hpp>
#include <hcomp/codec/variable_rate.hpp>
#include <hcomp/collective/agreement/detail/call_check.hpp>
#include <hcomp/collective/agreement/options.hpp>
#include <hcomp/collective/agreement/report.hpp>
#include <hcomp/collective/engine/detail/codec_variable_rate.hpp>
#include <hcomp/collective/engine/detail/codec_work.hpp>
#include <hcomp/collective/engine/detail/make_engine.hpp>
#include <hcomp/collective/engine/detail/sum_engine.hpp>
#include <hcomp/collective/engine/detail/variable_rate_work.hpp>
#include <hcomp/collective/schedule/algorithm.hpp>
#include <hcomp/collective/schedule/detail/codec_algorithms.hpp>
#include <hcomp/core/detail/error_text.hpp>
#include <hcomp/exec/executor.hpp>
#include <hcomp/feedback/feedback.hpp>
#include <hcomp/op/encoded_layout.hpp>
#include <hcomp/transport/any_transport.hpp>
#include <hcomp/transport/transport.hpp>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>

namespace hcomp {

/// A codec that plans can sum with.
template <class C>
concept Summable = HomomorphicSum<C> || VariableRate<C> || Sparse<C>;

namespace detail {

/// What a plan is made of: work on codes, work on the values of one call, and what thinks about
/// ranks. Of codecs that skip zeros it is in sparse_plan.hpp, so that others do without.
template <class C, class E> struct plan_parts {
  static_assert(
      !Sparse<C>,
      "plans of codecs that skip zeros need #include <hcomp/collective/sparse/sparse_plan.hpp>");
};
template <HomomorphicSum C, class E> struct plan_parts<C, E> {
  using work = codec_work<C, E>;
  using engine = sum_engine<value_work>;
  template <class F> using values = codec_values<C, E, F>;

  static std::unique_ptr<engine> make(work& of, any_transport& transport,
                                      plan_options const& options) {
    if constexpr (SampledSign<C>)
      if (!options.algorithm.merges())
        return make_engine<sampled_engine<E>, engine>(of.settings(), of.executor(), transport,
                                                      options);
    return make_engine<block_engine, engine>(of.settings(), static_cast<code_work&>(of), transport,
                                             options);
  }
};
template <VariableRate C, class E> struct plan_parts<C, E> {
  using work = codec_variable_rate<C, E>;
  using engine = sum_engine<variable_rate_values>;
  template <class F> using values = codec_variable_rate_values<C, E>;

  static std::unique_ptr<engine> make(work& of, any_transport& transport,
                                      plan_options const& options) {
    return make_engine<variable_rate_engine, engine>(
        of.settings(), static_cast<variable_rate_work&>(of), transport, options);
  }
};

}  // namespace detail

/// Everything that sums vectors of one size with one codec over one transport: schedule, layout and
/// scratch memory. Calls after the first allocate nothing.
///
///     hcomp::plan plan(gradient.size(), hcomp::thc<float>({.bits = 4}), transport, executor);
///     plan.all_reduce(gradient, {.step = step, .op = hcomp::reduce_op::mean});
///
/// Transport and executor are used, not owned, and must outlive the plan. One call at a time.
/// Making a plan involves no communication; every call is collective over all ranks, which call
/// their plans equally often.
/// Memory: the code and two of its parts, in the executor's memory space; with options.narrow and
/// a codec that is Narrowable as much again.
///
/// A plan without options goes by the usual algorithm of its codec: direct if the codec Sparse,
/// otherwise ring. Options of your own name the algorithm: the ring unless they say otherwise.
///
/// With a codec that is VariableRate every rank adds its values to the code that arrives and sends
/// on the code of the sum, in one pass. Finished codes are passed on as they are, and who finished
/// one decodes it like all others, so that all ranks have the same bits. A value is encoded once
/// per rank: its error in a sum of P ranks is below P times the codec's. With algorithm direct
/// values are encoded once by each rank but their owner, and then their sum. Means are sums divided
/// at the end. The bound of a BoundedVariableRate is that of the sum: the plan divides it by its
/// ranks, codes are added as they are, and report::error says how far the answer is off at most.
/// Where the codec finds values that its bound does not hold for, on any rank, the plan sums again
/// by its finer codec, before x is changed; or at once, where a few values that a host looks at
/// first tell. The first of these calls takes memory for its codes, up to 8.2 bytes per value.
/// - Weights must be 1, values are those of the codec: floats, doubles or integers, and there is no
///   feedback and no algorithm recursive_doubling or sampled; options.narrow means nothing. Integers have no
///   means.
/// - With algorithm aggregator rank 0 answers with the sums as they are, uncompressed, as weights
///   would be: the paper's WA+C, and the ring its INC+C; with identity they are WA and INC.
/// - On a device messages are in the host's memory: what
///   crosses the bus is codes. The host checks what came, and waits for every code that has to
///   leave.
/// - Memory: the longest code of the vector, those of two parts, and with algorithm direct or
///   aggregator, unless the codec adds codes, the vector; on a device the codes as E::staging, and
///   in its own memory the vector, where it is needed, and three segments, or four where codes are
///   added to codes.
/// Source: Y. Li et al., MICRO 2018, doi 10.1109/MICRO.2018.00023.
///
/// With a codec that Sparse only the values that are not zero travel, and their places. See
/// lossless_sparse for algorithms, costs and memory. Include hcomp/collective/sparse/sparse_plan.hpp, or
/// hcomp/hcomp.hpp.
/// - Weights must be 1, values are floats and fewer than 2^32, and there is no feedback, no
///   algorithm sampled and no set_codec; options.narrow means nothing.
/// - shard() is a number of whole words of 64 values, about as many on every rank, by every
///   algorithm.
template <Summable C, Transport T, Executor E> class plan {
  using parts = detail::plan_parts<C, E>;
  template <class F> using values_of = typename parts::template values<F>;

 public:
  using value_type = typename C::value_type;

  /// @param values   of every vector to be summed, >= 0
  /// @param options  without them the usual algorithm of the codec
  /// @throws std::invalid_argument  a torus that does not fit the ranks, an algorithm that does not
  ///                                go with the codec, a codec parameter that is not finite, more
  ///                                ranks than can share the codec's bound, more values than the
  ///                                codec has room for, or a transport that cannot reach the memory
  ///                                of the messages
  plan(std::size_t values, C const& codec, T& transport, E& executor,
       plan_options const& options = {.algorithm = {detail::usual_algorithm<C>}})
      : transport_(transport),
        work_(codec, values, transport.size(), executor,
              checked(options, codec, values, transport.size())),
        engine_(parts::make(work_, transport_, checked(options, codec, values, transport.size()))) {
  }
  plan(plan const&) = delete;
  plan& operator=(plan const&) = delete;

  std::size_t values() const { return layout().values; }
  /// Of the last call: as it was given, or fitted to its ranks and values.
  C const& codec() const { return work_.codec(); }
  /// Other parameters from the next call on, such as a magnitude that follows a learning rate.
  /// @throws std::invalid_argument  blocks of another size, longer codes, or a parameter that is
  ///                                not finite
  void set_codec(C const& codec) requires(!Sparse<C>) {
    auto const terms = work_.terms(codec);
    work_.set_codec(codec);
    engine_->set_codec(terms);
  }
  plan_options const& options() const { return engine_->options(); }
  /// Of the last all_reduce: what was sent, and why; a sparse_choice.
  sparse_choice const& choice() const requires Sparse<C> { return engine_->choice(); }

  /// The values this rank holds after `reduce_scatter` and gives in `all_gather`.
  value_range shard() const { return layout().values_of(engine_->shard_blocks()); }

  /// All ranks own as many values where this times the ranks divides them; 0 where they never do:
  /// with algorithm sampled every rank owns all values, with aggregator rank 0 does, unless the codec
  /// Sparse.
  std::size_t shard_alignment() const {
    if (!Sparse<C> && !options().algorithm.shares_the_sum()) return 0;
    if constexpr (HomomorphicSum<C>) return C::block_values;
    return layout().block_values;
  }

  /// Sum `x` over all ranks, in place.
  ///
  /// @param x  values() values in the executor's memory space; on return the same bits on all
  ///           ranks; on a device for work that is given to the executor afterwards
  /// @throws std::invalid_argument  wrong size, misaligned, weight 0, headroom of the codec
  ///                                exceeded; memory_error: x is not in the executor's memory
  /// @throws disagreement_error     ranks passed different sizes, codecs, parameters, steps, ...
  /// @throws nonfinite_error        NaN or infinity on some rank, or a sum that overflows, and the
  ///                                policy is throw_error
  /// @throws wire_error             damaged or contradicting blocks met
  /// @throws transport_error        a peer failed; the transport must not be used again
  /// All but the last come on all ranks alike, and then x is unchanged; with options.check off a
  /// wrong argument is noticed only by the rank that passed it. Without options.checksum what a
  /// message suffers on its last way, when the sum is finished, or with algorithm recursive_doubling on any
  /// way, is noticed by its receivers alone, if at all, and an x of options.decode_on_arrival_bytes
  /// or more then holds parts of the sum. After a message of a wrong length, or damage of records,
  /// the transport must not be used again.
  ///
  /// Cost: ring: 2 (P - 1) hops, each rank sends 2 (P - 1) / P of the encoded vector; recursive_doubling:
  /// log2 P hops of all of it, and memory for two codes more; aggregator: rank 0 receives P - 1
  /// codes and sends as many.
  report all_reduce(std::span<value_type> x, call_options const& call = {}) {
    no_feedback<value_type> nothing(x.size());
    values_of<no_feedback<value_type>> values(work_, x.data(), nothing);
    return engine_->all_reduce(arguments(x, nothing), values, call);
  }

  /// The same with compensation: what is summed is x and what `feedback` adds to it.
  ///
  /// @param feedback  of values() values; unchanged if anything is thrown
  /// @throws std::invalid_argument  also if x and the feedback's memory overlap, or the codec
  ///                                takes no feedback: it is VariableRate or Sparse
  template <Feedback<value_type> F>
  report all_reduce(std::span<value_type> x, F& feedback, call_options const& call = {}) {
    auto const given = arguments(x, feedback);
    if constexpr (!HomomorphicSum<C>) {
      return engine_->refuse_feedback(detail::operation::all_reduce, given, call);
    } else {
      values_of<F> values(work_, x.data(), feedback);
      auto const stats = engine_->all_reduce(given, values, call);
      feedback.commit();
      return stats;
    }
  }

  /// Sum over all ranks, but leave each rank only its `shard()` part of the result in x; the rest
  /// of x keeps its values. What a sharded optimizer needs. Errors as for all_reduce.
  report reduce_scatter(std::span<value_type> x, call_options const& call = {}) {
    no_feedback<value_type> nothing(x.size());
    values_of<no_feedback<value_type>> values(work_, x.data(), nothing);
    return engine_->reduce_scatter(arguments(x, nothing), values, call);
  }

  /// The same with compensation that does not have to see all of the sum, such as error_feedback.
  template <Feedback<value_type> F>
  report reduce_scatter(std::span<value_type> x, F& feedback,
                        call_options const& call = {}) requires(F::is_of_own_encoding) {
    auto const given = arguments(x, feedback);
    if constexpr (!HomomorphicSum<C>) {
      return engine_->refuse_feedback(detail::operation::reduce_scatter, given, call);
    } else {
      values_of<F> values(work_, x.data(), feedback);
      auto const stats = engine_->reduce_scatter(given, values, call);
      feedback.commit();
      return stats;
    }
  }

  /// Give every rank all ranks' `shard()` parts of x, encoded once and decoded everywhere, here
  /// too: the same bits in x on every rank. `call.weight` must be 1. Errors as for all_reduce.
  report all_gather(std::span<value_type> x, call_options const& call = {}) {
    no_feedback<value_type> nothing(x.size());
    values_of<no_feedback<value_type>> values(work_, x.data(), nothing);
    return engine_->all_gather(arguments(x, nothing), values, call);
  }

 private:
  /// With the size of segments that is good where the values are.
  static plan_options checked(plan_options options, C const& codec, std::size_t values, int ranks) {
    detail::require_algorithm(C::name, detail::algorithms_of<C>(), options.algorithm);
    if (DeviceExecutor<E> && options.segment_bytes == plan_options{}.segment_bytes) {
      std::size_t bytes = values * sizeof(value_type);
      if constexpr (HomomorphicSum<C>)
        bytes = layout_of(codec, values, options.algorithm.sharers(ranks)).bytes();
      std::size_t const part = bytes / static_cast<std::size_t>(ranks);
      options.segment_bytes = std::clamp(
          std::max(part / 4, std::min(part, std::size_t{1} << 20)), options.segment_bytes,
          std::max(options.segment_bytes, options.device_segment_bytes));
    }
    return options;
  }
  encoded_layout const& layout() const { return work_.layout(); }
  template <class F>
  detail::call_arguments arguments(std::span<value_type> x, F const& feedback) const {
    return detail::arguments_of(&work_.executor(), x, feedback);
  }

  detail::erased_transport<T> transport_;
  typename parts::work work_;
  std::unique_ptr<typename parts::engine> engine_;
};

namespace detail {

/// Where arguments of a plan are none, the words for what is wrong.
template <class C, class T, class E> struct arguments_of_a_plan {
  static_assert(Summable<C>,
                "plan(values, codec, ...): that is no codec. For a codec by name call "
                "hcomp::make_plan<float>(name, ...); what a codec of your own lacks is said by "
                "static_assert(hcomp::HomomorphicSum<my_codec>)");
  static_assert(Transport<T>,
                "plan(values, codec, transport, ...): that is no transport, such as "
                "hcomp::mpi::transport, hcomp::ucx::transport or hcomp::in_process");
  static_assert(Executor<E>,
                "plan(values, codec, transport, executor): that is no executor, such as "
                "hcomp::host_executor or hcomp::gpu::stream_executor");
  using value_type = float;
};

}  // namespace detail

template <class C, class T, class E, class... Options>
  requires(!(Summable<C> && Transport<T> && Executor<E>))
plan(std::size_t, C const&, T&, E&, Options const&...)
->plan<detail::arguments_of_a_plan<C, T, E>, T, E>;

/// Sum `x` over all ranks, in place: a plan for one call. See plan::all_reduce.
template <Summable C, Transport T, Executor E>
report all_reduce(std::span<typename C::value_type> x, C const& codec, T& transport, E& executor,
                  call_options const& call = {},
                  plan_options const& options = {.algorithm = {detail::usual_algorithm<C>}}) {
  return plan<C, T, E>(x.size(), codec, transport, executor, options).all_reduce(x, call);
}

}  // namespace hcomp
