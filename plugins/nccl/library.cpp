#include "library.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <hcomp/gpu/error.hpp>
#include <iterator>
#include <stdexcept>
#include <string_view>
#include <utility>

#include <c/device_plan.hpp>
#include <cuda/used_device.hpp>
#include <drop_in/environment.hpp>

namespace hcomp::drop_in {

namespace {

using nccl::detail::success;

/// FNV-1a, equal on all machines.
std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (char const one : text) hash = (hash ^ static_cast<unsigned char>(one)) * 0x100000001b3;
  return hash;
}

/// Ranks with equal numbers are on one node for NCCL.
std::uint64_t node_number() {
  if (auto const id = variable("NCCL_HOSTID"); !id.empty()) return hash_of(id);
  char name[256] = "";
  gethostname(name, sizeof(name) - 1);
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  return hash_of(std::string(name) + " " + boot);
}

/// Process numbers can be equal in two namespaces of a node.
std::uint64_t process_number() {
  char space[64] = "";
  if (readlink("/proc/self/ns/pid", space, sizeof(space) - 1) < 0) space[0] = 0;
  return hash_of(std::string(space) + " " + std::to_string(getpid()));
}

/// The calls that this thread keeps until the end of a group.
struct open_group {
  int depth = 0;
  std::vector<reduction_call> kept;
};
thread_local open_group group_of_thread;

char const* const in_graph = "the first call of its communicator is in a CUDA graph";

}  // namespace

nccl_library& nccl_library::get() {
  // Threads may still call NCCL while the process ends, so it is never destroyed.
  static nccl_library& one = *new nccl_library;
  return one;
}

nccl_library::nccl_library() {
  try {
    require_no_misspelt_config();
    settings_ = settings::from(variable("HCOMP_CONFIG"), calls_of::nccl);
    report_ = report_from_environment();
    seconds_ = timeout_from_environment();
    is_patient_ = variable("HCOMP_TIMEOUT").empty();
    if (!variable("HCOMP_SHADOW").empty())
      throw std::invalid_argument("HCOMP_SHADOW: there are no trial calls over NCCL; unset it");
  } catch (std::exception const& error) {
    invalid_ = error.what();
  }
  std::atexit([] {
    try {
      get().write_report();
    } catch (std::exception const& error) {
      print(error.what());
    }
  });
  own_.settings = hash_of(cuda_library_version() + "; " + settings_.text());
  own_.node = node_number();
  if (!invalid_.empty()) own_.state = introduction::has_invalid_settings;
}

int nccl_library::guarded(char const* function, std::function<int()> const& f) {
  try {
    return f();
  } catch (std::invalid_argument const& error) {
    print_once(std::string(function) + ": " + error.what());
    return nccl::detail::invalid_usage;
  } catch (std::exception const& error) {
    print_once(std::string(function) + ": " + error.what());
    return nccl::detail::system_error;
  }
}

std::shared_ptr<nccl_communicator> nccl_library::state_of(nccl::communicator comm) {
  {
    std::lock_guard const lock(mutex_);
    if (auto const found = states_.find(comm); found != states_.end()) {
      if (found->second->live().is_ended())
        throw std::runtime_error("the communicator is being ended");
      return found->second;
    }
  }
  free_ended();
  std::lock_guard const lock(mutex_);
  auto& state = states_[comm];
  if (!state) {
    try {
      state = std::make_shared<nccl_communicator>(comm);
    } catch (...) {
      states_.erase(comm);
      throw;
    }
    if (!first_rank_ && state->size() > 1) first_rank_ = state->rank();
  }
  return state;
}

void nccl_library::free_ended() {
  std::vector<std::shared_ptr<nccl_communicator>> done;
  {
    std::lock_guard const lock(mutex_);
    auto const first = std::partition(ended_.begin(), ended_.end(), [](auto const& one) {
      return one.use_count() > 1 || !one->is_idle();
    });
    done.assign(std::make_move_iterator(first), std::make_move_iterator(ended_.end()));
    ended_.erase(first, ended_.end());
  }
  relaxed_capture const relaxed;
  done.clear();
}

char const* nccl_library::unfit(reduction_call const& call) {
  if (!type_of(call.type)) return "its type is no float";
  if (call.op != nccl::detail::op_sum && call.op != nccl::detail::op_avg)
    return "its operation is neither sum nor average";
  return nullptr;
}

