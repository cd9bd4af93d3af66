#pragma once
/// @file
/// Measures the costs of links and codecs while all ranks work.

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
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/transport/transport.hpp>
#include <span>
#include <vector>

namespace hcomp {

/// How much is measured. Equal on all ranks.
struct measure_options {
  std::size_t values = std::size_t{1} << 22;  ///< in encoded, merged, decoded vectors
  double codec_seconds = 0.025;               ///< approximate time for each cost of a codec
  double link_seconds = 0.2;                  ///< approximate time for the link
  tag_t tag = 0;
};

namespace detail {

/// Times rounds of messages from every rank to the next, in the executor's memory. All ranks get
/// the slowest rank's time.
template <Transport T, Executor E> class link_probe {
 public:
  link_probe(T& transport, E& executor, tag_t tag, double seconds)
      : transport_(&transport), executor_(&executor), tag_(tag), seconds_(seconds) {}

  /// Seconds of one round of `count` messages of `bytes` bytes at once: the median of several
  /// batches of rounds, as time permits.
  double round(std::size_t count, std::size_t bytes) {
    int rounds = 1;
    double spent = 0, batch = timed(rounds, count, bytes);
    while (batch < seconds_ / 10 && rounds < 4096) {
      rounds *= 2;
      spent += batch;
      batch = timed(rounds, count, bytes);
    }
    std::vector<double> batches{batch};
    // At least three: where a network loses packets, one batch may take a thousand times as long.
    for (spent += batch; batches.size() < 3 || (spent < seconds_ && batches.size() < 9);
         spent += batches.back())
      batches.push_back(timed(rounds, count, bytes));
    return median(batches) / rounds;
  }

  /// Seconds of `rounds` rounds.
  double timed(int rounds, std::size_t count, std::size_t bytes) {
    if (out_.size() < bytes) out_ = typename E::buffer(bytes);
    if (in_.size() < count * bytes) in_ = typename E::buffer(count * bytes);
    int const rank = transport_->rank(), size = transport_->size();
    int const next = (rank + 1) % size, previous = (rank + size - 1) % size;
    double seconds = slowest(0);  // all ranks start together
    stopwatch watch;
    for (int r = 0; r < rounds; ++r) {
      sends_.clear();
      receives_.clear();
      for (std::size_t i = 0; i < count; ++i)
        receives_.push_back(
            transport_->irecv(previous, tag_, std::span(in_.data() + i * bytes, bytes)));
      for (std::size_t i = 0; i < count; ++i)
        sends_.push_back(
            transport_->isend(next, tag_, std::span<std::byte const>(out_.data(), bytes)));
      for (auto& request : receives_)
        require_records(*transport_, previous, transport_->wait(request), bytes);
      for (auto& request : sends_) transport_->wait(request);
      if constexpr (DeviceExecutor<E>) executor_->synchronize();  // copies to the device
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
  E* executor_;
  tag_t tag_;
  double seconds_;
  typename E::buffer out_, in_;
  std::vector<typename T::request> sends_, receives_;
};

/// Size of a message of measure_seconds_per_byte, and the least that it sends: three messages.
inline constexpr std::size_t bytes_of_link_message = std::size_t{1} << 16;
inline constexpr double bytes_of_link_measurement = 3 * static_cast<double>(bytes_of_link_message);

/// The current link_cost::seconds_per_byte, measured in little time. Three messages are enough
/// unless they show that it has become much smaller. Collective.
/// @param before  its last value
/// @param link    the other costs of the link
template <Transport T, Executor E>
double measure_seconds_per_byte(T& transport, E& executor, tag_t tag, double before,
                                link_cost const& link) {
  constexpr std::size_t bytes = bytes_of_link_message, more = 3;
  link_probe<T, E> probe(transport, executor, tag, 0);
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

/// Measures the costs of a message and of a byte when every rank sends to the next rank and
/// receives from the previous one. Collective; every rank gets the same costs, those of the slowest
/// rank.
///
/// | cost | measured from |
/// |---|---|
/// | latency, time between messages | small messages, one and many at once |
/// | bandwidth | messages of 256 KiB: additional time for four times their number at once |
/// | rendezvous | single messages of 32 to 256 KiB |
///
/// The difference for bandwidth removes the fixed cost of a burst, which a series of segments pays
/// only once.
///
/// @param executor  the messages are in its memory; a device's are measured until they are there
/// @param seconds   approximate time; more only if messages of 256 KiB take longer
template <Transport T, Executor E>
link_cost measure_link(T& transport, E& executor, double seconds = measure_options{}.link_seconds,
                       tag_t tag = 0) {
  if (transport.size() == 1) return {};
  detail::link_probe<T, E> probe(transport, executor, tag, seconds / 6);
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
  if (link.seconds_per_byte <= 0)  // noise
    link.seconds_per_byte = per_byte(round, 4 * count);
  // The additional time of single messages is the rendezvous, if long messages have it and short
  // ones do not.
  double const alone = link.seconds_per_message + link.seconds_between_messages;
  std::array<double, 4> waits;
  for (std::size_t i = 0; i < waits.size(); ++i) {
    std::size_t const length = std::size_t{1} << (15 + i);
    waits[i] = probe.round(1, length) - alone - static_cast<double>(length) * link.seconds_per_byte;
  }
  link.seconds_of_rendezvous = std::max(0.0, std::min(waits[2], waits[3]));
  std::size_t asking = 0;  // the first length with a rendezvous; limits are powers of two
  while (asking + 1 < waits.size() && waits[asking] < link.seconds_of_rendezvous / 2) ++asking;
  link.eager_bytes = (std::uint64_t{1} << (15 + asking)) - 1;
  // Machines may compute different floats.
  unite_records(transport, tag, link, [](link_cost& a, link_cost const& b) {
    a.seconds_per_message = std::max(a.seconds_per_message, b.seconds_per_message);
    a.seconds_per_byte = std::max(a.seconds_per_byte, b.seconds_per_byte);
    a.seconds_between_messages = std::max(a.seconds_between_messages, b.seconds_between_messages);
    a.seconds_of_rendezvous = std::max(a.seconds_of_rendezvous, b.seconds_of_rendezvous);
    a.eager_bytes = std::max(a.eager_bytes, b.eager_bytes);
  });
  return link;
}
/// The same for messages in host memory.
template <Transport T>
link_cost measure_link(T& transport, double seconds = measure_options{}.link_seconds,
                       tag_t tag = 0) {
  host_executor executor(1);
  return measure_link(transport, executor, seconds, tag);
}

namespace detail {

/// All ranks begin each measurement together.
template <Executor E, Transport T>
codec_probe probe_of(E& executor, T& transport, measure_options const& options) {
  return probe_on(executor, transport.size(), options.values, options.codec_seconds, [&] {
    char arrived = 1;
    unite_records(transport, options.tag, arrived, [](char&, char) {});
  });
}
template <Transport T> void agree_on_slowest(T& transport, tag_t tag, codec_cost& cost) {
  unite_records(transport, tag, cost, [](codec_cost& a, codec_cost const& b) {
    for (auto const metric : codec_times) a.*metric = std::max(a.*metric, b.*metric);
    a.block_bytes = std::max(a.block_bytes, b.block_bytes);
  });
}

}  // namespace detail

/// Measures the costs of `codec` in this process alone, as one of `ranks` ranks: merges use the
/// weights, and sampled selection the number of ranks, of such a group. Values are uniform between
/// -1 and 1; the encoded size of VariableRate codecs depends on them.
/// @param codec  fitted to the ranks, if it is HomomorphicSum
/// @throws std::invalid_argument  ranks < 1, or no values to measure with
template <Summable C, Executor E>
codec_cost measure_codec(C const& codec, E& executor, int ranks,
                         measure_options const& options = {}) {
  return detail::measured_cost(
      codec, executor,
      detail::probe_on(executor, ranks, options.values, options.codec_seconds, [] {}));
}

/// Measures the costs of `codec` while all ranks use it, so that shared resources count.
/// Collective; every rank gets the same costs, those of the slowest rank.
template <Summable C, Executor E, Transport T>
codec_cost measure_codec(C const& codec, E& executor, T& transport,
                         measure_options const& options = {}) {
  auto cost =
      detail::measured_cost(codec, executor, detail::probe_of(executor, transport, options));
  detail::agree_on_slowest(transport, options.tag, cost);
  return cost;
}

}  // namespace hcomp
