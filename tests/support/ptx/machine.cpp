#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <support/ptx/machine.hpp>
#include <support/ptx/memory.hpp>
#include <support/ptx/program.hpp>
#include <support/ptx/report.hpp>
#include <support/ptx/stats.hpp>
#include <unordered_map>
#include <utility>
#include <vector>

namespace hcomp::ptx {
namespace {

constexpr int lanes_of_warp = 32;

/// First generic addresses of shared, local and parameter memory. The host has no such addresses.
constexpr std::uint64_t shared_window = std::uint64_t{1} << 60,
                        local_window = std::uint64_t{2} << 60,
                        param_window = std::uint64_t{3} << 60,
                        window_mask = std::uint64_t{15} << 60;

/// A thread that executes this number of instructions between two synchronisations counts as
/// endless.
constexpr std::uint64_t endless = 100'000'000;

std::uint64_t next_epoch = 2;  // of access_record
std::uint64_t clock_now = 0;

enum class status : std::uint8_t { runs, waits_for_warp, waits_for_block, has_ended };

struct thread_state {
  std::uint64_t* mine;  ///< its registers
  std::int32_t at = 0;  ///< the next instruction, or the one that it waits at
  std::uint32_t number = 0;
  status is = status::runs;
  std::uint8_t depth = 0;  ///< of nested calls
  std::int32_t return_to[8] = {};

  unsigned number_in_warp() const { return number % lanes_of_warp; }
};

class launch_run {
 public:
  launch_run(device_memory& memory, kernel const& code, std::uint32_t grid, std::uint32_t threads,
             std::vector<std::byte> const& parameters, std::size_t dynamic_shared_bytes)
      : memory_(memory),
        kernel_(code),
        parameters_(parameters),
        grid_(grid),
        first_epoch_(next_epoch),
        checks_(options::get().checks),
        shared_(code.shared_bytes + dynamic_shared_bytes),
        shared_histories_(shared_.size()),
        local_stride_((code.local_bytes + 15) / 16 * 16),
        local_(threads * local_stride_),
        register_values_(threads * code.register_count),
        threads_(threads),
        warp_syncs_((threads + lanes_of_warp - 1) / lanes_of_warp),
        epoch_of_warp_(warp_syncs_.size()),
        lane_order_(lanes_of_warp),
        warp_order_(warp_syncs_.size()) {
    std::iota(lane_order_.begin(), lane_order_.end(), 0u);
    std::iota(warp_order_.begin(), warp_order_.end(), 0u);
    if (options::get().order == 1) {
      std::reverse(lane_order_.begin(), lane_order_.end());
      std::reverse(warp_order_.begin(), warp_order_.end());
    }
    if (report::get().counts_sectors()) seen_.resize(threads * code.code.size());
    for (auto const& n : code.code) n.last_allocation = nullptr;
  }

  stats run() {
    stats_.launches = 1;
    stats_.threads = std::uint64_t{grid_} * threads_.size();
    std::vector<unsigned> order(grid_);
    std::iota(order.begin(), order.end(), 0u);
    if (options::get().order == 1) std::reverse(order.begin(), order.end());
    if (options::get().order == 2) shuffle(order);
    for (unsigned const block : order) run_block(block);
    return stats_;
  }

 private:
  device_memory& memory_;
  kernel const& kernel_;
  std::vector<std::byte> parameters_;
  std::uint32_t grid_, block_ = 0;
  std::uint64_t first_epoch_, first_of_block_ = 0;
  bool checks_;
  stats stats_;
  std::vector<std::byte> shared_;
  histories shared_histories_;
  std::size_t local_stride_;
  std::vector<std::byte> local_;
  std::vector<std::uint64_t> register_values_;
  std::vector<thread_state> threads_;
  std::vector<std::uint32_t> warp_syncs_;
  std::vector<std::uint64_t> epoch_of_warp_;
  std::uint64_t epoch_of_all_ = 0;  ///< epoch since the last barrier of all warps
  std::map<std::uint64_t, std::uint32_t> warps_of_epoch_;  ///< one bit per warp, for later epochs
  std::vector<unsigned> lane_order_, warp_order_;
  access_record me_{};  ///< the access of the running thread
  // with statistics only: each thread's executions of each instruction, and each warp's sectors
  std::vector<std::uint32_t> seen_;
  std::unordered_map<std::uint64_t, std::vector<std::uint64_t>> sectors_;

