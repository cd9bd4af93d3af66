#include "kernel_offload.hpp"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <ifaddrs.h>
#include <linux/bpf.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <xdp/layout.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace hcomp::info {
namespace {

/// Owner of a file descriptor of a kernel object.
class handle {
 public:
  explicit handle(long number) : number_(static_cast<int>(number)) {}
  handle(handle&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  handle& operator=(handle&&) = delete;
  ~handle() {
    if (number_ >= 0) ::close(number_);
  }
  explicit operator bool() const { return number_ >= 0; }
  std::uint32_t number() const { return static_cast<std::uint32_t>(number_); }

 private:
  int number_;
};

/// bpf(2). Direct, because libbpf would be needed for nothing else.
long ask(bpf_cmd what, bpf_attr& how) { return ::syscall(SYS_bpf, what, &how, sizeof how); }

std::uint64_t address_of(void const* memory) { return reinterpret_cast<std::uintptr_t>(memory); }

handle open_number(bpf_cmd what, std::uint32_t number) {
  bpf_attr how{};
  how.link_id = number;  // same offset for programs and maps
  return handle(ask(what, how));
}

template <class Info> bool describe(handle const& one, Info& info) {
  bpf_attr how{};
  how.info.bpf_fd = one.number();
  how.info.info_len = sizeof info;
  how.info.info = address_of(&info);
  return ask(BPF_OBJ_GET_INFO_BY_FD, how) == 0;
}

bool read_entry(handle const& map, std::uint32_t key, void* value) {
  bpf_attr how{};
  how.map_fd = map.number();
  how.key = address_of(&key);
  how.value = address_of(value);
  return ask(BPF_MAP_LOOKUP_ELEM, how) == 0;
}

/// The map with this name and value size, or none.
handle find_map(std::vector<std::uint32_t> const& numbers, std::string_view name,
                std::size_t value_bytes) {
  for (std::uint32_t const number : numbers) {
    bpf_map_info info{};
    if (handle map = open_number(BPF_MAP_GET_FD_BY_ID, number);
        map && describe(map, info) && std::string_view(info.name).starts_with(name) &&
        info.value_size == value_bytes)
      return map;
  }
  return handle(-1);
}

/// Totals over all active jobs.
struct totals {
  unsigned jobs = 0;
  xdp_stats sums{};
};
totals count(handle const& places, handle const& jobs) {
  totals all;
  std::uint32_t number = 0, next = 0;
  bpf_attr how{};
  how.map_fd = places.number();
  how.next_key = address_of(&next);
  for (; ask(BPF_MAP_GET_NEXT_KEY, how) == 0; number = next, how.key = address_of(&number)) {
    std::uint32_t place = 0;
    xdp_job job;
    if (!read_entry(places, next, &place) || !read_entry(jobs, place, &job)) continue;
    ++all.jobs;
    auto const add = [&](auto... member) { ((all.sums.*member += job.stats.*member), ...); };
    using f = xdp_stats;
    add(&f::received, &f::sent, &f::lost, &f::added, &f::duplicates, &f::late, &f::stale, &f::whole,
        &f::partial, &f::abandoned);
    for (std::size_t i = 0; i < xdp_faults; ++i) all.sums.refused[i] += job.stats.refused[i];
  }
  return all;
}

std::string addresses_of(xdp_settings const& settings) {
  std::string text;
  for (unsigned i = 0; i < settings.addresses && i < xdp_addresses; ++i) {
    char words[INET_ADDRSTRLEN] = "?";
    inet_ntop(AF_INET, &settings.address[i], words, sizeof words);
    text += fmt::format("{}{}:{}", i > 0 ? ", " : "", words, ntohs(settings.port));
  }
  return text;
}

/// The interface of a link. A link does not name its network namespace, so this compares addresses.
std::string interface_of(std::uint32_t number, xdp_settings const& settings) {
  std::array<char, IF_NAMESIZE> name{};
  bool is_local = false;
  ifaddrs* found = nullptr;
  if (if_indextoname(number, name.data()) && getifaddrs(&found) == 0) {
    for (auto const* it = found; it; it = it->ifa_next)
      is_local |= it->ifa_addr && it->ifa_addr->sa_family == AF_INET &&
                  std::string_view(it->ifa_name) == name.data() &&
                  reinterpret_cast<sockaddr_in const*>(it->ifa_addr)->sin_addr.s_addr ==
                      settings.address[0];
    freeifaddrs(found);
  }
  return is_local ? name.data() : "an interface of another network namespace";
}

/// Empty if hcomp-aggregator did not create the link.
std::optional<std::string> describe_link(std::uint32_t number) {
  bpf_link_info link{};
  if (handle const one = open_number(BPF_LINK_GET_FD_BY_ID, number);
      !one || !describe(one, link) || link.type != BPF_LINK_TYPE_XDP)
    return {};
  handle const program = open_number(BPF_PROG_GET_FD_BY_ID, link.prog_id);
  std::vector<std::uint32_t> maps(64);
  bpf_prog_info info{};
  info.nr_map_ids = static_cast<std::uint32_t>(maps.size());
  info.map_ids = address_of(maps.data());
  if (!program || !describe(program, info) || std::string_view(info.name) != "receive") return {};
  maps.resize(std::min<std::size_t>(info.nr_map_ids, maps.size()));
  auto const jobs = find_map(maps, "jobs", sizeof(xdp_job)),
             places = find_map(maps, "job_numbers", sizeof(std::uint32_t)),
             constants = find_map(maps, ".rodata.setting", sizeof(xdp_settings));
  xdp_settings settings{};
  if (!jobs || !places || !constants || !read_entry(constants, 0, &settings)) return {};
  auto const all = count(places, jobs);
  auto const& sums = all.sums;
  auto const refused =
      std::accumulate(std::begin(sums.refused), std::end(sums.refused), std::uint64_t{0});
  auto text = fmt::format(
      "hcomp-aggregator adds at {} by {}, jobs: {}\n"
      "{} datagrams received, {} sent, {} lost here\n"
      "{} contributions added, {} duplicates, {} late, {} stale, {} refused\n"
      "sums: {} whole, {} partial, {} abandoned",
      addresses_of(settings), interface_of(link.xdp.ifindex, settings), all.jobs,
      std::uint64_t{sums.received}, std::uint64_t{sums.sent}, std::uint64_t{sums.lost},
      std::uint64_t{sums.added}, std::uint64_t{sums.duplicates}, std::uint64_t{sums.late},
      std::uint64_t{sums.stale}, refused, std::uint64_t{sums.whole}, std::uint64_t{sums.partial},
      std::uint64_t{sums.abandoned});
  if (info.run_cnt > 0)
    text += fmt::format("\nran {} times, {:.3f} s", std::uint64_t{info.run_cnt},
                        static_cast<double>(info.run_time_ns) * 1e-9);
  return text;
}

}  // namespace

std::string kernel_offload() {
  std::string text;
  bpf_attr how{};
  while (ask(BPF_LINK_GET_NEXT_ID, how) == 0) {
    how.start_id = how.next_id;
    if (auto const one = describe_link(how.start_id)) text += (text.empty() ? "" : "\n") + *one;
  }
  if (errno != ENOENT)
    return fmt::format("cannot be told: {}; root can", std::generic_category().message(errno));
  return text.empty() ? "no program of hcomp-aggregator --mode xdp is attached" : text;
}

}  // namespace hcomp::info
