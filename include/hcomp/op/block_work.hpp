#pragma once
/// @file
/// Work for executors: functors that process one block of an encoded vector. Named types, not
/// lambdas, so that a GPU kernel can be instantiated with them.

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/compressor.hpp>
#include <hcomp/codec/device_hints.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/core/group.hpp>
#include <hcomp/core/hash.hpp>
#include <hcomp/op/encoded_layout.hpp>
#include <limits>

namespace hcomp {

namespace detail {

/// The checksum of a block, computed over its bytes with the checksum field set to 0. Never 0.
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
  group.sync();  // every worker must have read the header before it changes
  if (group.worker() == 0) store_aligned(block, 0, header);
  group.sync();
}

/// True if the block carries no checksum or a correct one.
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

/// The preferred number of concurrent blocks per multiprocessor in merges, as declared by a codec;
/// 0: no preference.
template <class C> constexpr int merges_at_once() {
  if constexpr (requires { C::merges_at_once; })
    return C::merges_at_once;
  else
    return 0;
}

/// The preferred number of concurrent blocks per multiprocessor in encoding.
/// @param notes_losses  whether the source TracksResidual
template <class C> constexpr int encodes_at_once(bool notes_losses) {
  if constexpr (requires { C::encodes_at_once(notes_losses); })
    return C::encodes_at_once(notes_losses);
  else
    return 0;
}
/// The preferred number of workers per block in decoding; 0: no preference.
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

/// Work that needs scratch memory: the workers of a group share scratch(), of scratch_bytes()
/// bytes. Groups without scratch memory, as on CPUs, use the stack. A Narrowable codec declares the
/// size for narrowing in narrow_scratch_bytes().
template <class C>
concept UsesScratch = requires(C const& codec) {
  { codec.scratch_bytes() } -> std::same_as<std::size_t>;
};

/// Writes the calibration words of block b of `x` to the block's position in `words`.
template <Calibrated C, class Source> struct measure_blocks {
  C codec;
  encoded_layout layout;
  Source x;                     ///< as in encode_blocks
  std::uint32_t* words;         ///< statistics_words(codec, layout) words
  float* dominances = nullptr;  ///< one per word, if the codec MeasuresDominance; or null

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

/// words = max(words, other), elementwise, `run` words per block.
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

/// The number of words that ranks must agree on before encoding; 0 if the codec is not Calibrated.
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

/// The values of a piece, relative to their block.
struct piece_range {
  int first, count;  ///< 0 or negative if the block has no such piece
};
template <Piecewise C> HCOMP_HD piece_range range_of_piece(C const& codec, int n, int k) {
  int const each = codec.piece_values(), first = k * each;
  return {first, n - first < each ? n - first : each};
}
template <Piecewise C> constexpr int pieces_of(C const& codec, encoded_layout const& layout) {
  int const each = codec.piece_values(), all = static_cast<int>(layout.block_values);
  return (all + each - 1) / each;
}

/// The origin of block b of a vector whose blocks start with `origin`.
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

/// Encodes block b of `x` into block b of `encoded`, as encode_blocks does. Afterwards calls
/// after(n, decode): decode(to) decodes the block's n values, before anything is added to it.
/// @param codec  a reference, because a copy in a kernel would be in slow memory
template <class C, class Source, class Group, class After>
HCOMP_HD void encode_block_of(Group group, C const& codec, encoded_layout const& layout,
                              Source const& x, std::byte* encoded, block_origin const& origin,
                              std::size_t b, After const& after) {
  auto const n = layout.values_in(b);
  auto const place = origin_of_block(codec, layout, origin, b);
  std::byte* const block = encoded + layout.offset(b);
  auto const values = x + b * layout.block_values;
  codec.encode_block(group, values, n, block, place);
  after(n, [&](auto* to) { codec.decode_block(group, block, n, to, reduce_op::mean); });
  if (origin.checksum) seal(group, block, codec.block_bytes(n));
}

/// Encodes piece k of block b, except for the part that the codec's close_block writes. Returns, in
/// every worker, whether the piece contains NaN or infinity.
template <Piecewise C, class Source, class Group, class After>
HCOMP_HD bool encode_piece_of(Group group, C const& codec, encoded_layout const& layout,
                              Source const& x, std::byte* encoded, block_origin const& origin,
                              std::size_t b, int k, After const& after) {
  auto const n = layout.values_in(b);
  auto const place = origin_of_block(codec, layout, origin, b);
  std::byte* const block = encoded + layout.offset(b);
  bool const nonfinite = codec.encode_piece(group, x + b * layout.block_values, n, block, place, k);
  after([&](auto* to) { codec.decode_piece(group, block, n, place, to, reduce_op::mean, k); });
  return nonfinite;
}

template <Piecewise C, class Group>
HCOMP_HD void close_block_of(Group group, C const& codec, encoded_layout const& layout,
                             std::byte* encoded, block_origin const& origin, std::size_t b,
                             bool nonfinite) {
  codec.close_block(group, layout.values_in(b), encoded + layout.offset(b), nonfinite,
                    origin_of_block(codec, layout, origin, b));
}

}  // namespace detail

/// Encodes block b of `x` into block b of `encoded`.
template <Compressor C, class Source> struct encode_blocks {
  static constexpr int workers = detail::workers_of<C>();
  static constexpr int blocks_at_once = detail::encodes_at_once<C>(TracksResidual<Source>);
  static constexpr int piece_workers = detail::piece_workers_of<C>();

  C codec;
  encoded_layout layout;
  Source x;             ///< a pointer to the vector, or a `compensated`
  std::byte* encoded;   ///< layout.bytes() bytes
  block_origin origin;  ///< the index is set per block; statistics are those of all blocks

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t b) const {
    detail::encode_block_of(group, codec, layout, x, encoded, origin, b, [](int, auto const&) {});
  }
  std::size_t scratch_bytes() const requires UsesScratch<C> { return codec.scratch_bytes(); }

