/// @file
/// What kernels do per value, counted by the PTX machine, beside what kernels/README.md says.
///
///     test_ptx.per_value <page>
///
/// Prints the table. Fails where the page's table has other rows, where a kernel does more than it
/// says, and where one does so much less that the page is out of date.

#include <dlfcn.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <hcomp/codec/error_bounded/error_bounded.hpp>
#include <hcomp/codec/error_bounded/fine.hpp>
#include <hcomp/codec/inceptionn/inceptionn.hpp>
#include <hcomp/codec/lossless_dense/lossless_dense.hpp>
#include <hcomp/codec/registry.hpp>
#include <hcomp/codec/sparse/lossless.hpp>
#include <hcomp/collective/detail/sparse_phases.hpp>
#include <hcomp/collective/variable_rate_coder.hpp>
#include <hcomp/core/hash.hpp>
#include <hcomp/feedback/feedback.hpp>
#include <hcomp/gpu/error_feedback.hpp>
#include <hcomp/gpu/global_compensation.hpp>
#include <hcomp/gpu/stream_executor.hpp>
#include <hcomp/op/block_work.hpp>
#include <map>
#include <span>
#include <string>
#include <support/ptx/figures.hpp>
#include <vector>

namespace {

using namespace hcomp;
using gpu::device_buffer;

constexpr std::size_t values = 65536;  // two blocks of signs, more of all others

// ---- The table --------------------------------------------------------------------------------------

/// Of a value, in all kernels that do this work.
struct row {
  double instructions = 0;  ///< figures::issued
  double sectors = 0;       ///< their bytes, divided by the bytes that must move
  double asked = 0;         ///< what the sectors should be at most
  double local = 0;         ///< accesses to local memory
};
using table = std::map<std::string, row>;

constexpr char const* head = "| work | instructions | sectors | asked | local accesses |";

/// As the page has it.
std::string text_of(std::string const& work, row const& r) {
  char text[128];
  std::snprintf(text, sizeof(text), "| %s | %.1f | %.2f | %.2f | %.2f |", work.c_str(),
                r.instructions, r.sectors, r.asked, r.local);
  return text;
}

table read(char const* page) {
  std::ifstream in(page);
  table found;
  bool inside = false;
  for (std::string line; std::getline(in, line);) {
    if (!inside) {
      inside = line == head;
      continue;
    }
    if (!line.starts_with("| ")) {
      if (line.starts_with("|")) continue;  // below the head
      break;
    }
    std::size_t const end = line.find(" |");
    row r;
    if (std::sscanf(line.c_str() + end, " | %lf | %lf | %lf | %lf |", &r.instructions, &r.sectors,
                    &r.asked, &r.local) == 4)
      found[line.substr(2, end - 2)] = r;
  }
  return found;
}

/// Prints what is wrong with one figure of the page. Returns whether nothing is.
/// @param least  a difference that is rounding
bool check(std::string const& work, char const* what, double found, double said, double least) {
  bool const is_more = found > said * 1.03 + least, is_less = found < said * 0.9 - least;
  if (is_more || is_less)
    std::printf("WRONG: %s: %s %.2f, the page says %.2f%s\n", work.c_str(), what, found, said,
                is_more ? "" : ": it is out of date");
  return !is_more && !is_less;
}

bool check(table const& found, table const& said) {
  bool is_right = true;
  for (auto const& [work, r] : found) {
    auto const there = said.find(work);
    if (there == said.end()) {
      std::printf("WRONG: %s: not on the page\n", work.c_str());
      is_right = false;
      continue;
    }
    row const& s = there->second;
    is_right &= check(work, "instructions", r.instructions, s.instructions, 0.05);
    is_right &= check(work, "sectors", r.sectors, s.sectors, 0.005);
    is_right &= check(work, "local accesses", r.local, s.local, 0.005);
  }
  for (auto const& [work, r] : said) {
    if (found.contains(work)) continue;
    std::printf("WRONG: %s: on the page, and not measured\n", work.c_str());
    is_right = false;
  }
  return is_right;
}

// ---- Measuring --------------------------------------------------------------------------------------

constexpr double block_asked = 1.05, stream_asked = 1.2;

class measuring {
 public:
  /// Null without the machine.
  static auto* take() {
    static auto* const found = reinterpret_cast<decltype(&hcomp_ptx_take_figures)>(
        dlsym(RTLD_DEFAULT, HCOMP_PTX_TAKE_FIGURES));
    return found;
  }
  /// What `f` gives to the executor. @param least  bytes that must move, when f is done
  template <class F, class Least>
  void add(std::string const& work, double asked, Least const& least, F const& f) {
    ptx::figures before, did;
    executor_.synchronize();
    take()(&before);
    f();
    executor_.synchronize();
    take()(&did);
    auto const n = static_cast<double>(values);
    auto const sectors = static_cast<double>(did.loaded_sectors + did.stored_sectors);
    row const r{static_cast<double>(did.issued) / n, 32 * sectors / static_cast<double>(least()),
                asked, static_cast<double>(did.local) / n};
    found_[work] = r;
    std::printf("%s\n", text_of(work, r).c_str());
    std::fflush(stdout);
  }
  gpu::stream_executor& executor() { return executor_; }
  table const& found() const { return found_; }

