/// @file
/// The C API without MPI: groups of ranks connected by UCX.

#include <hcomp/group.h>
#include <ucp/api/ucp_version.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/core/error.hpp>
#include <hcomp/core/half.hpp>
#include <hcomp/node/addition.hpp>
#include <hcomp/node/collectives.hpp>
#include <hcomp/node/node_ranks.hpp>
#include <hcomp/transport/any_transport.hpp>
#include <hcomp/transport/concurrent_transport.hpp>
#include <hcomp/ucx/transport.hpp>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "byte_collectives.hpp"
#include "cuda_memory.hpp"
#include "node_reduction.hpp"
#include "plan.hpp"
#include "plan_cache.hpp"
#include "request_queue.hpp"
#include "residual_store.hpp"
#include "settings.hpp"
#include "spare_memory.hpp"
#include "uncompressed.hpp"

namespace {

using hcomp::c_api::guarded;
using hcomp::c_api::require;
using hcomp::c_api::taken;
using hcomp::c_api::turn;
using hcomp::drop_in::codec_spec;
using hcomp::drop_in::settings;
using hcomp::drop_in::value_type;

/// A UCX transport with a progress thread. The thread runs nonblocking calls and serves peers
/// between calls: every millisecond for about a second after a call, because peers may still need
/// it, and less often afterwards.
class ucx_connection final : public hcomp::c_api::connection {
 public:
  ucx_connection(int rank, int size, hcomp::ucx::address_exchange const& exchange,
                 hcomp::ucx::options const& how)
      : ucx_(rank, size, exchange, how), one_by_one_(ucx_), over_(one_by_one_), any_(over_) {
    // Only the thread waits on this transport, beside the program's threads. For the first 2 ms it
    // waits like a blocking call.
    over_.set_sleeps(true, std::chrono::milliseconds(2));
    server_ = std::thread([this] { serve(); });
  }
  ~ucx_connection() override {
    begun_.end();
    server_.join();
  }
  hcomp::any_transport& transport() override { return any_; }
  hcomp::concurrent_transport& concurrent() { return over_; }
  /// Bytes sent by the current call.
  std::uint64_t bytes_sent(hcomp::c_api::turn const* started) const {
    // A call that runs alone may also send through one_by_one_.
    return started && started->together ? over_.bytes_sent() : one_by_one_.bytes_sent();
  }
  /// Finds the ranks that share a node. Collective; called once, within a call.
  /// @param timeout  limit of one wait
  void find_nodes(std::chrono::milliseconds timeout) {
    nodes_ = hcomp::node::node_ranks::make(one_by_one_, 0, timeout);
  }
  hcomp::node::node_ranks& nodes() override { return nodes_ ? *nodes_ : connection::nodes(); }
  /// The result of find_nodes; null if it failed.
  hcomp::node::node_ranks* known_nodes() { return nodes_ ? &*nodes_ : nullptr; }
  /// Null if no two ranks share memory.
  hcomp::node::node_ranks* shared_nodes() {
    return nodes_ && nodes_->ranks().nodes < any_.size() ? &*nodes_ : nullptr;
  }
  /// The ranks by node, for collectives that work node by node. Null unless ranks are numbered node
  /// by node and a rank's part is long enough to be limited by bandwidth instead of latency.
  hcomp::node::node_ranks* blocks_of_nodes(std::size_t part_bytes) {
    constexpr std::size_t least = 64 * 1024;
    auto* const shared = shared_nodes();
    return shared && shared->ranks().is_by_blocks && part_bytes > least ? shared : nullptr;
  }
  /// Shared memory for uncompressed data if all ranks are on one node; otherwise null.
  hcomp::node::collectives* inside() {
    auto* const shared = shared_nodes();
    return shared && shared->ranks().nodes == 1 ? &shared->inside() : nullptr;
  }
  void begin(hcomp::drop_in::request_queue::work work,
             hcomp::drop_in::request_queue::manner how) override {
    begun_.begin(std::move(work), how);
  }
  /// Returns when all started calls are done. Not callable within a call.
  void wait_for_begun() { begun_.wait_for_all(); }
  void meet(std::string const& call, turn const* started = nullptr,
            bool hierarchical = false) override {
    constexpr char const* what = "make different calls";
    auto* const memory = inside();
    if (memory && started && started->together) {
      begun_.in_turn(over_, started->number, [&] {
        waiting_over const others_go_on(*memory, any_);
        // These messages differ from those of a blocking call.
        hcomp::c_api::agree(*memory, what, "started " + call, "");
      });
    } else if (memory) {
      hcomp::c_api::agree(*memory, what, call, "");
    } else if (started && hierarchical) {
      // Peers may have started a call with different first messages, while this call may wait in
      // shared memory.
      hcomp::c_api::agree(any_, what, call, "");
    }
  }
  void tell_others(hcomp::transport_error const& error) override {
    if (auto* const memory = inside()) memory->fail(error.peer(), error.what());
  }
  std::unique_lock<std::mutex> enter() override {
    auto lock = begun_.wait_for_all();
    was_called_ = true;
    begun_.wake();
    return lock;
  }
  static constexpr std::size_t most_together = 16;

