#pragma once
/// @file
/// Sums of vectors of one size by a method that is chosen at run time.

#include <cstddef>
#include <hcomp/collective/options.hpp>
#include <hcomp/collective/plan.hpp>
#include <hcomp/collective/report.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/feedback/error_feedback.hpp>
#include <hcomp/transport/any_transport.hpp>
#include <memory>
#include <span>

#include "settings.hpp"

namespace hcomp::drop_in {

/// One of hcomp's plans, whatever its codec.
template <class V> class vector_sum {
 public:
  vector_sum() = default;
  vector_sum(vector_sum const&) = delete;
  vector_sum& operator=(vector_sum const&) = delete;
  virtual ~vector_sum() = default;

  /// Sums x over all ranks, in place. Errors as for plan::all_reduce; NaN and infinity are
  /// nonfinite_error with codecs that cannot carry them.
  /// @param residual  what this rank's encoding lost before, if the method says feedback; or none
  virtual report all_reduce(std::span<V> x, error_feedback<V>* residual,
                            call_options const& call) = 0;

  /// The same, but leaves each rank only its `owned()` part of the sum in x.
  /// @throws std::invalid_argument  the method has no such thing: algorithms doubling and owner
  virtual report reduce_scatter(std::span<V> x, error_feedback<V>* residual,
                                call_options const& call) = 0;
  /// Gives every rank all ranks' `owned()` parts of x. Errors as for reduce_scatter.
  virtual report all_gather(std::span<V> x, call_options const& call) = 0;
  virtual value_range owned() const = 0;
  /// All ranks own as many values where this times the ranks divides them; 0 where there is no
  /// reduce_scatter.
  virtual std::size_t unit_of_parts() const = 0;
};

/// @param segment_bytes  of messages, see plan_options
/// @throws std::invalid_argument  there is no such codec for these values, or it does not go with
///                                the algorithm or so many ranks; on all ranks alike
template <class V>
std::unique_ptr<vector_sum<V>> make_vector_sum(
    method const& how, std::size_t values, any_transport& transport, host_executor& executor,
    std::size_t segment_bytes = plan_options{}.segment_bytes);

extern template std::unique_ptr<vector_sum<float>> make_vector_sum(method const&, std::size_t,
                                                                   any_transport&, host_executor&,
                                                                   std::size_t);
extern template std::unique_ptr<vector_sum<double>> make_vector_sum(method const&, std::size_t,
                                                                    any_transport&, host_executor&,
                                                                    std::size_t);

}  // namespace hcomp::drop_in
