#pragma once
/// @file
/// All-to-all exchange of messages, for both variants of EF-signSGD.

#include <cstddef>
#include <hcomp/collective/agreement/report.hpp>
#include <span>
#include <vector>

#include "paced_transport.hpp"

namespace train {

/// Collective. A message must have the length that its receiver expects.
/// @param to    to(rank) returns the bytes for that rank
/// @param from  from(rank) returns the buffer for the bytes of that rank
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
