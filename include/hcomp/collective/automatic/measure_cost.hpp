#pragma once
/// @file
/// What links and codecs cost on the machines at hand, measured while all ranks work.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <hcomp/collective/agreement/agreement.hpp>
#include <hcomp/collective/agreement/report.hpp>
#include <hcomp/collective/by_name/detail/codec_probe.hpp>
#include <hcomp/collective/cost/costs.hpp>
#include <hcomp/collective/plan/plan.hpp>
#include <hcomp/exec/executor.hpp>
#include <hcomp/transport/transport.hpp>
#include <span>
#include <vector>

namespace hcomp {

/// How much is measured. Equal on all ranks.
struct measure_options {
  std::size_t values = std::size_t{1} << 22;  ///< of the vectors that are encoded, merged, decoded
  double codec_seconds = 0.025;               ///< about so long for each of a codec's figures
  double link_seconds = 0.2;                  ///< about so long for the link
  tag_t tag = 0;
};

namespace detail {

/// Rounds of messages from every rank to the next, timed; all ranks know the slowest rank's time.
template <Transport T> class link_probe {
 public:
  link_probe(T& transport, tag_t tag, double seconds)
      : transport_(&transport), tag_(tag), seconds_(seconds) {}

  /// Seconds of one round of `count` messages of `bytes` bytes at once: the median of some batches
  /// of rounds, as many as there is time for.
  double round(std::size_t count, std::size_t bytes) {
    int rounds = 1;
    double spent = 0, batch = timed(rounds, count, bytes);
    while (batch < seconds_ / 10 && rounds < 4096) {
      rounds *= 2;
      spent += batch;
      batch = timed(rounds, count, bytes);
    }
    std::vector<double> batches{batch};
    // at least three: on a network that loses packets one may take a thousand times as long
    for (spent += batch; batches.size() < 3 || (spent < seconds_ && batches.size() < 9);
         spent += batches.back())
      batches.push_back(timed(rounds, count, bytes));
    return median(batches) / rounds;
  }

  /// Seconds of so many rounds.
  double timed(int rounds, std::size_t count, std::size_t bytes) {
    out_.resize(bytes);
    in_.resize(count * bytes);
    int const rank = transport_->rank(), size = transport_->size();
    int const next = (rank + 1) % size, previous = (rank + size - 1) % size;
    double seconds = slowest(0);  // nobody starts before everybody is there
    stopwatch watch;
    for (int r = 0; r < rounds; ++r) {
      sends_.clear();
      receives_.clear();
      for (std::size_t i = 0; i < count; ++i)
        receives_.push_back(
            transport_->irecv(previous, tag_, std::span(in_).subspan(i * bytes, bytes)));
      for (std::size_t i = 0; i < count; ++i)
        sends_.push_back(transport_->isend(next, tag_, std::span<std::byte const>(out_)));
      for (auto& request : receives_)
        require_records(*transport_, previous, transport_->wait(request), bytes);
      for (auto& request : sends_) transport_->wait(request);
    }
    watch.add_to(seconds);
    return slowest(seconds);
  }

 private:
  double slowest(double seconds) {
    unite_records(*transport_, tag_, seconds, [](double& a, double b) { a = std::max(a, b); });
    return seconds;
  }

  T* transport_;
  tag_t tag_;
  double seconds_;
  std::vector<std::byte> out_, in_;
  std::vector<typename T::request> sends_, receives_;
};

/// What measure_seconds_per_byte moves at least: where the link is as quick as it was.
inline constexpr std::size_t bytes_of_link_message = std::size_t{1} << 16;
inline constexpr double bytes_of_link_measurement = 3 * static_cast<double>(bytes_of_link_message);

/// link_cost::seconds_per_byte as it is now, in little time: after three messages unless they show
/// that it has become much less. Collective.
/// @param before  what it was
/// @param link    the other figures
template <Transport T>
double measure_seconds_per_byte(T& transport, tag_t tag, double before, link_cost const& link) {
  constexpr std::size_t bytes = bytes_of_link_message, more = 3;
  link_probe<T> probe(transport, tag, 0);
  auto const per_byte = [&](double seconds) {
    return (seconds - more * link.seconds_between_messages) / bytes_of_link_measurement;
  };
  double const first =
      per_byte(probe.timed(1, more, bytes) - link.seconds_per_message - link.seconds_of_rendezvous);
  if (2 * first > before) return first;
  double const one = probe.round(1, bytes), all = probe.round(1 + more, bytes);
  return std::max(per_byte(all - one), 0.);
}

}  // namespace detail

/// What a message and a byte cost when every rank sends to the next rank and receives from the one
/// before. Collective; every rank gets the same figures, those of the slowest rank.
///
/// Latency and the time between messages from small messages, one and many at once; bandwidth from
/// messages of 256 KiB: by how much longer four times as many at once take, since what a burst
/// costs besides, a series of segments pays once; rendezvous from single messages of 32 to 256 KiB.
/// @param seconds  about so long; longer only where 256 KiB alone take longer
template <Transport T>
link_cost measure_link(T& transport, double seconds = measure_options{}.link_seconds,
                       tag_t tag = 0) {
  if (transport.size() == 1) return {};
  detail::link_probe<T> probe(transport, tag, seconds / 6);
  constexpr std::size_t small = 8, burst = 32, most = 64;
  link_cost link;
  link.seconds_per_message = probe.round(1, small);
  double const many = probe.round(burst, small);
  link.seconds_between_messages =
      std::max(0.0, (many - link.seconds_per_message) / static_cast<double>(burst));

  std::size_t count = 1, bytes = std::size_t{1} << 16;
  double few = probe.round(count, bytes), round = probe.round(4 * count, bytes);
  while (round < seconds / 10 && count < most) {
    if (bytes < std::size_t{1} << 18) {
      bytes *= 4;
      few = probe.round(count, bytes);
    } else {
      count *= 4;
      few = round;
    }
    round = probe.round(4 * count, bytes);
  }
  auto const per_byte = [&](double time, std::size_t messages) {
    auto const number = static_cast<double>(messages);
    return std::max(0.0, time - number * link.seconds_between_messages) /
           (number * static_cast<double>(bytes));
  };
  link.seconds_per_byte = per_byte(round - few, 3 * count);
  if (link.seconds_per_byte <= 0)  // chance had it
    link.seconds_per_byte = per_byte(round, 4 * count);
  // What single messages take longer than that is asking, if long ones do it and short ones do not.
  double const alone = link.seconds_per_message + link.seconds_between_messages;
  std::array<double, 4> waits;
  for (std::size_t i = 0; i < waits.size(); ++i) {
    std::size_t const length = std::size_t{1} << (15 + i);
    waits[i] = probe.round(1, length) - alone - static_cast<double>(length) * link.seconds_per_byte;
  }
  link.seconds_of_rendezvous = std::max(0.0, std::min(waits[2], waits[3]));
  std::size_t asking = 0;  // the first of them that is asked for; limits are powers of two
  while (asking + 1 < waits.size() && waits[asking] < link.seconds_of_rendezvous / 2) ++asking;
  link.eager_bytes = (std::uint64_t{1} << (15 + asking)) - 1;
  // machines may calculate differently
  unite_records(transport, tag, link, [](link_cost& a, link_cost const& b) {
    a.seconds_per_message = std::max(a.seconds_per_message, b.seconds_per_message);
    a.seconds_per_byte = std::max(a.seconds_per_byte, b.seconds_per_byte);
    a.seconds_between_messages = std::max(a.seconds_between_messages, b.seconds_between_messages);
    a.seconds_of_rendezvous = std::max(a.seconds_of_rendezvous, b.seconds_of_rendezvous);
    a.eager_bytes = std::max(a.eager_bytes, b.eager_bytes);
  });
  return link;
}

namespace detail {

/// Ranks begin each figure together.
template <Executor E, Transport T>
codec_probe probe_of(E& executor, T& transport, measure_options const& options) {
  return probe_on(executor, transport.size(), options.values, options.codec_seconds, [&] {
    char all_are_here = 1;
    unite_records(transport, options.tag, all_are_here, [](char&, char) {});
  });
}
template <Transport T> void agree_on_slowest(T& transport, tag_t tag, codec_cost& cost) {
  unite_records(transport, tag, cost, [](codec_cost& a, codec_cost const& b) {
    for (auto const figure : codec_times) a.*figure = std::max(a.*figure, b.*figure);
    a.block_bytes = std::max(a.block_bytes, b.block_bytes);
  });
}

}  // namespace detail

/// What `codec` costs in this process alone, as a part of `ranks` ranks: merges meet the weights
/// that they have there, and figures of sampled selection are for so many. Values are spread evenly
/// between -1 and 1, on which the length of codes of variable rate depends.
/// @param codec  fitted to the ranks, if it is one of blocks
/// @throws std::invalid_argument  ranks < 1, or no values to measure with
template <Summable C, Executor E>
codec_cost measure_codec(C const& codec, E& executor, int ranks,
                         measure_options const& options = {}) {
  return detail::measured_cost(
      codec, executor,
      detail::probe_on(executor, ranks, options.values, options.codec_seconds, [] {}));
}

/// What `codec` costs while all ranks use it, so that what they share is counted. Collective; every
/// rank gets the same figures, those of the slowest rank.
template <Summable C, Executor E, Transport T>
codec_cost measure_codec(C const& codec, E& executor, T& transport,
                         measure_options const& options = {}) {
  auto cost =
      detail::measured_cost(codec, executor, detail::probe_of(executor, transport, options));
  detail::agree_on_slowest(transport, options.tag, cost);
  return cost;
}

}  // namespace hcomp
