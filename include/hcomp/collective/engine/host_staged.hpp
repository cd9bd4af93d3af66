#pragma once
/// @file
/// Messages in a device's memory over any transport.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/exec/executor.hpp>
#include <hcomp/transport/transport.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace hcomp {

/// Copies messages between a device and host memory, unless the transport reaches the device
/// itself: what a codec has made small is all that crosses the bus. Which of the two is decided
/// once.
///
/// Messages are in the executor's memory or in the host's. One that is copied from the device
/// leaves in a later `isend` or `wait` of any message, when the work given before it is done and the
/// copy is here; so copies, work and messages under way overlap. Where an executor that AsyncCopy
/// and the transport can be asked (`test`), a `wait` returns as soon as its message has come, and
/// leaves to the next ones what is not here yet; otherwise it waits for all copies first. What came
/// is there for work given after its `wait`. An executor that AsyncCopy copies while work goes
/// on. Where the transport reaches the device, messages begin, in the same way, when the work given
/// before them is done.
/// Transport and executor are used, not owned, and must outlive this; by one thread at a time.
/// Memory: staging for as many messages as were under way together, in whole pages and up to an
/// eighth more, kept.
template <Transport T, DeviceExecutor E> class host_staged {
 public:
  /// A send or receive under way. Waited for exactly once.
  struct request {
    std::uint32_t slot = 0;
  };

  host_staged(T& transport, E& executor)
      : transport_(&transport),
        executor_(&executor),
        copies_messages_(!transport.reaches(E::space)) {}
  host_staged(host_staged const&) = delete;
  host_staged& operator=(host_staged const&) = delete;

  int rank() const { return transport_->rank(); }
  int size() const { return transport_->size(); }
  bool reaches(memory_space) const { return true; }
  std::uint64_t group() const { return detail::group_of(*transport_); }
  std::uint64_t bytes_sent() const { return transport_->bytes_sent(); }
  /// False if the transport moves a device's bytes by itself.
  bool copies_messages() const { return copies_messages_; }
  /// True: what is sent need not be ready.
  static constexpr bool waits_for_work() { return true; }

  request isend(int peer, tag_t tag, std::span<std::byte const> bytes) {
    if (is_here(bytes.data())) {
      begin_all();  // messages must not pass each other
      return keep(transport_->isend(peer, tag, bytes));
    }
    if (!copies_messages_) {
      auto* const there = const_cast<std::byte*>(bytes.data());  // which a send only reads
      return after_work({there, bytes.size()}, peer, tag, false);
    }
    auto const r = slot_for(bytes.size());
    auto& one = slots_[r.slot];
    if constexpr (AsyncCopy<E>)
      one.ready = executor_->read_beside(one.here.data(), bytes.data(), bytes.size());
    else
      one.ready = executor_->read(one.here.data(), bytes.data(), bytes.size());
    begin_later(r, {one.here.data(), bytes.size()}, peer, tag, false);
    return r;
  }

  request irecv(int peer, tag_t tag, std::span<std::byte> bytes) {
    if (is_here(bytes.data())) {
      if (!copies_messages_) begin_all();
      return keep(transport_->irecv(peer, tag, bytes));
    }
    if (!copies_messages_) return after_work(bytes, peer, tag, true);
    auto const r = slot_for(bytes.size());
    auto& one = slots_[r.slot];
    one.there = bytes.data();
    if constexpr (AsyncCopy<E>) one.free = executor_->now();
    one.inner = transport_->irecv(peer, tag, {one.here.data(), bytes.size()});
    return r;
  }

  std::size_t wait(request& r) {
    auto& one = slots_[r.slot];
    std::size_t const moved = moved_bytes(one);
    one.is_free = true;
    one.freed = ++freed_;
    if (!one.there) return moved;
    last_ = r.slot;
    if constexpr (AsyncCopy<E>)
      one.ready = executor_->write_beside(one.there, one.here.data(), moved, one.free);
    else
      one.ready = executor_->write(one.there, one.here.data(), moved);
    return moved;
  }
  /// See any_transport.
  std::byte const* in_host(std::byte const* message) const {
    bool const is_here = last_ < slots_.size() && slots_[last_].there == message;
    return is_here ? slots_[last_].here.data() : nullptr;
  }
  /// @throws wire_error  always; on all ranks if the transport can tell them
  [[noreturn]] void revoke(std::string const& why) { detail::revoke(*transport_, why); }

 private:
  struct slot {
    typename E::staging here{std::size_t{0}};
    std::byte* there = nullptr;  ///< where a message goes, or went, that is for the device
    std::span<std::byte> message;
    int peer = 0;
    tag_t tag = 0;
    bool is_receive = false, is_to_begin = false;
    typename T::request inner{};
    typename E::mark ready{};  ///< what is to be done before the message begins, or was copied
    typename E::mark free{};   ///< `there` is
    bool is_free = false;
    std::uint64_t freed = 0;  ///< as which one
  };

  /// Whether one can ask what is done, and need not wait for it.
  bool can_ask() const {
    if constexpr (!AsyncCopy<E>)
      return false;
    else if constexpr (requires { transport_->can_test(); })
      return transport_->can_test();
    else
      return requires(typename T::request & r) { transport_->test(r); };
  }

  bool is_here(std::byte const* bytes) const {
    return executor_->space_of(bytes) == memory_space::host;
  }

  /// A message in the device's memory, when the work before it is done: a transport knows no streams.
  request after_work(std::span<std::byte> bytes, int peer, tag_t tag, bool is_receive) {
    auto const r = slot_for(0);
    if constexpr (AsyncCopy<E>)
      slots_[r.slot].ready = executor_->now();
    else
      executor_->synchronize();
    begin_later(r, bytes, peer, tag, is_receive);
    return r;
  }
  void begin_later(request r, std::span<std::byte> bytes, int peer, tag_t tag, bool is_receive) {
    auto& one = slots_[r.slot];
    one.message = bytes;
    one.peer = peer;
    one.tag = tag;
    one.is_receive = is_receive;
    one.is_to_begin = true;
    waiting_.push_back(r);
    if (can_ask()) begin_what_is_ready();
  }

  request keep(typename T::request&& inner) {
    auto const r = slot_for(0);
    slots_[r.slot].inner = std::move(inner);
    return r;
  }

  /// The smallest that is large enough, whose bytes the executor no longer needs; of those the one that
  /// is free for longest.
  request slot_for(std::size_t bytes) {
    std::size_t found = slots_.size();
    auto const is_better = [&](slot const& a, slot const& b) {
      return std::pair(a.here.size(), a.freed) < std::pair(b.here.size(), b.freed);
    };
    for (std::size_t s = 0; s < slots_.size(); ++s)
      if (slots_[s].is_free && slots_[s].here.size() >= bytes &&
          (found == slots_.size() || is_better(slots_[s], slots_[found])))
        found = s;
    if (found == slots_.size()) {
      slots_.emplace_back();
      slots_.back().here = typename E::staging(with_room(bytes));
    }
    auto& one = slots_[found];
    if (one.there) executor_->wait(one.ready);
    one.is_free = false;
    one.there = nullptr;
    return {static_cast<std::uint32_t>(found)};
  }

  /// Up to an eighth more, and whole pages: messages whose length depends on what is drawn fit next
  /// time, too.
  static std::size_t with_room(std::size_t bytes) {
    std::size_t const unit =
        std::max<std::size_t>(4096, (std::size_t{1} << detail::bit_length(bytes)) / 16);
    return (bytes + unit - 1) / unit * unit;
  }

  /// Begins messages that are to begin later, in order, as long as `is_ready` says so of the next.
  template <class F> void begin_messages(F const& is_ready) {
    while (first_waiting_ < waiting_.size()) {
      auto& one = slots_[waiting_[first_waiting_].slot];
      if (!is_ready(one)) return;
      one.inner = one.is_receive ? transport_->irecv(one.peer, one.tag, one.message)
                                 : transport_->isend(one.peer, one.tag, one.message);
      one.is_to_begin = false;
      ++first_waiting_;
    }
    waiting_.clear();
    first_waiting_ = 0;
  }
  void begin_what_is_ready() {
    if constexpr (AsyncCopy<E>)
      begin_messages([&](slot& one) { return executor_->is_done(one.ready); });
  }
  void begin_all() {
    begin_messages([&](slot& one) {
      executor_->wait(one.ready);
      return true;
    });
  }
  /// Waits for a message, and meanwhile begins others.
  std::size_t moved_bytes(slot& one) {
    if (!can_ask()) begin_all();
    while (!waiting_.empty()) {
      begin_what_is_ready();
      if (one.is_to_begin) continue;
      if constexpr (requires { transport_->test(one.inner); })
        if (auto const moved = transport_->test(one.inner)) return *moved;
    }
    return transport_->wait(one.inner);
  }

  T* transport_;
  E* executor_;
  bool copies_messages_;
  std::deque<slot> slots_;
  std::size_t last_ = ~std::size_t{0};  ///< slot of the message for the device that came last
  std::vector<request> waiting_;        ///< to begin later
  std::size_t first_waiting_ = 0;       ///< of those that have not begun yet
  std::uint64_t freed_ = 0;
};

}  // namespace hcomp
