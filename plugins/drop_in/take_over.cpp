#include "take_over.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <hcomp/core/detail/printable.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/mpi/call.hpp>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "cuda_memory.hpp"
#include "library.hpp"
#include "mpi_type.hpp"
#include "passed_calls.hpp"

namespace hcomp::drop_in {

namespace {

/// A call that is taken over, or why it is not.
struct decision {
  rule const* as = nullptr;
  value_type type = value_type::float32;
  int ranks = 0;
  char const* why = "";
};

decision decide(library& lib, reduction_call const& call, bool nonblocking) {
  decision d;
  if (call.op != MPI_SUM) return d.why = "not MPI_SUM", d;
  auto const type = type_of(call.type);
  if (!type) return d.why = "no float, double or integer of 32 or 64 bits", d;
  d.type = *type;
  if (call.count <= 0) return d.why = "no values", d;
  if (call.comm == MPI_COMM_NULL) return d.why = "no communicator", d;
  int inter = 0;
  if (PMPI_Comm_test_inter(call.comm, &inter) != MPI_SUCCESS || inter)
    return d.why = "an intercommunicator", d;
  PMPI_Comm_size(call.comm, &d.ranks);
  if (d.ranks < 2) return d.why = "one rank", d;
  auto const bytes = static_cast<std::size_t>(call.count) * size_of(d.type);
  auto const& settings = lib.settings_of(call.comm);
  auto const* const found = settings.find(d.type, bytes, d.ranks);
  if (!found) return d.why = settings.why_none(d.type, bytes, d.ranks), d;
  if (found->sum.codec == "none") return d.why = "rule says none", d;
  if (nonblocking && !lib.has_threads())
    return d.why = "needs MPI_THREAD_MULTIPLE (nonblocking=yes asks for it)", d;
  d.as = found;
  return d;
}

/// Wrong buffers are left to MPI, whose errors these are. Right ones are so on all ranks: what each
/// rank decides alone here must not depend on anything that may differ between them, such as a part
/// of no values, for which there need not be a buffer.
bool has_buffers(reduction_call const& call) {
  if (!call.send) return false;
  return !call.receives ||
         (call.receive && call.receive != MPI_IN_PLACE && call.receive != call.send);
}

bool uses_device(reduction_call const& call) {
  return (call.send != MPI_IN_PLACE && is_in_device(call.send)) || is_in_device(call.receive);
}

site_figures figures_of(reduction_call const& call, int ranks) {
  site_figures one;
  one.calls = 1;
  one.smallest = one.largest = static_cast<std::uint64_t>(std::max(call.count, 0));
  if (auto const type = type_of(call.type); type && ranks > 0)
    one.bytes_plain = (call.scatters ? 1 : 2) * static_cast<std::uint64_t>(ranks - 1) *
                      one.largest * size_of(*type) / static_cast<std::uint64_t>(ranks);
  return one;
}

void note_passed(library& lib, reduction_call const& call, decision const& d) {
  ++so_far.calls_left;
  if (lib.reports())
    lib.passed().add({call.caller, call.function, d.why, call.type, d.ranks},
                     figures_of(call, d.ranks));
}

/// Says so once per text.
void warn(int rank, std::string const& text) {
  static std::mutex mutex;
  static std::map<std::string, bool> said;
  std::lock_guard const lock(mutex);
  if (rank == 0 && !std::exchange(said[text], true))
    std::fprintf(stderr, "hcomp: %s\n", hcomp::detail::printable(text).c_str());
}

void print(std::string const& text) {
  std::fprintf(stderr, "hcomp: %s\n", hcomp::detail::printable(text).c_str());
  std::fflush(stderr);
}

/// An error of hcomp as one of MPI's.
int raise(reduction_call const& call, char const* what) {
  print(std::string(call.function) + ": " + what);
  if (call.raises) PMPI_Comm_call_errhandler(call.comm, MPI_ERR_OTHER);
  return MPI_ERR_OTHER;
}

/// Sums by MPI within a sum of ours come back to what stands inside MPI, which must not take them.
thread_local bool is_summing = false;
class summing_now {
 public:
  summing_now() : was_summing_(std::exchange(is_summing, true)) {}
  ~summing_now() { is_summing = was_summing_; }
  summing_now(summing_now const&) = delete;
  summing_now& operator=(summing_now const&) = delete;

