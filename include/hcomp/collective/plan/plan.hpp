#pragma once
/// @file
/// The collectives: all-reduce, reduce-scatter and all-gather of compressed vectors.

#include <algorithm>
#include <cstddef>
#include <hcomp/codec/compressor.hpp>
#include <hcomp/codec/device_hints.hpp>
#include <hcomp/codec/sparse.hpp>
#include <hcomp/codec/sparse_strategy.hpp>
#include <hcomp/codec/variable_rate.hpp>
#include <hcomp/collective/agreement/detail/call_check.hpp>
#include <hcomp/collective/agreement/options.hpp>
#include <hcomp/collective/agreement/report.hpp>
#include <hcomp/collective/engine/detail/codec_variable_rate.hpp>
#include <hcomp/collective/engine/detail/codec_work.hpp>
#include <hcomp/collective/engine/detail/collective_engine.hpp>
#include <hcomp/collective/engine/detail/make_engine.hpp>
#include <hcomp/collective/engine/detail/variable_rate_work.hpp>
#include <hcomp/collective/schedule/algorithm.hpp>
#include <hcomp/collective/schedule/detail/codec_algorithms.hpp>
#include <hcomp/core/detail/error_text.hpp>
#include <hcomp/core/detail/float_environment.hpp>
#include <hcomp/exec/executor.hpp>
#include <hcomp/feedback/detail/sampled_energy.hpp>
#include <hcomp/feedback/feedback.hpp>
#include <hcomp/op/encoded_layout.hpp>
#include <hcomp/transport/any_transport.hpp>
#include <hcomp/transport/transport.hpp>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>