  /// See WorksByPieces. One piece if blocks carry checksums: a checksum covers a whole block.
  int pieces() const requires Piecewise<C> {
    return origin.checksum ? 1 : detail::pieces_of(codec, layout);
  }
  std::size_t piece_scratch_bytes() const requires Piecewise<C> {
    return codec.piece_scratch_bytes(0);
  }
  template <class Group>
  HCOMP_HD bool piece(Group group, std::size_t b, int k) const requires Piecewise<C> {
    return detail::encode_piece_of(group, codec, layout, x, encoded, origin, b, k,
                                   [](auto const&) {});
  }
  template <class Group>
  HCOMP_HD void close(Group group, std::size_t b, bool nonfinite) const requires Piecewise<C> {
    detail::close_block_of(group, codec, layout, encoded, origin, b, nonfinite);
  }
};

namespace detail {

/// A received block may have any lowest rank.
inline constexpr std::uint32_t any_rank = ~std::uint32_t{0};

/// Calls merge(), which merges the block `other` into `mine`. Checks checksums before, and renews
/// them. Marks `mine` as damaged if the lowest rank in `other` is not `lowest`: the message is not
/// the one that the schedule expects here.
template <HomomorphicSum C, class Group, class Merge>
HCOMP_HD void merge_sealed(Group group, C const& codec, std::byte* mine, std::byte const* other,
                           std::uint32_t lowest, Merge const& merge) {
  auto const header = load_header(mine), theirs = load_header(other);
  int const n = header.values;  // at most a full block, whatever the header says
  std::size_t const bytes = codec.block_bytes(n < C::block_values ? n : C::block_values);
  // a block of another length is rejected by the merge, and may be shorter than its header says
  bool const intact = is_intact(group, header, mine, bytes) &&
                      (header.values != theirs.values || is_intact(group, theirs, other, bytes));
  merge();
  if (!intact) mark_damaged(group, mine, block_fault::checksum);
  if (lowest != any_rank && theirs.lowest_rank != lowest)
    mark_damaged(group, mine, block_fault::ranks);
  // merging preserves the flag
  if (header.flags & block_has_checksum) seal(group, mine, bytes);
}

}  // namespace detail

