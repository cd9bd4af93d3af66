#pragma once
/// @file
/// Ranks as threads with simulated clocks, which only messages and block work advance. Gives the
/// duration of a collective for a given network and given codec costs, the same on every machine.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <hcomp/collective/cost/costs.hpp>
#include <hcomp/collective/engine/detail/narrow_encoding.hpp>
#include <hcomp/collective/engine/detail/sampled_bits.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/feedback/feedback.hpp>
#include <hcomp/op/block_work.hpp>
#include <hcomp/transport/in_process.hpp>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

namespace hcomp::testing {

/// Arrival times of messages.
class virtual_network {
 public:
  virtual_network(int ranks, link_cost const& link)
      : ranks_(static_cast<std::size_t>(ranks)), link_(link), arrivals_(ranks_ * ranks_) {}

  link_cost const& link() const { return link_; }
  void sent(int from, int to, double arrives) {
    std::lock_guard const lock(mutex_);
    of(from, to).push_back(arrives);
  }
  double arrival(int from, int to, std::size_t number) {
    std::lock_guard const lock(mutex_);
    return of(from, to).at(number);
  }

 private:
  std::vector<double>& of(int from, int to) {
    return arrivals_[static_cast<std::size_t>(from) * ranks_ + static_cast<std::size_t>(to)];
  }

  std::size_t ranks_;
  link_cost link_;
  std::mutex mutex_;
  std::vector<std::vector<double>> arrivals_;
};

/// An in-process transport whose messages take simulated time: one after the other through the
/// sender's link, then the latency. All messages have one tag.
class virtual_transport {
 public:
  struct request {
    in_process::request inner;
    bool is_send = false;
    int peer = 0;
    std::size_t number = 0;
  };

  virtual_transport(in_process& inner, virtual_network& network, double& now)
      : inner_(&inner),
        network_(&network),
        now_(&now),
        received_(static_cast<std::size_t>(inner.size())) {}

  int rank() const { return inner_->rank(); }
  int size() const { return inner_->size(); }
  bool reaches(memory_space space) const { return inner_->reaches(space); }
  std::uint64_t bytes_sent() const { return inner_->bytes_sent(); }

  request isend(int peer, tag_t tag, std::span<std::byte const> bytes) {
    auto const& link = network_->link();
    double const asks = bytes.size() > link.eager_bytes ? link.seconds_of_rendezvous : 0;
    link_is_free_ = std::max(link_is_free_, *now_ + asks) + link.seconds_between_messages +
                    static_cast<double>(bytes.size()) * link.seconds_per_byte;
    network_->sent(rank(), peer, link_is_free_ + link.seconds_per_message);
    return {inner_->isend(peer, tag, bytes), true, peer, 0};
  }
  request irecv(int peer, tag_t tag, std::span<std::byte> bytes) {
    return {inner_->irecv(peer, tag, bytes), false, peer,
            received_[static_cast<std::size_t>(peer)]++};
  }
  std::size_t wait(request& r) {
    auto const bytes = inner_->wait(r.inner);
    if (!r.is_send) *now_ = std::max(*now_, network_->arrival(r.peer, rank(), r.number));
    return bytes;
  }

 private:
  in_process* inner_;
  virtual_network* network_;
  double* now_;
  double link_is_free_ = 0;
  std::vector<std::size_t> received_;
};

static_assert(Transport<virtual_transport>);

/// Does block work, and advances the clock by its given cost.
class virtual_executor {
 public:
  static constexpr memory_space space = memory_space::host;
  using buffer = host_executor::buffer;

  virtual_executor(codec_cost const& cost, double& now) : cost_(cost), now_(&now) {}

  template <class F> void for_each_block(std::size_t blocks, F const& f) {
    inner_.for_each_block(blocks, f);
    *now_ += cost_.call;
    if (blocks > 0)
      *now_ +=
          seconds_per_value(f) * static_cast<double>(blocks) * static_cast<double>(block_values(f));
  }
  void synchronize() {}

 private:
  /// Values of the blocks that f works on. Plans may use smaller blocks than the codec's full ones.
  template <class Work> static std::size_t block_values(Work const& f) {
    if constexpr (requires { f.work; })
      return block_values(f.work);
    else if constexpr (requires { f.layout; })
      return f.layout.block_values;
    else if constexpr (requires { f.decode.layout; })
      return f.decode.layout.block_values;
    else if constexpr (requires { header_of(f); })
      return header_of(f).values;
    else if constexpr (requires { f.acc; })
      return load<block_header>(f.acc).values;
    else
      return 0;  // costs nothing
  }

  template <class C> static block_header header_of(narrow_blocks<C> const& f) {
    return load<block_header>(f.blocks);
  }
  template <class C> static block_header header_of(widen_blocks<C> const& f) {
    return load<block_header>(f.blocks);
  }

  template <class Work> double seconds_per_value(shifted<Work> const& f) const {
    return seconds_per_value(f.work);
  }
  template <class C, class View>
  double seconds_per_value(encode_with_feedback<C, View> const&) const {
    return cost_.encode;
  }
  template <class C> double seconds_per_value(merge_blocks<C> const&) const { return cost_.merge; }
  template <class C> double seconds_per_value(narrow_blocks<C> const& f) const {
    return header_of(f).weight == 1 ? cost_.narrow_one : cost_.narrow;
  }
  template <class C> double seconds_per_value(widen_blocks<C> const& f) const {
    return header_of(f).weight == 1 ? cost_.widen_one : cost_.widen;
  }
  template <class C> double seconds_per_value(round_blocks<C> const&) const { return 0; }
  double seconds_per_value(copy_blocks const&) const { return 0; }
  double seconds_per_value(detail::spoil_blocks const&) const { return 0; }
  double seconds_per_value(unite_statistics const&) const { return 0; }
  template <class C, class Source>
  double seconds_per_value(measure_blocks<C, Source> const&) const {
    return cost_.measure;
  }
  template <class C, class View>
  double seconds_per_value(decode_with_feedback<C, View> const&) const {
    return cost_.decode;
  }
  double seconds_per_value(detail::pack_owned_bits const& f) const {
    return cost_.pack * static_cast<double>(f.whose.ranks);
  }
  double seconds_per_value(detail::unpack_owned_bits const& f) const {
    return cost_.unpack * static_cast<double>(f.whose.ranks);
  }
  double seconds_per_value(detail::write_owned_bits const&) const { return 0; }
  double seconds_per_value(detail::close_sampled_message const&) const { return 0; }
  double seconds_per_value(detail::inspect_messages const&) const { return 0; }
  double seconds_per_value(detail::mark_nonfinite const&) const { return 0; }

  host_executor inner_;
  codec_cost cost_;
  double* now_;
};

static_assert(Executor<virtual_executor>);

/// Runs `rank_main(transport, executor)` on ranks with simulated clocks. Returns the latest clock.
template <class F>
double virtual_seconds(int ranks, link_cost const& link, codec_cost const& cost,
                       F const& rank_main) {
  virtual_network network(ranks, link);
  std::vector<double> clocks(static_cast<std::size_t>(ranks) * 8);  // not on one cache line
  run_ranks(ranks, [&](in_process& inner) {
    double& now = clocks[static_cast<std::size_t>(inner.rank()) * 8];
    virtual_transport transport(inner, network, now);
    virtual_executor executor(cost, now);
    rank_main(transport, executor);
  });
  return *std::max_element(clocks.begin(), clocks.end());
}

}  // namespace hcomp::testing
