#include "plan.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <hcomp/collective/agreement/agreement.hpp>
#include <hcomp/collective/plan/any_plan.hpp>
#include <hcomp/core/detail/printable.hpp>
#include <hcomp/core/hash.hpp>
#include <hcomp/core/version.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/feedback/error_feedback.hpp>
#include <hcomp/node/collectives.hpp>
#include <hcomp/node/node_ranks.hpp>
#include <hcomp/op/encoded_layout.hpp>
#include <limits>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "cuda_memory.hpp"
#include "device_plan.hpp"
#include "make_feedback_plan.hpp"
#include "node_reduction.hpp"

namespace hcomp::c_api {

drop_in::codec_spec codec_spec_from(drop_in::value_type type, std::string const& text) {
  std::string const quoted = "codec '" + text + "': ";
  std::string const clause = std::string(to_text(type)) + ": " + text;
  if (text.find_first_not_of(" \t\r\n") == text.npos)
    throw std::invalid_argument("codec is empty; an example is 'thc:bits=4'");
  if (text.find(';') != text.npos)
    throw std::invalid_argument(quoted + "it is one codec, without ';'");
  drop_in::rule given;
  try {
    given = drop_in::settings::from(clause).rules.at(0);
  } catch (std::invalid_argument const& error) {
    std::string const known = hcomp::detail::printable("HCOMP_CONFIG: clause 1 '" + clause + "': ");
    throw std::invalid_argument(quoted + without(known, error.what()));
  }
  if (given.spec.codec == "none")
    throw std::invalid_argument(
        quoted + "a plan needs a codec of hcomp; 'identity' reduces in full precision");
  drop_in::rule plain;
  plain.type = type;
  plain.spec = given.spec;
  plain.spec.turns = 1;
  if (given != plain)
    throw std::invalid_argument(
        quoted +
        "keys min, max, ranks, when, device, check and turns are for the rules of the "
        "drop-in library only");
  return given.spec;
}

}  // namespace hcomp::c_api

namespace {

using hcomp::c_api::connection;
using hcomp::c_api::guarded;
using hcomp::c_api::require;
using hcomp::c_api::taken;
using hcomp::drop_in::codec_spec;
using hcomp::drop_in::collective_kind;
using hcomp::drop_in::value_type;

thread_local std::string last_error;
thread_local int last_error_rank = -1;

// ---- Arguments

/// Validated arguments of a create function, or the error.
struct plan_arguments {
  value_type type = value_type::float32;
  codec_spec how;
  std::string error;
  std::string text;  ///< for messages, and to compare ranks

  plan_arguments(std::size_t values, std::optional<value_type> wanted, char const* codec_text,
                 bool has_place) {
    try {
      if (wanted != value_type::float32 && wanted != value_type::float64)
        throw std::invalid_argument("values are neither float (4 bytes) nor double (8 bytes)");
      type = *wanted;
      how = hcomp::c_api::codec_spec_from(type, &hcomp::c_api::require(codec_text, "codec"));
      std::size_t const most = static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max() /
                                                        static_cast<std::ptrdiff_t>(size_of(type)));
      if (values > most)
        throw std::invalid_argument(std::to_string(values) + " values, there can be " +
                                    std::to_string(most));
      if (!has_place) throw std::invalid_argument("plan is a null pointer");
      text =
          std::to_string(values) + " of " + std::string(to_text(type)) + " by '" + how.text() + "'";
    } catch (std::invalid_argument const& wrong) {
      text = error = wrong.what();
    }
  }
};

/// Fixed-size record of a rank's arguments, which ranks exchange.
struct text_record {
  std::uint64_t print;
  char text[248];

  text_record() = default;
  explicit text_record(std::string const& said)
      : print(hcomp::fingerprint(hcomp::serial_group{},
                                 reinterpret_cast<std::byte const*>(said.data()), said.size())),
        text{} {
    said.copy(text, sizeof text - 1);
  }
};

