#include "report.hpp"

#include <fmt/core.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <hcomp/collective/aggregation/aggregator_options.hpp>
#include <hcomp/udp/frame.hpp>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

namespace hcomp::aggregator_command {

namespace {

using json = nlohmann::ordered_json;

/// Calls use(text, count) for every enumerator from 1 on.
template <class Enum, class Counts, class Use> void for_each(Counts const& counts, Use const& use) {
  for (std::size_t i = 1; i < counts.size(); ++i)
    use(std::string(to_text(static_cast<Enum>(i))), counts[i]);
}

json of(aggregator_stats const& sums) {
  json refused = json::object();
  for_each<packet_fault>(
      sums.refused, [&](std::string const& words, std::uint64_t count) { refused[words] = count; });
  return {{"added", sums.added},         {"duplicates", sums.duplicates},
          {"late", sums.late},           {"stale", sums.stale},
          {"whole", sums.whole},         {"partial", sums.partial},
          {"abandoned", sums.abandoned}, {"refused", refused}};
}

std::string line_of(aggregator_stats const& sums) {
  auto text = fmt::format(
      "{} contributions added, {} duplicates, {} late, {} stale; sums: {} whole, {} partial, {} "
      "abandoned\n",
      sums.added, sums.duplicates, sums.late, sums.stale, sums.whole, sums.partial, sums.abandoned);
  for_each<packet_fault>(sums.refused, [&](std::string const& words, std::uint64_t count) {
    if (count > 0) text += fmt::format("    {} refused: {}\n", count, words);
  });
  return text;
}

}  // namespace

std::string to_text(udp::aggregation_server const& server) {
  auto const seen = server.stats();
  auto text = fmt::format(
      "{} datagrams received, {} sent, {} lost here\n{} joins; {} jobs begun, {} left, {} idle\n",
      seen.received, seen.sent, seen.lost_here, seen.joins, seen.jobs_begun, seen.jobs_left,
      seen.jobs_idle);
  auto const dropped = [&](std::string const& words, std::uint64_t count) {
    if (count > 0) text += fmt::format("{} dropped: {}\n", count, words);
  };
  for_each<udp::frame_fault>(seen.damaged, dropped);
  dropped("a packet of an unknown job", seen.unknown_job);
  dropped("a packet that is not from its rank's sender", seen.foreign);
  for_each<udp::refusal_reason>(seen.refused, [&](std::string const& words, std::uint64_t count) {
    if (count > 0) text += fmt::format("{} joins refused: {}\n", count, words);
  });
  for (auto const& one : server.jobs())
    text += fmt::format("job {}{}, {} of {} workers joined, {} left: {}", one.job,
                        one.is_offloaded ? ", in the kernel" : "", one.joined, one.workers,
                        one.left, line_of(one.sums));
  return text + "ended jobs: " + line_of(server.ended());
}

std::string to_json(udp::aggregation_server const& server) {
  auto const seen = server.stats();
  json damaged = json::object(), refused = json::object(), jobs = json::array();
  for_each<udp::frame_fault>(
      seen.damaged, [&](std::string const& words, std::uint64_t count) { damaged[words] = count; });
  for_each<udp::refusal_reason>(
      seen.refused, [&](std::string const& words, std::uint64_t count) { refused[words] = count; });
  for (auto const& one : server.jobs())
    jobs.push_back({{"job", one.job},
                    {"workers", one.workers},
                    {"joined", one.joined},
                    {"left", one.left},
                    {"in_kernel", one.is_offloaded},
                    {"sums", of(one.sums)}});
  json const all = {{"received", seen.received},       {"sent", seen.sent},
                    {"lost_here", seen.lost_here},     {"joins", seen.joins},
                    {"joins_refused", refused},        {"dropped", damaged},
                    {"unknown_job", seen.unknown_job}, {"foreign", seen.foreign},
                    {"jobs_begun", seen.jobs_begun},   {"jobs_left", seen.jobs_left},
                    {"jobs_idle", seen.jobs_idle},     {"jobs", jobs},
                    {"ended", of(server.ended())}};
  return all.dump(2) + "\n";
}

void write_file(std::string const& file, std::string const& text) {
  auto const fresh = file + ".new";
  {
    std::ofstream out(fresh);
    out << text << std::flush;
    if (!out)
      throw std::runtime_error(
          fmt::format("report {} cannot be written: {}", fresh, std::strerror(errno)));
  }
  if (std::rename(fresh.c_str(), file.c_str()) != 0)
    throw std::runtime_error(
        fmt::format("report {} cannot be written: {}", file, std::strerror(errno)));
}

}  // namespace hcomp::aggregator_command
