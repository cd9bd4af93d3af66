#pragma once
/// @file
/// Who makes codes of variable rate, and reads them: the calling thread, or a device.

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/codec/error_bounded_stream.hpp>
#include <hcomp/codec/inceptionn.hpp>
#include <hcomp/codec/uncompressed_stream.hpp>
#include <hcomp/codec/variable_rate.hpp>
#include <hcomp/collective/error_bounded_streams.hpp>
#include <hcomp/collective/inceptionn_streams.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/exec/executor.hpp>
#include <hcomp/op/detail/error_bounded_work.hpp>
#include <hcomp/op/detail/inceptionn_work.hpp>
#include <memory>
#include <span>
#include <vector>

namespace hcomp::detail {

/// In the place of an executor: all is done at once, on host memory.
struct calling_thread {};
template <class E>
concept CallingThreadOrDevice = std::same_as<E, calling_thread> || DeviceExecutor<E>;

/// Calls f(i) for every i for which value(64 i), value(64 i + 1), ... has NaN or infinity.
template <class Value, class F>
void for_each_nonfinite_of(std::size_t count, Value const& value, F const& f) {
  bool finite = true;
  for (std::size_t i = 0; i < count; ++i) finite &= is_finite(value(i));
  for (std::size_t i = 0, last = count; !finite && i < count; ++i) {
    if (is_finite(value(i)) || i / 64 == last) continue;
    last = i / 64;
    f(last);
  }
}

/// What is done with values, which are in the executor's memory. Codes are in the host's, in
/// `memory`: there their lengths are known, and their headers are read. Functions that read a code
/// throw wire_error, and change nothing, if it is not sound.
template <VariableRate C, CallingThreadOrDevice E> class stream_coder {
  static_assert(sizeof(C) == 0,
                "of codecs of variable rate, devices know error_bounded_stream and inceptionn");
};

template <VariableRate C> class stream_coder<C, calling_thread> {
 public:
  using memory = std::vector<std::byte>;

  explicit stream_coder(calling_thread*) {}

  /// @param longest  values of a code
  /// @param sums     values of sums()
  /// @param merges   merge() will be called
  void allocate(C const& codec, std::size_t longest, std::size_t sums, bool merges) {
    if (merges) merged_.resize(codec.capacity(longest));
    decoded_.resize(longest);
    sums_.resize(sums);
  }
  /// Codes of the last call are needed no more.
  void start() {}

  /// Room for values, as they are added up.
  float* sums() { return sums_.data(); }

  static std::uint32_t measure(std::span<float const> x) requires FittedVariableRate<C> {
    return C::measure(x);
  }
  template <class Codec>
  std::size_t encode(Codec const& codec, std::span<float const> x, std::span<std::byte> out) {
    return codec.encode(x, out);
  }
  std::size_t decode_add_encode(C const& codec, std::span<std::byte const> in,
                                std::span<float const> x, std::span<std::byte> out) {
    return codec.decode_add_encode(in, x, out);
  }
  /// The sum of two codes of as many values; `out` may be one of them.
  std::size_t merge(C const& codec, std::span<std::byte const> a, std::span<std::byte const> b,
                    std::size_t, std::span<std::byte> out) requires MergingVariableRate<C> {
    std::size_t const bytes = codec.merge(a, b, merged_);
    std::memcpy(out.data(), merged_.data(), bytes);
    return bytes;
  }
  /// out = addends, which may be there, and what `in` holds.
  void decode_add(C const& codec, std::span<std::byte const> in, std::span<float const> addends,
                  std::span<float> out) {
    if (addends.data() != out.data()) std::memcpy(out.data(), addends.data(), addends.size_bytes());
    codec.decode_add(in, out);
  }
  /// @param parts  that the values are divided by; 0: they are not
  template <class Codec>
  void decode(Codec const& codec, std::span<std::byte const> in, std::span<float> x,
              int parts = 0) {
    codec.decode(in, x);
    if (parts == 0) return;
    auto const whole = static_cast<float>(parts);
    for (float& value : x) value /= whole;
  }
  /// Calls f(i) for every i for which there is NaN or infinity among values 64 i, 64 i + 1, ...
  /// of `count`.
  template <class Codec, class F>
  void for_each_nonfinite(Codec const& codec, std::span<std::byte const> in, std::size_t count,
                          F const& f) {
    auto const values = std::span(decoded_).first(count);
    codec.decode(in, values);
    for_each_nonfinite_of(
        count, [&](std::size_t i) { return values[i]; }, f);
  }

 private:
  std::vector<float> sums_, decoded_;
  std::vector<std::byte> merged_;
};

/// A codec's streams on a device.
template <class C, DeviceExecutor E> struct streams_on_device {};
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
template <class C, class E>
concept HasStreamsOn = requires {
  typename streams_on_device<C, E>::streams;
};

/// On a device. Codes are checked by the host before the device sees them, and copied there and
/// back in the order of its work. Decoding is not waited for; encoding is, once or, if a code is
/// longer than the one before, twice.
template <VariableRate C, DeviceExecutor E>
  requires HasStreamsOn<C, E>
class stream_coder<C, E> {
 public:
  using memory = typename E::staging;

  explicit stream_coder(E* executor) : executor_(executor) {}

