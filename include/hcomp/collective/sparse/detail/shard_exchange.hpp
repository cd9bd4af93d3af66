#pragma once
/// @file
/// Sparse reductions by shards: every rank sends every owner its part of the owner's shard, and
/// owners add the parts and send the result to all ranks.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/block_header.hpp>
#include <hcomp/codec/compressor.hpp>
#include <hcomp/collective/agreement/agreement.hpp>
#include <hcomp/collective/agreement/options.hpp>
#include <hcomp/collective/agreement/report.hpp>
#include <hcomp/collective/engine/detail/code_work.hpp>
#include <hcomp/collective/sparse/detail/shard_work.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/codec_ids.hpp>
#include <hcomp/op/detail/encoded_check.hpp>
#include <hcomp/op/detail/shard_runs.hpp>
#include <hcomp/transport/any_transport.hpp>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace hcomp::detail {

/// Shards of vectors of one size, and host memory for their messages. The memory is allocated in
/// the first call, for the longest possible messages; only transferred bytes are touched.
class shard_exchange {
 public:
  shard_exchange(shard_layout const& layout, std::unique_ptr<shard_work> work,
                 any_transport& transport, plan_options const& options)
      : layout_(layout), work_(std::move(work)), transport_(&transport), options_(options) {}

  sparse_shard shard() const { return layout_.mine(); }

  /// Reduces this rank's shard over all ranks. Returns faults, by words of the index.
  /// @param key          of the call
  /// @param sums_follow  give_sums is the next call
  /// @throws nonfinite_error  as shard_work::set_units, before anything is sent
  encoded_findings add_up(std::span<float const> x, reduce_op op, std::uint64_t key,
                          bool sums_follow, report& stats) {
    start();
    agree_on_units(x, op, key, stats);
    receives_.clear();
    for (int r = 0; r < ranks() && mine().count > 0; ++r)
      if (r != rank()) receives_.push_back(transport_->irecv(r, options_.tag, inbox_of(r)));
    if (sums_follow) receive_from_owners();
    send_parts(x, key, stats);
    encoded_findings found;
    next_ = 0;
    for (int r = 0; r < ranks() && mine().count > 0; ++r) {
      if (r == rank()) continue;
      stopwatch watch;
      std::size_t const came = transport_->wait(receives_[next_++]);
      watch.add_to(stats.seconds_communicate);
      note(work_->take_part(static_cast<std::size_t>(r), inbox_of(r).first(came),
                            origin(key, r, rank())),
           mine(), found);
      watch.add_to(stats.seconds_merge);
    }
    wait_for_sends(stats);
    stopwatch watch;
    damage_ = static_cast<block_fault>(found.fault);
    if (found.is_sound() && mine().count > 0) {
      work_->add_up(x);
      if (options_.nonfinite == nonfinite_policy::throw_error) note(work_->nonfinite_sums(), found);
    }
    found.weight = layout_.ranks;
    watch.add_to(stats.seconds_merge);
    return found;
  }
  /// Writes the reduced values to this rank's shard of x.
  void read_sums(std::span<float> x) {
    if (mine().count > 0) work_->read_sums(x);
  }

  /// After add_up: sends this rank's reduced shard to all ranks, and receives theirs into memory,
  /// for `write`. Returns faults, by words of the index.
  encoded_findings give_sums(std::uint64_t key, report& stats) {
    if (mine().count > 0) {
      stopwatch watch;
      auto const from = origin(key, rank(), rank());
      auto* const out = mine().sums.data();
      std::size_t const bytes = damage_ == block_fault::none
                                    ? work_->write_sums(from, out)
                                    : sum_message::write_damage(damage_, mine().count, from, out);
      watch.add_to(stats.seconds_encode);
      send_to_others(bytes, stats);
    }
    marked_ = 0;
    travels_packed_ = false;
    encoded_findings found;
    for_shards([&](int owner, shard_state& s) {
      stopwatch watch;
      if (owner != rank()) s.came = transport_->wait(receives_[next_++]);
      watch.add_to(stats.seconds_communicate);
      auto const came = work_->take_sums(static_cast<std::size_t>(owner), s.sums.first(s.came),
                                         origin(key, owner, owner));
      note(came.fault, s, found);
      if (came.fault == block_fault::none) {
        marked_ += came.marked;
        travels_packed_ |= load<block_header>(s.sums.data()).codec != codec_ids::dense;
      }
      watch.add_to(stats.seconds_decode);
    });
    wait_for_sends(stats);
    return found;
  }
  /// Writes the received shards into x, which must be unchanged since it was marked.
  void write(std::span<float> x) { work_->write(x); }
  /// Number of values that are nonzero on any rank, after give_sums.
  std::size_t marked() const { return marked_; }
  /// Whether any reduced shard was not sent with all of its values.
  bool packed() const { return travels_packed_; }