 private:
  bool was_summing_;
};
/// Null where nothing is to be taken over.
library* taking() { return is_summing ? nullptr : library::running(); }

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Exactly, where integers wrap around, too.
template <class V> double difference_of(V a, V b) {
  if constexpr (std::is_integral_v<V>) {
    using word = std::make_unsigned_t<V>;
    return static_cast<double>(static_cast<V>(static_cast<word>(a) - static_cast<word>(b)));
  } else {
    return static_cast<double>(a) - static_cast<double>(b);
  }
}

template <class V>
void compare(site_figures& figures, void const* sum, void const* exact, std::size_t values) {
  auto const* const ours = static_cast<V const*>(sum);
  auto const* const mpis = static_cast<V const*>(exact);
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < values; ++i) {
    double const e = static_cast<double>(mpis[i]), d = difference_of(ours[i], mpis[i]);
    if (!std::isfinite(d)) continue;
    figures.worst_error = std::max(figures.worst_error, std::fabs(d));
    difference += d * d;
    norm += e * e;
  }
  figures.worst_relative =
      std::max(figures.worst_relative,
               norm > 0 ? std::sqrt(difference / norm) : (difference > 0 ? HUGE_VAL : 0.0));
  ++figures.compared;
}

/// Messages that MPI libraries send without asking first: a thread beside a calculation answers
/// late, and asking would take longer than sending.
constexpr std::size_t short_segment_bytes = 56 * 1024;
/// Up to which several sums are under way at a time: what they wait for is latency. A longer one fills the
/// link by itself, and more plans would take more memory.
constexpr std::size_t most_bytes_together = std::size_t{1} << 20;

/// A sum over all ranks by the rule, unless it is found to be MPI's.
struct summing {
  library* lib;
  reduction_call call;
  decision d;
  // copies: in a thread, the program's communicator and its settings may be gone meanwhile
  rule as;
  std::size_t shadow_calls;
  std::span<int const> counts;  ///< of a reduce-scatter; none: all ranks get all of the sum
  bool is_out_of_reach;         ///< buffers in a device's memory, which nobody here may touch
  bool is_timed = false;        ///< it is not compared with MPI's own
  bool is_look = false;         ///< of a part of a vector, for nothing: nobody is told

  summing(library& l, reduction_call const& c, decision const& taken,
          std::span<int const> counts_of_ranks = {})
      : lib(&l),
        call(c),
        d(taken),
        as(*taken.as),
        shadow_calls(l.settings_of(c.comm).shadow_calls),
        counts(counts_of_ranks),
        is_out_of_reach(uses_device(c)) {
    d.as = nullptr;
  }

  std::size_t values() const { return static_cast<std::size_t>(call.count); }
  std::size_t bytes() const { return values() * size_of(d.type); }
  void const* input() const { return call.send == MPI_IN_PLACE ? call.receive : call.send; }
  /// Whether others may be under way at the same time: not beside MPI's own sums, with which it is
  /// compared, nor where all use the same shared memory.
  bool goes_together() const {
    return bytes() <= most_bytes_together && as.check_every == 0 && shadow_calls == 0 &&
           !as.sum.how.by_hosts;
  }

