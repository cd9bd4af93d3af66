#pragma once
/// @file
/// Several concurrent collectives over one transport, overlapped with computation.

#include <algorithm>
#include <chrono>
#include <concepts>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <hcomp/core/config.hpp>
#include <hcomp/core/detail/error_text.hpp>
#include <hcomp/transport/any_transport.hpp>
#include <hcomp/transport/detail/fibre.hpp>
#include <hcomp/transport/detail/nap.hpp>
#include <hcomp/transport/transport.hpp>
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
#include <variant>
#include <vector>

namespace hcomp {

/// The thread that makes progress on started collectives.
enum class progress_mode {
  caller,  ///< the calling thread, inside `start`, `test` and `wait`
  thread   ///< a background thread, which sleeps part of the time while nothing arrives. The
           ///< transport must accept calls from it (with MPI: MPI_THREAD_SERIALIZED if no other
           ///< thread calls MPI meanwhile, otherwise MPI_THREAD_MULTIPLE)
};

struct start_options {
  int priority = 0;  ///< among collectives that can progress, the highest runs first
  /// A resource that only one collective can use at a time, usually its plan: collectives started
  /// with the same pointer run one after the other.
  void const* exclusive = nullptr;
};

namespace detail {

/// A collective that was started.
struct started_collective {
  /// @throws std::system_error  no memory for the stack
  explicit started_collective(start_options how)
      : how(how), runs([this] {
          try {
            call();
          } catch (...) {
            error = std::current_exception();
          }
        }) {}
  started_collective(started_collective const&) = delete;
  started_collective& operator=(started_collective const&) = delete;
  virtual ~started_collective() = default;
  virtual void call() = 0;

  start_options how;
  started_collective const* follows = nullptr;  ///< begins when that one is complete; valid until
                                                ///< then
  fibre runs;
  /// For continuations, which have no tags.
  static constexpr std::uint64_t no_number = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t number = 0;  ///< from 0, in order of `start`
  std::function<bool()> const* waits_until = nullptr;
  std::exception_ptr trouble = {};  ///< exception to rethrow inside the collective
  std::uint64_t bytes_sent = 0;
  std::exception_ptr error = {};  ///< exception that ended the collective
  bool is_done = false;
};
/// A started collective with its result.
template <class R> struct collective_with_result : started_collective {
  using started_collective::started_collective;
  std::optional<std::conditional_t<std::is_void_v<R>, std::monostate, R>> result;
};
template <class R, class F> struct collective_function final : collective_with_result<R> {
  collective_function(start_options how, F given)
      : collective_with_result<R>(how), function(std::move(given)) {}
  void call() override {
    if constexpr (std::is_void_v<R>)
      function();
    else
      this->result.emplace(function());
  }
  F function;
};

/// Backs off while nothing arrives.
class idle_time {
 public:
  using clock = std::chrono::steady_clock;

  explicit idle_time(progress_mode mode) : sleeps_(mode == progress_mode::thread) {}
  void set_sleeps(bool sleeps, clock::duration after) {
    sleeps_ = sleeps;
    after_ = after;
  }
  void end() { turns_ = 0; }
  void pass() {
    if (turns_ == 0) begin_ = clock::now();
    ++turns_;
    if (sleeps_ && turns_ % turns_of_a_nap == 0) {
      auto const waited = clock::now() - begin_;
      if (waited >= after_) return nap(waited);
    }
    if (turns_ > 8) std::this_thread::yield();
  }

