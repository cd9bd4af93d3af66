#pragma once
/// @file
/// A plan whose codec is chosen at run time.

#include <concepts>
#include <cstddef>
#include <hcomp/collective/agreement/options.hpp>
#include <hcomp/collective/agreement/report.hpp>
#include <hcomp/core/detail/float_environment.hpp>
#include <hcomp/exec/executor.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/feedback/error_feedback.hpp>
#include <hcomp/feedback/global_compensation.hpp>
#include <hcomp/op/encoded_layout.hpp>
#include <hcomp/transport/any_transport.hpp>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

namespace hcomp {
namespace detail {

/// `codec` with this magnitude, if it has a magnitude.
template <class C> C with_magnitude(C codec, double magnitude) {
  float_environment const environment;
  if constexpr (requires { codec.magnitude; })
    codec.magnitude = static_cast<decltype(codec.magnitude)>(magnitude);
  return codec;
}

/// State of the compensations of vectors in an executor's memory space.
template <class V, Executor E> struct feedback_of {
  using error = error_feedback<V>;
  using global = global_compensation<V>;
};
template <class V, DeviceExecutor E> struct feedback_of<V, E> {
  using error = error_feedback<V, E::template array>;
  using global = global_compensation<V, E::template array>;
};

/// The interface that any_plan calls.
template <class V, Executor E = host_executor> class plan_body {
 public:
  using error_type = typename feedback_of<V, E>::error;
  using global_type = typename feedback_of<V, E>::global;

  plan_body() = default;
  plan_body(plan_body const&) = delete;
  plan_body& operator=(plan_body const&) = delete;
  virtual ~plan_body() = default;

  virtual std::size_t values() const = 0;
  virtual value_range shard() const = 0;
  virtual std::size_t shard_alignment() const = 0;
  virtual value_range encoded() const = 0;
  virtual report all_reduce(std::span<V> x, call_options const& call) = 0;
  virtual report all_reduce(std::span<V> x, error_type& feedback, call_options const& call) = 0;
  virtual report all_reduce(std::span<V> x, global_type& feedback, call_options const& call) = 0;
  virtual report reduce_scatter(std::span<V> x, call_options const& call) = 0;
  virtual report reduce_scatter(std::span<V> x, error_type& feedback, call_options const& call) = 0;
  virtual report all_gather(std::span<V> x, call_options const& call) = 0;
  virtual void check() = 0;
  virtual void set_magnitude(double magnitude) = 0;
  virtual std::string about_last_call() const = 0;
};

/// @tparam Plan  a plan, or a class with the members of one
template <class Plan, Executor E = host_executor>
class some_plan final : public plan_body<typename Plan::value_type, E> {
 public:
  using V = typename Plan::value_type;
  using typename plan_body<V, E>::error_type;
  using typename plan_body<V, E>::global_type;

  template <class... Arguments>
  explicit some_plan(Arguments&&... arguments) : plan_(std::forward<Arguments>(arguments)...) {}

  std::size_t values() const override { return plan_.values(); }
  value_range shard() const override { return plan_.shard(); }
  std::size_t shard_alignment() const override { return plan_.shard_alignment(); }
  value_range encoded() const override {
    if constexpr (requires { plan_.encoded(); }) return plan_.encoded();
    return {0, plan_.values()};
  }
  report all_reduce(std::span<V> x, call_options const& call) override {
    return plan_.all_reduce(x, call);
  }
  report all_reduce(std::span<V> x, error_type& feedback, call_options const& call) override {
    return plan_.all_reduce(x, feedback, call);
  }
  report all_reduce(std::span<V> x, global_type& feedback, call_options const& call) override {
    if constexpr (requires { plan_.all_reduce(x, feedback, call); })
      return plan_.all_reduce(x, feedback, call);
    else
      throw std::invalid_argument("all_reduce: a plan of this kind takes no global_compensation");
  }
  report reduce_scatter(std::span<V> x, call_options const& call) override {
    return plan_.reduce_scatter(x, call);
  }
  report reduce_scatter(std::span<V> x, error_type& feedback, call_options const& call) override {
    return plan_.reduce_scatter(x, feedback, call);
  }
  report all_gather(std::span<V> x, call_options const& call) override {
    return plan_.all_gather(x, call);
  }
  void check() override {
    if constexpr (requires { plan_.check(); }) plan_.check();
  }
  void set_magnitude([[maybe_unused]] double magnitude) override {
    if constexpr (requires { plan_.set_codec(with_magnitude(plan_.codec(), magnitude)); })
      plan_.set_codec(with_magnitude(plan_.codec(), magnitude));
    else if constexpr (requires { plan_.set_magnitude(magnitude); })
      plan_.set_magnitude(magnitude);
  }
  std::string about_last_call() const override {
    if constexpr (requires { plan_.choice().text(); })
      return plan_.choice().text();
    else if constexpr (requires { plan_.about_last_call(); })
      return plan_.about_last_call();
    else
      return {};
  }

