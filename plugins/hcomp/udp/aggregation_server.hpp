#pragma once
/// @file
/// An aggregator of several concurrent jobs, on one UDP socket.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <hcomp/collective/aggregation/aggregation_packet.hpp>
#include <hcomp/collective/aggregation/aggregator.hpp>
#include <hcomp/collective/aggregation/aggregator_options.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/udp/address.hpp>
#include <hcomp/udp/frame.hpp>
#include <hcomp/udp/offload.hpp>
#include <hcomp/udp/roster.hpp>
#include <hcomp/udp/socket.hpp>
#include <hcomp/udp/statistics.hpp>
#include <hcomp/udp/terms.hpp>
#include <map>
#include <memory>
#include <new>
#include <numeric>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace hcomp::udp {

/// Limits of a server.
struct server_options {
  std::size_t jobs = 64;                            ///< concurrent jobs
  std::size_t memory_bytes = std::size_t{1} << 30;  ///< for the slots of all jobs
  std::chrono::nanoseconds idle =
      std::chrono::minutes(1);  ///< a job without packets for this time ends
  /// Deadlines of results and words, for jobs that set none; 0: wait for all workers.
  std::chrono::nanoseconds deadline{0}, word_deadline{0};
  std::uint32_t rounds_ahead = 1024;  ///< as in aggregator_options
  std::size_t datagram_bytes = ethernet_datagram_bytes;
  int buffer_bytes = 4 << 20;  ///< of the socket; the kernel may grant less
};

/// Counters of a server, in addition to those of its jobs.
struct server_stats {
  std::uint64_t received = 0;  ///< datagrams
  std::uint64_t sent = 0;
  std::uint64_t lost_here = 0;    ///< datagrams that the kernel could not send
  std::uint64_t joins = 0;        ///< accepted, including repeated ones
  std::uint64_t unknown_job = 0;  ///< packets of unknown jobs
  std::uint64_t foreign = 0;      ///< packets of a job from another sender than that of their rank
  std::array<std::uint64_t, static_cast<std::size_t>(frame_fault::faults)> damaged = {};
  std::array<std::uint64_t, static_cast<std::size_t>(refusal_reason::reasons)> refused = {};
  std::uint64_t jobs_begun = 0;
  std::uint64_t jobs_left = 0;  ///< ended because all workers left
  std::uint64_t jobs_idle = 0;  ///< ended because no worker sent packets
};

/// Adds the contributions of the workers of several jobs, each with its own `aggregator`.
///
/// A job begins when a worker joins with the job's terms; all workers of a job must send equal
/// terms. It ends when all workers have left, or no packet arrives for `idle`. Packets are accepted
/// only from the sender that joined as their rank. No packet can cause an exception or affect
/// another job. One thread. Linux.
/// Memory: that of the jobs' aggregators, at most `memory_bytes`.
class aggregation_server {
 public:
  /// Counters of a running job, or totals over all ended jobs.
  struct job_stats {
    std::uint32_t job = 0;
    int workers = 0, joined = 0, left = 0;
    bool is_offloaded = false;
    aggregator_stats sums;
  };

  /// @throws transport_error  the address is not local, or is in use
  aggregation_server(address const& listen, server_options const& options)
      : options_(options),
        socket_(listen, options.buffer_bytes),
        in_(options.datagram_bytes + 1),
        out_(options.datagram_bytes) {}

  /// Offloads jobs that begin from now on to `sums`, if it accepts them. It must outlive this
  /// object.
  void offload_to(offload& sums) { offload_ = &sums; }

  std::string local() const { return socket_.local().text(); }
  server_stats stats() const {
    auto all = stats_;
    for (auto const& [number, one] : jobs_) add_traffic(all, *one);
    return all;
  }
  std::vector<job_stats> jobs() const {
    std::vector<job_stats> all;
    for (auto const& [number, one] : jobs_) all.push_back(stats_of(number, *one));
    return all;
  }
  /// Totals over the jobs that have ended.
  aggregator_stats const& ended() const { return ended_; }

