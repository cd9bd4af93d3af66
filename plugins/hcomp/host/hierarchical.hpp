#pragma once
/// @file
/// Sums of ranks on several hosts: exact inside each, by a codec between them. Linux.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <hcomp/collective/agreement.hpp>
#include <hcomp/collective/any_plan.hpp>
#include <hcomp/collective/make_plan.hpp>
#include <hcomp/collective/options.hpp>
#include <hcomp/collective/report.hpp>
#include <hcomp/core/detail/error_text.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/core/half.hpp>
#include <hcomp/core/random.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/feedback/error_feedback.hpp>
#include <hcomp/host/place.hpp>
#include <hcomp/host/some_ranks.hpp>
#include <hcomp/host/sums.hpp>
#include <hcomp/op/code_layout.hpp>
#include <hcomp/transport/any_transport.hpp>
#include <hcomp/transport/transport.hpp>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hcomp::host {

/// Which ranks are on one host, and who of them carries what to the others.
struct hierarchy {
  std::vector<int> inside;  ///< ranks of this host, in order
  std::vector<int>
      between;       ///< ranks that carry the same share as this one, one of each host; or none
  int carriers = 1;  ///< of every host: as many as the host with fewest ranks has
  int hosts = 1;

  /// Values of a vector that each carrier has, the last ones fewer or none: whole words of codes.
  std::size_t share_of_carrier(std::size_t values) const {
    auto const all = static_cast<std::size_t>(carriers);
    return ((values + all - 1) / all + 63) / 64 * 64;
  }

  /// @param host_of  of every rank, any numbers
  static hierarchy from(std::span<std::uint64_t const> host_of, int rank) {
    std::vector<std::uint64_t> names;
    std::vector<std::vector<int>> members;
    for (std::size_t r = 0; r < host_of.size(); ++r) {
      auto const known = std::ranges::find(names, host_of[r]);
      auto const host = static_cast<std::size_t>(known - names.begin());
      if (known == names.end()) {
        names.push_back(host_of[r]);
        members.emplace_back();
      }
      members[host].push_back(static_cast<int>(r));
    }
    hierarchy found;
    found.hosts = static_cast<int>(members.size());
    found.carriers = static_cast<int>(
        std::ranges::min_element(members, {}, [](auto const& one) { return one.size(); })->size());
    for (auto const& one : members)
      if (std::ranges::find(one, rank) != one.end()) found.inside = one;
    auto const number =
        static_cast<std::size_t>(std::ranges::find(found.inside, rank) - found.inside.begin());
    if (number < static_cast<std::size_t>(found.carriers))
      for (auto const& one : members) found.between.push_back(one[number]);
    return found;
  }
};

/// How a hierarchical_plan is made.
struct hierarchical_options {
  /// Of the plans between hosts; none: the algorithm is the first of the codec's row.
  std::optional<plan_options> between = {};
  /// Of every rank, any numbers; none: those of one place are on one host.
  std::vector<std::uint64_t> host_of = {};
  /// Of one wait inside a host; 0: for ever.
  std::chrono::milliseconds timeout = std::chrono::seconds(30);
};

