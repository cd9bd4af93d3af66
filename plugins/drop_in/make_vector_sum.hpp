#pragma once
/// @file
/// Definition of make_vector_sum, instantiated for one type of values per file: plans take long to
/// compile.

#include <cmath>
#include <hcomp/codec/error_bounded_stream.hpp>
#include <hcomp/codec/float_cast.hpp>
#include <hcomp/codec/identity.hpp>
#include <hcomp/codec/inceptionn.hpp>
#include <hcomp/codec/sign.hpp>
#include <hcomp/codec/thc.hpp>
#include <hcomp/collective/agreement.hpp>
#include <hcomp/collective/plan.hpp>
#include <hcomp/collective/sparse_plan.hpp>
#include <hcomp/core/half.hpp>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "vector_sum.hpp"

namespace hcomp::drop_in {

namespace detail {

/// Values between which a plan cuts vectors into the parts of ranks.
template <class Plan> inline constexpr std::size_t unit_of_parts = 64;
template <HomomorphicSum C, class T, class E>
inline constexpr std::size_t unit_of_parts<plan<C, T, E>> = C::block_values;

/// A plan of whatever kind, which sums as it is.
template <class Plan> class some_sum : public vector_sum<typename Plan::value_type> {
 public:
  using V = typename Plan::value_type;

  template <class... Arguments>
  explicit some_sum(Arguments&&... arguments) : plan_(std::forward<Arguments>(arguments)...) {}

  report all_reduce(std::span<V> x, error_feedback<V>*, call_options const& call) override {
    return plan_.all_reduce(x, call);
  }
  report reduce_scatter(std::span<V> x, error_feedback<V>*, call_options const& call) override {
    return plan_.reduce_scatter(x, call);
  }
  report all_gather(std::span<V> x, call_options const& call) override {
    return plan_.all_gather(x, call);
  }
  value_range owned() const override { return plan_.owned(); }
  std::size_t unit_of_parts() const override {
    if constexpr (requires { plan_.options().how; })
      if (plan_.options().how.kind == algorithm_kind::owner) return 0;
    return detail::unit_of_parts<Plan>;
  }

 protected:
  Plan& plan() { return plan_; }

 private:
  Plan plan_;
};

/// A plan whose codec loses so much that its residual is worth keeping.
template <class Plan> class lossy_sum final : public some_sum<Plan> {
 public:
  using V = typename Plan::value_type;

  template <class C>
  lossy_sum(std::size_t values, C const& codec, any_transport& transport, host_executor& executor,
            plan_options const& options)
      : some_sum<Plan>(values, codec, transport, executor, options),
        transport_(&transport),
        tag_(options.tag) {}

  report all_reduce(std::span<V> x, error_feedback<V>* residual,
                    call_options const& call) override {
    set_magnitude(x, residual);
    return residual ? this->plan().all_reduce(x, *residual, call)
                    : this->plan().all_reduce(x, call);
  }
  report reduce_scatter(std::span<V> x, error_feedback<V>* residual,
                        call_options const& call) override {
    set_magnitude(x, residual);
    if (residual) return this->plan().reduce_scatter(x, *residual, call);
    return some_sum<Plan>::reduce_scatter(x, nullptr, call);
  }
  report all_gather(std::span<V> x, call_options const& call) override {
    set_magnitude(x, nullptr);
    return some_sum<Plan>::all_gather(x, call);
  }

 private:
  void set_magnitude(std::span<V const> x, error_feedback<V> const* residual) {
    auto codec = this->plan().codec();
    if constexpr (requires { codec.magnitude; }) {
      codec.magnitude = mean_magnitude(x, residual);
      this->plan().set_codec(codec);
    }
  }
  /// Of what is about to be encoded, over all ranks: what a sign is worth.
  /// Source: S. P. Karimireddy et al., ICML 2019, algorithm 2.
  accumulator_t<V> mean_magnitude(std::span<V const> x, error_feedback<V> const* residual) {
    double sum = 0;
    for (std::size_t i = 0; x.data() && i < x.size(); ++i)
      sum += std::fabs(static_cast<double>(x[i]) +
                       (residual ? static_cast<double>(residual->residual()[i]) : 0.0));
    all_gather_records(*transport_, tag_, sum, sums_);
    double total = 0;
    for (double const one : sums_) total += one;
    double const mean = total / (static_cast<double>(x.size()) * transport_->size());
    constexpr double least = std::numeric_limits<accumulator_t<V>>::min();
    return static_cast<accumulator_t<V>>(std::isfinite(mean) ? std::max(mean, least) : 1);
  }

  any_transport* transport_;
  tag_t tag_;
  std::vector<double> sums_;
};

}  // namespace detail

template <class V>
std::unique_ptr<vector_sum<V>> make_vector_sum(method const& how, std::size_t values,
                                               any_transport& transport, host_executor& executor,
                                               std::size_t segment_bytes) {
  auto const ranks = static_cast<std::uint32_t>(transport.size());
  plan_options options;
  options.how = how.how;
  options.segment_bytes = segment_bytes;
  auto const some = [&]<class C>(C const& codec) -> std::unique_ptr<vector_sum<V>> {
    return std::make_unique<detail::some_sum<plan<C, any_transport, host_executor>>>(
        values, codec, transport, executor, options);
  };
  auto const lossy = [&]<class C>(C const& codec) -> std::unique_ptr<vector_sum<V>> {
    return std::make_unique<detail::lossy_sum<plan<C, any_transport, host_executor>>>(
        values, fit(codec, ranks), transport, executor, options);
  };
  if (how.codec == "fp16") return some(float_cast<float16, V>{});
  if (how.codec == "bf16") return some(float_cast<bfloat16, V>{});
  if (how.codec == "thc") return lossy(thc<V>({.bits = how.bits}));
  if (how.codec == "sign") return lossy(sign<V>{});
  options.nonfinite = nonfinite_policy::ignore;  // the others carry it
  if (how.codec == "identity") return some(identity<V>{});
  if constexpr (std::is_same_v<V, float>) {
    if (how.codec == "lossless")
      return std::make_unique<detail::some_sum<sparse_plan<float, any_transport, host_executor>>>(
          values, transport, executor, sparse_plan_options{.plan = options});
    if (how.codec == "inceptionn")
      return some(inceptionn({.bound_exponent = how.exponent, .fitted = true}));
    if (how.codec == "error_bounded") return some(error_bounded_stream({.bound = how.bound}));
  }
  throw std::invalid_argument("there is no codec '" + how.codec + "' for values of " +
                              std::to_string(sizeof(V)) + " bytes");
}

}  // namespace hcomp::drop_in
