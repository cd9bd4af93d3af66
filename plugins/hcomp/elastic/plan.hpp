#pragma once
/// @file
/// An all-reduce that survives failed ranks.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <hcomp/collective/agreement/options.hpp>
#include <hcomp/collective/agreement/report.hpp>
#include <hcomp/collective/by_name/make_plan.hpp>
#include <hcomp/collective/plan/any_plan.hpp>
#include <hcomp/core/detail/error_text.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/elastic/membership.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/feedback/error_feedback.hpp>
#include <hcomp/transport/any_transport.hpp>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace hcomp::elastic {

/// All-reduce of vectors of one size over the ranks of a fault-tolerant group, over UCX or MPI.
///
///     hcomp::elastic::plan<float> plan("thc:bits=4", gradient.size(), group, executor);
///     auto const report = plan.all_reduce(gradient, feedback, {.op = hcomp::reduce_op::mean});
///
/// If a rank fails during an all-reduce, the remaining ranks repeat the call on their own inputs.
/// If some of them already have its result, they send it to the rest. All remaining ranks see the
/// same result of every call; report.weight is the number of ranks in it.
///
/// An error on all ranks, for example nonfinite_error, is a result, too: a rank that first notices
/// a failed rank also gets it. Each rank keeps its own error feedback. All ranks make the
/// all-reduces of a group in the same order.
///
/// Memory: two vectors, plus the plan's. Cost: the plan's, plus two copies of the vector.
template <class V> class plan {
 public:
  using value_type = V;

  /// @param codec, options  as of make_plan
  /// @throws as make_plan
  plan(std::string codec, std::size_t values, elastic::membership& group, host_executor& executor,
       std::optional<plan_options> options = {})
      : plan(values, group,
             [codec = std::move(codec), values, to = &executor,
              how = std::move(options)](any_transport& over) {
               return how ? hcomp::make_plan<V>(codec, values, over, *to, *how)
                          : hcomp::make_plan<V>(codec, values, over, *to);
             }) {}
  /// @param make  creates the plan of a generation over its transport: for `values` values, equal
  ///              on all ranks
  plan(std::size_t values, elastic::membership& group,
       std::function<any_plan<V>(any_transport&)> make)
      : values_(values), group_(&group), make_plan_(std::move(make)) {
    renew();
  }

  std::size_t values() const { return values_; }

  /// Errors as of hcomp::plan::all_reduce, except
  /// @throws transport_error  the group continued without this rank
  report all_reduce(std::span<V> x, call_options const& call = {}) {
    return make(x, nullptr, call);
  }
  report all_reduce(std::span<V> x, error_feedback<V>& feedback, call_options const& call = {}) {
    return make(x, &feedback, call);
  }

 private:
  void renew() {
    if (plan_ && generation_ == group_->generation()) return;
    generation_ = group_->generation();
    plan_.emplace(make_plan_(group_->transport()));
  }

  report make(std::span<V> x, error_feedback<V>* feedback, call_options call) {
    if (!call.step) call.step = group_->calls();
    // Works on a copy: a repeated call needs the original values.
    std::span<V> values = x;
    bool const is_right = x.data() && x.size() == values_;  // otherwise the plan notifies all ranks
    if (is_right) {
      work_.resize(x.size_bytes());
      std::memcpy(work_.data(), x.data(), x.size_bytes());
      values = {reinterpret_cast<V*>(work_.data()), x.size()};
    }
    for (;;) try {
        renew();
        auto const stats =
            feedback ? plan_->all_reduce(values, *feedback, call) : plan_->all_reduce(values, call);
        return finish(x, stats);
      } catch (transport_error const&) {
        report stats;
        stats.error = unknown_error;
        plan_.reset();  // its transport is invalid
        if (group_->recover(work_, stats.weight)) {
          if (stats.weight == 0) throw_result();
          if (!is_right || work_.size() != x.size_bytes()) {
            auto const values_made = work_.size() / sizeof(V);
            group_->finish_call(work_, stats.weight);
            throw std::invalid_argument(hcomp::detail::error_text(
                {"elastic::plan: rank ", group_->name(), " has ", x.size(),
                 " values in x, the sum ", values_made, ", and others have made it"}));
          }
          // This rank's input is part of the result, so its residual is valid.
          if (feedback) feedback->commit();
          return finish(x, stats);
        }
        if (is_right) std::memcpy(values.data(), x.data(), x.size_bytes());
      } catch (nonfinite_error const& error) {
        finish_with('n', error);
        throw;
      } catch (disagreement_error const& error) {
        finish_with('d', error);
        throw;
      } catch (std::invalid_argument const& error) {
        finish_with('i', error);
        throw;
      }
  }
  /// Finishes the call with an error as its result; the weight is 0.
  void finish_with(char kind, std::exception const& error) {
    auto const text = kind + std::string(error.what());
    work_.resize(text.size());
    std::memcpy(work_.data(), text.data(), text.size());
    group_->finish_call(work_, 0);
  }
  /// Throws the error that another rank passed to finish_with.
  [[noreturn]] void throw_result() {
    std::string const text(reinterpret_cast<char const*>(work_.data()), work_.size());
    group_->finish_call(work_, 0);
    auto const words = text.substr(std::min<std::size_t>(1, text.size()));
    if (text.starts_with('n')) throw nonfinite_error(words);
    if (text.starts_with('d')) throw disagreement_error(words);
    throw std::invalid_argument(words);
  }
  report finish(std::span<V> x, report const& stats) {
    std::memcpy(x.data(), work_.data(), x.size_bytes());
    group_->finish_call(work_, stats.weight);
    return stats;
  }

  std::size_t values_;
  membership* group_;
  std::function<any_plan<V>(any_transport&)> make_plan_;
  std::optional<any_plan<V>> plan_;
  std::uint64_t generation_ = 0;
  std::vector<std::byte> work_;
};

}  // namespace hcomp::elastic
