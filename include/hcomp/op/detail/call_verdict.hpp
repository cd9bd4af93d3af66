#pragma once
/// @file
/// The verification of a stream-ordered call: findings that stay in the executor's memory, work
/// that depends on them, and their text for the host.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/block_header.hpp>
#include <hcomp/codec/compressor.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/core/group.hpp>
#include <hcomp/core/hash.hpp>
#include <hcomp/op/block_work.hpp>
#include <hcomp/op/detail/encoded_check.hpp>
#include <hcomp/op/encoded_layout.hpp>

namespace hcomp::detail {

/// Why a stream-ordered call failed, in order of rank: the largest of all ranks counts.
enum class trouble : std::uint32_t { none, overflow, nonfinite, damaged, disagreement, refused };

/// Findings of stream-ordered calls on one rank. After a failed call they do not change until the
/// host resets them, and `failed` keeps later calls from writing their results.
struct call_verdict {
  static constexpr std::uint64_t nowhere = encoded_findings::nowhere;

  std::uint64_t damaged = nowhere;  ///< first damaged block * 256 + its block_fault
  std::uint64_t nonfinite = nowhere;
  std::uint64_t nonfinite_blocks = 0;
  std::uint64_t overflow = nowhere;
  std::uint64_t failed = 0;  ///< 1 + the number of the first call that failed; 0: none
  trouble why = trouble::none;
  std::uint32_t refusing_rank = 0;  ///< if `why` is `refused`
  std::uint32_t what = 0;           ///< operation of the failed call

  encoded_findings found() const {
    encoded_findings all;
    if (damaged != nowhere) {
      all.damaged = damaged >> 8;
      all.fault = damaged & 0xff;
    }
    all.nonfinite = nonfinite;
    all.nonfinite_blocks = nonfinite_blocks;
    all.overflow = overflow;
    return all;
  }
};

/// Sets `number` to the smaller of both; concurrent groups may call it.
HCOMP_HD inline void store_least(std::uint64_t& number, std::uint64_t other) {
#if defined(__CUDA_ARCH__)
  static_assert(sizeof(unsigned long long) == sizeof(std::uint64_t));
  atomicMin(reinterpret_cast<unsigned long long*>(&number), static_cast<unsigned long long>(other));
#else
  std::atomic_ref<std::uint64_t> const shared(number);
  auto seen = shared.load(std::memory_order_relaxed);
  while (other < seen && !shared.compare_exchange_weak(seen, other, std::memory_order_relaxed)) {
  }
#endif
}
/// Adds 1; concurrent groups may call it.
HCOMP_HD inline void count_one(std::uint64_t& number) {
#if defined(__CUDA_ARCH__)
  atomicAdd(reinterpret_cast<unsigned long long*>(&number), 1ull);
#else
  std::atomic_ref<std::uint64_t>(number).fetch_add(1, std::memory_order_relaxed);
#endif
}

/// Verifies reduced blocks first, first + 1, ...; notes the findings in `verdict`.
template <Compressor C> struct verify_blocks {
  static constexpr int workers = detail::workers_of<C>();

  C codec;
  encoded_layout layout;
  std::size_t first;
  std::byte const* encoded;  ///< the complete encoded vector
  std::uint64_t key, weight;
  bool checksum;
  reduce_op op;
  call_verdict* verdict;

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t i) const {
    if (verdict->failed != 0) return;
    std::size_t const b = first + i;
    std::byte const* const block = encoded + layout.offset(b);
    int const n = layout.values_in(b);
    auto const header = load_header(block);
    auto const expected = make_header(
        C::codec_id, n, false, {key, 0, 0, static_cast<std::uint32_t>(b), nullptr, checksum});
    auto const fault = fault_of(header, expected, weight, [&] {
      return is_intact(group, header, block, layout.bytes({b, 1}));
    });
    if (group.worker() == 0) {
      if (fault != block_fault::none)
        store_least(verdict->damaged, b << 8 | static_cast<std::uint64_t>(fault));
      if (header.flags & block_has_nonfinite) {
        store_least(verdict->nonfinite, b);
        count_one(verdict->nonfinite_blocks);
      }
    }
    if constexpr (MayOverflow<C>) {
      if (fault != block_fault::none || !may_overflow<C>{codec, op}(block, n)) return;
      bool const finite = codec.stays_finite(group, block, n, op);
      if (!finite && group.worker() == 0) store_least(verdict->overflow, b);
    }
  }
  std::size_t scratch_bytes() const requires UsesScratch<C> { return codec.scratch_bytes(); }
};

/// The arguments of a stream-ordered call, as words whose maxima over all ranks show whether they
/// are equal.
struct agreement_words {
  static constexpr std::size_t count = 5;

  std::uint32_t words[count] = {};

  agreement_words() = default;
  /// @param arguments  fingerprint of the arguments
  /// @param refused    this rank refuses its own
  agreement_words(std::uint64_t arguments, int rank, bool refused)
      : words{static_cast<std::uint32_t>(arguments), static_cast<std::uint32_t>(arguments >> 32),
              ~static_cast<std::uint32_t>(arguments), ~static_cast<std::uint32_t>(arguments >> 32),
              refused ? static_cast<std::uint32_t>(rank) + 1 : 0} {}
};

