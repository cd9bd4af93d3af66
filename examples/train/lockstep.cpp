#include "lockstep.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <hcomp/collective/agreement/report.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/transport/detail/peer_check.hpp>
#include <utility>

namespace train {
namespace {

using std::chrono::nanoseconds;

constexpr nanoseconds never = nanoseconds::max();
constexpr hcomp::tag_t tag = 0x10c5;

/// Header of every packet.
struct envelope {
  std::uint32_t from, to, bytes;
};

void append(std::vector<std::byte>& out, void const* bytes, std::size_t count) {
  auto const* const first = static_cast<std::byte const*>(bytes);
  out.insert(out.end(), first, first + count);
}

/// Takes the next packet that has arrived, if any.
template <class Mailbox> hcomp::received_packet take(Mailbox& box, std::span<std::byte> buffer) {
  if (box.read == box.in.size()) return {};
  auto const e = hcomp::load<envelope>(box.in.data() + box.read);
  auto const* const bytes = box.in.data() + box.read + sizeof e;
  std::copy_n(bytes, std::min<std::size_t>(e.bytes, buffer.size()), buffer.begin());
  box.read += sizeof e + e.bytes;
  return {static_cast<int>(e.from), e.bytes};
}

nanoseconds later(nanoseconds now, nanoseconds timeout) {
  return timeout < never - now ? now + timeout : never;
}

}  // namespace

/// Message between two ranks before their packets.
struct lockstep::notice {
  state is = state::busy;
  std::int64_t wakes = 0;  ///< earliest timeout of this rank's worker and aggregator
  std::uint64_t here = 0;  ///< bytes of packets for the receiver of the notice
  std::uint64_t all = 0;   ///< bytes of packets for all receivers
};

lockstep::lockstep(paced_transport& transport) : transport_(&transport) {
  auto const size = static_cast<std::size_t>(ranks());
  worker_.out.resize(size);
  aggregator_.out.resize(size);
  out_.resize(size);
  in_.resize(size);
}

void lockstep::link::send(int peer, std::span<std::byte const> packet) {
  hcomp::detail::require_peer("send", peer, size(), "lockstep");
  envelope const e{static_cast<std::uint32_t>(rank()), static_cast<std::uint32_t>(peer),
                   static_cast<std::uint32_t>(packet.size())};
  auto& out = box().out[static_cast<std::size_t>(peer % post_->ranks())];
  append(out, &e, sizeof e);
  append(out, packet.data(), packet.size());
  box().bytes_sent += packet.size();
}

hcomp::received_packet lockstep::link::receive(std::span<std::byte> buffer, nanoseconds timeout) {
  box().wakes = later(now(), timeout);
  return aggregates_ ? post_->receive_as_aggregator(buffer) : post_->receive_as_worker(buffer);
}

hcomp::received_packet lockstep::receive_as_worker(std::span<std::byte> buffer) {
  while (true) {
    if (auto const got = take(worker_, buffer); got.from >= 0) return got;
    if (now_ >= worker_.wakes) return {};
    exchange(state::busy);
  }
}

hcomp::received_packet lockstep::receive_as_aggregator(std::span<std::byte> buffer) {
  while (true) {
    if (auto const got = take(aggregator_, buffer); got.from >= 0) return got;
    if (now_ >= aggregator_.wakes) return {};
    std::unique_lock lock(mutex_);
    aggregator_waits_ = true;
    changed_.notify_all();
    changed_.wait(lock, [&] { return !aggregator_waits_ || stopped_; });
    if (stopped_) throw stopped{};
  }
}

void lockstep::aggregator_ends(std::exception_ptr why) {
  std::lock_guard const lock(mutex_);
  aggregator_ended_ = true;
  why_ = std::move(why);
  changed_.notify_all();
}

void lockstep::stop() {
  std::lock_guard const lock(mutex_);
  stopped_ = true;
  changed_.notify_all();
}

void lockstep::meet() {
  worker_.wakes = never;
  for (bool are_all_here = false; !are_all_here;) are_all_here = exchange(state::here);
  worker_.read = worker_.in.size();
}

void lockstep::part() {
  worker_.wakes = never;
  for (bool are_all_here = false; !are_all_here;)
    are_all_here = exchange(aggregator_is_idle() ? state::busy : state::here);
}

/// Waits until the aggregator is idle. True if it waits for packets, false if it has ended.
bool lockstep::aggregator_is_idle() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return aggregator_waits_ || aggregator_ended_; });
  if (why_) std::rethrow_exception(why_);
  return !aggregator_ended_;
}