 private:
  gpu::stream_executor executor_;
  table found_;
};

template <class T> T* as(device_buffer const& memory) {
  return reinterpret_cast<T*>(memory.data());
}

/// @param share  of values that are not zero; those are from -1 to 1
device_buffer vector_of(std::uint64_t seed, double share = 1) {
  std::vector<float> x(values);
  for (std::size_t i = 0; i < values; ++i) {
    std::uint64_t const drawn = mix(i + seed * values);
    bool const is_there = static_cast<double>(drawn >> 32) < share * 0x1p32;
    x[i] = is_there ? static_cast<float>(drawn % 2001) / 1000 - 1 : 0;
  }
  device_buffer to(values * sizeof(float));
  HCOMP_CUDA_TRY(cudaMemcpy(to.data(), x.data(), to.size(), cudaMemcpyHostToDevice));
  return to;
}

constexpr std::size_t vector_bytes = values * sizeof(float);

/// The work of plans on codes of blocks.
template <class C> void measure_blocks_of(measuring& m) {
  C const codec = fit(C{}, 3);
  std::string const name(C::name);
  auto const layout = layout_of(codec, values);
  std::size_t const blocks = layout.blocks(), code = layout.bytes();
  device_buffer const x = vector_of(1), y = vector_of(2), sum(vector_bytes);
  device_buffer const a(code), b(code);
  std::size_t const words = statistics_words(codec, layout);
  device_buffer const statistics((2 * words + 1) * sizeof(std::uint32_t));
  auto* const agreed = as<std::uint32_t>(statistics);
  auto& executor = m.executor();

  if constexpr (Calibrated<C>) {
    auto const measure = [&](device_buffer const& from, std::uint32_t* to) {
      executor.for_each_block(
          blocks, measure_blocks<C, float const*>{codec, layout, as<float>(from), to, nullptr});
    };
    m.add(
        name + " measure", block_asked, [&] { return vector_bytes + 4 * words; },
        [&] { measure(x, agreed); });
    measure(y, agreed + words);
    executor.for_each_block(1, unite_statistics{agreed, agreed + words, words});
  }
  no_feedback<float> none(values);
  auto const encode = [&](auto const& view, device_buffer const& to, std::uint32_t rank) {
    using work = encode_with_feedback<C, std::remove_cvref_t<decltype(view)>>;
    executor.for_each_block(
        blocks,
        shifted<work>{
            {codec, layout, view, to.data(), {77, rank, 1, 0, words > 0 ? agreed : nullptr, false}},
            0});
  };
  auto const decode = [&](auto const& view) {
    executor.for_each_block(
        blocks, decode_with_feedback<C, std::remove_cvref_t<decltype(view)>>{
                    {codec, layout, 0, a.data(), as<float>(sum), reduction::mean}, view});
  };
  encode(none.view(as<float>(y)), b, 1);
  if constexpr (!C::passes_nonfinite) {
    gpu::error_feedback<float> residual(values);
    m.add(
        name + " encode, error feedback", block_asked, [&] { return 3 * vector_bytes + code; },
        [&] { encode(residual.view(as<float>(x)), a, 0); });
  }
  m.add(
      name + " encode", block_asked, [&] { return vector_bytes + code; },
      [&] { encode(none.view(as<float>(x)), a, 0); });
  m.add(
      name + " merge", block_asked, [&] { return 3 * code; },
      [&] {
        executor.for_each_block(blocks, merge_blocks<C>{codec, a.data(), b.data()});
      });
  m.add(
      name + " decode", block_asked, [&] { return vector_bytes + code; },
      [&] { decode(none.view(as<float>(x))); });
  if constexpr (requires { C::takes_one_ranks_bit; }) {
    gpu::global_compensation<float> state(values);
    HCOMP_CUDA_TRY(cudaMemset(sum.data(), 0, sum.size()));
    m.add(
        name + " decode, global compensation", block_asked, [&] { return 4 * vector_bytes + code; },
        [&] { decode(state.view(as<float>(sum))); });
  }
  if constexpr (Narrowable<C>) {
    block_header header;
    HCOMP_CUDA_TRY(cudaMemcpy(&header, a.data(), sizeof(header), cudaMemcpyDeviceToHost));
    std::size_t const narrow = blocks * codec.narrow_bytes(header);
    std::vector<std::size_t> at(blocks);
    for (std::size_t i = 0; i < blocks; ++i) at[i] = i * layout.block_bytes;
    device_buffer const places(blocks * sizeof(std::size_t));
    HCOMP_CUDA_TRY(cudaMemcpy(places.data(), at.data(), places.size(), cudaMemcpyHostToDevice));
    auto const least = [&] { return code + narrow; };
    m.add(name + " narrow", block_asked, least, [&] {
      executor.for_each_block(blocks, narrow_blocks<C>{codec, a.data(), layout.block_bytes,
                                                       b.data(), as<std::size_t>(places)});
    });
    m.add(name + " widen", block_asked, least, [&] {
      executor.for_each_block(blocks, widen_blocks<C>{codec, b.data(), as<std::size_t>(places),
                                                      a.data(), layout.block_bytes});
    });
  }
}

/// Codes of variable rate.
template <class C> void measure_stream_of(measuring& m, std::string const& name, C const& codec) {
  device_buffer const x = vector_of(1), y = vector_of(2), out(vector_bytes);
  device_buffer const a(codec.capacity(values)), b(a.size()), c(a.size());
  variable_rate_coder<C, gpu::stream_executor> coder(values, m.executor());
  auto const span = [](device_buffer const& of) { return std::span(as<float>(of), values); };
  auto const code = [](device_buffer const& of) { return std::span(of.data(), of.size()); };
  coder.encode(codec, span(y), code(b));
  std::size_t const other = coder.bytes(codec);
  std::size_t mine = 0;
  m.add(
      name + " encode", stream_asked, [&] { return vector_bytes + (mine = coder.bytes(codec)); },
      [&] { coder.encode(codec, span(x), code(a)); });
  if constexpr (MergingVariableRate<C>)
    m.add(
        name + " merge", stream_asked, [&] { return mine + other + coder.bytes(codec); },
        [&] { coder.merge(codec, code(a), code(b), values, code(c)); });
  m.add(
      name + " decode, add, encode", stream_asked,
      [&] { return vector_bytes + other + coder.bytes(codec); },
      [&] { coder.decode_add_encode(codec, code(b), span(x), code(c)); });
  m.add(
      name + " decode", stream_asked, [&] { return vector_bytes + mine; },
      [&] { coder.decode(codec, code(a), span(out)); });
}

/// Vectors of which one value in 20 is not zero: their index, and the values packed or in a sketch. At
/// places that are scattered whole sectors must move: those of marked values, and three cells of a
/// sketch for each.
template <class Lane>
void measure_sparse(measuring& m, std::string const& name, sparse_ways const& ways) {
  constexpr double share = 0.05;
  device_buffer const x = vector_of(1, share), y(vector_bytes);
  device_buffer const lanes(values * sizeof(Lane));
  detail::sparse_phases<lossless<Lane>, gpu::stream_executor> phases({.ways = ways}, values, {},
                                                                     m.executor());
  std::span const from(as<float>(x), values), to(as<float>(y), values);
  constexpr std::size_t index = values / 8;
  auto const mark = [&] { phases.mark(from, reduction::sum); };
  auto const look = [&] { phases.look(); };
  if (ways.packed) {
    m.add(
        "sparse index, mark", stream_asked, [&] { return vector_bytes + index; }, mark);
    m.add(
        "sparse index, look", stream_asked, [&] { return 2 * index + index / 2; }, look);
  } else {
    mark();
    look();
  }
  phases.unite(0);
  double const marked = static_cast<double>(phases.choice().marked);
  double const there = static_cast<double>(vector_bytes) * (1 - std::pow(1 - share, 8));
  std::size_t const count = phases.lanes();
  std::span const room(as<Lane>(lanes), count);
  double const lane_bytes = ways.packed ? marked * sizeof(Lane) : marked * 3 * 32;
  m.add(
      name + " encode", stream_asked, [&] { return index + there + lane_bytes; },
      [&] { phases.encode_lanes(from, room, 0); });
  m.add(
      name + " decode", stream_asked, [&] { return index + vector_bytes + lane_bytes; },
      [&] { phases.decode_lanes(room, to, 0); });
}

}  // namespace

int main(int count, char** arguments) try {
  if (!measuring::take()) {
    std::printf("Skipped: this is about the PTX machine, which is not loaded\n");
    return 77;
  }
  if (count != 2) {
    std::fprintf(stderr, "test_ptx.per_value <page with the table>\n");
    return 2;
  }
  measuring m;
  std::printf("%s\n|---|---:|---:|---:|---:|\n", head);
  builtin_codecs<float>::for_each([&]<class C>() { measure_blocks_of<C>(m); });
  measure_stream_of(m, "inceptionn", inceptionn({.prescale = -6}));
  measure_stream_of(m, "error_bounded", error_bounded({.bound = 1e-3, .ranks = 4}));
  measure_stream_of(m, "error_bounded_fine", error_bounded_fine({.bound = 1e-3, .ranks = 4}));
  measure_stream_of(m, "lossless_dense", lossless_dense<float>());
  measure_sparse<float>(m, "sparse_union", {.dense = false, .sketched = false});
  measure_sparse<std::uint32_t>(m, "lhc", {.dense = false, .packed = false});
  return check(m.found(), read(arguments[1])) ? 0 : 1;
} catch (std::exception const& error) {
  std::fprintf(stderr, "test_ptx.per_value: %s\n", error.what());
  return 1;
}
