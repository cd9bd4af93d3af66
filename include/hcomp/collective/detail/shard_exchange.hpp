#pragma once
/// @file
/// Sums of the shards of a sparse vector: every rank sends every owner what it has of its shard.
/// And back: every owner sends its shard to all ranks.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/block_header.hpp>
#include <hcomp/codec/compressor.hpp>
#include <hcomp/codec/detail/lhc_index.hpp>
#include <hcomp/codec/detail/lhc_numbers.hpp>
#include <hcomp/codec/sparse_index.hpp>
#include <hcomp/collective/detail/shard_message.hpp>
#include <hcomp/collective/options.hpp>
#include <hcomp/collective/report.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/group.hpp>
#include <hcomp/op/code_layout.hpp>
#include <hcomp/op/detail/code_check.hpp>
#include <hcomp/op/sparse_sum.hpp>
#include <hcomp/transport/transport.hpp>
#include <span>
#include <type_traits>
#include <vector>

namespace hcomp::detail {

/// Part of a vector: words of its index, and the values they stand for.
struct sparse_shard {
  block_range words;
  std::size_t first = 0;  ///< value
  std::size_t count = 0;  ///< of values
};

/// Shards of vectors of one size, and the memory to move them. It is allocated in the first call
/// and has room for the longest messages there can be.
template <class Lane, Transport T, class E> class shard_exchange {
 public:
  shard_exchange(std::size_t values, T& transport, sparse_ways const& ways,
                 plan_options const& options)
      : values_(values), transport_(&transport), ways_(ways), options_(options) {}

  sparse_shard shard() const { return shard_of(rank()); }
  /// Of this rank's shard, after add_up.
  std::span<Lane const> sums() const { return sums_; }

  /// @param index   marks what is not zero here
  /// @param stream  of the call
  /// Returns what is wrong, by words of the index. After a fault sums() are of no use.
  code_findings add_up(lhc_numbers<Lane> const& numbers, sparse_index const& index,
                       std::span<float const> x, std::uint64_t stream, report& figures) {
    sums_.assign(shard().count, Lane{});
    make_room();
    receive();
    send(numbers, index, x, stream, figures);
    code_findings found;
    std::size_t next = 0;
    for (int r = 0; r < ranks() && !sums_.empty(); ++r) {  // in this order, whoever comes first
      stopwatch watch;
      auto fault = block_fault::none;
      if (r == rank()) {
        add_own(numbers, index);
      } else {
        std::size_t const came = transport_->wait(receives_[next++]);
        watch.add_to(figures.seconds_communicate);
        fault = message::add(place_of(r).first(came), sums_.size(), origin(stream, r, rank()),
                             sums_.data());
      }
      note(fault, shard(), found);
      watch.add_to(figures.seconds_merge);
    }
    wait_for_sends(figures);
    stopwatch watch;
    if constexpr (std::is_same_v<Lane, float>)  // other inputs are known to be finite
      find_nonfinite(sums(), found);
    found.weight = static_cast<std::uint64_t>(ranks());
    watch.add_to(figures.seconds_merge);
    return found;
  }

  /// This rank's shard of x to all others, and theirs into memory, until `read` takes them.
  /// Returns what is wrong, by words of the index.
  code_findings gather(std::span<float const> x, std::uint64_t stream, report& figures) {
    make_room();
    receives_.clear();
    for_shards([&](int owner, sparse_shard const&, std::span<std::byte> place) {
      if (owner != rank()) receives_.push_back(transport_->irecv(owner, options_.tag, place));
    });
    sends_.clear();
    code_findings found;
    for_shards([&](int owner, sparse_shard const& shard, std::span<std::byte> place) {
      if (owner != rank()) return;
      stopwatch watch;
      auto const mine = x.subspan(shard.first, shard.count);
      find_nonfinite(mine, found);
      if (ranks() == 1) return;
      std::size_t const bytes = message::write_values(mine, origin(stream, owner, owner),
                                                      options_.checksum, place.data());
      watch.add_to(figures.seconds_encode);
      for (int h = 1; h < ranks(); ++h, ++figures.hops)
        sends_.push_back(
            transport_->isend((rank() + h) % ranks(), options_.tag, place.first(bytes)));
      watch.add_to(figures.seconds_communicate);
    });
    std::size_t next = 0;
    for_shards([&](int owner, sparse_shard const& shard, std::span<std::byte> place) {
      if (owner == rank()) return;
      stopwatch watch;
      std::size_t const came = transport_->wait(receives_[next++]);
      watch.add_to(figures.seconds_communicate);
      note(message::fault_of_values(place.first(came), shard.count, origin(stream, owner, owner)),
           shard, found);
      watch.add_to(figures.seconds_decode);
    });
    wait_for_sends(figures);
    found.weight = 1;
    return found;
  }
  /// Into x what `gather` brought, if nothing is wrong with it on any rank.
  void read(std::span<float> x) const {
    for_shards([&](int owner, sparse_shard const& shard, std::span<std::byte> place) {
      if (owner != rank()) message::read_values(place, x.subspan(shard.first, shard.count));
    });
  }

 private:
  using message = shard_message<Lane>;

  int rank() const { return transport_->rank(); }
  int ranks() const { return transport_->size(); }
  sparse_shard shard_of(int owner) const {
    auto const word = [&](int r) {
      return index_words(values_) * static_cast<std::size_t>(r) / static_cast<std::size_t>(ranks());
    };
    std::size_t const begin = word(owner), end = word(owner + 1),
                      first = std::min(begin * 64, values_);
    return {{begin, end - begin}, first, std::min(end * 64, values_) - first};
  }
  static block_origin origin(std::uint64_t stream, int sender, int owner) {
    return {stream, static_cast<std::uint32_t>(sender), 1, static_cast<std::uint32_t>(owner)};
  }

  static std::size_t room_for(std::size_t values) {
    return (message::packed_bytes(values, values) + 63) / 64 * 64;
  }
  void make_room() {
    if (inbox_.size() > 0 || ranks() == 1) return;
    std::size_t bytes = 0;
    for (int r = 0; r < ranks(); ++r) bytes += room_for(shard_of(r).count);
    outbox_ = typename E::buffer(bytes);
    inbox_ = typename E::buffer(room_for(shard().count) * static_cast<std::size_t>(ranks()));
  }
  std::span<std::byte> place_of(int sender) const {
    std::size_t const room = room_for(shard().count);
    return {inbox_.data() + room * static_cast<std::size_t>(sender), room};
  }
  /// Calls `body(owner, shard, place)` for every shard that has values; each has a place in the
  /// outbox, but not on one rank alone, who sends nothing.
  template <class F> void for_shards(F const& body) const {
    std::byte* place = outbox_.data();
    for (int owner = 0; owner < ranks(); ++owner) {
      auto const shard = shard_of(owner);
      std::size_t const room = ranks() > 1 ? room_for(shard.count) : 0;
      if (shard.count > 0) body(owner, shard, std::span(place, room));
      place += room;
    }
  }

  static void note(block_fault fault, sparse_shard const& where, code_findings& found) {
    if (fault == block_fault::none || found.damaged != code_findings::nowhere) return;
    found.damaged = where.words.first;
    found.fault = static_cast<std::uint64_t>(fault);
  }
  void wait_for_sends(report& figures) {
    stopwatch watch;
    for (auto& request : sends_) transport_->wait(request);
    watch.add_to(figures.seconds_communicate);
  }

  void receive() {
    receives_.clear();
    for (int r = 0; r < ranks() && !sums_.empty(); ++r)
      if (r != rank()) receives_.push_back(transport_->irecv(r, options_.tag, place_of(r)));
  }

  /// What is not zero here, of a shard.
  static std::span<float const> marked_in(sparse_index const& index, block_range words) {
    auto const before = [&](std::size_t word) {
      return word < index.ranks().size() ? index.ranks()[word] : index.marked();
    };
    return index.own().values().subspan(before(words.first),
                                        before(words.end()) - before(words.first));
  }
  bool sends_all(std::size_t values, std::size_t marked) const {
    if (!ways_.dense || !(ways_.packed || ways_.sketched)) return ways_.dense;
    return static_cast<double>(message::packed_bytes(values, marked)) >=
           ways_.worthwhile * static_cast<double>(message::dense_bytes(values));
  }

  /// To the next rank first, so that not all send to one.
  void send(lhc_numbers<Lane> const& numbers, sparse_index const& index, std::span<float const> x,
            std::uint64_t stream, report& figures) {
    sends_.clear();
    std::byte* out = outbox_.data();
    for (int h = 1; h < ranks(); ++h) {
      int const owner = (rank() + h) % ranks();
      auto const shard = shard_of(owner);
      if (shard.count == 0) continue;
      stopwatch watch;
      auto const marked = marked_in(index, shard.words);
      auto const from = origin(stream, rank(), owner);
      std::size_t const bytes =
          sends_all(shard.count, marked.size())
              ? message::write_dense(numbers, x.subspan(shard.first, shard.count), from,
                                     options_.checksum, out)
              : message::write_packed(numbers,
                                      index.marks().subspan(shard.words.first, shard.words.count),
                                      marked, shard.count, from, options_.checksum, out);
      watch.add_to(figures.seconds_encode);
      sends_.push_back(transport_->isend(owner, options_.tag, {out, bytes}));
      ++figures.hops;
      out += room_for(shard.count);
      watch.add_to(figures.seconds_communicate);
    }
  }

  void add_own(lhc_numbers<Lane> const& numbers, sparse_index const& index) {
    auto const [first, count] = shard().words;
    float const* const own = index.own().values().data();
    for_marked(simd_group{}, index.marks().data() + first, count, index.ranks().data() + first,
               [&](std::size_t i, std::size_t place) { sums_[i] += numbers.lane(own[place]); });
  }

  /// In this rank's shard, where that is an error.
  void find_nonfinite(std::span<float const> values, code_findings& found) const {
    if (options_.nonfinite != nonfinite_policy::throw_error) return;
    std::size_t last = code_findings::nowhere;
    for (std::size_t i = 0; i < values.size(); ++i)
      if (!is_finite(values[i]) && i / 64 != last) {
        last = i / 64;
        found.nonfinite = std::min<std::uint64_t>(found.nonfinite, shard().words.first + last);
        ++found.nonfinite_blocks;
      }
  }

  std::size_t values_;
  T* transport_;
  sparse_ways ways_;
  plan_options options_;
  typename E::buffer outbox_, inbox_;
  std::vector<Lane> sums_;
  std::vector<typename T::request> sends_, receives_;
};

}  // namespace hcomp::detail