 private:
  bool sleeps_;
  clock::duration after_{};
  std::uint64_t turns_ = 0;
  clock::time_point begin_;
};

}  // namespace detail

template <class R> class request;

/// Runs several collectives concurrently over one transport.
///
///     hcomp::concurrent_transport over(transport, hcomp::progress_mode::thread);
///     hcomp::any_plan<float> plan = hcomp::make_plan<float>("thc", n, over, executor);
///     auto request = over.start([&] { return plan.all_reduce(gradient); }, {.exclusive = &plan});
///     compute();
///     hcomp::report const report = request.wait();
///
/// Each collective runs as a fibre; while it waits for a message, another one runs. All run in one
/// thread, so only messages overlap with each other and with computation, and one executor may
/// serve all. Put follow-up collectives into the same function; add other work with `then`.
/// Durations in a report are wall-clock times, so they include other collectives.
///
/// As in MPI, all ranks start the same collectives in the same order. Each collective has its own
/// tags; the order of progress is local to each rank. Any number may be started; up to 30 are in
/// progress at a time. `wait` of a handle throws the errors of its collective. After a
/// transport_error or wire_error all collectives fail.
///
/// With progress_mode::caller, blocking calls work as over the transport itself, and started
/// collectives progress meanwhile. With progress_mode::thread, every collective must be started.
///
/// A collective must use wait_until to wait for anything but messages of this transport, as
/// hierarchical all-reduce does for shared memory. Otherwise it blocks all other collectives,
/// possibly forever.
///
/// One thread at a time starts and waits. With progress_mode::thread, it may call bytes_sent only
/// when no collective is in progress. The transport is not owned, and must not be used directly
/// meanwhile. Handles must not outlive this object.
///
/// Memory: 1 MiB of address space per started collective; few of its pages are used.
/// Cost: two system calls per message waited for, and one `test` per collective in progress.
class concurrent_transport {
 public:
  using request = any_transport::request;
  static constexpr std::uint32_t channels = 30;
  static constexpr tag_t tags = 1024;  ///< tags 0 to tags - 1 are available to a plan

  /// @throws std::invalid_argument  the transport has no `test` (see Transport)
  template <Transport T>
    requires(!std::same_as<T, concurrent_transport>)
  explicit concurrent_transport(T& transport, progress_mode mode = progress_mode::caller)
      : inner_(transport), mode_(mode), idle_(mode) {
    if (!inner_->can_test())
      throw std::invalid_argument(
          "concurrent_transport: the transport has no `test`, which it needs to go on with one "
          "collective while another one waits");
    if (mode_ == progress_mode::thread) thread_ = std::thread([this] { serve(); });
  }
  concurrent_transport(concurrent_transport const&) = delete;
  concurrent_transport& operator=(concurrent_transport const&) = delete;
  /// Waits for all collectives in progress.
  ~concurrent_transport() {
    if (mode_ == progress_mode::thread) {
      {
        std::lock_guard const lock(mutex_);
        quits_ = true;
      }
      changed_.notify_all();
      thread_.join();
    } else {
      while (!under_way_.empty()) pass_time();
    }
  }

  /// Starts `collective`, a function that calls collectives over this transport.
  /// @return  a handle for the function's result
  /// @throws std::logic_error  called inside a started collective
  template <class F>
  hcomp::request<std::invoke_result_t<F&>> start(F collective, start_options how = {});

  /// With progress_mode::caller: whether a waiting thread sleeps part of the time while nothing
  /// arrives, as the thread of progress_mode::thread does. Useful for a thread that shares cores
  /// with computation. Off by default.
  /// @param after  time of waiting before the first sleep
  void set_sleeps(bool sleeps, std::chrono::nanoseconds after = std::chrono::nanoseconds(0)) {
    idle_.set_sleeps(sleeps || mode_ == progress_mode::thread, after);
  }

  int rank() const { return inner_->rank(); }
  int size() const { return inner_->size(); }
  std::uint64_t group() const { return inner_->group(); }
  bool reaches(memory_space space) const { return inner_->reaches(space); }
  /// Inside a started collective: the bytes sent by that collective.
  std::uint64_t bytes_sent() const {
    auto const* const self = here();
    return self ? self->bytes_sent : inner_->bytes_sent();
  }
  bool waits_for_work() const { return inner_->waits_for_work(); }
  bool copies_messages() const { return inner_->copies_messages(); }

  request isend(int peer, tag_t tag, std::span<std::byte const> bytes) {
    tag_t const unique = unique_tag("isend", tag);
    if (auto* const self = here()) self->bytes_sent += bytes.size();
    return inner_->isend(peer, unique, bytes);
  }
  request irecv(int peer, tag_t tag, std::span<std::byte> bytes) {
    return inner_->irecv(peer, unique_tag("irecv", tag), bytes);
  }
  std::size_t wait(request& r) {
    if (is_alone()) return inner_->wait(r);
    std::size_t moved = 0;
    auto const is_done = [&] {
      auto const now = inner_->test(r);
      moved = now.value_or(0);
      return now.has_value();
    };
    wait_until(std::ref(is_done));
    return moved;
  }
  void wait_until(std::function<bool()> const& is_so) {
    require_place("wait");
    for (;; pass_time()) {
      if (is_so()) return;
      if (here()) break;
    }
    auto& self = *current_;
    self.waits_until = &is_so;
    self.runs.pause();
    if (auto const trouble = std::exchange(self.trouble, nullptr)) std::rethrow_exception(trouble);
  }
  [[noreturn]] void revoke(std::string const& why) { inner_->revoke(why); }

