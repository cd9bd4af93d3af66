#pragma once
/// @file
/// Means in two phases: ranks send messages to the owners of values; owners send back the mean in
/// the same format. With scaled signs and error feedback this is EF-signSGD in two phases.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/codec/sign/sign.hpp>
#include <hcomp/collective/agreement/report.hpp>
#include <hcomp/core/random.hpp>
#include <hcomp/op/encode.hpp>
#include <hcomp/op/encoded_layout.hpp>
#include <span>
#include <vector>

#include "paced_transport.hpp"
#include "swap_messages.hpp"
#include "synchronizer.hpp"

namespace train {

/// Message format: the mean magnitude of every 4096 values, then the signs.
class scaled_signs {
 public:
  static constexpr std::size_t block = 4096;
  static constexpr bool has_feedback = true;

  /// Bytes of a message in memory: hcomp pads encoded vectors to full blocks.
  static std::size_t bytes(std::size_t values) {
    return scales(values) * sizeof(float) + hcomp::encoded_bytes(hcomp::sign<float>{}, values);
  }
  /// Bytes of a message on the wire, without the padding.
  static std::size_t bytes_sent(std::size_t values) {
    return scales(values) * sizeof(float) + hcomp::layout_of(hcomp::sign<float>{}, values).bytes();
  }
  static void encode(std::span<float const> x, std::span<std::byte> message,
                     hcomp::encode_options const& how) {
    encode(x, message, how, [](std::span<float const> part) {
      double sum = 0;
      for (float const value : part) sum += std::abs(value);
      return sum / static_cast<double>(part.size());
    });
  }
  /// @param scale_of  scale_of(x) returns the scale of a block
  template <class ScaleOf>
  static void encode(std::span<float const> x, std::span<std::byte> message,
                     hcomp::encode_options const& how, ScaleOf const& scale_of) {
    for (std::size_t b = 0; b < scales(x.size()); ++b) {
      auto const part = x.subspan(b * block, std::min(block, x.size() - b * block));
      auto const scale = static_cast<float>(scale_of(part));
      std::memcpy(message.data() + b * sizeof scale, &scale, sizeof scale);
    }
    hcomp::encode(hcomp::sign<float>{}, x, message.subspan(scales(x.size()) * sizeof(float)), how);
  }
  static void decode(std::span<std::byte const> message, std::span<float> x,
                     hcomp::decode_options const& how, int) {
    hcomp::decode(hcomp::sign<float>{}, message.subspan(scales(x.size()) * sizeof(float)), x, how);
    for (std::size_t i = 0; i < x.size(); ++i) {
      float scale;
      std::memcpy(&scale, message.data() + i / block * sizeof scale, sizeof scale);
      x[i] *= scale;
    }
  }

 private:
  static std::size_t scales(std::size_t values) { return (values + block - 1) / block; }
};

/// Each rank owns a share of the values. It sends p = residual + update to the owners. An owner
/// averages the messages, adds the residual of its last answer, and answers all ranks with the
/// result. Without error feedback, all residuals are 0.
///
/// Sends 2 (P - 1) / P times one bit per value, 32 bytes per 32768 and 4 bytes per 4096 values.
/// @tparam Format  scaled_signs, or a class with the same members; decode() gets the sender's rank
template <class Format> class two_phases : public synchronizer {
 public:
  two_phases(std::size_t values, std::uint64_t seed, paced_transport& transport)
      : transport_(&transport), seed_(seed), residual_(values), decoded_(values) {
    auto const ranks = static_cast<std::size_t>(transport.size());
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      auto const at = [&](std::size_t r) { return values * r / ranks; };
      shares_.push_back({at(rank), at(rank + 1) - at(rank)});
      outgoing_.emplace_back(Format::bytes(shares_.back().count));
    }
    answers_ = outgoing_;
    incoming_.assign(ranks, std::vector<std::byte>(outgoing_[own()].size()));
    server_residual_.resize(shares_[own()].count);
  }

