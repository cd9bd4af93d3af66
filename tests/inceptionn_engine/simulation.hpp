#pragma once
/// @file
/// The simulated engine with packets at its input and its output.

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/codec/inceptionn/bursts.hpp>
#include <hcomp/codec/inceptionn/options.hpp>
#include <hcomp/core/random.hpp>
#include <span>
#include <support/inceptionn.hpp>
#include <vector>

namespace engine {

using inceptionn::bytes;
using inceptionn::floats;

inline constexpr std::size_t beat_bytes = 32;
inline constexpr std::size_t header_bytes = 2 * beat_bytes;
/// IP and TCP headers, as counted by the total length.
inline constexpr std::size_t header_length = 40;
inline constexpr std::uint8_t type_of_service = 0x28;

struct packet {
  bytes content;
  bool damaged = false;  ///< reported by the decompressor
  friend bool operator==(packet const&, packet const&) = default;
};

/// Two beats: an Ethernet header, the first bytes of an IPv4 header, and noise.
inline bytes header(std::size_t payload_bytes, std::uint8_t service, std::uint64_t seed) {
  bytes all(header_bytes);
  for (std::size_t i = 0; i < all.size(); ++i)
    all[i] = static_cast<std::byte>(hcomp::mix(seed * header_bytes + i));
  std::size_t const length = payload_bytes + header_length;
  std::uint8_t const fields[] = {0x08,
                                 0x00,
                                 0x45,
                                 service,
                                 static_cast<std::uint8_t>(length >> 8),
                                 static_cast<std::uint8_t>(length)};
  std::memcpy(all.data() + 12, fields, sizeof(fields));
  return all;
}
inline packet with_payload(bytes header, std::span<std::byte const> payload) {
  header.insert(header.end(), payload.begin(), payload.end());
  return {std::move(header)};
}
inline packet of_values(floats const& x, std::uint64_t seed) {
  return with_payload(header(x.size() * sizeof(float), type_of_service, seed),
                      std::as_bytes(std::span(x)));
}
/// Expected output of the compressor for of_values(x, seed).
inline packet of_bursts(floats const& x, hcomp::inceptionn_options const& options,
                        std::uint64_t seed) {
  return with_payload(header(x.size() * sizeof(float), type_of_service, seed),
                      inceptionn::encoded(hcomp::inceptionn_bursts(options), x));
}
/// Expected output of the decompressor for of_bursts(x, options, seed).
inline packet of_decoded(floats const& x, hcomp::inceptionn_options const& options,
                         std::uint64_t seed) {
  hcomp::inceptionn_bursts const codec(options);
  floats y(x.size());
  codec.decode(inceptionn::encoded(codec, x), y);
  return of_values(y, seed);
}

/// The engine's register value.
inline std::uint8_t setting_of(hcomp::inceptionn_options const& options) {
  bool const as_drawn = options.variant == hcomp::inceptionn_variant::as_drawn;
  return static_cast<std::uint8_t>(options.bound_exponent | (as_drawn ? 16 : 0));
}

/// A setting that encodes no packet.
inline constexpr std::uint8_t off = 0;

/// Number of clock cycles, of 256, without an offered or an accepted beat.
struct stalls {
  unsigned before = 0, behind = 0;
};

/// Beats of one run, and its clock cycles from the first to the last beat.
struct traffic {
  std::size_t cycles = 0;
  std::size_t taken = 0, given = 0;
  std::size_t taking_cycles() const { return last_taken - first_taken + 1; }
  std::size_t giving_cycles() const { return last_given - first_given + 1; }

