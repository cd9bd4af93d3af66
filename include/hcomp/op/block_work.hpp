#pragma once
/// @file
/// What an executor runs: functors that do one block of a whole code. Named types, not lambdas, so
/// that a GPU kernel can be instantiated with them.

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/compressor.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/core/group.hpp>
#include <hcomp/core/hash.hpp>
#include <hcomp/op/encoded_layout.hpp>
#include <limits>

namespace hcomp {

namespace detail {

/// The checksum a block should carry: over its bytes with the checksum field 0. Never 0.
/// @param header  of the block
template <class Group>
HCOMP_HD std::uint32_t block_checksum(Group group, block_header header, std::byte const* block,
                                      std::size_t bytes) {
  header.checksum = 0;
  auto const h = fingerprint(same_bits<std::array<std::uint64_t, block_header_bytes / 8>>(header)) ^
                 mix(fingerprint(group, block + block_header_bytes, bytes - block_header_bytes));
  auto const folded = static_cast<std::uint32_t>(h ^ h >> 32);
  return folded == 0 ? 1 : folded;
}

template <class Group> HCOMP_HD void seal(Group group, std::byte* block, std::size_t bytes) {
  auto header = load_header(block);
  header.flags |= block_has_checksum;
  header.checksum = block_checksum(group, header, block, bytes);
  group.sync();  // every worker has read the header
  if (group.worker() == 0) store_aligned(block, 0, header);
  group.sync();
}

/// True if the block carries no checksum or the right one.
/// @param header  of the block
template <class Group>
HCOMP_HD bool is_intact(Group group, block_header const& header, std::byte const* block,
                        std::size_t bytes) {
  return !(header.flags & block_has_checksum) ||
         header.checksum == block_checksum(group, header, block, bytes);
}
template <class Group>
HCOMP_HD bool is_intact(Group group, std::byte const* block, std::size_t bytes) {
  return is_intact(group, load_header(block), block, bytes);
}

/// On how many blocks a multiprocessor should work at once in merges, by what a codec says; 0: it says
/// nothing.
template <class C> constexpr int merges_at_once() {
  if constexpr (requires { C::merges_at_once; })
    return C::merges_at_once;
  else
    return 0;
}

/// The same in encoding and decoding.
/// @param notes_losses  the source TracksResidual
template <class C> constexpr int encodes_at_once(bool notes_losses) {
  if constexpr (requires { C::encodes_at_once(notes_losses); })
    return C::encodes_at_once(notes_losses);
  else
    return 0;
}
/// How many workers decode a block, as workers_of.
template <class C> constexpr int decode_workers_of() {
  if constexpr (requires { C::decode_workers; })
    return C::decode_workers;
  else
    return workers_of<C>();
}
template <class C> constexpr int decodes_at_once() {
  if constexpr (requires { C::decodes_at_once; })
    return C::decodes_at_once;
  else
    return 0;
}

template <class Group>
HCOMP_HD void mark_damaged(Group group, std::byte* block, block_fault fault) {
  if (group.worker() == 0) {
    auto header = load_aligned<block_header>(block);
    header.flags |= block_is_damaged;
    if (header.fault == block_fault::none) header.fault = fault;
    store_aligned(block, 0, header);
  }
  group.sync();
}

}  // namespace detail

/// Work that has scratch_bytes() is done by groups whose scratch() gives as many to all workers
/// together; where groups have none, as on CPUs, it takes what it needs from the stack. Codecs that are
/// Narrowable say how many bytes that takes by narrow_scratch_bytes().
template <class C>
concept UsesScratch = requires(C const& codec) {
  { codec.scratch_bytes() } -> std::same_as<std::size_t>;
};

/// What block b of `x` says about itself, into its place among all blocks' words.
template <Calibrated C, class Source> struct measure_blocks {
  C codec;
  encoded_layout layout;
  Source x;                     ///< as in encode_blocks
  std::uint32_t* words;         ///< statistics_words(codec, layout) of them
  float* dominances = nullptr;  ///< as many, if the codec MeasuresDominance; or null

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t b) const {
    auto const block = static_cast<int>(layout.block_values);
    std::size_t const at = b * codec.statistics_in(block);
    auto const values = x + b * layout.block_values;
    if constexpr (MeasuresDominance<C>)
      codec.measure_block(group, values, layout.values_in(b), words + at,
                          dominances ? dominances + at : nullptr);
    else
      codec.measure_block(group, values, layout.values_in(b), words + at);
  }
};

