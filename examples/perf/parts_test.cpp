/// Tests of the parts of hcomp_perf without MPI.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <sstream>
#include <stdexcept>

#include <hcomp/codec/error_bounded/error_bounded.hpp>
#include <hcomp/codec/sign/sign.hpp>

#include "../support/command_line.hpp"
#include "advice.hpp"
#include "codec_promise.hpp"
#include "input.hpp"
#include "options.hpp"
#include "plans.hpp"
#include "result.hpp"
#include "wire_counter.hpp"
#ifdef HCOMP_PERF_ZFP
#include <support/laws.hpp>

#include "zfp_codec.hpp"
#endif

namespace {

/// A temporary folder; the destructor removes it.
struct scratch {
  std::filesystem::path folder = std::filesystem::temp_directory_path() /
                                 ("hcomp_perf_parts_test." + std::to_string(getpid()));
  scratch() { std::filesystem::create_directories(folder); }
  ~scratch() { std::filesystem::remove_all(folder); }
  std::string operator/(char const* name) const { return (folder / name).string(); }
};

std::vector<float> read(perf::input const& data, int rank, std::size_t first, std::size_t count) {
  std::vector<float> x(count);
  data.read(rank, first, x);
  return x;
}

/// A row with a different number in every field.
perf::row make_row(std::uint64_t bytes, perf::strategy name, double seconds) {
  perf::row r;
  r.count = bytes / 4;
  r.bytes = bytes;
  r.type = "float";
  r.name = std::move(name);
  r.seconds = {seconds, seconds * 0.9, seconds * 1.25};
  r.calls = {seconds, seconds * 0.8, seconds * 1.5};
  r.seconds_encode = seconds * 0.1;
  r.seconds_communicate = seconds * 0.2;
  r.seconds_merge = seconds * 0.3;
  r.seconds_decode = seconds * 0.4;
  r.bytes_sent = static_cast<double>(bytes) * 1.5;
  r.bytes_on_wire = static_cast<double>(bytes) * 1.6;
  r.vs_mpi = 1.7;
  r.bound = seconds * 0.5;
  r.predicted = seconds * 0.6;
  r.error = 3e-4;
  return r;
}

perf::result make_result(std::string mpi, double rate) {
  perf::result all;
  all.mpi = std::move(mpi);
  all.machine = "a processor, 2 cores";
  all.ranks = 4;
  all.nodes = 2;
  all.rate = rate;
  all.latency = 5e-5;
  all.label = "a \"lab\" & <more>";
  all.input = "normal values";
  return all;
}

perf::strategy const own{"raw", "MPI", "mpi"}, fp16_ring{"fp16", "ring", "mpi"};

perf::options parse(std::vector<char const*> words) {
  words.insert(words.begin(), "hcomp_perf");
  return perf::parse(static_cast<int>(words.size()), words.data());
}

std::string refusal(std::vector<char const*> const& words) {
  try {
    parse(words);
  } catch (example::usage const& u) {
    return u.text;
  }
  return "none";
}

}  // namespace

TEST_CASE("generated input: a value depends on seed, rank and place only") {
  perf::generated const data(1, 1);
  auto const whole = read(data, 2, 0, 1000);
  for (std::size_t const piece : {1, 7, 64, 333}) {
    CAPTURE(piece);
    std::vector<float> pieces;
    for (std::size_t first = 0; first < whole.size(); first += piece) {
      auto const part = read(data, 2, first, std::min(piece, whole.size() - first));
      pieces.insert(pieces.end(), part.begin(), part.end());
    }
    CHECK(pieces == whole);
  }
  CHECK(read(perf::generated(1, 1), 2, 0, 1000) == whole);
  CHECK(read(perf::generated(2, 1), 2, 0, 1000) != whole);
  CHECK(read(data, 3, 0, 1000) != whole);
  // positions beyond 32 bits have different values
  CHECK(read(data, 2, std::size_t{1} << 32, 1000) != whole);
}

