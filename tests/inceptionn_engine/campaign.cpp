/// @file
/// One lane of INCEPTIONN's engine compared with inceptionn_bursts, for all 2^32 values.
///
///   inceptionn_engine_campaign [--every N] [within_bound:E | as_drawn:E]...
///
/// Default: all settings of the engine; with --every, each N-th value.

#include <Vlane_pair.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <hcomp/codec/inceptionn/bursts.hpp>
#include <hcomp/codec/inceptionn/options.hpp>
#include <hcomp/core/bits.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

constexpr std::uint64_t all_values = std::uint64_t{1} << 32;
constexpr std::size_t at_a_time = 1 << 15;

struct setting {
  std::string variant;
  int exponent;

  hcomp::inceptionn_options options() const {
    return {.bound_exponent = exponent,
            .variant = variant == "as_drawn" ? hcomp::inceptionn_variant::as_drawn
                                             : hcomp::inceptionn_variant::within_bound};
  }
};

setting setting_of(std::string const& text) {
  auto const colon = text.find(':');
  auto const variant = text.substr(0, colon);
  char* end = nullptr;
  long const exponent =
      colon == std::string::npos ? 0 : std::strtol(text.c_str() + colon + 1, &end, 10);
  if ((variant != "within_bound" && variant != "as_drawn") || !end || *end != '\0' ||
      exponent < 1 || exponent > 14)
    throw std::invalid_argument(
        "'" + text + "' is no setting; there are within_bound:1 to 14 and " + "as_drawn:1 to 14");
  return {variant, static_cast<int>(exponent)};
}

/// Compares every `every`-th value; returns the number of differences.
std::uint64_t compare(setting const& with, std::uint64_t every) {
  hcomp::inceptionn_bursts const codec(with.options());
  Vlane_pair lane;
  lane.bound_exponent = static_cast<std::uint8_t>(with.exponent);
  lane.as_drawn = with.variant == "as_drawn";

  std::vector<float> x(at_a_time), y(at_a_time);
  std::vector<std::byte> bursts(hcomp::inceptionn_bursts::capacity(at_a_time));
  std::uint64_t differences = 0;
  auto const differs = [&](char const* what, float value, std::uint32_t engine,
                           std::uint32_t here) {
    if (differences++ < 10)
      std::printf("  value %08x: the engine's %s is %08x, the codec's %08x\n",
                  hcomp::same_bits<std::uint32_t>(value), what, engine, here);
  };
  for (std::uint64_t next = 0; next < all_values;) {
    std::size_t n = 0;
    for (; n < at_a_time && next < all_values; ++n, next += every)
      x[n] = hcomp::same_bits<float>(static_cast<std::uint32_t>(next));
    std::size_t const bytes = codec.encode({x.data(), n}, bursts);
    codec.decode({bursts.data(), bytes}, {y.data(), n});
    std::byte const* at = bursts.data();
    for (std::size_t first = 0; first < n; first += 8) {
      auto const tags = hcomp::load<std::uint16_t>(at);
      at += 2;
      for (std::size_t i = first; i < std::min(first + 8, n); ++i) {
        unsigned const tag = tags >> 2 * (i - first) & 3u;
        std::uint32_t payload = 0;
        std::size_t const size = tag == 3 ? 4 : tag;
        std::memcpy(&payload, at, size);
        at += size;
        lane.value = hcomp::same_bits<std::uint32_t>(x[i]);
        lane.came_tag = static_cast<std::uint8_t>(tag);
        lane.came_payload = payload;
        lane.eval();
        auto const received = hcomp::same_bits<std::uint32_t>(y[i]);
        if (lane.sent_tag != tag) differs("tag", x[i], lane.sent_tag, tag);
        if (lane.sent_payload != payload) differs("payload", x[i], lane.sent_payload, payload);
        if (lane.came_value != received) differs("value", x[i], lane.came_value, received);
      }
    }
  }
  return differences;
}

int run(std::vector<std::string> const& arguments) {
  std::uint64_t every = 1;
  std::vector<setting> settings;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--every" && i + 1 < arguments.size()) {
      every = std::strtoull(arguments[++i].c_str(), nullptr, 10);
      if (every == 0 || every > all_values)
        throw std::invalid_argument("--every '" + arguments[i] + "' is not 1 to 2^32");
    } else {
      settings.push_back(setting_of(arguments[i]));
    }
  }
  if (settings.empty())
    for (char const* variant : {"within_bound", "as_drawn"})
      for (int exponent = 1; exponent <= 14; ++exponent) settings.push_back({variant, exponent});

  bool good = true;
  for (auto const& one : settings) {
    auto const start = std::chrono::steady_clock::now();
    auto const differences = compare(one, every);
    std::chrono::duration<double> const seconds = std::chrono::steady_clock::now() - start;
    std::printf("%s:%d: %llu values, %llu differences, %.1f s\n", one.variant.c_str(), one.exponent,
                static_cast<unsigned long long>((all_values - 1) / every + 1),
                static_cast<unsigned long long>(differences), seconds.count());
    std::fflush(stdout);
    good = good && differences == 0;
  }
  return good ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run({argv + 1, argv + argc});
  } catch (std::exception const& error) {
    std::fprintf(stderr, "inceptionn_engine_campaign: %s\n", error.what());
    return 2;
  }
}