/// See c_api::agree.
void require_agreement(std::vector<text_record> const& all, char const* what,
                       std::string const& error) {
  auto const other = std::ranges::find_if(
      all, [&](text_record const& one) { return one.print != all.front().print; });
  if (other != all.end())
    throw hcomp::disagreement_error(std::string("ranks ") + what + "; rank 0: " + all.front().text +
                                    "; rank " + std::to_string(other - all.begin()) + ": " +
                                    other->text);
  if (!error.empty()) throw std::invalid_argument(error);
}

// ---- Plans and requests

/// The plans of one value type: for vectors in host memory and, once such a vector has come, for
/// vectors in device memory. Both send the same messages. With error feedback, the residual is
/// where the last vector was; before the first call it has no memory, and is zero.
template <class V> struct typed_plan {
  codec_spec how;
  std::shared_ptr<hcomp::node::collectives> memory;
  std::unique_ptr<hcomp::any_plan<V>> plan;
  std::optional<hcomp::error_feedback<V>> residual;
  std::unique_ptr<hcomp::drop_in::device_plan<V>> on_device;
  /// While it is set, `residual` has no meaning.
  std::shared_ptr<hcomp::drop_in::device_residual<V>> residual_on_device;

  typed_plan(codec_spec const& codec, std::size_t values, connection& over,
             hcomp::host_executor& executor)
      : how(codec),
        memory(hcomp::drop_in::uses_shared_memory<V>(how) ? over.shared_memory() : nullptr),
        plan(std::make_unique<hcomp::any_plan<V>>(
            over.plan_of(how, values, executor, memory, std::type_identity<V>{}))) {}

  /// Whether vectors in device memory are copied to the host: where ranks share memory, a codec is
  /// for host memory only, or members of a group change.
  /// @throws std::runtime_error  see loaded_cuda_library
  bool copies_from_device(connection const& over) const {
    return how.algorithm.hierarchical || memory || !over.makes_device_plans() ||
           !hcomp::drop_in::loaded_cuda_library().has_codec(how.codec, std::type_identity<V>{});
  }
  /// The plan for vectors at `place`, with the residual.
  /// @throws std::runtime_error  CUDA returns an error
  hcomp::drop_in::device_plan<V>& plan_at(hcomp::drop_in::device_place const& place,
                                          connection& over) {
    if (on_device && on_device->place() != place) {
      bring_residual();
      on_device.reset();
    }
    if (!on_device)
      on_device = hcomp::drop_in::loaded_cuda_library().make(
          {how.entry_text(), plan->values(), over.transport(), hcomp::drop_in::options_of<V>(how),
           place},
          std::type_identity<V>{});
    if (how.feedback && !residual_on_device) {
      auto moved = hcomp::drop_in::loaded_cuda_library().make_residual(plan->values(), place,
                                                                       std::type_identity<V>{});
      if (residual) moved->restore(residual->save());
      residual_on_device = std::move(moved);
      residual.reset();
    }
    return *on_device;
  }
  hcomp::error_feedback<V> copy_of_residual() const {
    if (residual && !residual_on_device) return *residual;
    hcomp::error_feedback<V> copy(plan->encoded().count);
    if (residual_on_device) copy.restore(residual_on_device->save());
    return copy;
  }
  /// With error feedback, gives the residual memory on the host, and moves it there.
  void bring_residual() {
    if (!how.feedback) return;
    if (!residual || residual_on_device) residual = copy_of_residual();
    residual_on_device.reset();
  }
  /// Gives a call that will be refused the residual that the other ranks have.
  void take_any_residual() {
    if (how.feedback && !residual) residual.emplace(plan->encoded().count);
  }
};

using plan_of_type = std::variant<typed_plan<float>, typed_plan<double>>;

plan_of_type make_plan_of_type(plan_arguments const& asked, std::size_t values, connection& over,
                               hcomp::host_executor& executor) {
  if (asked.type == value_type::float32)
    return typed_plan<float>(asked.how, values, over, executor);
  return typed_plan<double>(asked.how, values, over, executor);
}

}  // namespace

namespace {

/// State of a nonblocking call. hcomp_wait returns its result.
struct pending_call {
  char const* function;
  std::string note;
  std::exception_ptr error;
  hcomp_report report = {};
  std::mutex mutex;  ///< of the members below
  std::condition_variable changed;
  bool is_done = false;

  explicit pending_call(char const* name) : function(name) {}