void lockstep::give_up() {
  try {
    if (!is_over_) exchange(state::failed);
  } catch (hcomp::nonfinite_error const&) {  // all other ranks throw this error
  }
}

/// Exchanges all queued packets. If no rank has packets, the clock advances.
/// @return  whether all ranks are in state `here`
bool lockstep::exchange(state mine) {
  // While the aggregator waits, this thread owns its data.
  auto const aggregator_wakes = aggregator_is_idle() ? aggregator_.wakes : never;
  notice own{.is = mine, .wakes = std::min(worker_.wakes, aggregator_wakes).count()};
  for (std::size_t to = 0; to < out_.size(); ++to) {
    out_[to].swap(worker_.out[to]);
    append(out_[to], aggregator_.out[to].data(), aggregator_.out[to].size());
    worker_.out[to].clear();
    aggregator_.out[to].clear();
    own.all += out_[to].size();
  }
  hcomp::detail::stopwatch watch;
  auto const all = move_packets(own);
  watch.add_to(seconds_);

  bool are_all_here = true;
  std::uint64_t moved = 0;
  auto first = never;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].is == state::failed) {
      is_over_ = true;
      throw hcomp::nonfinite_error(fmt::format("rank {} met NaN or infinity", rank));
    }
    are_all_here = are_all_here && all[rank].is == state::here;
    moved += all[rank].all;
    first = std::min(first, nanoseconds(all[rank].wakes));
  }
  if (moved == 0 && !are_all_here) now_ = first;

  std::lock_guard const lock(mutex_);
  if (aggregator_.read < aggregator_.in.size() || now_ >= aggregator_.wakes)
    aggregator_waits_ = false;
  changed_.notify_all();
  return are_all_here;
}

/// @return  the notices of all ranks
std::vector<lockstep::notice> lockstep::move_packets(notice const& own) {
  auto const me = static_cast<std::size_t>(rank());
  std::vector<notice> mine(out_.size(), own), all(out_.size(), own);
  for (std::size_t to = 0; to < out_.size(); ++to) mine[to].here = out_[to].size();

  auto const swap_all = [&](auto const& bytes_for, auto const& bytes_from) {
    std::vector<paced_transport::request> receives, sends;
    for (std::size_t i = 1; i < out_.size(); ++i) {
      auto const from = (me + out_.size() - i) % out_.size();
      if (auto const in = bytes_from(from); !in.empty())
        receives.push_back(transport_->irecv(static_cast<int>(from), tag, in));
    }
    for (std::size_t i = 1; i < out_.size(); ++i) {
      auto const to = (me + i) % out_.size();
      if (auto const out = bytes_for(to); !out.empty())
        sends.push_back(transport_->isend(static_cast<int>(to), tag, out));
    }
    for (auto& request : receives) transport_->wait(request);
    for (auto& request : sends) transport_->wait(request);
  };
  swap_all([&](std::size_t to) { return std::as_bytes(std::span(&mine[to], 1)); },
           [&](std::size_t from) { return std::as_writable_bytes(std::span(&all[from], 1)); });
  swap_all([&](std::size_t to) { return std::as_bytes(std::span(out_[to])); },
           [&](std::size_t from) {
             in_[from].resize(all[from].here);
             return std::as_writable_bytes(std::span(in_[from]));
           });
  in_[me].swap(out_[me]);

  // Worker and aggregator have received all earlier packets, or need no more.
  for (auto* const box : {&worker_, &aggregator_}) {
    box->in.clear();
    box->read = 0;
  }
  for (auto const& in : in_)
    for (std::size_t at = 0; at < in.size();) {
      auto const e = hcomp::load<envelope>(in.data() + at);
      auto& box = e.to < out_.size() ? worker_ : aggregator_;
      append(box.in, in.data() + at, sizeof e + e.bytes);
      at += sizeof e + e.bytes;
    }
  for (auto& out : out_) out.clear();
  return all;
}

}  // namespace train