  [[noreturn]] void fail(thread_state const& t, std::string const& what) const {
    auto const at = static_cast<std::size_t>(t.at);
    report::fail(what + ": block " + std::to_string(block_) + ", thread " +
                 std::to_string(t.number) + ", line " + std::to_string(kernel_.code[at].line) +
                 " '" + kernel_.texts[at] + "' of " + demangled(kernel_.name));
  }
  registers registers_of(thread_state const& t) const { return {t.mine, kernel_.constants.data()}; }

  // ---- Threads of a block -----------------------------------------------------------------------

  void run_block(std::uint32_t block) {
    block_ = block;
    begin_epoch_of_all();
    first_of_block_ = epoch_of_all_;
    std::fill(shared_.begin(), shared_.end(), std::byte{0xcd});
    std::fill(local_.begin(), local_.end(), std::byte{0xcd});
    std::fill(seen_.begin(), seen_.end(), 0u);
    sectors_.clear();
    for (std::uint32_t i = 0; i < threads_.size(); ++i)
      threads_[i] = {register_values_.data() + i * kernel_.register_count, 0, i};
    do {
      if (options::get().order == 2) shuffle(warp_order_);
      for (unsigned const warp : warp_order_) run_warp(warp);
    } while (open_barrier());
  }

  static void shuffle(std::vector<unsigned>& order) {
    static std::mt19937_64 random(options::get().seed);
    std::shuffle(order.begin(), order.end(), random);
  }

  /// Runs until all its threads wait for the block or have ended.
  void run_warp(unsigned warp) {
    auto const first = warp * lanes_of_warp;
    auto const lanes = std::min<std::size_t>(lanes_of_warp, threads_.size() - first);
    for (;;) {
      if (options::get().order == 2) shuffle(lane_order_);
      std::uint64_t most = 0;
      for (unsigned const lane : lane_order_)
        if (lane < lanes && threads_[first + lane].is == status::runs)
          most = std::max(most, run_thread(threads_[first + lane]));
      stats_.issued += most * lanes_of_warp;
      bool waits = false, moved = false;
      for (std::size_t lane = 0; lane < lanes; ++lane) {
        thread_state& t = threads_[first + lane];
        if (t.is != status::waits_for_warp) continue;
        waits = true;
        moved |= meet(t, first, lanes);
      }
      if (!waits) return;
      if (moved) continue;
      for (std::size_t lane = 0; lane < lanes; ++lane)
        if (threads_[first + lane].is == status::waits_for_warp)
          fail(threads_[first + lane], "deadlock, lanes wait for others that wait for the block");
    }
  }