nccl_library::decision nccl_library::decide(reduction_call const& call,
                                            nccl_communicator const& state) const {
  if (char const* const why = unfit(call)) return {nullptr, why};
  auto const type = *type_of(call.type);
  auto const parts = call.kind == collective_kind::reduce_scatter ? state.size() : 1;
  std::size_t const bytes = call.count * static_cast<std::size_t>(parts) * size_of(type);
  auto const* const found = settings_.find(type, bytes, state.size());
  if (!found) return {nullptr, settings_.why_none(type, bytes, state.size())};
  if (found->spec.codec == "none") return {nullptr, "by a rule"};
  if (state.why_left()) return {nullptr, state.why_left()};
  if (call.count == 0) return {nullptr, "it has no values"};
  return {found, ""};
}

void nccl_library::introduce(std::span<std::shared_ptr<nccl_communicator> const> all) {
  std::vector<nccl_communicator*> unknown;
  for (auto const& one : all)
    if (!one->has_introductions()) unknown.push_back(one.get());
  if (!unknown.empty()) {
    auto own = own_;
    own.process = process_number();
    own.wants_nodes = nccl::detail::library::get().split &&
                      std::ranges::any_of(settings_.rules, [](rule const& one) {
                        return one.spec.algorithm.hierarchical;
                      });
    std::string why = invalid_;
    try {
      if (why.empty() && first_rank_.value_or(-1) == 0) require_writable_report(report_);
    } catch (std::exception const& error) {
      why = error.what();
    }
    if (!why.empty()) own.state = introduction::has_invalid_settings;
    if (why.empty() && !settings_.rules.empty()) {
      try {
        loaded_cuda_library().require_device();
      } catch (std::exception const& error) {
        why = error.what();
        own.state = introduction::has_no_cuda_library;
      }
    }
    // Each rank says what is wrong with it; all say who.
    if (!why.empty()) print_once(why);
    auto const is_late = [&](double waited, nccl_communicator const& waiting) {
      if (waited < seconds_) return false;
      if (is_patient_)
        print_once("rank " + std::to_string(waiting.rank()) + " of " +
                   std::to_string(waiting.size()) + " has waited " + std::to_string(seconds_) +
                   " s for a rank, and waits on: libhcomp_nccl.so must be preloaded on all ranks; "
                   "HCOMP_TIMEOUT limits the seconds");
      return !is_patient_;
    };
    nccl_communicator::introduce(unknown, own, is_late);
  }
  for (auto const& one : all)
    if (!one->error().empty()) throw std::invalid_argument(one->error());
}

int nccl_library::pass(reduction_call const& call, char const* why, int ranks) {
  auto const& nccl = nccl::detail::library::get();
  auto const f = call.kind == collective_kind::all_reduce ? nccl.all_reduce : nccl.reduce_scatter;
  int const result =
      f(call.send, call.receive, call.count, call.type, call.op, call.comm, call.stream);
  if (!report_.empty() && result == success)
    count({call.function, call.caller, call.type, ranks, nullptr, why}, call.count, 0, 0);
  return result;
}

int nccl_library::take(nccl_communicator& state, std::span<reduction_call const> calls,
                       rule const& as) {
  auto const& first = calls.front();
  auto const capture = capture_of(first.stream);
  bucket_kind kind{first.kind, as.type, as.spec.entry_text(), {}, as.spec.algorithm.hierarchical,
                   capture};
  std::size_t values = 0;
  for (auto const& call : calls) {
    kind.counts.push_back(call.count);
    values += call.count;
  }
  timed_call timed{{first.function, first.caller, first.type, state.size(), &as, ""},
                   state.device(),
                   nullptr,
                   nullptr};
  bool const is_timed = !report_.empty() && capture == 0;
  if (is_timed) {
    collect_times();
    used_device const here(state.device());
    std::lock_guard const lock(report_mutex_);
    auto& spare = spare_events_[state.device()];
    if (spare.empty()) {
      HCOMP_CUDA_TRY(cudaEventCreate(&timed.begin));
      HCOMP_CUDA_TRY(cudaEventCreate(&timed.end));
    } else {
      std::tie(timed.begin, timed.end) = spare.back();
      spare.pop_back();
    }
  }
  std::uint64_t sent = 0;
  char const* failed = first.function;
  int result = success;
  {
    std::lock_guard const lock(state.mutex());
    if (is_timed) HCOMP_CUDA_TRY(cudaEventRecord(timed.begin, first.stream));
    result = state.reduce(calls, std::move(kind), as.spec.feedback ? settings_.feedback_bytes : 0,
                          sent, failed);
    if (is_timed) HCOMP_CUDA_TRY(cudaEventRecord(timed.end, first.stream));
  }
  if (result != success)
    print_once(std::string(first.function) + " by hcomp: " + failed + ": " +
               nccl::detail::library::get().error_string(result));
  if (report_.empty() || result != success) return result;
  auto const others = static_cast<std::size_t>(state.size() - 1);
  std::size_t plain = values * size_of(as.type) * others;  // of a reduce-scatter
  if (first.kind == collective_kind::all_reduce)
    plain = 2 * plain / static_cast<std::size_t>(state.size());
  count(timed.where, values, plain, sent);
  std::lock_guard const lock(report_mutex_);
  if (is_timed) timed_.push_back(timed);
  return result;
}

