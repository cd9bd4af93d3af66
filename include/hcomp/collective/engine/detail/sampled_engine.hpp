#pragma once
/// @file
/// One-bit all-reduce with half the ring's traffic: every rank sends only the bits drawn from it.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/block_header.hpp>
#include <hcomp/codec/compressor.hpp>
#include <hcomp/codec/sign/detail/sampling_tree.hpp>
#include <hcomp/collective/agreement/detail/call_check.hpp>
#include <hcomp/collective/agreement/options.hpp>
#include <hcomp/collective/agreement/report.hpp>
#include <hcomp/collective/engine/detail/call_session.hpp>
#include <hcomp/collective/engine/detail/code_work.hpp>
#include <hcomp/collective/engine/detail/collective_engine.hpp>
#include <hcomp/collective/engine/detail/sampled_bits.hpp>
#include <hcomp/core/codec_ids.hpp>
#include <hcomp/core/detail/error_text.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/exec/executor.hpp>
#include <hcomp/exec/mirror.hpp>
#include <hcomp/op/block_work.hpp>
#include <hcomp/op/detail/encoded_check.hpp>
#include <hcomp/op/encoded_layout.hpp>
#include <hcomp/transport/any_transport.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace hcomp::detail {

static_assert(facts_of(algorithm_kind::sampled).most_ranks == sampling::max_ranks);