  /// Runs until the thread waits or ends. Returns the number of instructions.
  std::uint64_t run_thread(thread_state& t) {
    registers const r = registers_of(t);
    instruction const* const code = kernel_.code.data();
    me_ = record_of(t);
    std::int32_t at = t.at;
    std::uint64_t count = 0;
    for (;; ++at) {
      instruction const& n = code[at];
      if (++count == endless) {
        t.at = at;
        fail(t, "a loop without an end");
      }
      if (n.has_guard && r.get<bool>(n.guard) == n.guard_is_negated) continue;
      switch (n.op->what) {
        case step::compute: n.op->execute(r, n); continue;
        case step::branch: at = n.target - 1; continue;
        case step::call:
          t.at = at;
          if (t.depth == std::size(t.return_to)) fail(t, "more than 8 calls in each other");
          t.return_to[t.depth++] = at;
          at = n.target - 1;
          continue;
        case step::return_: at = t.return_to[--t.depth]; continue;
        case step::copy: {
          std::byte* const mine = local_.data() + t.number * local_stride_;
          std::memmove(mine + n.arguments[0], mine + n.arguments[1],
                       static_cast<std::size_t>(n.arguments[2]));
          continue;
        }
        case step::load:
        case step::store:
        case step::atomic:
        case step::prefetch:
          t.at = at;
          n.op->access(r, n, reach(t, r, n));
          continue;
        case step::special:
          r.put(n.results[0], special(t, static_cast<special_register>(n.arguments[0])));
          continue;
        case step::shared_base:
          r.put(n.results[0], r.raw(n.arguments[0]) | shared_window);
          continue;
        case step::local_base: r.put(n.results[0], r.raw(n.arguments[0]) | local_window); continue;
        case step::remove_base: r.put(n.results[0], r.raw(n.arguments[0]) & ~window_mask); continue;
        case step::is_space: {
          auto const window = r.raw(n.arguments[0]) & window_mask;
          r.put(n.results[0], window == (n.op->where == space::shared  ? shared_window
                                         : n.op->where == space::local ? local_window
                                                                       : 0));
          continue;
        }
        case step::exit: t.is = status::has_ended; break;
        case step::trap: t.at = at; fail(t, "trap");
        case step::warp_barrier:
        case step::shuffle:
        case step::vote:
        case step::redux: t.is = status::waits_for_warp; break;
        case step::block_barrier:
        case step::block_barrier_reduce: t.is = status::waits_for_block; break;
      }
      t.at = at;
      stats_.instructions += count;
      return count;
    }
  }

  std::uint64_t special(thread_state const& t, special_register which) {
    using enum special_register;
    std::uint64_t const bit = std::uint64_t{1} << t.number_in_warp();
    switch (which) {
      case tid: return t.number;
      case ntid: return threads_.size();
      case ctaid: return block_;
      case nctaid: return grid_;
      case one: return 1;
      case zero: return 0;
      case laneid: return t.number_in_warp();
      case warpid: return t.number / lanes_of_warp;
      case lanemask_lt: return bit - 1;
      case lanemask_le: return 2 * bit - 1;
      case lanemask_eq: return bit;
      case lanemask_ge: return 0xffffffff & ~(bit - 1);
      case lanemask_gt: return 0xffffffff & ~(2 * bit - 1);
      case clock: return clock_now += 100'000'000;  // a wait for the clock takes a few instructions
    }
    return 0;
  }

  // ---- Warps ------------------------------------------------------------------------------------

  static std::uint32_t mask_of(registers r, instruction const& n) {
    switch (n.op->what) {
      case step::warp_barrier: return r.get<std::uint32_t>(n.arguments[0]);
      case step::shuffle: return r.get<std::uint32_t>(n.arguments[3]);
      default: return r.get<std::uint32_t>(n.arguments[1]);
    }
  }