int nccl_library::reduce(reduction_call const& call) {
  return guarded(call.function, [&] {
    auto& group = group_of_thread;
    if (char const* const why = unfit(call)) return pass(call, why, 0);
    auto const state = state_of(call.comm);
    if (!state->has_introductions()) {
      if (capture_of(call.stream) != 0) return pass(call, in_graph, state->size());
      if (group.depth > 0) {
        group.kept.push_back(call);
        return int{success};
      }
      introduce({&state, 1});
    }
    if (!state->error().empty()) throw std::invalid_argument(state->error());
    auto const what = decide(call, *state);
    if (!what.as) return pass(call, what.why, state->size());
    if (group.depth > 0) {
      group.kept.push_back(call);
      return int{success};
    }
    return take(*state, {&call, 1}, *what.as);
  });
}

int nccl_library::begin_group() {
  return guarded("ncclGroupStart", [] {
    int const result = nccl::detail::library::get().group_start();
    if (result == success) ++group_of_thread.depth;
    return result;
  });
}

int nccl_library::simulate_group(std::function<int()> const& by_nccl) {
  auto& group = group_of_thread;
  if (group.depth > 0 && --group.depth == 0) group.kept.clear();
  return by_nccl();
}

int nccl_library::end_group() {
  return guarded("ncclGroupEnd", [&] {
    auto& group = group_of_thread;
    if (group.depth > 0) --group.depth;
    std::vector<reduction_call> calls;
    if (group.depth == 0) calls = std::exchange(group.kept, {});
    int const ended = nccl::detail::library::get().group_end();
    bool const has_started = ended == success || ended == nccl::detail::in_progress;
    return calls.empty() || !has_started ? ended : reduce_kept(calls);
  });
}

int nccl_library::reduce_kept(std::vector<reduction_call> const& calls) {
  auto const& nccl = nccl::detail::library::get();
  std::vector<std::shared_ptr<nccl_communicator>> states, distinct;
  for (auto const& call : calls) {
    states.push_back(state_of(call.comm));
    if (std::ranges::find(distinct, states.back()) == distinct.end())
      distinct.push_back(states.back());
  }
  auto const settle = [&] {  // nonblocking communicators
    int result = success;
    for (auto const& one : distinct)
      if (int const code = one->live().settled(nccl::detail::in_progress); code != success)
        result = code;
    return result;
  };
  if (int const result = settle(); result != success) return result;
  introduce(distinct);
  std::vector<decision> decisions;
  bool passes = false;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    decisions.push_back(decide(calls[i], *states[i]));
    passes |= !decisions.back().as;
  }
  if (passes) {
    if (int const result = nccl.group_start(); result != success) return result;
    int refused = success;
    for (std::size_t i = 0; i < calls.size(); ++i)
      if (!decisions[i].as && (refused == success || refused == nccl::detail::in_progress))
        refused = pass(calls[i], decisions[i].why, states[i]->size());
    int const ended = nccl.group_end();
    if (refused != success && refused != nccl::detail::in_progress) return refused;
    if (ended != success && ended != nccl::detail::in_progress) return ended;
    if (int const result = settle(); result != success) return result;
  }
  // All-reduces that differ in their vectors only share messages.
  auto const go_together = [&](std::size_t i, std::size_t j) {
    auto const &a = calls[i], &b = calls[j];
    return a.kind == collective_kind::all_reduce && b.kind == a.kind && a.comm == b.comm &&
           a.op == b.op && decisions[i].as == decisions[j].as &&
           capture_of(a.stream) == capture_of(b.stream);
  };
  std::vector<bool> is_done(calls.size());
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (!decisions[i].as || is_done[i]) continue;
    std::vector<reduction_call> together;
    for (std::size_t j = i; j < calls.size(); ++j)
      if (decisions[j].as && !is_done[j] && (j == i || go_together(i, j))) {
        together.push_back(calls[j]);
        is_done[j] = true;
      }
    if (int const result = take(*states[i], together, *decisions[i].as); result != success)
      return result;
  }
  return success;
}

