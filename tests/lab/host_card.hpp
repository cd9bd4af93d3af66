#pragma once
/// @file
/// The card of one node of the lab. Frames whose packets have the type of service of INCEPTIONN's
/// paper leave with compressed payloads, and arrive with floats.

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "card.h"

namespace lab {

using frame = std::vector<unsigned char>;

class host_card {
 public:
  struct stats {
    std::uint64_t packets = 0, values = 0;  ///< sent with compressed payloads
    std::uint64_t bytes = 0;                ///< of their payloads
    std::uint64_t damaged = 0;              ///< arrived damaged, and dropped
    unsigned long compress_cycles = 0, decompress_cycles = 0;
  };

  /// @param library  libhcomp_lab_card.so, or empty: nothing is compressed
  /// @throws std::runtime_error  it cannot be loaded
  host_card(std::string const& library, unsigned bound_exponent) {
    if (library.empty()) return;
    void* const loaded = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    auto* const make = loaded ? dlsym(loaded, "lab_card_make") : nullptr;
    auto* const pass = loaded ? dlsym(loaded, "lab_card_pass") : nullptr;
    if (!make || !pass) throw std::runtime_error("loading " + library + ": " + dlerror());
    pass_ = reinterpret_cast<decltype(pass_)>(pass);
    card_ = reinterpret_cast<decltype(&lab_card_make)>(make)(bound_exponent);
  }

  stats const& counted() const { return stats_; }

  /// Returns a frame from the node as it appears on the link.
  frame leave(frame it) {
    auto const [header, values] = coded_part(it);
    if (values == 0 || it.size() < header + 4 * values) return it;
    it.resize(header + 4 * values);  // removes the padding of short frames
    auto coded = pass(true, it, header, values, stats_.compress_cycles);
    if (coded.empty())
      throw std::runtime_error("the card's compressor gives nothing back of " +
                               std::to_string(values) + " values");
    ++stats_.packets;
    stats_.values += values;
    stats_.bytes += coded.size() - header;
    return coded;
  }
  /// The inverse of leave(); returns an empty frame if it was damaged.
  frame arrive(frame it) {
    auto const [header, values] = coded_part(it);
    if (values == 0) return it;
    auto plain = pass(false, it, header, values, stats_.decompress_cycles);
    if (plain.empty())
      ++stats_.damaged;
    else
      complete_checksum(plain);
    return plain;
  }

 private:
  static constexpr std::size_t ethernet = 14, ip = 20, engine_header = 64, engine_length = 40;
  static constexpr unsigned char tcp = 6, udp = 17, type_of_service = 0x28;

  struct part {
    /// header bytes, and number of floats; 0: nothing is encoded
    std::size_t header = 0, values = 0;
  };
  static unsigned two_bytes(unsigned char const* at) {
    return static_cast<unsigned>(at[0] << 8 | at[1]);
  }
  /// Uses the packet's state before the compressor: the header stays as it is.
  part coded_part(frame const& it) const {
    if (!card_ || it.size() < ethernet + ip || two_bytes(&it[12]) != 0x0800 || it[14] != 0x45 ||
        it[15] != type_of_service || (two_bytes(&it[20]) & 0x3fff) != 0)
      return {};
    std::size_t transport = 0;
    if (it[23] == udp) transport = 8;
    if (it[23] == tcp && it.size() > ethernet + ip + 12)
      transport = 4u * (it[ethernet + ip + 12] >> 4);
    std::size_t const before = ip + transport, total = two_bytes(&it[16]);
    if (transport == 0 || it.size() < ethernet + before || total <= before ||
        (total - before) % 4 != 0)
      return {};
    return {ethernet + before, (total - before) / 4};
  }

  /// The engine's headers fill two beats and count 40 bytes; those of a frame may be longer or
  /// shorter.
  frame pass(bool leaves, frame const& it, std::size_t header, std::size_t values,
             unsigned long& cycles) {
    frame in(engine_header);
    std::copy_n(it.begin(), ethernet + ip, in.begin());
    std::size_t const length = engine_length + 4 * values;
    in[16] = static_cast<unsigned char>(length >> 8);
    in[17] = static_cast<unsigned char>(length);
    in.insert(in.end(), it.begin() + static_cast<std::ptrdiff_t>(header), it.end());
    std::array<unsigned char, 4096> out;
    long const bytes = pass_(card_, leaves, in.data(), in.size(), out.data(), out.size(), &cycles);
    if (bytes < static_cast<long>(engine_header)) return {};
    frame made(it.begin(), it.begin() + static_cast<std::ptrdiff_t>(header));
    made.insert(made.end(), out.begin() + engine_header, out.begin() + bytes);
    return made;
  }

  /// Recomputes the checksum of TCP or UDP, because floats have changed.
  static void complete_checksum(frame& it) {
    unsigned char* const transport = it.data() + ethernet + ip;
    unsigned char* const check = transport + (it[23] == tcp ? 16 : 6);
    std::size_t const bytes = it.size() - ethernet - ip;
    check[0] = check[1] = 0;
    std::uint64_t sum = it[23] + bytes;
    for (std::size_t i = 26; i < 34; i += 2) sum += two_bytes(&it[i]);  // addresses
    for (std::size_t i = 0; i + 1 < bytes; i += 2) sum += two_bytes(transport + i);
    while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
    auto const complement = static_cast<unsigned>(~sum & 0xffff);
    check[0] = static_cast<unsigned char>(complement >> 8);
    check[1] = static_cast<unsigned char>(complement);
  }

  lab_card* card_ = nullptr;
  decltype(&lab_card_pass) pass_ = nullptr;
  stats stats_;
};

}  // namespace lab