  /// The barrier of `t`, if all lanes of its mask have arrived.
  bool meet(thread_state& t, std::size_t first, std::size_t lanes) {
    instruction const& n = kernel_.code[static_cast<std::size_t>(t.at)];
    std::uint32_t const mask = mask_of(registers_of(t), n);
    if ((mask >> t.number_in_warp() & 1) == 0) fail(t, "a lane is not in its own mask");
    std::vector<thread_state*> all;
    for (unsigned lane = 0; lane < lanes_of_warp; ++lane) {
      if ((mask >> lane & 1) == 0) continue;
      if (lane >= lanes)
        fail(t, "the mask names lane " + std::to_string(lane) + ", which does not exist");
      thread_state& other = threads_[first + lane];
      if (other.is == status::has_ended)
        fail(t, "the mask names lane " + std::to_string(lane) + ", which has exited");
      if (other.is != status::waits_for_warp) return false;
      if (other.at != t.at)
        fail(t, "lane " + std::to_string(lane) + " is at '" +
                    kernel_.texts[static_cast<std::size_t>(other.at)] + "' meanwhile");
      if (mask_of(registers_of(other), n) != mask)
        fail(t, "lane " + std::to_string(lane) + " has another mask");
      all.push_back(&other);
    }
    ++stats_.warp_steps;
    switch (n.op->what) {
      case step::warp_barrier:
        if (all.size() == lanes && warp_syncs_[first / lanes_of_warp] < 2047)
          ++warp_syncs_[first / lanes_of_warp];
        break;
      case step::shuffle: shuffle(all, n); break;
      case step::vote: vote(all, n); break;
      default: reduce(all, n); break;
    }
    for (thread_state* const one : all) {
      one->is = status::runs;
      ++one->at;
    }
    return true;
  }

  void shuffle(std::vector<thread_state*> const& all, instruction const& n) {
    std::uint32_t values[lanes_of_warp] = {}, present = 0;
    for (thread_state const* const t : all) {
      values[t->number_in_warp()] = registers_of(*t).get<std::uint32_t>(n.arguments[0]);
      present |= 1u << t->number_in_warp();
    }
    for (thread_state const* const t : all) {
      registers const r = registers_of(*t);
      int const lane = static_cast<int>(t->number_in_warp());
      auto const by = static_cast<int>(r.get<std::uint32_t>(n.arguments[1]) & 31);
      auto const limits = r.get<std::uint32_t>(n.arguments[2]);
      int const segment = static_cast<int>(limits >> 8 & 31), bound = static_cast<int>(limits & 31);
      int const lowest = lane & segment, last = lowest | (bound & ~segment);
      int from = 0;
      bool inside = false;
      switch (n.op->mode) {
        case 'u': from = lane - by, inside = from >= last; break;
        case 'd': from = lane + by, inside = from <= last; break;
        case 'b': from = lane ^ by, inside = from <= last; break;
        default: from = lowest | (by & ~segment), inside = from <= last; break;
      }
      if (!inside) from = lane;
      if ((present >> from & 1) == 0)
        fail(*t, "reads lane " + std::to_string(from) + ", which its mask does not name");
      r.put(n.results[0], values[from]);
      if (n.result_count > 1) r.put(n.results[1], inside);
    }
  }
  void vote(std::vector<thread_state*> const& all, instruction const& n) {
    std::uint32_t ballot = 0, mask = 0;
    for (thread_state const* const t : all) {
      mask |= 1u << t->number_in_warp();
      if (registers_of(*t).get<bool>(n.arguments[0])) ballot |= 1u << t->number_in_warp();
    }
    std::uint32_t const found = n.op->mode == 'b'   ? ballot
                                : n.op->mode == 'o' ? ballot != 0
                                : n.op->mode == 'a' ? ballot == mask
                                                    : ballot == mask || ballot == 0;
    for (thread_state const* const t : all) registers_of(*t).put(n.results[0], found);
  }
  void reduce(std::vector<thread_state*> const& all, instruction const& n) {
    std::uint32_t found = registers_of(*all[0]).get<std::uint32_t>(n.arguments[0]);
    for (std::size_t i = 1; i < all.size(); ++i) {
      auto const next = registers_of(*all[i]).get<std::uint32_t>(n.arguments[0]);
      switch (n.op->mode) {
        case '+': found += next; break;
        case '<': found = std::min(found, next); break;
        case '>': found = std::max(found, next); break;
        case '&': found &= next; break;
        case '|': found |= next; break;
        default: found ^= next; break;
      }
    }
    for (thread_state const* const t : all) registers_of(*t).put(n.results[0], found);
  }

  // ---- Barriers ---------------------------------------------------------------------------------

