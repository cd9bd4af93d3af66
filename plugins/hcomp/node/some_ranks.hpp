#pragma once
/// @file
/// A transport over a subset of the ranks of another transport.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <hcomp/core/config.hpp>
#include <hcomp/core/random.hpp>
#include <hcomp/transport/any_transport.hpp>
#include <hcomp/transport/transport.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace hcomp::node {

/// A subset of the ranks of another transport, renumbered. The other transport must outlive this
/// object; errors contain its rank numbers. Two subsets with at most one common rank do not
/// interfere.
class some_ranks {
 public:
  using request = any_transport::request;

  /// @param ranks  ranks of `all`, including this one
  some_ranks(any_transport& all, std::vector<int> ranks)
      : all_(&all),
        ranks_(std::move(ranks)),
        rank_(static_cast<int>(std::ranges::find(ranks_, all.rank()) - ranks_.begin())),
        group_(all.group()) {
    for (int const one : ranks_) group_ = mix(group_ ^ static_cast<std::uint64_t>(one + 1));
  }

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(ranks_.size()); }
  std::uint64_t group() const { return group_; }
  bool reaches(memory_space space) const { return all_->reaches(space); }
  /// The bytes that this rank sent to any rank of `all`.
  std::uint64_t bytes_sent() const { return all_->bytes_sent(); }

  request isend(int peer, tag_t tag, std::span<std::byte const> bytes) {
    return all_->isend(ranks_[static_cast<std::size_t>(peer)], tag, bytes);
  }
  request irecv(int peer, tag_t tag, std::span<std::byte> bytes) {
    return all_->irecv(ranks_[static_cast<std::size_t>(peer)], tag, bytes);
  }
  std::size_t wait(request& r) { return all_->wait(r); }
  /// Ends the operations of all ranks of `all`.
  [[noreturn]] void revoke(std::string const& why) { all_->revoke(why); }

 private:
  any_transport* all_;
  std::vector<int> ranks_;
  int rank_;
  std::uint64_t group_;
};
static_assert(Transport<some_ranks>);

}  // namespace hcomp::node