  udp::statistics statistics() const {
    auto const seen = stats();
    auto sums = ended_;
    udp::statistics all;
    for (auto const& one : jobs()) {
      ++all.jobs;
      all.jobs_in_kernel += one.is_offloaded;
      sums += one.sums;
    }
    auto const sum_of = [](auto const& counts) {
      return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
    };
    all.jobs_begun = seen.jobs_begun;
    all.jobs_left = seen.jobs_left;
    all.jobs_idle = seen.jobs_idle;
    all.received = seen.received;
    all.sent = seen.sent;
    all.lost_here = seen.lost_here;
    all.damaged = sum_of(seen.damaged);
    all.unknown_job = seen.unknown_job;
    all.foreign = seen.foreign;
    all.joins = seen.joins;
    all.joins_refused = sum_of(seen.refused);
    all.added = sums.added;
    all.duplicates = sums.duplicates;
    all.late = sums.late;
    all.stale = sums.stale;
    all.refused = sums.all_refused();
    all.whole = sums.whole;
    all.partial = sums.partial;
    all.abandoned = sums.abandoned;
    return all;
  }

  /// Processes pending packets and deadlines, or waits for them, at most for `timeout` or until a
  /// signal.
  /// @throws transport_error  the socket failed
  void serve(std::chrono::nanoseconds timeout) {
    auto const start = now();
    auto wait = timeout;
    for (auto it = jobs_.begin(); it != jobs_.end();) {
      auto& one = *it->second;
      for (auto out = one.sums.expire(start); out.to != aggregator_answer::receiver::nobody;
           out = one.sums.expire(start))
        answer(it->first, one, out);
      if (one.elsewhere) {
        for (auto out = one.elsewhere->expire(start); out.to != aggregator_answer::receiver::nobody;
             out = one.elsewhere->expire(start))
          answer(it->first, one, out);
        one.last_heard = std::max(one.last_heard, one.elsewhere->last_heard());
        wait = std::min(wait, one.elsewhere->time_left(start));
      }
      if (start - one.last_heard >= options_.idle) {
        ++stats_.jobs_idle;
        it = end(it);
        continue;
      }
      wait = std::min({wait, one.sums.time_left(start), one.last_heard + options_.idle - start});
      ++it;
    }
    socket_.wait(wait);
    address from;
    // Few enough that deadlines are checked in time.
    for (int n = 0; n < 64; ++n) {
      auto const bytes = socket_.receive(in_, from);
      if (!bytes) return;
      ++stats_.received;
      take(*bytes, from);
    }
  }

 private:
  struct job {
    job(aggregator_options const& options, std::vector<std::byte> said, double slots)
        : sums(options),
          senders(options.workers),
          has_left(static_cast<std::size_t>(options.workers)),
          terms(std::move(said)),
          bytes(slots) {}

    aggregator sums;  ///< only words if `elsewhere` is set
    std::unique_ptr<offloaded_sums> elsewhere;
    roster senders;
    std::vector<char> has_left;
    std::vector<std::byte> terms;  ///< as sent by the first worker
    double bytes;
    std::chrono::nanoseconds last_heard{0};
    int left = 0;
  };
  using job_map = std::map<std::uint32_t, std::unique_ptr<job>>;

  static std::chrono::nanoseconds now() {
    return std::chrono::steady_clock::now().time_since_epoch();
  }

