#pragma once
/// @file
/// The collectives with codecs whose codes have a length that depends on the data.

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/variable_rate.hpp>
#include <hcomp/collective/agreement.hpp>
#include <hcomp/collective/detail/call_check.hpp>
#include <hcomp/collective/detail/call_session.hpp>
#include <hcomp/collective/detail/codec_terms.hpp>
#include <hcomp/collective/detail/stream_coder.hpp>
#include <hcomp/collective/detail/stream_moves.hpp>
#include <hcomp/collective/options.hpp>
#include <hcomp/collective/plan.hpp>
#include <hcomp/collective/report.hpp>
#include <hcomp/collective/schedule.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/exec/executor.hpp>
#include <hcomp/feedback/feedback.hpp>
#include <hcomp/op/code_layout.hpp>
#include <hcomp/transport/any_transport.hpp>
#include <hcomp/transport/transport.hpp>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>

namespace hcomp {

/// Settings of a variable_rate_plan; equal on all ranks.
struct variable_rate_options {
  /// Instead of plan.how: rank 0 adds up what all others send, and answers them.
  bool worker_aggregator = false;
  /// Every call fits the codec to the largest value of all ranks, if it is a FittedVariableRate.
  bool fitted = false;
  plan_options plan = {};  ///< by ring, torus or direct; narrow means nothing here
};

namespace detail {

/// What the ranks of a variable_rate_plan must agree on, as plans compare codecs.
template <VariableRate C>
codec_terms terms_of(C const& codec, variable_rate_options const& options) {
  static_assert(std::tuple_size_v<std::remove_cvref_t<decltype(codec.parameters())>> < 4,
                "a codec of variable rate has at most three parameters");
  auto terms = terms_of(codec, sizeof(float), std::numeric_limits<std::uint32_t>::max());
  terms.parameters[3] = 2 * options.worker_aggregator + options.fitted;
  return terms;
}

}  // namespace detail

/// Everything that sums vectors of one size with one codec of variable rate over one transport, as
/// `plan` does with blocks of fixed length.
///
///     hcomp::variable_rate_plan<hcomp::inceptionn, hcomp::loopback> sum(
///         gradient.size(), hcomp::inceptionn({.bound_exponent = 10}), transport);
///     sum.all_reduce(gradient, {.result = hcomp::reduction::mean});
///
/// On a ring every rank adds its values to the code that arrives and sends on the code of the sum,
/// in one pass; finished codes are passed on as they are, and who finished one decodes it like all
/// others, so that all ranks have the same bits. A value is encoded once per rank: its error in a
/// sum of P ranks is below P times the codec's. On a torus as well; with algorithm direct values
/// are encoded once by each rank but their owner, and then their sum. Means are sums divided at the
/// end, not sums of smaller values.
///
/// The bound of a BoundedVariableRate is that of the sum: the plan divides it by its ranks, codes
/// are added as they are, and `report::error` says how much of the bound was used (0 by
/// worker_aggregator).
///
/// options.worker_aggregator is what the ring was compared with: rank 0 gets the codes of all
/// vectors, adds them up and answers with the sums as they are, uncompressed, as weights would be;
/// it begins to answer when it has all of them. Together with uncompressed_stream it is the
/// baseline WA of the paper, with inceptionn WA+C; the ring with both of them INC and INC+C.
///
/// On a device, vectors are in the executor's memory and codes are made, added and read there, with
/// the bits that a host has; codecs `error_bounded_stream` and `inceptionn` only. Messages are in
/// the host's memory, where the transport finds them: what crosses the bus is codes (and the
/// aggregator's sums, uncompressed).
/// The host checks what came, and waits for every code that has to leave: segments of some MiB,
/// plan.segment_bytes, are better than the small ones that suit a host. What is decoded is in x for
/// work given to the executor afterwards.
///
/// Transport and executor are used, not owned, and must outlive the plan. One call at a time.
/// Weights must be 1.
/// Memory: the longest code of the vector, those of two chunks, and by other ways than a ring the
/// vector, unless the codec adds codes; on a device the codes as E::staging, and in its own memory
/// the vector, where it is needed, and three segments, or four where codes are added to codes.
/// Nothing is allocated after the first call.
/// @tparam E  a DeviceExecutor, or nothing: the calling thread works on host memory
/// Source: Y. Li et al., MICRO 2018, doi 10.1109/MICRO.2018.00023.
template <VariableRate C, Transport T, detail::CallingThreadOrDevice E = detail::calling_thread>
class variable_rate_plan {
 public:
  using value_type = float;