/// Algorithm `sampled`: all-reduce of signs in one all-gather.
///
/// The merged bit of a value is the bit of one rank drawn at random; with a shared seed every rank
/// knows which rank. So each rank sends its own bits, about d / P of d, to all other ranks: d (P -
/// 1) / P bits instead of the ring's 2 d (P - 1) / P, and nothing is merged. The result has the
/// distribution of any merge tree of codec `sign`; with up to 10 ranks it also has the bits of the
/// balanced tree.
///
/// The vector is cut into slices of blocks of about options.segment_bytes. While the messages of
/// one slice travel, the next slice is selected, and then slices that have arrived are scattered.
/// If x is on a device, the host waits twice per slice: for the lengths of its messages, and for
/// their headers.
///
/// Cost on every rank: up to 10 ranks, P - 1 exact Bernoulli masks per word, twice; above that, one
/// lot and one bit position per value, twice, for every P.
template <Executor E> class sampled_engine final : public collective_engine<value_work> {
 public:
  /// @throws std::invalid_argument  more than 1024 ranks, or as block_engine
  sampled_engine(block_engine_settings const& made_for, E& executor, any_transport& transport,
                 plan_options const& options)
      : collective_engine(made_for.codec, made_for.layout, transport, options, made_for.space),
        executor_(&executor),
        ranks_(checked(static_cast<std::size_t>(transport.size()))),
        slice_blocks_(layout_.blocks_per(options.segment_bytes)),
        encoded_(layout_.bytes()),
        messages_(slices() * ranks_ * (block_header_bytes + gap) + layout_.bytes() +
                  ranks_ * layout_.blocks()),
        tree_(draws_lots() ? 0 : ranks_ - 1),
        cells_(draws_lots() ? ranks_ : 0),
        counts_(layout_.blocks() * ranks_),
        starts_(layout_.blocks() * ranks_),
        places_(slices() * ranks_),
        inspected_(slices() * ranks_) {}

  block_range shard_blocks() const override { return layout_.all(); }

  report all_reduce(call_arguments const& given, value_work& values,
                    call_options const& call) override {
    auto stats = session_.start(operation::sampled_all_reduce, given, call);
    draw_owners();
    sends_.clear();
    receives_.clear();
    for (std::size_t g = 0; g < slices(); ++g) {
      pack(g, values, call, stats);
      exchange(g, stats);
    }
    encoded_findings found;
    auto merged = make_header(session_.codec().codec_id, 0, false, {session_.key(), 0, 0, 0});
    for (auto const weight : weights_) merged.weight += weight;
    if (slices() > 0) found.weight = merged.weight;
    for (std::size_t g = 0; g < slices(); ++g) {
      await(g, stats);
      check(g, found, merged);
      unpack(g, merged, stats);
    }
    await_sends(stats);
    session_.finish(found, options().checksum ? findings::of_all_to_compare : findings::of_all,
                    layout_, stats);
    decode(values, call, (merged.flags & block_has_nonfinite) != 0, stats);
    return session_.done(stats);
  }
  report reduce_scatter(call_arguments const& given, value_work&,
                        call_options const& call) override {
    return refuse(operation::reduce_scatter, given, call);
  }
  report all_gather(call_arguments const& given, value_work&, call_options const& call) override {
    return refuse(operation::all_gather, given, call);
  }

 private:
  /// @throws std::invalid_argument  on all ranks alike
  report refuse(operation what, call_arguments const& given, call_options const& call) {
    session_.start(what, given, call);
    throw std::invalid_argument(
        error_text({to_text(what), ": algorithm 'sampled' knows only all_reduce"}));
  }
  std::size_t rank() const { return static_cast<std::size_t>(transport().rank()); }
  /// The ranks that this rank sends to and receives from in turn h, 1 to ranks - 1.
  std::size_t to(std::size_t h) const { return (rank() + h) % ranks_; }
  std::size_t from(std::size_t h) const { return (rank() + ranks_ - h) % ranks_; }

  std::size_t slices() const { return (layout_.blocks() + slice_blocks_ - 1) / slice_blocks_; }
  block_range blocks_of(std::size_t slice) const {
    std::size_t const first = slice * slice_blocks_;
    return {first, std::min(slice_blocks_, layout_.blocks() - first)};
  }
  /// The message of rank r for a slice.
  sampled_message& place(std::size_t slice, std::size_t r) const {
    return places_.for_host()[slice * ranks_ + r];
  }
  std::span<std::byte> message(std::size_t slice, std::size_t r) const {
    return {messages_.data() + place(slice, r).begin, place(slice, r).bytes};
  }
  /// Like the header of a block, with its own codec_id.
  block_header header_of(std::size_t slice, std::size_t r, bool nonfinite) const {
    return make_header(codec_ids::sampled_bits, static_cast<int>(layout_.values & 0xffff),
                       nonfinite,
                       {session_.key(), static_cast<std::uint32_t>(r), weights_[r],
                        static_cast<std::uint32_t>(slice), nullptr, options().checksum});
  }
  template <class Work> void for_each_block(block_range blocks, Work const& work) {
    executor_->for_each_block(blocks.count, shifted<Work>{work, blocks.first});
  }

  static std::size_t checked(std::size_t ranks) {
    sampling::require_ranks("plan: algorithm sampled", ranks);
    return ranks;
  }
  detail::owners owners() const {
    sampling::lots const lots{has_cells_ ? cells_.for_work() : nullptr,
                              static_cast<std::uint32_t>(ranks_)};
    return {draws_lots() ? nullptr : tree_.for_work(), lots, ranks_, session_.key()};
  }
  bool draws_lots() const { return ranks_ > sampling::most_by_masks; }

  void draw_owners() {
    weights_.resize(ranks_);
    for (std::size_t r = 0; r < ranks_; ++r) weights_[r] = session_.weight_of(static_cast<int>(r));
    // With no slice, nothing would wait for the copy.
    if (slices() == 0 || weights_ == drawn_by_) return;
    if (draws_lots()) {
      auto const cells = sampling::cells_of(weights_);
      std::copy(cells.begin(), cells.end(), cells_.for_host());
      cells_.send(*executor_, cells.size());
      has_cells_ = !cells.empty();
    } else {
      auto const tree = sampling::tree_of(weights_);
      std::copy(tree.begin(), tree.end(), tree_.for_host());
      tree_.send(*executor_, tree.size());
    }
    drawn_by_ = weights_;
  }

  /// Encodes, keeps this rank's bits, and lays out the messages of all ranks contiguously.
  void pack(std::size_t slice, value_work& values, call_options const& call, report& stats) {
    stopwatch watch;
    block_range const blocks = blocks_of(slice);
    values.encode(blocks, encoded_.data(),
                  {session_.key(), static_cast<std::uint32_t>(rank()), call.weight, 0});
    for_each_block(blocks,
                   pack_owned_bits{layout_, owners(), rank(), encoded_.data(), counts_.for_work()});
    counts_.fetch(*executor_, blocks.count * ranks_, blocks.first * ranks_);
    lay_out(slice);
    starts_.send(*executor_, blocks.count * ranks_, blocks.first * ranks_);
    places_.send(*executor_, ranks_, slice * ranks_);
    for_each_block(blocks,
                   write_owned_bits{layout_, ranks_, rank(), encoded_.data(), counts_.for_work(),
                                    starts_.for_work(), messages_.data()});
    executor_->for_each_block(
        1, close_sampled_message{layout_, blocks, encoded_.data(), place(slice, rank()),
                                 messages_.data(), header_of(slice, rank(), false)});
    if (!transport().waits_for_work()) executor_->synchronize();
    watch.add_to(stats.seconds_encode);
  }

  void lay_out(std::size_t slice) {
    block_range const blocks = blocks_of(slice);
    std::size_t end = 0;
    if (slice > 0) {
      auto const& before = place(slice - 1, ranks_ - 1);
      end = before.begin + before.bytes;
    }
    for (std::size_t r = 0; r < ranks_; ++r) {
      std::size_t const begin = slice == 0 && r == 0 ? 0 : (end + gap) / 8 * 8;
      end = begin + block_header_bytes;
      for (std::size_t b = blocks.first; b < blocks.end(); ++b) {
        starts_.for_host()[b * ranks_ + r] = end;
        end += (counts_.for_host()[b * ranks_ + r] + 7) / 8;
      }
      place(slice, r) = {begin, end - begin};
    }
  }

  /// Sends every rank's message of a slice to every rank.
  void exchange(std::size_t slice, report& stats) {
    stopwatch watch;
    for (std::size_t h = 1; h < ranks_; ++h)
      receives_.push_back(
          transport().irecv(static_cast<int>(from(h)), options().tag, message(slice, from(h))));
    for (std::size_t h = 1; h < ranks_; ++h)
      sends_.push_back(
          transport().isend(static_cast<int>(to(h)), options().tag, message(slice, rank())));
    watch.add_to(stats.seconds_communicate);
  }

  void await(std::size_t slice, report& stats) {
    stopwatch watch;
    for (std::size_t h = 1; h < ranks_; ++h) {
      std::size_t const sender = from(h), expected = message(slice, sender).size();
      std::size_t const came = transport().wait(receives_[slice * (ranks_ - 1) + h - 1]);
      if (came != expected)
        revoke(transport(), error_text({"all_reduce: rank ", sender, " sent ", came, " bytes, ",
                                        expected, " were expected"}));
    }
    watch.add_to(stats.seconds_communicate);
  }
  void await_sends(report& stats) {
    stopwatch watch;
    for (auto& request : sends_) transport().wait(request);
    if (slices() > 0) stats.hops += static_cast<int>(ranks_) - 1;
    watch.add_to(stats.seconds_communicate);
  }

  /// Checks the headers of a slice's messages. `merged` gets the flags of all ranks.
  void check(std::size_t slice, encoded_findings& found, block_header& merged) {
    executor_->for_each_block(
        ranks_, shifted<inspect_messages>{
                    {places_.for_work(), messages_.data(), inspected_.for_work()}, slice * ranks_});
    inspected_.fetch(*executor_, ranks_, slice * ranks_);
    for (std::size_t r = 0; r < ranks_; ++r) {
      auto const& [header, is_intact] = inspected_.for_host()[slice * ranks_ + r];
      auto fault = mismatch(header, header_of(slice, r, false));
      if (fault == block_fault::none && header.lowest_rank != r) fault = block_fault::ranks;
      if (fault == block_fault::none && header.weight != weights_[r]) fault = block_fault::weight;
      if (fault == block_fault::none && !is_intact) fault = block_fault::checksum;
      if (fault != block_fault::none && found.damaged == encoded_findings::nowhere) {
        found.damaged = blocks_of(slice).first;
        found.fault = static_cast<std::uint64_t>(fault);
      }
      merged.flags |= header.flags & block_has_nonfinite;
    }
    if (merged.flags & block_has_nonfinite) {
      found.nonfinite = 0;
      found.nonfinite_blocks = layout_.blocks();
    }
  }

  void unpack(std::size_t slice, block_header const& merged, report& stats) {
    stopwatch watch;
    for_each_block(blocks_of(slice), unpack_owned_bits{layout_, owners(), merged, messages_.data(),
                                                       starts_.for_work(), encoded_.data()});
    watch.add_to(stats.seconds_decode);
  }

  void decode(value_work& values, call_options const& call, bool nonfinite, report& stats) {
    stopwatch watch;
    bool const spread = nonfinite && options().nonfinite == nonfinite_policy::propagate;
    if (spread)
      executor_->for_each_block(layout_.blocks(), mark_nonfinite{layout_, encoded_.data()});
    values.decode(layout_.all(), encoded_.data(), call.op, spread);
    watch.add_to(stats.seconds_decode);
  }

  /// Bytes between messages, up to 7 of them for alignment to 8: scattering bits reads complete
  /// words while other messages still arrive.
  static constexpr std::size_t gap = 24;

  E* executor_;
  std::size_t ranks_;
  std::size_t slice_blocks_;
  typename E::buffer encoded_;
  typename E::buffer messages_;
  mirror<sampling::node, E> tree_;         ///< for few ranks
  mirror<sampling::alias_cell, E> cells_;  ///< for many ranks, see lots
  mirror<std::uint32_t, E> counts_;
  mirror<std::size_t, E> starts_;
  mirror<sampled_message, E> places_;
  mirror<inspected_message, E> inspected_;
  bool has_cells_ = false;
  std::vector<std::uint32_t> weights_, drawn_by_;
  std::vector<any_transport::request> sends_, receives_;
};

}  // namespace hcomp::detail
