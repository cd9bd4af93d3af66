#pragma once
/// @file
/// Sums of sparse vectors by shards: every rank sends every owner what it has of the owner's shard,
/// owners add up, and send the sums to all ranks.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/codec/block_header.hpp>
#include <hcomp/codec/compressor.hpp>
#include <hcomp/codec/detail/lhc_index.hpp>
#include <hcomp/codec/detail/lhc_numbers.hpp>
#include <hcomp/codec/detail/own_values.hpp>
#include <hcomp/collective/detail/packed_sums.hpp>
#include <hcomp/collective/detail/shard_message.hpp>
#include <hcomp/collective/options.hpp>
#include <hcomp/collective/report.hpp>
#include <hcomp/core/bits.hpp>
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
/// and has room for the longest messages there can be; only what travels is touched.
template <class Lane, Transport T, class E> class shard_exchange {
 public:
  using exponents = std::array<std::uint64_t, exponent_words>;

  shard_exchange(std::size_t values, T& transport, sparse_ways const& ways,
                 plan_options const& options)
      : values_(values), transport_(&transport), ways_(ways), options_(options) {}

  sparse_shard shard() const { return shard_of(rank()); }

  /// Marks what is not zero in x, for add_up. Where lanes are floats, which need no common unit,
  /// add_up does it itself, shard by shard, so that some travel while others are marked.
  exponents mark(std::span<float const> x) requires(!std::is_same_v<Lane, float>) {
    make_room();
    exponents all{};
    for (auto& s : shards_) {
      auto const found = mark_shard(s, x);
      for (std::size_t i = 0; i < all.size(); ++i) all[i] |= found[i];
    }
    return all;
  }

  /// Adds up what all ranks have of this rank's shard. Returns what is wrong, by words of the
  /// index.
  /// @param stream        of the call
  /// @param sums_follow   give_sums is called next
  code_findings add_up(lhc_numbers<Lane> const& numbers, std::span<float const> x,
                       std::uint64_t stream, bool sums_follow, report& figures) {
    make_room();
    receives_.clear();
    for (int r = 0; r < ranks() && mine().count > 0; ++r)
      if (r != rank()) receives_.push_back(transport_->irecv(r, options_.tag, inbox_of(r)));
    if (sums_follow) receive_from_owners();
    send_parts(numbers, x, stream, figures);
    code_findings found;
    next_ = 0;
    for (int r = 0; r < ranks() && mine().count > 0; ++r) {
      if (r == rank()) continue;
      auto const index = static_cast<std::size_t>(r);
      stopwatch watch;
      std::size_t const came = transport_->wait(receives_[next_++]);
      watch.add_to(figures.seconds_communicate);
      auto const part =
          part_message::read(inbox_of(r).first(came), mine().count, origin(stream, r, rank()),
                             packed_.marks_of_part(index).data());
      note(part.fault, mine(), found);
      packed_.set_lanes_of_part(index, part.lanes);
      watch.add_to(figures.seconds_merge);
    }
    wait_for_sends(figures);
    stopwatch watch;
    damage_ = static_cast<block_fault>(found.fault);
    if (found.is_sound()) add_parts(numbers);
    if constexpr (std::is_same_v<Lane, float>)  // other inputs are known to be finite
      find_nonfinite_sums(found);
    found.weight = static_cast<std::uint64_t>(ranks());
    watch.add_to(figures.seconds_merge);
    return found;
  }
  /// The sums to this rank's shard of x.
  void read_sums(lhc_numbers<Lane> const& numbers, std::span<float> x) const {
    float* const out = x.data() + mine().first;
    std::fill_n(out, mine().count, 0.0f);
    packed_.for_each([&](std::size_t i, Lane sum) { out[i] = numbers.value(sum); });
  }

  /// After add_up: its sums to all ranks, and theirs into memory, until `write` takes them. Returns
  /// what is wrong, by words of the index.
  code_findings give_sums(lhc_numbers<Lane> const& numbers, std::uint64_t stream, report& figures) {
    if (mine().count > 0) {
      stopwatch watch;
      std::size_t const bytes = write_sums(numbers, origin(stream, rank(), rank()));
      watch.add_to(figures.seconds_encode);
      send_to_others(bytes, figures);
    }
    marked_ = 0;
    travels_packed_ = false;
    code_findings found;
    for_shards([&](int owner, shard_state& s) {
      stopwatch watch;
      if (owner != rank()) s.came = transport_->wait(receives_[next_++]);
      watch.add_to(figures.seconds_communicate);
      note(take_sums(s, origin(stream, owner, owner)), s, found);
      watch.add_to(figures.seconds_decode);
    });
    wait_for_sends(figures);
    return found;
  }
  /// Into x, which is as it was when it was marked, what give_sums brought.
  void write(std::span<float> x) {
    for_shards([&](int, shard_state& s) {
      float* const here = x.data() + s.first;
      // All that this rank has marked is marked in the sum. The rest is 0 already, or -0.
      if (s.own.negative_zeros()) std::fill_n(here, s.count, 0.0f);
      for_lanes<float>(marks_of(s), s.lanes, [here](std::size_t i, float sum) { here[i] = sum; });
    });
  }
  /// Values that are not zero on some rank, after give_sums.
  std::size_t marked() const { return marked_; }
  /// Some sums did not travel as all values of a shard.
  bool packed() const { return travels_packed_; }

  /// This rank's shard of x, as it is, to all others, and theirs into memory, until `read` takes
  /// them. Returns what is wrong, by words of the index.
  code_findings gather(std::span<float const> x, std::uint64_t stream, report& figures) {
    make_room();
    receives_.clear();
    receive_from_owners();
    code_findings found;
    if (mine().count > 0) {
      stopwatch watch;
      auto const values = x.subspan(mine().first, mine().count);
      find_nonfinite(values, found);
      std::size_t const bytes =
          sum_message::write_dense({}, values, origin(stream, rank(), rank()), options_.checksum,
                                   mine().sums.data(), sum_message::values_tag);
      watch.add_to(figures.seconds_encode);
      send_to_others(bytes, figures);
    }
    next_ = 0;
    for_shards([&](int owner, shard_state& s) {
      if (owner == rank()) return;
      stopwatch watch;
      s.came = transport_->wait(receives_[next_++]);
      watch.add_to(figures.seconds_communicate);
      note(sum_message::fault_of_dense(s.sums.first(s.came), s.count, origin(stream, owner, owner),
                                       sum_message::values_tag),
           s, found);
      watch.add_to(figures.seconds_decode);
    });
    wait_for_sends(figures);
    found.weight = 1;
    return found;
  }
  /// Into x what `gather` brought, if nothing is wrong with it on any rank.
  void read(std::span<float> x) {
    for_shards([&](int owner, shard_state& s) {
      if (owner != rank())
        std::memcpy(x.data() + s.first, s.sums.data() + block_header_bytes,
                    s.count * sizeof(float));
    });
  }

 private:
  using part_message = shard_message<Lane>;  ///< to owners
  using sum_message = shard_message<float>;  ///< from them

  struct shard_state : sparse_shard {
    own_values own;             ///< what this rank has of it
    std::span<std::byte> part;  ///< room for that as a message; of its own shard none
    std::span<std::byte> sums;  ///< and for what the owner sends
    std::size_t came = 0;       ///< of that
    std::byte const* lanes = nullptr;
  };

  int rank() const { return transport_->rank(); }
  int ranks() const { return transport_->size(); }
  shard_state& mine() { return shards_[static_cast<std::size_t>(rank())]; }
  shard_state const& mine() const { return shards_[static_cast<std::size_t>(rank())]; }
  sparse_shard shard_of(int owner) const {
    auto const word = [&](int r) {
      return index_words(values_) * static_cast<std::size_t>(r) / static_cast<std::size_t>(ranks());
    };
    std::size_t const begin = word(owner), end = word(owner + 1),
                      first = std::min(begin * 64, values_);
    return {{begin, end - begin}, first, std::min(end * 64, values_) - first};
  }
  /// Calls `body(owner, shard)` for every shard that has values.
  template <class F> void for_shards(F const& body) {
    for (int owner = 0; owner < ranks(); ++owner)
      if (auto& s = shards_[static_cast<std::size_t>(owner)]; s.count > 0) body(owner, s);
  }
  static block_origin origin(std::uint64_t stream, int sender, int owner) {
    return {stream, static_cast<std::uint32_t>(sender), 1, static_cast<std::uint32_t>(owner)};
  }

  template <class Message> static std::size_t room_for(std::size_t values) {
    return (Message::most_bytes(values) + 63) / 64 * 64;
  }
  void make_room() {
    if (!shards_.empty()) return;
    shards_.resize(static_cast<std::size_t>(ranks()));
    std::size_t parts = 0, sums = 0;
    for (int owner = 0; owner < ranks(); ++owner) {
      auto& s = shards_[static_cast<std::size_t>(owner)];
      static_cast<sparse_shard&>(s) = shard_of(owner);
      if (owner != rank()) parts += room_for<part_message>(s.count);
      sums += room_for<sum_message>(s.count);
    }
    parts_ = typename E::buffer(parts);
    inbox_ = typename E::buffer(room_for<part_message>(mine().count) * (shards_.size() - 1));
    sums_of_all_ = typename E::buffer(sums);
    parts = sums = 0;
    for (int owner = 0; owner < ranks(); ++owner) {
      auto& s = shards_[static_cast<std::size_t>(owner)];
      if (owner != rank()) s.part = {parts_.data() + parts, room_for<part_message>(s.count)};
      s.sums = {sums_of_all_.data() + sums, room_for<sum_message>(s.count)};
      parts += s.part.size();
      sums += s.sums.size();
    }
    words_.resize(index_words(values_) + exponent_words);
    packed_ = packed_sums<Lane>(mine().words.count, shards_.size());
  }
  std::span<std::byte> inbox_of(int sender) const {
    std::size_t const room = room_for<part_message>(mine().count);
    return {inbox_.data() + room * static_cast<std::size_t>(sender - (sender > rank())), room};
  }
  /// Of the sums, after give_sums.
  std::span<std::uint64_t> marks_of(sparse_shard const& s) {
    return std::span(words_).subspan(s.words.first, s.words.count);
  }

  static void note(block_fault fault, sparse_shard const& where, code_findings& found) {
    if (fault == block_fault::none || found.damaged != code_findings::nowhere) return;
    found.damaged = where.words.first;
    found.fault = static_cast<std::uint64_t>(fault);
  }

  // ---- Parts, from every rank to the owners

  exponents mark_shard(shard_state& s, std::span<float const> x) {
    s.own.mark(x.subspan(s.first, s.count), words_.data());
    exponents found;
    std::copy_n(words_.begin() + static_cast<std::ptrdiff_t>(s.words.count), exponent_words,
                found.begin());
    return found;
  }
  template <class Message> bool sends_all(std::size_t values, std::size_t marked) const {
    if (!ways_.dense || !(ways_.packed || ways_.sketched)) return ways_.dense;
    return static_cast<double>(Message::packed_bytes(values, marked)) >=
           ways_.worthwhile * static_cast<double>(Message::dense_bytes(values));
  }
  /// To the next rank first, so that not all send to one.
  void send_parts(lhc_numbers<Lane> const& numbers, std::span<float const> x, std::uint64_t stream,
                  report& figures) {
    sends_.clear();
    for (int h = 1; h <= ranks(); ++h) {  // its own last
      int const owner = (rank() + h) % ranks();
      auto& s = shards_[static_cast<std::size_t>(owner)];
      if (s.count == 0) continue;
      stopwatch watch;
      if constexpr (std::is_same_v<Lane, float>) mark_shard(s, x);
      if (owner == rank()) {
        watch.add_to(figures.seconds_encode);
        break;
      }
      auto const from = origin(stream, rank(), owner);
      auto const values = s.own.values();
      std::size_t const bytes =
          sends_all<part_message>(s.count, values.size())
              ? part_message::write_dense(numbers, x.subspan(s.first, s.count), from,
                                          options_.checksum, s.part.data())
              : part_message::write_packed(numbers, s.own.marks(), values, s.count, from,
                                           options_.checksum, s.part.data());
      watch.add_to(figures.seconds_encode);
      sends_.push_back(transport_->isend(owner, options_.tag, s.part.first(bytes)));
      ++figures.hops;
      watch.add_to(figures.seconds_communicate);
    }
  }
  /// Its own part among the others.
  void add_parts(lhc_numbers<Lane> const& numbers) {
    if (mine().count == 0) return;
    auto const own = mine().own.values();
    own_lanes_.resize(own.size());
    std::transform(own.begin(), own.end(), own_lanes_.begin(),
                   [&](float value) { return numbers.lane(value); });
    auto const index = static_cast<std::size_t>(rank());
    packed_.set_lanes_of_part(index, reinterpret_cast<std::byte const*>(own_lanes_.data()));
    std::copy(mine().own.marks().begin(), mine().own.marks().end(),
              packed_.marks_of_part(index).begin());
    packed_.add_up();
  }
  void wait_for_sends(report& figures) {
    stopwatch watch;
    for (auto& request : sends_) transport_->wait(request);
    sends_.clear();
    watch.add_to(figures.seconds_communicate);
  }

  // ---- Sums, from every owner to all ranks

  void receive_from_owners() {
    for_shards([&](int owner, shard_state& s) {
      if (owner != rank()) receives_.push_back(transport_->irecv(owner, options_.tag, s.sums));
    });
  }
  void send_to_others(std::size_t bytes, report& figures) {
    stopwatch watch;
    mine().came = bytes;
    for (int h = 1; h < ranks(); ++h, ++figures.hops)
      sends_.push_back(
          transport_->isend((rank() + h) % ranks(), options_.tag, mine().sums.first(bytes)));
    watch.add_to(figures.seconds_communicate);
  }
  std::size_t write_sums(lhc_numbers<Lane> const& numbers, block_origin const& from) {
    auto const out = mine().sums.data();
    std::size_t const count = mine().count;
    if (damage_ != block_fault::none)
      return sum_message::write_damage(damage_, count, from, options_.checksum, out);
    auto const sums = packed_.sums();
    if (sends_all<sum_message>(count, sums.size())) {
      values_to_send_.assign(count, 0.0f);
      packed_.for_each([&](std::size_t i, Lane sum) { values_to_send_[i] = numbers.value(sum); });
      return sum_message::write_dense({}, values_to_send_, from, options_.checksum, out);
    }
    values_to_send_.resize(sums.size());
    std::transform(sums.begin(), sums.end(), values_to_send_.begin(),
                   [&](Lane sum) { return numbers.value(sum); });
    return sum_message::write_packed({}, packed_.marks(), values_to_send_, count, from,
                                     options_.checksum, out);
  }
  block_fault take_sums(shard_state& s, block_origin const& from) {
    auto const marks = marks_of(s);
    auto const came = sum_message::read(s.sums.first(s.came), s.count, from, marks.data());
    if (came.fault != block_fault::none) return came.fault;
    s.lanes = came.lanes;
    auto const own = s.own.marks();
    for (std::size_t w = 0; w < marks.size(); ++w) {
      if ((own[w] & ~marks[w]) != 0) return block_fault::ranks;  // the owner has it from this rank
      marked_ += static_cast<std::size_t>(ones(marks[w]));
    }
    travels_packed_ |= load<block_header>(s.sums.data()).codec != sum_message::dense_tag;
    return block_fault::none;
  }

  // ---- NaN and infinity in this rank's shard, where these are errors

  void note_nonfinite(std::size_t word, code_findings& found) const {
    found.nonfinite = std::min<std::uint64_t>(found.nonfinite, mine().words.first + word);
    ++found.nonfinite_blocks;
  }
  void find_nonfinite_sums(code_findings& found) const {
    if (options_.nonfinite != nonfinite_policy::throw_error || !found.is_sound()) return;
    std::span<float const> sums = packed_.sums();
    if (all_finite(sums)) return;
    auto const marks = packed_.marks();
    for (std::size_t w = 0; w < marks.size(); ++w) {
      auto const count = static_cast<std::size_t>(ones(marks[w]));
      if (!all_finite(sums.first(count))) note_nonfinite(w, found);
      sums = sums.subspan(count);
    }
  }
  void find_nonfinite(std::span<float const> values, code_findings& found) const {
    if (options_.nonfinite != nonfinite_policy::throw_error) return;
    for (std::size_t i = 0; i < values.size(); i += 64)
      if (!all_finite(values.subspan(i, std::min<std::size_t>(64, values.size() - i))))
        note_nonfinite(i / 64, found);
  }
  static bool all_finite(std::span<float const> values) {
    bool all = true;
    for (float const value : values) all &= is_finite(value);
    return all;
  }

  std::size_t values_;
  T* transport_;
  sparse_ways ways_;
  plan_options options_;
  std::vector<shard_state> shards_;
  typename E::buffer parts_, inbox_, sums_of_all_;
  packed_sums<Lane> packed_;                ///< of this rank's shard
  std::vector<Lane> own_lanes_;             ///< of its own part
  block_fault damage_ = block_fault::none;  ///< of some part
  std::vector<std::uint64_t> words_;
  std::vector<float> values_to_send_;
  std::size_t marked_ = 0;
  bool travels_packed_ = false;
  std::vector<typename T::request> sends_, receives_;
  std::size_t next_ = 0;  ///< of receives_ to wait for
};

}  // namespace hcomp::detail
