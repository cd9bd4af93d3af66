#pragma once
/// @file
/// A plan of whichever codec: what was chosen at run time, asked once a call.

#include <cstddef>
#include <hcomp/collective/options.hpp>
#include <hcomp/collective/report.hpp>
#include <hcomp/feedback/error_feedback.hpp>
#include <hcomp/feedback/global_compensation.hpp>
#include <span>
#include <stdexcept>
#include <utility>

namespace hcomp::detail {

/// `codec` with that magnitude, if it has one.
template <class C> C with_magnitude(C codec, double magnitude) {
  if constexpr (requires { codec.magnitude; })
    codec.magnitude = static_cast<decltype(codec.magnitude)>(magnitude);
  return codec;
}

template <class V> class any_sum {
 public:
  any_sum() = default;
  any_sum(any_sum const&) = delete;
  any_sum& operator=(any_sum const&) = delete;
  virtual ~any_sum() = default;

  virtual report all_reduce(std::span<V> x, call_options const& call) = 0;
  virtual report all_reduce(std::span<V> x, error_feedback<V>& feedback,
                            call_options const& call) = 0;
  virtual report all_reduce(std::span<V> x, global_compensation<V>& feedback,
                            call_options const& call) = 0;
  virtual void set_magnitude(double magnitude) = 0;
};

/// @tparam Sum  a plan
template <class Sum> class some_sum final : public any_sum<typename Sum::value_type> {
 public:
  using V = typename Sum::value_type;

  template <class... Arguments>
  explicit some_sum(Arguments&&... arguments) : sum_(std::forward<Arguments>(arguments)...) {}

  report all_reduce(std::span<V> x, call_options const& call) override {
    return sum_.all_reduce(x, call);
  }
  report all_reduce(std::span<V> x, error_feedback<V>& feedback,
                    call_options const& call) override {
    return sum_.all_reduce(x, feedback, call);
  }
  report all_reduce(std::span<V> x, global_compensation<V>& feedback,
                    call_options const& call) override {
    return sum_.all_reduce(x, feedback, call);
  }
  void set_magnitude(double magnitude) override {
    sum_.set_codec(with_magnitude(sum_.codec(), magnitude));
  }

 private:
  Sum sum_;
};

}  // namespace hcomp::detail