TEST_CASE("generated input: mean 0, variance 1, and as many values that are not 0 as asked for") {
  constexpr std::size_t values = 200'000;
  for (double const density : {1.0, 0.25}) {
    CAPTURE(density);
    auto const x = read(perf::generated(3, density), 0, 0, values);
    double sum = 0, squares = 0, nonzero = 0;
    for (float const v : x) {
      sum += v;
      squares += static_cast<double>(v) * v;
      nonzero += v != 0;
    }
    double const n = density * values;
    // five standard errors: of a share, a mean, and a mean of squares (variance 2)
    CHECK(std::abs(nonzero - n) <= 5 * std::sqrt(n * (1 - density)) + 1);
    CHECK(std::abs(sum / nonzero) < 5 / std::sqrt(n));
    CHECK(std::abs(squares / nonzero - 1) < 5 * std::sqrt(2 / n));
  }
  auto const none = read(perf::generated(3, 0), 0, 0, 1000);
  CHECK(std::ranges::count(none, 0.0f) == 1000);
  // |x| of a normal value has mean sqrt(2 / pi) and variance 1 - 2 / pi; 65536 values
  CHECK(std::abs(perf::generated(3, 1).typical() - std::sqrt(2 / M_PI)) <
        5 * std::sqrt((1 - 2 / M_PI) / 65536));
  CHECK(perf::generated(3, 0).typical() == 1);
}

TEST_CASE("npy: what is written is read, whole and in pieces") {
  scratch const at;
  for (std::size_t const columns : {1, 9, 10, 1000, 99999}) {
    CAPTURE(columns);
    std::vector<float> values(3 * columns);
    std::iota(values.begin(), values.end(), -5.5f);
    example::write_npy(at / "x.npy", values, 3);
    CHECK((std::filesystem::file_size(at / "x.npy") - values.size() * sizeof(float)) % 64 == 0);
    perf::npy_file const data(at / "x.npy", 3);
    REQUIRE(data.values() == columns);
    for (int rank = 0; rank < 3; ++rank) {
      auto const row = values.begin() + static_cast<std::ptrdiff_t>(rank * columns);
      CHECK(read(data, rank, 0, columns) == std::vector(row, row + std::ptrdiff_t(columns)));
      auto const half = columns / 2;
      CHECK(read(data, rank, half, columns - half) ==
            std::vector(row + std::ptrdiff_t(half), row + std::ptrdiff_t(columns)));
    }
  }
}

TEST_CASE("npy: headers of version 2 are read, too") {
  scratch const at;
  std::ofstream(at / "v2.npy", std::ios::binary)
      << "\x93NUMPY" << std::string("\x02\0\x40\0\0\0", 6)
      << "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), }    \n"
      << std::string("\0\0\x80\x3f\0\0\0\x40", 8);
  CHECK(read(perf::npy_file(at / "v2.npy", 1), 0, 0, 2) == std::vector{1.0f, 2.0f});
}