/// words = max(words, other), a run of them at a time.
struct unite_statistics {
  static constexpr std::size_t run = 1024;

  std::uint32_t* words;
  std::uint32_t const* other;
  std::size_t count;

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t i) const {
    std::size_t const end = (i + 1) * run < count ? (i + 1) * run : count;
    for (auto w = i * run + static_cast<std::size_t>(group.worker()); w < end; w += Group::workers)
      if (words[w] < other[w]) words[w] = other[w];
  }
};

/// Words that the ranks have to agree on before they encode; 0 if the codec is not Calibrated.
template <Compressor C>
constexpr std::size_t statistics_words(C const& codec, encoded_layout const& layout) {
  if constexpr (Calibrated<C>) {
    if (layout.blocks() == 0) return 0;
    return (layout.blocks() - 1) * codec.statistics_in(static_cast<int>(layout.block_values)) +
           codec.statistics_in(layout.values_in(layout.blocks() - 1));
  } else {
    return 0;
  }
}

namespace detail {

/// Where the values of a piece are in their block.
struct piece_range {
  int first, count;  ///< no value, or less, of a piece that the block does not have
};
template <Piecewise C> HCOMP_HD piece_range range_of_piece(C const& codec, int n, int k) {
  int const each = codec.piece_values(), first = k * each;
  return {first, n - first < each ? n - first : each};
}
template <Piecewise C> constexpr int pieces_of(C const& codec, encoded_layout const& layout) {
  int const each = codec.piece_values(), all = static_cast<int>(layout.block_values);
  return (all + each - 1) / each;
}

/// What the block of `origin` number b is encoded with.
template <class C>
HCOMP_HD block_origin origin_of_block(C const& codec, encoded_layout const& layout,
                                      block_origin const& origin, std::size_t b) {
  auto place = origin;
  place.index = static_cast<std::uint32_t>(b);
  if constexpr (Calibrated<C>)
    if (origin.statistics)
      place.statistics += b * codec.statistics_in(static_cast<int>(layout.block_values));
  return place;
}

/// Block b of `x` into block b of `code`, as encode_blocks has them. after(n, decode) is called when
/// it is encoded: decode(to) would give its n values back, as they will be when nothing is added.
/// @param codec  where it is: a copy in a kernel would be in slow memory
template <class C, class Source, class Group, class After>
HCOMP_HD void encode_block_of(Group group, C const& codec, encoded_layout const& layout,
                              Source const& x, std::byte* code, block_origin const& origin,
                              std::size_t b, After const& after) {
  auto const n = layout.values_in(b);
  auto const place = origin_of_block(codec, layout, origin, b);
  std::byte* const block = code + layout.offset(b);
  auto const values = x + b * layout.block_values;
  codec.encode_block(group, values, n, block, place);
  after(n, [&](auto* to) { codec.decode_block(group, block, n, to, reduce_op::mean); });
  if (origin.checksum) seal(group, block, codec.block_bytes(n));
}

/// Piece k of that block, all but what the codec's close_block writes. Returns, in every worker, whether NaN
/// or infinity was met.
template <Piecewise C, class Source, class Group, class After>
HCOMP_HD bool encode_piece_of(Group group, C const& codec, encoded_layout const& layout,
                              Source const& x, std::byte* code, block_origin const& origin,
                              std::size_t b, int k, After const& after) {
  auto const n = layout.values_in(b);
  auto const place = origin_of_block(codec, layout, origin, b);
  std::byte* const block = code + layout.offset(b);
  bool const nonfinite = codec.encode_piece(group, x + b * layout.block_values, n, block, place, k);
  after([&](auto* to) { codec.decode_piece(group, block, n, place, to, reduce_op::mean, k); });
  return nonfinite;
}

template <Piecewise C, class Group>
HCOMP_HD void close_block_of(Group group, C const& codec, encoded_layout const& layout,
                             std::byte* code, block_origin const& origin, std::size_t b,
                             bool nonfinite) {
  codec.close_block(group, layout.values_in(b), code + layout.offset(b), nonfinite,
                    origin_of_block(codec, layout, origin, b));
}

}  // namespace detail

