// The block work of a Marsit round, and variable-rate encoding in segments as in plans, on a
// host_executor with two threads relative to one thread, in wall-clock time. 0.50 means perfect
// scaling; it is more if memory is the limit. Requires two free cores.
//
//   bench_threads --benchmark_repetitions=7 --benchmark_min_time=0.1

#include <cstddef>
#include <cstdint>
#include <hcomp/codec/error_bounded/error_bounded.hpp>
#include <hcomp/codec/inceptionn/inceptionn.hpp>
#include <hcomp/codec/sign/sign.hpp>
#include <hcomp/collective/engine/variable_rate_coder.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/feedback/feedback.hpp>
#include <hcomp/feedback/global_compensation.hpp>
#include <hcomp/op/block_work.hpp>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "paired.hpp"

namespace {

constexpr std::size_t values = bench::in_memory.values;
constexpr std::size_t block = hcomp::sign<>::block_values;

using codec = hcomp::sign<>;
using view = hcomp::global_compensation<>::kernel_view;

/// The vector, its compensation, its encoded form and that of another rank.
struct arrays {
  hcomp::encoded_layout layout = hcomp::layout_of(codec{}, values);
  std::vector<float> x = std::vector<float>(values), c = std::vector<float>(values);
  std::vector<std::byte> mine = std::vector<std::byte>(layout.bytes());
  std::vector<std::byte> fresh = mine, other = mine;

  arrays() {
    encode(fresh, 0);
    encode(other, 1);
    mine = fresh;
  }
  void encode(std::vector<std::byte>& encoded, std::uint32_t rank) {
    for (std::size_t i = 0; i < values; ++i)
      x[i] = static_cast<float>(static_cast<std::int32_t>(hcomp::mix(2 * i + rank))) * 0x1p-31f;
    hcomp::encode_blocks<codec, float const*> const work{
        {}, layout, x.data(), encoded.data(), {1, rank, 1, 0}};
    for (std::size_t b = 0; b < layout.blocks(); ++b) work(hcomp::simd_group{}, b);
  }
};

/// Vectors of one segment each, and their encoded forms.
template <class C> struct segments {
  static constexpr std::size_t all = values / 8, each = 65536;  // 256 KiB

  C codec;
  std::vector<float> x = std::vector<float>(all), y = x;
  std::size_t stride = (C::capacity(each) + 63) / 64 * 64;
  std::vector<std::byte> encodings = std::vector<std::byte>(all / each * stride), made = encodings;

  explicit segments(C const& of) : codec(of) {
    for (std::size_t i = 0; i < all; ++i)
      x[i] = static_cast<float>(static_cast<std::int32_t>(hcomp::mix(i))) * 0x1p-36f;
    for (std::size_t first = 0; first < all; first += each)
      codec.encode(std::span(x).subspan(first, each), of_segment(encodings, first));
  }
  std::span<std::byte> of_segment(std::vector<std::byte>& from, std::size_t first) const {
    return std::span(from).subspan(first / each * stride, stride);
  }
};

template <class C> void add_segments(std::string const& name, C const& codec) {
  using coder = hcomp::variable_rate_coder<C, hcomp::host_executor>;
  auto const s = std::make_shared<segments<C>>(codec);
  constexpr std::size_t each = segments<C>::each;
  auto const add = [&](std::string const& metric, auto const& work) {
    auto const on = [&](int threads) {
      auto const executor = std::make_shared<hcomp::host_executor>(threads);
      auto const by = std::make_shared<coder>(each, *executor);
      return [work, executor, by](std::size_t first, std::size_t n, int) {
        for (std::size_t end = first + n; first < end; first += segments<C>::each) work(*by, first);
      };
    };
    bench::extent const eighths{"memory", segments<C>::all, segments<C>::all / 8, 1};
    bench::add(
        {name + ", " + metric, "threads", 0, on(2), on(1), {}, bench::wall_seconds, {eighths}});
  };
  add("encode", [s](coder& by, std::size_t first) {
    by.encode(s->codec, std::span(s->x).subspan(first, each), s->of_segment(s->made, first));
    benchmark::DoNotOptimize(by.bytes(s->codec));
  });
  add("hop", [s](coder& by, std::size_t first) {
    auto const in = s->of_segment(s->encodings, first);
    by.check(s->codec, in, each);
    by.decode_add_encode(s->codec, in, std::span(s->x).subspan(first, each),
                         s->of_segment(s->made, first));
    benchmark::DoNotOptimize(by.bytes(s->codec));
  });
  add("decode", [s](coder& by, std::size_t first) {
    auto const in = s->of_segment(s->encodings, first);
    by.check(s->codec, in, each);
    by.decode(s->codec, in, std::span(s->y).subspan(first, each));
  });
}

}  // namespace

int main(int argc, char** argv) {
  static arrays a;
  static hcomp::host_executor one(1), two(2);
  auto const add = [](char const* name, auto const& work, auto const& prepare) {
    auto const on = [work](hcomp::host_executor& executor) {
      return [work, &executor](std::size_t first, std::size_t n, int) {
        using shifted = hcomp::shifted<std::decay_t<decltype(work)>>;
        executor.for_each_block(n / block, shifted{work, first / block});
      };
    };
    bench::extent const quarters{"memory", values, values / 4, 1};
    bench::add({name, "threads", 0, on(two), on(one), prepare, bench::wall_seconds, {quarters}});
  };
  auto const nothing = [](std::size_t) {};
  view const compensation{a.x.data(), a.c.data()};
  add("pack x + c",
      hcomp::encode_with_feedback<codec, view>{
          {}, a.layout, compensation, a.mine.data(), {1, 0, 1, 0}},
      nothing);
  for (std::uint32_t const weight : {1u, 2u})
    add(weight == 1 ? "merge 1:1" : "merge 1:2",
        hcomp::merge_blocks<codec>{{}, a.mine.data(), a.other.data()}, [weight](std::size_t) {
          for (std::size_t b = 0; b < a.layout.blocks(); ++b) {
            std::memcpy(a.mine.data() + a.layout.offset(b), a.fresh.data() + a.layout.offset(b),
                        a.layout.block_bytes);
            auto header = hcomp::load<hcomp::block_header>(a.other.data() + a.layout.offset(b));
            header.weight = weight;
            hcomp::store(a.other.data() + a.layout.offset(b), 0, header);
          }
        });
  add("unpack, update c",
      hcomp::decode_with_feedback<codec, view>{
          {{1e-3f}, a.layout, 0, a.other.data(), a.x.data(), hcomp::reduce_op::mean}, compensation},
      nothing);
  add_segments("inceptionn", hcomp::inceptionn());
  add_segments("error_bounded", hcomp::error_bounded({.bound = 1e-4, .ranks = 2}));
  return bench::run(argc, argv, "Wall-clock time of two threads / of one; values per second");
}