  void allocate(C const& codec, std::size_t longest, std::size_t sums, bool merges) {
    there_ = std::make_unique<device_memory>(*executor_, codec, longest, sums, merges);
  }
  void start() { executor_->wait(copied_); }

  float* sums() { return reinterpret_cast<float*>(there_->sums.data()); }

  std::uint32_t measure(std::span<float const> x) requires FittedVariableRate<C> {
    return there_->streams.measure(x);
  }
  std::size_t encode(C const& codec, std::span<float const> x, std::span<std::byte> out) {
    there_->streams.encode(codec, x, there_->made_span());
    return fetch(codec, out);
  }
  std::size_t encode(uncompressed_stream const&, std::span<float const> x,
                     std::span<std::byte> out) {
    executor_->wait(
        executor_->read(out.data(), reinterpret_cast<std::byte const*>(x.data()), x.size_bytes()));
    return x.size_bytes();
  }
  std::size_t decode_add_encode(C const& codec, std::span<std::byte const> in,
                                std::span<float const> x, std::span<std::byte> out) {
    there_->streams.decode_add_encode(codec, sent(codec, there_->came, in, x.size()), x,
                                      there_->made_span());
    return fetch(codec, out);
  }
  std::size_t merge(C const& codec, std::span<std::byte const> a, std::span<std::byte const> b,
                    std::size_t values, std::span<std::byte> out) requires MergingVariableRate<C> {
    auto const first = sent(codec, there_->other, a, values);
    there_->streams.merge(codec, first, sent(codec, there_->came, b, values), values,
                          there_->made_span());
    return fetch(codec, out);
  }
  void decode_add(C const& codec, std::span<std::byte const> in, std::span<float const> addends,
                  std::span<float> out) {
    there_->streams.decode_add(codec, sent(codec, there_->came, in, out.size()), addends, out);
    executor_->wait(copied_);
  }
  void decode(C const& codec, std::span<std::byte const> in, std::span<float> x, int parts = 0) {
    there_->streams.decode(codec, sent(codec, there_->came, in, x.size()), x, parts);
  }
  void decode(uncompressed_stream const&, std::span<std::byte const> in, std::span<float> x,
              int parts = 0) {
    uncompressed_stream::check(in, x.size());
    copied_ = executor_->write(reinterpret_cast<std::byte*>(x.data()), in.data(), in.size());
    if (parts > 0)
      executor_->for_each_block(inceptionn_chunks(x.size()),
                                divide_chunks{x.size(), static_cast<float>(parts), x.data()});
  }
  template <class F>
  void for_each_nonfinite(C const& codec, std::span<std::byte const> in, std::size_t count,
                          F const& f) {
    auto const found =
        there_->streams.find_nonfinite(codec, sent(codec, there_->came, in, count), count);
    constexpr std::size_t bits = on_device::values_per_word / 64;
    for (std::size_t i = 0; i < bits * found.size(); ++i)
      if (found[i / bits] >> i % bits & 1u) f(i);
  }
  template <class F>
  void for_each_nonfinite(uncompressed_stream const&, std::span<std::byte const> in,
                          std::size_t count, F const& f) {
    for_each_nonfinite_of(
        count, [&](std::size_t i) { return load<float>(in.data(), i); }, f);
  }

 private:
  using on_device = streams_on_device<C, E>;
  using outcome = typename on_device::outcome;

  struct device_memory {
    typename on_device::streams streams;
    typename E::buffer came, other, made, sums;
    typename E::staging made_outcome;

    device_memory(E& executor, C const& codec, std::size_t longest, std::size_t sum_values,
                  bool merges)
        : streams(longest, executor),
          came(codec.capacity(longest)),
          other(merges ? codec.capacity(longest) : 0),
          made(codec.capacity(longest)),
          sums(sum_values * sizeof(float)),
          made_outcome(sizeof(outcome)) {}
    std::span<std::byte> made_span() const { return {made.data(), made.size()}; }
  };

  /// A sound code, on the device.
  std::span<std::byte const> sent(C const& codec, typename E::buffer& to,
                                  std::span<std::byte const> in, std::size_t values) {
    codec.check(in, values);
    std::size_t const bytes = C::peek(in).bytes;
    copied_ = executor_->write(to.data(), in.data(), bytes);
    return {to.data(), bytes};
  }
  /// What was made there, to the host; returns its length.
  /// @throws wire_error  it could not be made
  std::size_t fetch(C const& codec, std::span<std::byte> out) {
    std::size_t const hoped = std::min({likely_, there_->made.size(), out.size()});
    executor_->read(there_->made_outcome.data(),
                    reinterpret_cast<std::byte const*>(on_device::outcome_there(there_->streams)),
                    sizeof(outcome));
    executor_->wait(executor_->read(out.data(), there_->made.data(), hoped));
    std::size_t const bytes =
        on_device::bytes_of(codec, load<outcome>(there_->made_outcome.data()));
    if (bytes > hoped)
      executor_->wait(
          executor_->read(out.data() + hoped, there_->made.data() + hoped, bytes - hoped));
    likely_ = bytes + bytes / 8;
    return bytes;
  }

  E* executor_;
  std::unique_ptr<device_memory> there_;
  typename E::mark copied_{};  ///< the last code, to the device
  std::size_t likely_ = 0;     ///< length of the next code
};

}  // namespace hcomp::detail