  /// All-gather of uncompressed shards of x: sends this rank's to all ranks, and receives theirs
  /// into memory, for `read`. Returns faults, by words of the index.
  encoded_findings gather(std::span<float const> x, std::uint64_t key, report& stats) {
    start();
    units_ = 0;
    receives_.clear();
    receive_from_owners();
    encoded_findings found;
    if (mine().count > 0) {
      stopwatch watch;
      if (options_.nonfinite == nonfinite_policy::throw_error)
        note(work_->nonfinite_values(x), found);
      std::size_t const bytes =
          work_->write_values(x, origin(key, rank(), rank()), mine().sums.data());
      watch.add_to(stats.seconds_encode);
      send_to_others(bytes, stats);
    }
    next_ = 0;
    for_shards([&](int owner, shard_state& s) {
      if (owner == rank()) return;
      stopwatch watch;
      s.came = transport_->wait(receives_[next_++]);
      watch.add_to(stats.seconds_communicate);
      note(sum_message::fault_of_dense(s.sums.first(s.came), s.count, origin(key, owner, owner),
                                       codec_ids::values),
           s, found);
      watch.add_to(stats.seconds_decode);
    });
    wait_for_sends(stats);
    found.weight = 1;
    return found;
  }
  /// Writes the received shards into x, if no rank has a fault.
  void read(std::span<float> x) {
    for_shards([&](int owner, shard_state& s) {
      if (owner != rank()) work_->read_values(static_cast<std::size_t>(owner), s.sums.data(), x);
    });
  }

 private:
  using sum_message = shard_work::sum_message;

  struct shard_state : sparse_shard {
    std::span<std::byte> part;  ///< memory for this rank's part of it; empty for its own shard
    std::span<std::byte> sums;  ///< memory for the owner's reduced shard
    std::size_t came = 0;       ///< received bytes of `sums`
  };

  int rank() const { return static_cast<int>(layout_.rank); }
  int ranks() const { return static_cast<int>(layout_.ranks); }
  shard_state& mine() { return shards_[layout_.rank]; }
  /// Calls `body(owner, shard)` for every nonempty shard.
  template <class F> void for_shards(F const& body) {
    for (int owner = 0; owner < ranks(); ++owner)
      if (auto& s = shards_[static_cast<std::size_t>(owner)]; s.count > 0) body(owner, s);
  }
  /// The same for other ranks' shards. Starts at the next rank, so that not all ranks send to one.
  template <class F> void for_shards_of_others(F const& body) {
    for (int h = 1; h < ranks(); ++h) {
      int const owner = (rank() + h) % ranks();
      if (auto& s = shards_[static_cast<std::size_t>(owner)]; s.count > 0) body(owner, s);
    }
  }
  /// The key depends on the units, so messages in other units are rejected.
  block_origin origin(std::uint64_t key, int sender, int owner) const {
    return {key ^ units_,
            static_cast<std::uint32_t>(sender),
            1,
            static_cast<std::uint32_t>(owner),
            nullptr,
            options_.checksum};
  }

  static std::size_t rounded(std::size_t bytes) { return (bytes + 63) / 64 * 64; }
  std::size_t part_capacity(std::size_t values) const {
    return rounded(work_->most_bytes_of_part(values));
  }
  static std::size_t sums_capacity(std::size_t values) {
    return rounded(sum_message::most_bytes(values));
  }
  void start() {
    if (shards_.empty()) allocate_shards();
    work_->start();
  }
  void allocate_shards() {
    shards_.resize(layout_.ranks);
    std::size_t parts = 0, sums = 0;
    for (std::size_t owner = 0; owner < layout_.ranks; ++owner) {
      auto& s = shards_[owner];
      static_cast<sparse_shard&>(s) = layout_.of(owner);
      if (owner != layout_.rank) parts += part_capacity(s.count);
      sums += sums_capacity(s.count);
    }
    parts_ = work_->allocate(parts);
    inbox_ = work_->allocate(part_capacity(mine().count) * (shards_.size() - 1));
    sums_of_all_ = work_->allocate(sums);
    parts = sums = 0;
    for (std::size_t owner = 0; owner < layout_.ranks; ++owner) {
      auto& s = shards_[owner];
      if (owner != layout_.rank) s.part = {parts_.data() + parts, part_capacity(s.count)};
      s.sums = {sums_of_all_.data() + sums, sums_capacity(s.count)};
      parts += s.part.size();
      sums += s.sums.size();
    }
  }
  std::span<std::byte> inbox_of(int sender) {
    std::size_t const capacity = part_capacity(mine().count);
    return {inbox_.data() + capacity * static_cast<std::size_t>(sender - (sender > rank())),
            capacity};
  }