  /// @param time  longest wait; none: no limit
  /// @return      whether the call is done
  bool wait(std::optional<std::chrono::milliseconds> time) {
    std::unique_lock lock(mutex);
    auto const done = [&] { return is_done; };
    if (time) return changed.wait_for(lock, *time, done);
    changed.wait(lock, done);
    return true;
  }
};

}  // namespace

struct hcomp_plan : hcomp::c_api::handle {
  std::shared_ptr<connection> over;
  hcomp::host_executor executor;
  std::size_t values;
  std::string text;   ///< description of the plan for messages
  bool hierarchical;  ///< the algorithm is hierarchical
  plan_of_type of;
  hcomp::call_options next;
  void* stream = nullptr;              ///< of the next vector in device memory
  std::uint64_t step = 0;              ///< of the next call's draws
  std::uint64_t calls = 0;             ///< number of earlier calls
  std::string broken;                  ///< error after which the transport is unusable
  int broken_by = -1;                  ///< the rank that caused this error
  std::shared_ptr<pending_call> last;  ///< last nonblocking call
  std::vector<std::byte> from_device;  ///< host copy of a vector in device memory

  /// @param number  handle number, see connection::next_handle
  hcomp_plan(std::shared_ptr<connection> connected, plan_arguments const& asked, std::size_t count,
             std::uint64_t number)
      : over(std::move(connected)),
        executor(asked.how.threads),
        values(count),
        text(asked.text),
        hierarchical(asked.how.algorithm.hierarchical),
        of(make_plan_of_type(asked, count, *over, executor)) {
    next.tensor = number;
  }
  /// Returns when all nonblocking calls are done.
  void wait_for_started() const {
    if (last) last->wait({});
  }
  hcomp::call_options take_next() {
    auto call = next;
    if (over->numbers_steps()) return call;
    call.step = step++;
    call.earlier_calls = calls++;  // plans for host and device memory take turns
    return call;
  }
};

struct hcomp_request : hcomp::c_api::handle {
  std::shared_ptr<pending_call> call;
};

namespace {

/// The caller's vector. C passes no length.
struct vector {
  void* x;
  std::optional<std::size_t> values = {};
  int value_bytes = 0;