  /// @param values  of every vector to be summed, >= 0
  /// @throws std::invalid_argument  another algorithm, a torus that does not fit the ranks, more
  ///                                ranks than can share the codec's bound, options.fitted with a
  ///                                codec that cannot be, or a transport that cannot reach host
  ///                                memory
  variable_rate_plan(
      std::size_t values, C const& codec, T& transport,
      variable_rate_options const& options = {}) requires std::same_as<E, detail::calling_thread>
      : variable_rate_plan(values, codec, transport, nullptr, options) {}
  /// For vectors in the executor's memory; messages are in the host's.
  variable_rate_plan(std::size_t values, C const& codec, T& transport, E& executor,
                     variable_rate_options const& options = {}) requires DeviceExecutor<E>
      : variable_rate_plan(values, codec, transport, &executor, options) {}
  variable_rate_plan(variable_rate_plan const&) = delete;
  variable_rate_plan& operator=(variable_rate_plan const&) = delete;

  std::size_t values() const { return layout_.values; }
  variable_rate_options const& options() const { return options_; }
  /// Of the last call: as it was given, or fitted.
  C const& codec() const { return codec_; }

  /// The values this rank holds after `reduce_scatter` and gives in `all_gather`.
  value_range owned() const {
    auto const blocks = moves_.owned();
    std::size_t const first = std::min(blocks.first * layout_.block_values, layout_.values);
    std::size_t const end = std::min(blocks.end() * layout_.block_values, layout_.values);
    return {first, end - first};
  }

  /// Sum `x` over all ranks, in place.
  ///
  /// @param x  values() values, in the executor's memory if there is one; on return the same bits
  ///           on all ranks, on a device for work that is given to the executor afterwards
  /// @throws std::invalid_argument  wrong size, misaligned, or a weight that is not 1;
  ///                                memory_error: x is not in the executor's memory
  /// @throws disagreement_error     ranks passed different sizes, codecs, settings, steps, ...
  /// @throws nonfinite_error        NaN or infinity in the sum, and the policy is throw_error
  /// @throws wire_error             damaged or contradicting messages met
  /// @throws transport_error        a peer failed; the transport must not be used again
  /// All but the last come on all ranks alike, and then x is unchanged; with options.plan.check off
  /// a wrong argument is noticed only by the rank that passed it. Damage that a code's own
  /// structure does not show is noticed if options.plan.checksum is on. Without checksums, an x of
  /// options.plan.decode_on_arrival_bytes or more may hold parts of the sum after a wire_error.
  ///
  /// Cost: ring: 2 (P - 1) hops, each rank sends 2 (P - 1) / P of the code; worker_aggregator: rank
  /// 0 receives P - 1 codes and sends P - 1 vectors. And log2 P small messages before and after.
  report all_reduce(std::span<float> x, call_options const& call = {}) {
    auto figures = start(detail::operation::all_reduce, x, call);
    moves_.reduce(motion(x, figures));
    spread(x, call.result, ranks(), figures);
    return session_.done(figures);
  }

  /// Sum over all ranks, but leave each rank only its `owned()` part of the result in x, with the
  /// bits that all_reduce would give it; the rest of x keeps its values. Errors as for all_reduce.
  report reduce_scatter(std::span<float> x, call_options const& call = {}) {
    auto figures = start(detail::operation::reduce_scatter, x, call);
    moves_.reduce(motion(x, figures));
    moves_.finish_owned(motion(x, figures), refuses_nonfinite());
    finish(ranks(), figures);
    detail::stopwatch watch;
    moves_.for_each_owned([&](std::size_t s) { decode(s, call.result, x, figures); });
    watch.add_to(figures.seconds_decode);
    return session_.done(figures);
  }

  /// Give every rank all ranks' `owned()` parts of x, encoded once and decoded everywhere, here
  /// too: the same bits in x on every rank. Errors as for all_reduce.
  report all_gather(std::span<float> x, call_options const& call = {}) {
    auto figures = start(detail::operation::all_gather, x, call);
    spread(x, reduction::sum, 1, figures);
    return session_.done(figures);
  }

 private:
  static constexpr char const* name = "variable_rate_plan";

  variable_rate_plan(std::size_t values, C const& codec, T& transport, E* executor,
                     variable_rate_options const& options)
      : options_(checked(options)),
        given_(for_ranks(codec, transport)),
        codec_(given_),
        executor_(executor),
        transport_(transport),
        session_(detail::terms_of(given_, options), values, transport_, options.plan,
                 memory_space::host),
        layout_(layout_of_floats(values)),
        moves_(layout_, schedule_for(options, transport), options.worker_aggregator, transport_,
               executor, options.plan) {}

