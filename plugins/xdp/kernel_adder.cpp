#include "kernel_adder.hpp"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/core.h>
#include <ifaddrs.h>
#include <linux/if_link.h>
#include <linux/membarrier.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <hcomp/core/bits.hpp>
#include <map>
#include <optional>
#include <span>
#include <stdexcept>
#include <vector>

#include "layout.h"

// The compiled programs, in this file's read-only data.
__asm__(
    ".pushsection .rodata\n"
    ".balign 8\n"
    ".globl hcomp_xdp_object, hcomp_xdp_object_end\n"
    "hcomp_xdp_object: .incbin \"" HCOMP_XDP_OBJECT
    "\"\n"
    "hcomp_xdp_object_end:\n"
    ".popsection\n");
extern "C" char const hcomp_xdp_object[], hcomp_xdp_object_end[];

namespace hcomp::xdp {

namespace {

constexpr int tcx_ingress = 46;  // BPF_TCX_INGRESS, missing in headers before Linux 6.6
// Of the filter attached on systems without tcx. A fixed handle, so a new filter replaces the old
// one.
constexpr std::uint32_t filter_handle = 0x6863, filter_priority = 0x6863;

static_assert(xdp_faults == static_cast<int>(packet_fault::faults));
static_assert(xdp_frame_bytes == udp::frame_bytes && xdp_header_bytes == packet_header_bytes);

std::string last_words;  // last message of libbpf

int keep_words(libbpf_print_level level, char const* format, va_list values) {
  if (level != LIBBPF_WARN) return 0;
  std::array<char, 1024> line;
  std::vsnprintf(line.data(), line.size(), format, values);
  last_words += line.data();
  return 0;
}

[[noreturn]] void fail(std::string const& what, int why) {
  auto text = fmt::format("xdp: {}: {} ({})", what, std::strerror(why), why);
  if (!last_words.empty()) text += "; " + last_words.substr(0, 2000);
  throw std::runtime_error(text);
}

/// Zeroed options for a function of libbpf. The macro of libbpf needs C.
template <class Options> Options options_of_libbpf() {
  Options options{};
  options.sz = sizeof options;
  return options;
}

/// Atomic access to values that the kernel writes concurrently.
std::uint64_t read_once(__u64 const& number) { return __atomic_load_n(&number, __ATOMIC_RELAXED); }
template <class T> void write_once(T& number, T value) {
  __atomic_store_n(&number, value, __ATOMIC_RELEASE);
}

sockaddr_in const* as_ipv4(udp::address const& one) {
  return one.family() == AF_INET ? reinterpret_cast<sockaddr_in const*>(one.data()) : nullptr;
}

xdp_settings settings_of(udp::address const& listen, std::string const& interface) {
  auto const* const mine = as_ipv4(listen);
  if (!mine)
    throw std::runtime_error(
        fmt::format("xdp: listens on {}; the kernel adds IPv4 packets alone", listen.text()));
  xdp_settings all{};
  all.port = mine->sin_port;
  ifaddrs* found = nullptr;
  if (getifaddrs(&found) != 0) fail("addresses of " + interface, errno);
  for (auto const* it = found; it; it = it->ifa_next) {
    if (!it->ifa_addr || it->ifa_addr->sa_family != AF_INET || interface != it->ifa_name) continue;
    auto const address = reinterpret_cast<sockaddr_in const*>(it->ifa_addr)->sin_addr.s_addr;
    bool const is_wanted =
        mine->sin_addr.s_addr == htonl(INADDR_ANY) || mine->sin_addr.s_addr == address;
    if (is_wanted && all.addresses < xdp_addresses) all.address[all.addresses++] = address;
  }
  freeifaddrs(found);
  if (all.addresses == 0)
    throw std::runtime_error(fmt::format("xdp: interface {} has no IPv4 address that {} listens on",
                                         interface, listen.text()));
  return all;
}

}  // namespace

/// Loaded and attached programs, and the free slots and job entries.
class kernel_adder::programs {
 public:
  programs(udp::address const& listen, adder_options const& options)
      : interface_(options.interface), slots_(options.slots), is_free_(options.jobs, true) {
    index_ = if_nametoindex(interface_.c_str());
    if (index_ == 0) fail("interface " + interface_, errno);
    auto const settings = settings_of(listen, interface_);
    last_words.clear();
    libbpf_set_print(keep_words);
    object_ = bpf_object__open_mem(
        hcomp_xdp_object, static_cast<std::size_t>(hcomp_xdp_object_end - hcomp_xdp_object),
        nullptr);
    if (!object_) fail("the compiled programs", errno);
    try {
      load(settings, options);
      attach(options.generic);
    } catch (...) {
      release();
      throw;
    }
  }
  programs(programs const&) = delete;
  programs& operator=(programs const&) = delete;
  ~programs() { release(); }