  /// The size of an invalid vector, for the error on other ranks; 0 if its size is not at fault.
  std::size_t refused_size(hcomp_plan const& plan) const {
    bool const is_known = values && *values < std::numeric_limits<std::size_t>::max();
    return is_known && *values != plan.values ? *values : 0;
  }
  /// Describes an invalid vector; empty if it is valid.
  std::string complaint(hcomp_plan const& plan) const {
    int const bytes = std::visit(
        []<class V>(typed_plan<V> const&) { return static_cast<int>(sizeof(V)); }, plan.of);
    if (values && (*values != plan.values || value_bytes != bytes))
      return " with " + std::to_string(*values) + " values of " + std::to_string(value_bytes) +
             " bytes in x for a plan of " + std::to_string(plan.values) + " of " +
             std::to_string(bytes);
    return "";
  }
};

/// Copies a vector from device memory into the plan's host buffer.
/// @throws std::runtime_error  host memory is exhausted, or CUDA returns an error
void bring(hcomp_plan& plan, void const* x, std::size_t bytes) {
  try {
    plan.from_device.resize(bytes);
  } catch (std::bad_alloc const&) {
    throw std::runtime_error("the host has no memory for its " + std::to_string(bytes) + " bytes");
  }
  hcomp::drop_in::copy_from_device(plan.from_device.data(), x, bytes);
}

/// The caller's settings for vectors in device memory.
struct device_settings {
  void* stream;
  void* context = nullptr;  ///< the caller's CUDA context for a nonblocking call
};

/// Runs a collective of the plan.
/// @param which    as `f`, for vectors that stay in device memory
/// @param f        (typed_plan, span of its values, call options) returns the report
/// @param note     set to a remark on the call, for error messages
/// @param started  number of a nonblocking call; null for a blocking call
template <class F>
hcomp_report make(char const* function, hcomp_plan& it, vector const& x,
                  hcomp::call_options const& call, collective_kind which, F const& f,
                  device_settings const& device, std::string& note,
                  hcomp::c_api::turn const* started = nullptr) {
  if (!it.broken.empty())
    throw hcomp::transport_error(it.broken_by,
                                 "it failed before and can only be freed: " + it.broken);
  note = x.complaint(it);
  try {
    it.over->meet(std::string(function) + " of " + it.text, started, it.hierarchical);
    auto const made = std::visit(
        [&]<class V>(typed_plan<V>& one) {
          auto* first = static_cast<V*>(x.x);
          std::size_t const bytes = it.values * sizeof(V);
          std::optional<hcomp::drop_in::used_context> callers;
          hcomp::drop_in::device_plan<V>* stays = nullptr;
          bool is_there = false, is_copied = false;
          try {
            callers.emplace(device.context);
            is_there = note.empty() && hcomp::drop_in::is_in_device(x.x);
            if (is_there) {
              is_copied = one.copies_from_device(*it.over);
              if (is_copied)
                bring(it, x.x, bytes);
              else
                stays = &one.plan_at(
                    {hcomp::drop_in::loaded_cuda_library().device_of(x.x), device.stream},
                    *it.over);
            }
            if (!stays) one.bring_residual();
          } catch (std::exception const& error) {
            note = is_there ? " with x in a device's memory, which cannot be reduced: "
                            : " without memory for the residual: ";
            note += error.what();
            one.take_any_residual();
          }
          if (stays)
            return stays->run(which, std::span(first, it.values), one.residual_on_device.get(),
                              call);
          if (is_copied) first = reinterpret_cast<V*>(it.from_device.data());
          // With an invalid x this rank takes part with another size, which all ranks refuse.
          auto const made =
              f(one, std::span(first, note.empty() ? it.values : x.refused_size(it)), call);
          if (is_copied) hcomp::drop_in::copy_to_device(x.x, first, bytes);
          return made;
        },
        it.of);
    return hcomp::c_api::to_c(made);
  } catch (hcomp::drop_in::device_error const& error) {
    it.broken = error.what();
    it.broken_by = it.over->transport().rank();
    try {
      hcomp::detail::revoke(it.over->transport(),
                            "rank " + std::to_string(it.broken_by) + ": " + it.broken);
    } catch (hcomp::wire_error const&) {  // always; the call throws the error of the device
    }
    throw;
  } catch (hcomp::transport_error const& error) {
    it.broken = error.what();
    it.broken_by = error.peer();
    it.over->tell_others(error);
    throw;
  }
}

/// A collective of the plan: its name in the C API, and `f` of make.
template <class F> struct collective {
  char const* function;
  collective_kind which;
  F f;

  int run(hcomp_plan* plan, vector const& x, hcomp_report* report) const noexcept {
    std::string note;
    auto const work = [&] {
      auto& it = require(plan, "plan");
      auto const entered = it.over->enter();
      auto const made = make(function, it, x, it.take_next(), which, f, {it.stream}, note);
      if (report) *report = made;
    };
    return guarded(function, work, note);
  }
  /// @param name  the C function that starts the call
  int start(char const* name, hcomp_plan* plan, vector const& x,
            hcomp_request** request) const noexcept {
    if (request) *request = nullptr;
    return guarded(name, [&] {
      auto& it = require(plan, "plan");
      auto& place = require(request, "request");
      auto const step = it.step, calls = it.calls;
      try {
        place = hcomp::c_api::start(
            *it.over, function, {!it.hierarchical, &it},
            [one = *this, &it, x, call = it.take_next(),
             device = device_settings{it.stream, hcomp::drop_in::current_context()}](
                std::string& note, hcomp::c_api::turn const& now) {
              return make(one.function, it, x, call, one.which, one.f, device, note, &now);
            });
      } catch (...) {
        it.step = step;  // the call has not started
        it.calls = calls;
        throw;
      }
      it.last = place->call;
    });
  }
};
template <class F> collective(char const*, collective_kind, F) -> collective<F>;

collective const all_reduce{"hcomp_all_reduce", collective_kind::all_reduce,
                            [](auto& one, auto values, hcomp::call_options const& call) {
                              return one.residual
                                         ? one.plan->all_reduce(values, *one.residual, call)
                                         : one.plan->all_reduce(values, call);
                            }};
collective const reduce_scatter{"hcomp_reduce_scatter", collective_kind::reduce_scatter,
                                [](auto& one, auto values, hcomp::call_options const& call) {
                                  return one.residual
                                             ? one.plan->reduce_scatter(values, *one.residual, call)
                                             : one.plan->reduce_scatter(values, call);
                                }};
collective const all_gather{"hcomp_all_gather", collective_kind::all_gather,
                            [](auto& one, auto values, hcomp::call_options const& call) {
                              return one.plan->all_gather(values, call);
                            }};

/// Calls f(typed plan, start of the caller's buffer, number of values, range of values with a
/// residual).
/// @param plan  const or mutable
template <class F> void with_residual(auto* plan, vector const& residual, F const& f) {
  auto& it = require(plan, "plan");
  it.wait_for_started();
  if (auto const complaint = residual.complaint(it); !complaint.empty())
    throw std::invalid_argument("it was called" + complaint);
  auto* const first = &require(static_cast<std::byte*>(residual.x), "residual");
  if (hcomp::drop_in::is_in_device(first))
    throw std::invalid_argument("residual is in a device's memory, it has to be in the host's");
  std::visit(
      [&](auto& one) {
        if (!one.how.feedback)
          throw std::invalid_argument(
              "the codec has no error feedback, so the plan has no residual");
        f(one, first, it.values, one.plan->encoded());
      },
      it.of);
}
void get_residual(hcomp_plan const* plan, vector const& residual) {
  with_residual(plan, residual,
                []<class V>(typed_plan<V> const& one, void* to, std::size_t values,
                            hcomp::value_range where) {
                  auto* const first = static_cast<V*>(to);
                  std::fill_n(first, values, V{});
                  auto const kept = one.copy_of_residual();
                  std::ranges::copy(kept.residual(), first + where.first);
                });
}
void set_residual(hcomp_plan* plan, vector const& residual) {
  with_residual(
      plan, residual,
      []<class V>(typed_plan<V>& one, void const* from, std::size_t, hcomp::value_range where) {
        one.bring_residual();
        one.residual->set_residual({static_cast<V const*>(from) + where.first, where.count});
      });
}

}  // namespace