  /// False, on all ranks alike, if MPI has to do it, and then x is as it was: the codec cannot
  /// carry what is summed, or it is out of some rank's reach.
  /// @param x  the input, on return the sum; of a reduce-scatter room for this rank's part; not
  ///           looked at if it is out of reach
  /// @param place  see summer::all_reduce
  /// @throws disagreement_error, wire_error, transport_error, std::bad_alloc
  bool operator()(communicator& state, void* x, std::size_t place = 0) const {
    summing_now const guard;
    if (is_out_of_reach) x = nullptr;  // the plan tells the other ranks
    auto& sums = state.sums();
    std::size_t const result =
        counts.empty() ? values() : static_cast<std::size_t>(counts[rank_in(sums)]);
    bool const only_tried = !is_look && state.next_call() < shadow_calls;
    bool const is_checked =
        as.check_every > 0 && !is_timed &&
        state.next_call_by(as.text()) % static_cast<std::uint64_t>(as.check_every) == 0;
    bool const compared = only_tried || is_checked;
    auto figures = figures_of(call, d.ranks);
    std::optional<std::string> left_because;  // MPI has to do it

    std::vector<std::byte> plain;
    compared_seconds seconds{.calls = 1};
    // Who comes first waits for the others, in whichever of both sums is the first: before both.
    auto const begun_together = [&] {
      if (compared) wait_for_all(state);
      return std::chrono::steady_clock::now();
    };
    if (compared) {
      plain.resize(result * size_of(d.type));
      if (counts.empty() && x) std::memcpy(plain.data(), x, plain.size());
      auto const begin = begun_together();
      sum_by_mpi(state, plain.data());
      seconds.plain = seconds_since(begin);
    }
    auto const plans_before = sums.plans_made();
    auto const begin = begun_together();
    try {
      auto const made = sum_by_rule(sums, x, state.is_aside(), place);
      figures.bytes_sent = made.bytes_sent;
      figures.seconds_codec = made.seconds_encode + made.seconds_merge + made.seconds_decode;
      figures.seconds = seconds_since(begin);
      figures.told_error = made.error;
      figures.beyond_bound = made.is_beyond_bound();
      if (compared) {
        seconds.own = figures.seconds;
        seconds.codec = figures.seconds_codec;
        (sums.plans_made() > plans_before ? figures.first : figures.later) = seconds;
        compare(figures, x, plain.data(), result);
      }
    } catch (nonfinite_error const&) {
      left_because = "NaN or infinity, or too large for " + as.sum.text();
    } catch (memory_error const&) {
      left_because = "a buffer in a device's memory";
    } catch (std::invalid_argument const& cannot) {  // on all ranks alike
      left_because = cannot.what();
      if (!is_look)
        warn(sums.rank(), std::string(call.function) + " of " + std::to_string(call.count) +
                              " values is left to MPI: " + cannot.what());
    }
    if (only_tried && !left_because)
      std::copy(plain.begin(), plain.end(), static_cast<std::byte*>(x));
    if (is_look) return !left_because;
    if (left_because) {
      ++so_far.calls_left;
    } else {
      ++so_far.calls_taken;
      so_far.bytes_plain += figures.bytes_plain;
      so_far.bytes_sent += figures.bytes_sent;
    }
    if (lib->reports())
      lib->journal().add(site_of(call.function, call.caller, call.type, d.ranks,
                                 left_because ? "MPI" : as.sum.text(),
                                 left_because ? *left_because : "rule '" + as.text() + "'"),
                         figures);
    return !left_because;
  }

  /// Returns when all ranks have called it.
  void wait_for_all(communicator& state) const {
    mpi::require(PMPI_Barrier(comm_of(state)), "MPI_Barrier");
  }
  MPI_Comm comm_of(communicator& state) const {
    return state.is_aside() ? state.private_copy() : call.comm;
  }

 private:
  void compare(site_figures& figures, void const* sum, void const* exact, std::size_t n) const {
    switch (d.type) {
      case value_type::float32: return drop_in::compare<float>(figures, sum, exact, n);
      case value_type::int32: return drop_in::compare<std::int32_t>(figures, sum, exact, n);
      case value_type::int64: return drop_in::compare<std::int64_t>(figures, sum, exact, n);
      default: return drop_in::compare<double>(figures, sum, exact, n);
    }
  }
  static std::size_t rank_in(summer const& sums) { return static_cast<std::size_t>(sums.rank()); }

