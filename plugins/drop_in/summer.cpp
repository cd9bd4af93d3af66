#include "summer.hpp"

#include <algorithm>
#include <hcomp/collective/options.hpp>
#include <type_traits>
#include <utility>

namespace hcomp::drop_in {

summer::summer(any_transport transport, std::uint64_t number, residual_store& residuals,
               std::size_t most_planned_bytes)
    : transport_(std::move(transport)),
      number_(number),
      residuals_(&residuals),
      most_planned_bytes_(most_planned_bytes) {}

summer::~summer() { residuals_->forget(number_); }

report summer::all_reduce(value_type type, void* x, std::size_t values, method const& how,
                          void const* buffer, std::size_t segment_bytes) {
  auto& plan = plan_for(type, values, how, segment_bytes);
  return type == value_type::float32 ? sum(*plan.of_float, x, values, how, buffer)
                                     : sum(*plan.of_double, x, values, how, buffer);
}

summer::planned& summer::plan_for(value_type type, std::size_t values, method const& how,
                                  std::size_t segment_bytes) {
  auto const found = std::ranges::find_if(plans_, [&](planned const& one) {
    return one.type == type && one.values == values && one.how == how &&
           one.segment_bytes == segment_bytes;
  });
  if (found != plans_.end()) {
    plans_.splice(plans_.begin(), plans_, found);
    return plans_.front();
  }
  planned one{type,    values, how, segment_bytes, std::make_unique<host_executor>(how.threads),
              nullptr, nullptr};
  std::size_t together = one.bytes();
  for (auto old = plans_.begin(); old != plans_.end();) {
    together += old->bytes();
    old = together > most_planned_bytes_ ? plans_.erase(old) : std::next(old);
  }
  if (type == value_type::float32)
    one.of_float = make_vector_sum<float>(how, values, transport_, *one.executor, segment_bytes);
  else
    one.of_double = make_vector_sum<double>(how, values, transport_, *one.executor, segment_bytes);
  plans_.push_front(std::move(one));
  return plans_.front();
}

template <class V>
report summer::sum(vector_sum<V>& plan, void* x, std::size_t values, method const& how,
                   void const* buffer) {
  std::shared_ptr<error_feedback<V>> residual;
  if (how.feedback)
    residual = residuals_->take<V>(
        {number_, buffer, values, sizeof(V), turn_of(buffer, values, sizeof(V), how.turns)});
  call_options call;
  call.step = step_++;
  return plan.all_reduce({static_cast<V*>(x), values}, residual.get(), call);
}

std::uint32_t summer::turn_of(void const* buffer, std::size_t values, std::uint32_t value_bytes,
                              int turns) {
  if (turns == 1) return 0;
  constexpr std::size_t most_buffers = 4096;  // of programs that take a new one every time
  if (turns_.size() > most_buffers) turns_.clear();
  auto& calls = turns_[{number_, buffer, values, value_bytes, 0}];
  return calls++ % static_cast<std::uint32_t>(turns);
}

}  // namespace hcomp::drop_in