namespace hcomp::c_api {

int failed(int code, std::string_view where, std::string const& note, std::string_view what,
           int rank) noexcept {
  last_error_rank = rank;
  try {
    // Messages of plans may start with the function name as well.
    auto const begin = std::string(where.substr(sizeof "hcomp")).append(": ");
    if (what.starts_with(begin)) what.remove_prefix(begin.size());
    last_error.assign(where).append(note).append(": ").append(detail::printable(what));
  } catch (...) {
    last_error.clear();
  }
  return code;
}

void connection::agree_on_plan(std::string const& text, std::string const& error) {
  agree(transport(), "ask for different plans", text, error);
}

any_plan<float> connection::plan_of(drop_in::codec_spec const& how, std::size_t values,
                                    host_executor& executor,
                                    std::shared_ptr<node::collectives> memory,
                                    std::type_identity<float>) {
  return drop_in::make_feedback_plan<float>(
      how, values, transport(), executor, [&]() -> auto& { return nodes(); }, std::move(memory));
}
any_plan<double> connection::plan_of(drop_in::codec_spec const& how, std::size_t values,
                                     host_executor& executor,
                                     std::shared_ptr<node::collectives> memory,
                                     std::type_identity<double>) {
  return drop_in::make_feedback_plan<double>(
      how, values, transport(), executor, [&]() -> auto& { return nodes(); }, std::move(memory));
}

node::node_ranks& connection::nodes() {
  if (!nodes_) nodes_ = std::make_unique<node::node_ranks>(drop_in::find_nodes(transport()));
  return *nodes_;
}

std::string without(std::string_view prefix, std::string text) {
  if (text.starts_with(prefix)) text.erase(0, prefix.size());
  return text;
}

hcomp_report to_c(report const& made) {
  return {made.bytes_sent, made.weight,
          made.seconds(),  made.seconds_encode + made.seconds_merge + made.seconds_decode,
          made.error,      made.dominance,
          made.residual,   made.messages == message_memory::shared};
}

hcomp_request* start(connection& over, char const* function, drop_in::request_queue::manner how,
                     std::function<hcomp_report(std::string& note, turn const& now)> work) {
  auto const call = std::make_shared<pending_call>(function);
  auto request = std::make_unique<hcomp_request>(hcomp_request{{}, call});
  over.begin(
      [call, how, work = std::move(work)](std::uint64_t number) {
        try {
          call->report = work(call->note, {number, how.together});
        } catch (...) {
          call->error = std::current_exception();
        }
        std::lock_guard const lock(call->mutex);
        call->is_done = true;
        call->changed.notify_all();
      },
      how);
  return request.release();
}

void agree(any_transport& transport, char const* what, std::string const& text,
           std::string const& error) {
  std::vector<text_record> all;
  all_gather_records(transport, 0, text_record(text), all);
  require_agreement(all, what, error);
}

void agree(node::collectives& inside, char const* what, std::string const& text,
           std::string const& error) {
  text_record const mine(text);
  std::vector<text_record> all(static_cast<std::size_t>(inside.size()));
  inside.all_gather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)));
  require_agreement(all, what, error);
}

