#pragma once
/// @file
/// The mean of vectors through an aggregator that may answer before all workers have contributed,
/// over links that may lose packets.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/codec/block_header.hpp>
#include <hcomp/codec/compressor.hpp>
#include <hcomp/codec/device_hints.hpp>
#include <hcomp/collective/aggregation/aggregation_layout.hpp>
#include <hcomp/collective/aggregation/aggregation_packet.hpp>
#include <hcomp/collective/aggregation/detail/partial_sums.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/detail/error_text.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/core/group.hpp>
#include <hcomp/core/random.hpp>
#include <hcomp/feedback/feedback.hpp>
#include <hcomp/transport/detail/deadline.hpp>
#include <hcomp/transport/packet_link.hpp>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace hcomp {

/// Options of a worker; equal on all workers except the timeouts.
struct aggregated_mean_options {
  aggregation_options share = {};
  nonfinite_policy nonfinite = nonfinite_policy::throw_error;
  /// How long a worker waits for the norms of a call; longer than the aggregators' deadline.
  std::chrono::nanoseconds norm_timeout = std::chrono::seconds(5);
  /// Then, how long it waits for partial sums. Missing coordinates are 0, in the rotated domain.
  std::chrono::nanoseconds timeout = std::chrono::seconds(2);
  /// Time after which a worker resends packets without an answer; 0: never.
  std::chrono::nanoseconds resend_after = std::chrono::milliseconds(100);
  bool resend_indices = true;  ///< false: resends only norms, without which indices cannot be sent
  /// Contributions that missed their sum stay in this rank's residual. False: they count as sent,
  /// and are lost.
  bool late_to_residual = true;
};

/// Report of one call on one worker.
struct aggregation_report {
  std::uint64_t bytes_sent = 0;     ///< by this worker
  std::size_t chunks = 0;           ///< in the vector
  std::size_t lost = 0;             ///< chunks without a sum in time, all 0 here
  std::size_t left_out = 0;         ///< chunks whose sum lacks this worker
  std::size_t resent = 0;           ///< packets sent again
  std::uint64_t contributions = 0;  ///< in all received sums, of all workers
};