  /// Releases the threads of a complete barrier. False if all threads have ended.
  bool open_barrier() {
    thread_state const* one = nullptr;
    std::size_t ended = 0;
    for (thread_state const& t : threads_)
      if (t.is == status::has_ended)
        ++ended;
      else if (!one)
        one = &t;
    if (!one) return false;
    // some threads may pass a barrier that names fewer threads than the block has, while the rest
    // waits
    for (thread_state const& t : threads_)
      if (t.is == status::waits_for_block && pass(t)) return true;
    std::size_t waiting = 0;
    for (thread_state const& t : threads_)
      waiting += t.is == status::waits_for_block && t.at == one->at;
    fail(*one, "divergent barrier, " + std::to_string(waiting) + " threads are here, " +
                   std::to_string(ended) + " have exited, the others wait at another one");
  }
  bool pass(thread_state const& first) {
    instruction const& n = kernel_.code[static_cast<std::size_t>(first.at)];
    bool const reduces = n.op->what == step::block_barrier_reduce;
    registers const r = registers_of(first);
    bool const has_count = n.argument_count > n.op->arguments;
    auto const id = r.get<std::uint32_t>(n.arguments[0]);
    std::size_t const count = has_count ? r.get<std::uint32_t>(n.arguments[1]) : threads_.size();
    std::vector<thread_state*> all;
    for (thread_state& t : threads_)
      if (t.is == status::waits_for_block && t.at == first.at &&
          registers_of(t).get<std::uint32_t>(n.arguments[0]) == id)
        all.push_back(&t);
    if (all.size() != count) return false;
    ++stats_.barriers;
    if (count == threads_.size())
      begin_epoch_of_all();
    else
      begin_epoch_of(all);
    std::size_t votes = 0;
    auto const last = n.arguments[static_cast<std::size_t>(n.argument_count - 1)];
    if (reduces)
      for (thread_state const* const t : all) votes += registers_of(*t).get<bool>(last);
    for (thread_state* const t : all) {
      if (reduces)
        registers_of(*t).put(n.results[0],
                             static_cast<std::uint32_t>(n.op->mode == '+'   ? votes
                                                        : n.op->mode == 'o' ? votes > 0
                                                                            : votes == count));
      t->is = status::runs;
      ++t->at;
    }
    return true;
  }

  void begin_epoch_of_all() {
    epoch_of_all_ = next_epoch++;
    warps_of_epoch_.clear();
    std::fill(epoch_of_warp_.begin(), epoch_of_warp_.end(), epoch_of_all_);
    std::fill(warp_syncs_.begin(), warp_syncs_.end(), 0u);
  }
  /// Begins an epoch of the warps whose lanes have all arrived.
  void begin_epoch_of(std::vector<thread_state*> const& some) {
    std::vector<std::size_t> lanes(warp_syncs_.size());
    for (thread_state const* const t : some) ++lanes[t->number / lanes_of_warp];
    std::uint64_t const epoch = next_epoch++;
    for (std::size_t warp = 0; warp < lanes.size(); ++warp) {
      if (lanes[warp] < lanes_of_warp) continue;
      warps_of_epoch_[epoch] |= 1u << warp;
      epoch_of_warp_[warp] = epoch;
      warp_syncs_[warp] = 0;
    }
  }
  /// Whether a barrier separates an earlier access of this block from the current access of this
  /// thread.
  bool barrier_since(access_record const& before) const {
    if (before.epoch < epoch_of_all_) return true;
    if (before.epoch >= me_.epoch || before.epochs) return false;
    std::uint32_t const met = warps_of_epoch_.at(me_.epoch);
    if (!before.warps) return met >> before.thread / lanes_of_warp & 1;
    auto const others = warps_of_epoch_.find(before.epoch);  // not found: all warps
    return others != warps_of_epoch_.end() && (others->second & ~met) == 0;
  }

  // ---- Memory -----------------------------------------------------------------------------------