void create_plan(std::shared_ptr<connection> over, std::size_t values,
                 std::optional<value_type> type, char const* codec_text, hcomp_plan** plan) {
  plan_arguments const asked(values, type, codec_text, plan != nullptr);
  over->agree_on_plan(asked.text, asked.error);
  std::uint64_t const number = over->next_handle();
  try {
    *plan = std::make_unique<hcomp_plan>(std::move(over), asked, values, number).release();
  } catch (std::bad_alloc const&) {
    throw std::runtime_error("there is not enough memory for a plan of " + asked.text);
  }
}

}  // namespace hcomp::c_api

int hcomp_all_reduce(hcomp_plan* plan, void* x, hcomp_report* report) {
  return all_reduce.run(plan, {x}, report);
}
int hcomp_reduce_scatter(hcomp_plan* plan, void* x, hcomp_report* report) {
  return reduce_scatter.run(plan, {x}, report);
}
int hcomp_all_gather(hcomp_plan* plan, void* x, hcomp_report* report) {
  return all_gather.run(plan, {x}, report);
}
int hcomp_all_reduce_sized(hcomp_plan* plan, void* x, size_t values, int value_bytes,
                           hcomp_report* report) {
  return all_reduce.run(plan, {x, values, value_bytes}, report);
}
int hcomp_reduce_scatter_sized(hcomp_plan* plan, void* x, size_t values, int value_bytes,
                               hcomp_report* report) {
  return reduce_scatter.run(plan, {x, values, value_bytes}, report);
}
int hcomp_all_gather_sized(hcomp_plan* plan, void* x, size_t values, int value_bytes,
                           hcomp_report* report) {
  return all_gather.run(plan, {x, values, value_bytes}, report);
}
int hcomp_all_reduce_start(hcomp_plan* plan, void* x, hcomp_request** request) {
  return all_reduce.start(__func__, plan, {x}, request);
}
int hcomp_reduce_scatter_start(hcomp_plan* plan, void* x, hcomp_request** request) {
  return reduce_scatter.start(__func__, plan, {x}, request);
}
int hcomp_all_gather_start(hcomp_plan* plan, void* x, hcomp_request** request) {
  return all_gather.start(__func__, plan, {x}, request);
}
int hcomp_all_reduce_start_sized(hcomp_plan* plan, void* x, size_t values, int value_bytes,
                                 hcomp_request** request) {
  return all_reduce.start(__func__, plan, {x, values, value_bytes}, request);
}
int hcomp_reduce_scatter_start_sized(hcomp_plan* plan, void* x, size_t values, int value_bytes,
                                     hcomp_request** request) {
  return reduce_scatter.start(__func__, plan, {x, values, value_bytes}, request);
}
int hcomp_all_gather_start_sized(hcomp_plan* plan, void* x, size_t values, int value_bytes,
                                 hcomp_request** request) {
  return all_gather.start(__func__, plan, {x, values, value_bytes}, request);
}