 private:
  /// During its lifetime, other started calls progress while one waits in shared memory.
  class waiting_over {
   public:
    waiting_over(hcomp::node::collectives& memory, hcomp::any_transport& over) : memory_(&memory) {
      memory_->wait_over(&over);
    }
    ~waiting_over() { memory_->wait_over(nullptr); }
    waiting_over(waiting_over const&) = delete;
    waiting_over& operator=(waiting_over const&) = delete;

   private:
    hcomp::node::collectives* memory_;
  };

  void serve() {
    using namespace std::chrono_literals;
    constexpr int often = 1000;  // iterations of 1 ms
    int times = 0;
    auto const make = [&] {
      times = 0;
      begun_.make_all(over_);
    };
    auto const rest = [&](auto& lock, auto& changed, auto const& has_work) {
      if (std::exchange(was_called_, false)) times = 0;
      try {
        ucx_.serve();
      } catch (...) {  // the next call reports the error
      }
      changed.wait_for(lock, times < often ? 1ms : 20ms, [&] { return has_work() || was_called_; });
      ++times;
    };
    begun_.serve(make, rest);
  }

  hcomp::ucx::transport ucx_;
  hcomp::any_transport one_by_one_;
  hcomp::concurrent_transport over_;
  hcomp::any_transport any_;
  hcomp::drop_in::request_queue begun_{most_together};
  std::optional<hcomp::node::node_ranks> nodes_;
  bool was_called_ = false;  ///< protected by the lock of enter
  std::thread server_;
};

/// All-gathers addresses of any length through the caller's all-gather of equal lengths.
std::vector<std::vector<std::byte>> exchanged(int rank, int size, hcomp_exchange exchange,
                                              void* context, std::span<std::byte const> mine) {
  auto const ranks = static_cast<std::size_t>(size);
  auto const gather = [&](auto const* one, std::size_t bytes, auto* all) {
    if (int const status = exchange(context, one, bytes, all); status != 0)
      throw hcomp::transport_error(
          -1, "the exchange of addresses failed, status " + std::to_string(status));
    auto const* const own =
        reinterpret_cast<std::byte const*>(all) + static_cast<std::size_t>(rank) * bytes;
    if (std::memcmp(own, one, bytes) != 0)
      throw hcomp::transport_error(-1, "the exchange did not return this rank's own bytes");
  };
  std::uint64_t const length = mine.size();
  std::vector<std::uint64_t> lengths(ranks);
  gather(&length, sizeof length, lengths.data());
  std::uint64_t longest = 0;
  constexpr std::uint64_t most = std::uint64_t{1} << 20;
  for (auto const one : lengths) {
    if (one > most)
      throw hcomp::transport_error(-1, "the exchange gave an address of " + std::to_string(one) +
                                           " bytes; they have some hundred");
    longest = std::max(longest, one);
  }
  std::vector<std::byte> padded(longest), together(ranks * longest);
  std::ranges::copy(mine, padded.begin());
  gather(padded.data(), longest, together.data());
  std::vector<std::vector<std::byte>> all;
  for (std::size_t r = 0; r < ranks; ++r) {
    auto const* const first = together.data() + r * longest;
    all.emplace_back(first, first + lengths[r]);
  }
  return all;
}

/// The value type for HCOMP_* type codes that codecs support; none otherwise.
std::optional<value_type> value_type_of(int type) {
  constexpr std::array types{value_type::float32,  value_type::float64, value_type::float16,
                             value_type::bfloat16, value_type::int32,   value_type::int64};
  if (type < 0 || static_cast<std::size_t>(type) >= types.size()) return std::nullopt;
  return types[static_cast<std::size_t>(type)];
}

/// Calls `f` with a null pointer of the C++ type. Halves are reduced in shared memory only.
template <class F> void for_plain_type(int type, F const& f) {
  switch (type) {
    case HCOMP_FLOAT: return f(static_cast<float*>(nullptr));
    case HCOMP_DOUBLE: return f(static_cast<double*>(nullptr));
    case HCOMP_INT32: return f(static_cast<std::int32_t*>(nullptr));
    case HCOMP_INT64: return f(static_cast<std::int64_t*>(nullptr));
    case HCOMP_FLOAT16: return f(static_cast<hcomp::float16*>(nullptr));
    case HCOMP_BFLOAT16: return f(static_cast<hcomp::bfloat16*>(nullptr));
    default: throw std::logic_error("type " + std::to_string(type) + " is not added as it is");
  }
}

/// False for halves: each hop would round them.
template <class V>
constexpr bool is_added_on_the_way =
    !std::is_same_v<V, hcomp::float16> && !std::is_same_v<V, hcomp::bfloat16>;

}  // namespace