/// Block b of `x` into block b of `code`.
template <Compressor C, class Source> struct encode_blocks {
  static constexpr int workers = detail::workers_of<C>();
  static constexpr int blocks_at_once = detail::encodes_at_once<C>(TracksResidual<Source>);
  static constexpr int piece_workers = detail::piece_workers_of<C>();

  C codec;
  encoded_layout layout;
  Source x;             ///< a pointer to the first value of the vector, or `compensated`
  std::byte* code;      ///< layout.bytes() bytes
  block_origin origin;  ///< its index is set per block; its statistics are those of all blocks

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t b) const {
    detail::encode_block_of(group, codec, layout, x, code, origin, b, [](int, auto const&) {});
  }
  std::size_t scratch_bytes() const requires UsesScratch<C> { return codec.scratch_bytes(); }

  /// See WorksByPieces. A checksum is of a whole block.
  int pieces() const requires Piecewise<C> {
    return origin.checksum ? 1 : detail::pieces_of(codec, layout);
  }
  std::size_t piece_scratch_bytes() const requires Piecewise<C> {
    return codec.piece_scratch_bytes(0);
  }
  template <class Group>
  HCOMP_HD bool piece(Group group, std::size_t b, int k) const requires Piecewise<C> {
    return detail::encode_piece_of(group, codec, layout, x, code, origin, b, k, [](auto const&) {});
  }
  template <class Group>
  HCOMP_HD void close(Group group, std::size_t b, bool nonfinite) const requires Piecewise<C> {
    detail::close_block_of(group, codec, layout, code, origin, b, nonfinite);
  }
};

/// acc += in, for blocks that follow each other at both addresses.
template <HomomorphicSum C> struct merge_blocks {
  static constexpr int blocks_at_once = detail::merges_at_once<C>();

  C codec;
  std::byte* acc;
  std::byte const* in;
  std::size_t stride = codec.block_bytes(C::block_values);  ///< from block to block

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t i) const {
    std::byte* const mine = acc + i * stride;
    std::byte const* const other = in + i * stride;
    auto const header = load_header(mine), theirs = load_header(other);
    std::size_t const bytes = bytes_of(header);
    // of another length, `other` is refused by the merge, and may be shorter than it says
    bool const intact =
        detail::is_intact(group, header, mine, bytes) &&
        (header.values != theirs.values || detail::is_intact(group, theirs, other, bytes));
    codec.merge_block(group, mine, other);
    if (!intact) detail::mark_damaged(group, mine, block_fault::checksum);
    // merging keeps whether there is one
    if (header.flags & block_has_checksum) detail::seal(group, mine, bytes);
  }

 private:
  /// Never more than a full block has, whatever its header says.
  HCOMP_HD std::size_t bytes_of(block_header const& header) const {
    int const n = header.values;
    return codec.block_bytes(n < C::block_values ? n : C::block_values);
  }
};

/// Blocks that follow each other, in their narrow form: block i to out + places[i].
template <Narrowable C> struct narrow_blocks {
  C codec;
  std::byte const* blocks;
  std::size_t stride;  ///< from block to block
  std::byte* out;
  std::size_t const* places;

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t i) const {
    codec.narrow_block(group, blocks + i * stride, out + places[i]);
  }
  std::size_t scratch_bytes() const requires UsesScratch<C> { return codec.narrow_scratch_bytes(); }
};

/// And back: block i from in + places[i].
template <Narrowable C> struct widen_blocks {
  C codec;
  std::byte const* in;
  std::size_t const* places;
  std::byte* blocks;
  std::size_t stride;

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t i) const {
    codec.widen_block(group, in + places[i], blocks + i * stride);
  }
  std::size_t scratch_bytes() const requires UsesScratch<C> { return codec.narrow_scratch_bytes(); }
};

/// Blocks first, first + 1, ... of a code, as they are, to another place.
struct copy_blocks {
  encoded_layout layout;
  std::size_t first;
  std::byte* to;          ///< where block `first` goes
  std::byte const* from;  ///< where it is

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t i) const {
    copy_bytes(group, to + layout.offset(i), from + layout.offset(i), layout.bytes({first + i, 1}));
  }
};

