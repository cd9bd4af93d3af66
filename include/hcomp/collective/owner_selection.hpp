#pragma once
/// @file
/// The one-bit sum with half the ring's traffic: every rank ships only the bits drawn from it.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/detail/owner_tree.hpp>
#include <hcomp/codec/sign.hpp>
#include <hcomp/collective/detail/call_check.hpp>
#include <hcomp/collective/detail/call_session.hpp>
#include <hcomp/collective/detail/codec_terms.hpp>
#include <hcomp/collective/detail/owned_bits.hpp>
#include <hcomp/collective/detail/ready_to_move.hpp>
#include <hcomp/collective/options.hpp>
#include <hcomp/collective/report.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/exec/detail/mirror.hpp>
#include <hcomp/exec/executor.hpp>
#include <hcomp/feedback/feedback.hpp>
#include <hcomp/op/block_work.hpp>
#include <hcomp/op/code_layout.hpp>
#include <hcomp/op/detail/code_check.hpp>
#include <hcomp/transport/any_transport.hpp>
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
/// The vector is cut into groups of blocks of about options.segment_bytes; while the messages of
/// one travel, the next is selected, and then those that have arrived are put back.
/// With nonfinite_policy::propagate, NaN anywhere makes the whole result NaN.
/// At most 1024 ranks. Interface and errors as for `plan`. Where x is on a device, the host waits
/// twice for each group: for the lengths of its messages, and for their headers.
/// Cost: P - 1 exact Bernoulli masks per word, twice, on every rank.
template <class V, Transport T, Executor E> class owner_selection {
 public:
  using value_type = V;

  /// @throws std::invalid_argument  more than 1024 ranks, or as plan
  owner_selection(std::size_t values, sign<V> const& codec, T& transport, E& executor,
                  plan_options const& options = {})
      : transport_(transport),
        codec_(codec),
        session_(terms(codec), values, transport_, options, E::space),
        layout_(layout_of(codec, values)),
        executor_(&executor),
        ranks_(static_cast<std::size_t>(transport.size())),
        group_blocks_(layout_.blocks_per(options.segment_bytes)),
        code_(layout_.bytes()),
        messages_(groups() * ranks_ * (block_header_bytes + gap) + layout_.bytes() +
                  ranks_ * layout_.blocks()),
        tree_(checked(ranks_) - 1),
        counts_(layout_.blocks() * ranks_),
        starts_(layout_.blocks() * ranks_),
        places_(groups() * ranks_),
        inspected_(groups() * ranks_) {}
  owner_selection(owner_selection const&) = delete;
  owner_selection& operator=(owner_selection const&) = delete;

  std::size_t values() const { return layout_.values; }
  sign<V> const& codec() const { return codec_; }
  /// Other parameters from the next call on, such as a magnitude that follows a learning rate.
  /// @throws std::invalid_argument  blocks of another size, or a parameter that is not finite
  void set_codec(sign<V> const& codec) {
    if (codec.block_bytes(sign<V>::block_values) != layout_.block_bytes)
      throw std::invalid_argument(
          "set_codec: blocks of " + std::to_string(codec.block_bytes(sign<V>::block_values)) +
          " bytes, the plan was made for " + std::to_string(layout_.block_bytes));
    session_.set_codec(terms(codec));
    codec_ = codec;
  }
  plan_options const& options() const { return session_.options(); }

  /// See plan::all_reduce.
  report all_reduce(std::span<V> x, call_options const& call = {}) {
    no_feedback<V> nothing(x.size());
    return all_reduce(x, nothing, call);
  }
  template <Feedback<V> F>
  report all_reduce(std::span<V> x, F& feedback, call_options const& call = {}) {
    auto figures = session_.start(detail::operation::owner_select,
                                  detail::arguments_of(executor_, x, feedback), call);
    draw_owners();
    sends_.clear();
    receives_.clear();
    for (std::size_t g = 0; g < groups(); ++g) {
      pack(g, x, feedback, call, figures);
      exchange(g, figures);
    }
    detail::code_findings found;
    auto merged = make_header(sign<V>::tag, 0, false, {session_.stream(), 0, 0, 0});
    for (auto const weight : weights_) merged.weight += weight;
    if (groups() > 0) found.weight = merged.weight;
    for (std::size_t g = 0; g < groups(); ++g) {
      await(g, figures);
      check(g, found, merged);
      unpack(g, merged, figures);
    }
    await_sends(figures);
    session_.finish(
        found, options().checksum ? detail::findings::of_all_to_compare : detail::findings::of_all,
        layout_, figures);
    decode(x, feedback, call, (merged.flags & block_has_nonfinite) != 0, figures);
    feedback.commit();
    return session_.done(figures);
  }

 private:
  static detail::codec_terms terms(sign<V> const& codec) {
    return detail::terms_of(codec, sizeof(V), codec.max_summands());
  }
  any_transport& transport() const { return session_.transport(); }
  std::size_t rank() const { return static_cast<std::size_t>(transport().rank()); }
  /// Whom this rank sends to, and receives from, at place h of its turns: 1 to ranks - 1.
  std::size_t to(std::size_t h) const { return (rank() + h) % ranks_; }
  std::size_t from(std::size_t h) const { return (rank() + ranks_ - h) % ranks_; }

  std::size_t groups() const { return (layout_.blocks() + group_blocks_ - 1) / group_blocks_; }
  block_range blocks_of(std::size_t group) const {
    std::size_t const first = group * group_blocks_;
    return {first, std::min(group_blocks_, layout_.blocks() - first)};
  }
  /// What rank r sends of a group.
  detail::owner_message& place(std::size_t group, std::size_t r) const {
    return places_.here()[group * ranks_ + r];
  }
  std::span<std::byte> message(std::size_t group, std::size_t r) const {
    return {messages_.data() + place(group, r).begin, place(group, r).bytes};
  }
  /// Like a block's, of a tag of its own.
  block_header header_of(std::size_t group, std::size_t r, bool nonfinite) const {
    return make_header(message_tag, static_cast<int>(layout_.values & 0xffff), nonfinite,
                       {session_.stream(), static_cast<std::uint32_t>(r), weights_[r],
                        static_cast<std::uint32_t>(group)});
  }
  template <class Work> void for_each_block(block_range blocks, Work const& work) {
    executor_->for_each_block(blocks.count, shifted<Work>{work, blocks.first});
  }

  static std::size_t checked(std::size_t ranks) {
    detail::require_owner_ranks("owner_selection", ranks);
    return ranks;
  }
  detail::owners owners() const { return {tree_.there(), ranks_, session_.stream()}; }

  void draw_owners() {
    weights_.resize(ranks_);
    for (std::size_t r = 0; r < ranks_; ++r) weights_[r] = session_.weight_of(static_cast<int>(r));
    if (groups() > 0 && tree_weights_ != weights_) {  // without work nobody waits for the copy
      auto const tree = detail::owner_tree(weights_);
      std::copy(tree.begin(), tree.end(), tree_.here());
      tree_.send(*executor_, tree.size());
      tree_weights_ = weights_;
    }
  }

  /// Encode, keep what is this rank's, and lay out the messages of all ranks behind each other.
  template <class F>
  void pack(std::size_t group, std::span<V const> x, F& feedback, call_options const& call,
            report& figures) {
    detail::stopwatch watch;
    block_range const blocks = blocks_of(group);
    block_origin const origin{session_.stream(), static_cast<std::uint32_t>(rank()), call.weight,
                              0};
    auto const view = feedback.view(x.data());
    for_each_block(blocks, encode_with_feedback<sign<V>, decltype(view)>{
                               codec(), layout_, view, code_.data(), origin, false});
    for_each_block(
        blocks, detail::pack_owned_bits{layout_, owners(), rank(), code_.data(), counts_.there()});
    counts_.fetch(*executor_, blocks.count * ranks_, blocks.first * ranks_);
    lay_out(group);
    starts_.send(*executor_, blocks.count * ranks_, blocks.first * ranks_);
    places_.send(*executor_, ranks_, group * ranks_);
    for_each_block(blocks,
                   detail::write_owned_bits{layout_, ranks_, rank(), code_.data(), counts_.there(),
                                            starts_.there(), messages_.data()});
    executor_->for_each_block(
        1, detail::close_owner_message{layout_, blocks, code_.data(), place(group, rank()),
                                       messages_.data(), header_of(group, rank(), false),
                                       options().checksum});
    detail::ready_to_move(transport(), *executor_);
    watch.add_to(figures.seconds_encode);
  }

  void lay_out(std::size_t group) {
    block_range const blocks = blocks_of(group);
    std::size_t end = 0;
    if (group > 0) {
      auto const& before = place(group - 1, ranks_ - 1);
      end = before.begin + before.bytes;
    }
    for (std::size_t r = 0; r < ranks_; ++r) {
      std::size_t const begin = group == 0 && r == 0 ? 0 : (end + gap) / 8 * 8;
      end = begin + block_header_bytes;
      for (std::size_t b = blocks.first; b < blocks.end(); ++b) {
        starts_.here()[b * ranks_ + r] = end;
        end += (counts_.here()[b * ranks_ + r] + 7) / 8;
      }
      place(group, r) = {begin, end - begin};
    }
  }

  /// Every rank's message of a group to every rank.
  void exchange(std::size_t group, report& figures) {
    detail::stopwatch watch;
    for (std::size_t h = 1; h < ranks_; ++h)
      receives_.push_back(
          transport().irecv(static_cast<int>(from(h)), options().tag, message(group, from(h))));
    for (std::size_t h = 1; h < ranks_; ++h)
      sends_.push_back(
          transport().isend(static_cast<int>(to(h)), options().tag, message(group, rank())));
    watch.add_to(figures.seconds_communicate);
  }

  void await(std::size_t group, report& figures) {
    detail::stopwatch watch;
    for (std::size_t h = 1; h < ranks_; ++h) {
      std::size_t const sender = from(h), expected = message(group, sender).size();
      std::size_t const came = transport().wait(receives_[group * (ranks_ - 1) + h - 1]);
      if (came != expected)
        throw wire_error("owner_selection: rank " + std::to_string(sender) + " sent " +
                         std::to_string(came) + " bytes, " + std::to_string(expected) +
                         " were expected");
    }
    watch.add_to(figures.seconds_communicate);
  }
  void await_sends(report& figures) {
    detail::stopwatch watch;
    for (auto& request : sends_) transport().wait(request);
    if (groups() > 0) figures.hops += static_cast<int>(ranks_) - 1;
    watch.add_to(figures.seconds_communicate);
  }

  /// What the headers of a group's messages say. `merged` gets the flags of all.
  void check(std::size_t group, detail::code_findings& found, block_header& merged) {
    executor_->for_each_block(
        ranks_, shifted<detail::inspect_messages>{
                    {places_.there(), messages_.data(), inspected_.there()}, group * ranks_});
    inspected_.fetch(*executor_, ranks_, group * ranks_);
    for (std::size_t r = 0; r < ranks_; ++r) {
      auto const& [header, is_intact] = inspected_.here()[group * ranks_ + r];
      auto fault = mismatch(header, header_of(group, r, false));
      if (fault == block_fault::none && header.lowest_rank != r) fault = block_fault::ranks;
      if (fault == block_fault::none && header.weight != weights_[r]) fault = block_fault::weight;
      if (fault == block_fault::none && !is_intact) fault = block_fault::checksum;
      if (fault != block_fault::none && found.damaged == detail::code_findings::nowhere) {
        found.damaged = blocks_of(group).first;
        found.fault = static_cast<std::uint64_t>(fault);
      }
      merged.flags |= header.flags & block_has_nonfinite;
    }
    if (merged.flags & block_has_nonfinite) {
      found.nonfinite = 0;
      found.nonfinite_blocks = layout_.blocks();
    }
  }

  void unpack(std::size_t group, block_header const& merged, report& figures) {
    detail::stopwatch watch;
    for_each_block(blocks_of(group),
                   detail::unpack_owned_bits{layout_, owners(), merged, messages_.data(),
                                             starts_.there(), code_.data()});
    watch.add_to(figures.seconds_decode);
  }

  template <class F>
  void decode(std::span<V> x, F& feedback, call_options const& call, bool nonfinite,
              report& figures) {
    detail::stopwatch watch;
    auto const view = feedback.view(x.data());
    bool const spread = nonfinite && options().nonfinite == nonfinite_policy::propagate;
    if (spread)
      executor_->for_each_block(layout_.blocks(), detail::mark_nonfinite{layout_, code_.data()});
    decode_blocks<sign<V>> const work{codec(),  layout_,     0,     code_.data(),
                                      x.data(), call.result, spread};
    executor_->for_each_block(layout_.blocks(),
                              decode_with_feedback<sign<V>, decltype(view)>{work, view});
    watch.add_to(figures.seconds_decode);
  }

  static constexpr std::uint8_t message_tag = 18;
  /// Bytes between messages, of which up to 7 go for beginning at a multiple of 8: putting bits
  /// back reads whole words, while others still arrive.
  static constexpr std::size_t gap = 24;

  detail::erased_transport<T> transport_;
  sign<V> codec_;
  detail::call_session session_;
  code_layout layout_;
  E* executor_;
  std::size_t ranks_;
  std::size_t group_blocks_;
  typename E::buffer code_;
  typename E::buffer messages_;
  detail::mirror<detail::owner_node, E> tree_;
  detail::mirror<std::uint32_t, E> counts_;
  detail::mirror<std::size_t, E> starts_;
  detail::mirror<detail::owner_message, E> places_;
  detail::mirror<detail::inspected_message, E> inspected_;
  std::vector<std::uint32_t> weights_, tree_weights_;
  std::vector<any_transport::request> sends_, receives_;
};

}  // namespace hcomp