  static variable_rate_options const& checked(variable_rate_options const& options) {
    auto const kind = options.plan.how.kind;
    if (kind == algorithm_kind::doubling || kind == algorithm_kind::owner)
      throw std::invalid_argument(std::string(name) + ": algorithm '" + options.plan.how.name() +
                                  "'; there are ring, torus and direct");
    if (options.fitted && !FittedVariableRate<C>)
      throw std::invalid_argument(std::string(name) + ": codec '" + C::name +
                                  "' has nothing that could be fitted");
    return options;
  }
  static C for_ranks(C const& codec, T const& transport) {
    if constexpr (BoundedVariableRate<C>)
      return codec.fitted(static_cast<std::uint32_t>(transport.size()));
    else
      return codec;
  }
  static schedule schedule_for(variable_rate_options const& options, T const& transport) {
    return options.worker_aggregator
               ? detail::worker_aggregator_schedule(transport.rank(), transport.size())
               : make_schedule(options.plan.how, transport.rank(), transport.size());
  }
  /// Chunks are cut between cache lines.
  static code_layout layout_of_floats(std::size_t values) {
    constexpr std::size_t block = 64;
    std::size_t const last = values == 0 ? 0 : (values - 1) % block + 1;
    return {values, block, block * sizeof(float), last * sizeof(float)};
  }

  std::uint32_t ranks() const { return static_cast<std::uint32_t>(session_.transport().size()); }
  bool refuses_nonfinite() const {
    return options_.plan.nonfinite == nonfinite_policy::throw_error;
  }
  typename detail::stream_moves<C, E>::call motion(std::span<float const> x, report& figures) {
    return {codec_, x.data(), session_.stream(), figures};
  }

  report start(detail::operation what, std::span<float> x, call_options const& call) {
    auto figures = session_.start(
        what, detail::arguments_of(executor_, x, no_feedback<float>(x.size())), call);
    if constexpr (DeviceExecutor<E>) figures.messages = message_memory::staged;
    for (int r = 0; r < session_.transport().size(); ++r)
      if (auto const weight = session_.weight_of(r); weight != 1)
        throw std::invalid_argument(std::string(name) + ": rank " + std::to_string(r) +
                                    " has weight " + std::to_string(weight) +
                                    ", codes of variable rate know only 1");
    moves_.start(codec_);
    if constexpr (FittedVariableRate<C>)
      if (options_.fitted) fit(x, figures);
    return figures;
  }
  void fit(std::span<float const> x, report& figures) {
    detail::stopwatch watch;
    std::uint32_t largest = moves_.measure(x);
    watch.add_to(figures.seconds_encode);
    unite_records(session_.transport(), options_.plan.tag, largest,
                  [](std::uint32_t& a, std::uint32_t b) { a = std::max(a, b); });
    watch.add_to(figures.seconds_communicate);
    codec_ = given_.fitted(largest, session_.transport().size());
  }

  void finish(std::uint32_t weight, report& figures) {
    auto found = moves_.found();
    found.weight = weight;
    session_.finish(found, detail::findings::of_parts, layout_, figures);
  }

  /// This rank's chunks to all ranks, and then to x; or, of a long x, while others arrive. That
  /// what was added up is sound is known before.
  void spread(std::span<float> x, reduction result, std::uint32_t weight, report& figures) {
    moves_.finish_owned(motion(x, figures), refuses_nonfinite());
    bool const on_arrival = !options_.plan.checksum && ranks() > 1 &&
                            x.size_bytes() >= options_.plan.decode_on_arrival_bytes;
    if (on_arrival) finish(weight, figures);
    moves_.gather(motion(x, figures), weight, [&](std::size_t s) {
      if (on_arrival)
        decode(s, result, x, figures);
      else
        moves_.check(codec_, s);
    });
    finish(weight, figures);
    if (on_arrival) return;
    detail::stopwatch watch;
    moves_.for_each([&](std::size_t s) { decode(s, result, x, figures); });
    watch.add_to(figures.seconds_decode);
  }

  void decode(std::size_t s, reduction result, std::span<float> x, report& figures) {
    moves_.decode(codec_, s, result, x.data());
    double const parts = result == reduction::mean ? ranks() : 1;
    figures.error = std::max(figures.error, moves_.error_of(s) / parts);
  }

  variable_rate_options options_;
  C given_, codec_;
  E* executor_;  ///< null without a device
  detail::erased_transport<T> transport_;
  detail::call_session session_;
  code_layout layout_;
  detail::stream_moves<C, E> moves_;
};

}  // namespace hcomp