/// Block first + i of `code` into its place in `x`.
template <Compressor C> struct decode_blocks {
  static constexpr int workers = detail::decode_workers_of<C>();
  static constexpr int blocks_at_once = detail::decodes_at_once<C>();
  static constexpr int piece_workers = detail::piece_workers_of<C>();

  C codec;
  encoded_layout layout;
  std::size_t first;
  std::byte const* code;      ///< of the whole vector
  typename C::value_type* x;  ///< of the whole vector
  reduce_op op = reduce_op::sum;
  bool spread_nan =
      false;  ///< NaN for all values of a block in which some rank had NaN or infinity

  HCOMP_HD bool becomes_nan(std::byte const* block) const {
    return !C::passes_nonfinite && spread_nan &&
           (load_aligned<block_header>(block).flags & block_has_nonfinite) != 0;
  }

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t i) const {
    std::size_t const b = first + i;
    std::byte const* const block = code + layout.offset(b);
    int const n = layout.values_in(b);
    auto* const out = x + b * layout.block_values;
    if constexpr (!C::passes_nonfinite)
      if (becomes_nan(block)) return fill_with_nan(group, out, n);
    codec.decode_block(group, block, n, out, op);
  }
  std::size_t scratch_bytes() const requires UsesScratch<C> { return codec.scratch_bytes(); }

  /// See WorksByPieces.
  int pieces() const requires Piecewise<C> { return detail::pieces_of(codec, layout); }
  std::size_t piece_scratch_bytes() const requires Piecewise<C> {
    return codec.piece_scratch_bytes(0);
  }
  template <class Group>
  HCOMP_HD void piece(Group group, std::size_t i, int k) const requires Piecewise<C> {
    piece(group, i, k, [](std::size_t, int, auto*, auto const& decode) { decode(); });
  }
  /// @param around  around(first, count, to, decode) calls decode(), which writes `count` values from `to` on,
  ///                those from number `first` on of the vector, unless they become NaN
  template <class Group, class Around>
  HCOMP_HD void piece(Group group, std::size_t i, int k,
                      Around const& around) const requires Piecewise<C> {
    std::size_t const b = first + i;
    std::byte const* const block = code + layout.offset(b);
    int const n = layout.values_in(b);
    auto const range = detail::range_of_piece(codec, n, k);
    if (range.count <= 0) return;
    std::size_t const at = b * layout.block_values + static_cast<std::size_t>(range.first);
    if constexpr (!C::passes_nonfinite)
      if (becomes_nan(block)) return fill_with_nan(group, x + at, range.count);
    auto const header = load_aligned<block_header>(block);
    around(at, range.count, x + at, [&] {
      codec.decode_piece(group, block, n, {header.key, 0, header.weight, header.index, nullptr},
                         x + at, op, k);
    });
  }

 private:
  template <class Group>
  HCOMP_HD static void fill_with_nan(Group group, typename C::value_type* to, int count) {
    for (int j = group.worker(); j < count; j += Group::workers)
      to[j] = static_cast<typename C::value_type>(std::numeric_limits<float>::quiet_NaN());
  }
};

/// Blocks that follow each other, each as it will be when it has travelled; sealed anew if it was.
template <HopRounding C> struct round_blocks {
  C codec;
  std::byte* blocks;
  std::size_t stride;  ///< from block to block

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t i) const {
    std::byte* const block = blocks + i * stride;
    auto const header = load_aligned<block_header>(block);
    int const n = header.values < C::block_values ? header.values : C::block_values;
    bool const checked = header.flags & block_has_checksum;
    bool const intact = !checked || detail::is_intact(group, block, codec.block_bytes(n));
    codec.round_block(group, block);
    if (!intact) detail::mark_damaged(group, block, block_fault::checksum);
    if (checked) detail::seal(group, block, codec.block_bytes(n));
  }
};

/// The same work on blocks that start at `first`.
template <class Work> struct shifted {
  static constexpr int workers = detail::workers_of<Work>();
  static constexpr int blocks_at_once = detail::blocks_at_once_of<Work>();
  static constexpr int piece_workers = detail::piece_workers_of<Work>();

  Work work;
  std::size_t first;

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t i) const {
    work(group, first + i);
  }
  std::size_t scratch_bytes() const requires UsesScratch<Work> { return work.scratch_bytes(); }

  int pieces() const requires WorksByPieces<Work> { return work.pieces(); }
  std::size_t piece_scratch_bytes() const requires WorksByPieces<Work> {
    return work.piece_scratch_bytes();
  }
  template <class Group>
  HCOMP_HD auto piece(Group group, std::size_t i, int k) const requires WorksByPieces<Work> {
    return work.piece(group, first + i, k);
  }
  template <class Group>
  HCOMP_HD void close(Group group, std::size_t i, bool any) const requires WorksByPieces<Work> {
    work.close(group, first + i, any);
  }
};

}  // namespace hcomp