/// all_reduce of vectors of one size over ranks on several hosts. Those of one host add in full
/// precision through shared memory, each of them then sums its share with its peers of other hosts by
/// a codec, and all read the result: a value crosses a host's link as often as if the host had one
/// rank, and all ranks of it encode.
///
///     hcomp::host::hierarchical_plan<float> sum("thc:bits=4", gradient.size(), transport, executor);
///     sum.all_reduce(gradient, {.result = hcomp::reduction::mean});
///
/// Errors as for plan::all_reduce, on all ranks alike, x unchanged; of a wrong argument other hosts hear
/// as a memory_error. Transport and executor are used, not owned, and must outlive this. Collective, the
/// constructor too.
/// Memory: that of sums, of a plan for the share, and the share.
template <class V> class hierarchical_plan {
 public:
  using value_type = V;

  /// @param codec  between hosts, as make_plan takes it
  /// @throws std::invalid_argument  as make_plan, or host_of has not a number for every rank
  /// @throws disagreement_error     ranks pass other codecs or numbers of values
  /// @throws std::runtime_error     ranks of a host cannot share memory; on all ranks alike
  template <Transport T>
  hierarchical_plan(std::string_view codec, std::size_t values, T& transport,
                    host_executor& executor, hierarchical_options options = {})
      : values_(values), all_(transport) {
    auto const tag = options.between ? options.between->tag : plan_options{}.tag;
    auto& host_of = options.host_of;
    if (host_of.empty()) all_gather_records(*all_, tag, place_of_this_process(), host_of);
    if (host_of.size() != static_cast<std::size_t>(all_->size()))
      throw std::invalid_argument(detail::error_text(
          {"hierarchical_plan: hosts of ", host_of.size(), " ranks, there are ", all_->size()}));
    std::uint64_t asked = mix(values);
    for (char const letter : codec) asked = mix(asked ^ static_cast<std::uint64_t>(letter));
    std::vector<std::uint64_t> all_asked;
    all_gather_records(*all_, tag, asked, all_asked);
    if (std::ranges::count(all_asked, asked) != all_->size())
      throw disagreement_error(
          "hierarchical_plan: ranks ask for different numbers of values or codecs");
    ranks_ = hierarchy::from(host_of, all_->rank());
    each_ = ranks_.share_of_carrier(values);
    auto const number = static_cast<std::size_t>(std::ranges::find(ranks_.inside, all_->rank()) -
                                                 ranks_.inside.begin());
    share_.first = std::min(values, number * each_);
    share_.count = std::min(values, share_.first + each_) - share_.first;
    if (ranks_.between.empty()) share_ = {values, 0};

    some_ranks own(*all_, ranks_.inside);
    inside_ = sums::make(own, tag, options.timeout, ranks_.inside);
    std::uint64_t has_failed = !inside_;
    unite_records(*all_, tag, has_failed, [](auto& a, auto b) { a |= b; });
    if (has_failed) throw std::runtime_error("hierarchical_plan: ranks of a host share no memory");
    if (ranks_.between.empty()) return;
    between_.emplace(some_ranks(*all_, ranks_.between));
    plan_ = std::make_unique<any_plan<V>>(
        options.between ? make_plan<V>(codec, share_.count, *between_, executor, *options.between)
                        : make_plan<V>(codec, share_.count, *between_, executor));
    sum_.resize(share_.count);
  }

  std::size_t values() const { return values_; }
  hierarchy const& ranks() const { return ranks_; }
  /// The values that this rank sums with other hosts; none, where another host has fewer ranks.
  value_range share() const { return share_; }
  /// See any_plan::set_magnitude.
  void set_magnitude(double magnitude) {
    if (plan_) plan_->set_magnitude(magnitude);
  }

  report all_reduce(std::span<V> x, call_options const& call = {}) {
    return sum(
        x, call, [&](std::span<V> share) { return plan_->all_reduce(share, call); }, [] {});
  }
  /// @param feedback  of share().count values
  report all_reduce(std::span<V> x, error_feedback<V>& feedback, call_options const& call = {}) {
    return sum(
        x, call, [&](std::span<V> share) { return plan_->all_reduce(share, feedback, call); },
        [&] { feedback.commit(); });  // the residual before is where the pending one was
  }

 private:
  enum class error_kind : std::uint32_t {
    none,
    argument,
    memory,
    disagreement,
    nonfinite,
    wire,
    other
  };
  /// How a rank's part ended.
  struct outcome {
    std::uint64_t call = 0;
    error_kind kind = error_kind::none;
    char text[244] = {};

    outcome() = default;
    outcome(error_kind what, std::string_view words) : kind(what) {
      words.copy(text, sizeof text - 1);
    }
    /// @throws what it says, unless nothing went wrong
    void raise() const {
      switch (kind) {
        case error_kind::none: return;
        case error_kind::argument: throw std::invalid_argument(text);
        case error_kind::memory: throw memory_error(text);
        case error_kind::disagreement: throw disagreement_error(text);
        case error_kind::nonfinite: throw nonfinite_error(text);
        case error_kind::wire: throw wire_error(text);
        case error_kind::other: throw std::runtime_error(text);
      }
    }
  };

  /// @param between  (share), by the plan
  /// @param undo     (), what between has changed beside the share
  template <class Between, class Undo>
  report sum(std::span<V> x, call_options const& call, Between const& between, Undo const& undo) {
    try {
      return sum_or_error(x, call, between, undo);
    } catch (transport_error const& error) {  // ranks that wait for this one, here and elsewhere
      inside_->fail(error.peer(), error.what());
      try {
        all_->revoke(error.what());
      } catch (wire_error const&) {
      }
      throw;
    }
  }
  template <class Between, class Undo>
  report sum_or_error(std::span<V> x, call_options const& call, Between const& between,
                      Undo const& undo) {
    outcome const before = together(complaint(x, call), fingerprint_of(call));
    if (before.kind == error_kind::none) {
      inside_->reduce_scatter(std::span<V const>(x), each_, std::span(sum_));
      if (call.result == reduction::mean) divide_by_ranks_of_a_host();
    }
    report figures;
    outcome mine;
    if (plan_)
      mine = outcome_of([&] {
        // Without values it takes part all the same, so that other hosts hear of it.
        bool const is_fine = before.kind == error_kind::none;
        figures = between({is_fine ? sum_.data() : nullptr, sum_.size()});
      });
    outcome const after = together(mine);
    if (after.kind != error_kind::none && plan_ && mine.kind == error_kind::none) undo();
    before.raise();
    after.raise();
    std::copy(sum_.begin(), sum_.end(), x.data() + share_.first);
    inside_->all_gather(x, each_);
    figures.weight = static_cast<std::uint64_t>(all_->size());
    return figures;
  }
  /// What is wrong with this rank's arguments.
  outcome complaint(std::span<V const> x, call_options const& call) const {
    auto const who = [&] { return detail::error_text({"hierarchical_plan: rank ", all_->rank()}); };
    if (x.size() != values_)
      return {error_kind::argument,
              detail::error_text({who(), " has ", x.size(), " values in x, the plan ", values_})};
    if (!x.data() && values_ > 0) return {error_kind::memory, who() + " has a null pointer for x"};
    if (call.weight != 1)
      return {error_kind::argument,
              detail::error_text({who(), " has weight ", call.weight, ", it can be 1"})};
    return {};
  }
  /// Of what has to be equal on all ranks.
  static std::uint64_t fingerprint_of(call_options const& call) {
    std::uint64_t print = static_cast<std::uint64_t>(call.result);
    for (std::uint64_t const one : {call.seed, call.step.value_or(0), call.tensor})
      print = mix(print ^ one);
    return print;
  }
  /// The plan divides by the hosts.
  void divide_by_ranks_of_a_host() {
    using number = accumulator_t<V>;
    auto const divisor = static_cast<number>(static_cast<double>(all_->size()) / ranks_.hosts);
    if (divisor == 1) return;
    for (V& value : sum_) value = static_cast<V>(static_cast<number>(value) / divisor);
  }
  /// The first of this host's that went wrong.
  /// @param call  the same on all of them, or that is wrong
  outcome together(outcome mine, std::uint64_t call = 0) {
    mine.call = call;
    std::vector<outcome> all(ranks_.inside.size());
    inside_->all_gather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)));
    for (outcome const& one : all)
      if (one.kind != error_kind::none) return one;
    for (outcome const& one : all)
      if (one.call != all.front().call)
        return {error_kind::disagreement,
                "hierarchical_plan: ranks of a host pass different call options"};
    return {};
  }
  /// A transport_error goes through: others hear of the rank by themselves.
  template <class F> static outcome outcome_of(F const& f) {
    try {
      f();
      return {};
    } catch (memory_error const& error) {
      return {error_kind::memory, error.what()};
    } catch (std::invalid_argument const& error) {
      return {error_kind::argument, error.what()};
    } catch (disagreement_error const& error) {
      return {error_kind::disagreement, error.what()};
    } catch (nonfinite_error const& error) {
      return {error_kind::nonfinite, error.what()};
    } catch (wire_error const& error) {
      return {error_kind::wire, error.what()};
    } catch (transport_error const&) {
      throw;
    } catch (std::exception const& error) {
      return {error_kind::other, error.what()};
    }
  }

  std::size_t values_;
  detail::kept_transport all_;
  hierarchy ranks_;
  std::size_t each_ = 0;  ///< values of a share
  value_range share_{};
  std::optional<sums> inside_;
  std::optional<some_ranks> between_;
  std::unique_ptr<any_plan<V>> plan_;
  std::vector<V> sum_;
};

}  // namespace hcomp::host