TEST_CASE("npy: what is no matrix of float32 for all ranks is refused with what it is") {
  scratch const at;
  auto const text_of = [&](char const* name, int ranks) -> std::string {
    try {
      perf::npy_file(at / name, ranks);
    } catch (std::runtime_error const& e) {
      return e.what();
    }
    return "";
  };
  CHECK(text_of("missing.npy", 1) == (at / "missing.npy") + " cannot be read");
  std::ofstream(at / "text.npy") << "1.5 2.5 3.5 4.5";
  CHECK(text_of("text.npy", 1) == (at / "text.npy") + " is no .npy file");
  std::ofstream(at / "short.npy") << "\x93NUM";
  CHECK(text_of("short.npy", 1) == (at / "short.npy") + " is no .npy file");

  std::vector<float> const values(20, 1);
  example::write_npy(at / "x.npy", values, 2);
  CHECK(text_of("x.npy", 3) == (at / "x.npy") + " has vectors of 2 ranks, 3 ranks run");

  auto const whole = [&] {
    std::ifstream in(at / "x.npy", std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  }();
  std::ofstream(at / "cut.npy", std::ios::binary) << whole.substr(0, whole.size() - 1);
  CHECK(text_of("cut.npy", 2) ==
        (at / "cut.npy") + " has 207 bytes, too few for 2 x 10 values");  // 128 + 80 - 1
  auto const with = [&](std::string const& from, std::string const& to) {
    auto changed = whole;
    changed.replace(changed.find(from), from.size(), to);
    std::ofstream(at / "changed.npy", std::ios::binary) << changed;
    return text_of("changed.npy", 2);
  };
  auto const says = " is no matrix of float32 with a row per rank; it says {'descr': '";
  CHECK(with("<f4", "<f8").find(says) != std::string::npos);
  CHECK(with("<f4", ">f4").find(says) != std::string::npos);
  CHECK(with("False", "True ").find(says) != std::string::npos);
  CHECK(with("(2, 10)", "(20,)  ").find(says) != std::string::npos);
  CHECK(with("(2, 10)", "(2, 10)") == "");
}

TEST_CASE("spread: median, least and most") {
  auto const of = [](std::vector<double> values) {
    auto const s = perf::spread::of(std::move(values));
    return std::vector{s.median, s.least, s.most};
  };
  CHECK(of({}) == std::vector{0.0, 0.0, 0.0});
  CHECK(of({7}) == std::vector{7.0, 7.0, 7.0});
  CHECK(of({9, 1, 4}) == std::vector{4.0, 1.0, 9.0});
  CHECK(of({9, 1, 4, 5}) == std::vector{4.5, 1.0, 9.0});
}

TEST_CASE("json: every figure has its key; absent results are null") {
  auto all = make_result("Open MPI 4.1.4", 1e8);
  all.rate_was_measured = all.mean = true;
  all.device = "a device";
  all.rows = {make_row(8192, own, 1e-3), make_row(8192, fp16_ring, 5e-4)};
  all.rows[1].memory = "host_staged";
  all.rows[0].bytes_sent = all.rows[0].bytes_on_wire = all.rows[0].bound = all.rows[0].predicted =
      std::nullopt;
  all.rows[1].same_bits = all.rows[1].as_promised = false;
  all.rows[1].error = std::nan("");
  auto const json = nlohmann::ordered_json::parse(perf::to_json(all).dump());
  CHECK(json.at("tool") == "hcomp_perf");
  CHECK(json.at("mpi") == all.mpi);
  CHECK(json.at("machine") == all.machine);
  CHECK(json.at("device") == all.device);
  CHECK(json.at("label") == all.label);
  CHECK(json.at("rate_bit_per_s") == 1e8);
  CHECK(json.at("rate_was_measured") == true);
  CHECK(json.at("mean") == true);
  auto const &raw = json.at("rows").at(0), &fp16 = json.at("rows").at(1);
  for (auto const* key : {"bytes_sent", "bytes_on_wire", "bound_s", "predicted_s"}) {
    CHECK(raw.at(key).is_null());
    CHECK(fp16.at(key).is_number());
  }
  CHECK(raw.at("memory") == "host");
  CHECK(fp16.at("memory") == "host_staged");
  CHECK(fp16.at("codec") == "fp16");
  CHECK(fp16.at("seconds") == all.rows[1].seconds.median);
  CHECK(fp16.at("seconds_min") == all.rows[1].seconds.least);
  CHECK(fp16.at("seconds_max") == all.rows[1].seconds.most);
  CHECK(fp16.at("calls") == all.rows[1].calls);
  CHECK(fp16.at("error").is_null());
  CHECK(fp16.at("same_bits") == false);
  CHECK(fp16.at("as_promised") == false);
}

TEST_CASE("csv: every line has a field per name of its head, also where a label has quotes") {
  auto all = make_result("Open MPI 4.1.4", 1e8);
  all.label = "a, \"b\"";
  all.rows = {make_row(8192, own, 1e-3), make_row(8192, fp16_ring, 5e-4)};
  all.rows[0].bytes_sent = all.rows[0].bound = std::nullopt;
  auto const csv = perf::to_csv(all);
  std::vector<int> fields(1, 1);
  bool quoted = false;
  for (char const c : csv) {
    if (c == '"') quoted = !quoted;
    if (quoted) continue;
    if (c == ',') ++fields.back();
    if (c == '\n') fields.push_back(1);
  }
  fields.pop_back();
  CHECK(fields == std::vector(3, fields.front()));
  CHECK(csv.find(R"("a, ""b""")") != std::string::npos);
}

TEST_CASE("table: a line is as wide as its head, and an unknown rate is not called 0") {
  auto all = make_result("Open MPI 4.1.4", 0);
  auto const head = perf::table_head(all, "double");
  CHECK(head.find(", sum of double") != std::string::npos);
  CHECK(head.find("link of unknown rate") != std::string::npos);
  auto const names = head.substr(head.find('\n') + 1);
  auto const line = perf::line(all, make_row(8192, fp16_ring, 5e-4));
  CHECK(line.size() == names.find('\n') + 1);
  CHECK(line.size() <= 120);
  CHECK(line.find("8 KiB") != std::string::npos);
  CHECK(line.find("500.0 us") != std::string::npos);
}

TEST_CASE("complaints: one line per fault, none where all is well") {
  auto all = make_result("Open MPI 4.1.4", 1e8);
  all.rows = {make_row(8192, fp16_ring, 1), make_row(8192, fp16_ring, 1)};
  CHECK(perf::complaints(all) == "");
  all.rows[0].same_bits = false;
  all.rows[1].as_promised = false;
  CHECK(perf::complaints(all) ==
        "check: fp16 of 2048 values by ring over mpi: the ranks' results differ\n"
        "check: fp16 of 2048 values by ring over mpi: error 3.00e-04 is more than the codec "
        "allows\n");
}

TEST_CASE("sizes: from the smallest to the largest, each once") {
  auto const of = [](std::uint64_t least, std::uint64_t most, double factor, std::size_t value) {
    perf::options o;
    o.min_bytes = least;
    o.max_bytes = most;
    o.factor = factor;
    return perf::sizes(o, value);
  };
  using counts = std::vector<std::size_t>;
  CHECK(of(8192, 8192, 4, 4) == counts{2048});
  CHECK(of(8192, 131072, 4, 8) == counts{1024, 4096, 16384});
  CHECK(of(8192, 131071, 4, 8) == counts{1024, 4096});
  CHECK(of(8, 12, 1.1, 4) == counts{2});  // 8, 8.8, 9.7, 10.6 and 11.7 bytes: two values each
}

TEST_CASE("options: lists, sizes and units are read as they are meant") {
  auto const o =
      parse({"-b", "1K", "--max-bytes", "2M", "--rate", "2.5gbit", "--latency", "50us", "--codec",
             "fp16,sign", "--algorithm", "torus:2x2", "--transport", "mpi,op"});
  CHECK(o.min_bytes == 1024);
  CHECK(o.max_bytes == 2 << 20);
  CHECK(o.rate == 2.5e9);
  CHECK(o.latency == doctest::Approx(5e-5));
  CHECK(o.codecs == std::vector<std::string>{"fp16", "sign"});
  CHECK(o.algorithms.size() == 1);
  auto everything = hcomp::all_algorithms();
  for (auto const* const name : {"hierarchical", "hierarchical:direct"})
    everything.push_back(hcomp::algorithm::from(name));
  CHECK(parse({"--advise"}).algorithms == everything);
  CHECK(parse({"--advise", "--algorithm", "ring"}).algorithms.size() == 1);
  CHECK(o.transports == std::vector<std::string>{"mpi", "op"});
  auto const codecs = [](std::vector<char const*> words) {
    words.insert(words.begin(), "--codec");
    return parse(words).codecs;
  };
  CHECK(codecs({"thc:bits=2,transform=1024,fp16"}) ==
        std::vector<std::string>{"thc:bits=2,transform=1024", "fp16"});
  CHECK(codecs({"raw,lossless_sparse:fixed=32,dense=no,inceptionn:6,error_bounded:1e-3"}) ==
        std::vector<std::string>{"raw", "lossless_sparse:fixed=32,dense=no", "inceptionn:6",
                                 "error_bounded:1e-3"});
  CHECK(codecs({"inceptionn:6,automatic", "--codec", "zfp:8"}) ==
        std::vector<std::string>{"inceptionn:6", "automatic", "zfp:8"});
  auto const sparse = [](std::string const& text) {
    auto const codec = hcomp::codec_from(perf::codecs<float>(), text);
    return perf::sparse_codec::from(*codec.entry, codec.settings);
  };
  CHECK(sparse("lossless_sparse:fixed=32,packed=no")->fixed == 32);
  CHECK_FALSE(sparse("lossless_sparse:fixed=32,packed=no")->strategies.packed);
  CHECK(sparse("sparse")->fixed == 0);
  CHECK_FALSE(sparse("identity"));
  // a cast of values to their own type is identity
  std::vector<std::string> const halves{"identity", "bf16", "sign"};
  CHECK(parse({"--type", "float16", "--codec", "fp16,bf16,sign"}).codecs == halves);
  CHECK(parse({"--type", "float16", "--codec", "fp16,identity,bf16,sign"}).codecs == halves);
}

TEST_CASE(
    "promise: error_bounded keeps its bound where a float is within it, else it rounds once") {
  auto const codec = hcomp::codec_from(perf::codecs<float>(), "error_bounded:1e-3");
  auto const largest_error = [&](bool mean) {
    return [of = perf::promise_of<float>(*codec.entry, codec.settings, 4, mean).largest_error](
               double magnitude, double exact) {
      return of({.ranks = 4, .magnitude = magnitude, .exact = exact, .largest = magnitude});
    };
  };
  auto const of_sum = largest_error(false);
  auto const is = [](double value) { return doctest::Approx(value).epsilon(2e-6); };
  CHECK(of_sum(0, 0) == is(1e-3));
  CHECK(of_sum(1e4, 12.345) == is(1e-3));
  CHECK(of_sum(16e3, 15e3) == is(1e-3));         // floats are 2^-10 apart
  CHECK(of_sum(4e6, 1e6) == is(1e-3));           // floats are 2^-4 apart; 1e6 is a float
  CHECK(of_sum(4e6, 1e6 + 0.0009) == is(1e-3));  // near a float
  CHECK(of_sum(4e6, 1e6 + 0.03) == is(0.25e-3 + 0x1p-24 * 1e6));
  auto const of_mean = largest_error(true);
  CHECK(of_mean(1, 0.5) == is(0.25e-3 + 2 * 0x1p-24));
  CHECK(of_mean(1e6, 1e6 + 0.03) == is(0.0625e-3 + 3 * 0x1p-24 * 1e6));

  auto const relative = hcomp::codec_from(perf::codecs<float>(), "error_bounded:rel=1e-5");
  auto const of_share = perf::promise_of<float>(*relative.entry, relative.settings, 4, false);
  CHECK(of_share.largest_error({4, 300, 200, 100}) == is(1e-3));
}

TEST_CASE("options: what cannot be meant is refused with its value") {
  auto const says = [](std::vector<char const*> const& words, char const* what) {
    auto const text = refusal(words);
    INFO(text);
    CHECK(text.find(what) != std::string::npos);
  };
  says({"-b", "1M", "-e", "1K"}, "--min-bytes 1048576 is more than --max-bytes 1024");
  says({"-b", "4"}, "--min-bytes 4 is less than one value");
  says({"-b", "much"}, "much");
  says({"--factor", "1"}, "--factor");
  says({"--density", "1.5"}, "--density");
  says({"--type", "int8"}, "--type");
  says({"--algorithm", "star"}, "star");
  says({"--transport", "pigeon"}, "pigeon");
  says({"--rate", "100"}, "--rate");
  says({"--rate", "100furlong"}, "--rate");
  says({"--rate", "0gbit"}, "--rate 0 is not a number above 0");
  says({"--latency=-1ms"}, "--latency -0.001 is not a number above 0");
  says({"--codec", "sign,gzip"}, "no codec is called 'gzip'; hcomp has: identity, ");
  says({"--codec", "fp16", "--algorithm", "sampled"},
       "--codec fp16 has no algorithm of --algorithm; it has: ring, torus, direct, "
       "recursive_doubling, aggregator");
  says({"--codec", "lossless_sparse:fixed=32", "--type", "double"},
       "--codec lossless_sparse:fixed=32, --type double: no codec is called 'lossless_sparse'; "
       "hcomp has: ");
  says({"--codec", "lossless_sparse", "--algorithm", "sampled"},
       "--codec lossless_sparse has no algorithm of --algorithm; it has: direct, ring, torus, "
       "recursive_doubling, aggregator");
  says({"--codec", "inceptionn:6", "--type", "double"},
       "--codec inceptionn:6, --type double: no codec is called 'inceptionn'; hcomp has: ");
  says({"--codec", "inceptionn:15"}, "'E=15': E is a whole number from 1 to 14");
  says({"--codec", "error_bounded"}, "it needs bound, largest error of a value of the result");
  for (std::string const bound : {"", "0", "-1e-3", "1e-3x", "inf"})
    says({"--codec", ("error_bounded:" + bound).c_str()}, "codec 'error_bounded:");
  says({"--codec", "inceptionn", "--algorithm", "recursive_doubling"},
       "--codec inceptionn has no algorithm of --algorithm; it has: ring, torus, direct, "
       "aggregator");
  says({"--codec", "inceptionn", "--transport", "op"},
       "--codec inceptionn has no MPI_Op: --transport mpi or ucx");
  says({"--codec", "thc:bits=2", "--transport", "op"},
       "--codec thc:bits=2 has no MPI_Op: --transport mpi or ucx");
  says({"--iters", "0"}, "--iters");
  says({"--input", "x.npy", "--type", "double"}, "--input holds float32 values, --type is double");
  says({"--device", "abacus"}, "abacus not in {host,cuda}");
  says({"--device", "cuda", "--type", "double"},
       "--type double: --device cuda supports float only");
  says({"--device", "cuda", "--codec", "fp16,bf16"},
       "--codec bf16: --device cuda supports identity, fp16, sign, thc, inceptionn:E, ");
  says({"--device", "cuda", "--codec",
        "lossless_sparse:fixed=32,dense=no,packed=no,lossless_sparse:dense=no,packed=no"},
       "--codec lossless_sparse:dense=no,packed=no: --device cuda supports ");
  says({"--device", "cuda", "--transport", "mpi,op"},
       "--transport op: --device cuda supports mpi and ucx");
  says({"--device", "cuda", "--threads", "2"},
       "--threads 2: --device cuda supports --threads 1 only");
  says({"--device", "cuda", "--advise"}, "--advise: the cost model covers vectors in host memory");
  says({"--aggregator", "10.0.0.9:7475", "--codec", "thc", "--advise"},
       "--aggregator: --advise runs no all-reduce");
  says({"--colour"}, "--colour");
}

TEST_CASE("wire counter: an interface that is not there is refused with those that are") {
  CHECK_THROWS_WITH_AS(perf::bytes_sent_by("eth_nowhere"),
                       doctest::Contains("--interface eth_nowhere: this node has lo"),
                       std::runtime_error);
  // Two statements, because a comparison may evaluate its right side first while the counter grows.
  auto const before = perf::bytes_sent_by("lo");
  auto const after = perf::bytes_sent_by("lo");
  CHECK(before <= after);
}

#ifdef HCOMP_PERF_ZFP
namespace {

template <class T> std::vector<T> smooth(std::size_t count, double phase) {
  std::vector<T> x(count);
  for (std::size_t i = 0; i < count; ++i)
    x[i] = static_cast<T>(std::sin(phase + 0.01 * static_cast<double>(i)));
  return x;
}

}  // namespace

TEST_CASE_TEMPLATE("zfp: takes the bytes it says, and more bits mean less error", T, float,
                   double) {
  using codec = perf::zfp_codec<T>;
  laws::size<codec>();
  auto const x = smooth<T>(codec::block_values, 0.5);
  double before = 8;  // values are at most 1
  for (int const bits : {4, 8, 12, 16, 20}) {
    CAPTURE(bits);
    codec const c{bits};
    CHECK(c.block_bytes() ==
          hcomp::block_header_bytes + codec::block_values / 8 * static_cast<std::size_t>(bits));
    auto const y = laws::decoded(c, laws::encode(c, x, {}), codec::block_values);
    double error = 0;
    for (std::size_t i = 0; i < x.size(); ++i)
      error = std::max(error, std::abs(y[i] - static_cast<double>(x[i])));
    // Of the 4 * bits of four values, 10 (float) or 13 (double) hold their common exponent. If the
    // values are nearly equal, one value takes most of the remaining bits. Four more bits per value
    // give each value at least three.
    CHECK(error < before / 8);
    before = error;
  }
  CHECK(before < 1e-5);
}

TEST_CASE_TEMPLATE("zfp: a merge decodes, adds and encodes", T, float, double) {
  using codec = perf::zfp_codec<T>;
  for (int const n : {1, 3, 4, 1000, codec::block_values}) {
    CAPTURE(n);
    codec const c{12};
    auto const a = laws::encode(c, smooth<T>(static_cast<std::size_t>(n), 0.1), {.rank = 0});
    auto const b = laws::encode(c, smooth<T>(static_cast<std::size_t>(n), 2.1), {.rank = 1});
    auto sum = laws::decoded<T>(c, a, n);
    auto const other = laws::decoded<T>(c, b, n);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += other[i];
    auto const both = laws::merged(c, a, b);
    CHECK(laws::header_of(both).weight == 2);
    CHECK(laws::decoded<T>(c, both, n) == laws::decoded<T>(c, laws::encode(c, sum, {}), n));
    auto const mean = laws::decoded<T>(c, both, n, hcomp::reduce_op::mean);
    CHECK(mean[0] == laws::decoded<T>(c, both, n)[0] / 2);
  }
}

TEST_CASE("zfp: NaN and infinity are flagged") {
  perf::zfp_codec<float> const c{8};
  for (float const bad : {NAN, INFINITY, -INFINITY}) {
    auto x = smooth<float>(100, 0);
    CHECK(laws::header_of(laws::encode(c, x, {})).flags == 0);
    x[57] = bad;
    CHECK(laws::header_of(laws::encode(c, x, {})).flags != 0);
  }
}
#endif

namespace {

/// Costs of identity and fp16 on a link: one nanosecond per value for encode, merge and decode.
hcomp::cost_table costs_at(double rate) {
  hcomp::cost_table costs{{1e-5, 8 / rate, 0}, {}};
  for (auto const& [name, size] :
       {std::pair{"identity", hcomp::size_of(hcomp::identity<>{})},
        {"float_cast:fp16", hcomp::size_of(hcomp::float_cast<hcomp::float16>{})},
        {"sign", hcomp::size_of(hcomp::sign<>{})}}) {
    auto cost = size;
    cost.encode = cost.merge = cost.decode = 1e-9;
    costs.codecs.push_back({name, cost});
  }
  return costs;
}

}  // namespace

TEST_CASE("advice: fp16 pays up to the rate at which it no longer does") {
  hcomp::allowed_strategies const fp16{{"float_cast:fp16"}, {hcomp::algorithm::from("ring")}};
  std::size_t const values = std::size_t{1} << 24;
  double const limit = perf::pays_up_to(costs_at(1e9), 4, values, fp16, 4);
  CHECK(limit > 1e9);
  CHECK(limit < 1e11);  // 3 ns of work per value save 32 bits
  auto const gain = [&](double rate) {
    auto const costs = costs_at(rate);
    return hcomp::library_seconds(4, 4.0 * values, 1e-9 / 4, costs.link) /
           hcomp::choose(costs, 4, values, fp16).front().seconds();
  };
  CHECK(gain(limit * 0.98) > 1);  // the search stops at 1 %
  CHECK(gain(limit * 1.02) < 1);
}

TEST_CASE("advice: names the fastest way at every size, and from where every codec pays") {
  auto const text = perf::advice(costs_at(1e8), 4, {1024, 1 << 20},
                                 {{"identity", "float_cast:fp16"}, hcomp::all_algorithms()}, 4);
  CAPTURE(text);
  CHECK(text.find("4 ranks, links that carry 100 Mbit/s, 10.0 us one way") == 0);
  CHECK(text.find("    4 MiB float_cast:fp16 by ") != std::string::npos);
  CHECK(text.find("from ") != std::string::npos);
  CHECK(text.find("4 MiB on links") != std::string::npos);
  CHECK(text.find("never") != std::string::npos);  // identity, on any link
  CHECK(text.find(" us\n") != std::string::npos);  // only in the table of costs
  auto const rows = text.substr(text.find("fastest, expected"));
  CHECK(rows.find(" us") == std::string::npos);  // all times of a row are in ms
  CHECK(text.find("noisy") == std::string::npos);
  auto const of_sign =
      perf::advice(costs_at(1e8), 4, {1024}, {{"sign"}, hcomp::all_algorithms()}, 4);
  CHECK(of_sign.find("  noisy: for training\n") != std::string::npos);
  for (auto const& lines : {text, of_sign}) {
    std::istringstream in(lines);
    for (std::string line; std::getline(in, line);) CHECK(line.size() <= 120);
  }
}
