#pragma once
/// @file
/// The work that plans give to an executor, for programs that count or measure it. Needs CUDA.

#include <cuda_runtime.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/error_bounded/error_bounded.hpp>
#include <hcomp/codec/error_bounded/fallback.hpp>
#include <hcomp/codec/inceptionn/inceptionn.hpp>
#include <hcomp/codec/lossless/lossless.hpp>
#include <hcomp/codec/registry.hpp>
#include <hcomp/codec/sparse/lossless_sparse.hpp>
#include <hcomp/collective/engine/detail/inspection.hpp>
#include <hcomp/collective/engine/detail/narrow_encoding.hpp>
#include <hcomp/collective/engine/variable_rate_coder.hpp>
#include <hcomp/collective/sparse/detail/sparse_phases.hpp>
#include <hcomp/core/hash.hpp>
#include <hcomp/feedback/detail/arrays_of.hpp>
#include <hcomp/feedback/error_feedback.hpp>
#include <hcomp/feedback/feedback.hpp>
#include <hcomp/feedback/global_compensation.hpp>
#include <hcomp/gpu/error.hpp>
#include <hcomp/op/block_work.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

namespace hcomp::testing {

/// One kind of work. All members are functions, and all but `prepare` can be called again.
template <class Prepare, class Run, class Least, class Result> struct plan_work {
  std::string name;
  double asked;     ///< upper limit of requested bytes, relative to the bytes that must move
  Prepare prepare;  ///< runs before each run, not measured
  Run run;          ///< gives the executor its work; the same work in every run
  Least least;      ///< the bytes that must move, after a run
  Result result;    ///< the resulting bytes, in the executor's memory, after a run
};
template <class P, class R, class L, class B>
plan_work(char const*, double, P, R, L, B) -> plan_work<P, R, L, B>;
template <class P, class R, class L, class B>
plan_work(std::string, double, P, R, L, B) -> plan_work<P, R, L, B>;

/// Calls observe(plan_work) for all kinds of work on the executor `E`.
template <class E, class Observe> class work_of_plans {
  using buffer = typename E::buffer;
  static constexpr double block_asked = 1.05, stream_asked = 1.2;

 public:
  work_of_plans(E& executor, std::size_t values, Observe const& observe)
      : executor_(executor),
        observe_(observe),
        values_(values),
        vector_bytes_(values * sizeof(float)),
        x_(vector_of(1)),
        y_(vector_of(2)) {}

  void all() {
    builtin_codecs<float>::for_each([&]<class C>() { blocks_of<C>(); });
    encodings_of("inceptionn", inceptionn({.prescale = -6}));
    encodings_of("error_bounded", error_bounded({.bound = 1e-3, .ranks = 4}));
    encodings_of("error_bounded_fallback", error_bounded_fallback({.bound = 1e-3, .ranks = 4}));
    encodings_of("lossless", lossless<float>());
    sparse_of<float>("sparse_union", {.dense = false, .sketched = false});
    sparse_of<std::uint32_t>("lhc", {.dense = false, .packed = false});
  }

 private:
  static constexpr auto nothing = [] {};
  static constexpr auto no_result = [] { return std::span<std::byte const>(); };

  template <class T> static T* as(buffer const& memory) {
    return reinterpret_cast<T*>(memory.data());
  }
  static void copy(void* to, void const* from, std::size_t bytes) {
    HCOMP_CUDA_TRY(cudaMemcpy(to, from, bytes, cudaMemcpyDefault));
  }
  static auto first_of(buffer const& memory, std::size_t bytes) {
    return [&memory, bytes] { return std::span<std::byte const>(memory.data(), bytes); };
  }
  static auto all_of(buffer const& memory) { return first_of(memory, memory.size()); }

  /// @param share  of nonzero values, which are from -1 to 1
  buffer vector_of(std::uint64_t seed, double share = 1) const {
    std::vector<float> x(values_);
    for (std::size_t i = 0; i < values_; ++i) {
      std::uint64_t const drawn = mix(i + seed * values_);
      bool const is_nonzero = static_cast<double>(drawn >> 32) < share * 0x1p32;
      x[i] = is_nonzero ? static_cast<float>(drawn % 2001) / 1000 - 1 : 0;
    }
    buffer to(vector_bytes_);
    copy(to.data(), x.data(), to.size());
    return to;
  }

  /// Codecs of blocks.
  template <class C> void blocks_of() {
    C const codec = fit(C{}, 3);
    std::string const name(C::name);
    auto const layout = layout_of(codec, values_);
    std::size_t const blocks = layout.blocks(), encoded = layout.bytes();
    buffer const sum(vector_bytes_), a(encoded), b(encoded);
    std::size_t const words = statistics_words(codec, layout);
    buffer const statistics((2 * words + 1) * sizeof(std::uint32_t));
    auto* const agreed = as<std::uint32_t>(statistics);

    if constexpr (Calibrated<C>) {
      auto const measure = [&](buffer const& from, std::uint32_t* to) {
        executor_.for_each_block(
            blocks, measure_blocks<C, float const*>{codec, layout, as<float>(from), to, nullptr});
      };
      observe_(plan_work{name + " measure", block_asked, nothing, [&] { measure(x_, agreed); },
                         [&] { return vector_bytes_ + 4 * words; },
                         first_of(statistics, 4 * words)});
      measure(y_, agreed + words);
      executor_.for_each_block((words + unite_statistics::run - 1) / unite_statistics::run,
                               unite_statistics{agreed, agreed + words, words});
    }
    no_feedback<float> none(values_);
    auto const encode = [&](auto const& view, buffer const& to, std::uint32_t rank,
                            bool checksum = false) {
      using work = encode_with_feedback<C, std::remove_cvref_t<decltype(view)>>;
      executor_.for_each_block(
          blocks, shifted<work>{{codec,
                                 layout,
                                 view,
                                 to.data(),
                                 {77, rank, 1, 0, words > 0 ? agreed : nullptr, checksum}},
                                0});
    };
    auto const decode = [&](auto const& view) {
      executor_.for_each_block(
          blocks, decode_with_feedback<C, std::remove_cvref_t<decltype(view)>>{
                      {codec, layout, 0, a.data(), as<float>(sum), reduce_op::mean}, view});
    };
    auto const merge = [&](buffer const& acc, buffer const& in) {
      executor_.for_each_block(blocks, merge_blocks<C>{codec, acc.data(), in.data()});
    };
    auto const encode_both = [&] {
      encode(none.view(as<float>(x_)), a, 0);
      encode(none.view(as<float>(y_)), b, 1);
    };
    if constexpr (!C::passes_nonfinite) {
      error_feedback<float, detail::arrays_of<E>::template array> residual(values_);
      observe_(plan_work{name + " encode, error feedback", block_asked, [&] { residual.reset(); },
                         [&] { encode(residual.view(as<float>(x_)), a, 0); },
                         [&] { return 3 * vector_bytes_ + encoded; }, all_of(a)});
    }
    observe_(plan_work{name + " encode", block_asked, nothing,
                       [&] { encode(none.view(as<float>(x_)), a, 0); },
                       [&] { return vector_bytes_ + encoded; }, all_of(a)});
    detail::inspection<E> inspection(blocks);
    auto const require_sound = [&](buffer const& of, std::uint64_t weight, bool checksum) {
      auto const found = inspection(executor_, codec, layout, layout.all(), of.data(), 77, weight,
                                    reduce_op::sum, checksum);
      if (!found.is_sound())
        throw std::runtime_error(name + ": block " + std::to_string(found.damaged) + " of " +
                                 std::to_string(weight) + " ranks is not sound, fault " +
                                 std::to_string(found.fault));
    };
    encode(none.view(as<float>(x_)), b, 0, true);
    observe_(plan_work{name + " inspect", block_asked, nothing, [&] { require_sound(b, 1, true); },
                       [&] { return encoded + blocks * sizeof(detail::inspected_block); },
                       no_result});
    auto const three_encodings = [&] { return 3 * encoded; };
    if constexpr (requires { C::takes_one_ranks_bit; }) {
      buffer const c(encoded);
      observe_(plan_work{name + " merge, 1 and 2 ranks", block_asked,
                         [&] {
                           encode_both();
                           encode(none.view(as<float>(x_)), c, 2);
                           merge(b, c);
                         },
                         [&] { merge(a, b); }, three_encodings, all_of(a)});
      require_sound(a, 3, false);
    }
    observe_(plan_work{name + " merge", block_asked, encode_both, [&] { merge(a, b); },
                       three_encodings, all_of(a)});
    require_sound(a, 2, false);
    observe_(plan_work{name + " decode", block_asked, nothing,
                       [&] { decode(none.view(as<float>(x_))); },
                       [&] { return vector_bytes_ + encoded; }, all_of(sum)});
    if constexpr (requires { C::takes_one_ranks_bit; }) {
      global_compensation<float, detail::arrays_of<E>::template array> state(values_);
      observe_(plan_work{name + " decode, global compensation", block_asked,
                         [&] {
                           state.reset();
                           copy(sum.data(), x_.data(), vector_bytes_);
                         },
                         [&] { decode(state.view(as<float>(sum))); },
                         [&] { return 4 * vector_bytes_ + encoded; }, all_of(sum)});
    }
    if constexpr (Narrowable<C>) {
      block_header header;
      executor_.synchronize();
      copy(&header, a.data(), sizeof(header));
      buffer const wide(encoded);
      detail::narrow_encoding<C, E> by(layout, blocks);
      std::size_t narrow = 0;
      auto const least = [&] { return encoded + narrow; };
      auto const message = [&] { return std::span<std::byte const>(b.data(), narrow); };
      observe_(plan_work{name + " narrow", block_asked, nothing,
                         [&] {
                           narrow = by.narrow(codec, executor_, layout.all(), a.data(), b.data(),
                                              header.weight);
                         },
                         least, message});
      observe_(plan_work{name + " widen", block_asked, nothing,
                         [&] {
                           by.widen(codec, executor_, layout.all(), message(),
                                    reinterpret_cast<std::byte const*>(&header), wide.data());
                         },
                         least, all_of(wide)});
    }
  }

  /// Codecs of variable rate.
  template <class C> void encodings_of(std::string const& name, C const& codec) {
    buffer const out(vector_bytes_);
    buffer const a(codec.capacity(values_)), b(a.size()), c(a.size());
    variable_rate_coder<C, E> coder(values_, executor_);
    auto const span = [&](buffer const& of) { return std::span(as<float>(of), values_); };
    auto const encoded = [](buffer const& of) { return std::span(of.data(), of.size()); };
    auto const made = [&](buffer const& of) {
      return [&] { return std::span<std::byte const>(of.data(), coder.bytes(codec)); };
    };
    coder.encode(codec, span(y_), encoded(b));
    std::size_t const other = coder.bytes(codec);
    std::size_t mine = 0;
    observe_(plan_work{name + " encode", stream_asked, nothing,
                       [&] { coder.encode(codec, span(x_), encoded(a)); },
                       [&] { return vector_bytes_ + (mine = coder.bytes(codec)); }, made(a)});
    if constexpr (MergingVariableRate<C>)
      observe_(plan_work{name + " merge", stream_asked, nothing,
                         [&] { coder.merge(codec, encoded(a), encoded(b), values_, encoded(c)); },
                         [&] { return mine + other + coder.bytes(codec); }, made(c)});
    observe_(plan_work{name + " decode, add, encode", stream_asked, nothing,
                       [&] { coder.decode_add_encode(codec, encoded(b), span(x_), encoded(c)); },
                       [&] { return vector_bytes_ + other + coder.bytes(codec); }, made(c)});
    observe_(plan_work{name + " decode", stream_asked, nothing,
                       [&] { coder.decode(codec, encoded(a), span(out)); },
                       [&] { return vector_bytes_ + mine; }, all_of(out)});
  }

  /// Vectors with one nonzero value in 20: their index, and the values packed or in a sketch.
  /// Scattered accesses move complete sectors: those of marked values, and three cells of a sketch
  /// for each.
  template <class Lane>
  void sparse_of(std::string const& name, sparse_strategies const& strategies) {
    constexpr double share = 0.05;
    buffer const x = vector_of(1, share), y(vector_bytes_), lanes(values_ * sizeof(Lane));
    detail::sparse_phases<lossless_sparse<Lane>, E> phases({.strategies = strategies}, values_, {},
                                                           executor_);
    std::span const from(as<float>(x), values_), to(as<float>(y), values_);
    std::size_t const index = values_ / 8;
    auto const mark = [&] { phases.mark(from, reduce_op::sum); };
    auto const look = [&] { phases.look(); };
    if (strategies.packed) {
      observe_(plan_work{"sparse index, mark", stream_asked, nothing, mark,
                         [&] { return vector_bytes_ + index; }, no_result});
      observe_(plan_work{"sparse index, look", stream_asked, nothing, look,
                         [&] { return 2 * index + index / 2; }, no_result});
    } else {
      mark();
      look();
    }
    phases.unite(0);
    double const marked = static_cast<double>(phases.choice().marked);
    double const expected_bytes = static_cast<double>(vector_bytes_) * (1 - std::pow(1 - share, 8));
    std::size_t const count = phases.lanes();
    std::span const lane_span(as<Lane>(lanes), count);
    double const lane_bytes = strategies.packed ? marked * sizeof(Lane) : marked * 3 * 32;
    auto const encode = [&] { phases.encode_lanes(from, lane_span, 0); };
    observe_(plan_work{name + " encode", stream_asked, nothing, encode,
                       [&] { return static_cast<double>(index) + expected_bytes + lane_bytes; },
                       first_of(lanes, count * sizeof(Lane))});
    // Decoding destroys a sketch.
    observe_(plan_work{
        name + " decode", stream_asked, encode, [&] { phases.decode_lanes(lane_span, to, 0); },
        [&] { return static_cast<double>(index + vector_bytes_) + lane_bytes; }, all_of(y)});
  }

  E& executor_;
  Observe const& observe_;
  std::size_t values_, vector_bytes_;
  buffer x_, y_;
};

}  // namespace hcomp::testing
