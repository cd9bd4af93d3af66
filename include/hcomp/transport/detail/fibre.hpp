#pragma once
/// @file
/// Fibres: functions that can pause, each on its own stack. POSIX only.

#include <cxxabi.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <system_error>
#include <utility>

#if defined(__has_feature)
#define HCOMP_HAS_FEATURE(name) __has_feature(name)
#else
#define HCOMP_HAS_FEATURE(name) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || HCOMP_HAS_FEATURE(address_sanitizer)
#include <sanitizer/common_interface_defs.h>
#define HCOMP_ADDRESS_SANITIZER 1
#else
#define HCOMP_ADDRESS_SANITIZER 0
#endif
#if defined(__SANITIZE_THREAD__) || HCOMP_HAS_FEATURE(thread_sanitizer)
#include <sanitizer/tsan_interface.h>
#define HCOMP_THREAD_SANITIZER 1
#else
#define HCOMP_THREAD_SANITIZER 0
#endif

namespace hcomp::detail {

/// Memory of a stack. Pages are allocated on first use; the page below the stack is inaccessible.
class fibre_stack {
 public:
  /// @throws std::system_error  out of memory
  explicit fibre_stack(std::size_t bytes) : page_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))) {
    all_ = bytes + page_;
    void* const memory = mmap(nullptr, all_, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (memory == MAP_FAILED) fail("no memory", bytes);
    memory_ = static_cast<std::byte*>(memory);
    if (mprotect(memory_, page_, PROT_NONE) == 0) return;
    int const why = errno;
    munmap(memory_, all_);
    errno = why;
    fail("no guard", bytes);
  }
  fibre_stack(fibre_stack const&) = delete;
  fibre_stack& operator=(fibre_stack const&) = delete;
  ~fibre_stack() { munmap(memory_, all_); }

  std::byte* bottom() const { return memory_ + page_; }
  std::size_t size() const { return all_ - page_; }

 private:
  [[noreturn]] static void fail(char const* what, std::size_t bytes) {
    throw std::system_error(
        errno, std::generic_category(),
        std::string(what) + " for a stack of " + std::to_string(bytes) + " bytes");
  }

  std::size_t page_, all_;
  std::byte* memory_;
};

/// Tells sanitizers about every change of stacks, which they cannot detect. Does nothing without
/// them.
class stack_changes {
 public:
#if HCOMP_THREAD_SANITIZER
  stack_changes() : inside_(__tsan_create_fiber(0)) {}
  ~stack_changes() { __tsan_destroy_fiber(inside_); }
#else
  stack_changes() = default;
#endif
  stack_changes(stack_changes const&) = delete;
  stack_changes& operator=(stack_changes const&) = delete;

  /// Call outside the fibre, before the switch into it.
  void go_in([[maybe_unused]] fibre_stack const& stack) {
#if HCOMP_THREAD_SANITIZER
    outside_ = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(inside_, 0);
#endif
#if HCOMP_ADDRESS_SANITIZER
    __sanitizer_start_switch_fiber(&kept_outside_, stack.bottom(), stack.size());
#endif
  }
  /// Call inside the fibre, after the switch into it.
  void are_in() {
#if HCOMP_ADDRESS_SANITIZER
    __sanitizer_finish_switch_fiber(kept_inside_, &bottom_, &size_);
#endif
  }
  /// Call inside the fibre, before the switch out of it.
  /// @param for_good  the fibre is not resumed again
  void go_out([[maybe_unused]] bool for_good) {
#if HCOMP_THREAD_SANITIZER
    __tsan_switch_to_fiber(outside_, 0);
#endif
#if HCOMP_ADDRESS_SANITIZER
    __sanitizer_start_switch_fiber(for_good ? nullptr : &kept_inside_, bottom_, size_);
#endif
  }
  /// Call outside the fibre, after the switch out of it.
  void are_out() {
#if HCOMP_ADDRESS_SANITIZER
    __sanitizer_finish_switch_fiber(kept_outside_, nullptr, nullptr);
#endif
  }

 private:
#if HCOMP_THREAD_SANITIZER
  void *inside_, *outside_ = nullptr;
#endif
#if HCOMP_ADDRESS_SANITIZER
  void *kept_inside_ = nullptr, *kept_outside_ = nullptr;
  void const* bottom_ = nullptr;  ///< of the stack outside
  std::size_t size_ = 0;
#endif
};

/// A function that can pause and be resumed by its owner.
///
/// Cost: two system calls per pause, because a context includes the signal mask.
class fibre {
 public:
  /// @param body  must not throw
  /// @throws std::system_error  no memory for the stack
  explicit fibre(std::function<void()> body) : body_(std::move(body)), stack_(stack_bytes) {
    getcontext(&inside_);
    inside_.uc_stack.ss_sp = stack_.bottom();
    inside_.uc_stack.ss_size = stack_.size();
    inside_.uc_link = nullptr;
    auto const self = reinterpret_cast<std::uintptr_t>(this);  // makecontext passes ints
    makecontext(&inside_, reinterpret_cast<void (*)()>(&fibre::begin), 2,
                static_cast<unsigned>(self & 0xffffffffu),
                static_cast<unsigned>(std::uint64_t{self} >> 32));
  }
  fibre(fibre const&) = delete;
  fibre& operator=(fibre const&) = delete;
  /// Precondition: the function has ended, or has not begun.
  ~fibre() = default;

  bool is_done() const { return is_done_; }
  /// Runs the function until it pauses or ends. Must not be called inside a fibre.
  void go_on() {
    swap_exceptions();
    changes_.go_in(stack_);
    swapcontext(&outside_, &inside_);
    changes_.are_out();
    swap_exceptions();
  }
  /// Called by the function: makes `go_on` return. The next `go_on` continues here.
  void pause() {
    changes_.go_out(false);
    swapcontext(&inside_, &outside_);
    changes_.are_in();
  }

 private:
  static constexpr std::size_t stack_bytes = std::size_t{1} << 20;

  static void begin(unsigned low, unsigned high) {
    auto const self = static_cast<std::uintptr_t>(std::uint64_t{high} << 32 | low);
    reinterpret_cast<fibre*>(self)->run();
  }
  void run() {
    changes_.are_in();
    body_();
    is_done_ = true;
    changes_.go_out(true);
    setcontext(&outside_);
  }

  /// The C++ runtime has one list of exceptions being handled per thread, but a fibre may pause
  /// inside a catch block. So each fibre has its own list.
  void swap_exceptions() {
    auto* const of_thread = reinterpret_cast<std::byte*>(abi::__cxa_get_globals());
    std::byte now[sizeof(exceptions)];
    std::memcpy(now, of_thread, sizeof now);
    std::memcpy(of_thread, &exceptions_, sizeof now);
    std::memcpy(&exceptions_, now, sizeof now);
  }
  /// Layout of the Itanium C++ ABI, which every supported platform uses.
  struct exceptions {
    void* caught = nullptr;
    unsigned int uncaught = 0;
  };

  std::function<void()> body_;
  fibre_stack stack_;
  ucontext_t inside_{}, outside_{};
  exceptions exceptions_;  ///< the list that is not in use by the thread now
  bool is_done_ = false;
  stack_changes changes_;
};

}  // namespace hcomp::detail

#undef HCOMP_HAS_FEATURE
#undef HCOMP_ADDRESS_SANITIZER
#undef HCOMP_THREAD_SANITIZER