namespace hcomp {

/// A codec that plans can reduce with.
template <class C>
concept Summable = HomomorphicSum<C> || VariableRate<C> || Sparse<C>;

namespace detail {

/// Classes that a plan consists of: work on encoded vectors, work on the values of one call, and
/// the engine that runs the schedule. Those of Sparse codecs are in sparse_plan.hpp, so that plans
/// of dense codecs do not include it.
template <class C, class E> struct plan_parts {
  static_assert(!Sparse<C>,
                "plans of sparse codecs need #include <hcomp/collective/sparse/sparse_plan.hpp>");
};
template <HomomorphicSum C, class E> struct plan_parts<C, E> {
  using work = codec_work<C, E>;
  using engine = collective_engine<value_work>;
  template <class F> using values = codec_values<C, E, F>;

  static std::unique_ptr<engine> make(work& of, any_transport& transport,
                                      plan_options const& options) {
    if constexpr (SampledSign<C>) {
      static_assert(
          requires { sizeof(sampled_engine<E>); },
          "plans of codec sign need #include <hcomp/collective/engine/sampled.hpp>");
      if (!options.algorithm.merges())
        return make_engine<sampled_engine<E>, engine>(of.settings(), of.executor(), transport,
                                                      options);
    }
    return make_engine<block_engine, engine>(of.settings(), static_cast<code_work&>(of), transport,
                                             options);
  }
};
template <VariableRate C, class E> struct plan_parts<C, E> {
  using work = codec_variable_rate<C, E>;
  using engine = collective_engine<variable_rate_values>;
  template <class F> using values = codec_variable_rate_values<C, E>;

  static std::unique_ptr<engine> make(work& of, any_transport& transport,
                                      plan_options const& options) {
    return make_engine<variable_rate_engine, engine>(
        of.settings(), static_cast<variable_rate_work&>(of), transport, options);
  }
};

}  // namespace detail

/// A plan for collectives of vectors of one size, with one codec over one transport. It owns the
/// schedule, the layout and the scratch memory. Calls after the first allocate nothing, except a
/// first call with a fallback. Sparse codecs with algorithms other than direct also make a plan
/// when the number of nonzero values changes.
///
///     hcomp::plan plan(gradient.size(), hcomp::thc<float>({.bits = 4}), transport, executor);
///     plan.all_reduce(gradient, {.step = step, .op = hcomp::reduce_op::mean});
///
/// Transport and executor are used, not owned, and must outlive the plan. One call at a time.
/// Construction involves no communication. Every call is collective: all ranks make the same number
/// of calls.
/// Memory: the encoded vector and two of its parts, in the executor's memory space; twice that with
/// options.narrow and a Narrowable codec.
///
/// A plan without options uses the default algorithm of its codec: direct if the codec is Sparse,
/// otherwise ring. With options the default algorithm is ring.
///
/// With a VariableRate codec, every hop decodes, adds the rank's own values and encodes in one
/// pass. The all-gather forwards reduced shards unchanged; every rank, the owner included, decodes
/// the same bytes, so results are bit-identical. A value is encoded once per rank: the error of a
/// sum of P ranks is below P times the codec's. Means are sums divided at the end.
///
/// With algorithm direct every rank but the owner encodes a value once, and the owner encodes the
/// sum.
///
/// The bound of a BoundedVariableRate codec is the bound of the sum. The plan divides it by the
/// number of ranks, adds encoded vectors without decoding, and returns the largest possible error
/// in report::error.
///
/// If the bound cannot hold for a value on any rank, the plan repeats the reduction with the
/// codec's fallback, before x is changed. If the few values that the host inspects first already
/// show this, the plan uses the fallback at once. The first call with the fallback allocates its
/// buffers, up to 8.2 bytes per value.
/// - Weights must be 1. Values are those of the codec: floats, doubles or integers. Error feedback
///   and the algorithms recursive_doubling and sampled are not available. options.narrow has no
///   effect. Integers have no means.
/// - With algorithm aggregator rank 0 sends results uncompressed, like weights: this is the
///   paper's WA+C, and the ring is its INC+C. With identity they are WA and INC.
/// - On a device, messages are in host memory, and only encoded data crosses the bus. The host
///   validates received messages, and waits for every encoded segment before it sends the segment.
/// - Memory: the longest encoded vector and the longest encoding of two parts. Algorithms direct
///   and aggregator also need the vector, unless the codec adds encoded vectors. On a device the
///   encoded data is in E::staging; device memory holds the vector, where it is needed, and three
///   segments (four if the codec adds encoded vectors).
/// Source: Y. Li et al., MICRO 2018, doi 10.1109/MICRO.2018.00023.
///
/// Over a stream-ordered transport (see Transport) calls are stream-ordered, too: they enqueue work
/// and messages on the executor's stream and return. Calls after the first allocate nothing and do
/// not wait for the device. For fixed-rate codecs and all algorithms but sampled.
/// - Errors other than transport_error appear later: `check` throws them. A failed call, and all
///   calls from then to `check`, change neither x nor feedback. Such a call may throw the error as
///   well, after it has enqueued its messages.
/// - A rank that refuses its own arguments throws at once. Other ranks get a disagreement_error, or
///   without options.check a wire_error.
/// - Weights must be equal. Different message sizes, for example of different codecs, are a
///   wire_error if the transport compares sizes, and undefined otherwise, as in NCCL.
/// - A CUDA graph can capture calls. Every replay has the seed, step and tensor of the capture, so
///   its random draws repeat.
/// - report::dominance is 0, and the report's times are those of the host.
///
/// With a Sparse codec only nonzero values and their positions are sent. See lossless_sparse for
/// algorithms, costs and memory. Include hcomp/collective/sparse/sparse_plan.hpp, or
/// hcomp/hcomp.hpp.
/// - Weights must be 1. Values are floats, fewer than 2^32. Error feedback, algorithm sampled and
///   set_codec are not available. options.narrow has no effect.
/// - With every algorithm, shard() consists of complete words of 64 values. Ranks have about equal
///   shares.
template <Summable C, Transport T, Executor E> class plan {
  using parts = detail::plan_parts<C, E>;
  template <class F> using values_of = typename parts::template values<F>;

 public:
  using value_type = typename C::value_type;

  /// @param values   per vector, >= 0
  /// @param options  default: the default algorithm of the codec
  /// @throws std::invalid_argument  a torus that does not fit the ranks; an algorithm that the
  ///                                codec does not support; a codec parameter that is not finite;
  ///                                more ranks than can share the codec's bound; more values than
  ///                                the codec can encode; a transport that cannot reach the memory
  ///                                of the messages
  plan(std::size_t values, C const& codec, T& transport, E& executor,
       plan_options const& options = {.algorithm = {detail::usual_algorithm<C>}})
      : plan(detail::float_environment(), values, codec, transport, executor, options) {}
  plan(plan const&) = delete;
  plan& operator=(plan const&) = delete;

  std::size_t values() const { return layout().values; }
  /// The codec of the last call: as given, or fitted to the ranks and values.
  C const& codec() const { return work_.codec(); }
  /// Changes the codec's parameters from the next call on, such as a magnitude that follows a
  /// learning rate.
  /// @throws std::invalid_argument  other block size, longer encoded vectors, or a parameter that
  ///                                is not finite
  void set_codec(C const& codec) requires(!Sparse<C>) {
    auto const terms = work_.terms(codec);
    work_.set_codec(codec);
    engine_->set_codec(terms);
  }
  plan_options const& options() const { return engine_->options(); }
  /// What the last all_reduce sent, and why; a sparse_choice.
  sparse_choice const& choice() const requires Sparse<C> { return engine_->choice(); }

  /// The values this rank owns after `reduce_scatter` and contributes to `all_gather`.
  value_range shard() const { return layout().values_of(engine_->shard_blocks()); }

  /// All shards have equal size if this alignment times the number of ranks divides the vector. 0:
  /// they never have. Then, unless the codec is Sparse, every rank owns all values (algorithm
  /// sampled) or rank 0 does (aggregator).
  std::size_t shard_alignment() const {
    if (!Sparse<C> && !options().algorithm.splits_vector()) return 0;
    if constexpr (HomomorphicSum<C>) return C::block_values;
    return layout().block_values;
  }

  /// All-reduce of `x`, in place.
  ///
  /// @param x  values() values in the executor's memory space. On return all ranks have the same
  ///           bits; on a device, work that is given to the executor afterwards sees them.
  /// @throws std::invalid_argument  wrong size, misaligned, weight 0, headroom of the codec
  ///                                exceeded
  /// @throws memory_error           x is not in the executor's memory
  /// @throws disagreement_error     ranks passed different sizes, codecs, parameters, steps, ...
  /// @throws nonfinite_error        NaN or infinity on a rank, or an overflow of the sum, with the
  ///                                policy throw_error
  /// @throws wire_error             damaged or contradicting blocks
  /// @throws transport_error        a peer failed; the transport must not be used again
  ///
  /// All errors but transport_error occur on all ranks alike and leave x unchanged. Exception: with
  /// options.check off, only the rank that passed a wrong argument detects it.
  ///
  /// Exception: without options.checksum, only receivers detect damage in the all-gather (with
  /// algorithm recursive_doubling: in any message), if it is detected. An x of
  /// options.decode_on_arrival_bytes or more then holds parts of the result. After a message of
  /// wrong length, or damaged agreement records, the transport must not be used again.
  ///
  /// Cost: ring: 2 (P - 1) hops, each rank sends 2 (P - 1) / P of the encoded vector.
  /// recursive_doubling: log2 P hops of the complete encoded vector, and memory for two more.
  /// aggregator: rank 0 receives P - 1 encoded vectors and sends P - 1.
  report all_reduce(std::span<value_type> x, call_options const& call = {}) {
    detail::float_environment const environment;
    no_feedback<value_type> nothing(x.size());
    values_of<no_feedback<value_type>> values(work_, x.data(), nothing);
    return engine_->all_reduce(arguments(x, nothing), values, call);
  }

  /// The same with error feedback: reduces the sum of x and what `feedback` adds to it.
  ///
  /// @param feedback  for values() values; unchanged after an error
  /// @throws std::invalid_argument  also if x and the feedback's memory overlap, or the codec takes
  ///                                no error feedback: VariableRate, Sparse, RefusesFeedback
  template <Feedback<value_type> F>
  report all_reduce(std::span<value_type> x, F& feedback, call_options const& call = {}) {
    detail::float_environment const environment;
    auto const given = arguments(x, feedback);
    if constexpr (!HomomorphicSum<C>) {
      return engine_->refuse_feedback(detail::operation::all_reduce, given, call);
    } else {
      values_of<F> values(work_, x.data(), feedback);
      return with_residual(x, feedback, given,
                           [&] { return engine_->all_reduce(given, values, call); });
    }
  }

  /// Waits for the executor, and throws the error of the first failed call since the last `check`;
  /// see "stream-ordered" above. All ranks call it after the same call. Over other transports it
  /// returns at once: their calls throw themselves.
  /// @throws disagreement_error, nonfinite_error, wire_error  as all_reduce, on all ranks alike
  void check() { engine_->check_enqueued(); }

  /// Reduce-scatter: x holds the result in this rank's `shard()`; the rest of x is unchanged. For
  /// sharded optimizers. Errors as for all_reduce.
  report reduce_scatter(std::span<value_type> x, call_options const& call = {}) {
    detail::float_environment const environment;
    no_feedback<value_type> nothing(x.size());
    values_of<no_feedback<value_type>> values(work_, x.data(), nothing);
    return engine_->reduce_scatter(arguments(x, nothing), values, call);
  }

  /// The same with error feedback that needs only this rank's encoding, such as error_feedback.
  template <Feedback<value_type> F>
  report reduce_scatter(std::span<value_type> x, F& feedback,
                        call_options const& call = {}) requires(F::is_of_own_encoding) {
    detail::float_environment const environment;
    auto const given = arguments(x, feedback);
    if constexpr (!HomomorphicSum<C>) {
      return engine_->refuse_feedback(detail::operation::reduce_scatter, given, call);
    } else {
      values_of<F> values(work_, x.data(), feedback);
      return with_residual(x, feedback, given,
                           [&] { return engine_->reduce_scatter(given, values, call); });
    }
  }

  /// All-gather of all ranks' `shard()` parts of x. Each part is encoded once and decoded on every
  /// rank, the owner included, so x is bit-identical. `call.weight` must be 1. Errors as for
  /// all_reduce.
  report all_gather(std::span<value_type> x, call_options const& call = {}) {
    detail::float_environment const environment;
    no_feedback<value_type> nothing(x.size());
    values_of<no_feedback<value_type>> values(work_, x.data(), nothing);
    return engine_->all_gather(arguments(x, nothing), values, call);
  }

 private:
  /// Returns the report of `make`, with the residual that it leaves.
  template <class F, class Make>
  report with_residual(std::span<value_type const> x, F& feedback,
                       detail::call_arguments const& given, Make const& make) {
    constexpr bool is_on_host = !DeviceExecutor<E> && requires { feedback.residual(); };
    double energy = 0;
    if constexpr (is_on_host)
      if (detail::complaint_about(given, values()) == detail::complaint::none)
        energy = detail::sampled_energy(x);
    constexpr bool commits_in_order = requires {
      feedback.commit(work_.executor(), work_.failed());
    };
    if (!commits_in_order && engine_->enqueues())
      throw std::invalid_argument(
          "plan: this feedback has no commit(executor, failed), which calls over a stream-ordered "
          "transport need");
    report stats = make();
    if constexpr (commits_in_order)
      if (engine_->enqueues()) {
        feedback.commit(work_.executor(), work_.failed());
        return stats;
      }
    feedback.commit();
    if constexpr (is_on_host)
      if (energy > 0) stats.residual = detail::sampled_energy(feedback.residual()) / energy;
    return stats;
  }
  plan(detail::float_environment const&, std::size_t values, C const& codec, T& transport,
       E& executor, plan_options const& options)
      : transport_(transport),
        work_(codec, values, transport.size(), executor,
              checked(options, codec, values, transport.size())),
        engine_(parts::make(work_, transport_, checked(options, codec, values, transport.size()))) {
  }
  /// Checks the algorithm, and sets the segment size for the memory that the values are in.
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

/// Deduced for arguments that fit no plan: reports which argument is wrong.
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

/// All-reduce of `x`, in place, with a plan for one call. See plan::all_reduce.
template <Summable C, Transport T, Executor E>
report all_reduce(std::span<typename C::value_type> x, C const& codec, T& transport, E& executor,
                  call_options const& call = {},
                  plan_options const& options = {.algorithm = {detail::usual_algorithm<C>}}) {
  return plan<C, T, E>(x.size(), codec, transport, executor, options).all_reduce(x, call);
}

}  // namespace hcomp