  std::string text() const {
    return interface_ + (is_generic_ ? ", in generic mode" : ", by its driver");
  }

  std::string time_text() const {
    std::string text;
    for (auto const& [name, handle] :
         {std::pair("receive", receive_), {"answer", answer_}, {"serve", serve_}}) {
      bpf_prog_info info{};
      std::uint32_t bytes = sizeof info;
      if (bpf_obj_get_info_by_fd(handle, &info, &bytes) != 0 || info.run_cnt == 0) continue;
      text +=
          fmt::format("{}{} {} times, {:.3f} s", text.empty() ? "" : "; ", name,
                      std::uint64_t{info.run_cnt}, static_cast<double>(info.run_time_ns) * 1e-9);
    }
    return text;
  }

  xdp_job& job(std::size_t place) const { return jobs_[place]; }

  /// Reserves a job entry and its slots, all empty.
  std::optional<std::pair<std::size_t, std::uint32_t>> reserve(std::size_t count) {
    auto const place = std::find(is_free_.begin(), is_free_.end(), true);
    if (place == is_free_.end() || count > slots_) return std::nullopt;
    std::size_t first = 0;
    for (auto const& [begin, size] : taken_) {
      if (begin - first >= count) break;
      first = begin + size;
    }
    if (first + count > slots_) return std::nullopt;
    taken_[first] = count;
    *place = false;
    std::vector<std::byte> const empty(bpf_map__value_size(slot_map_));
    for (std::size_t at = first; at < first + count; ++at) {
      auto const key = static_cast<std::uint32_t>(at);
      bpf_map_update_elem(bpf_map__fd(slot_map_), &key, empty.data(), BPF_ANY);
    }
    return std::pair(static_cast<std::size_t>(place - is_free_.begin()),
                     static_cast<std::uint32_t>(first));
  }
  void publish(std::uint32_t number, std::size_t place) {
    auto const value = static_cast<std::uint32_t>(place);
    if (bpf_map_update_elem(bpf_map__fd(number_map_), &number, &value, BPF_ANY) != 0)
      fail(fmt::format("job {}", number), errno);
  }
  void end(std::uint32_t number, std::size_t place) {
    bpf_map_delete_elem(bpf_map__fd(number_map_), &number);
    // Running programs may still use the entry; this call waits for them to end.
    ::syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0);
    taken_.erase(jobs_[place].first_slot);
    is_free_[place] = true;
  }

  /// Runs `serve`. The answer is in `request`, its packet in the result.
  std::span<std::byte const> serve(xdp_request& request, std::span<std::byte const> packet) {
    std::fill(work_area_.begin(), work_area_.end(), std::byte{0});
    request.bytes = static_cast<std::uint32_t>(packet.size());
    std::memcpy(work_area_.data(), &request, sizeof request);
    auto const fits = std::min(packet.size(), work_area_.size() - sizeof request);
    if (fits > 0) std::memcpy(work_area_.data() + sizeof request, packet.data(), fits);
    auto how = options_of_libbpf<bpf_test_run_opts>();
    how.data_in = work_area_.data();
    how.data_out = work_area_.data();
    how.data_size_in = how.data_size_out = static_cast<std::uint32_t>(work_area_.size());
    int const status = bpf_prog_test_run_opts(serve_, &how);
    if (status != 0) fail("a packet for the kernel", -status);
    if (how.retval != XDP_PASS) fail("a packet for the kernel", EPROTO);
    std::memcpy(&request, work_area_.data(), sizeof request);
    return std::span(work_area_).subspan(sizeof request, request.bytes);
  }