/// Writes the words, and zeros to the `zeros` words before them.
struct put_agreement {
  agreement_words from;
  std::uint32_t* to;
  std::size_t zeros;

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t) const {
    for (auto w = static_cast<std::size_t>(group.worker()); w < zeros; w += Group::workers)
      *(to - zeros + w) = 0;
    for (auto w = static_cast<std::size_t>(group.worker()); w < agreement_words::count;
         w += Group::workers)
      to[w] = from.words[w];
  }
};

/// A number with a checksum, as a message.
struct sealed_number {
  std::uint32_t number, seal;

  /// @param call  of the call, its sender and its receiver
  HCOMP_HD static std::uint32_t seal_of(std::uint32_t number, std::uint64_t call) {
    auto const h = mix(call ^ number);
    return static_cast<std::uint32_t>(h ^ h >> 32);
  }
};

/// out = number, sealed
struct seal_number {
  std::uint32_t const* number;
  sealed_number* out;
  std::uint64_t call;

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t) const {
    if (group.worker() == 0) *out = {*number, sealed_number::seal_of(*number, call)};
  }
};

/// number = max(number, in), unless `in` is damaged: then lost = 1.
struct unite_sealed_number {
  std::uint32_t* number;
  sealed_number const* in;
  std::uint64_t call;
  std::uint32_t* lost;  ///< null: damage is ignored

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t) const {
    if (group.worker() != 0) return;
    auto const other = *in;
    if (other.seal == sealed_number::seal_of(other.number, call)) {
      if (*number < other.number) *number = other.number;
    } else if (lost) {
      *lost = 1;
    }
  }
};

/// The trouble in the findings of a call.
HCOMP_HD inline trouble trouble_of(call_verdict const& found, bool refuses_nonfinite) {
  if (found.damaged != call_verdict::nowhere) return trouble::damaged;
  if (!refuses_nonfinite) return trouble::none;
  if (found.nonfinite != call_verdict::nowhere) return trouble::nonfinite;
  return found.overflow != call_verdict::nowhere ? trouble::overflow : trouble::none;
}

/// Writes this rank's trouble, from its findings and the agreed words, and that none was lost.
struct note_trouble {
  call_verdict* verdict;
  std::uint32_t const* agreed;
  bool refuses_nonfinite;
  std::uint32_t* out;  ///< the trouble, and 0

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t) const {
    if (group.worker() != 0) return;
    auto why = trouble_of(*verdict, refuses_nonfinite);
    if (agreed[0] != ~agreed[2] || agreed[1] != ~agreed[3]) why = trouble::disagreement;
    if (agreed[4] != 0) {
      why = trouble::refused;
      if (verdict->failed == 0) verdict->refusing_rank = agreed[4] - 1;
    }
    out[0] = static_cast<std::uint32_t>(why);
    out[1] = 0;
  }
};

/// Ends a call: keeps its findings and a copy of them if there is trouble, otherwise discards them.
HCOMP_HD inline void end_call(call_verdict* verdict, call_verdict* copy, trouble why,
                              std::uint64_t number, std::uint32_t what) {
  if (why == trouble::none) {
    *verdict = call_verdict{};
  } else {
    verdict->why = why;
    verdict->what = what;
    verdict->failed = number + 1;
    *copy = *verdict;
  }
}

/// Ends a call whose blocks, and so findings, are the same on all ranks.
struct end_own_call {
  call_verdict* verdict;
  call_verdict* on_host;  ///< gets a copy if the call failed; may be `verdict`
  bool refuses_nonfinite;
  std::uint64_t number;  ///< of the call
  std::uint32_t what;    ///< its operation

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t) const {
    if (group.worker() == 0 && verdict->failed == 0)
      end_call(verdict, on_host, trouble_of(*verdict, refuses_nonfinite), number, what);
  }
};

/// Ends a call: a rank has trouble, or none.
struct judge_call {
  call_verdict* verdict;
  call_verdict* on_host;          ///< gets a copy if the call failed; may be `verdict`
  std::uint32_t const* troubles;  ///< the largest of all ranks, and whether one was lost
  std::uint64_t number;           ///< of the call
  std::uint32_t what;             ///< its operation

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t) const {
    if (group.worker() != 0 || verdict->failed != 0) return;
    auto why = static_cast<trouble>(troubles[0]);
    if (troubles[1] != 0 && why < trouble::damaged) why = trouble::damaged;
    end_call(verdict, on_host, why, number, what);
  }
};

/// The same work, unless `failed` points to a number other than 0.
template <class Work> struct unless_failed {
  static constexpr int workers = detail::workers_of<Work>();
  static constexpr int blocks_at_once = detail::blocks_at_once_of<Work>();
  static constexpr int piece_workers = detail::piece_workers_of<Work>();

  Work work;
  std::uint64_t const* failed;  ///< null: it always works

  HCOMP_HD bool is_off() const { return failed && *failed != 0; }
  template <class Group> HCOMP_HD void operator()(Group group, std::size_t i) const {
    if (!is_off()) work(group, i);
  }
  std::size_t scratch_bytes() const requires UsesScratch<Work> { return work.scratch_bytes(); }

  int pieces() const requires WorksByPieces<Work> { return work.pieces(); }
  std::size_t piece_scratch_bytes() const requires WorksByPieces<Work> {
    return work.piece_scratch_bytes();
  }
  template <class Group>
  HCOMP_HD void piece(Group group, std::size_t i, int k) const requires WorksByPieces<Work> {
    if (!is_off()) work.piece(group, i, k);
  }
};

}  // namespace hcomp::detail
