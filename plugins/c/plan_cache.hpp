#pragma once
/// @file
/// All sums of one communicator: plans by size and codec, and whose residual is whose.

#include <cstddef>
#include <cstdint>
#include <hcomp/codec/compressor.hpp>
#include <hcomp/collective/agreement/options.hpp>
#include <hcomp/collective/agreement/report.hpp>
#include <hcomp/collective/plan/any_plan.hpp>
#include <hcomp/core/half.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/node/node_ranks.hpp>
#include <hcomp/transport/any_transport.hpp>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "feedback_plan.hpp"
#include "residual_store.hpp"
#include "settings.hpp"

namespace hcomp::drop_in {

/// Up to which several sums are under way at a time: what they wait for is latency. A longer one fills the
/// link by itself, and more plans would take more memory.
inline constexpr std::size_t most_bytes_together = std::size_t{1} << 20;

/// Sums vectors of any size and type over one transport. Used by one thread at a time; over a
/// concurrent_transport several sums that it has started may be under way, but no hierarchical ones.
///
/// Plans are kept, those used last, for vectors of 256 MiB together or the last one alone.
class plan_cache {
 public:
  /// @param number              of this communicator, for the store; never used again for another
  /// @param handle              as of next_handle_number, the same on all ranks
  /// @param residuals           must outlive this
  /// @param hosts               of the transport, and outlives this; null: found when they are needed
  /// @param most_planned_bytes  of vectors whose plans are kept
  plan_cache(any_transport transport, std::uint64_t number, std::uint64_t handle,
             residual_store& residuals, node::node_ranks* nodes = nullptr,
             std::size_t most_planned_bytes = std::size_t{256} << 20);
  ~plan_cache();
  plan_cache(plan_cache const&) = delete;
  plan_cache& operator=(plan_cache const&) = delete;

  /// Sums x over all ranks, in place. Collective.
  ///
  /// @param x       `values` values of that type; null: out of this rank's reach, and all ranks get
  ///                a memory_error
  /// @param buffer  what tells one tensor from another, see tensor_key
  /// @param segment_bytes  of messages, see plan_options
  /// @param result  the sum, or the mean over the ranks
  /// @param place   another one for each of those that are under way at the same time, which have begun in
  ///                the same order on all ranks
  /// @throws as feedback_plan::all_reduce and its constructor
  report all_reduce(value_type type, void* x, std::size_t values, codec_spec const& how,
                    void const* buffer, std::size_t segment_bytes = plan_options{}.segment_bytes,
                    reduce_op result = reduce_op::sum, std::size_t place = 0);

  /// Leaves rank r the sum of counts[r] values, those after the ones of ranks before it.
  ///
  /// Parts are filled up with zeros to whole blocks, of equal size. Where that would take twice the
  /// values, with sign where it would take any, and by algorithms that leave all ranks everything,
  /// it is done by all_reduce.
  /// @param x       all values, of that type; or null, as above, and `mine` with it
  /// @param counts  of every rank, not negative
  /// @param mine    room for this rank's part, which may be the begin of x; unchanged if anything
  ///                is thrown
  report reduce_scatter(value_type type, void const* x, std::span<int const> counts, void* mine,
                        codec_spec const& how, void const* buffer,
                        std::size_t segment_bytes = plan_options{}.segment_bytes,
                        reduce_op result = reduce_op::sum, std::size_t place = 0);

  int rank() const { return transport_.rank(); }
  int ranks() const { return transport_.size(); }
  std::size_t plans() const { return plans_.size(); }
  /// So far: a call that makes none finds all its memory there.
  std::uint64_t plans_made() const { return plans_made_; }

 private:
  template <class V> using sum_of = std::unique_ptr<any_plan<V>>;

  struct planned {
    value_type type;
    std::size_t values;
    codec_spec how;
    std::size_t segment_bytes;
    std::size_t place;
    std::unique_ptr<host_executor> executor;
    std::tuple<sum_of<float>, sum_of<double>, sum_of<float16>, sum_of<bfloat16>,
               sum_of<std::int32_t>, sum_of<std::int64_t>>
        sums;                          ///< one of them
    std::vector<std::uint64_t> parts;  ///< where those of all ranks begin, once it was asked
    std::vector<std::byte> filled;     ///< values of reduce_scatter

    template <class V> any_plan<V>& of() const { return *std::get<sum_of<V>>(sums); }
    std::size_t bytes() const { return values * size_of(type) + filled.size(); }
  };

  /// Forgotten plans stay as long as somebody uses them.
  std::shared_ptr<planned> plan_for(value_type type, std::size_t values, codec_spec const& how,
                                    std::size_t segment_bytes, std::size_t place = 0);
  template <class V> report sum(planned& plan, V* x, void const* buffer, reduce_op result);
  node::node_ranks& nodes();
  template <class V>
  report scatter(V const* x, std::span<int const> counts, V* mine, codec_spec const& how,
                 void const* buffer, std::size_t segment_bytes, reduce_op result,
                 std::size_t place);
  /// What this rank lost of a tensor before, or none.
  template <class V> std::shared_ptr<error_feedback<V>> residual_of(planned const&, void const*);
  call_options next_call(reduce_op result);
  std::uint32_t turn_of(void const* buffer, std::size_t values, std::uint32_t value_bytes,
                        int turns);

  any_transport transport_;
  std::optional<node::node_ranks> own_nodes_;
  node::node_ranks* nodes_;
  std::uint64_t number_;
  residual_store* residuals_;
  std::size_t most_planned_bytes_;
  std::uint64_t handle_;  ///< what the draws of this one's sums are made from
  std::uint64_t step_ = 0;
  std::list<std::shared_ptr<planned>> plans_;  ///< the one used last first
  std::uint64_t plans_made_ = 0;
  std::map<tensor_key, std::uint32_t> turns_;
};

}  // namespace hcomp::drop_in