 private:
  template <class R> friend class hcomp::request;
  using collective = detail::started_collective;

  /// The started collective that makes the current call, or null.
  collective* here() const {
    bool const may_be =
        mode_ == progress_mode::caller || std::this_thread::get_id() == thread_.get_id();
    return may_be ? current_ : nullptr;
  }
  /// True if no started collective needs progress while the caller waits.
  bool is_alone() const {
    return mode_ == progress_mode::caller && !current_ && under_way_.empty() && new_.empty();
  }
  void require_outside(char const* call) const {
    if (here())
      throw std::logic_error("concurrent_transport: a collective under way calls " +
                             std::string(call));
  }
  void require_place(char const* call) const {
    if (mode_ == progress_mode::thread && !here())
      throw std::logic_error(
          "concurrent_transport: " + std::string(call) +
          " by a collective that was not started, where a thread makes progress");
  }
  tag_t unique_tag(char const* call, tag_t tag) const {
    require_place(call);
    if (tag >= tags)
      throw std::invalid_argument(detail::error_text(
          {"concurrent_transport: tag ", tag, ", at most ", tags - 1, " is possible"}));
    auto const* const self = here();
    if (self && self->number == collective::no_number)
      throw std::logic_error("concurrent_transport: " + std::string(call) +
                             " by a function that `then` was given; collectives belong in those of "
                             "`start`");
    return (self ? channel_of(*self) : 0) * tags + tag;
  }
  static tag_t channel_of(collective const& one) {
    return 1 + static_cast<tag_t>(one.number % channels);
  }

  void add(collective& one) {
    {
      std::lock_guard const lock(mutex_);
      one.number = one.follows ? collective::no_number : started_++;
      new_.push_back(&one);
    }
    changed_.notify_all();
    if (mode_ == progress_mode::caller) step();
  }
  bool test(collective const& one) {
    if (mode_ == progress_mode::caller)
      while (!one.is_done && step()) {
      }
    std::lock_guard const lock(mutex_);
    return one.is_done;
  }
  void await(collective const& one) {
    {
      std::lock_guard const lock(mutex_);
      if (one.is_done) return;
    }
    require_outside("wait");
    if (mode_ == progress_mode::thread) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return one.is_done; });
    } else {
      while (!one.is_done) pass_time();
    }
  }

  /// Body of the background thread.
  void serve() {
    for (;;) {
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return quits_ || !new_.empty() || !under_way_.empty(); });
        if (new_.empty() && under_way_.empty()) return;
      }
      pass_time();
    }
  }
  void pass_time() {
    if (step())
      idle_.end();
    else
      idle_.pass();
  }
  /// Resumes the first collective that can progress.
  /// @return  whether one could
  bool step() {
    take_new();
    for (std::size_t i = 0; i < under_way_.size(); ++i) {
      auto& one = *under_way_[i];
      if (!can_go_on(one)) continue;
      current_ = &one;
      one.runs.go_on();
      current_ = nullptr;
      if (one.runs.is_done()) end(i);
      return true;
    }
    return false;
  }
  void take_new() {
    std::lock_guard const lock(mutex_);
    for (; !new_.empty(); new_.pop_front()) {
      int const priority = new_.front()->how.priority;
      auto const place = std::find_if(under_way_.begin(), under_way_.end(), [&](auto const& one) {
        return one->how.priority < priority;
      });
      under_way_.insert(place, new_.front());
    }
  }
  bool can_go_on(collective& one) {
    if (!one.waits_until) return !is_behind_another(one);
    try {
      if (!(*one.waits_until)()) return false;
    } catch (...) {
      one.trouble = std::current_exception();
    }
    one.waits_until = nullptr;
    return true;
  }
  /// True if the collective must not begin yet: its predecessor is not complete, or an earlier
  /// collective uses its tags or its exclusive resource.
  bool is_behind_another(collective const& one) const {
    if (one.follows) return !one.follows->is_done;
    return std::any_of(under_way_.begin(), under_way_.end(), [&](auto const& other) {
      return other->number < one.number &&
             (channel_of(*other) == channel_of(one) ||
              (one.how.exclusive && other->how.exclusive == one.how.exclusive));
    });
  }
  void end(std::size_t i) {
    auto* const one = under_way_[i];
    under_way_.erase(under_way_.begin() + static_cast<std::ptrdiff_t>(i));
    {
      std::lock_guard const lock(mutex_);
      one->is_done = true;  // afterwards its handle may free it
    }
    changed_.notify_all();
  }

  detail::kept_transport inner_;
  progress_mode mode_;
  detail::idle_time idle_;
  std::vector<collective*> under_way_;  ///< in order of progress
  collective* current_ = nullptr;       ///< the one that runs now

  std::mutex mutex_;  ///< protects the members below and is_done
  std::condition_variable changed_;
  std::deque<collective*> new_;
  std::uint64_t started_ = 0;
  bool quits_ = false;
  std::thread thread_;
};