int nccl_library::async_error(nccl::communicator comm, int* error) {
  return guarded("ncclCommGetAsyncError", [&] {
    int const result = nccl::detail::library::get().async_error(comm, error);
    if (result != success || *error != success) return result;
    std::shared_ptr<nccl_communicator> state;
    {
      std::lock_guard const lock(mutex_);
      if (auto const found = states_.find(comm); found != states_.end()) state = found->second;
    }
    if (state) *error = state->state_of_nodes();
    return result;
  });
}

int nccl_library::end(char const* function, nccl::communicator comm) {
  return guarded(function, [&] {
    auto const& nccl = nccl::detail::library::get();
    std::shared_ptr<nccl_communicator> state;
    {
      std::lock_guard const lock(mutex_);
      if (auto const found = states_.find(comm); found != states_.end()) state = found->second;
    }
    bool const is_abort = std::string_view(function) == "ncclCommAbort";
    if (state) {
      state->live().end();
      state->end(is_abort);
    }
    int const result = is_abort ? nccl.abort(comm) : nccl.destroy(comm);
    if (!state) return result;
    state->await_end();
    // Memory is freed later: that waits for the device, where messages of communicators may hang
    // that this thread aborts next.
    {
      std::lock_guard const lock(mutex_);
      states_.erase(comm);
      ended_.push_back(std::move(state));
    }
    if (!is_abort) free_ended();
    return result;
  });
}

void nccl_library::count(row const& where, std::size_t values, std::size_t plain,
                         std::size_t sent) {
  site_stats one;
  one.calls = 1;
  one.smallest = one.largest = values;
  one.bytes_plain = plain;
  one.bytes_sent = sent;
  std::lock_guard const lock(report_mutex_);
  rows_[where].add(one);
}

void nccl_library::collect_times() {
  relaxed_capture const relaxed;
  std::lock_guard const lock(report_mutex_);
  std::erase_if(timed_, [&](timed_call const& one) {
    float ms = 0;
    bool const is_done = cudaEventQuery(one.end) == cudaSuccess &&
                         cudaEventElapsedTime(&ms, one.begin, one.end) == cudaSuccess;
    gpu::detail::forget_last_error();
    if (!is_done) return false;
    rows_[one.where].seconds += ms / 1e3;
    spare_events_[one.device].emplace_back(one.begin, one.end);
    return true;
  });
}

void nccl_library::write_report() {
  if (report_.empty() || first_rank_.value_or(-1) != 0) return;
  collect_times();
  journal journal("NCCL");
  std::unique_lock lock(report_mutex_);
  for (auto const& [where, stats] : rows_) {
    auto const type = type_of(where.type);
    journal.add(
        {where.function, place_of(where.caller), type ? std::string(to_text(*type)) : "other",
         where.ranks, where.as ? where.as->spec.entry_text() : "NCCL",
         where.as ? "rule '" + where.as->text() + "'" : where.why},
        stats);
  }
  lock.unlock();
  if (report_ == "summary") {
    auto const text = journal.summary(1, "calls, bytes and seconds of rank 0");
    std::fwrite(text.data(), 1, text.size(), stderr);
    return;
  }
  std::ofstream file(report_.substr(5));
  file << journal.report_json(1, settings_.text()) << '\n';
  if (!file.flush()) throw std::runtime_error("HCOMP_REPORT: " + report_ + " cannot be written");
}

}  // namespace hcomp::drop_in