  void take(std::size_t bytes, address const& from) {
    auto const drop = [&](frame_fault fault) { ++stats_.damaged[static_cast<std::size_t>(fault)]; };
    if (bytes > options_.datagram_bytes) return drop(frame_fault::length);
    std::span<std::byte const> const datagram(in_.data(), bytes);
    frame header;
    auto const fault = read_frame(datagram, header);
    if (fault != frame_fault::none) return drop(fault);
    auto const body = datagram.subspan(frame_bytes);
    if (header.kind == frame_kind::join) return let_in(header, from, body);
    if (header.kind == frame_kind::question) {
      if (body.size() < sizeof(udp::statistics)) return drop(frame_fault::length);
      auto const mine = statistics();
      return hand_over(from, {.kind = frame_kind::statistics, .session = header.session},
                       std::as_bytes(std::span(&mine, 1)));
    }
    if (header.kind != frame_kind::packet) return drop(frame_fault::kind);
    auto const found = jobs_.find(header.job);
    if (found == jobs_.end()) {
      ++stats_.unknown_job;
      return;
    }
    auto& one = *found->second;
    if (!one.senders.is_known(header, from)) {
      ++stats_.foreign;
      return;
    }
    one.last_heard = now();
    if (is_leave(body)) {
      if (one.elsewhere) one.elsewhere->leave(header.rank);
      char& gone = one.has_left[header.rank];
      if (!gone) ++one.left;
      gone = 1;
      if (one.left < one.senders.workers()) return;
      ++stats_.jobs_left;
      end(found);
      return;
    }
    answer(header.job, one,
           one.elsewhere && is_contribution(body)
               ? one.elsewhere->take(header.rank, body, one.last_heard)
               : one.sums.take(header.rank, body, one.last_heard));
  }

  void let_in(frame const& header, address const& from, std::span<std::byte const> terms) {
    auto const refusal = try_join(header, from, terms);
    frame reply{.job = header.job, .kind = frame_kind::welcome, .session = header.session};
    if (!refusal) {
      ++stats_.joins;
      return hand_over(from, reply, {});
    }
    ++stats_.refused[static_cast<std::size_t>(*refusal)];
    reply.kind = frame_kind::refusal;
    hand_over(from, reply, std::as_bytes(std::span(&*refusal, 1)));
  }

  /// Returns empty if the worker was admitted.
  std::optional<refusal_reason> try_join(frame const& header, address const& from,
                                         std::span<std::byte const> terms) {
    auto found = jobs_.find(header.job);
    if (found == jobs_.end()) {
      auto made = make_job(header.job, terms);
      if (made.second) return made.second;
      if (header.rank >= made.first->senders.workers()) return refusal_reason::rank;
      memory_ += made.first->bytes;
      ++stats_.jobs_begun;
      found = jobs_.emplace(header.job, std::move(made.first)).first;
      found->second->last_heard = now();
    }
    auto& one = *found->second;
    if (!std::equal(terms.begin(), terms.end(), one.terms.begin(), one.terms.end()))
      return refusal_reason::terms;
    auto const refusal = one.senders.join(header, from);
    if (!refusal && one.elsewhere) one.elsewhere->let_in(header, from);
    return refusal;
  }

  std::pair<std::unique_ptr<job>, std::optional<refusal_reason>> make_job(
      std::uint32_t number, std::span<std::byte const> terms) const {
    auto options = from_terms(terms);
    if (!options) return {nullptr, refusal_reason::terms};
    if (options->deadline.count() == 0) options->deadline = options_.deadline;
    if (options->word_deadline.count() == 0) options->word_deadline = options_.word_deadline;
    options->rounds_ahead = options_.rounds_ahead;
    double const bytes = slot_bytes(*options);
    if (jobs_.size() >= options_.jobs ||
        memory_ + bytes > static_cast<double>(options_.memory_bytes))
      return {nullptr, refusal_reason::limits};
    try {
      auto words_alone = *options;
      words_alone.chunks = 0;
      int const sum_bits = aggregator(words_alone).sum_bits();
      auto const longest = std::max(packet_bytes(options->chunk_values, sum_bits, options->workers),
                                    packet_bytes(options->chunk_words, 32, options->workers));
      if (longest + frame_bytes > options_.datagram_bytes) return {nullptr, refusal_reason::terms};
      auto elsewhere = offload_ ? offload_->take_on(number, *options, sum_bits) : nullptr;
      auto made = std::make_unique<job>(elsewhere ? words_alone : *options,
                                        std::vector(terms.begin(), terms.end()), bytes);
      made->elsewhere = std::move(elsewhere);
      return {std::move(made), std::nullopt};
    } catch (std::bad_alloc const&) {
      return {nullptr, refusal_reason::limits};
    } catch (std::invalid_argument const&) {  // invalid settings
      return {nullptr, refusal_reason::terms};
    }
  }