struct hcomp_group : hcomp::c_api::handle {
  std::shared_ptr<ucx_connection> over;
  hcomp::drop_in::residual_store residuals;
  hcomp::drop_in::plan_cache plans;
  settings chosen;
  hcomp::drop_in::spare_memory spare;  ///< scratch for reduce_scatter

  explicit hcomp_group(std::shared_ptr<ucx_connection> connected)
      : over(std::move(connected)),
        residuals(settings{}.feedback_bytes),
        plans(hcomp::any_transport(over->concurrent()), 0, over->next_handle(), residuals,
              over->known_nodes()) {}

  hcomp::any_transport& transport() { return over->transport(); }
  /// The codec of the first matching rule; none means uncompressed. Without a rule, halves use
  /// `identity` unless all ranks share a node.
  std::optional<codec_spec> how(int type, std::size_t values) const {
    auto const known = value_type_of(type);
    if (!known) return std::nullopt;
    std::size_t const bytes = values * size_of(*known);
    auto const* const rule = chosen.find(*known, bytes, plans.ranks());
    if (rule && rule->spec.codec != "none") return rule->spec;
    bool const is_half = *known == value_type::float16 || *known == value_type::bfloat16;
    if (!is_half || over->inside()) return std::nullopt;
    codec_spec halves;
    halves.codec = "identity";
    return halves;
  }
};

