#pragma once
/// @file
/// A plan whose codec is chosen at run time.

#include <concepts>
#include <cstddef>
#include <hcomp/collective/agreement/options.hpp>
#include <hcomp/collective/agreement/report.hpp>
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

/// `codec` with that magnitude, if it has one.
template <class C> C with_magnitude(C codec, double magnitude) {
  if constexpr (requires { codec.magnitude; })
    codec.magnitude = static_cast<decltype(codec.magnitude)>(magnitude);
  return codec;
}

/// What any_plan asks of a plan.
template <class V> class plan_body {
 public:
  plan_body() = default;
  plan_body(plan_body const&) = delete;
  plan_body& operator=(plan_body const&) = delete;
  virtual ~plan_body() = default;

  virtual std::size_t values() const = 0;
  virtual value_range shard() const = 0;
  virtual std::size_t shard_alignment() const = 0;
  virtual value_range encoded() const = 0;
  virtual report all_reduce(std::span<V> x, call_options const& call) = 0;
  virtual report all_reduce(std::span<V> x, error_feedback<V>& feedback,
                            call_options const& call) = 0;
  virtual report all_reduce(std::span<V> x, global_compensation<V>& feedback,
                            call_options const& call) = 0;
  virtual report reduce_scatter(std::span<V> x, call_options const& call) = 0;
  virtual report reduce_scatter(std::span<V> x, error_feedback<V>& feedback,
                                call_options const& call) = 0;
  virtual report all_gather(std::span<V> x, call_options const& call) = 0;
  virtual void set_magnitude(double magnitude) = 0;
  virtual std::string about_last_call() const = 0;
};

/// @tparam Plan  a plan, or what looks like one
template <class Plan> class some_plan final : public plan_body<typename Plan::value_type> {
 public:
  using V = typename Plan::value_type;

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
  report all_reduce(std::span<V> x, error_feedback<V>& feedback,
                    call_options const& call) override {
    return plan_.all_reduce(x, feedback, call);
  }
  report all_reduce(std::span<V> x, global_compensation<V>& feedback,
                    call_options const& call) override {
    if constexpr (requires { plan_.all_reduce(x, feedback, call); })
      return plan_.all_reduce(x, feedback, call);
    else
      throw std::invalid_argument("all_reduce: a plan of this kind takes no global_compensation");
  }
  report reduce_scatter(std::span<V> x, call_options const& call) override {
    return plan_.reduce_scatter(x, call);
  }
  report reduce_scatter(std::span<V> x, error_feedback<V>& feedback,
                        call_options const& call) override {
    return plan_.reduce_scatter(x, feedback, call);
  }
  report all_gather(std::span<V> x, call_options const& call) override {
    return plan_.all_gather(x, call);
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

/// A plan of whatever codec for values of type V in host memory; see make_plan. Collectives and
/// errors are those of `plan`; one call at a time. May be moved.
template <class V> class any_plan {
 public:
  using value_type = V;

  /// @param codec      its name and settings, as make_plan takes them
  /// @param transport  what `body` uses
  any_plan(std::string codec, detail::kept_transport transport,
           std::unique_ptr<detail::plan_body<V>> body)
      : codec_(std::move(codec)), transport_(std::move(transport)), body_(std::move(body)) {}

  /// The codec's name and settings: make_plan makes the same of it.
  std::string const& codec() const { return codec_; }
  std::size_t values() const { return body_->values(); }
  /// The values this rank holds after `reduce_scatter` and gives in `all_gather`.
  value_range shard() const { return body_->shard(); }
  /// All ranks own as many values where this times the ranks divides them; 0 where they never do.
  std::size_t shard_alignment() const { return body_->shard_alignment(); }
  /// The values that this rank encodes in sums, and of which an error_feedback keeps what was lost:
  /// all, but where ranks of a host share them out among themselves.
  value_range encoded() const { return body_->encoded(); }
  /// What one sign is worth from the next call on, in codecs that have such a parameter; others do
  /// not mind. Equal on all ranks.
  /// @throws std::invalid_argument  not finite
  void set_magnitude(double magnitude) { body_->set_magnitude(magnitude); }
  /// What the codec chose in the last call, for people; empty if it has nothing to choose.
  std::string about_last_call() const { return body_->about_last_call(); }

  report all_reduce(std::span<V> x, call_options const& call = {}) {
    return body_->all_reduce(x, call);
  }
  /// @throws std::invalid_argument  on all ranks alike: the codec takes no feedback
  report all_reduce(std::span<V> x, error_feedback<V>& feedback, call_options const& call = {}) {
    return body_->all_reduce(x, feedback, call);
  }
  report all_reduce(std::span<V> x, global_compensation<V>& feedback,
                    call_options const& call = {}) {
    return body_->all_reduce(x, feedback, call);
  }
  report reduce_scatter(std::span<V> x, call_options const& call = {}) {
    return body_->reduce_scatter(x, call);
  }
  /// @throws std::invalid_argument  as all_reduce
  report reduce_scatter(std::span<V> x, error_feedback<V>& feedback,
                        call_options const& call = {}) {
    return body_->reduce_scatter(x, feedback, call);
  }
  report all_gather(std::span<V> x, call_options const& call = {}) {
    return body_->all_gather(x, call);
  }

 private:
  std::string codec_;
  detail::kept_transport transport_;
  std::unique_ptr<detail::plan_body<V>> body_;
};

}  // namespace hcomp
