#pragma once
/// @file
/// A type-erased transport, so that code on top of it is compiled once for all transports.

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <hcomp/core/config.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/transport/transport.hpp>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

namespace hcomp {

/// A type-erased transport, chosen at run time. Forwards all calls; exceptions pass through
/// unchanged.
///
/// A plan over any_transport allocates no more than a plan over the transport itself: requests are
/// stored in place. Movable, except while a collective uses it.
/// Cost: one virtual call per send, receive and wait.
class any_transport {
 public:
  /// A send or receive in progress. Valid only for the any_transport that returned it.
  struct request {
    static constexpr std::size_t capacity = 48;
    alignas(std::uint64_t) std::array<std::byte, capacity> bytes;
  };

  /// Refers to `transport`, which must outlive this object.
  template <class T>
    requires(!std::same_as<T, any_transport> && Transport<T>)
  explicit any_transport(T& transport) : any_transport(&transport, by_pointer{}) {}

  /// Owns the transport.
  /// @throws std::invalid_argument  null pointer
  template <class T>
    requires(!std::same_as<T, any_transport> && Transport<T>)
  explicit any_transport(std::unique_ptr<T> transport)
      : any_transport(std::move(transport), by_pointer{}) {}

  int rank() const { return rank_; }
  int size() const { return size_; }
  std::uint64_t group() const { return group_; }
  bool reaches(memory_space space) const { return behind_->reaches(space); }
  std::uint64_t bytes_sent() const { return behind_->bytes_sent(); }
  /// True if the transport itself waits for the device work that produces a message (see
  /// host_staged).
  bool waits_for_work() const { return waits_for_work_; }
  /// True if messages are work of the executor's stream (see Transport).
  bool is_stream_ordered() const { return is_stream_ordered_; }
  /// True if messages in device memory are copied through host memory (see host_staged).
  bool copies_messages() const { return copies_messages_; }

  request isend(int peer, tag_t tag, std::span<std::byte const> bytes) {
    return behind_->isend(peer, tag, bytes);
  }
  request irecv(int peer, tag_t tag, std::span<std::byte> bytes) {
    return behind_->irecv(peer, tag, bytes);
  }
  std::size_t wait(request& r) { return behind_->wait(r); }
  /// The host copy of the message received at `message`, if it was the last one waited for and came
  /// through host memory (see host_staged); otherwise null.
  std::byte const* in_host(std::byte const* message) const { return behind_->in_host(message); }
  /// Whether the transport has `test`.
  bool can_test() const { return behind_->can_test(); }
  /// See Transport.
  /// @throws std::logic_error  the transport has no `test`
  std::optional<std::size_t> test(request& r) { return behind_->test(r); }
  /// Whether the transport has `wait_until`, so that several collectives can progress over it.
  bool can_wait_until() const { return behind_->can_wait_until(); }
  /// See Transport.
  /// @throws std::logic_error  the transport has no `wait_until`
  void wait_until(std::function<bool()> const& is_so) { behind_->wait_until(is_so); }
  /// See Transport.
  void check() { behind_->check(); }
  /// @throws wire_error  always; on all ranks if the transport can notify them
  [[noreturn]] void revoke(std::string const& why) {
    behind_->revoke(why);
    throw wire_error(why);
  }

 private:
  struct interface {
    interface() = default;
    interface(interface const&) = delete;
    interface& operator=(interface const&) = delete;
    virtual ~interface() = default;
    virtual bool reaches(memory_space space) const = 0;
    virtual std::uint64_t bytes_sent() const = 0;
    virtual request isend(int peer, tag_t tag, std::span<std::byte const> bytes) = 0;
    virtual request irecv(int peer, tag_t tag, std::span<std::byte> bytes) = 0;
    virtual std::size_t wait(request& r) = 0;
    virtual std::byte const* in_host(std::byte const* message) const = 0;
    virtual bool can_test() const = 0;
    virtual std::optional<std::size_t> test(request& r) = 0;
    virtual bool can_wait_until() const = 0;
    virtual void wait_until(std::function<bool()> const& is_so) = 0;
    virtual void check() = 0;
    virtual void revoke(std::string const& why) = 0;
  };