/// acc += in, for contiguous blocks at both addresses.
template <HomomorphicSum C> struct merge_blocks {
  static constexpr int blocks_at_once = detail::merges_at_once<C>();

  C codec;
  std::byte* acc;
  std::byte const* in;
  std::size_t stride = codec.block_bytes(C::block_values);  ///< distance between blocks, in bytes
  std::uint32_t lowest = detail::any_rank;                  ///< lowest rank in `in`

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t i) const {
    std::byte* const mine = acc + i * stride;
    std::byte const* const other = in + i * stride;
    detail::merge_sealed(group, codec, mine, other, lowest,
                         [&] { codec.merge_block(group, mine, other); });
  }
};

/// acc += in, for contiguous blocks at both addresses, with a wide_sum per block.
template <DefersRounding C> struct merge_wide_blocks {
  C codec;
  std::byte* acc;
  std::byte const* in;
  std::size_t stride;    ///< distance between blocks, in bytes
  std::uint32_t lowest;  ///< lowest rank in `in`
  wide_sum wide;         ///< of the first block
  std::size_t wide_stride;

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t i) const {
    std::byte* const mine = acc + i * stride;
    std::byte const* const other = in + i * stride;
    wide_sum const sum{wide.values + i * wide_stride, wide.starts, wide.ends};
    detail::merge_sealed(group, codec, mine, other, lowest,
                         [&] { codec.merge_wide(group, mine, other, sum); });
  }
};

/// Converts contiguous blocks to their narrow form: writes block i to out + places[i].
template <Narrowable C> struct narrow_blocks {
  C codec;
  std::byte const* blocks;
  std::size_t stride;  ///< distance between blocks, in bytes
  std::byte* out;
  std::size_t const* places;

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t i) const {
    codec.narrow_block(group, blocks + i * stride, out + places[i]);
  }
  std::size_t scratch_bytes() const requires UsesScratch<C> { return codec.narrow_scratch_bytes(); }
};

/// Converts blocks back from the narrow form: reads block i from in + places[i].
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

/// Copies blocks first, first + 1, ... of an encoded vector unchanged.
struct copy_blocks {
  encoded_layout layout;
  std::size_t first;
  std::byte* to;          ///< destination of block `first`
  std::byte const* from;  ///< source of block `first`

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t i) const {
    copy_bytes(group, to + layout.offset(i), from + layout.offset(i), layout.bytes({first + i, 1}));
  }
};

/// Decodes block first + i of `encoded` to its position in `x`.
template <Compressor C> struct decode_blocks {
  static constexpr int workers = detail::decode_workers_of<C>();
  static constexpr int blocks_at_once = detail::decodes_at_once<C>();
  static constexpr int piece_workers = detail::piece_workers_of<C>();

  C codec;
  encoded_layout layout;
  std::size_t first;
  std::byte const* encoded;   ///< of the whole vector
  typename C::value_type* x;  ///< of the whole vector
  reduce_op op = reduce_op::sum;
  bool spread_nan =
      false;  ///< if some rank had NaN or infinity in a block, decode all its values to NaN

  HCOMP_HD bool becomes_nan(std::byte const* block) const {
    return !C::passes_nonfinite && spread_nan &&
           (load_aligned<block_header>(block).flags & block_has_nonfinite) != 0;
  }

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t i) const {
    std::size_t const b = first + i;
    std::byte const* const block = encoded + layout.offset(b);
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
  /// Decodes piece k of a block.
  /// @param around  around(first, count, to, decode) calls decode(), which writes `count` values,
  ///                starting with value `first` of the vector, to `to`; not called if the values
  ///                become NaN
  template <class Group, class Around>
  HCOMP_HD void piece(Group group, std::size_t i, int k,
                      Around const& around) const requires Piecewise<C> {
    std::size_t const b = first + i;
    std::byte const* const block = encoded + layout.offset(b);
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

/// Rounds contiguous blocks in place as their next transfer rounds them; renews existing checksums.
template <HopRounding C> struct round_blocks {
  C codec;
  std::byte* blocks;
  std::size_t stride;  ///< distance between blocks, in bytes

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

/// The same work on blocks from number `first` on.
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