  hcomp::report operator()(std::span<float> update, std::uint64_t step, float) override {
    hcomp::report stats;
    hcomp::detail::stopwatch watch;
    for (std::size_t i = 0; i < update.size(); ++i) residual_[i] += update[i];
    for (std::size_t rank = 0; rank < shares_.size(); ++rank)
      send_later(part(residual_, rank), outgoing_[rank], {seed_, step, 0}, part(decoded_, rank));
    watch.add_to(stats.seconds_encode);
    int const me = transport_->rank();
    swap_messages(
        *transport_, [&](int rank) { return sent(outgoing_, rank, rank); },
        [&](int rank) { return sent(incoming_, rank, me); }, stats);
    watch.add_to(stats.seconds_communicate);

    incoming_[own()] = outgoing_[own()];
    auto const mine = part(decoded_, own());
    float const weight = 1 / static_cast<float>(shares_.size());
    for (std::size_t rank = 0; rank < incoming_.size(); ++rank) {
      Format::decode(incoming_[rank], mine, passing_nan({seed_, step, 0}), static_cast<int>(rank));
      for (std::size_t i = 0; i < mine.size(); ++i) server_residual_[i] += weight * mine[i];
    }
    send_later(server_residual_, answers_[own()], {seed_, step, 1}, mine);
    watch.add_to(stats.seconds_merge);
    swap_messages(
        *transport_, [&](int) { return sent(answers_, me, me); },
        [&](int rank) { return sent(answers_, rank, rank); }, stats);
    watch.add_to(stats.seconds_communicate);
    for (std::size_t rank = 0; rank < shares_.size(); ++rank)
      Format::decode(answers_[rank], part(update, rank), {.key = {seed_, step, 1}},
                     static_cast<int>(rank));
    watch.add_to(stats.seconds_decode);
    stats.weight = shares_.size();
    return stats;
  }

 private:
  using messages = std::vector<std::vector<std::byte>>;  ///< one per rank

  std::size_t own() const { return static_cast<std::size_t>(transport_->rank()); }
  std::span<float> part(std::span<float> x, std::size_t rank) const {
    return x.subspan(shares_[rank].first, shares_[rank].count);
  }
  /// Propagates NaN to the answer, so that all ranks throw when they decode it.
  static hcomp::decode_options passing_nan(hcomp::draw_key const& key) {
    return {.key = key, .nonfinite = hcomp::nonfinite_policy::propagate};
  }
  /// Encodes x into the message. Leaves the residual in x.
  void send_later(std::span<float> x, std::span<std::byte> message, hcomp::draw_key const& key,
                  std::span<float> decoded) {
    Format::encode(x, message, {.key = key, .rank = transport_->rank()});
    if (Format::has_feedback)
      Format::decode(message, decoded, passing_nan(key), transport_->rank());
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = Format::has_feedback ? x[i] - decoded[i] : 0;
  }
  /// The bytes on the wire of a message for the share of rank `owner`.
  std::span<std::byte> sent(messages& all, int number, int owner) const {
    return std::span(all[static_cast<std::size_t>(number)])
        .first(Format::bytes_sent(shares_[static_cast<std::size_t>(owner)].count));
  }

  paced_transport* transport_;
  std::uint64_t seed_;
  std::vector<hcomp::value_range> shares_;  ///< shares of the values, by rank
  std::vector<float> residual_, decoded_, server_residual_;
  messages outgoing_, incoming_, answers_;
};

/// EF-signSGD in two phases.
/// Source: Zheng, Huang, Kwok, Communication-efficient distributed blockwise momentum SGD with
/// error-feedback, NeurIPS 2019, Algorithm 2, with shares of the vector instead of one server and
/// blocks of 4096 values instead of layers. Residuals are of updates, rate included.
using dist_ef_sign = two_phases<scaled_signs>;

}  // namespace train
