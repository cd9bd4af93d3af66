#pragma once
/// @file
/// The entries of hcomp's codecs.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <hcomp/codec/error_bounded/error_bounded.hpp>
#include <hcomp/codec/float_cast/float_cast.hpp>
#include <hcomp/codec/float_cast/identity.hpp>
#include <hcomp/codec/inceptionn/inceptionn.hpp>
#include <hcomp/codec/lossless/lossless.hpp>
#include <hcomp/codec/lossless_integers/lossless_integers.hpp>
#include <hcomp/codec/reproducible/reproducible.hpp>
#include <hcomp/codec/sign/count.hpp>
#include <hcomp/codec/sign/sign.hpp>
#include <hcomp/codec/sparse/lossless_sparse.hpp>
#include <hcomp/codec/sparse_strategy.hpp>
#include <hcomp/codec/thc/thc.hpp>
#include <hcomp/collective/by_name/codec_entry.hpp>
#include <hcomp/collective/by_name/codec_info.hpp>
#include <hcomp/collective/by_name/detail/top_k_plan.hpp>
#include <hcomp/collective/by_name/make_codec_entry.hpp>
#include <hcomp/collective/by_name/registered_codecs.hpp>
#include <hcomp/collective/engine/sampled.hpp>
#include <hcomp/collective/plan/any_plan.hpp>
#include <hcomp/collective/schedule/algorithm.hpp>
#include <hcomp/collective/sparse/sparse_plan.hpp>
#include <hcomp/core/half.hpp>
#include <hcomp/exec/executor.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace hcomp {
namespace detail {

inline codec_key magnitude_key() {
  using enum codec_key::kind;
  return {"magnitude",
          real,
          std::numeric_limits<float>::min(),
          std::numeric_limits<float>::max(),
          1,
          "decoded magnitude of a sign"};
}
inline std::vector<codec_key> thc_keys() {
  using enum codec_key::kind;
  thc_options const usual;
  return {{"bits", whole, 1, 8, usual.bits, "per value of one rank"},
          {"granularity", whole, 0, 255, usual.granularity,
           "integer steps of all levels; 0: automatic"},
          {"truncation", real, 0, 0.5, usual.truncation, "share of clipped values; 0: by bits"},
          {"transform", whole, 64, 16384, usual.transform, "values per rotation"},
          {"hop_bits", whole, 0, 14, usual.hop_bits, "limit per value of a partial sum; 0: none"}};
}
inline thc_options thc_options_of(codec_settings const& s) {
  return {.bits = s.whole("bits"),
          .granularity = s.whole("granularity"),
          .truncation = s["truncation"],
          .transform = s.whole("transform"),
          .hop_bits = s.whole("hop_bits")};
}

inline hcomp::inceptionn inceptionn_of(codec_settings const& s) {
  return hcomp::inceptionn(
      {.bound_exponent = s.whole("E"),
       .prescale = s.whole("prescale"),
       .rounding = s.yes("nearest") ? inceptionn_rounding::nearest : inceptionn_rounding::truncate,
       .fitted = s.yes("fitted")});
}
template <class V> hcomp::error_bounded<V> error_bounded_of(codec_settings const& s) {
  auto const share = s.get("rel");
  return hcomp::error_bounded<V>({.bound = share ? *share : s["bound"],
                                  .magnitude_bits = s.whole("magnitude_bits"),
                                  .relative = share.has_value()});
}
/// The bound, if a float is within it. Otherwise a quarter of the bound, the step of
/// error_bounded_fallback, and rounding to float. For doubles the bound and rounding.
template <class V> double largest_error_bounded(codec_settings const& s, summed_value const& v) {
  auto const share = s.get("rel");
  double const least = error_bounded::least_share<V> * v.ranks;
  double const bound = share ? std::max(*share * v.largest, least) : s["bound"];
  // for rounding of doubles in codec and test, and for bounds that are powers of two
  double const slack = v.ranks * 0x1p-52 * v.magnitude + 0x1p-20 * bound;
  if constexpr (std::is_same_v<V, float>) {
    bool const has_float =
        std::fabs(static_cast<double>(static_cast<float>(v.exact)) - v.exact) <= bound;
    return (has_float ? bound : bound / 4 + 0x1p-24 * (std::fabs(v.exact) + bound)) + slack;
  } else {
    return bound + 0x1p-53 * std::fabs(v.exact) + slack;
  }
}

// Templates, so that only programs that make plans by name compile plans of all codecs.
template <class V, Executor E> codec_entry<V, E> inceptionn_entry() {
  using enum codec_key::kind;
  inceptionn_options const usual;
  return make_codec_entry<E, hcomp::inceptionn>(
      {.name = "inceptionn",
       .about = "0.25 to 4.25 bytes each; error 4 sqrt(P) 2^-E of the peak for P ranks",
       .keys = {{"E", whole, 1, 14, usual.bound_exponent,
                 "error 4 sqrt(P) 2^-E of the peak for P ranks"},
                {"fitted", yes_no, 0, 1, 1, "scaled by the peak of every call"},
                {"prescale", whole, -64, 64, usual.prescale, "scaled by 2^prescale, if not fitted"},
                {"nearest", yes_no, 0, 1, 0, "rounded to nearest; no: towards 0"}},
       .promise = accuracy_class::error_bounded,
       .carries_nonfinite = true},
      [](codec_settings const& s) { return inceptionn_of(s); });
}
template <class V, Executor E> codec_entry<V, E> error_bounded_entry() {
  using enum codec_key::kind;
  bool const is_float = std::is_same_v<V, float>;  // bounds of up to 2^10 ranks can be divided
  return make_codec_entry<E, hcomp::error_bounded<V>>(
      {.name = "error_bounded",
       .about = "variable rate; no value of the result is off by more than the bound",
       .keys = {{"bound",
                 real,
                 is_float ? 0x1p-90 : 0x1p-890,
                 is_float ? 0x1p100 : 0x1p900,
                 {},
                 "largest error of a value of the result"},
                {"magnitude_bits", whole, 10, 22, error_bounded_options{}.magnitude_bits,
                 "values above 2^N steps use the fallback"},
                {"rel", real, 0x1p-60, 1, {}, "bound as a share of the largest value", "bound"}},
       .promise = accuracy_class::error_bounded,
       .largest_error = largest_error_bounded<V>,
       .carries_nonfinite = true},
      [](codec_settings const& s) { return error_bounded_of<V>(s); });
}

template <class V, Executor E> codec_entry<V, E> lossless_sparse_entry() {
  using enum codec_key::kind;
  using fixed32 = lossless_sparse<std::uint32_t>;
  using fixed64 = lossless_sparse<std::uint64_t>;
  return make_codec_entry<E, lossless_sparse<>, fixed32, fixed64>(
      {.name = "lossless_sparse",
       .about = "for mostly zero vectors: sends only values nonzero on some rank",
       .keys = {{"fixed", whole, 0, 64, 0, "bits of fixed point, 32 or 64; 0: floats"},
                {"dense", yes_no, 0, 1, 1, "allow dense messages"},
                {"packed", yes_no, 0, 1, 1, "allow packed values"},
                {"sketched", yes_no, 0, 1, 1, "allow sketches"}},
       .promise = accuracy_class::exact,
       .carries_nonfinite = true,
       .also = {"sparse"}},
      [](codec_settings const& s) -> std::variant<lossless_sparse<>, fixed32, fixed64> {
        sparse_strategies const strategies{
            .dense = s.yes("dense"), .packed = s.yes("packed"), .sketched = s.yes("sketched")};
        switch (int const bits = s.whole("fixed")) {
          case 0: return lossless_sparse<>{strategies};
          case 32: return fixed32{strategies};
          case 64: return fixed64{strategies};
          default: throw std::invalid_argument("fixed is 0, 32 or 64, not " + std::to_string(bits));
        }
      });
}

/// Digits of small summands that are dropped next to the largest one, and rounding of the sum to
/// the accumulator type and to V.
template <class V> double largest_reproducible(codec_settings const&, summed_value const& v) {
  bool const is_double = std::is_same_v<V, double>;
  double const lost = v.ranks * (is_double ? 0x1p-54 : 0x1p-26) * v.magnitude,
               found = std::fabs(v.exact) + lost;
  double const of_type = is_double                    ? 0x1p-53
                         : std::is_same_v<V, float>   ? 0x1p-24
                         : std::is_same_v<V, float16> ? 0x1p-11 + 0x1p-24
                                                      : 0x1p-8 + 0x1p-24;
  double const denormal = is_double ? 0x1p-1074 : std::is_same_v<V, float16> ? 0x1p-25 : 0x1p-134;
  // the last term is the rounding of this computation in doubles
  return lost + of_type * found + denormal + v.ranks * 0x1p-52 * v.magnitude;
}
template <class V, Executor E> codec_entry<V, E> reproducible_entry() {
  return make_codec_entry<E, reproducible<V>>(
      {.name = "reproducible",
       .about = "12 to 16 bytes per value; bit-identical for any number, order of ranks",
       .promise = accuracy_class::error_bounded,
       .largest_error = largest_reproducible<V>,
       .carries_nonfinite = true},
      [](codec_settings const&) { return reproducible<V>{}; });
}

/// Algorithms are those of codec lossless_sparse.
inline codec_entry<float> top_k_entry(std::vector<algorithm_kind> algorithms) {
  using enum codec_key::kind;
  return {{.name = "top_k",
           .about = "sends each rank's largest values and their indices; for training",
           .keys = {{"share", real, 1e-9, 1, 0.01, "share of the values that each rank sends"}},
           .algorithms = std::move(algorithms),
           .promise = accuracy_class::noisy,
           .wants_feedback = true,
           .carries_nonfinite = true},
          [](codec_settings const&) {},
          [](plan_request<> const& asked) -> std::unique_ptr<plan_body<float>> {
            return std::make_unique<some_plan<top_k_plan>>(asked, asked.settings["share"]);
          }};
}

/// Codecs that only round, to 16 bits or more.
template <class V, Executor E> std::vector<codec_entry<V, E>> rounding_entries() {
  std::vector<codec_entry<V, E>> entries;
  entries.push_back(
      make_codec_entry<E, identity<V>>({.name = "identity",
                                        .about = "uncompressed, the baseline",
                                        .promise = accuracy_class::rounded,
                                        .carries_nonfinite = true,
                                        .is_uncompressed = true},
                                       [](codec_settings const&) { return identity<V>{}; }));
  entries.push_back(make_codec_entry<E, float_cast<float16, V>>(
      {.name = "fp16",
       .about = "2 bytes per value; relative error 2^-11 per rounding, up to 65504",
       .promise = accuracy_class::rounded,
       .rounding = 0x1p-11,
       .also = {"float_cast:fp16"}},
      [](codec_settings const&) { return float_cast<float16, V>{}; }));
  entries.push_back(make_codec_entry<E, float_cast<bfloat16, V>>(
      {.name = "bf16",
       .about = "2 bytes per value; relative error 2^-8 per rounding",
       .promise = accuracy_class::rounded,
       .rounding = 0x1p-8,
       .also = {"float_cast:bf16"}},
      [](codec_settings const&) { return float_cast<bfloat16, V>{}; }));
  return entries;
}
template <class V, Executor E> std::vector<codec_entry<V, E>> builtin_entries() {
  auto entries = rounding_entries<V, E>();
  entries.push_back(make_codec_entry<E, hcomp::sign<V>>(
      {.name = "sign",
       .about = "1 bit per value on every hop, the sign of one sampled rank; training",
       .keys = {magnitude_key()},
       .promise = accuracy_class::noisy,
       .wants_feedback = true},
      [](codec_settings const& s) {
        return hcomp::sign<V>{static_cast<accumulator_t<V>>(s["magnitude"])};
      }));
  entries.push_back(make_codec_entry<E, sign_count<V>>(
      {.name = "sign_count",
       .about = "1 bit per value of a rank, then counts of signs; majority vote",
       .keys = {magnitude_key()},
       .promise = accuracy_class::noisy,
       .wants_feedback = true},
      [](codec_settings const& s) {
        return sign_count<V>{static_cast<accumulator_t<V>>(s["magnitude"])};
      }));
  entries.push_back(make_codec_entry<E, hcomp::thc<V>>(
      {.name = "thc",
       .about = "1 to 8 bits per value of a rank, more for partial sums; for training",
       .keys = thc_keys(),
       .promise = accuracy_class::noisy,
       .wants_feedback = true},
      [](codec_settings const& s) { return hcomp::thc<V>(thc_options_of(s)); }));
  entries.push_back(make_codec_entry<E, uniform_thc<V>>(
      {.name = "uniform_thc",
       .about = "thc with equidistant levels, without table lookups",
       .keys = thc_keys(),
       .promise = accuracy_class::noisy,
       .wants_feedback = true},
      [](codec_settings const& s) { return uniform_thc<V>(thc_options_of(s)); }));
  entries.push_back(reproducible_entry<V, E>());
  if constexpr (std::is_same_v<V, float>) {
    entries.push_back(lossless_sparse_entry<V, E>());
    if constexpr (!DeviceExecutor<E>) entries.push_back(top_k_entry(entries.back().algorithms));
    entries.push_back(inceptionn_entry<V, E>());
  }
  if constexpr (std::is_same_v<V, float> || std::is_same_v<V, double>) {
    entries.push_back(error_bounded_entry<V, E>());
    entries.push_back(make_codec_entry<E, hcomp::lossless<V>>(
        {.name = "lossless",
         .about = "variable rate; bit-identical to an uncompressed sum",
         .promise = accuracy_class::exact,
         .carries_nonfinite = true},
        [](codec_settings const&) { return hcomp::lossless<V>(); }));
  }
  return entries;
}

template <class V, Executor E> std::vector<codec_entry<V, E>> integer_entries() {
  std::vector<codec_entry<V, E>> entries;
  entries.push_back(make_codec_entry<E, hcomp::lossless_integers<V>>(
      {.name = "lossless_integers",
       .about = "variable rate, exact sums of integers",
       .promise = accuracy_class::exact,
       .carries_nonfinite = true},
      [](codec_settings const&) { return hcomp::lossless_integers<V>(); }));
  return entries;
}

template <class V, Executor E> codec_registry<V, E> const& rounding_codecs() {
  static codec_registry<V, E> const entries(
      rounding_entries<V, E>(), "; automatic_plan has more if it is given registered_codecs");
  return entries;
}

}  // namespace detail

template <class V, Executor E> codec_registry<V, E>& registered_codecs() {
  static codec_registry<V, E> entries(
      [] {
        if constexpr (std::is_same_v<V, std::int32_t> || std::is_same_v<V, std::int64_t>)
          return detail::integer_entries<V, E>();
        else
          return detail::builtin_entries<detail::value_t<V>, E>();
      }(),
      DeviceExecutor<E> && std::is_same_v<V, float> ? "; top_k is for host memory only" : "");
  return entries;
}

}  // namespace hcomp