  report sum_by_rule(summer& sums, void* x, bool is_aside, std::size_t place) const {
    auto const segment = is_aside ? short_segment_bytes : plan_options{}.segment_bytes;
    if (counts.empty())
      return sums.all_reduce(d.type, x, values(), as.sum, call.receive, segment, reduction::sum,
                             place);
    return sums.reduce_scatter(d.type, x ? input() : nullptr, counts, x, as.sum, call.receive,
                               segment);
  }
  void sum_by_mpi(communicator& state, void* x) const {
    MPI_Comm const comm = comm_of(state);
    if (counts.empty())
      mpi::require(PMPI_Allreduce(MPI_IN_PLACE, x, call.count, call.type, MPI_SUM, comm),
                   "MPI_Allreduce");
    else
      mpi::require(PMPI_Reduce_scatter(x == input() ? MPI_IN_PLACE : input(), x, counts.data(),
                                       call.type, MPI_SUM, comm),
                   "MPI_Reduce_scatter");
  }
};

constexpr char const* why_quicker = "MPI's own sum is quicker (when=quicker)";
constexpr char const* why_timed = "timed beside the codec's sums (when=quicker)";

/// MPI's own function for a kind of sum.
struct function_of_mpi {
  std::string_view name;
  int (*call)(reduction_call const&, std::span<int const> counts);
};
constexpr function_of_mpi mpi_all_reduce{
    "MPI_Allreduce", [](reduction_call const& one, std::span<int const>) {
      return PMPI_Allreduce(one.send, one.receive, one.count, one.type, one.op, one.comm);
    }};
constexpr function_of_mpi mpi_reduce{
    "MPI_Reduce", [](reduction_call const& one, std::span<int const>) {
      return PMPI_Reduce(one.send, one.receives ? one.receive : nullptr, one.count, one.type,
                         one.op, one.root, one.comm);
    }};
constexpr function_of_mpi mpi_reduce_scatter{
    "MPI_Reduce_scatter", [](reduction_call const& one, std::span<int const> counts) {
      return PMPI_Reduce_scatter(one.send, one.receive, counts.data(), one.type, one.op, one.comm);
    }};
constexpr function_of_mpi mpi_reduce_scatter_block{
    "MPI_Reduce_scatter_block", [](reduction_call const& one, std::span<int const> counts) {
      return PMPI_Reduce_scatter_block(one.send, one.receive, counts[0], one.type, one.op,
                                       one.comm);
    }};

/// Part of a vector in memory of its own, which can be summed as all of it.
struct part_of_vector {
  /// @param part    1 / part of the vector, but no less than MPI sends as one message to begin with
  /// @param number  other parts for other numbers, the same on all ranks
  part_of_vector(summing const& whole, int part, std::uint64_t number) : sum(whole) {
    constexpr std::size_t least_bytes = 16 * 1024;
    std::size_t const all = whole.values(), size = size_of(whole.d.type),
                      wanted = std::clamp(all / static_cast<std::size_t>(part),
                                          std::min(all, least_bytes / size), all);
    std::size_t values = wanted;
    if (!whole.counts.empty()) {
      values = 0;
      for (int const count : whole.counts) {
        counts.push_back(
            static_cast<int>((static_cast<std::size_t>(count) * wanted + all - 1) / all));
        values += static_cast<std::size_t>(counts.back());
      }
    }
    in.resize(values * size);
    out.resize(in.size());
    if (!whole.is_out_of_reach) {
      std::size_t const first = number * values % (all - values + 1);
      std::memcpy(in.data(), static_cast<std::byte const*>(whole.input()) + first * size,
                  in.size());
    }
    sum.call.send = in.data();
    sum.call.receive = out.data();
    sum.call.count = static_cast<int>(values);
    sum.counts = counts;
    sum.is_timed = sum.is_look = true;
  }
  part_of_vector(part_of_vector const&) = delete;
  part_of_vector& operator=(part_of_vector const&) = delete;

  std::vector<std::byte> in, out;
  std::vector<int> counts;
  summing sum;
};

std::int64_t nanoseconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now() - begin).count();
}

template <class F> std::int64_t nanoseconds_of(F const& f) {
  auto const begin = std::chrono::steady_clock::now();
  f();
  return nanoseconds_since(begin);
}