 private:
  void load(xdp_settings const& settings, adder_options const& options) {
    auto const map = [&](char const* name) {
      auto* const found = bpf_object__find_map_by_name(object_, name);
      if (!found) fail(fmt::format("map {}", name), ENOENT);
      return found;
    };
    auto const sized = [&](char const* name, std::size_t entries) {
      auto* const found = map(name);
      bpf_map__set_max_entries(found, static_cast<std::uint32_t>(entries));
      return found;
    };
    auto* const job_map = sized("jobs", options.jobs);
    number_map_ = sized("job_numbers", options.jobs);
    slot_map_ = sized("slots", options.slots);
    int status = bpf_map__set_initial_value(map(".rodata.settings"), &settings, sizeof settings);
    if (status != 0) fail("the programs' settings", -status);
    status = bpf_object__load(object_);
    if (status != 0) fail("loading the programs", -status);
    auto const program = [&](char const* name) {
      return bpf_program__fd(bpf_object__find_program_by_name(object_, name));
    };
    receive_ = program("receive");
    answer_ = program("answer");
    serve_ = program("serve");

    auto const page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    job_bytes_ = (options.jobs * sizeof(xdp_job) + page - 1) / page * page;
    void* const jobs =
        ::mmap(nullptr, job_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, bpf_map__fd(job_map), 0);
    if (jobs == MAP_FAILED) fail("memory that is shared with the kernel", errno);
    jobs_ = static_cast<xdp_job*>(jobs);
  }

  bpf_tc_hook ingress_hook() const {
    auto hook = options_of_libbpf<bpf_tc_hook>();
    hook.ifindex = static_cast<int>(index_);
    hook.attach_point = BPF_TC_INGRESS;
    return hook;
  }

  void attach(bool only_generic) {
    auto const index = static_cast<int>(index_);
    last_words.clear();
    // `answer` first, so that every result is sent.
    answer_link_ =
        bpf_link_create(answer_, index, static_cast<bpf_attach_type>(tcx_ingress), nullptr);
    if (answer_link_ < 0) {
      auto hook = ingress_hook();
      int status = bpf_tc_hook_create(&hook);
      if (status != 0 && status != -EEXIST) fail("an ingress filter of " + interface_, -status);
      made_hook_ = status == 0;
      auto filter = options_of_libbpf<bpf_tc_opts>();
      filter.prog_fd = answer_;
      filter.handle = filter_handle;
      filter.priority = filter_priority;
      filter.flags = BPF_TC_F_REPLACE;
      status = bpf_tc_attach(&hook, &filter);
      if (status != 0) fail("an ingress filter of " + interface_, -status);
      has_filter_ = true;
    }
    for (bool const generic : {false, true}) {
      if (only_generic && !generic) continue;
      auto how = options_of_libbpf<bpf_link_create_opts>();
      how.flags = generic ? XDP_FLAGS_SKB_MODE : XDP_FLAGS_DRV_MODE;
      receive_link_ = bpf_link_create(receive_, index, BPF_XDP, &how);
      is_generic_ = generic;
      if (receive_link_ >= 0) return;
      if (errno == EBUSY || errno == EEXIST) break;  // another program is attached
    }
    fail("attaching to " + interface_, errno);
  }

  void release() {
    if (receive_link_ >= 0) ::close(receive_link_);
    if (answer_link_ >= 0) ::close(answer_link_);
    if (has_filter_) {
      auto hook = ingress_hook();
      auto filter = options_of_libbpf<bpf_tc_opts>();
      filter.handle = filter_handle;
      filter.priority = filter_priority;
      bpf_tc_detach(&hook, &filter);
      if (made_hook_) {
        hook.attach_point = static_cast<bpf_tc_attach_point>(BPF_TC_INGRESS | BPF_TC_EGRESS);
        bpf_tc_hook_destroy(&hook);
      }
    }
    if (jobs_) ::munmap(jobs_, job_bytes_);
    bpf_object__close(object_);
  }