/// A worker of an aggregation: averages vectors of one size with one codec.
///
/// All workers make the same number of `average` calls; the other ranks of the link run
/// serve_aggregation with `layout().aggregator()`. In every call workers send norms and receive
/// their maxima, then send indices of b bits and receive sums. A sum of k workers is divided by k,
/// chunk by chunk. The mean is over the workers that were in time, who may differ between chunks.
/// Ranks that received every partial sum have the same bits.
///
/// A call takes at most the sum of the timeouts. The link is used, not owned. One call at a time.
/// Memory: 3 bytes per value. Source: Li et al., THC, NSDI 2024.
template <IndexCodec C, PacketLink L> class aggregated_mean {
 public:
  using value_type = typename C::value_type;

  /// @throws std::invalid_argument  as aggregation_layout; the link's rank is not a worker
  aggregated_mean(std::size_t values, C const& codec, L& link,
                  aggregated_mean_options const& options)
      : layout_(values, codec, link.size(), options.share),
        sums_(layout_),
        link_(&link),
        options_(options),
        mine_(layout_.words()),
        indices_(layout_.coordinates()),
        encoded_(layout_.blocks().blocks()),
        block_nonfinite_(layout_.blocks().blocks()) {
    if (link.rank() >= layout_.workers())
      throw std::invalid_argument(
          detail::error_text({"aggregated_mean: rank ", link.rank(), " is none of the ",
                              layout_.workers(), " workers"}));
    // Each holds either kind of packet, in either direction.
    std::size_t const longest =
        std::max(packet_bytes(layout_.chunk_values(), 16, layout_.workers()),
                 packet_bytes(aggregation_layout<C>::chunk_words, 32, layout_.workers()));
    out_.resize(longest);
    in_.resize(longest + 1);
  }
  aggregated_mean(aggregated_mean const&) = delete;
  aggregated_mean& operator=(aggregated_mean const&) = delete;

  std::size_t values() const { return layout_.blocks().values; }
  C const& codec() const { return layout_.codec(); }
  aggregation_layout<C> const& layout() const { return layout_; }
  aggregated_mean_options const& options() const { return options_; }

  /// The mean of x over the workers whose contributions were in time, in place.
  ///
  /// @param key  of the shared draws; a new step for every call, equal on all workers
  /// @throws std::invalid_argument  x has another size
  /// @throws nonfinite_error        NaN or infinity on a worker whose sum was received, or an
  ///                                overflow of the mean, with the policy throw_error; x and
  ///                                feedback are unchanged
  /// @throws transport_error        no packet was received; x and feedback are unchanged
  aggregation_report average(std::span<value_type> x, draw_key const& key) {
    no_feedback<value_type> nothing(x.size());
    return average(x, nothing, key);
  }
  /// The same with error feedback: averages the sum of x and what `feedback` adds to it.
  template <Feedback<value_type> F>
  aggregation_report average(std::span<value_type> x, F& feedback, draw_key const& key) {
    if (x.size() != values() || feedback.values() != values())
      throw std::invalid_argument(
          detail::error_text({"aggregated_mean: ", x.size(), " values and feedback for ",
                              feedback.values(), ", the aggregation was made for ", values()}));
    if (auto const why = feedback_refusal_of(codec()); feedback.data() && !why.empty())
      throw std::invalid_argument(detail::error_text({"aggregated_mean: ", why}));
    report_ = {};
    report_.chunks = layout_.chunks();
    key_ = philox_key(key);
    sums_.begin(round_++, key_, link_->rank());
    std::fill(block_nonfinite_.begin(), block_nonfinite_.end(), char{0});
    std::fill(encoded_.begin(), encoded_.end(), char{0});
    std::uint64_t const before = link_->bytes_sent();
    if (values() > 0) {
      auto const view = feedback.view(x.data());
      measure(view.source());
      for (std::size_t c = 0; c < layout_.word_chunks(); ++c) send_words(c);
      collect(
          layout_.word_chunks(), options_.norm_timeout, true,
          [&](std::size_t c) { return sums_.has_words(c); },
          [&](std::size_t c) { return send_words(c); });
      encode(view.source());
      collect(
          layout_.chunks(), options_.timeout, options_.resend_indices,
          [&](std::size_t c) { return sums_.members(c) > 0; },
          [&](std::size_t c) { return encode(view.source()) + send_indices(c); });
      finish();
      for (std::size_t b = 0; b < layout_.blocks().blocks(); ++b) remember(view, b);
      for (std::size_t b = 0; b < layout_.blocks().blocks(); ++b) decode(view, b, x);
    }
    feedback.commit();
    report_.bytes_sent = link_->bytes_sent() - before;
    return report_;
  }

  /// Tells the aggregators that this worker makes no more calls. They end when all workers have
  /// left.
  void leave() {
    aggregation_packet header;
    header.kind = packet_kind::leave;
    header.rank = static_cast<std::uint16_t>(link_->rank());
    store(out_.data(), 0, header);
    for (int a = 0; a < layout_.aggregators(); ++a)
      link_->send(layout_.workers() + a, {out_.data(), packet_header_bytes});
  }

 private:
  using group = simd_group;
  std::size_t first_of(std::size_t b) const { return b * layout_.blocks().block_values; }

  template <class Source> void measure(Source const& x) {
    for (std::size_t b = 0; b < layout_.blocks().blocks(); ++b)
      codec().measure_block(group{}, x + first_of(b), layout_.blocks().values_in(b),
                            mine_.data() + b * layout_.words_per_block());
  }

  /// Encodes and sends every block with known norms, once.
  template <class Source> std::size_t encode(Source const& x) {
    std::size_t sent = 0;
    for (std::size_t b = 0; b < layout_.blocks().blocks(); ++b) {
      if (encoded_[b] || !sums_.has_words_of_block(b)) continue;
      int const n = layout_.blocks().values_in(b);
      block_origin const origin{key_, static_cast<std::uint32_t>(link_->rank()), 1,
                                static_cast<std::uint32_t>(b), sums_.norms_of_block(b)};
      block_nonfinite_[b] = codec().encode_indices(group{}, x + first_of(b), n,
                                                   indices_.data() + first_of(b), origin);
      encoded_[b] = 1;
      std::size_t const unit = layout_.chunk_values();
      auto const count = static_cast<std::size_t>(codec().coordinates(n));
      for (std::size_t c = first_of(b) / unit; c * unit < first_of(b) + count; ++c)
        sent += send_indices(c);
    }
    return sent;
  }

  bool send_words(std::size_t c) {
    aggregation_packet header = sums_.header(packet_kind::words, c);
    header.values = layout_.words_in(c);
    store(out_.data(), 0, header);
    std::memcpy(out_.data() + packet_header_bytes,
                mine_.data() + c * aggregation_layout<C>::chunk_words, header.values * 4u);
    link_->send(layout_.aggregator_of(c), {out_.data(), packet_bytes(header.values, 32)});
    return true;
  }

  /// False for chunks that are not encoded because their norms are missing.
  bool send_indices(std::size_t c) {
    std::size_t const first = c * layout_.chunk_values(), b = first / C::block_values;
    if (!encoded_[b]) return false;
    aggregation_packet header = sums_.header(packet_kind::indices, c);
    if (block_nonfinite_[b]) header.flags = packet_has_nonfinite;
    header.values = layout_.values_in(c);
    store(out_.data(), 0, header);
    detail::pack_indices(out_.data() + packet_header_bytes, indices_.data() + first, header.values,
                         header.bits);
    link_->send(layout_.aggregator_of(c), {out_.data(), packet_bytes(header.values, header.bits)});
    return true;
  }

  /// Receives until all `count` chunks are complete, or until the timeout.
  template <class Has, class Send>
  void collect(std::size_t count, std::chrono::nanoseconds timeout, bool resends, Has const& has,
               Send const& send_again) {
    std::size_t first = 0;  // all chunks before it are complete
    bool const sends_again = resends && options_.resend_after.count() > 0;
    detail::deadline limit(std::max(timeout, std::chrono::nanoseconds(1)), link_->now());
    auto resend = link_->now() + options_.resend_after;
    while (true) {
      while (first < count && has(first)) ++first;
      auto const now = link_->now();
      if (first == count || limit.passed(now)) return;
      if (sends_again && now >= resend) {
        for (std::size_t c = first; c < count; ++c)
          if (!has(c)) report_.resent += send_again(c);
        resend = now + options_.resend_after;
      }
      auto const got = link_->receive(
          in_, sends_again ? std::min(limit.longest_sleep(), resend - now) : limit.longest_sleep());
      if (got.from >= layout_.workers() && got.bytes < in_.size())
        sums_.take(got.from, {in_.data(), got.bytes});
    }
  }

  /// Counts, and throws the errors of the call.
  void finish() {
    for (std::size_t c = 0; c < layout_.chunks(); ++c) {
      report_.contributions += static_cast<std::uint64_t>(sums_.members(c));
      if (sums_.members(c) == 0) ++report_.lost;
      if (sums_.members(c) > 0 && !sums_.has_me(c)) ++report_.left_out;
      if (sums_.has_nonfinite(c))
        block_nonfinite_[c * layout_.chunk_values() / C::block_values] = 1;
    }
    if (report_.lost == layout_.chunks())
      throw transport_error(
          layout_.workers(),
          detail::error_text({"aggregated_mean: none of ", report_.chunks, " sums came from ",
                              layout_.aggregators(), " aggregators (ranks ", layout_.workers(),
                              " on) within ", milliseconds(options_.norm_timeout),
                              " ms for norms and ", milliseconds(options_.timeout),
                              " ms for sums"}));
    if (options_.nonfinite != nonfinite_policy::throw_error) return;
    for (std::size_t b = 0; b < layout_.blocks().blocks(); ++b) {
      if (!block_nonfinite_[b] && sums_.stays_finite(b)) continue;
      throw nonfinite_error(detail::error_text(
          {"aggregated_mean: codec '", C::name, "', ",
           block_nonfinite_[b] ? "NaN or infinity in block " : "a mean that overflows in block ", b,
           " (values ", first_of(b), " to ",
           first_of(b) + static_cast<std::size_t>(layout_.blocks().values_in(b)) - 1,
           block_nonfinite_[b] ? ") of some worker" : ")"}));
    }
  }

  static std::string milliseconds(std::chrono::nanoseconds time) {
    return std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(time).count());
  }

  /// Passes this worker's contribution to the error feedback.
  template <class View> void remember(View const& view, std::size_t b) {
    int const n = layout_.blocks().values_in(b);
    view.encoded(group{}, first_of(b), n, [&](auto* to) {
      auto const* const block = sums_.own_block(
          b, encoded_[b] ? indices_.data() + first_of(b) : nullptr, options_.late_to_residual);
      sums_.codec().decode_block(group{}, block, n, to, reduce_op::mean);
    });
  }

  template <class View> void decode(View const& view, std::size_t b, std::span<value_type> x) {
    int const n = layout_.blocks().values_in(b);
    value_type* const out = x.data() + first_of(b);
    view.decoded(group{}, first_of(b), n, out, [&] {
      if (block_nonfinite_[b] && options_.nonfinite == nonfinite_policy::propagate)
        std::fill_n(out, n, static_cast<value_type>(std::numeric_limits<float>::quiet_NaN()));
      else
        sums_.decode(b, out);
    });
  }

  aggregation_layout<C> layout_;
  detail::partial_sums<C> sums_;
  L* link_;
  aggregated_mean_options options_;
  std::vector<std::uint32_t> mine_;              ///< this worker's norms
  std::vector<std::uint8_t> indices_;            ///< of all coordinates
  std::vector<char> encoded_, block_nonfinite_;  ///< per block
  std::vector<std::byte> out_, in_;              ///< one packet each
  std::uint64_t key_ = 0;
  std::uint32_t round_ = 0;
  aggregation_report report_;
};

}  // namespace hcomp
