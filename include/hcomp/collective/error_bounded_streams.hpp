#pragma once
/// @file
/// Streams of error_bounded_stream where an executor's memory is.

#include <cstddef>
#include <cstdint>
#include <hcomp/codec/detail/error_bounded_header.hpp>
#include <hcomp/codec/detail/stream_arguments.hpp>
#include <hcomp/codec/error_bounded_options.hpp>
#include <hcomp/codec/error_bounded_stream.hpp>
#include <hcomp/collective/detail/chunk_slots.hpp>
#include <hcomp/collective/detail/streams_on_device.hpp>
#include <hcomp/exec/detail/mirror.hpp>
#include <hcomp/exec/executor.hpp>
#include <hcomp/op/detail/error_bounded_work.hpp>
#include <span>

namespace hcomp {

/// Encodes, adds and decodes vectors in an executor's memory; the bytes and the values are those of
/// codec `error_bounded_stream`, the errors its errors.
///
///     hcomp::error_bounded_streams streams(x.size(), executor);
///     streams.encode(codec, x, code);          // returns at once, as an executor does
///     std::size_t const bytes = streams.bytes(codec);  // waits
///     streams.decode(codec, code.first(bytes), y);
///
/// The executor is used, not owned, and must outlive this. Vectors and streams lie in its memory;
/// streams begin at multiples of 4, as addresses. Streams that are read must be sound: made here,
/// or checked by the codec on the host. Only `bytes` and `find_nonfinite` wait for the executor.
/// What was encoded before is needed no more when something else is. Calls allocate nothing, and
/// those that do not wait can be captured in a CUDA graph.
/// Memory: 1.01 times the longest vector or `most_bytes`, and 40 bytes per 4096 values.
/// Cost: encoding reads the values once, and writes their code twice and reads it once, as
/// inceptionn_streams does; merging reads two codes instead. Decoding reads the code and writes the
/// values. A lane has 32 values, so floats that lanes move at once do not lie together.
template <Executor E> class error_bounded_streams {
 public:
  /// @param most_values  of a vector
  /// @param most_bytes   of memory for chunks; longer vectors are encoded in parts of so many, at
  ///                     least 4 MiB
  error_bounded_streams(std::size_t most_values, E& executor,
                        std::size_t most_bytes = std::size_t{256} << 20)
      : most_values_(most_values),
        executor_(&executor),
        slots_(header_type::chunks_of(most_values), most_bytes),
        lengths_(header_type::chunks_of(most_values) * sizeof(std::uint32_t)),
        found_(header_type::chunks_of(most_values) * sizeof(detail::error_bounded_found)),
        bytes_(sizeof(std::uint64_t)),
        nonfinite_(header_type::chunks_of(most_values)),
        outcome_(1) {}
  error_bounded_streams(error_bounded_streams const&) = delete;
  error_bounded_streams& operator=(error_bounded_streams const&) = delete;

  /// Gives the executor the work of encoding x.
  /// @param out  overwritten beyond the stream, too
  /// @throws std::invalid_argument  `out` has less than codec.capacity(x.size()) bytes or begins at
  ///                                another address, or x is longer than `most_values`
  void encode(error_bounded_stream const& codec, std::span<float const> x,
              std::span<std::byte> out) {
    put("encode", codec, x.size(), x.data(), nullptr, nullptr, out);
  }
  /// The same with x and what `in` holds, added: a hop of a ring.
  /// @param in   sound, of x.size() values
  /// @param out  must overlap neither `in` nor x
  void decode_add_encode(error_bounded_stream const& codec, std::span<std::byte const> in,
                         std::span<float const> x, std::span<std::byte> out) {
    put("decode_add_encode", codec, x.size(), x.data(), nullptr, in.data(), out);
  }
  /// The same with two streams, added as they are.
  /// @param a, b  sound, of `values` values
  /// @param out   must overlap neither
  void merge(error_bounded_stream const& codec, std::span<std::byte const> a,
             std::span<std::byte const> b, std::size_t values, std::span<std::byte> out) {
    put("merge", codec, values, nullptr, a.data(), b.data(), out);
  }

  /// What became of the last stream, for other work, in the executor's memory.
  detail::error_bounded_outcome const* outcome_there() const { return outcome_.there(); }
  /// How many bytes the last stream took. Waits for the executor.
  /// @throws wire_error  as error_bounded_stream::merge, in the same words: what was added are more
  ///                     ranks than the bound is divided by, or more than they can have. The stream
  ///                     is of no use then
  std::size_t bytes(error_bounded_stream const& codec) {
    outcome_.fetch(*executor_, 1);
    return bytes_of(codec, *outcome_.here());
  }
  /// The same of what was found there.
  static std::size_t bytes_of(error_bounded_stream const& codec,
                              detail::error_bounded_outcome const& outcome) {
    return outcome.checked(detail::grid_of(codec.options()), codec.options().ranks);
  }

  /// Gives the executor the work of decoding `in`.
  /// @param in     sound, of x.size() values; other bytes may follow it
  /// @param parts  that the values are divided by; 0: they are not
  void decode(error_bounded_stream const& codec, std::span<std::byte const> in, std::span<float> x,
              int parts = 0) {
    get("decode", codec, in.data(), nullptr, parts, x);
  }
  /// out = addends, which may be there, and what `in` holds. NaNs become one NaN.
  /// @param in  as in decode, of out.size() values
  void decode_add(error_bounded_stream const& codec, std::span<std::byte const> in,
                  std::span<float const> addends, std::span<float> out) {
    get("decode_add", codec, in.data(), addends.data(), 0, out);
  }

  /// Where a sound stream holds NaN or infinity: a bit for every 64 values, a word for 4096. Waits
  /// for the executor.
  /// @throws std::invalid_argument  more than `most_values`, or `in` begins at another address
  std::span<std::uint64_t const> find_nonfinite(error_bounded_stream const& codec,
                                                std::span<std::byte const> in, std::size_t values) {
    detail::require_values(where, "find_nonfinite", values, most_values_);
    detail::require_address(where, "find_nonfinite", in.data());
    std::size_t const chunks = header_type::chunks_of(values);
    executor_->for_each_block(
        chunks, detail::find_nonfinite_error_bounded{detail::grid_of(codec.options()), values,
                                                     in.data(), nonfinite_.there()});
    nonfinite_.fetch(*executor_, chunks);
    return {nonfinite_.here(), chunks};
  }

 private:
  static constexpr char const* where = "error_bounded_streams::";
  using header_type = detail::error_bounded_header;

  void put(char const* who, error_bounded_stream const& codec, std::size_t values, float const* x,
           std::byte const* a, std::byte const* b, std::span<std::byte> out) {
    detail::require_values(where, who, values, most_values_);
    for (std::byte const* const stream : {a, b, static_cast<std::byte const*>(out.data())})
      detail::require_address(where, who, stream);
    detail::require_room<header_type>(where, who, values, out.size());
    auto const header = header_type::of(codec.options(), values);
    auto const grid = detail::grid_of(codec.options());
    auto* const lengths = reinterpret_cast<std::uint32_t*>(lengths_.data());
    auto* const found = reinterpret_cast<detail::error_bounded_found*>(found_.data());
    auto* const bytes = reinterpret_cast<std::uint64_t*>(bytes_.data());
    slots_.make(
        *executor_, header, lengths,
        [&](std::size_t first, std::size_t end, std::byte* slots) {
          executor_->for_each_block(
              end - first, detail::encode_error_bounded_chunks{grid, values, x, a, b, first, slots,
                                                               lengths, found});
        },
        out.data(), bytes);
    executor_->for_each_block(1, detail::finish_error_bounded_stream{!a, a, b, found, bytes,
                                                                     out.data(), outcome_.there()});
  }

  void get(char const* who, error_bounded_stream const& codec, std::byte const* in,
           float const* addend, int parts, std::span<float> out) {
    detail::require_address(where, who, in);
    executor_->for_each_block(
        header_type::chunks_of(out.size()),
        detail::decode_error_bounded_chunks{detail::grid_of(codec.options()), out.size(), in,
                                            addend, static_cast<float>(parts), out.data()});
  }

  std::size_t most_values_;
  E* executor_;
  detail::chunk_slots<header_type, E> slots_;
  typename E::buffer lengths_, found_;  ///< of chunks
  typename E::buffer bytes_;            ///< of the stream
  detail::mirror<std::uint64_t, E> nonfinite_;
  detail::mirror<detail::error_bounded_outcome, E> outcome_;
};

namespace detail {

template <DeviceExecutor E> struct streams_on_device<error_bounded_stream, E> {
  using streams = error_bounded_streams<E>;
  static constexpr std::size_t values_per_word = 4096;

  using outcome = error_bounded_outcome;
  static outcome const* outcome_there(streams const& made) { return made.outcome_there(); }
  /// @throws wire_error  there is none
  static std::size_t bytes_of(error_bounded_stream const& codec, outcome const& made) {
    return streams::bytes_of(codec, made);
  }
};

}  // namespace detail
}  // namespace hcomp
