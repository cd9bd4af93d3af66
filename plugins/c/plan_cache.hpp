#pragma once
/// @file
/// Cache of the plans of one communicator, by size and codec, with a residual for each tensor.

#include <cstddef>
#include <cstdint>
#include <hcomp/codec/compressor.hpp>
#include <hcomp/collective/agreement/options.hpp>
#include <hcomp/collective/agreement/report.hpp>
#include <hcomp/collective/plan/any_plan.hpp>
#include <hcomp/core/half.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/feedback/error_feedback.hpp>
#include <hcomp/node/collectives.hpp>
#include <hcomp/node/node_ranks.hpp>
#include <hcomp/transport/any_transport.hpp>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "device_plan.hpp"
#include "residual_store.hpp"
#include "settings.hpp"

namespace hcomp::drop_in {

/// Largest vector for concurrent calls. Up to this size latency dominates, and concurrency hides
/// it. A longer vector saturates the link by itself, and more plans would take more memory.
inline constexpr std::size_t most_bytes_together = std::size_t{1} << 20;

/// Reductions of vectors of any size and type over one transport. One thread at a time may use it.
/// Over a concurrent_transport that thread may have several calls in progress, except hierarchical
/// calls.
///
/// The cache keeps the most recently used plans, for up to 256 MiB of vectors in total, and always
/// the last plan.
class plan_cache {
 public:
  /// @param number              of this communicator, for residual_store; never reused
  /// @param handle              result of next_handle_number, equal on all ranks
  /// @param residuals           must outlive the plan_cache
  /// @param nodes               of the transport, must outlive the plan_cache; null: found on first
  ///                            use
  /// @param most_planned_bytes  limit for the vectors of cached plans
  plan_cache(any_transport transport, std::uint64_t number, std::uint64_t handle,
             residual_store& residuals, node::node_ranks* nodes = nullptr,
             std::size_t most_planned_bytes = std::size_t{256} << 20);
  ~plan_cache();
  plan_cache(plan_cache const&) = delete;
  plan_cache& operator=(plan_cache const&) = delete;

  /// All-reduces x in place. Collective.
  ///
  /// @param x       `values` values of `type`, in host memory, or in device memory if
  ///                stays_on_device; ranks may differ. Null if this rank cannot access them: all
  ///                ranks throw memory_error
  /// @param buffer  identifies the tensor, see tensor_key
  /// @param segment_bytes  size of message segments, see plan_options
  /// @param result  sum, or mean over the ranks
  /// @param place   a different index for each concurrent call; such calls begin in the same order
  ///                on all ranks
  /// @throws as feedback_plan::all_reduce and its constructor
  report all_reduce(value_type type, void* x, std::size_t values, codec_spec const& how,
                    void const* buffer, std::size_t segment_bytes = plan_options{}.segment_bytes,
                    reduce_op result = reduce_op::sum, std::size_t place = 0,
                    bool is_on_device = false);
  /// Whether all_reduce takes such vectors in device memory. False for short ones, whose kernels
  /// take longer to launch than copies take.
  /// @param library  () returns the library or null; called only if vector and codec allow it
  static bool stays_on_device(cuda_library const* (*library)(), value_type type, std::size_t values,
                              codec_spec const& how);

  /// Reduce-scatter: rank r receives counts[r] reduced values, after the values of lower ranks.
  ///
  /// Parts are padded with zeros to complete blocks of equal size. all_reduce does the work instead
  /// where padding would double the values, with sign where any padding is needed, and with
  /// algorithms that give all ranks the full result.
  /// @param x       all values, of `type`; null as in all_reduce, then `mine` is null, too
  /// @param counts  values per rank, not negative
  /// @param mine    buffer for this rank's part, may be the start of x; unchanged on errors
  report reduce_scatter(value_type type, void const* x, std::span<int const> counts, void* mine,
                        codec_spec const& how, void const* buffer,
                        std::size_t segment_bytes = plan_options{}.segment_bytes,
                        reduce_op result = reduce_op::sum, std::size_t place = 0);

  /// From the second call on, uncompressed all-reduces use memory that the ranks share, if they
  /// share any: some programs call once per communicator. Only if no two calls are concurrent.
  void share_memory() { may_share_memory_ = true; }

