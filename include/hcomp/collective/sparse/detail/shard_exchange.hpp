#pragma once
/// @file
/// Sparse reductions by shards: every rank sends every owner its part of the owner's shard, and
/// owners add the parts and send the result to all ranks.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/block_header.hpp>
#include <hcomp/codec/compressor.hpp>
#include <hcomp/codec/sparse_strategy.hpp>
#include <hcomp/collective/agreement/agreement.hpp>
#include <hcomp/collective/agreement/detail/call_check.hpp>
#include <hcomp/collective/agreement/options.hpp>
#include <hcomp/collective/agreement/report.hpp>
#include <hcomp/collective/engine/detail/code_work.hpp>
#include <hcomp/collective/sparse/detail/shard_work.hpp>
#include <hcomp/collective/sparse/detail/sparse_work.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/core/hash.hpp>
#include <hcomp/op/detail/encoded_check.hpp>
#include <hcomp/transport/any_transport.hpp>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace hcomp::detail {

/// Shards of vectors of one size, and host memory for their messages. The memory is allocated in
/// the first call, for the longest possible messages; only transferred bytes are touched.
class shard_exchange {
 public:
  /// @param of  its shard_work must outlive this
  shard_exchange(sparse_engine_settings const& of, any_transport& transport,
                 plan_options const& options)
      : codec_(of.codec.name),
        layout_(shards_of(of.layout.values, transport)),
        work_(of.shards),
        lane_bytes_(of.lane_bytes),
        parts_at_once_(of.space == memory_space::device ? layout_.ranks : 1),
        transport_(&transport),
        options_(options) {}

  sparse_shard shard() const { return layout_.mine(); }

  /// Exchanges parts and reduced shards, which are decoded into memory beside x. Returns faults, by
  /// words of the index.
  /// @param key  of the call
  /// @throws nonfinite_error  before anything is sent: a unit cannot represent NaN and infinity
  encoded_findings run(operation what, std::span<float> x, reduce_op op, std::uint64_t key,
                       report& stats) {
    if (leaving_.empty()) allocate();
    stopwatch watch;
    auto exponents = work_->start(what, x, op);
    watch.add_to(stats.seconds_encode);
    key_ = key;
    unit_ = 0;
    if (exponents) agree_on(*exponents);
    watch.add_to(stats.seconds_communicate);

    bool const has_parts = what != operation::all_gather,
               has_sums = what != operation::reduce_scatter;
    sends_.clear();
    receives_.clear();
    next_ = 0;
    if (has_parts && shard().count > 0)
      for (std::size_t r = 0; r < ranks(); ++r)
        if (r != rank()) receive(r, inbox_of(r));
    if (has_sums)
      for_shards([&](std::size_t owner, sparse_shard const&) {
        if (owner != rank()) receive(owner, sums_of(owner));
      });
    if (has_parts) send_parts(stats);
    auto found = add_parts(has_parts, stats);
    if (has_sums) found.merge(exchange_sums(what, found, stats));
    found.weight = has_parts ? layout_.ranks : 1;
    return found;
  }
  /// Writes the decoded shards into x.
  void write() { work_->write(unit_); }

  /// The choice of the last all-reduce: packed if a reduced shard was sent without zeros.
  sparse_choice const& choice() const { return choice_; }

 private:
  using sum_message = shard_work::sum_message;

  std::size_t rank() const { return layout_.rank; }
  std::size_t ranks() const { return layout_.ranks; }
  /// Calls `body(owner, shard)` for every nonempty shard.
  template <class F> void for_shards(F const& body) {
    for (std::size_t owner = 0; owner < ranks(); ++owner)
      if (auto const s = layout_.of(owner); s.count > 0) body(owner, s);
  }
  /// The key depends on the unit, so messages in another unit are rejected.
  block_origin origin(std::size_t sender, std::size_t owner) const {
    return {key_,    static_cast<std::uint32_t>(sender),
            1,       static_cast<std::uint32_t>(owner),
            nullptr, options_.checksum};
  }

  /// Allocates memory for the messages of the longest shard from and to every rank.
  void allocate() {
    std::size_t const most = 64 * ((layout_.words() + layout_.ranks - 1) / layout_.ranks);
    sums_bytes_ = (sum_message::most_bytes(most) + 63) / 64 * 64;
    part_bytes_ = sums_bytes_ + most * (lane_bytes_ - sizeof(float));
    parts_ = work_->allocate((layout_.ranks - 1) * part_bytes_);
    inbox_ = work_->allocate((layout_.ranks - 1) * part_bytes_);
    sums_ = work_->allocate(layout_.ranks * sums_bytes_);
    leaving_.resize(layout_.ranks);
  }
  /// A message from another rank, or to it.
  std::span<std::byte> part_in(any_buffer const& memory, std::size_t other) const {
    return {memory.data() + part_bytes_ * (other - (other > rank())), part_bytes_};
  }
  std::span<std::byte> part_to(std::size_t owner) const { return part_in(parts_, owner); }
  std::span<std::byte> inbox_of(std::size_t sender) const { return part_in(inbox_, sender); }
  std::span<std::byte> sums_of(std::size_t owner) const {
    return {sums_.data() + sums_bytes_ * owner, sums_bytes_};
  }

