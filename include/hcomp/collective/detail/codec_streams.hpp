#pragma once
/// @file
/// stream_work and stream_values of a codec and an executor.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/codec/compressor.hpp>
#include <hcomp/codec/uncompressed_stream.hpp>
#include <hcomp/codec/variable_rate.hpp>
#include <hcomp/collective/detail/code_work.hpp>
#include <hcomp/collective/detail/codec_terms.hpp>
#include <hcomp/collective/detail/stream_engine.hpp>
#include <hcomp/collective/detail/stream_work.hpp>
#include <hcomp/collective/detail/streams_on_device.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/exec/executor.hpp>
#include <hcomp/feedback/feedback.hpp>
#include <hcomp/op/code_layout.hpp>
#include <hcomp/op/detail/code_check.hpp>
#include <hcomp/op/detail/divide_values.hpp>
#include <limits>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace hcomp::detail {

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

/// What codec_streams does with values, which are in the executor's memory. Codes are in `memory`,
/// which is the host's. Functions that read a code throw wire_error, and change nothing, if it is
/// not sound.
template <VariableRate C, Executor E> class stream_coder {
  static_assert(!DeviceExecutor<E>, "no header with this codec's streams on devices is included");

 public:
  using memory = std::vector<std::byte>;

  explicit stream_coder(E&) {}

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

/// On a device: codes are checked by the host before the device sees them, and copied there and
/// back in the order of its work. Decoding is not waited for; encoding is, once or, if a code is
/// longer than the one before, twice.
template <VariableRate C, DeviceExecutor E>
  requires HasStreamsOn<C, E>
class stream_coder<C, E> {
 public:
  using memory = typename E::staging;

  explicit stream_coder(E& executor) : executor_(&executor) {}

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
    divide_values const work{x.size(), static_cast<float>(parts), x.data()};
    if (parts > 0) executor_->for_each_block(work.runs(), work);
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

/// What an engine needs a codec and an executor for.
template <VariableRate C, Executor E> class codec_streams final : public stream_work {
 public:
  /// @throws std::invalid_argument  more ranks than can share the codec's bound
  codec_streams(C const& codec, std::size_t values, int ranks, E& executor, plan_options const&)
      : ranks_(ranks),
        given_(for_ranks(codec, ranks)),
        codec_(given_),
        layout_(layout_of_floats(values)),
        executor_(&executor),
        coder_(executor) {}

  E& executor() const { return *executor_; }
  code_layout const& layout() const { return layout_; }
  /// Of the last call: as it was given, or fitted.
  C const& codec() const { return codec_; }
  stream_engine_settings settings() const {
    return {terms(given_),
            layout_,
            uncompressed_stream::tag,
            MergingVariableRate<C>,
            fits_calls(given_),
            DeviceExecutor<E> ? message_memory::staged : message_memory::host};
  }
  /// @throws std::invalid_argument  as the constructor, or its codes can be longer
  void set_codec(C const& codec) {
    auto const wanted = for_ranks(codec, ranks_);
    if (fits_calls(wanted) != fits_calls(given_))
      throw std::invalid_argument(std::string("set_codec: a codec that is ") +
                                  (fits_calls(wanted) ? "" : "not ") +
                                  "fitted in every call, the plan was made for the other kind");
    if (wanted.capacity(layout_.values) > given_.capacity(layout_.values))
      throw std::invalid_argument(
          "set_codec: codes of up to " + std::to_string(wanted.capacity(layout_.values)) +
          " bytes, the plan was made for " + std::to_string(given_.capacity(layout_.values)));
    given_ = codec_ = wanted;
  }
  codec_terms terms(C const& codec) const {
    return terms_of(for_ranks(codec, ranks_), sizeof(float),
                    std::numeric_limits<std::uint32_t>::max());
  }
  stream_coder<C, E>& coder() { return coder_; }

  any_buffer allocate(std::size_t bytes) override {
    return {std::in_place_type<typename stream_coder<C, E>::memory>, bytes};
  }
  std::size_t capacity(std::size_t values) const override {
    return std::max(given_.capacity(values), uncompressed_stream::capacity(values));
  }
  void reserve(std::size_t longest, std::size_t sums, bool merges) override {
    coder_.allocate(given_, longest, sums, merges);
  }
  void start() override { coder_.start(); }
  void fit([[maybe_unused]] std::uint32_t largest, [[maybe_unused]] int ranks) override {
    if constexpr (FittedVariableRate<C>) codec_ = given_.fitted(largest, ranks);
  }
  std::size_t merge([[maybe_unused]] std::span<std::byte const> a,
                    [[maybe_unused]] std::span<std::byte const> b,
                    [[maybe_unused]] std::size_t values,
                    [[maybe_unused]] std::span<std::byte> out) override {
    if constexpr (MergingVariableRate<C>) return coder_.merge(codec_, a, b, values, out);
    return 0;
  }
  void check(std::span<std::byte const> in, std::size_t values, bool plain) const override {
    if (plain)
      uncompressed_stream::check(in, values);
    else
      codec_.check(in, values);
  }
  double error_of([[maybe_unused]] std::span<std::byte const> in) const override {
    if constexpr (BoundedVariableRate<C>) return C::error_of(in);
    return 0;
  }
  void find_nonfinite(std::span<std::byte const> in, std::size_t values, bool plain,
                      std::size_t first_block, code_findings& found) override {
    auto const note = [&](std::size_t i) {
      found.nonfinite = std::min<std::uint64_t>(found.nonfinite, first_block + i);
      ++found.nonfinite_blocks;
    };
    if (plain)
      coder_.for_each_nonfinite(uncompressed_stream{}, in, values, note);
    else
      coder_.for_each_nonfinite(codec_, in, values, note);
  }

 private:
  static C for_ranks(C const& codec, [[maybe_unused]] int ranks) {
    if constexpr (BoundedVariableRate<C>)
      return codec.fitted(static_cast<std::uint32_t>(ranks));
    else
      return codec;
  }
  static bool fits_calls([[maybe_unused]] C const& codec) {
    if constexpr (FittedVariableRate<C>) return codec.fits_calls();
    return false;
  }
  /// Chunks are cut between cache lines.
  static code_layout layout_of_floats(std::size_t values) {
    constexpr std::size_t block = 64;
    std::size_t const last = values == 0 ? 0 : (values - 1) % block + 1;
    return {values, block, block * sizeof(float), last * sizeof(float)};
  }

  int ranks_;
  C given_, codec_;
  code_layout layout_;
  E* executor_;
  stream_coder<C, E> coder_;
};

/// The values of one call.
template <VariableRate C, Executor E> class codec_stream_values final : public stream_values {
 public:
  /// @param x  of the whole vector
  codec_stream_values(codec_streams<C, E>& work, float* x, no_feedback<float>&)
      : work_(&work), x_(x) {}

  std::uint32_t measure() override {
    if constexpr (FittedVariableRate<C>)
      return coder().measure(std::span<float const>(x_, work_->layout().values));
    return 0;
  }
  std::size_t encode(value_range part, bool of_sums, bool plain,
                     std::span<std::byte> out) override {
    return plain ? coder().encode(uncompressed_stream{}, values(part, of_sums), out)
                 : coder().encode(work_->codec(), values(part, of_sums), out);
  }
  std::size_t add_and_encode(value_range part, bool of_sums, std::span<std::byte const> in,
                             std::span<std::byte> out) override {
    return coder().decode_add_encode(work_->codec(), in, values(part, of_sums), out);
  }
  void add_to_sums(value_range part, bool of_sums, std::span<std::byte const> in) override {
    coder().decode_add(work_->codec(), in, values(part, of_sums), sums(part));
  }
  void decode_to_sums(value_range part, std::span<std::byte const> in) override {
    coder().decode(work_->codec(), in, sums(part));
  }
  void decode(value_range part, std::span<std::byte const> in, bool plain, int parts) override {
    std::span const out(x_ + part.first, part.count);
    if (plain)
      coder().decode(uncompressed_stream{}, in, out, parts);
    else
      coder().decode(work_->codec(), in, out, parts);
  }

 private:
  stream_coder<C, E>& coder() const { return work_->coder(); }
  std::span<float> sums(value_range part) const {
    return {coder().sums() + part.first, part.count};
  }
  std::span<float const> values(value_range part, bool of_sums) const {
    return {(of_sums ? coder().sums() : x_) + part.first, part.count};
  }

  codec_streams<C, E>* work_;
  float* x_;
};

}  // namespace hcomp::detail
