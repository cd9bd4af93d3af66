// Requests that any_transport cannot keep in place, and whether the compiler says why.
//
// CASE_LARGE_REQUEST: any_transport keeps requests in place: T::request has to fit
// CASE_REQUEST_WITH_AN_OWNER: any_transport copies requests as bytes: T::request has to be
// trivially copyable

#include <hcomp/transport/any_transport.hpp>

struct stub_transport {
#if defined(CASE_LARGE_REQUEST)
  struct request {
    std::byte bytes[49];
  };
#elif defined(CASE_REQUEST_WITH_AN_OWNER)
  struct request {
    std::unique_ptr<int> number;
  };
#else
  struct request {};
#endif
  int rank() const { return 0; }
  int size() const { return 1; }
  request isend(int, hcomp::tag_t, std::span<std::byte const>) { return {}; }
  request irecv(int, hcomp::tag_t, std::span<std::byte>) { return {}; }
  std::size_t wait(request&) { return 0; }
  bool reaches(hcomp::memory_space) const { return false; }
  std::uint64_t bytes_sent() const { return 0; }
};

hcomp::any_transport make(stub_transport& transport) { return hcomp::any_transport(transport); }