/// Sums by whichever way is quicker, see quicker_way.
/// @param make  makes a sum by its rule, as for take
template <class Make> class quicker_sum {
 public:
  quicker_sum(communicator& state, summing sum, function_of_mpi const& by_mpi, Make const& make)
      : state_(state),
        sum_(std::move(sum)),
        by_mpi_(by_mpi),
        make_(make),
        way_(state.way_of(sum_.as.text(), by_mpi.name, sum_.bytes())) {}

  /// Returns the code of MPI.
  int operator()() {
    summing_now const guard;
    if (state_.calls() < sum_.shadow_calls) return by_codec(sum_);
    if (way_.compares()) way_.learn_mean(united(way_.figures()));
    if (int const part = way_.look_at(); part > 0) look(part);
    bool const by_mpi = way_.by() == quicker_way::way::mpi;
    sum_.is_timed = way_.is_timed();
    if (by_mpi) {
      sum_.d.why = sum_.is_timed ? why_timed : why_quicker;
      note_passed(*sum_.lib, sum_.call, sum_.d);
    }
    if (sum_.is_timed) sum_.wait_for_all(state_);
    auto const begin = std::chrono::steady_clock::now();
    int const code = by_mpi ? by_mpi_.call(sum_.call, sum_.counts) : by_codec(sum_);
    way_.add(nanoseconds_since(begin), sum_.bytes());
    if (way_.ends_trial()) way_.learn_trial(united(way_.medians()));
    return code;
  }

 private:
  /// What it cannot carry goes on to MPI.
  int by_codec(summing const& sum) {
    return make_(state_, sum) ? MPI_SUCCESS : by_mpi_.call(sum.call, sum.counts);
  }
  void look(int part) {
    part_of_vector const piece(sum_, part, way_.looks());
    auto const& sums = state_.sums();
    auto const wait = [&] { sum_.wait_for_all(state_); };
    auto const mpis = [&] {
      mpi::require(by_mpi_.call(piece.sum.call, piece.sum.counts), sum_.call.function);
    };
    auto const codecs = [&] { mpi::require(by_codec(piece.sum), sum_.call.function); };
    wait();
    auto const begin = std::chrono::steady_clock::now();
    auto const mpi = nanoseconds_of(mpis), waited = nanoseconds_of(wait);
    auto const plans = sums.plans_made();
    auto codec = nanoseconds_of(codecs);
    if (sums.plans_made() > plans) {  // it has touched new memory
      wait();
      codec = nanoseconds_of(codecs);
    }
    // the wait before all, and the comparison of figures, take about as long as that wait
    auto const cost = nanoseconds_since(begin) + 2 * waited;
    way_.learn_look(united(way_.figures_of_look(mpi, codec, cost)));
  }
  way_figures united(way_figures mine) {
    static_assert(sizeof mine == 4 * sizeof(std::int64_t));
    mpi::require(PMPI_Allreduce(MPI_IN_PLACE, &mine, 4, MPI_INT64_T, MPI_MAX, sum_.comm_of(state_)),
                 "MPI_Allreduce");
    return mine;
  }

  communicator& state_;
  summing sum_;
  function_of_mpi const& by_mpi_;
  Make const& make_;
  quicker_way& way_;
};

/// Makes the sum of the call if it is to be taken over.
/// @param counts  of a reduce-scatter, for all ranks
/// @param by_mpi  for sums that are made by whichever way is quicker
/// @param make    (state, sum) makes it and puts it where it belongs, or returns false: it is MPI's
template <class Make>
bool take(reduction_call const& call, int& code, std::span<int const> counts,
          function_of_mpi const& by_mpi, Make const& make) {
  auto* const lib = taking();
  if (!lib) return false;
  auto const d = decide(*lib, call, false);
  if (!d.as || !has_buffers(call)) {
    note_passed(*lib, call, d);
    return false;
  }
  code = MPI_SUCCESS;
  bool is_done = true;
  try {
    lib->state_of(call.comm)->run([&](communicator& state) {
      summing sum(*lib, call, d, counts);
      if (sum.as.if_quicker)
        code = quicker_sum(state, std::move(sum), by_mpi, make)();
      else
        is_done = make(state, sum);
    });
  } catch (std::exception const& error) {
    code = raise(call, error.what());
  }
  return is_done;
}

/// A sum in the receive buffer.
/// @param place  see summer::all_reduce
bool sum_in_place(communicator& state, summing const& sum, std::size_t place = 0) {
  if (sum.call.send != MPI_IN_PLACE && !sum.is_out_of_reach)
    std::memcpy(sum.call.receive, sum.call.send, sum.bytes());
  return sum(state, sum.call.receive, place);
}

/// Requests whose sum is not finished.
struct requests_under_way {
  void add(MPI_Request request) {
    std::lock_guard const lock(mutex_);
    requests_.insert(request);
    count_ = static_cast<int>(requests_.size());
  }
  void remove(MPI_Request request) {
    {
      std::lock_guard const lock(mutex_);
      requests_.erase(request);
      count_ = static_cast<int>(requests_.size());
    }
    changed_.notify_all();
  }
  bool is_empty() const { return count_.load(std::memory_order_relaxed) == 0; }
  bool has(MPI_Request request) {
    std::lock_guard const lock(mutex_);
    return requests_.contains(request);
  }
  void wait_for(MPI_Request request) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !requests_.contains(request); });
  }

 private:
  std::atomic<int> count_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<MPI_Request> requests_;
};
requests_under_way& under_way() {
  static auto& all = *new requests_under_way;  // outlives threads at the program's end
  return all;
}

