#include "plan_cache.hpp"

#include <algorithm>
#include <hcomp/collective/agreement/agreement.hpp>
#include <hcomp/collective/agreement/options.hpp>
#include <hcomp/collective/by_name/registered_codecs.hpp>
#include <iterator>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "make_feedback_plan.hpp"
#include "node_reduction.hpp"

namespace hcomp::drop_in {

plan_cache::plan_cache(any_transport transport, std::uint64_t number, std::uint64_t handle,
                       residual_store& residuals, node::node_ranks* nodes,
                       std::size_t most_planned_bytes)
    : transport_(std::move(transport)),
      nodes_(nodes),
      number_(number),
      residuals_(&residuals),
      most_planned_bytes_(most_planned_bytes),
      handle_(handle) {}

plan_cache::~plan_cache() { residuals_->forget(number_); }

namespace {

/// Calls `f` with a null pointer of the C++ type.
template <class F> auto for_type(value_type type, F const& f) {
  switch (type) {
    case value_type::float32: return f(static_cast<float*>(nullptr));
    case value_type::float64: return f(static_cast<double*>(nullptr));
    case value_type::float16: return f(static_cast<float16*>(nullptr));
    case value_type::bfloat16: return f(static_cast<bfloat16*>(nullptr));
    case value_type::int32: return f(static_cast<std::int32_t*>(nullptr));
    case value_type::int64: break;
  }
  return f(static_cast<std::int64_t*>(nullptr));
}
template <class V> constexpr value_type type_of = value_type::float32;
template <> constexpr value_type type_of<double> = value_type::float64;
template <> constexpr value_type type_of<float16> = value_type::float16;
template <> constexpr value_type type_of<bfloat16> = value_type::bfloat16;
template <> constexpr value_type type_of<std::int32_t> = value_type::int32;
template <> constexpr value_type type_of<std::int64_t> = value_type::int64;

}  // namespace

report plan_cache::all_reduce(value_type type, void* x, std::size_t values, codec_spec const& how,
                              void const* buffer, std::size_t segment_bytes, reduce_op result,
                              std::size_t place, bool is_on_device) {
  if (is_on_device) {
    auto const made = type == value_type::float32
                          ? all_reduce_on_device(static_cast<float*>(x), values, how, buffer,
                                                 segment_bytes, result, place)
                          : all_reduce_on_device(static_cast<double*>(x), values, how, buffer,
                                                 segment_bytes, result, place);
    if (made) return *made;
    x = nullptr;
  }
  auto const plan = plan_for(type, values, how, segment_bytes, place, memory_for(type, how));
  return for_type(
      type, [&]<class V>(V*) { return all_reduce_by(*plan, static_cast<V*>(x), buffer, result); });
}

report plan_cache::reduce_scatter(value_type type, void const* x, std::span<int const> counts,
                                  void* mine, codec_spec const& how, void const* buffer,
                                  std::size_t segment_bytes, reduce_op result, std::size_t place) {
  return for_type(type, [&]<class V>(V*) {
    return scatter(static_cast<V const*>(x), counts, static_cast<V*>(mine), how, buffer,
                   segment_bytes, result, place);
  });
}

template <class P, class Matches, class Describe, class Fill>
std::shared_ptr<P> plan_cache::cached(std::list<std::shared_ptr<P>>& plans, Matches const& matches,
                                      Describe const& describe, Fill const& fill) {
  auto const found = std::ranges::find_if(plans, [&](auto const& one) { return matches(*one); });
  if (found != plans.end()) {
    plans.splice(plans.begin(), plans, found);
    return plans.front();
  }
  auto const one = std::make_shared<P>(describe());
  std::size_t together = one->bytes();
  for (auto old = plans.begin(); old != plans.end();) {
    together += (*old)->bytes();
    old = together > most_planned_bytes_ ? plans.erase(old) : std::next(old);
  }
  fill(*one);
  plans.push_front(one);
  ++plans_made_;
  return one;
}

bool plan_cache::stays_on_device(cuda_library const* (*library)(), value_type type,
                                 std::size_t values, codec_spec const& how) {
  constexpr std::size_t least_bytes = 256 * 1024;
  if (values * size_of(type) < least_bytes || how.algorithm.hierarchical) return false;
  auto const is_for = [&]<class V>(std::type_identity<V> of) {
    if (uses_shared_memory<V>(how)) return false;
    auto const* const loaded = library();
    return loaded && loaded->has_codec(how.codec, of);
  };
  if (type == value_type::float32) return is_for(std::type_identity<float>{});
  return type == value_type::float64 && is_for(std::type_identity<double>{});
}

template <class V>
std::optional<report> plan_cache::all_reduce_on_device(V* x, std::size_t values,
                                                       codec_spec const& how, void const* buffer,
                                                       std::size_t segment_bytes, reduce_op result,
                                                       std::size_t place) {
  std::shared_ptr<device_planned> plan;
  std::shared_ptr<device_residual<V>> residual;
  try {
    auto const& library = loaded_cuda_library();
    device_place const device{library.device_of(x)};
    plan = cached(
        device_plans_,
        [&](device_planned const& one) {
          return one.type == type_of<V> && one.values == values && one.how == how &&
                 one.segment_bytes == segment_bytes && one.place == place && one.device == device;
        },
        [&] { return device_planned{type_of<V>, values, how, segment_bytes, place, device, {}}; },
        [&](device_planned& made) {
          auto options = options_of<V>(how, segment_bytes);
          options.device_segment_bytes = segment_bytes;  // other ranks may have x in host memory
          std::get<std::unique_ptr<device_plan<V>>>(made.plan_of_type) = library.make(
              {how.entry_text(), values, transport_, options, device}, std::type_identity<V>{});
        });
    if (how.feedback) {
      auto const turn = turn_of(buffer, values, sizeof(V), how.turns);
      residual = residuals_->take<V>({number_, buffer, values, sizeof(V), turn, true}, [&] {
        return library.make_residual(values, device, std::type_identity<V>{});
      });
    }
  } catch (std::runtime_error const&) {
    return std::nullopt;
  }
  return std::get<std::unique_ptr<device_plan<V>>>(plan->plan_of_type)
      ->run(collective_kind::all_reduce, {x, values}, residual.get(), next_call(result));
}

std::shared_ptr<plan_cache::planned> plan_cache::plan_for(
    value_type type, std::size_t values, codec_spec const& how, std::size_t segment_bytes,
    std::size_t place, std::shared_ptr<node::collectives> memory) {
  return cached(
      plans_,
      [&](planned const& one) {
        return one.type == type && one.values == values && one.how == how &&
               one.segment_bytes == segment_bytes && one.place == place && one.memory == memory;
      },
      [&] {
        int const threads = values > 0 ? how.threads : 1;  // an empty plan only answers queries
        return planned{
            type, values, how, segment_bytes, place, std::make_unique<host_executor>(threads),
            {},   {},     {},  memory};
      },
      [&](planned& made) {
        for_type(type, [&]<class V>(V*) {
          std::get<plan_pointer<V>>(made.plan_of_type) =
              std::make_unique<any_plan<V>>(make_feedback_plan<V>(
                  how, values, transport_, *made.executor, [&]() -> auto& { return nodes(); },
                  memory, segment_bytes));
        });
      });
}

std::shared_ptr<node::collectives> plan_cache::memory_for(value_type type, codec_spec const& how) {
  if (!may_share_memory_ || step_ == 0) return nullptr;
  bool const uses_memory = for_type(type, [&]<class V>(V*) { return uses_shared_memory<V>(how); });
  if (uses_memory && !memory_) memory_ = node::make_shared_memory(transport_);
  return uses_memory ? *memory_ : nullptr;
}

node::node_ranks& plan_cache::nodes() {
  if (!nodes_) {
    own_nodes_ = find_nodes(transport_);
    nodes_ = &*own_nodes_;
  }
  return *nodes_;
}

template <class V>
std::shared_ptr<error_feedback<V>> plan_cache::residual_of(planned const& plan,
                                                           void const* buffer) {
  if (!plan.how.feedback) return nullptr;
  auto const turn = turn_of(buffer, plan.values, sizeof(V), plan.how.turns);
  return residuals_->take<V>({number_, buffer, plan.of<V>().encoded().count, sizeof(V), turn});
}

call_options plan_cache::next_call(reduce_op result) {
  call_options call;
  call.op = result;
  call.step = step_++;
  call.earlier_calls = call.step;  // plans for host and device memory take turns
  call.tensor = handle_;
  return call;
}

template <class V>
report plan_cache::all_reduce_by(planned& plan, V* x, void const* buffer, reduce_op result) {
  auto const residual = residual_of<V>(plan, buffer);
  auto const call = next_call(result);
  std::span const all(x, plan.values);
  auto& plan_of_type = plan.of<V>();
  return residual ? plan_of_type.all_reduce(all, *residual, call)
                  : plan_of_type.all_reduce(all, call);
}

template <class V>
report plan_cache::scatter(V const* x, std::span<int const> counts, V* mine, codec_spec const& how,
                           void const* buffer, std::size_t segment_bytes, reduce_op result,
                           std::size_t place) {
  auto const all = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  auto const largest = static_cast<std::size_t>(std::ranges::max(counts));
  auto const count_of = [&](int r) {
    return static_cast<std::size_t>(counts[static_cast<std::size_t>(r)]);
  };
  // An empty plan takes no memory.
  auto const for_nothing = plan_for(type_of<V>, 0, how, segment_bytes);
  std::size_t const unit = how.algorithm.kind == algorithm_kind::recursive_doubling
                               ? 0
                               : for_nothing->template of<V>().shard_alignment();
  bool const needs_all = registered_codecs<V>().at(how.codec).has_magnitude();  // forbids padding
  std::size_t const part = unit ? (largest + unit - 1) / unit * unit : 0;
  std::size_t const values = part * counts.size();
  bool const in_parts = unit > 0 && values < 2 * all && (!needs_all || values == all);

  if (!in_parts) {
    std::vector<V> sum;
    if (x) sum.assign(x, x + all);
    auto const made = all_reduce(type_of<V>, x ? sum.data() : nullptr, all, how, buffer,
                                 segment_bytes, result, place);
    std::size_t before = 0;
    for (int r = 0; r < rank(); ++r) before += count_of(r);
    std::copy_n(sum.data() + before, count_of(rank()), mine);
    return made;
  }

  auto const kept = plan_for(type_of<V>, values, how, segment_bytes, place);
  auto& plan = *kept;
  auto& plan_of_type = plan.template of<V>();
  // Before waiting for other calls: concurrent calls must look up residuals in their order.
  auto const residual = residual_of<V>(plan, buffer);
  auto const call = next_call(result);
  if (plan.parts.empty())
    all_gather_records(transport_, plan_options{}.tag, std::uint64_t{plan_of_type.shard().first},
                       plan.parts);
  auto const scattered = [&](std::span<V> of) {
    return residual ? plan_of_type.reduce_scatter(of, *residual, call)
                    : plan_of_type.reduce_scatter(of, call);
  };
  if (!x) return scattered({static_cast<V*>(nullptr), values});
  // Reused between calls: first use of this much memory takes as long as a fast network.
  plan.filled.resize(values * sizeof(V));
  std::span const filled(reinterpret_cast<V*>(plan.filled.data()), values);
  for (int r = 0; r < ranks(); ++r) {
    V* const to = filled.data() + plan.parts[static_cast<std::size_t>(r)];
    std::fill(std::copy_n(x, count_of(r), to), to + part, V{});
    x += count_of(r);
  }
  auto const made = scattered(filled);
  std::copy_n(filled.data() + plan_of_type.shard().first, count_of(rank()), mine);
  return made;
}

std::uint32_t plan_cache::turn_of(void const* buffer, std::size_t values, std::uint32_t value_bytes,
                                  int turns) {
  if (turns == 1) return 0;
  constexpr std::size_t most_buffers = 4096;  // some programs use a new buffer per call
  if (turns_.size() > most_buffers) turns_.clear();
  auto& calls = turns_[{number_, buffer, values, value_bytes, 0}];
  return calls++ % static_cast<std::uint32_t>(turns);
}

}  // namespace hcomp::drop_in