  void take() { last_taken = cycles, first_taken = taken++ == 0 ? cycles : first_taken; }
  void give() { last_given = cycles, first_given = given++ == 0 ? cycles : first_given; }
  std::size_t first_taken = 0, last_taken = 0, first_given = 0, last_given = 0;
};

/// `Model` is Verilator's class of a compressor or a decompressor.
template <class Model> class simulation {
 public:
  explicit simulation(std::uint64_t seed) : random_(seed) {
    model_.clk = 0;
    model_.rst = 1;
    model_.eval();  // the first edge needs a level before it
    tick();
    model_.rst = 0;
  }

  void set(std::uint8_t setting) {
    model_.setting_write = 1;
    model_.setting = setting;
    tick();
    model_.setting_write = 0;
  }
  void set(hcomp::inceptionn_options const& options) { set(setting_of(options)); }

  /// Sends `packets`, and returns the output up to 500 idle clock cycles.
  /// @param settings  per packet, or empty; written during the previous packet
  std::vector<packet> run(std::vector<packet> const& packets, stalls how = {},
                          std::vector<std::uint8_t> const& settings = {}) {
    std::vector<packet> came;
    bytes current;
    std::size_t which = 0, at = 0;  // position of the next beat
    std::size_t set_for = 0;        // the next setting belongs to this packet
    bool offering = false;
    moved = {};
    for (int idle = 0; idle < 500; ++idle) {
      bool const waits = set_for == which && at == 0 && !offering;  // for its setting
      model_.setting_write =
          set_for < settings.size() && (waits || (set_for == which + 1 && at > 0)) && draw() < 64;
      if (model_.setting_write) model_.setting = settings[set_for++];
      bool const may_offer = set_for >= settings.size() || !waits;
      if (!offering && may_offer && which < packets.size() && draw() >= how.before) {
        offer(packets[which].content, at);
        offering = true;
      }
      model_.s_axis_tvalid = offering;
      if (!offering) garble();
      model_.m_axis_tready = draw() >= how.behind;
      model_.eval();
      if (model_.s_axis_tvalid && model_.s_axis_tready) {
        idle = 0;
        moved.take();
        offering = false;
        at += beat_bytes;
        if (at >= packets[which].content.size()) ++which, at = 0;
      }
      if (model_.m_axis_tvalid && model_.m_axis_tready) {
        idle = 0;
        moved.give();
        take(current);
        if (model_.m_axis_tlast) {
          came.push_back({current, is_damaged()});
          current.clear();
        }
      }
      tick();
      ++moved.cycles;
    }
    model_.setting_write = 0;
    CHECK(current.empty());
    CHECK(which == packets.size());
    return came;
  }

  /// Traffic of the last run.
  traffic moved;

 private:
  unsigned draw() {
    random_ = hcomp::mix(random_ + 1);
    return static_cast<unsigned>(random_ & 255u);
  }
  void tick() {
    model_.clk = 1;
    model_.eval();
    model_.clk = 0;
    model_.eval();
  }
  void offer(bytes const& content, std::size_t at) {
    std::size_t const n = std::min(beat_bytes, content.size() - at);
    garble();  // bytes outside tkeep may be anything
    std::memcpy(&model_.s_axis_tdata, content.data() + at, n);
    model_.s_axis_tkeep = static_cast<std::uint32_t>((std::uint64_t{1} << n) - 1);
    model_.s_axis_tlast = at + n == content.size();
  }
  void garble() {
    for (int i = 0; i < 8; ++i) {
      random_ = hcomp::mix(random_ + 1);
      model_.s_axis_tdata[i] = static_cast<std::uint32_t>(random_);
    }
    model_.s_axis_tlast = random_ >> 40 & 1u;
    model_.s_axis_tkeep = static_cast<std::uint32_t>(random_ >> 32);
  }
  void take(bytes& current) {
    std::array<std::byte, beat_bytes> beat;
    std::memcpy(beat.data(), &model_.m_axis_tdata, beat_bytes);
    std::uint64_t const keep = model_.m_axis_tkeep;
    std::size_t n = 0;
    while (keep >> n & 1u) ++n;
    CHECK((keep >> n) == 0);
    CHECK((n == beat_bytes || (n > 0 && model_.m_axis_tlast)));
    current.insert(current.end(), beat.begin(), beat.begin() + static_cast<std::ptrdiff_t>(n));
  }
  bool is_damaged() const {
    if constexpr (requires(Model const& m) { m.m_axis_tuser; })
      return model_.m_axis_tuser;
    else
      return false;
  }

  Model model_;
  std::uint64_t random_;
};

}  // namespace engine