namespace {

/// Runs f(group), a collective. Reports transport errors to the other ranks.
template <class F> auto telling_others(hcomp_group& it, F const& f) {
  try {
    return f(it);
  } catch (hcomp::transport_error const& error) {
    it.over->tell_others(error);
    throw;
  }
}

/// Runs a collective of the group.
/// @param f  (group)
template <class F> int run(char const* function, hcomp_group* group, F const& f) noexcept {
  return guarded(function, [&] {
    auto& it = require(group, "group");
    auto const entered = it.over->enter();
    telling_others(it, f);
  });
}

/// Aborts a call that this rank cannot describe. Sends the error to the ranks that wait in it.
/// @throws std::invalid_argument  on this rank; the other ranks get a wire_error
[[noreturn]] void end(hcomp_group& it, std::string const& why) {
  try {
    auto const words = "rank " + std::to_string(it.plans.rank()) + ": " + why;
    if (auto* const inside = it.over->inside()) inside->revoke(words);
    hcomp::detail::revoke(it.transport(), words);
  } catch (hcomp::wire_error const&) {
    throw std::invalid_argument(why);
  }
}
void require_type(hcomp_group& it, int type) {
  if (type < HCOMP_FLOAT || type > HCOMP_INT64)
    end(it, "type is " + std::to_string(type) + ", it can be 0 to 5, see hcomp_type");
}

/// @param most  no buffer can be longer
void require_length(hcomp_group& it, char const* name, std::size_t length, std::size_t most) {
  if (length > most)
    end(it, std::string(name) + " is " + std::to_string(length) + ", it can be at most " +
                std::to_string(most));
}
constexpr std::size_t most_bytes = std::numeric_limits<std::ptrdiff_t>::max();

/// Describes an invalid buffer; empty if it is valid.
std::string complaint_of(void const* pointer, std::size_t size, char const* name) {
  if (size == 0) return "";
  if (!pointer) return std::string(name) + " is a null pointer";
  if (hcomp::drop_in::is_in_device(pointer))
    return std::string(name) +
           " is in a device's memory; only plans of hcomp_plan_create_group reduce it there";
  return "";
}
/// Runs f(), a collective that all ranks refuse if this rank has a complaint.
/// @throws std::invalid_argument  the complaint
template <class F> hcomp_report complaining(std::string const& complaint, F const& f) {
  try {
    return hcomp::c_api::to_c(f());
  } catch (std::invalid_argument const&) {
    if (!complaint.empty()) throw std::invalid_argument(complaint);
    throw;
  }
}

hcomp::reduce_op result_of(int mean) {
  return mean ? hcomp::reduce_op::mean : hcomp::reduce_op::sum;
}

/// Compares the calls of all ranks, over shared memory or the transport.
/// @param error  why this rank's call is invalid; empty if it is valid
void agree(hcomp_group& it, char const* what, std::string const& call, std::string const& error) {
  auto const& said = error.empty() ? call : error;
  if (auto* const inside = it.over->inside())
    hcomp::c_api::agree(*inside, what, said, error);
  else
    hcomp::c_api::agree(it.transport(), what, said, error);
}

std::string name_of(std::string const& what, std::size_t values, int type, int mean) {
  return what + " of " + std::to_string(values) + " values of type " + std::to_string(type) +
         (mean ? ", the mean" : ", the sum");
}

/// Reduces uncompressed values.
/// @param call      description for error messages
/// @param complaint why this rank's buffers are invalid; empty if they are valid
/// @param f         (pointer to the value type) runs the reduction
template <class F>
hcomp_report reduce_uncompressed(hcomp_group& it, std::string const& call, int type, int mean,
                                 std::string complaint, turn const* started, F const& f) {
  auto const begin = std::chrono::steady_clock::now();
  auto const sent = it.over->bytes_sent(started);
  if (mean && (type == HCOMP_INT32 || type == HCOMP_INT64))
    complaint = "type is " + std::to_string(type) + ", and integers have no mean";
  agree(it, "make different calls", call, complaint);
  for_plain_type(type, f);
  hcomp_report made = {};
  made.bytes_sent = it.over->bytes_sent(started) - sent;
  made.weight = static_cast<std::uint64_t>(it.plans.ranks());
  made.shared_memory = it.over->inside() != nullptr;
  made.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return made;
}

// ---- Collectives, blocking and nonblocking
//
// Each struct has a name in the C API, a predicate for concurrent execution, and a call operator.
// `started` is null for a blocking call.

/// Index among concurrent calls, see plan_cache::all_reduce.
std::size_t place_of(turn const* started) {
  return started && started->together
             ? static_cast<std::size_t>(started->number % ucx_connection::most_together)
             : 0;
}
bool goes_together(codec_spec const& how, std::size_t values, int type) {
  return !how.algorithm.hierarchical &&
         values * size_of(*value_type_of(type)) <= hcomp::drop_in::most_bytes_together;
}

struct all_reduce_call {
  static constexpr char const* name = "hcomp_group_all_reduce";
  void* x;
  std::size_t values;
  int type, mean;

