#pragma once
/// @file
/// INCEPTIONN's streams where an executor's memory is.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/detail/inceptionn_chunks.hpp>
#include <hcomp/codec/detail/inceptionn_header.hpp>
#include <hcomp/codec/detail/stream_arguments.hpp>
#include <hcomp/codec/inceptionn.hpp>
#include <hcomp/collective/detail/chunk_slots.hpp>
#include <hcomp/collective/detail/streams_on_device.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/exec/detail/mirror.hpp>
#include <hcomp/exec/executor.hpp>
#include <hcomp/op/detail/inceptionn_work.hpp>
#include <span>

namespace hcomp {

/// Encodes and decodes vectors in an executor's memory; the bytes and the values are those of
/// codec `inceptionn`, the errors its errors.
///
///     hcomp::inceptionn_streams streams(x.size(), executor);
///     streams.encode(codec, x, code);          // returns at once, as an executor does
///     std::size_t const bytes = streams.bytes();  // waits
///     streams.decode(codec, code.first(bytes), y);
///
/// The executor is used, not owned, and must outlive this. Vectors and streams lie in its memory;
/// streams begin at multiples of 4, as addresses. Only `bytes`, `check` and `measure` wait for the
/// executor. What was encoded before is needed no more when something else is. Calls allocate
/// nothing, and those that do not wait can be captured in a CUDA graph.
/// Memory: as much as the longest vector or `most_bytes`, and on a device 12 bytes per 1024 values.
/// Cost: encoding reads the values once, and writes their code twice and reads it once: first every
/// chunk where it has room, then, when the lengths before it are known, in its place. For up to 2
/// bytes per value this is less than to read the values twice. Decoding reads the code and writes
/// the values.
template <Executor E> class inceptionn_streams {
 public:
  /// @param most_values  of a vector to be encoded or looked at
  /// @param most_bytes   of memory for chunks; longer vectors are encoded in parts of so many, at
  ///                     least 1 MiB
  inceptionn_streams(std::size_t most_values, E& executor,
                     std::size_t most_bytes = std::size_t{256} << 20)
      : most_values_(most_values),
        executor_(&executor),
        slots_(detail::inceptionn_chunks(most_values), most_bytes),
        words_(std::max(detail::inceptionn_chunks(most_values), measuring_blocks)),
        bytes_(1),
        header_(1),
        part_(1) {}
  inceptionn_streams(inceptionn_streams const&) = delete;
  inceptionn_streams& operator=(inceptionn_streams const&) = delete;

  /// Gives the executor the work of encoding x.
  /// @param out  overwritten beyond the stream, too
  /// @throws std::invalid_argument  `out` has less than codec.capacity(x.size()) bytes or begins at
  ///                                another address, or x is longer than `most_values`
  void encode(inceptionn const& codec, std::span<float const> x, std::span<std::byte> out) {
    put("encode", codec, nullptr, x, out);
  }
  /// The same with x and what `in` holds, added: a hop of a ring.
  /// @param in   sound, of x.size() values: checked, or made by `encode`
  /// @param out  must overlap neither `in` nor x
  void decode_add_encode(inceptionn const& codec, std::span<std::byte const> in,
                         std::span<float const> x, std::span<std::byte> out) {
    put("decode_add_encode", codec, in.data(), x, out);
  }

  /// How many bytes the last stream took, for other work, in the executor's memory.
  std::uint64_t const* bytes_there() const { return bytes_.there(); }
  /// The same for the host. Waits for the executor.
  std::size_t bytes() {
    bytes_.fetch(*executor_, 1);
    return static_cast<std::size_t>(*bytes_.here());
  }

  /// Gives the executor the work of decoding `in`.
  /// @param in     sound, of x.size() values; other bytes may follow it
  /// @param parts  that the values are divided by; 0: they are not
  void decode(inceptionn const& codec, std::span<std::byte const> in, std::span<float> x,
              int parts = 0) {
    get("decode", codec, in.data(), nullptr, parts, x);
  }
  /// out = addends, which may be there, and what `in` holds. NaNs become one NaN.
  /// @param in  as in decode, of out.size() values
  void decode_add(inceptionn const& codec, std::span<std::byte const> in,
                  std::span<float const> addends, std::span<float> out) {
    get("decode_add", codec, in.data(), addends.data(), 0, out);
  }

  /// Checks all that inceptionn::check does, and reads nothing beyond `in`. Waits for the executor.
  /// @throws wire_error             as inceptionn::check, in the same words
  /// @throws std::invalid_argument  more than `most_values`, or `in` begins at another address
  void check(inceptionn const& codec, std::span<std::byte const> in, std::size_t values) {
    detail::require_values(where, "check", values, most_values_);
    detail::require_address(where, "check", in.data());
    using detail::inceptionn_header;
    inceptionn_header::require_whole(in.size());
    executor_->for_each_block(1, detail::take_inceptionn_header{in.data(), header_.there()});
    header_.fetch(*executor_, 1);
    auto const header = inceptionn_header::checked(*header_.here(), in.size());
    header.require(codec.options(), values);

    std::size_t const chunks = detail::inceptionn_chunks(values);
    executor_->for_each_block(
        chunks, detail::check_inceptionn_chunks{values, in.data(), header.bytes, words_.there()});
    words_.fetch(*executor_, chunks);
    auto const found = std::span(words_.here(), chunks);
    auto const bad = std::ranges::find(found, 1u);
    if (bad == found.end()) return;
    auto const i = static_cast<std::size_t>(bad - found.begin());
    executor_->for_each_block(1, detail::take_inceptionn_part{in.data(), i, chunks, part_.there()});
    part_.fetch(*executor_, 1);
    detail::inceptionn_damaged_chunk(i, detail::inceptionn_values_of(i, values), *part_.here(),
                                     header.bytes);
  }

  /// inceptionn::measure, of any number of values. Waits for the executor.
  std::uint32_t measure(std::span<float const> x) {
    std::size_t const blocks = std::min(detail::inceptionn_chunks(x.size()), measuring_blocks);
    executor_->for_each_block(blocks,
                              detail::measure_chunks{x.size(), x.data(), blocks, words_.there()});
    words_.fetch(*executor_, blocks);
    std::uint32_t largest = 0;
    for (std::size_t i = 0; i < blocks; ++i) largest = std::max(largest, words_.here()[i]);
    return largest;
  }

  /// Where a sound stream holds NaN or infinity: a bit for every 64 values, a word for 1024. Waits
  /// for the executor.
  /// @throws std::invalid_argument  more than `most_values`
  std::span<std::uint32_t const> find_nonfinite(inceptionn const& codec,
                                                std::span<std::byte const> in, std::size_t values) {
    detail::require_values(where, "find_nonfinite", values, most_values_);
    detail::require_address(where, "find_nonfinite", in.data());
    std::size_t const chunks = detail::inceptionn_chunks(values);
    executor_->for_each_block(
        chunks, detail::find_nonfinite_chunks{detail::rule_of(codec.options()), values, in.data(),
                                              words_.there()});
    words_.fetch(*executor_, chunks);
    return {words_.here(), chunks};
  }

 private:
  static constexpr char const* where = "inceptionn_streams::";
  static constexpr std::size_t measuring_blocks = 1024;

  void put(char const* who, inceptionn const& codec, std::byte const* in, std::span<float const> x,
           std::span<std::byte> out) {
    detail::require_values(where, who, x.size(), most_values_);
    detail::require_address(where, who, in);
    detail::require_address(where, who, out.data());
    detail::require_room<detail::inceptionn_header>(where, who, x.size(), out.size());
    auto const rule = detail::rule_of(codec.options());
    auto const header = detail::inceptionn_header::of(codec.options(), x.size(), 0);
    slots_.make(
        *executor_, header, words_.there(),
        [&](std::size_t first, std::size_t end, std::byte* slots) {
          executor_->for_each_block(
              end - first, detail::encode_inceptionn_chunks{rule, x.size(), x.data(), in, first,
                                                            slots, words_.there()});
        },
        out.data(), bytes_.there());
  }

  void get(char const* who, inceptionn const& codec, std::byte const* in, float const* addend,
           int parts, std::span<float> out) {
    detail::require_address(where, who, in);
    executor_->for_each_block(
        detail::inceptionn_chunks(out.size()),
        detail::decode_inceptionn_chunks{detail::rule_of(codec.options()), out.size(), in, addend,
                                         static_cast<float>(parts), out.data()});
  }

  std::size_t most_values_;
  E* executor_;
  detail::chunk_slots<detail::inceptionn_header, E> slots_;
  detail::mirror<std::uint32_t, E> words_;  ///< one per chunk: lengths, what was found
  detail::mirror<std::uint64_t, E> bytes_;
  detail::mirror<detail::inceptionn_header, E> header_;
  detail::mirror<detail::inceptionn_part, E> part_;
};

namespace detail {

template <DeviceExecutor E> struct streams_on_device<inceptionn, E> {
  using streams = inceptionn_streams<E>;
  static constexpr std::size_t values_per_word = 1024;  ///< of find_nonfinite

  /// What work says of the stream that it has made.
  using outcome = std::uint64_t;
  static outcome const* outcome_there(streams const& made) { return made.bytes_there(); }
  static std::size_t bytes_of(inceptionn const&, outcome bytes) {
    return static_cast<std::size_t>(bytes);
  }
};

}  // namespace detail
}  // namespace hcomp