  /// Determines the unit from the exponents of all ranks.
  void agree_on(exponent_bits& exponents) {
    unite_records(
        *transport_, options_.tag, exponents,
        [](auto& a, auto const& b) {
          for (std::size_t i = 0; i < a.size(); ++i) a[i] |= b[i];
        },
        key_);
    unit_ = static_cast<std::uint32_t>(sparse::largest_of(exponents.data()));
    if (unit_ == sparse::nonfinite_exponent) sparse::refuse_nonfinite(codec_);
    key_ ^= fingerprint(exponents);
  }

  /// Waits for a message to be complete; returns it.
  std::span<std::byte> end(encoded_shard const& message, std::span<std::byte> out) {
    work_->wait(message);
    return out.first(sum_message::close(message.bytes, out.data()));
  }
  /// The rank that is `hop` ranks after this one: not all ranks send to one.
  std::size_t after(std::size_t hop) const { return (rank() + hop) % ranks(); }
  void receive(std::size_t from, std::span<std::byte> message) {
    receives_.push_back(transport_->irecv(static_cast<int>(from), options_.tag, message));
  }
  void send(std::size_t to, std::span<std::byte const> message, report& stats) {
    sends_.push_back(transport_->isend(static_cast<int>(to), options_.tag, message));
    ++stats.hops;
  }
  /// Sends every owner its part.
  void send_parts(report& stats) {
    stopwatch watch;
    for (std::size_t h = 1, encoded = 1; h < ranks(); ++h) {
      for (; encoded < ranks() && encoded < h + parts_at_once_; ++encoded)
        if (std::size_t const owner = after(encoded); layout_.of(owner).count > 0)
          leaving_[owner] =
              work_->encode_part(owner, unit_, origin(rank(), owner), part_to(owner).data());
      std::size_t const owner = after(h);
      if (layout_.of(owner).count == 0) continue;
      auto const message = end(leaving_[owner], part_to(owner));
      watch.add_to(stats.seconds_encode);
      send(owner, message, stats);
      watch.add_to(stats.seconds_communicate);
    }
  }
  void wait_for_sends(report& stats) {
    stopwatch watch;
    for (auto& request : sends_) transport_->wait(request);
    sends_.clear();
    watch.add_to(stats.seconds_communicate);
  }

  /// Adds the parts of this rank's shard, its own first, while messages travel.
  encoded_findings add_parts(bool has_parts, report& stats) {
    encoded_findings found;
    stopwatch watch;
    if (shard().count > 0) {
      found = work_->add_part(layout_.rank, unit_, {}, {});
      watch.add_to(stats.seconds_encode);
      for (std::size_t r = 0; r < ranks() && has_parts; ++r) {
        if (r == rank()) continue;
        std::size_t const came = transport_->wait(receives_[next_++]);
        watch.add_to(stats.seconds_communicate);
        found.merge(work_->add_part(r, unit_, inbox_of(r).first(came), origin(r, rank())));
        watch.add_to(stats.seconds_merge);
      }
    }
    wait_for_sends(stats);
    return found;
  }

  /// Sends this rank's reduced shard, or the fault of its parts, to all ranks, and decodes theirs.
  encoded_findings exchange_sums(operation what, encoded_findings const& parts, report& stats) {
    stopwatch watch;
    std::span<std::byte> mine = sums_of(rank());
    if (shard().count > 0) {
      auto const fault = static_cast<block_fault>(parts.fault);
      auto const from = origin(rank(), rank());
      mine = fault == block_fault::none
                 ? end(work_->encode_sums(unit_, from, mine.data()), mine)
                 : mine.first(sum_message::write_damage(fault, shard().count, from, mine.data()));
      watch.add_to(stats.seconds_encode);
      for (std::size_t h = 1; h < ranks(); ++h) send(after(h), mine, stats);
    }
    choice_ = {.values = layout_.values,
               .index_bytes = sparse::mark_map_bytes(layout_.values),
               .dense_bytes = layout_.values * sizeof(float)};
    encoded_findings found;
    for_shards([&](std::size_t owner, sparse_shard const& s) {
      auto message = mine;
      if (owner != rank())
        message = sums_of(owner).first(transport_->wait(receives_[next_++]));
      else if (what == operation::all_gather)
        return;  // x has these values
      watch.add_to(stats.seconds_communicate);
      auto const came = work_->decode_sums(owner, message, origin(owner, owner));
      if (came.fault != block_fault::none && found.fault == 0) {
        found.damaged = s.words.first;
        found.fault = static_cast<std::uint64_t>(came.fault);
      }
      choice_.marked += came.marked;
      if (came.is_packed) choice_.strategy = sparse_strategy::packed;
      watch.add_to(stats.seconds_decode);
    });
    choice_.packed_bytes = choice_.marked * sizeof(float);
    wait_for_sends(stats);
    return found;
  }

  std::string_view codec_;
  shard_layout layout_;
  shard_work* work_;
  std::size_t lane_bytes_;
  std::size_t parts_at_once_;  ///< parts that are encoded before the first of them is sent
  any_transport* transport_;
  plan_options options_;
  any_buffer parts_, inbox_, sums_;
  std::size_t part_bytes_ = 0, sums_bytes_ = 0;  ///< of a message
  std::vector<encoded_shard> leaving_;           ///< parts, by owner
  // of one call
  std::uint64_t key_ = 0;
  std::uint32_t unit_ = 0;
  sparse_choice choice_;
  std::vector<any_transport::request> sends_, receives_;
  std::size_t next_ = 0;  ///< index of the next receive to wait for
};

}  // namespace hcomp::detail