  bool goes_together(hcomp_group& it) const {
    if (auto const how = it.how(type, values)) return ::goes_together(*how, values, type);
    return !it.over->shared_nodes();
  }

  hcomp_report operator()(hcomp_group& it, turn const* started) const {
    require_type(it, type);
    require_length(it, "values", values, most_bytes / sizeof(double));
    auto const call = name_of("all_reduce", values, type, mean);
    auto const complaint = complaint_of(x, values, "x");
    if (auto const how = it.how(type, values)) {
      it.over->meet(call, started, how->algorithm.hierarchical);
      // With an invalid buffer this rank takes part without values, so the other ranks return with
      // an error.
      return complaining(complaint, [&] {
        return it.plans.all_reduce(*value_type_of(type), complaint.empty() ? x : nullptr, values,
                                   *how, x, hcomp::plan_options{}.segment_bytes, result_of(mean),
                                   place_of(started));
      });
    }
    return reduce_uncompressed(it, call, type, mean, complaint, started, [&]<class V>(V*) {
      std::span const all(static_cast<V*>(x), values);
      int const divisor = mean ? it.plans.ranks() : 1;
      if (auto* const inside = it.over->inside()) return inside->all_reduce(all, divisor);
      if constexpr (is_added_on_the_way<V>) {
        if (auto* const nodes = it.over->shared_nodes())
          hcomp::drop_in::all_reduce_by_nodes(*nodes, 0, all, divisor);
        else
          hcomp::drop_in::all_reduce_values(it.transport(), 0, all, divisor);
      }
    });
  }
};

struct reduce_scatter_call {
  static constexpr char const* name = "hcomp_group_reduce_scatter";
  void const* x;
  std::size_t values;
  int type, mean;
  void* part;

  bool goes_together(hcomp_group& it) const {
    auto const all = values * static_cast<std::size_t>(it.plans.ranks());
    if (auto const how = it.how(type, all)) return ::goes_together(*how, all, type);
    auto const known = value_type_of(type);
    return !it.over->inside() && !it.over->blocks_of_nodes(known ? values * size_of(*known) : 0);
  }

  hcomp_report operator()(hcomp_group& it, turn const* started) const {
    require_type(it, type);
    auto const ranks = static_cast<std::size_t>(it.plans.ranks());
    require_length(it, "values", values, std::numeric_limits<int>::max());
    auto const call = name_of("reduce_scatter", values, type, mean);
    auto complaint = complaint_of(part, values, "part");
    if (complaint.empty()) complaint = complaint_of(x, values, "x");
    auto const how = it.how(type, values * ranks);
    if (!how) {
      return reduce_uncompressed(it, call, type, mean, complaint, started,
                                 [&]<class V>(V*) { scatter_as_they_are<V>(it); });
    }
    it.over->meet(call, started, how->algorithm.hierarchical);
    std::vector<int> const counts(ranks, static_cast<int>(values));
    return complaining(complaint, [&] {
      return it.plans.reduce_scatter(*value_type_of(type), complaint.empty() ? x : nullptr, counts,
                                     part, *how, x, hcomp::plan_options{}.segment_bytes,
                                     result_of(mean), place_of(started));
    });
  }

