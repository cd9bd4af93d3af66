#pragma once
/// @file
/// Functions that can pause in their midst, each on a stack of its own. POSIX only.

#include <cxxabi.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <system_error>
#include <utility>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HCOMP_FIBRES_AND_ADDRESS_SANITIZER
#endif
#if __has_feature(thread_sanitizer)
#define HCOMP_FIBRES_AND_THREAD_SANITIZER
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(HCOMP_FIBRES_AND_ADDRESS_SANITIZER)
#include <sanitizer/common_interface_defs.h>
#undef HCOMP_FIBRES_AND_ADDRESS_SANITIZER
#define HCOMP_FIBRES_AND_ADDRESS_SANITIZER
#endif
#if defined(__SANITIZE_THREAD__) || defined(HCOMP_FIBRES_AND_THREAD_SANITIZER)
#include <sanitizer/tsan_interface.h>
#undef HCOMP_FIBRES_AND_THREAD_SANITIZER
#define HCOMP_FIBRES_AND_THREAD_SANITIZER
#endif

namespace hcomp::detail {

/// Memory for a stack, of which only what is used takes any, and below it a page that nobody may
/// touch.
class fibre_stack {
 public:
  /// @throws std::system_error  there is no memory
  explicit fibre_stack(std::size_t bytes) : page_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))) {
    all_ = bytes + page_;
    void* const memory = mmap(nullptr, all_, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (memory == MAP_FAILED)
      throw std::system_error(errno, std::generic_category(), "no memory for a stack");
    memory_ = static_cast<std::byte*>(memory);
    mprotect(memory_, page_, PROT_NONE);
  }
  fibre_stack(fibre_stack const&) = delete;
  fibre_stack& operator=(fibre_stack const&) = delete;
  ~fibre_stack() { munmap(memory_, all_); }

  std::byte* bottom() const { return memory_ + page_; }
  std::size_t size() const { return all_ - page_; }

 private:
  std::size_t page_, all_;
  std::byte* memory_;
};

/// A function that pauses where it says so, and is gone on with by whoever wants it to.
///
/// Cost: two system calls per pause, since contexts have masks of signals.
class fibre {
 public:
  /// @param body  must not throw
  /// @throws std::system_error  no memory for its stack
  explicit fibre(std::function<void()> body) : body_(std::move(body)), stack_(stack_bytes) {
    getcontext(&inside_);
    inside_.uc_stack.ss_sp = stack_.bottom();
    inside_.uc_stack.ss_size = stack_.size();
    inside_.uc_link = nullptr;
    auto const self = reinterpret_cast<std::uintptr_t>(this);  // makecontext passes ints
    makecontext(&inside_, reinterpret_cast<void (*)()>(&fibre::begin), 2,
                static_cast<unsigned>(self & 0xffffffffu),
                static_cast<unsigned>(std::uint64_t{self} >> 32));
#if defined(HCOMP_FIBRES_AND_THREAD_SANITIZER)
    tsan_inside_ = __tsan_create_fiber(0);
#endif
  }
  fibre(fibre const&) = delete;
  fibre& operator=(fibre const&) = delete;
  /// Its function must have ended, or not begun.
  ~fibre() {
#if defined(HCOMP_FIBRES_AND_THREAD_SANITIZER)
    __tsan_destroy_fiber(tsan_inside_);
#endif
  }

  bool is_done() const { return is_done_; }
  /// Until it pauses or ends. Not from a fibre.
  void go_on() {
    swap_exceptions();
#if defined(HCOMP_FIBRES_AND_THREAD_SANITIZER)
    tsan_outside_ = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(tsan_inside_, 0);
#endif
#if defined(HCOMP_FIBRES_AND_ADDRESS_SANITIZER)
    void* kept = nullptr;
    __sanitizer_start_switch_fiber(&kept, stack_.bottom(), stack_.size());
#endif
    swapcontext(&outside_, &inside_);
#if defined(HCOMP_FIBRES_AND_ADDRESS_SANITIZER)
    __sanitizer_finish_switch_fiber(kept, nullptr, nullptr);
#endif
    swap_exceptions();
  }
  /// From its function: `go_on` returns, and the next one returns here.
  void pause() {
#if defined(HCOMP_FIBRES_AND_THREAD_SANITIZER)
    __tsan_switch_to_fiber(tsan_outside_, 0);
#endif
#if defined(HCOMP_FIBRES_AND_ADDRESS_SANITIZER)
    void* kept = nullptr;
    __sanitizer_start_switch_fiber(&kept, outer_bottom_, outer_size_);
#endif
    swapcontext(&inside_, &outside_);
#if defined(HCOMP_FIBRES_AND_ADDRESS_SANITIZER)
    __sanitizer_finish_switch_fiber(kept, &outer_bottom_, &outer_size_);
#endif
  }

 private:
  static constexpr std::size_t stack_bytes = std::size_t{1} << 20;

  static void begin(unsigned low, unsigned high) {
    auto const self = static_cast<std::uintptr_t>(std::uint64_t{high} << 32 | low);
    reinterpret_cast<fibre*>(self)->run();
  }
  void run() {
#if defined(HCOMP_FIBRES_AND_ADDRESS_SANITIZER)
    __sanitizer_finish_switch_fiber(nullptr, &outer_bottom_, &outer_size_);
#endif
    body_();
    is_done_ = true;
#if defined(HCOMP_FIBRES_AND_THREAD_SANITIZER)
    __tsan_switch_to_fiber(tsan_outside_, 0);
#endif
#if defined(HCOMP_FIBRES_AND_ADDRESS_SANITIZER)
    __sanitizer_start_switch_fiber(nullptr, outer_bottom_, outer_size_);
#endif
    setcontext(&outside_);
  }

  /// A thread has one list of the exceptions that are being handled, but a fibre may pause while it
  /// handles one.
  void swap_exceptions() {
    auto* const of_thread = reinterpret_cast<std::byte*>(abi::__cxa_get_globals());
    std::byte now[sizeof(exceptions)];
    std::memcpy(now, of_thread, sizeof now);
    std::memcpy(of_thread, &exceptions_, sizeof now);
    std::memcpy(&exceptions_, now, sizeof now);
  }
  /// As the C++ ABI of Itanium, which all use here, has it.
  struct exceptions {
    void* caught = nullptr;
    unsigned int uncaught = 0;
  };

  std::function<void()> body_;
  fibre_stack stack_;
  ucontext_t inside_{}, outside_{};
  exceptions exceptions_;  ///< those that are not of the thread now
  bool is_done_ = false;
#if defined(HCOMP_FIBRES_AND_ADDRESS_SANITIZER)
  void const* outer_bottom_ = nullptr;
  std::size_t outer_size_ = 0;
#endif
#if defined(HCOMP_FIBRES_AND_THREAD_SANITIZER)
  void *tsan_inside_ = nullptr, *tsan_outside_ = nullptr;
#endif
};

}  // namespace hcomp::detail