/// In a communicator's thread.
void sum_aside(communicator& state, summing const& sum, std::uint64_t number, MPI_Request request,
               int tag) {
  is_summing = true;  // for good: all that this thread asks of MPI is for sums
  try {
    if (!sum_in_place(state, sum, sum.goes_together() ? number % communicator::most_together : 0)) {
      // All ranks have MPI's sums in this order, and whoever waits in one of them has done what others
      // need of it before.
      state.wait_for_earlier(number);
      mpi::require(PMPI_Allreduce(sum.call.send, sum.call.receive, sum.call.count, sum.call.type,
                                  MPI_SUM, state.private_copy()),
                   "MPI_Allreduce");
    }
  } catch (std::exception const& error) {
    print(std::string(sum.call.function) + ": " + error.what());
    PMPI_Comm_call_errhandler(state.private_copy(), MPI_ERR_OTHER);
    PMPI_Abort(MPI_COMM_WORLD, 2);  // a request cannot tell an error
  }
  sum.lib->finish_request(tag);
  under_way().remove(request);
}

/// Persistent requests.
struct persistent_sum {
  summing sum;
  std::shared_ptr<communicator> state;
  int tag;
};
std::mutex persistent_mutex;
std::map<MPI_Request, persistent_sum> persistent;
std::atomic<int> persistent_count{0};

}  // namespace

bool all_reduce(reduction_call const& call, int& code) noexcept {
  return take(call, code, {}, mpi_all_reduce,
              [](communicator& state, summing const& sum) { return sum_in_place(state, sum); });
}

bool reduce(reduction_call const& call, int root, int& code) noexcept {
  if (call.comm == MPI_COMM_NULL) return false;
  int rank = 0, ranks = 0;
  PMPI_Comm_rank(call.comm, &rank);
  PMPI_Comm_size(call.comm, &ranks);
  if (root < 0 || root >= ranks) return false;
  auto here = call;
  here.root = root;
  here.receives = rank == root;
  if (!here.receives) here.receive = const_cast<void*>(call.send);  // any pointer
  return take(here, code, {}, mpi_reduce, [&](communicator& state, summing const& sum) {
    auto const* const from = static_cast<std::byte const*>(sum.input());
    std::vector<std::byte> x;
    if (!sum.is_out_of_reach) x.assign(from, from + sum.bytes());
    if (!sum(state, x.data())) return false;
    if (rank == root) std::memcpy(sum.call.receive, x.data(), x.size());
    return true;
  });
}

namespace {

bool reduce_scatter_by(function_of_mpi const& by_mpi, reduction_call const& call, int const* counts,
                       int& code) {
  if (call.comm == MPI_COMM_NULL || !counts) return false;
  int ranks = 0;
  PMPI_Comm_size(call.comm, &ranks);
  std::int64_t all = 0;
  for (int r = 0; r < ranks; ++r) {
    if (counts[r] < 0) return false;
    all += counts[r];
  }
  if (all < least_count.load(std::memory_order_relaxed) || all > std::numeric_limits<int>::max())
    return false;
  auto whole = call;
  whole.count = static_cast<int>(all);
  whole.scatters = true;
  int rank = 0;
  PMPI_Comm_rank(call.comm, &rank);
  static std::byte nothing;
  if (counts[rank] == 0 && !call.receive) whole.receive = &nothing;  // any pointer
  return take(whole, code, {counts, static_cast<std::size_t>(ranks)}, by_mpi,
              [](communicator& state, summing const& sum) { return sum(state, sum.call.receive); });
}

}  // namespace

bool reduce_scatter(reduction_call const& call, int const* counts, int& code) noexcept {
  return reduce_scatter_by(mpi_reduce_scatter, call, counts, code);
}

