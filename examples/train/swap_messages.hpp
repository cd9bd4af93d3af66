#pragma once
/// @file
/// Every rank sends a message to every other rank: what both kinds of EF-signSGD are made of.

#include <cstddef>
#include <hcomp/collective/agreement/report.hpp>
#include <span>
#include <vector>

#include "paced_transport.hpp"

namespace train {

/// Collective. Messages have to be as long as who receives them expects.
/// @param to    (rank) -> the bytes for that rank
/// @param from  (rank) -> where the bytes of that rank go
template <class To, class From>
void swap_messages(paced_transport& transport, To const& to, From const& from,
                   hcomp::report& stats) {
  auto const before = transport.bytes_sent();
  int const rank = transport.rank(), size = transport.size();
  std::vector<paced_transport::request> receives, sends;
  for (int i = 1; i < size; ++i) {
    int const other = (rank + size - i) % size;
    receives.push_back(transport.irecv(other, 0, from(other)));
  }
  for (int i = 1; i < size; ++i) {
    int const other = (rank + i) % size;
    sends.push_back(transport.isend(other, 0, to(other)));
  }
  for (auto& request : receives) transport.wait(request);
  for (auto& request : sends) transport.wait(request);
  stats.bytes_sent += transport.bytes_sent() - before;
  stats.hops += size - 1;
}

}  // namespace train