  std::string interface_;
  std::size_t slots_;
  std::vector<bool> is_free_;                 ///< job entries
  std::map<std::size_t, std::size_t> taken_;  ///< slots: first index and number
  unsigned index_ = 0;
  bpf_object* object_ = nullptr;
  bpf_map *slot_map_ = nullptr, *number_map_ = nullptr;
  int receive_ = -1, answer_ = -1, serve_ = -1;
  int receive_link_ = -1, answer_link_ = -1;
  bool has_filter_ = false, made_hook_ = false, is_generic_ = false;
  xdp_job* jobs_ = nullptr;
  std::size_t job_bytes_ = 0;
  std::array<std::byte, sizeof(xdp_request) + xdp_longest_answer + 64> work_area_{};
};

/// A job that the kernel aggregates.
class kernel_adder::sums : public udp::offloaded_sums {
 public:
  sums(programs& all, std::uint32_t number, aggregator_options const& o, int sum_bits,
       std::size_t place, std::uint32_t first_slot)
      : all_(&all), number_(number), place_(place), deadline_(o.deadline) {
    xdp_job& job = all.job(place);
    job = {};
    job.number = number;
    job.first_slot = first_slot;
    job.chunks = o.chunks;
    job.rounds = o.rounds;
    job.chunk_values = o.chunk_values;
    job.rounds_ahead = o.rounds_ahead;
    job.workers = static_cast<std::uint32_t>(o.workers);
    job.quota = static_cast<std::uint32_t>(o.quota > 0 ? o.quota : o.workers);
    job.bits = static_cast<std::uint32_t>(o.bits);
    job.sum_bits = static_cast<std::uint32_t>(sum_bits);
    job.largest_level = o.levels.back();
    job.answer_late = o.answer_late;
    for (std::size_t byte = 0; byte < 256; ++byte)
      for (int i = 0; i < 8 / o.bits; ++i) {
        std::size_t const index = byte >> (i * o.bits) & ((1u << o.bits) - 1);
        job.lanes[byte] |= std::uint64_t{o.levels[index]} << (i * sum_bits);
      }
    all.publish(number, place);
  }
  sums(sums const&) = delete;
  sums& operator=(sums const&) = delete;
  ~sums() override { all_->end(number_, place_); }

  void let_in(udp::frame const& header, udp::address const& from) override {
    auto const bit = std::uint64_t{1} << header.rank;
    xdp_job& mine = job();
    auto const* const address = as_ipv4(from);
    if (read_once(mine.known) & bit) return;
    if (address) {
      auto& peer = mine.peers[header.rank];
      peer.address = address->sin_addr.s_addr;
      peer.port = address->sin_port;
      peer.session = header.session;
      // The kernel accepts packets of known workers only; the server passes on those of other
      // workers.
      write_once(mine.known, mine.known | bit);
    }
    write_once(mine.joined, mine.joined | bit);
  }
  void leave(int rank) override {
    write_once(job().joined, job().joined & ~(std::uint64_t{1} << rank));
  }

  aggregator_answer take(int rank, std::span<std::byte const> packet,
                         std::chrono::nanoseconds now) override {
    xdp_request request{};
    request.kind = xdp_take;
    request.job = static_cast<std::uint32_t>(place_);
    request.rank = static_cast<std::uint32_t>(rank);
    request.now = static_cast<std::uint64_t>(now.count());
    return answer_in(request, all_->serve(request, packet));
  }