 private:
  template <class V> void scatter_as_they_are(hcomp_group& it) const {
    auto const ranks = static_cast<std::size_t>(it.plans.ranks());
    int const divisor = mean ? it.plans.ranks() : 1;
    std::span const given(static_cast<V const*>(x), values * ranks);
    std::span const mine(static_cast<V*>(part), values);
    if (auto* const inside = it.over->inside())
      return inside->reduce_scatter(given, values, mine, divisor);
    if constexpr (is_added_on_the_way<V>) {
      auto* const nodes = it.over->blocks_of_nodes(values * sizeof(V));
      std::size_t const count =
          nodes ? static_cast<std::size_t>(nodes->ranks().nodes) * values : given.size();
      auto scratch = it.spare.take(count * sizeof(V));
      std::span const all(reinterpret_cast<V*>(scratch.get().data()), count);
      if (nodes)
        return hcomp::drop_in::reduce_scatter_by_nodes(*nodes, 0, given, all, mine, divisor);
      std::ranges::copy(given, all.begin());
      hcomp::drop_in::reduce_scatter_values(it.transport(), 0, all);
      auto const own = all.subspan(static_cast<std::size_t>(it.plans.rank()) * values, values);
      hcomp::node::divide(own, divisor);
      std::ranges::copy(own, mine.begin());
    }
  }
};

struct all_gather_call {
  static constexpr char const* name = "hcomp_group_all_gather";
  void const* mine;
  std::size_t bytes;
  void* all;

  bool goes_together(hcomp_group& it) const {
    return !it.over->inside() && !it.over->blocks_of_nodes(bytes);
  }

  hcomp_report operator()(hcomp_group& it, turn const*) const {
    auto const ranks = static_cast<std::size_t>(it.plans.ranks());
    require_length(it, "bytes", bytes, most_bytes / ranks);
    std::string error = complaint_of(mine, bytes, "mine");
    if (error.empty()) error = complaint_of(all, bytes, "all");
    agree(it, "gather different things", std::to_string(bytes) + " bytes", error);
    std::span const own(static_cast<std::byte const*>(mine), bytes);
    std::span const together(static_cast<std::byte*>(all), ranks * bytes);
    if (auto* const inside = it.over->inside())
      inside->all_gather(own, together);
    else if (auto* const nodes = it.over->blocks_of_nodes(bytes))
      hcomp::drop_in::all_gather_by_nodes(*nodes, 0, own, together);
    else
      hcomp::drop_in::all_gather_bytes(it.transport(), 0, own, together);
    return {};
  }
};

struct broadcast_call {
  static constexpr char const* name = "hcomp_group_broadcast";
  void* x;
  std::size_t bytes;
  int root;

  bool goes_together(hcomp_group& it) const { return !it.over->inside(); }

  hcomp_report operator()(hcomp_group& it, turn const*) const {
    require_length(it, "bytes", bytes, most_bytes);
    std::string error = complaint_of(x, bytes, "x");
    if (root < 0 || root >= it.plans.ranks())
      error = "root is " + std::to_string(root) + ", the group has " +
              std::to_string(it.plans.ranks()) + " ranks (0 to " +
              std::to_string(it.plans.ranks() - 1) + ")";
    agree(it, "broadcast different things",
          std::to_string(bytes) + " bytes of rank " + std::to_string(root), error);
    std::span const everything(static_cast<std::byte*>(x), bytes);
    if (auto* const inside = it.over->inside())
      inside->broadcast(everything, root);
    else
      hcomp::drop_in::broadcast_bytes(it.transport(), 0, everything, root);
    return {};
  }
};

template <class Call>
int make(hcomp_group* group, Call const& call, hcomp_report* report = nullptr) noexcept {
  return run(Call::name, group, [&](hcomp_group& it) {
    auto const made = call(it, nullptr);
    if (report) *report = made;
  });
}
/// @param function  the C function that starts the call
template <class Call>
int start(char const* function, hcomp_group* group, Call const& call,
          hcomp_request** request) noexcept {
  if (request) *request = nullptr;
  return guarded(function, [&] {
    auto& it = require(group, "group");
    bool const together = call.goes_together(it);
    require(request, "request") = hcomp::c_api::start(
        *it.over, Call::name,
        {.together = together, .directly = !together && it.over->inside() != nullptr},
        [call, &it](std::string&, turn const& now) {
          return telling_others(it, [&](hcomp_group& own) { return call(own, &now); });
        });
  });
}

}  // namespace