  /// @tparam Pointer  T* or std::unique_ptr<T>
  template <class Pointer> class over final : public interface {
   public:
    using inner = typename std::pointer_traits<Pointer>::element_type::request;
    static_assert(
        std::is_trivially_copyable_v<inner>,
        "any_transport copies requests as bytes: T::request has to be trivially copyable");
    static_assert(sizeof(inner) <= request::capacity && alignof(inner) <= alignof(request),
                  "any_transport keeps requests in place: T::request has to fit into "
                  "any_transport::request");

    explicit over(Pointer transport) : transport_(std::move(transport)) {}

    bool reaches(memory_space space) const override { return transport_->reaches(space); }
    std::uint64_t bytes_sent() const override { return transport_->bytes_sent(); }
    request isend(int peer, tag_t tag, std::span<std::byte const> bytes) override {
      return packed(transport_->isend(peer, tag, bytes));
    }
    request irecv(int peer, tag_t tag, std::span<std::byte> bytes) override {
      return packed(transport_->irecv(peer, tag, bytes));
    }
    std::size_t wait(request& r) override { return transport_->wait(inner_of(r)); }
    std::byte const* in_host([[maybe_unused]] std::byte const* message) const override {
      if constexpr (requires { transport_->in_host(message); }) return transport_->in_host(message);
      return nullptr;
    }
    bool can_test() const override {
      if constexpr (requires { transport_->can_test(); }) return transport_->can_test();
      return has_test;
    }
    std::optional<std::size_t> test(request& r) override {
      if constexpr (has_test) return transport_->test(inner_of(r));
      throw std::logic_error("any_transport: test of a transport that has none");
    }
    bool can_wait_until() const override { return has_wait_until; }
    void wait_until([[maybe_unused]] std::function<bool()> const& is_so) override {
      if constexpr (has_wait_until)
        transport_->wait_until(is_so);
      else
        throw std::logic_error("any_transport: wait_until of a transport that has none");
    }
    void check() override {
      if constexpr (requires { transport_->check(); }) transport_->check();
    }
    void revoke(std::string const& why) override { detail::revoke(*transport_, why); }

   private:
    static constexpr bool has_test =
        requires(typename std::pointer_traits<Pointer>::element_type & t, inner& r) {
      { t.test(r) } -> std::same_as<std::optional<std::size_t>>;
    };
    static constexpr bool has_wait_until = requires(
        typename std::pointer_traits<Pointer>::element_type & t, std::function<bool()> const& f) {
      t.wait_until(f);
    };
    static request packed(inner const& r) {
      request out;
      ::new (static_cast<void*>(out.bytes.data())) inner(r);
      return out;
    }
    static inner& inner_of(request& r) {
      return *std::launder(reinterpret_cast<inner*>(r.bytes.data()));
    }

    Pointer transport_;
  };

  struct by_pointer {};
  template <class Pointer>
  any_transport(Pointer transport, by_pointer)
      : rank_(existing(transport).rank()),
        size_(transport->size()),
        group_(detail::group_of(*transport)),
        is_stream_ordered_(orders(*transport)),
        waits_for_work_(is_stream_ordered_ || waits(*transport)),
        copies_messages_(copies(*transport)),
        behind_(std::make_unique<over<Pointer>>(std::move(transport))) {}

  template <class Pointer> static auto const& existing(Pointer const& transport) {
    if (!transport)
      throw std::invalid_argument("any_transport: the pointer to the transport is null");
    return *transport;
  }

  template <class T> static bool orders(T const& transport) {
    if constexpr (requires { transport.is_stream_ordered(); }) return transport.is_stream_ordered();
    return false;
  }
  template <class T> static bool waits(T const& transport) {
    if constexpr (requires { transport.waits_for_work(); }) return transport.waits_for_work();
    return false;
  }
  template <class T> static bool copies(T const& transport) {
    if constexpr (requires { transport.copies_messages(); }) return transport.copies_messages();
    return false;
  }

  int rank_;
  int size_;
  std::uint64_t group_;
  bool is_stream_ordered_;
  bool waits_for_work_;
  bool copies_messages_;
  std::unique_ptr<interface> behind_;
};

static_assert(Transport<any_transport>);

namespace detail {

/// A member that wraps a T&, or refers to it if it is already an any_transport.
template <Transport T>
using erased_transport =
    std::conditional_t<std::same_as<T, any_transport>, any_transport&, any_transport>;

/// As erased_transport, without T in the type. Movable; the any_transport keeps its address.
class kept_transport {
 public:
  template <Transport T> explicit kept_transport(T& transport) {
    if constexpr (std::same_as<T, any_transport>) {
      transport_ = &transport;
    } else {
      kept_ = std::make_unique<any_transport>(transport);
      transport_ = kept_.get();
    }
  }
  any_transport& operator*() const { return *transport_; }
  any_transport* operator->() const { return transport_; }

 private:
  std::unique_ptr<any_transport> kept_;
  any_transport* transport_;
};

}  // namespace detail
}  // namespace hcomp
