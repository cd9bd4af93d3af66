#pragma once
/// @file
/// Coder of inceptionn's chunks for any group; all groups encode the same bytes.

#include <cstddef>
#include <cstdint>
#include <hcomp/codec/detail/chunk_words.hpp>
#include <hcomp/codec/detail/chunked_encoding.hpp>
#include <hcomp/codec/detail/divided.hpp>
#include <hcomp/codec/detail/votes.hpp>
#include <hcomp/codec/inceptionn/detail/chunks.hpp>
#include <hcomp/codec/inceptionn/detail/header.hpp>
#include <hcomp/codec/inceptionn/detail/values.hpp>
#include <hcomp/codec/inceptionn/detail/workers.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/core/group.hpp>
#include <utility>

namespace hcomp::detail::inceptionn {

/// See VariableRate.
struct chunk_coder {
  using value_type = float;
  using header = inceptionn::header;
  struct note {};
  struct outcome {
    std::uint64_t bytes;
  };

  cpu_coder by_cpu;

  /// Each warp of a group processes one chunk; 32 warps run on a multiprocessor.
  static constexpr std::size_t chunks_at_once = 8;
  static constexpr int blocks_at_once(int) { return 4; }

  /// Shared memory of workers, in bytes: they assemble and split chunks there, because payloads are
  /// at odd addresses. `made_bytes` holds a chunk assembled in place of its values. `brought_bytes`
  /// holds a chunk to decode, up to 15 bytes before it, and the words read after it.
  static constexpr std::size_t made_bytes =
                                   tag_bytes(chunk_values) + chunk_values * sizeof(float) + 16,
                               brought_bytes = chunk_values * sizeof(float) + 32;
  static constexpr std::size_t scratch_bytes(int inputs) {
    return made_bytes + static_cast<std::size_t>(inputs - 1) * brought_bytes;
  }

  /// Encodes a chunk at `chunk` in two steps; the first returns its size. Workers that share memory
  /// also keep the values there.
  template <class Group> class planned_chunk {
   public:
    HCOMP_HD planned_chunk(chunk_coder const& coder, Group group, std::byte* chunk)
        : coder_(coder), group_(group), chunk_(chunk), mine_(values_at(group, chunk)) {}

    /// Reads the values of chunk i and writes the tags; returns the size of the chunk in bytes.
    HCOMP_HD std::size_t plan(encoded_sources<float> const& from, std::size_t i) {
      std::size_t const n = values_of_chunk<header>(i, from.values);
      float const* const x = from.x + i * chunk_values;
      if (from.b) {
        coder_.take(group_, from.b, i, from.values, chunk_ + made_bytes, mine_);
        mine_.add(group_, x, n);
      } else {
        mine_.read(group_, x, n);
      }
      layout_ = mine_.put_tags(group_, coder_.by_cpu.rule, n, chunk_);
      return layout_.bytes;
    }
    HCOMP_HD void put() const { mine_.put_payloads(group_, coder_.by_cpu.rule, layout_, chunk_); }

   private:
    HCOMP_HD static auto values_at([[maybe_unused]] Group group,
                                   [[maybe_unused]] std::byte* chunk) {
      if constexpr (SharesMemory<Group>)
        return worker_values<Group, fours_in_memory<Group>>(
            {group, chunk + tag_bytes(chunk_values)});
      else
        return worker_values<Group>();
    }
    using values = decltype(values_at(std::declval<Group>(), nullptr));

    chunk_coder const& coder_;
    Group group_;
    std::byte* chunk_;
    values mine_;
    typename values::layout layout_;
  };

  template <class Group, class Out>
  HCOMP_HD std::size_t encode_chunk(Group group, encoded_sources<float> const& from, std::size_t i,
                                    Out const& out, std::size_t, note&) const {
    auto* const chunk = area_for(group, out, memory_of(group));
    planned_chunk<Group> made(*this, group, chunk);
    std::size_t const bytes = made.plan(from, i);
    announce_bytes(out, bytes);
    made.put();
    if constexpr (SharesMemory<Group>) send_chunk(group, out, chunk, chunk + bytes);
    return bytes;
  }

  template <class Group>
  HCOMP_HD void decode_chunk(Group group, std::byte const* in, std::size_t i, std::size_t values,
                             float const* addends, float divided_by, float* out) const {
    std::size_t const n = values_of_chunk<header>(i, values), first = i * chunk_values;
    worker_values<Group> mine;
    take(group, in, i, values, memory_of(group), mine);
    if (addends) mine.add(group, addends + first, n);
    if (divided_by != 0) mine.divide(divided_by);
    mine.write(group, out + first, n);
  }