int hcomp_test(hcomp_request* request, int milliseconds, int* done) {
  return guarded(__func__, [&] {
    auto& call = *require(request, "request").call;
    if (milliseconds < 0)
      throw std::invalid_argument("milliseconds is " + std::to_string(milliseconds) +
                                  ", it can be 0 and more");
    require(done, "done") = call.wait(std::chrono::milliseconds(milliseconds));
  });
}
int hcomp_wait(hcomp_request** request, hcomp_report* report) {
  std::shared_ptr<pending_call> call;
  int const code = guarded(__func__, [&] {
    std::unique_ptr<hcomp_request> const it(std::exchange(require(request, "request"), nullptr));
    if (it) call = require(it.get(), "request").call;
  });
  if (!call) return code;
  call->wait({});
  auto const result = [&] {
    if (call->error) std::rethrow_exception(call->error);
    if (report) *report = call->report;
  };
  return guarded(call->function, result, call->note);
}

int hcomp_plan_shard(hcomp_plan const* plan, size_t* first, size_t* count) {
  return guarded(__func__, [&] {
    auto const range =
        std::visit([](auto const& one) { return one.plan->shard(); }, require(plan, "plan").of);
    require(first, "first") = range.first;
    require(count, "count") = range.count;
  });
}
int hcomp_plan_shard_alignment(hcomp_plan const* plan, size_t* unit) {
  return guarded(__func__, [&] {
    require(unit, "unit") = std::visit([](auto const& one) { return one.plan->shard_alignment(); },
                                       require(plan, "plan").of);
  });
}
int hcomp_plan_set_mean(hcomp_plan* plan, int mean) {
  return guarded(__func__, [&] {
    if (mean != 0 && mean != 1)
      throw std::invalid_argument("mean is " + std::to_string(mean) + ", it can be 0 or 1");
    require(plan, "plan").next.op = mean ? hcomp::reduce_op::mean : hcomp::reduce_op::sum;
  });
}
int hcomp_plan_set_stream(hcomp_plan* plan, void* stream) {
  return guarded(__func__, [&] { require(plan, "plan").stream = stream; });
}
int hcomp_plan_values(hcomp_plan const* plan, size_t* values) {
  return guarded(__func__, [&] { require(values, "values") = require(plan, "plan").values; });
}

int hcomp_plan_get_residual(hcomp_plan const* plan, void* residual) {
  return guarded(__func__, [&] { get_residual(plan, {residual}); });
}
int hcomp_plan_set_residual(hcomp_plan* plan, void const* residual) {
  return guarded(__func__, [&] { set_residual(plan, {const_cast<void*>(residual)}); });
}
int hcomp_plan_get_residual_sized(hcomp_plan const* plan, void* residual, size_t values,
                                  int value_bytes) {
  return guarded(__func__, [&] { get_residual(plan, {residual, values, value_bytes}); });
}
int hcomp_plan_set_residual_sized(hcomp_plan* plan, void const* residual, size_t values,
                                  int value_bytes) {
  return guarded(__func__, [&] {
    set_residual(plan, {const_cast<void*>(residual), values, value_bytes});
  });
}
int hcomp_plan_set_draws(hcomp_plan* plan, uint64_t vector, uint64_t step) {
  return guarded(__func__, [&] {
    auto& it = require(plan, "plan");
    if (it.over->numbers_steps())
      throw std::invalid_argument(
          "plans over an elastic group draw by the number of the group's call");
    it.next.tensor = vector;
    it.step = step;
  });
}

int hcomp_plan_free(hcomp_plan** plan) {
  return guarded(__func__, [&] {
    auto const it = taken(plan, "plan");
    if (it) it->wait_for_started();
  });
}

int hcomp_cuda_check() {
  return guarded(__func__, [] { hcomp::drop_in::loaded_cuda_library().require_device(); });
}

char const* hcomp_last_error() { return last_error.c_str(); }
int hcomp_last_error_rank() { return last_error_rank; }

int hcomp_version(int* major, int* minor, int* patch) {
  if (major) *major = HCOMP_VERSION_MAJOR;
  if (minor) *minor = HCOMP_VERSION_MINOR;
  if (patch) *patch = HCOMP_VERSION_PATCH;
  return HCOMP_OK;
}