 private:
  Plan plan_;
};

}  // namespace detail

/// A plan for values of type V whose codec is chosen at run time; see make_plan. Collectives and
/// errors are those of `plan`. One call at a time. Movable.
/// @tparam E  the executor; its memory space has the values. error_type and global_type keep their
///            state there, in array<T> of a DeviceExecutor
template <class V, Executor E = host_executor> class any_plan {
 public:
  using value_type = V;
  using error_type = typename detail::feedback_of<V, E>::error;
  using global_type = typename detail::feedback_of<V, E>::global;

  /// @param codec      name and settings, as make_plan takes them
  /// @param transport  the transport that `body` uses
  any_plan(std::string codec, detail::kept_transport transport,
           std::unique_ptr<detail::plan_body<V, E>> body)
      : codec_(std::move(codec)), transport_(std::move(transport)), body_(std::move(body)) {}

  /// Name and settings of the codec. make_plan makes an equal plan from this text.
  std::string const& codec() const { return codec_; }
  std::size_t values() const { return body_->values(); }
  /// The values this rank owns after `reduce_scatter` and contributes to `all_gather`.
  value_range shard() const { return body_->shard(); }
  /// All shards have equal size if this alignment times the number of ranks divides the vector. 0:
  /// they never have.
  std::size_t shard_alignment() const { return body_->shard_alignment(); }
  /// The values that this rank encodes in an all-reduce, and for which an error_feedback keeps a
  /// residual. The complete vector, except where the ranks of a node share it.
  value_range encoded() const { return body_->encoded(); }
  /// Sets the value of one sign from the next call on. Codecs without a magnitude ignore it. Equal
  /// on all ranks.
  /// @throws std::invalid_argument  not finite
  void set_magnitude(double magnitude) { body_->set_magnitude(magnitude); }
  /// What the codec chose in the last call, for people; empty if it makes no choice.
  std::string about_last_call() const { return body_->about_last_call(); }

  report all_reduce(std::span<V> x, call_options const& call = {}) {
    return body_->all_reduce(x, call);
  }
  /// @throws std::invalid_argument  on all ranks alike: the codec takes no error feedback
  report all_reduce(std::span<V> x, error_type& feedback, call_options const& call = {}) {
    return body_->all_reduce(x, feedback, call);
  }
  report all_reduce(std::span<V> x, global_type& feedback, call_options const& call = {}) {
    return body_->all_reduce(x, feedback, call);
  }
  report reduce_scatter(std::span<V> x, call_options const& call = {}) {
    return body_->reduce_scatter(x, call);
  }
  /// @throws std::invalid_argument  as all_reduce
  report reduce_scatter(std::span<V> x, error_type& feedback, call_options const& call = {}) {
    return body_->reduce_scatter(x, feedback, call);
  }
  report all_gather(std::span<V> x, call_options const& call = {}) {
    return body_->all_gather(x, call);
  }
  /// See plan::check.
  void check() { body_->check(); }

 private:
  std::string codec_;
  detail::kept_transport transport_;
  std::unique_ptr<detail::plan_body<V, E>> body_;
};

}  // namespace hcomp
