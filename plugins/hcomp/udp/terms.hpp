#pragma once
/// @file
/// The terms of a job, which a worker sends when it joins: the settings of its aggregator as bytes.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/collective/aggregation/aggregator_options.hpp>
#include <hcomp/core/bits.hpp>
#include <optional>
#include <span>
#include <vector>

namespace hcomp::udp {

/// The payload of a join, little-endian; followed by 2^bits levels of one byte.
struct job_terms {
  std::uint16_t workers = 1;
  std::uint8_t bits = 0;
  std::uint8_t width = 0;  ///< a sum_width
  std::uint32_t chunks = 0;
  std::uint32_t chunk_values = 0;
  std::uint32_t word_chunks = 0;
  std::uint32_t chunk_words = 0;
  std::uint32_t rounds = 0;
  std::uint32_t quota = 0;
  std::uint32_t answer_late = 1;
  std::uint64_t deadline_ns = 0;
  std::uint64_t word_deadline_ns = 0;
};
static_assert(sizeof(job_terms) == 48);

/// @param options  accepted by an aggregator
inline std::vector<std::byte> to_terms(aggregator_options const& options) {
  job_terms terms;
  terms.workers = static_cast<std::uint16_t>(options.workers);
  terms.bits = static_cast<std::uint8_t>(options.bits);
  terms.width = static_cast<std::uint8_t>(options.width);
  terms.chunks = options.chunks;
  terms.chunk_values = options.chunk_values;
  terms.word_chunks = options.word_chunks;
  terms.chunk_words = options.chunk_words;
  terms.rounds = options.rounds;
  terms.quota = static_cast<std::uint32_t>(options.quota);
  terms.answer_late = options.answer_late;
  terms.deadline_ns = static_cast<std::uint64_t>(options.deadline.count());
  terms.word_deadline_ns = static_cast<std::uint64_t>(options.word_deadline.count());
  std::vector<std::byte> bytes(sizeof terms + options.levels.size());
  store(bytes.data(), 0, terms);
  if (!options.levels.empty())
    std::memcpy(bytes.data() + sizeof terms, options.levels.data(), options.levels.size());
  return bytes;
}

/// Returns empty if the bytes are not valid terms; the aggregator checks the values.
inline std::optional<aggregator_options> from_terms(std::span<std::byte const> bytes) {
  if (bytes.size() < sizeof(job_terms)) return std::nullopt;
  auto const terms = load<job_terms>(bytes.data());
  constexpr std::uint64_t longest = 1'000'000'000ull * 86'400;  // a day
  if (terms.bits < 1 || terms.bits > 8 ||
      bytes.size() != sizeof terms + (std::size_t{1} << terms.bits) ||
      terms.width > static_cast<std::uint8_t>(sum_width::tight) || terms.quota > terms.workers ||
      terms.answer_late > 1 || terms.deadline_ns > longest || terms.word_deadline_ns > longest)
    return std::nullopt;
  aggregator_options options;
  options.workers = terms.workers;
  options.bits = terms.bits;
  options.width = static_cast<sum_width>(terms.width);
  options.chunks = terms.chunks;
  options.chunk_values = terms.chunk_values;
  options.word_chunks = terms.word_chunks;
  options.chunk_words = terms.chunk_words;
  options.rounds = terms.rounds;
  options.quota = static_cast<int>(terms.quota);
  options.answer_late = terms.answer_late != 0;
  options.deadline = std::chrono::nanoseconds(terms.deadline_ns);
  options.word_deadline = std::chrono::nanoseconds(terms.word_deadline_ns);
  for (std::byte const level : bytes.subspan(sizeof terms))
    options.levels.push_back(std::to_integer<std::uint8_t>(level));
  return options;
}

}  // namespace hcomp::udp