  aggregator_answer expire(std::chrono::nanoseconds now) override {
    if (time_left(now).count() > 0) return {};
    if (read_once(job().open) == 0) {
      look_again(now + deadline_);  // a result that begins later is due later
      return {};
    }
    xdp_request request{};
    request.kind = xdp_expire;
    request.job = static_cast<std::uint32_t>(place_);
    request.now = static_cast<std::uint64_t>(now.count());
    request.deadline = static_cast<std::uint64_t>(deadline_.count());
    request.next_slot = next_slot_;
    request.oldest = oldest_;
    auto const answer = answer_in(request, all_->serve(request, {}));
    oldest_ = request.oldest;
    next_slot_ = request.next_slot;
    if (answer.to == aggregator_answer::receiver::nobody) {  // all slots are checked
      auto const since = std::min(oldest_, static_cast<std::uint64_t>(now.count()));
      look_again(std::chrono::nanoseconds(since) + deadline_);
    }
    return answer;
  }
  std::chrono::nanoseconds time_left(std::chrono::nanoseconds now) const override {
    if (deadline_.count() == 0) return std::chrono::nanoseconds::max();
    return std::max(next_look_ - now, std::chrono::nanoseconds(0));
  }

  aggregator_stats stats() const override {
    auto const& seen = job().stats;
    aggregator_stats stats;
    stats.added = read_once(seen.added);
    stats.duplicates = read_once(seen.duplicates);
    stats.late = read_once(seen.late);
    stats.stale = read_once(seen.stale);
    stats.whole = read_once(seen.whole);
    stats.partial = read_once(seen.partial);
    stats.abandoned = read_once(seen.abandoned);
    for (std::size_t i = 0; i < stats.refused.size(); ++i)
      stats.refused[i] = read_once(seen.refused[i]);
    return stats;
  }
  std::chrono::nanoseconds last_heard() const override {
    return std::chrono::nanoseconds(read_once(job().last_heard));
  }
  traffic datagrams() const override {
    auto const& seen = job().stats;
    return {read_once(seen.received), read_once(seen.sent), read_once(seen.lost)};
  }

 private:
  xdp_job& job() const { return all_->job(place_); }

  void look_again(std::chrono::nanoseconds when) {
    next_look_ = when;
    next_slot_ = 0;
    oldest_ = ~std::uint64_t{0};
  }

  static aggregator_answer answer_in(xdp_request const& request,
                                     std::span<std::byte const> packet) {
    aggregator_answer answer;
    answer.refused = static_cast<packet_fault>(request.fault);
    if (request.to == xdp_nobody) return answer;
    answer.to = request.to == xdp_everybody ? aggregator_answer::receiver::all
                                            : aggregator_answer::receiver::one;
    answer.rank = request.to == xdp_everybody ? -1 : static_cast<int>(request.to);
    answer.packet = packet;
    return answer;
  }

  programs* all_;
  std::uint32_t number_;
  std::size_t place_;
  std::chrono::nanoseconds deadline_;
  std::chrono::nanoseconds next_look_{0};  ///< no result is due earlier
  std::uint32_t next_slot_ = 0;            ///< of the search in progress
  std::uint64_t oldest_ = ~std::uint64_t{0};
};

kernel_adder::kernel_adder(udp::address const& listen, adder_options const& options)
    : programs_(std::make_unique<programs>(listen, options)) {}
kernel_adder::~kernel_adder() = default;

std::string kernel_adder::text() const { return programs_->text(); }
std::string kernel_adder::time_text() const { return programs_->time_text(); }

std::unique_ptr<udp::offloaded_sums> kernel_adder::take_on(std::uint32_t job,
                                                           aggregator_options const& o,
                                                           int sum_bits) {
  bool const is_narrow = sum_bits == 8 && (o.bits == 1 || o.bits == 2 || o.bits == 4);
  bool const is_wide = sum_bits == 16 && (o.bits == 2 || o.bits == 4 || o.bits == 8);
  if ((!is_narrow && !is_wide) || o.workers > xdp_workers || o.chunks == 0 ||
      o.chunk_values * static_cast<std::size_t>(sum_bits) > xdp_sum_words * 64)
    return nullptr;
  auto const found = programs_->reserve(std::size_t{o.rounds} * o.chunks);
  if (!found) return nullptr;
  return std::make_unique<sums>(*programs_, job, o, sum_bits, found->first, found->second);
}

}  // namespace hcomp::xdp