  /// A lower bound on the memory of an aggregator with these settings. A double, because terms are
  /// untrusted.
  static double slot_bytes(aggregator_options const& o) {
    constexpr double slot = 96;
    auto const of = [&](double count, double values, double bytes) {
      return count * (2 * values * bytes + packet_header_bytes + slot + o.workers / 4.);
    };
    return o.workers * 1. * sizeof(std::optional<roster::sender>) +
           o.rounds * (of(o.chunks, o.chunk_values, 2) + of(o.word_chunks, o.chunk_words, 4));
  }

  static bool is_leave(std::span<std::byte const> body) {
    return body.size() == packet_header_bytes && is_of(packet_kind::leave, body);
  }
  static bool is_contribution(std::span<std::byte const> body) {
    return body.size() >= packet_header_bytes && is_of(packet_kind::indices, body);
  }
  static bool is_of(packet_kind kind, std::span<std::byte const> body) {
    auto const header = load<aggregation_packet>(body.data());
    return header.magic == aggregation_packet{}.magic && header.kind == kind;
  }

  void answer(std::uint32_t number, job const& one, aggregator_answer const& what) {
    if (what.to == aggregator_answer::receiver::nobody) return;
    auto const datagram = sealed({.job = number, .kind = frame_kind::packet}, what.packet);
    int const workers = one.senders.workers();
    for (int rank = 0; rank < workers; ++rank) {
      if (what.to == aggregator_answer::receiver::one && rank != what.rank) continue;
      if (auto const* const to = one.senders.of(rank); to && !one.has_left[to_index(rank)])
        send(to->from, datagram);
    }
  }
  static std::size_t to_index(int rank) { return static_cast<std::size_t>(rank); }

  std::span<std::byte const> sealed(frame const& header, std::span<std::byte const> body) {
    auto const datagram = std::span(out_).first(frame_bytes + body.size());
    std::copy(body.begin(), body.end(), datagram.begin() + frame_bytes);
    seal(datagram, header);
    return datagram;
  }
  void hand_over(address const& to, frame const& header, std::span<std::byte const> body) {
    send(to, sealed(header, body));
  }
  void send(address const& to, std::span<std::byte const> datagram) {
    ++(socket_.send(to, datagram) ? stats_.sent : stats_.lost_here);
  }

  static job_stats stats_of(std::uint32_t number, job const& one) {
    job_stats stats{.job = number,
                    .workers = one.senders.workers(),
                    .left = one.left,
                    .is_offloaded = one.elsewhere != nullptr,
                    .sums = sums_of(one)};
    for (int rank = 0; rank < stats.workers; ++rank)
      stats.joined += one.senders.of(rank) != nullptr;
    return stats;
  }

  static aggregator_stats sums_of(job const& one) {
    auto sums = one.sums.stats();
    if (one.elsewhere) sums += one.elsewhere->stats();
    return sums;
  }
  static void add_traffic(server_stats& all, job const& one) {
    if (!one.elsewhere) return;
    auto const more = one.elsewhere->datagrams();
    all.received += more.received;
    all.sent += more.sent;
    all.lost_here += more.lost_here;
  }

  job_map::iterator end(job_map::iterator it) {
    ended_ += sums_of(*it->second);
    add_traffic(stats_, *it->second);
    memory_ -= it->second->bytes;
    return jobs_.erase(it);
  }

  server_options options_;
  udp::socket socket_;
  offload* offload_ = nullptr;
  job_map jobs_;
  double memory_ = 0;
  std::vector<std::byte> in_, out_;
  server_stats stats_;
  aggregator_stats ended_;
};

}  // namespace hcomp::udp