bool reduce_scatter_block(reduction_call const& call, int count, int& code) noexcept {
  if (call.comm == MPI_COMM_NULL) return false;
  int ranks = 0;
  PMPI_Comm_size(call.comm, &ranks);
  if (count < 0 || std::int64_t{count} * ranks < least_count.load(std::memory_order_relaxed))
    return false;
  std::vector<int> const counts(static_cast<std::size_t>(ranks), count);
  return reduce_scatter_by(mpi_reduce_scatter_block, call, counts.data(), code);
}

namespace {

/// As blocking sums before it have found; the time of this one would be that of what the program does
/// meanwhile, too.
bool is_quicker_by_mpi(communicator& state, reduction_call const& call, decision const& d) {
  auto const bytes = static_cast<std::size_t>(call.count) * size_of(d.type);
  return state.way_of(d.as->text(), mpi_all_reduce.name, bytes).used() == quicker_way::way::mpi;
}

/// For sums that a request stands for.
/// @param keep  (state, sum, tag) begins it, or keeps it for later; the request is there
template <class Keep>
bool take_with_request(reduction_call const& call, bool is_persistent, MPI_Request* request,
                       int& code, Keep const& keep) {
  auto* const lib = taking();
  if (!lib) return false;
  auto d = decide(*lib, call, true);
  if (!d.as || !has_buffers(call)) {
    note_passed(*lib, call, d);
    return false;
  }
  code = MPI_SUCCESS;
  try {
    auto const state = lib->state_of(call.comm);
    if (d.as->if_quicker && is_quicker_by_mpi(*state, call, d)) {
      d.why = why_quicker;
      note_passed(*lib, call, d);
      return false;
    }
    int tag = 0;
    mpi::require(lib->make_request(is_persistent, request, tag), "a request");
    keep(state, summing(*lib, call, d), tag);
  } catch (std::exception const& error) {
    code = raise(call, error.what());
  }
  return true;
}

void begin(communicator& state, summing const& sum, MPI_Request request, int tag) {
  under_way().add(request);
  state.begin(
      [sum, request, tag](communicator& me, std::uint64_t number) {
        sum_aside(me, sum, number, request, tag);
      },
      sum.goes_together());
}

}  // namespace

bool iall_reduce(reduction_call const& call, MPI_Request* request, int& code) noexcept {
  return take_with_request(call, false, request, code,
                           [&](std::shared_ptr<communicator> const& state, summing const& sum,
                               int tag) { begin(*state, sum, *request, tag); });
}

bool all_reduce_init(reduction_call const& call, MPI_Request* request, int& code) noexcept {
  return take_with_request(
      call, true, request, code,
      [&](std::shared_ptr<communicator> const& state, summing const& sum, int tag) {
        state->run([](communicator& me) { me.sums(); });  // the copy, before it may be freed
        state->keep();
        std::lock_guard const lock(persistent_mutex);
        persistent.insert_or_assign(*request, persistent_sum{sum, state, tag});
        ++persistent_count;
      });
}

void started(MPI_Request request) noexcept {
  if (persistent_count.load(std::memory_order_relaxed) == 0) return;
  std::lock_guard const lock(persistent_mutex);
  auto const found = persistent.find(request);
  if (found == persistent.end()) return;
  begin(*found->second.state, found->second.sum, request, found->second.tag);
}

void wait_for(MPI_Request request) noexcept {
  if (!under_way().is_empty()) under_way().wait_for(request);
}

bool is_under_way(MPI_Request const* requests, int count) noexcept {
  return !under_way().is_empty() &&
         std::any_of(requests, requests + count, [](auto one) { return under_way().has(one); });
}

int refuse_to_cancel() noexcept {
#ifndef OPEN_MPI  // which only returns the code for its own
  PMPI_Comm_call_errhandler(MPI_COMM_WORLD, MPI_ERR_REQUEST);
#endif
  return MPI_ERR_REQUEST;
}

void request_freed(MPI_Request request) noexcept {
  if (!under_way().is_empty()) under_way().remove(request);
  if (persistent_count.load(std::memory_order_relaxed) == 0) return;
  std::shared_ptr<communicator> state;
  {
    std::lock_guard const lock(persistent_mutex);
    auto const found = persistent.find(request);
    if (found == persistent.end()) return;
    state = std::move(found->second.state);
    persistent.erase(found);
    --persistent_count;
  }
  if (auto* const lib = library::running(); lib && state->let_go()) lib->forget(*state);
}

}  // namespace hcomp::drop_in
