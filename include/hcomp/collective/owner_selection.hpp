#pragma once
/// @file
/// The one-bit sum with half the ring's traffic: every rank ships only the bits drawn from it.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/codec/detail/owner_tree.hpp>
#include <hcomp/codec/sign.hpp>
#include <hcomp/collective/detail/call_session.hpp>
#include <hcomp/collective/detail/owned_bits.hpp>
#include <hcomp/collective/options.hpp>
#include <hcomp/collective/report.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/exec/executor.hpp>
#include <hcomp/feedback/feedback.hpp>
#include <hcomp/op/block_work.hpp>
#include <hcomp/op/code_layout.hpp>
#include <hcomp/op/detail/code_check.hpp>
#include <hcomp/transport/transport.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace hcomp {

/// The all-reduce of signs in one all-gather: the bits drawn from each rank, and nothing else.
///
/// The merged bit of a value is the bit of one rank drawn at random; with a shared seed every rank
/// knows whose. So each rank sends the bits that are its own, about d / P of d, to all others:
/// d (P - 1) / P bits instead of the ring's 2 d (P - 1) / P, and nothing is merged. The result has
/// the distribution of any merge tree of codec `sign`, and the bits of its balanced tree.
/// With nonfinite_policy::propagate, NaN anywhere makes the whole result NaN.
/// Host memory only; at most 1024 ranks. Interface and errors as for `plan`.
/// Cost: P - 1 exact Bernoulli masks per word, twice, on every rank.
template <class V, Transport T, Executor E> class owner_selection {
  static_assert(E::space == memory_space::host, "owner_selection works in host memory");

 public:
  using value_type = V;

  /// @throws std::invalid_argument  more than 1024 ranks, or as plan
  owner_selection(std::size_t values, sign<V> const& codec, T& transport, E& executor,
                  plan_options const& options = {})
      : session_(codec, values, transport, options, E::space),
        layout_(layout_of(codec, values)),
        executor_(&executor),
        ranks_(static_cast<std::size_t>(transport.size())),
        code_(layout_.bytes()),
        messages_(ranks_ * block_header_bytes + layout_.bytes() + ranks_ * layout_.blocks() + 16),
        counts_(layout_.blocks() * ranks_),
        starts_(layout_.blocks() * ranks_),
        ends_(ranks_) {
    detail::require_owner_ranks("owner_selection", ranks_);
  }
  owner_selection(owner_selection const&) = delete;
  owner_selection& operator=(owner_selection const&) = delete;

  std::size_t values() const { return layout_.values; }
  sign<V> const& codec() const { return session_.codec(); }
  /// Other parameters from the next call on, such as a magnitude that follows a learning rate.
  /// @throws std::invalid_argument  blocks of another size, or a parameter that is not finite
  void set_codec(sign<V> const& codec) {
    if (codec.block_bytes(sign<V>::block_values) != layout_.block_bytes)
      throw std::invalid_argument(
          "set_codec: blocks of " + std::to_string(codec.block_bytes(sign<V>::block_values)) +
          " bytes, the plan was made for " + std::to_string(layout_.block_bytes));
    session_.set_codec(codec);
  }
  plan_options const& options() const { return session_.options(); }

  /// See plan::all_reduce.
  report all_reduce(std::span<V> x, call_options const& call = {}) {
    no_feedback<V> nothing(x.size());
    return all_reduce(x, nothing, call);
  }
  template <Feedback<V> F>
  report all_reduce(std::span<V> x, F& feedback, call_options const& call = {}) {
    auto figures = session_.start(detail::operation::owner_select, x, feedback, call);
    draw_owners();
    pack(x, feedback, call, figures);
    exchange(figures);
    unpack(x, feedback, call, figures);
    feedback.commit();
    return session_.done(figures);
  }

 private:
  T& transport() const { return session_.transport(); }
  std::size_t rank() const { return static_cast<std::size_t>(transport().rank()); }
  std::size_t begin_of(std::size_t r) const { return r == 0 ? 0 : ends_[r - 1]; }

  void draw_owners() {
    weights_.resize(ranks_);
    for (std::size_t r = 0; r < ranks_; ++r) weights_[r] = session_.weight_of(static_cast<int>(r));
    if (tree_weights_ != weights_) {
      tree_ = detail::owner_tree(weights_);
      tree_weights_ = weights_;
    }
  }

  /// Encode, keep what is this rank's, and lay out the messages of all ranks behind each other: a
  /// header, then per block the rank's bits, in whole bytes.
  template <class F>
  void pack(std::span<V const> x, F& feedback, call_options const& call, report& figures) {
    detail::stopwatch watch;
    block_origin const origin{session_.stream(), static_cast<std::uint32_t>(rank()), call.weight,
                              0};
    auto const view = feedback.view(x.data());
    executor_->for_each_block(layout_.blocks(),
                              encode_with_feedback<sign<V>, decltype(view)>{
                                  codec(), layout_, view, code_.data(), origin, false});
    bool nonfinite = false;
    for (std::size_t b = 0; b < layout_.blocks(); ++b)
      nonfinite |= load<block_header>(code_.data() + layout_.offset(b)).flags & block_has_nonfinite;
    executor_->for_each_block(
        layout_.blocks(), detail::pack_owned_bits{layout_, tree_, ranks_, rank(), session_.stream(),
                                                  code_.data(), counts_.data()});
    std::size_t at = 0;
    for (std::size_t r = 0; r < ranks_; ++r) {
      at += block_header_bytes;
      for (std::size_t b = 0; b < layout_.blocks(); ++b) {
        starts_[b * ranks_ + r] = at;
        at += (counts_[b * ranks_ + r] + 7) / 8;
      }
      ends_[r] = at;
    }
    std::byte* const message = messages_.data() + begin_of(rank());
    store(message, 0, header_of(rank(), nonfinite));
    for (std::size_t b = 0; b < layout_.blocks(); ++b)
      std::memcpy(messages_.data() + starts_[b * ranks_ + rank()],
                  code_.data() + layout_.offset(b) + block_header_bytes,
                  (counts_[b * ranks_ + rank()] + 7) / 8);
    if (options().checksum) detail::seal(serial_group{}, message, ends_[rank()] - begin_of(rank()));
    watch.add_to(figures.seconds_encode);
  }

  /// The header of a rank's message: like a block's, of a tag of its own.
  block_header header_of(std::size_t r, bool nonfinite) const {
    return make_header(message_tag, static_cast<int>(layout_.values & 0xffff), nonfinite,
                       {session_.stream(), static_cast<std::uint32_t>(r), weights_[r],
                        static_cast<std::uint32_t>(layout_.blocks())});
  }

  /// Every rank's message to every rank.
  void exchange(report& figures) {
    detail::stopwatch watch;
    sends_.clear();
    receives_.clear();
    auto const message = [&](std::size_t r) {
      return std::span(messages_.data() + begin_of(r), ends_[r] - begin_of(r));
    };
    for (std::size_t h = 1; h < ranks_; ++h) {
      std::size_t const from = (rank() + ranks_ - h) % ranks_;
      receives_.push_back(transport().irecv(static_cast<int>(from), options().tag, message(from)));
    }
    for (std::size_t h = 1; h < ranks_; ++h)
      sends_.push_back(transport().isend(static_cast<int>((rank() + h) % ranks_), options().tag,
                                         message(rank())));
    for (std::size_t h = 1; h < ranks_; ++h) {
      std::size_t const from = (rank() + ranks_ - h) % ranks_;
      std::size_t const came = transport().wait(receives_[h - 1]);
      if (came != message(from).size())
        throw wire_error("owner_selection: rank " + std::to_string(from) + " sent " +
                         std::to_string(came) + " bytes, " + std::to_string(message(from).size()) +
                         " were expected");
    }
    for (auto& request : sends_) transport().wait(request);
    figures.hops += static_cast<int>(ranks_) - 1;
    watch.add_to(figures.seconds_communicate);
  }

  template <class F>
  void unpack(std::span<V> x, F& feedback, call_options const& call, report& figures) {
    detail::stopwatch watch;
    detail::code_findings found;
    block_header merged = make_header(sign<V>::tag, 0, false, {session_.stream(), 0, 0, 0});
    for (std::size_t r = 0; r < ranks_; ++r) {
      std::byte const* const message = messages_.data() + begin_of(r);
      auto const header = load<block_header>(message);
      auto expected = header_of(r, false);
      expected.lowest_rank += 1;  // merge_fault compares blocks of different ranks
      auto fault = merge_fault(header, expected, ~std::uint32_t{0});
      if (fault == block_fault::none && header.lowest_rank != r) fault = block_fault::ranks;
      if (fault == block_fault::none && header.weight != weights_[r]) fault = block_fault::weight;
      if (fault == block_fault::none &&
          !detail::is_intact(serial_group{}, message, ends_[r] - begin_of(r)))
        fault = block_fault::checksum;
      if (fault != block_fault::none && found.damaged == detail::code_findings::nowhere) {
        found.damaged = 0;
        found.fault = static_cast<std::uint64_t>(fault);
      }
      merged.flags |= header.flags & block_has_nonfinite;
      merged.weight += weights_[r];
    }
    if (layout_.blocks() > 0) found.weight = merged.weight;
    if (merged.flags & block_has_nonfinite) {
      found.nonfinite = 0;
      found.nonfinite_blocks = layout_.blocks();
    }
    session_.finish(
        found, options().checksum ? detail::findings::of_all_to_compare : detail::findings::of_all,
        layout_, figures);

    executor_->for_each_block(
        layout_.blocks(),
        detail::unpack_owned_bits{layout_, tree_, ranks_, merged, messages_.data(), starts_.data(),
                                  code_.data()});
    auto const view = feedback.view(x.data());
    decode_blocks<sign<V>> const work{codec(),
                                      layout_,
                                      0,
                                      code_.data(),
                                      x.data(),
                                      call.result,
                                      options().nonfinite == nonfinite_policy::propagate};
    executor_->for_each_block(layout_.blocks(),
                              decode_with_feedback<sign<V>, decltype(view)>{work, view});
    watch.add_to(figures.seconds_decode);
  }

  static constexpr std::uint8_t message_tag = 18;

  detail::call_session<sign<V>, T> session_;
  code_layout layout_;
  E* executor_;
  std::size_t ranks_;
  typename E::buffer code_;
  typename E::buffer messages_;
  std::vector<std::uint32_t> counts_;
  std::vector<std::size_t> starts_;
  std::vector<std::size_t> ends_;
  std::vector<std::uint32_t> weights_, tree_weights_;
  std::vector<detail::owner_node> tree_;
  std::vector<typename T::request> sends_, receives_;
};

}  // namespace hcomp