static_assert(Transport<concurrent_transport>);

/// A handle of a started collective and its result. The destructor waits, because the collective
/// uses the caller's memory.
template <class R> class [[nodiscard]] request {
 public:
  request(request&&) noexcept = default;
  request& operator=(request&&) = delete;
  ~request() {
    if (one_) over_->await(*one_);
  }

  /// Tests whether the collective is complete, so that `wait` returns at once. With
  /// progress_mode::caller, makes all possible progress first.
  bool test() {
    require_pending("test");
    return over_->test(*one_);
  }
  /// Registers a continuation: calls `next` once the collective is complete, successful or not, and
  /// passes it this handle, whose `wait` returns or throws at once.
  ///
  ///     auto step = request.then([&](hcomp::request<hcomp::report> done) {
  ///       done.wait();  // throws if the all-reduce failed
  ///       update(parameters, gradient);
  ///     });
  ///
  /// `next` runs in the thread that makes progress: the thread of progress_mode::thread, or the
  /// caller's inside `start`, `test` and `wait`, with the priority of this collective. It must not
  /// call collectives; ranks need not register the same continuations. This handle is invalid
  /// afterwards.
  /// @return  a handle for the result of `next`, as from `start`; its destructor waits
  /// @throws std::logic_error  called inside a started collective
  template <class F> auto then(F next) -> hcomp::request<std::invoke_result_t<F&, request>>;
  /// Waits until the collective is complete. Call it once.
  /// @return  the result of the function
  /// @throws  any exception of the function
  R wait() {
    require_pending("wait");
    over_->await(*one_);
    auto const done = std::exchange(one_, nullptr);
    if (done->error) std::rethrow_exception(std::exchange(done->error, nullptr));
    if constexpr (!std::is_void_v<R>) return std::move(*done->result);
  }

 private:
  friend concurrent_transport;
  using collective = detail::collective_with_result<R>;
  request(concurrent_transport& over, std::unique_ptr<collective> one)
      : over_(&over), one_(std::move(one)) {
    over_->add(*one_);
  }
  template <class> friend class hcomp::request;
  void require_pending(char const* call) const {
    if (!one_)
      throw std::logic_error("request: " + std::string(call) +
                             " of a collective that was waited for already");
  }

  concurrent_transport* over_;
  std::unique_ptr<collective> one_;  ///< the transport refers to it until it is complete
};

template <class F>
hcomp::request<std::invoke_result_t<F&>> concurrent_transport::start(F function,
                                                                     start_options how) {
  using R = std::invoke_result_t<F&>;
  require_outside("start");
  return {*this, std::make_unique<detail::collective_function<R, F>>(how, std::move(function))};
}

template <class R>
template <class F>
auto hcomp::request<R>::then(F next) -> hcomp::request<std::invoke_result_t<F&, request>> {
  using next_result = std::invoke_result_t<F&, request>;
  require_pending("then");
  over_->require_outside("then");
  auto& over = *over_;
  auto const& before = *one_;
  auto call = [done = std::move(*this), next = std::move(next)]() mutable -> next_result {
    return next(std::move(done));
  };
  auto following = std::make_unique<detail::collective_function<next_result, decltype(call)>>(
      start_options{.priority = before.how.priority}, std::move(call));
  following->follows = &before;
  return {over, std::move(following)};
}

}  // namespace hcomp
