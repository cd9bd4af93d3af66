#pragma once
/// @file
/// Transport adapter that stages device messages through pinned host memory.

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

/// Copies messages between device and host memory, unless the transport reaches the device itself.
/// Only encoded data crosses the bus. The constructor decides which of the two happens.
///
/// Messages are in the executor's memory or in host memory. A message that is copied from the
/// device leaves in a later `isend` or `wait` of any message, when earlier work and the copy are
/// complete. So copies, work and messages overlap. If the transport reaches the device, a message
/// likewise starts when earlier work is complete.
///
/// If the executor is AsyncCopy and the transport has `test`, `wait` returns as soon as its message
/// has arrived and leaves unfinished copies to later calls. Otherwise it waits for all copies
/// first. Received data is ready for work that is given to the executor after `wait`. An AsyncCopy
/// executor copies while work continues.
///
/// Transport and executor are used, not owned, and must outlive this. One thread at a time.
/// Memory: staging buffers for the largest number of concurrent messages, in full pages and up to
/// an eighth larger. They are kept.
template <Transport T, DeviceExecutor E> class host_staged {
 public:
  /// A pending send or receive. Wait for it exactly once.
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
  /// False if the transport moves a device's bytes itself.
  bool copies_messages() const { return copies_messages_; }
  /// True: data may be sent before the work that produces it is complete.
  static constexpr bool waits_for_work() { return true; }

  request isend(int peer, tag_t tag, std::span<std::byte const> bytes) {
    if (is_in_slot(bytes.data())) {
      begin_all();  // messages must not overtake each other
      return keep(transport_->isend(peer, tag, bytes));
    }
    if (!copies_messages_) {
      auto* const on_device = const_cast<std::byte*>(bytes.data());  // a send only reads it
      return after_work({on_device, bytes.size()}, peer, tag, false);
    }
    auto const r = slot_for(bytes.size());
    auto& one = slots_[r.slot];
    if constexpr (AsyncCopy<E>)
      one.ready = executor_->read_beside(one.on_host.data(), bytes.data(), bytes.size());
    else
      one.ready = executor_->read(one.on_host.data(), bytes.data(), bytes.size());
    begin_later(r, {one.on_host.data(), bytes.size()}, peer, tag, false);
    return r;
  }

  request irecv(int peer, tag_t tag, std::span<std::byte> bytes) {
    if (is_in_slot(bytes.data())) {
      if (!copies_messages_) begin_all();
      return keep(transport_->irecv(peer, tag, bytes));
    }
    if (!copies_messages_) return after_work(bytes, peer, tag, true);
    auto const r = slot_for(bytes.size());
    auto& one = slots_[r.slot];
    one.on_device = bytes.data();
    if constexpr (AsyncCopy<E>) one.free = executor_->now();
    one.inner = transport_->irecv(peer, tag, {one.on_host.data(), bytes.size()});
    return r;
  }

  std::size_t wait(request& r) {
    auto& one = slots_[r.slot];
    std::size_t const moved = moved_bytes(one);
    one.is_free = true;
    one.freed = ++freed_;
    if (!one.on_device) return moved;
    last_ = r.slot;
    if constexpr (AsyncCopy<E>)
      one.ready = executor_->write_beside(one.on_device, one.on_host.data(), moved, one.free);
    else
      one.ready = executor_->write(one.on_device, one.on_host.data(), moved);
    return moved;
  }
  /// See any_transport.
  std::byte const* in_host(std::byte const* message) const {
    bool const is_in_slot = last_ < slots_.size() && slots_[last_].on_device == message;
    return is_in_slot ? slots_[last_].on_host.data() : nullptr;
  }
  /// @throws wire_error  always; on all ranks if the transport can tell them
  [[noreturn]] void revoke(std::string const& why) { detail::revoke(*transport_, why); }

 private:
  struct slot {
    typename E::staging on_host{std::size_t{0}};
    std::byte* on_device = nullptr;  ///< destination on the device of a received message
    std::span<std::byte> message;
    int peer = 0;
    tag_t tag = 0;
    bool is_receive = false, is_to_begin = false;
    typename T::request inner{};
    typename E::mark ready{};  ///< must be complete before the message starts; or: the copy
    typename E::mark free{};   ///< `on_device` may be overwritten
    bool is_free = false;
    std::uint64_t freed = 0;  ///< serial number of its release
  };

  /// Whether completion can be tested without waiting.
  bool can_ask() const {
    if constexpr (!AsyncCopy<E>)
      return false;
    else if constexpr (requires { transport_->can_test(); })
      return transport_->can_test();
    else
      return requires(typename T::request & r) { transport_->test(r); };
  }

  bool is_in_slot(std::byte const* bytes) const {
    return executor_->space_of(bytes) == memory_space::host;
  }

  /// Starts a message in device memory when earlier work is complete: transports know no streams.
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

  /// The smallest free slot of sufficient size whose bytes the executor no longer needs; among
  /// equals the one released first.
  request slot_for(std::size_t bytes) {
    std::size_t found = slots_.size();
    auto const is_better = [&](slot const& a, slot const& b) {
      return std::pair(a.on_host.size(), a.freed) < std::pair(b.on_host.size(), b.freed);
    };
    for (std::size_t s = 0; s < slots_.size(); ++s)
      if (slots_[s].is_free && slots_[s].on_host.size() >= bytes &&
          (found == slots_.size() || is_better(slots_[s], slots_[found])))
        found = s;
    if (found == slots_.size()) {
      slots_.emplace_back();
      slots_.back().on_host = typename E::staging(rounded_up_size(bytes));
    }
    auto& one = slots_[found];
    if (one.on_device) executor_->wait(one.ready);
    one.is_free = false;
    one.on_device = nullptr;
    return {static_cast<std::uint32_t>(found)};
  }

  /// Adds up to an eighth, and rounds up to full pages: messages whose length depends on random
  /// draws fit next time, too.
  static std::size_t rounded_up_size(std::size_t bytes) {
    std::size_t const unit =
        std::max<std::size_t>(4096, (std::size_t{1} << detail::bit_length(bytes)) / 16);
    return (bytes + unit - 1) / unit * unit;
  }

  /// Starts waiting messages in order, until `is_ready` is false for the next.
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
  /// Waits for a message, and starts waiting messages meanwhile.
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
  std::size_t last_ = ~std::size_t{0};  ///< slot of the last message received for the device
  std::vector<request> waiting_;        ///< messages to start later
  std::size_t first_waiting_ = 0;       ///< the first that has not started
  std::uint64_t freed_ = 0;
};

}  // namespace hcomp
