#pragma once
/// @file
/// Variable-rate encoding in an executor's memory.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/detail/chunked_encoding.hpp>
#include <hcomp/codec/variable_rate.hpp>
#include <hcomp/core/detail/error_text.hpp>
#include <hcomp/exec/executor.hpp>
#include <hcomp/exec/mirror.hpp>
#include <hcomp/op/detail/chunk_work.hpp>
#include <span>
#include <stdexcept>
#include <type_traits>

namespace hcomp {

/// Encodes, adds and decodes vectors in an executor's memory, with all its threads or on its
/// device. Bytes, values and errors are those of the codec.
///
///     hcomp::variable_rate_coder<hcomp::inceptionn, E> coder(x.size(), executor);
///     coder.encode(codec, x, encoded);              // returns at once, as an executor does
///     std::size_t const bytes = coder.bytes(codec);  // waits
///     coder.decode(codec, encoded.first(bytes), y);
///
/// The executor is used, not owned, and must outlive this. Vectors and encoded vectors are in its
/// memory; encoded vectors start at addresses that are multiples of 4. Encoded vectors that are
/// read must be valid: made here, or checked. Only `bytes`, `check`, `measure` and `find_nonfinite`
/// wait for the executor. The results of an encoding are valid until the next one. Calls allocate
/// nothing. Those that do not wait can be captured in a CUDA graph.
///
/// Memory: some words per chunk.
/// Cost: encoding reads the values once. One thread or a device writes the encoded vector once.
/// With several threads, each writes runs of 16384 values at the largest possible offset, and one
/// thread moves them together. On devices a block's workers assemble a chunk in shared memory and
/// write it when the lengths of the preceding chunks are known, which blocks pass on.
///
/// Merging reads two encoded vectors instead of values. Decoding reads the encoded vector and
/// writes the values.
template <VariableRate C, Executor E> class variable_rate_coder {
  using coder_type = typename C::coder_type;
  using header_type = typename coder_type::header;
  using value_type = typename C::value_type;
  using encoded_sources = detail::encoded_sources<value_type>;

 public:
  using report_type = detail::encoded_report<coder_type>;

  /// @param most_values  largest size of a vector; encoding takes at most C::max_values
  variable_rate_coder(std::size_t most_values, E& executor)
      : most_values_(most_values),
        executor_(&executor),
        order_(order_words(most_values) * sizeof(std::uint64_t)),
        notes_(2 * chunks(most_values) * sizeof(typename coder_type::note)),
        bytes_(sizeof(std::uint64_t)),
        words_(report_words + std::max(chunks(most_values), measuring_blocks)),
        header_(1),
        part_(1) {
    auto const order = order_of(most_values);
    executor.for_each_block(order.runs(), order);
  }
  variable_rate_coder(variable_rate_coder const&) = delete;
  variable_rate_coder& operator=(variable_rate_coder const&) = delete;

  /// Enqueues the encoding of x.
  /// @param out  may be overwritten beyond the encoded vector, too
  /// @throws std::invalid_argument  `out` has less than codec.capacity(x.size()) bytes or a
  ///                                misaligned address, or x is longer than `most_values`
  void encode(C const& codec, std::span<value_type const> x, std::span<std::byte> out) {
    put("encode", codec, {x.size(), x.data()}, out);
  }
  /// The same for the sum of x and the values of `in`: a hop of a ring.
  /// @param in     valid, with x.size() values
  /// @param out    must overlap neither `in` nor x
  /// @param validation  see `validate_later`
  void decode_add_encode(C const& codec, std::span<std::byte const> in,
                         std::span<value_type const> x, std::span<std::byte> out,
                         detail::deferred_validation const& validation = {}) {
    put("decode_add_encode", codec, {.values = x.size(), .x = x.data(), .b = in.data()}, out,
        validation);
  }
  /// The same for two encoded vectors, added without decoding.
  /// @param a, b      valid, with `values` values
  /// @param out       must overlap neither
  /// @param validation  see `validate_later`; for both
  void merge(C const& codec, std::span<std::byte const> a, std::span<std::byte const> b,
             std::size_t values, std::span<std::byte> out,
             detail::deferred_validation const& validation = {}) requires MergingVariableRate<C> {
    put("merge", codec, {.values = values, .a = a.data(), .b = b.data()}, out, validation);
  }

  /// Size of the last encoded vector. Waits for the executor.
  /// @throws wire_error  as C::merge, with the same text: there is no encoded vector
  std::size_t bytes(C const& codec) {
    words_.fetch(*executor_, report_words);
    return codec.bytes_of(reinterpret_cast<report_type const*>(words_.for_host())->made);
  }
  /// For other work, in the executor's memory: a report_type of the last encoding, and then, if
  /// requested, the result of seek_nonfinite.
  std::span<std::byte const> device_report(bool with_nonfinite, std::size_t values) const {
    std::size_t const words = report_words + (with_nonfinite ? chunks(values) : 0);
    return {reinterpret_cast<std::byte const*>(words_.for_work()), words * sizeof(std::uint64_t)};
  }

  /// Enqueues the decoding of `in`.
  /// @param in     valid, with x.size() values; more bytes may follow
  /// @param parts  divisor of the values; 0: none
  /// @param validation  see `validate_later`
  void decode(C const& codec, std::span<std::byte const> in, std::span<value_type> x, int parts = 0,
              detail::deferred_validation const& validation = {}) {
    get("decode", codec, in.data(), nullptr, parts, x, validation);
  }
  /// out = addends + values of `in`. `addends` may be `out`. NaNs become one canonical NaN.
  /// @param in  as for decode, with out.size() values
  void decode_add(C const& codec, std::span<std::byte const> in,
                  std::span<value_type const> addends, std::span<value_type> out,
                  detail::deferred_validation const& validation = {}) {
    get("decode_add", codec, in.data(), addends.data(), 0, out, validation);
  }

  /// Enqueues the validation of all bytes after the header of `in`. Later work with the same
  /// `validation` reads `in` only if it is valid, and otherwise does nothing.
  /// @param header  of `in`, already checked by the host
  void validate_later(C const& codec, header_type const& header, std::span<std::byte const> in,
                      detail::deferred_validation const& validation) {
    std::size_t const values = header.values, bytes = header.bytes;
    require_values("validate_later", values);
    require_address("validate_later", in.data());
    auto const all = runs_of(values);
    executor_->for_each_block(
        all.runs(), detail::reject_chunks<coder_type>{codec.coder(), all, values, in.data(), bytes,
                                                      validation});
  }

  /// Validates all that C::check validates, and reads nothing beyond `in`. Waits for the executor.
  /// @throws wire_error             as C::check, with the same text
  /// @throws std::invalid_argument  more than `most_values`, or `in` is misaligned
  void check(C const& codec, std::span<std::byte const> in, std::size_t values) {
    require_values("check", values);
    require_address("check", in.data());
    detail::require_header<header_type>(in.size());
    executor_->for_each_block(1, detail::take_header<header_type>{in.data(), header_.for_work()});
    header_.fetch(*executor_, 1);
    auto const header = header_type::checked(*header_.for_host(), in.size());
    header.require(codec.options(), values);

    auto const all = runs_of(values);
    std::size_t const bytes = header.bytes;
    executor_->for_each_block(
        all.runs(), detail::check_chunks<coder_type>{codec.coder(), all, values, in.data(), bytes,
                                                     device_findings()});
    auto const found = fetch_found(all.chunks);
    auto const bad = std::ranges::find(found, 1u);
    if (bad == found.end()) return;
    auto const i = static_cast<std::size_t>(bad - found.begin());
    executor_->for_each_block(
        1, detail::take_part<header_type>{in.data(), i, all.chunks, part_.for_work()});
    part_.fetch(*executor_, 1);
    detail::refuse_chunk<header_type>(i, values, *part_.for_host(), bytes);
  }

  /// C::measure for any number of values. Waits for the executor.
  std::uint32_t measure(std::span<value_type const> x) requires FittedVariableRate<C> {
    auto all = runs_of(x.size());
    all.per_run = std::max(all.per_run, (all.chunks + measuring_blocks - 1) / measuring_blocks);
    using work = typename C::measure_work;
    auto* const on_device = reinterpret_cast<std::uint32_t*>(device_findings());
    executor_->for_each_block(all.runs(), work{x.size(), all.per_run, x.data(), on_device});
    auto const* const here =
        reinterpret_cast<std::uint32_t const*>(fetch_found((all.runs() + 1) / 2).data());
    std::uint32_t largest = 0;
    for (std::size_t i = 0; i < all.runs(); ++i) largest = std::max(largest, here[i]);
    return largest;
  }

  /// Finds NaN and infinity in a valid encoded vector: a bit for every 64 values, a word for every
  /// chunk. Waits for the executor.
  /// @throws std::invalid_argument  more than `most_values`, or `in` is misaligned
  std::span<std::uint64_t const> find_nonfinite(C const& codec, std::span<std::byte const> in,
                                                std::size_t values) {
    seek_nonfinite(codec, in, values);
    return fetch_found(chunks(values));
  }
  /// Enqueues this search, for report_there.
  /// @param validation  the `validate_later` of the vectors that `in` was made from
  void seek_nonfinite(C const& codec, std::span<std::byte const> in, std::size_t values,
                      detail::deferred_validation const& validation = {}) {
    require_values("find_nonfinite", values);
    require_address("find_nonfinite", in.data());
    auto const all = runs_of(values);
    executor_->for_each_block(
        all.runs(), detail::find_nonfinite_chunks<coder_type>{codec.coder(), all, values, in.data(),
                                                              device_findings(), validation});
  }

 private:
  static constexpr char const* where = "variable_rate_coder";
  static constexpr std::size_t measuring_blocks = 1024;
  /// Executors whose threads each encode on their own.
  static constexpr bool in_place = requires(E const& executor) { executor.threads(); };

  static constexpr std::size_t report_words = sizeof(report_type) / sizeof(std::uint64_t);
  std::uint64_t* device_findings() const { return words_.for_work() + report_words; }
  std::span<std::uint64_t const> fetch_found(std::size_t count) {
    words_.fetch(*executor_, count, report_words);
    return {words_.for_host() + report_words, count};
  }
  static constexpr std::size_t chunks(std::size_t values) {
    return detail::chunks_of<header_type>(values);
  }
  static constexpr std::size_t order_words(std::size_t values) {
    return detail::block_order::words_for(
        detail::encode_in_order<coder_type, false, false>::blocks(chunks(values)));
  }
  /// The words that must be zero before a vector of `values` values is encoded, and are zero
  /// afterwards. None for executors that encode in place.
  detail::clear_words order_of(std::size_t values) const {
    return {reinterpret_cast<std::uint64_t*>(order_.data()), in_place ? 0 : order_words(values)};
  }
  /// A device block has a chunk, or one per warp; a host block enough chunks to make its start
  /// cheap.
  detail::chunk_runs runs_of(std::size_t values) const {
    constexpr std::size_t some = 16384 / header_type::chunk_values;
    return {chunks(values),
            in_place ? std::max<std::size_t>(some, 1) : detail::chunks_at_once<coder_type>()};
  }
  /// @throws std::invalid_argument  more values than the memory is for
  void require_values(char const* who, std::size_t values) const {
    if (values > most_values_)
      throw std::invalid_argument(
          detail::error_text({where, "::", who, ": ", values, " values, made for ", most_values_}));
  }
  /// @throws std::invalid_argument  `encoded` does not start at a multiple of 4
  static void require_address(char const* who, std::byte const* encoded) {
    auto const address = reinterpret_cast<std::uintptr_t>(encoded);
    if (address % 4 != 0)
      throw std::invalid_argument(
          detail::error_text({where, "::", who, ": the encoded vector is at address ", address,
                              ", which is not a multiple of 4"}));
  }

  void put(char const* who, C const& codec, encoded_sources const& from, std::span<std::byte> out,
           detail::deferred_validation const& validation = {}) {
    require_values(who, from.values);
    std::byte const* const vectors[] = {from.a, from.b, out.data()};
    for (std::byte const* const encoded : vectors) require_address(who, encoded);
    detail::require_capacity<C>(where, who, from.values, out.size());
    auto const header = header_type::of(codec.options(), from.values);
    auto* const notes = reinterpret_cast<typename coder_type::note*>(notes_.data());
    auto* const bytes = reinterpret_cast<std::uint64_t*>(bytes_.data());
    std::size_t noted = make_chunks(codec.coder(), header, from, notes, bytes, out, validation);
    auto const* all = notes;
    if constexpr (!in_place && detail::JoinsNotes<coder_type>) {
      using join = detail::join_notes<coder_type>;
      if (std::size_t const runs = join::runs(noted); noted > join::few) {
        auto* const joined = notes + chunks(most_values_);
        executor_->for_each_block(runs, join{codec.coder(), notes, noted, joined});
        all = joined;
        noted = runs;
      }
    }
    executor_->for_each_block(
        1, detail::finish_encoded<coder_type>{codec.coder(), from, all, noted, bytes, out.data(),
                                              reinterpret_cast<report_type*>(words_.for_work()),
                                              order_of(from.values), validation});
  }
  /// Returns the number of notes.
  std::size_t make_chunks(coder_type const& coder, header_type const& header,
                          encoded_sources const& from, typename coder_type::note* notes,
                          std::uint64_t* bytes, std::span<std::byte> out,
                          [[maybe_unused]] detail::deferred_validation const& validation) {
    if constexpr (in_place) {
      auto all = runs_of(from.values);
      if (executor_->threads() == 1) all.per_run = std::max<std::size_t>(all.chunks, 1);
      auto* const ends = reinterpret_cast<std::uint64_t*>(order_.data());
      executor_->for_each_block(
          all.runs(),
          detail::encode_runs<coder_type>{coder, from, all.chunks, all.per_run, out, ends, notes});
      executor_->for_each_block(1, detail::join_runs<coder_type>{header, all.runs(), all.per_run,
                                                                 ends, out.data(), bytes});
      return all.runs();
    } else {
      auto* const order = reinterpret_cast<std::uint64_t*>(order_.data());
      auto const make = [&]<bool FromA, bool FromB>() {
        using work = detail::encode_in_order<coder_type, FromA, FromB>;
        executor_->for_each_block(
            work::blocks(header.chunks),
            work{coder, from, header, {order}, out, notes, bytes, validation});
      };
      if (from.a && from.b)
        make.template operator()<true, true>();
      else if (from.b)
        make.template operator()<false, true>();
      else
        make.template operator()<false, false>();
      return header.chunks;
    }
  }

  void get(char const* who, C const& codec, std::byte const* in, value_type const* addends,
           int parts, std::span<value_type> out, detail::deferred_validation const& validation) {
    require_address(who, in);
    auto const all = runs_of(out.size());
    executor_->for_each_block(
        all.runs(),
        detail::decode_chunks<coder_type>{codec.coder(), all, out.size(), in, addends,
                                          static_cast<value_type>(parts), out.data(), validation});
  }

  std::size_t most_values_;
  E* executor_;
  typename E::buffer order_, notes_;  ///< per chunk or run
  typename E::buffer bytes_;          ///< size of the encoded vector
  mirror<std::uint64_t, E> words_;    ///< a report; per chunk, the findings
  mirror<header_type, E> header_;
  mirror<detail::encoded_part, E> part_;
};

}  // namespace hcomp