  access_record record_of(thread_state const& t) const {
    access_record record{};
    record.epoch = epoch_of_warp_[t.number / lanes_of_warp];
    record.warp_syncs = warp_syncs_[t.number / lanes_of_warp];
    record.thread = t.number;
    return record;
  }

  /// The address of the bytes that `n` accesses, after all checks.
  std::byte* reach(thread_state const& t, registers r, instruction const& n) {
    std::uint64_t address = static_cast<std::uint64_t>(n.offset);
    if (n.has_base) address += r.raw(n.base);
    auto const size = static_cast<std::uint64_t>(n.op->bytes);
    space where = n.where;
    if (where == space::generic) {
      auto const window = address & window_mask;
      where = window == shared_window  ? space::shared
              : window == local_window ? space::local
              : window == param_window ? space::param
                                       : space::global;
      if (where != space::global) address &= ~window_mask;
    } else if (where == space::shared) {
      address &= 0xffffffff;  // these registers have 32 bits
    }
    if (address % size != 0)
      fail(t, "misaligned: " + std::to_string(size) + " bytes at an address that ends in " +
                  std::to_string(address % 256) + " of 256");
    switch (where) {
      case space::shared:
        ++stats_.shared;
        require_inside(t, "shared", address, size, shared_.size());
        if (checks_) look<true>(n, shared_histories_.data() + address, size);
        return shared_.data() + address;
      case space::local:
        stats_.local += n.op->where == space::local;
        require_inside(t, "local", address, size, kernel_.local_bytes);
        return local_.data() + t.number * local_stride_ + address;
      case space::param:
        require_inside(t, "parameter", address, size, parameters_.size());
        return parameters_.data() + address;
      default: break;
    }
    auto* allocated = static_cast<allocation*>(n.last_allocation);
    if (!allocated || address < allocated->begin || address >= allocated->end()) {
      allocated = memory_.find(address);
      if (!allocated) fail_at(t, address);
      n.last_allocation = allocated;
    }
    require_inside(t, "global", address - allocated->begin, size, allocated->size);
    if (n.op->what == step::prefetch) return nullptr;
    if (allocated->kind == memory_kind::constant && n.op->what != step::load)
      fail(t, "writes a variable of the module, which tests would not see");
    if (checks_ && allocated->kind != memory_kind::constant)
      look<false>(n, allocated->bytes.data() + (address - allocated->begin), size,
                  allocated->is_tracked());
    if (!seen_.empty()) count_sectors(t, n, address, size);
    return reinterpret_cast<std::byte*>(address);  // NOLINT
  }
  [[noreturn]] void fail_at(thread_state const& t, std::uint64_t address) const {
    allocation const* const before = memory_.before(address);
    if (before && address - before->end() < 65536)
      fail(t, "out of bounds: " + std::to_string(address - before->end()) +
                  " bytes behind the end of an allocation of " + std::to_string(before->size));
    char text[32];
    std::snprintf(text, sizeof(text), "%llx", static_cast<unsigned long long>(address));
    fail(t, std::string("out of bounds: no allocation has address ") + text);
  }
  void require_inside(thread_state const& t, char const* what, std::uint64_t first,
                      std::uint64_t size, std::uint64_t all) const {
    if (first < all && size <= all - first) return;
    fail(t, "out of bounds: bytes " + std::to_string(first) + " to " +
                std::to_string(first + size) + " of " + std::to_string(all) + " bytes of " + what +
                " memory");
  }

