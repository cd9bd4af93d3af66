#pragma once
/// @file
/// EF-signSGD with an all-gather. Its messages cannot be merged: every rank needs the messages of
/// all ranks.

#include <cmath>
#include <cstddef>
#include <cstring>
#include <hcomp/codec/sign/sign.hpp>
#include <hcomp/collective/agreement/report.hpp>
#include <hcomp/op/encode.hpp>
#include <hcomp/op/encoded_layout.hpp>
#include <span>
#include <vector>

#include "paced_transport.hpp"
#include "swap_messages.hpp"
#include "synchronizer.hpp"

namespace train {

/// A rank sends the signs of p = residual + update, and mean |p| as the scale. The common update is
/// the mean of all decoded messages. The new residual is p minus the rank's own decoded message.
///
/// Sends P - 1 times one bit per value and 32 bytes per 32768 values. Scales differ between ranks,
/// so messages cannot be added without decoding.
/// Source: Karimireddy et al., Error feedback fixes SignSGD, ICML 2019, Algorithm 1, on P workers.
class ef_sign : public synchronizer {
 public:
  ef_sign(std::size_t values, std::uint64_t seed, paced_transport& transport)
      : transport_(&transport),
        seed_(seed),
        residual_(values),
        decoded_(values),
        messages_(static_cast<std::size_t>(transport.size()),
                  std::vector<std::byte>(sizeof(float) +
                                         hcomp::encoded_bytes(hcomp::sign<float>{}, values))) {}

  hcomp::report operator()(std::span<float> update, std::uint64_t step, float) override {
    hcomp::report stats;
    hcomp::detail::stopwatch watch;
    hcomp::draw_key const key{seed_, step, 0};
    auto const own = static_cast<std::size_t>(transport_->rank());
    encode(update, key, messages_[own]);
    watch.add_to(stats.seconds_encode);

    all_gather(stats);
    watch.add_to(stats.seconds_communicate);

    std::fill(update.begin(), update.end(), 0.0f);
    float const share = 1 / static_cast<float>(messages_.size());
    for (std::size_t rank = 0; rank < messages_.size(); ++rank) {
      decode(messages_[rank], key);
      for (std::size_t i = 0; i < update.size(); ++i) update[i] += share * decoded_[i];
      if (rank == own)
        for (std::size_t i = 0; i < update.size(); ++i) residual_[i] -= decoded_[i];
    }
    watch.add_to(stats.seconds_decode);
    stats.weight = messages_.size();
    return stats;
  }

 private:
  /// Leaves p in the residual.
  void encode(std::span<float const> update, hcomp::draw_key const& key,
              std::span<std::byte> message) {
    double sum = 0;
    for (std::size_t i = 0; i < update.size(); ++i) {
      residual_[i] += update[i];
      sum += std::abs(residual_[i]);
    }
    auto const scale = static_cast<float>(sum / static_cast<double>(update.size()));
    std::memcpy(message.data(), &scale, sizeof scale);
    hcomp::encode(hcomp::sign<float>{}, residual_, message.subspan(sizeof scale),
                  {.key = key, .rank = transport_->rank()});
  }

  void decode(std::span<std::byte const> message, hcomp::draw_key const& key) {
    hcomp::sign<float> codec;
    std::memcpy(&codec.magnitude, message.data(), sizeof codec.magnitude);
    hcomp::decode(codec, message.subspan(sizeof codec.magnitude), decoded_,
                  {.key = key, .op = hcomp::reduce_op::mean});
  }

  /// Sends this rank's message to all ranks, and receives theirs.
  void all_gather(hcomp::report& stats) {
    // in memory, hcomp pads encoded vectors with zeros to full blocks
    auto const bytes =
        sizeof(float) + hcomp::layout_of(hcomp::sign<float>{}, residual_.size()).bytes();
    auto const of_rank = [&](int rank) {
      return std::span(messages_[static_cast<std::size_t>(rank)]).first(bytes);
    };
    swap_messages(
        *transport_, [&](int) { return of_rank(transport_->rank()); }, of_rank, stats);
  }

  paced_transport* transport_;
  std::uint64_t seed_;
  std::vector<float> residual_, decoded_;
  std::vector<std::vector<std::byte>> messages_;  ///< one per rank: scale, signs
};

}  // namespace train