  int rank() const { return transport_.rank(); }
  int ranks() const { return transport_.size(); }
  std::size_t plans() const { return plans_.size(); }
  /// Plans created so far. A call that creates none allocates no plan memory.
  std::uint64_t plans_made() const { return plans_made_; }

 private:
  template <class V> using plan_pointer = std::unique_ptr<any_plan<V>>;

  struct planned {
    value_type type;
    std::size_t values;
    codec_spec how;
    std::size_t segment_bytes;
    std::size_t place;
    std::unique_ptr<host_executor> executor;
    std::tuple<plan_pointer<float>, plan_pointer<double>, plan_pointer<float16>,
               plan_pointer<bfloat16>, plan_pointer<std::int32_t>, plan_pointer<std::int64_t>>
        plan_of_type;                           ///< exactly one is set
    std::vector<std::uint64_t> parts;           ///< start of each rank's part, after first use
    std::vector<std::byte> filled;              ///< padded values of reduce_scatter
    std::shared_ptr<node::collectives> memory;  ///< of a shared_memory_plan

    template <class V> any_plan<V>& of() const { return *std::get<plan_pointer<V>>(plan_of_type); }
    std::size_t bytes() const { return values * size_of(type) + filled.size(); }
  };

  /// A plan for vectors at one place in device memory.
  struct device_planned {
    value_type type;
    std::size_t values;
    codec_spec how;
    std::size_t segment_bytes;
    std::size_t place;
    device_place device;
    std::tuple<std::unique_ptr<device_plan<float>>, std::unique_ptr<device_plan<double>>>
        plan_of_type;  ///< exactly one is set

    std::size_t bytes() const { return values * size_of(type); }
  };

  /// The plan in `plans` that matches, or a new one; it is the most recently used then. A new one
  /// first removes those beyond most_planned_bytes_.
  /// @param describe  () returns the new entry without its plan; fill(entry) makes the plan
  template <class P, class Matches, class Describe, class Fill>
  std::shared_ptr<P> cached(std::list<std::shared_ptr<P>>& plans, Matches const& matches,
                            Describe const& describe, Fill const& fill);
  /// A plan removed from the cache lives while it is in use.
  std::shared_ptr<planned> plan_for(value_type type, std::size_t values, codec_spec const& how,
                                    std::size_t segment_bytes, std::size_t place = 0,
                                    std::shared_ptr<node::collectives> memory = nullptr);
  template <class V>
  report all_reduce_by(planned& plan, V* x, void const* buffer, reduce_op result);
  /// all_reduce of device memory; none if CUDA fails before the call begins.
  template <class V>
  std::optional<report> all_reduce_on_device(V* x, std::size_t values, codec_spec const& how,
                                             void const* buffer, std::size_t segment_bytes,
                                             reduce_op result, std::size_t place);
  node::node_ranks& nodes();
  /// For an all-reduce: memory that the ranks share, or null.
  std::shared_ptr<node::collectives> memory_for(value_type type, codec_spec const& how);
  template <class V>
  report scatter(V const* x, std::span<int const> counts, V* mine, codec_spec const& how,
                 void const* buffer, std::size_t segment_bytes, reduce_op result,
                 std::size_t place);
  /// This rank's residual of a tensor; null without error feedback or memory.
  template <class V> std::shared_ptr<error_feedback<V>> residual_of(planned const&, void const*);
  call_options next_call(reduce_op result);
  std::uint32_t turn_of(void const* buffer, std::size_t values, std::uint32_t value_bytes,
                        int turns);

  any_transport transport_;
  bool may_share_memory_ = false;
  std::optional<std::shared_ptr<node::collectives>> memory_;
  std::optional<node::node_ranks> own_nodes_;
  node::node_ranks* nodes_;
  std::uint64_t number_;
  residual_store* residuals_;
  std::size_t most_planned_bytes_;
  std::uint64_t handle_;  ///< seed of the random draws of this cache's calls
  std::uint64_t step_ = 0;
  std::list<std::shared_ptr<planned>> plans_;  ///< most recently used first
  /// The same, apart from plans_: their number may differ between ranks.
  std::list<std::shared_ptr<device_planned>> device_plans_;
  std::uint64_t plans_made_ = 0;
  std::map<tensor_key, std::uint32_t> turns_;
};

}  // namespace hcomp::drop_in