int hcomp_group_create(int rank, int size, hcomp_exchange exchange, void* context, int timeout_ms,
                       uint64_t id, hcomp_group** group) {
  if (group) *group = nullptr;
  return guarded(__func__, [&] {
    if (!exchange) throw std::invalid_argument("exchange is a null pointer");
    if (timeout_ms < 0)
      throw std::invalid_argument("timeout_ms is " + std::to_string(timeout_ms) +
                                  ", it can be 0 and more");
    auto& place = require(group, "group");
    auto over = std::make_shared<ucx_connection>(
        rank, size,
        [&](std::span<std::byte const> mine) {
          return exchanged(rank, size, exchange, context, mine);
        },
        hcomp::ucx::options{.timeout = std::chrono::milliseconds(timeout_ms), .group = id});
    auto const entered = over->enter();
    over->find_nodes(std::chrono::milliseconds(timeout_ms));
    place = std::make_unique<hcomp_group>(over).release();
  });
}

int hcomp_group_free(hcomp_group** group) {
  return guarded(__func__, [&] {
    auto const it = taken(group, "group");
    if (it) it->over->wait_for_begun();
  });
}

int hcomp_plan_create_group(hcomp_group* group, size_t values, int type, char const* codec_text,
                            hcomp_plan** plan) {
  if (plan) *plan = nullptr;
  return run(__func__, group, [&](hcomp_group& it) {
    it.over->meet("create");
    hcomp::c_api::create_plan(it.over, values, value_type_of(type), codec_text, plan);
  });
}

int hcomp_group_set(hcomp_group* group, char const* text) {
  return run(__func__, group, [&](hcomp_group& it) {
    settings wanted;
    std::string said = "no rules", error;
    try {
      if (text) wanted = settings::from(text);
      if (text) said = "'" + wanted.text() + "'";
    } catch (std::invalid_argument const& wrong) {
      said = error = hcomp::c_api::without("HCOMP_CONFIG: ", wrong.what());
    }
    it.over->meet("set");
    hcomp::c_api::agree(it.transport(), "have different settings", said, error);
    it.chosen = wanted;
  });
}

int hcomp_group_all_reduce(hcomp_group* group, void* x, size_t values, int type, int mean,
                           hcomp_report* report) {
  return make(group, all_reduce_call{x, values, type, mean}, report);
}
int hcomp_group_reduce_scatter(hcomp_group* group, void const* x, size_t values, int type, int mean,
                               void* part, hcomp_report* report) {
  return make(group, reduce_scatter_call{x, values, type, mean, part}, report);
}
int hcomp_group_all_gather(hcomp_group* group, void const* mine, size_t bytes, void* all) {
  return make(group, all_gather_call{mine, bytes, all});
}
int hcomp_group_broadcast(hcomp_group* group, void* x, size_t bytes, int root) {
  return make(group, broadcast_call{x, bytes, root});
}

int hcomp_group_all_reduce_start(hcomp_group* group, void* x, size_t values, int type, int mean,
                                 hcomp_request** request) {
  return start(__func__, group, all_reduce_call{x, values, type, mean}, request);
}
int hcomp_group_reduce_scatter_start(hcomp_group* group, void const* x, size_t values, int type,
                                     int mean, void* part, hcomp_request** request) {
  return start(__func__, group, reduce_scatter_call{x, values, type, mean, part}, request);
}
int hcomp_group_all_gather_start(hcomp_group* group, void const* mine, size_t bytes, void* all,
                                 hcomp_request** request) {
  return start(__func__, group, all_gather_call{mine, bytes, all}, request);
}
int hcomp_group_broadcast_start(hcomp_group* group, void* x, size_t bytes, int root,
                                hcomp_request** request) {
  return start(__func__, group, broadcast_call{x, bytes, root}, request);
}

char const* hcomp_built_for() {
#define HCOMP_TEXT(x) #x
#define HCOMP_NUMBERS(a, b) HCOMP_TEXT(a) "." HCOMP_TEXT(b)
  return "UCX " HCOMP_NUMBERS(UCP_API_MAJOR, UCP_API_MINOR) ", no MPI";
}
