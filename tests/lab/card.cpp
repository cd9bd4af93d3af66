/// @file
/// INCEPTIONN's engine as a shared library, for the lab's switch: Verilator's models of both
/// directions, with one packet at a time.

#include "card.h"

#include <Vinceptionn_compressor.h>
#include <Vinceptionn_decompressor.h>

#include <algorithm>
#include <cstring>

namespace {

constexpr std::size_t beat_bytes = 32;

template <class Model> class direction {
 public:
  explicit direction(unsigned setting) {
    model_.clk = 0;
    model_.rst = 1;
    model_.eval();
    tick();
    model_.rst = 0;
    model_.setting_write = 1;
    model_.setting = static_cast<unsigned char>(setting);
    tick();
    model_.setting_write = 0;
    model_.m_axis_tready = 1;
  }

  /// Counts cycles from the first beat offered to the last beat received.
  long pass(unsigned char const* packet, std::size_t bytes, unsigned char* out,
            std::size_t capacity, unsigned long* cycles) {
    std::size_t at = 0, came = 0;
    for (int idle = 0; idle < 500; ++idle) {
      model_.s_axis_tvalid = at < bytes;
      std::size_t const n = std::min(beat_bytes, bytes - at);
      if (n > 0) {
        std::memcpy(&model_.s_axis_tdata, packet + at, n);
        model_.s_axis_tkeep = static_cast<unsigned>((1ull << n) - 1);
        model_.s_axis_tlast = at + n == bytes;
      }
      model_.eval();
      if (n > 0 && model_.s_axis_tready) at += n, idle = 0;
      bool const comes = model_.m_axis_tvalid, is_last = comes && model_.m_axis_tlast;
      if (comes) {
        idle = 0;
        std::size_t kept = 0;
        while (kept < beat_bytes && (model_.m_axis_tkeep >> kept & 1u) != 0) ++kept;
        if (came + kept > capacity) return -1;
        std::memcpy(out + came, &model_.m_axis_tdata, kept);
        came += kept;
        if (is_last && is_damaged()) return -1;
      }
      tick();
      ++*cycles;
      if (is_last) return static_cast<long>(came);
    }
    return -1;
  }

 private:
  bool is_damaged() const {
    if constexpr (requires(Model const& m) { m.m_axis_tuser; })
      return model_.m_axis_tuser;
    else
      return false;
  }
  void tick() {
    model_.clk = 1;
    model_.eval();
    model_.clk = 0;
    model_.eval();
  }

  Model model_;
};

}  // namespace

struct lab_card {
  direction<Vinceptionn_compressor> leaving;
  direction<Vinceptionn_decompressor> arriving;
};

lab_card* lab_card_make(unsigned bound_exponent) {
  return new lab_card{direction<Vinceptionn_compressor>(bound_exponent),
                      direction<Vinceptionn_decompressor>(bound_exponent)};
}

long lab_card_pass(lab_card* card, int leaves, unsigned char const* packet, unsigned long bytes,
                   unsigned char* out, unsigned long capacity, unsigned long* cycles) {
  return leaves != 0 ? card->leaving.pass(packet, bytes, out, capacity, cycles)
                     : card->arriving.pass(packet, bytes, out, capacity, cycles);
}