  template <class Group>
  HCOMP_HD std::uint64_t nonfinite_in_chunk(Group group, std::byte const* in, std::size_t i,
                                            std::size_t values) const {
    worker_values<Group> mine;
    take(group, in, i, values, memory_of(group), mine);
    return mine.nonfinite(group);
  }

  /// True in all workers if `bytes` at `chunk` are a valid chunk of n values. Reads only those
  /// bytes.
  template <class Group>
  HCOMP_HD bool is_chunk(Group group, std::byte const* chunk, std::size_t bytes,
                         std::size_t n) const {
    return inceptionn::is_chunk(group, chunk, bytes, n);
  }

  template <class Group>
  HCOMP_HD void finish(Group group, encoded_sources<float> const&, note const*, std::size_t,
                       std::uint64_t bytes, std::byte*, outcome& made) const {
    if (group.worker() == 0) made.bytes = bytes;
  }

#if !defined(__CUDA_ARCH__)  // device code has neither SIMD nor simd_group
  // ---- Fast path for CPUs
  std::size_t encode_chunk(simd_group, encoded_sources<float> const& from, std::size_t i,
                           std::byte* out, std::size_t capacity, note&) const {
    std::size_t const n = values_of_chunk<header>(i, from.values);
    float const* const x = from.x + i * chunk_values;
    if (!from.b) return by_cpu.encode(x, n, out, capacity);
    float sums[chunk_values];
    take(from.b, i, from.values, x, sums);
    return by_cpu.encode(sums, n, out, capacity);
  }

  void decode_chunk(simd_group, std::byte const* in, std::size_t i, std::size_t values,
                    float const* addends, float divided_by, float* out) const {
    std::size_t const n = values_of_chunk<header>(i, values), first = i * chunk_values;
    take(in, i, values, addends ? addends + first : nullptr, out + first);
    if (divided_by != 0)
      for (std::size_t k = 0; k < n; ++k) out[first + k] = divided(out[first + k], divided_by);
  }

  std::uint64_t nonfinite_in_chunk(simd_group, std::byte const* in, std::size_t i,
                                   std::size_t values) const {
    float x[chunk_values];
    take(in, i, values, nullptr, x);
    return nonfinite_runs(x, values_of_chunk<header>(i, values));
  }

  bool is_chunk(simd_group, std::byte const* chunk, std::size_t bytes, std::size_t n) const {
    return by_cpu.valid(chunk, bytes, n);
  }
#endif

 private:
  template <class Group> HCOMP_HD static std::byte* memory_of([[maybe_unused]] Group group) {
    if constexpr (SharesMemory<Group>)
      return reinterpret_cast<std::byte*>(group.scratch());
    else
      return nullptr;
  }
  /// Decodes chunk i of `in` to `mine`.
  /// @param capacity  brought_bytes of shared memory, or null without shared memory
  template <class Group, class Values>
  HCOMP_HD void take(Group group, std::byte const* in, std::size_t i, std::size_t values,
                     [[maybe_unused]] std::byte* area, Values& mine) const {
    auto const part = part_of_encoded<header>(in, i, chunks_of<header>(values));
    std::size_t const bytes = part.end - part.begin, n = values_of_chunk<header>(i, values);
    if constexpr (SharesMemory<Group>) {
      std::byte const* const chunk = bring_bytes(group, in, part.begin, part.end, area);
      group.sync();
      mine.decode_words(group, by_cpu.rule, chunk, bytes, n);
      group.sync();  // before `capacity` is written again
    } else {
      mine.decode(group, by_cpu.rule, in + part.begin, bytes, n);
    }
  }
  void take(std::byte const* in, std::size_t i, std::size_t values, float const* addends,
            float* out) const {
    auto const part = part_of_encoded<header>(in, i, chunks_of<header>(values));
    by_cpu.decode(in + part.begin, part.end - part.begin, load<header>(in).bytes - part.end,
                  values_of_chunk<header>(i, values), addends, out);
  }
};

/// Coder for encode_run whose tags and payloads f(n, out) writes.
template <class F> struct given_chunks {
  using value_type = float;
  using header = inceptionn::header;
  struct note {};

  cpu_coder const& by_cpu;
  F const& f;

  std::size_t encode_chunk(simd_group, encoded_sources<float> const& from, std::size_t i,
                           std::byte* out, std::size_t, note&) const {
    std::byte coded[chunk_capacity];
    std::size_t const n = values_of_chunk<header>(i, from.values);
    return by_cpu.finish(coded, f(n, coded), n, out);
  }
};

}  // namespace hcomp::detail::inceptionn