  template <bool is_shared>
  void look(instruction const& n, byte_history* bytes, std::uint64_t size, bool tracked = true) {
    bool const writes = n.op->what != step::load, is_atomic = n.op->what == step::atomic;
    access_record mine = me_;
    mine.atomic = is_atomic;
    for (std::uint64_t i = 0; i < size; ++i) {
      if (n.unused_bytes >> i & 1 && !writes) continue;
      byte_history& byte = bytes[i];
      bool const never_written =
          is_shared ? byte.written.epoch < first_of_block_ : tracked && byte.written.epoch == 0;
      if (never_written && (!writes || is_atomic))
        tell(finding::uninitialised, is_shared ? "shared memory" : "global memory", n);
      if (!(is_atomic && byte.written.atomic) && conflicts<is_shared>(byte.written))
        tell(finding::race, text_of<is_shared>(writes ? (is_atomic ? 2 : 1) : 0, "write"), n);
      if (writes) {
        if (conflicts<is_shared>(byte.read))
          tell(finding::race, text_of<is_shared>(is_atomic ? 2 : 1, "read"), n);
        byte.written =
            is_atomic && byte.written.atomic ? joined<is_shared>(byte.written, mine) : mine;
      } else {
        byte.read = joined<is_shared>(byte.read, mine);
      }
    }
  }
  template <bool is_shared> static std::string text_of(int now, char const* before) {
    char const* const all[] = {"read", "write", "atomic access"};
    return std::string(all[now]) + " after " + before + ", " + (is_shared ? "shared" : "global") +
           " memory";
  }
  void tell(finding what, std::string const& detail, instruction const& n) const {
    report::get().add(what, detail, kernel_, static_cast<std::size_t>(&n - kernel_.code.data()));
  }

  /// Whether an earlier access and the current one of this thread are unordered.
  template <bool is_shared> bool conflicts(access_record const& before) const {
    if (before.epoch < first_epoch_) return false;
    if (before.epoch < first_of_block_ || before.elsewhere) return !is_shared;
    if (barrier_since(before)) return false;
    if (before.warps || before.epochs || before.epoch != me_.epoch) return true;
    if (before.thread / lanes_of_warp != me_.thread / lanes_of_warp) return true;
    if (before.warp_syncs < me_.warp_syncs) return false;
    return before.lanes || before.thread != me_.thread;
  }
  /// One record for an earlier access and the current one, which are of the same kind.
  template <bool is_shared>
  access_record joined(access_record const& before, access_record mine) const {
    if (before.epoch < first_epoch_) return mine;
    mine.elsewhere = !is_shared && (before.elsewhere || before.epoch < first_of_block_);
    if (barrier_since(before)) return mine;
    mine.epochs = before.epochs || before.epoch != me_.epoch;
    bool const same_warp = before.thread / lanes_of_warp == mine.thread / lanes_of_warp;
    mine.warps = before.warps || !same_warp;
    mine.lanes =
        before.warp_syncs == mine.warp_syncs && (before.lanes || before.thread != mine.thread);
    return mine;
  }

  /// Counts the sectors of 32 bytes that the lanes of a warp access together while they run in
  /// step.
  void count_sectors(thread_state const& t, instruction const& n, std::uint64_t address,
                     std::uint64_t size) {
    auto const place = static_cast<std::size_t>(&n - kernel_.code.data());
    auto const times = seen_[t.number * kernel_.code.size() + place]++;
    auto& sectors = sectors_[(std::uint64_t{times} << 32 | place << 5) + t.number / lanes_of_warp];
    bool const writes = n.op->what != step::load;
    (writes ? stats_.stored_bytes : stats_.loaded_bytes) += size;
    for (std::uint64_t s = address / 32; s <= (address + size - 1) / 32; ++s)
      if (std::find(sectors.begin(), sectors.end(), s) == sectors.end()) {
        sectors.push_back(s);
        ++(writes ? stats_.stored_sectors : stats_.loaded_sectors);
      }
  }
};

}  // namespace

void launch(device_memory& memory, kernel const& code, std::uint32_t grid, std::uint32_t threads,
            std::vector<std::byte> const& parameters, std::size_t dynamic_shared_bytes) {
  auto const begin = std::chrono::steady_clock::now();
  auto did = launch_run(memory, code, grid, threads, parameters, dynamic_shared_bytes).run();
  did.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  report::get().add(code, did);
}

}  // namespace hcomp::ptx
