// What is not a Transport, and whether the compiler says what is missing.
//
// CASE_NO_BYTES_SENT: 'c\.bytes_sent\(\)' (is|would be) invalid
// CASE_WAIT_RETURNS_NOTHING: 't\.wait\(r\)' does not satisfy|'std::same_as<void,

#include <hcomp/transport/transport.hpp>

struct stub_transport {
  struct request {};
  int rank() const { return 0; }
  int size() const { return 1; }
  request isend(int, hcomp::tag_t, std::span<std::byte const>) { return {}; }
  request irecv(int, hcomp::tag_t, std::span<std::byte>) { return {}; }
#if defined(CASE_WAIT_RETURNS_NOTHING)
  void wait(request&) {}
#else
  std::size_t wait(request&) { return 0; }
#endif
  bool reaches(hcomp::memory_space) const { return false; }
#if !defined(CASE_NO_BYTES_SENT)
  std::uint64_t bytes_sent() const { return 0; }
#endif
};

static_assert(hcomp::Transport<stub_transport>);