  static void note(block_fault fault, sparse_shard const& where, encoded_findings& found) {
    if (fault == block_fault::none || found.damaged != encoded_findings::nowhere) return;
    found.damaged = where.words.first;
    found.fault = static_cast<std::uint64_t>(fault);
  }
  /// Records NaN and infinity in this rank's shard, where they are errors.
  void note(nonfinite_words const& words, encoded_findings& found) {
    if (words.count == 0) return;
    found.nonfinite = std::min<std::uint64_t>(found.nonfinite, mine().words.first + words.first);
    found.nonfinite_blocks += words.count;
  }

  /// Determines the meaning of lanes; depends on all ranks, unless lanes are floats.
  void agree_on_units(std::span<float const> x, reduce_op op, std::uint64_t key, report& stats) {
    exponent_bits exponents{};
    units_ = 0;
    if (work_->needs_units()) {
      stopwatch watch;
      exponents = work_->mark(x);
      watch.add_to(stats.seconds_encode);
      unite_records(
          *transport_, options_.tag, exponents,
          [](auto& a, auto const& b) {
            for (std::size_t i = 0; i < a.size(); ++i) a[i] |= b[i];
          },
          key);
      units_ = fingerprint(serial_group{}, std::as_bytes(std::span(exponents)).data(),
                           sizeof(exponents));
      watch.add_to(stats.seconds_communicate);
    }
    work_->set_units(exponents, op);
  }

  /// Sends every owner its part.
  void send_parts(std::span<float const> x, std::uint64_t key, report& stats) {
    sends_.clear();
    stopwatch watch;
    work_->begin_parts(x);
    for_shards_of_others([&](int owner, shard_state& s) {
      work_->prepare_part(static_cast<std::size_t>(owner), x, origin(key, rank(), owner),
                          s.part.data());
    });
    for_shards_of_others([&](int owner, shard_state& s) {
      std::size_t const bytes = work_->write_part(static_cast<std::size_t>(owner), x,
                                                  origin(key, rank(), owner), s.part.data());
      watch.add_to(stats.seconds_encode);
      sends_.push_back(transport_->isend(owner, options_.tag, s.part.first(bytes)));
      ++stats.hops;
      watch.add_to(stats.seconds_communicate);
    });
    work_->end_parts(x);
    watch.add_to(stats.seconds_encode);
  }
  void wait_for_sends(report& stats) {
    stopwatch watch;
    for (auto& request : sends_) transport_->wait(request);
    sends_.clear();
    watch.add_to(stats.seconds_communicate);
  }

  // ---- reduced shards, from every owner to all ranks

  void receive_from_owners() {
    for_shards([&](int owner, shard_state& s) {
      if (owner != rank()) receives_.push_back(transport_->irecv(owner, options_.tag, s.sums));
    });
  }
  void send_to_others(std::size_t bytes, report& stats) {
    stopwatch watch;
    mine().came = bytes;
    for (int h = 1; h < ranks(); ++h, ++stats.hops)
      sends_.push_back(
          transport_->isend((rank() + h) % ranks(), options_.tag, mine().sums.first(bytes)));
    watch.add_to(stats.seconds_communicate);
  }

  shard_layout layout_;
  std::unique_ptr<shard_work> work_;
  any_transport* transport_;
  plan_options options_;
  std::vector<shard_state> shards_;
  any_buffer parts_, inbox_, sums_of_all_;
  block_fault damage_ = block_fault::none;  ///< of any part
  std::size_t marked_ = 0;
  bool travels_packed_ = false;
  std::uint64_t units_ = 0;  ///< fingerprint of the exponents behind the units; 0: floats
  std::vector<any_transport::request> sends_, receives_;
  std::size_t next_ = 0;  ///< index of the next receive to wait for
};

}  // namespace hcomp::detail
