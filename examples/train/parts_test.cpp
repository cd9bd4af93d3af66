/// Tests of the parts of train without MPI.

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <hcomp/codec/thc/thc.hpp>
#include <hcomp/collective/engine/host_staged.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/transport/any_transport.hpp>
#include <hcomp/transport/in_process.hpp>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <numbers>
#include <numeric>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <support/guarded_executor.hpp>
#include <thread>
#include <utility>
#include <vector>

#include "classification.hpp"
#include "data.hpp"
#include "eigen_products.hpp"
#include "mlp.hpp"
#include "random.hpp"
#include "report.hpp"
#include "sgd.hpp"
#include "skip_gram.hpp"
#include "synchronizer.hpp"
#include "synchronizers.hpp"
#include "text.hpp"
#include "trial.hpp"

namespace {

std::vector<std::uint32_t> first_numbers(std::uint32_t images) {
  std::vector<std::uint32_t> numbers(images);
  std::iota(numbers.begin(), numbers.end(), 0u);
  return numbers;
}

/// One of three workers that share a block.
struct one_of_three {
  static constexpr int workers = 3;
  int number;
  int worker() const { return number; }
};

template <class F> struct by_three_lanes {
  F f;
  template <class Group> void operator()(Group, std::size_t i) const {
    for (int worker = one_of_three::workers; worker-- > 0;) f(one_of_three{worker}, i);
  }
};

/// Stands in for a GPU: several workers, and memory that the host must not access.
class stand_in_device : public hcomp::testing::guarded_executor {
 public:
  template <class F> void for_each_block(std::size_t blocks, F const& f) {
    guarded_executor::for_each_block(blocks, by_three_lanes<F>{f});
  }
};

/// A small network that classifies small images, in an executor's memory.
template <class E> struct small_network {
  train::dataset const data = train::load_data("synthetic", 1).train;
  train::images_in<E> images{data};
  E executor;
  train::eigen_products<E> multiply{executor};
  train::mlp<E, train::eigen_products<E>> net{std::vector{64, 20, 15, 10}, 3, executor, multiply};

  train::score learn(std::span<std::uint32_t const> numbers) {
    return net.learn(images.view(), numbers);
  }
  train::score evaluate(std::span<std::uint32_t const> numbers) {
    return net.evaluate(images.view(), numbers);
  }
};

using vectors = std::vector<std::vector<float>>;  // by rank

vectors random_vectors(int ranks, std::size_t values, std::uint64_t seed) {
  train::generator random(seed);
  vectors all(static_cast<std::size_t>(ranks), std::vector<float>(values));
  for (auto& x : all) std::ranges::generate(x, [&] { return 2 * train::uniform(random) - 1; });
  return all;
}

/// The mean of value i over the ranks.
double mean_at(vectors const& x, std::size_t i) {
  double sum = 0;
  for (auto const& of_rank : x) sum += static_cast<double>(of_rank[i]);
  return sum / static_cast<double>(x.size());
}

/// Calls f(transport, rank) on a thread for every rank. What they threw, by rank.
template <class F> std::vector<std::string> on_ranks(int ranks, F const& f) {
  hcomp::in_process_world world(ranks);
  std::vector<std::string> thrown(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      auto const own = static_cast<std::size_t>(rank);
      try {
        hcomp::in_process in_process(world, rank);
        hcomp::any_transport any(in_process);
        train::paced_transport transport(any, 0);
        f(transport, own);
      } catch (hcomp::nonfinite_error const&) {
        thrown[own] = "nonfinite_error";
      } catch (std::exception const& e) {
        thrown[own] = e.what();
        world.fail(rank, e.what());
      }
    });
  for (auto& thread : threads) thread.join();
  return thrown;
}

/// Calls f(synchronizer, rank) on a thread for every rank. What they threw, by rank.
template <class F>
std::vector<std::string> with_synchronizers(int ranks, std::string const& codec, std::size_t values,
                                            std::uint64_t seed, F const& f) {
  return on_ranks(ranks, [&](train::paced_transport& transport, std::size_t rank) {
    hcomp::host_executor executor;
    auto const synchronize = train::make_synchronizer(train::trial_from(codec), 0, values, {}, seed,
                                                      transport, executor);
    f(*synchronize, rank);
  });
}

std::vector<std::string> nothing_thrown(int ranks) {
  return std::vector<std::string>(static_cast<std::size_t>(ranks));
}

/// Parameters of all ranks after `steps` updates, starting from 0.
vectors trained(int ranks, std::string const& codec, std::size_t values, std::uint64_t seed,
                std::uint64_t steps, std::vector<train::losses>* lost = nullptr,
                bool settles = false) {
  vectors parameters(static_cast<std::size_t>(ranks), std::vector<float>(values));
  auto const x = random_vectors(ranks, values, 3);
  auto const thrown =
      with_synchronizers(ranks, codec, values, seed, [&](auto& synchronize, std::size_t rank) {
        for (std::uint64_t step = 0; step < steps; ++step) {
          auto update = x[rank];
          synchronize(update, step, 1);
          for (std::size_t i = 0; i < values; ++i) parameters[rank][i] -= update[i];
        }
        if (settles) synchronize.settle(parameters[rank]);
        if (lost) (*lost)[rank] = synchronize.lost();
      });
  CHECK(thrown == nothing_thrown(ranks));
  return parameters;
}

}  // namespace

TEST_CASE("mlp: the gradient is what the loss does when a parameter moves") {
  auto const numbers = first_numbers(25);
  small_network<hcomp::host_executor> network;
  network.learn(numbers);
  auto const gradient = network.net.gradient();
  float const h = 1e-3f;
  for (std::size_t i = 0; i < gradient.size(); i += 7) {
    CAPTURE(i);
    float& parameter = network.net.parameters()[i];
    float const before = parameter;
    parameter = before + h;
    double const above = network.evaluate(numbers).loss;
    parameter = before - h;
    double const below = network.evaluate(numbers).loss;
    parameter = before;
    // error: h^2 of the third derivative, 1e-7 / h of rounding, and kinks of ReLU in between
    CHECK(std::abs((above - below) / (2.0 * h) / 25 - double(gradient[i])) < 1e-3);
  }
  // every layer has biases
  for (auto const& [first, count] : {std::pair{1280, 20}, {1600, 15}, {1765, 10}})
    CHECK(std::ranges::count(gradient.subspan(first, count), 0.0f) < count / 2);
}

TEST_CASE("mlp: on a device it learns what it learns on the host") {
  small_network<hcomp::host_executor> host;
  small_network<stand_in_device> device;
  auto const values = host.net.parameters().size();
  train::sgd<hcomp::host_executor> host_step(values, 0.9f, host.executor);
  train::sgd<stand_in_device> device_step(values, 0.9f, device.executor);
  auto const on_host = [&](std::span<float const> on_device) {
    std::vector<float> here(on_device.size());
    device.executor.wait(device.executor.read(
        here.data(), reinterpret_cast<std::byte const*>(on_device.data()), on_device.size_bytes()));
    return here;
  };
  // with another alignment of memory, products may add in another order
  auto const compare = [&](std::span<float const> expected, std::span<float const> found) {
    auto const on_device = on_host(found);
    REQUIRE(expected.size() == on_device.size());
    float largest = 0;
    for (std::size_t i = 0; i < on_device.size(); ++i)
      largest = std::max(largest, std::abs(on_device[i] - expected[i]));
    CHECK(largest < 2e-6f);
  };
  compare(host.net.parameters(), device.net.parameters());
  for (std::uint32_t const images : {25u, 7u, 40u}) {  // the last number needs larger buffers
    CAPTURE(images);
    auto const numbers = first_numbers(images);
    auto const expected = host.learn(numbers), found = device.learn(numbers);
    CHECK(found.loss == doctest::Approx(expected.loss).epsilon(1e-6));
    CHECK(found.correct == expected.correct);
    CHECK(found.count == images);
    compare(host.net.gradient(), device.net.gradient());
    compare(host_step(host.net.gradient(), 0.1f), device_step(device.net.gradient(), 0.1f));
    host_step.apply(host.net.parameters());
    device_step.apply(device.net.parameters());
    compare(host.net.parameters(), device.net.parameters());
  }
  auto const expected = host.evaluate(first_numbers(100));
  CHECK(device.evaluate(first_numbers(100)).loss == doctest::Approx(expected.loss).epsilon(1e-6));
  CHECK(expected.correct > 10);  // better than guessing
}

TEST_CASE("text: words are letters in lower case, without notes of dictionaries") {
  auto const words = [](std::string_view text) {
    std::vector<std::string> all;
    train::for_each_word(text, [&](std::string_view word) { all.emplace_back(word); });
    return all;
  };
  using list = std::vector<std::string>;
  CHECK(words("") == list{});
  CHECK(words("To ABATE; to put-an end 2nd.") ==
        list{"to", "abate", "to", "put", "an", "end", "nd"});
  CHECK(words("Aard \\Aard\"vark`\\, n. [D., earth pig.] {Zool.} the") ==
        list{"aard", "zool", "the"});
  CHECK(words("an [open note " + std::string(400, '.') + "] goes on") ==
        list{"an", "open", "note", "goes", "on"});
  CHECK(words("back\\") == list{"back"});
}

TEST_CASE("corpus: the most frequent words, every 25th block of 1000 to test with") {
  std::string text;  // aa 3 of 6, bb 2 of 6, cc 1 of 6, one rare word
  for (int i = 0; i < 10000; ++i) text += "aa bb aa cc aa bb\n";
  text += "rare";
  train::corpus const all(text, {.vocabulary = 10, .min_count = 5, .thin_above = 0}, 1);
  CHECK(all.words == std::vector<std::string>{"aa", "bb", "cc"});
  CHECK(all.test.size() == 2000);  // blocks 12 and 37 of 60
  CHECK(all.test_places.size() == 2000);
  CHECK(all.test_places[1999] == 1999);
  CHECK(all.train.size() == 58000);
  CHECK(all.counts[0] + all.counts[1] + all.counts[2] == 58000);
  CHECK(static_cast<std::size_t>(std::ranges::count(all.train, 1u)) == all.counts[1]);
  CHECK(std::vector(all.train.begin(), all.train.begin() + 6) ==
        std::vector<std::uint32_t>{0, 1, 0, 2, 0, 1});

  train::corpus const few(text, {.vocabulary = 2, .min_count = 5, .thin_above = 0}, 1);
  CHECK(few.words == std::vector<std::string>{"aa", "bb"});
  CHECK(few.train.size() == all.counts[0] + all.counts[1]);

  // of a word with share f, sqrt(t / f) + t / f stay: here 0.2 + 0.04 of half of the text
  train::corpus const thin(text, {.vocabulary = 10, .min_count = 5, .thin_above = 0.02}, 1);
  CHECK(static_cast<double>(std::ranges::count(thin.train, 0u)) ==
        doctest::Approx(0.24 * 29000).epsilon(4 * std::sqrt(0.76 / 0.24 / 29000)));
  CHECK_THROWS_WITH_AS(train::corpus("one two one", {}, 1),
                       doctest::Contains("a text of 3 words is too short: 0 words of them"),
                       std::runtime_error);
}

TEST_CASE("text: a file may be compressed; one that is missing is named with the package") {
  auto const file = (std::filesystem::temp_directory_path() / "hcomp_train_text_test").string();
  std::ofstream(file) << "some words";
  CHECK(train::load_text(file, 1) == "some words");
  // the same compressed by gzip, cut in half
  std::array<unsigned char, 15> const cut{0x1f, 0x8b, 8,    0,    0,    0,    0,   0,
                                          0,    3,    0x2b, 0xce, 0xcf, 0x4d, 0x55};
  std::ofstream(file, std::ios::binary)
      .write(reinterpret_cast<char const*>(cut.data()), std::ssize(cut));
  CHECK_THROWS_WITH_AS(train::load_text(file, 1), doctest::Contains("is damaged: no more after"),
                       std::runtime_error);
  std::filesystem::remove(file);
  CHECK_THROWS_WITH_AS(train::load_text(file, 1), doctest::Contains("apt install dict-gcide"),
                       std::runtime_error);
}

TEST_CASE("skip-gram: the gradient is what the loss does when a parameter moves") {
  train::corpus const text(train::load_text("synthetic", 1), {.thin_above = 0}, 1);
  train::skip_gram fresh(text, {.dimension = 6, .drawn = 16}, 3);
  std::vector<std::uint32_t> places(20);
  std::iota(places.begin(), places.end(), 95u);
  // copies draw the words of the first lesson
  auto const learn = [&](train::skip_gram one) { return one.learn(places); };
  auto const unlearnt = learn(fresh);  // a pair and 5 negatives, untrained
  CHECK(unlearnt.loss / unlearnt.count == doctest::Approx(6 * std::log(2.0)).epsilon(1e-6));

  train::generator random(4);
  for (float& x : fresh.parameters()) x = 2 * train::uniform(random) - 1;
  auto taught = fresh;
  double const pairs = taught.learn(places).count;
  CHECK(pairs > 20 * 2);
  CHECK(pairs <= 20 * 10);
  auto const gradient = taught.gradient();
  std::size_t moved = 0;
  float const h = 1e-2f;
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    if (gradient[i] == 0 && i % 11 != 0) continue;  // a sample of the parameters without gradient
    CAPTURE(i);
    auto up = fresh, down = fresh;
    up.parameters()[i] += h;
    down.parameters()[i] -= h;
    double const slope = (learn(up).loss - learn(down).loss) / (2.0 * h) / pairs;
    // h^2 / 6 of the third derivative, below 0.1; 1e-7 * 5 / h of rounding
    REQUIRE(std::abs(slope - double{gradient[i]}) < 1e-4);
    moved += gradient[i] != 0;
  }
  CHECK(moved > 6 * 20);

  // the next lesson resets gradients of words that it does not use
  std::vector<std::uint32_t> const other{20000};
  taught.learn(other);
  auto alone = fresh;
  alone.learn(places);  // the same number of lessons
  std::ranges::copy(fresh.parameters(), alone.parameters().begin());
  alone.learn(other);
  CHECK(std::ranges::equal(taught.gradient(), alone.gradient()));
  auto const zeros = std::ranges::count(taught.gradient(), 0.0f);
  CHECK(zeros >= std::ssize(taught.gradient()) - 6 * (1 + 10 + 16));
}

TEST_CASE("skip-gram: neighbours are within reach, negatives as frequent as counts to the 3/4") {
  train::corpus const text(train::load_text("synthetic", 1), {.thin_above = 0}, 1);
  train::skip_gram model(text, {.window = 3, .drawn = 100000}, 1);
  std::vector<std::uint32_t> const line{0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  std::vector<int> reaches(4);
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    auto const& drawn = model.draw(line, std::vector{5u}, seed << 8);
    auto const reach = drawn.neighbours.size() / 2;
    REQUIRE((reach >= 1 && reach <= 3));
    ++reaches[reach];
    std::vector<std::uint32_t> expected;
    for (std::uint32_t i = 5 - static_cast<std::uint32_t>(reach); i <= 5 + reach; ++i)
      if (i != 5) expected.push_back(i);
    REQUIRE(drawn.neighbours == expected);
    if (seed == 10) model = train::skip_gram(text, {.window = 3, .drawn = 1}, 1);
  }
  for (int reach : {1, 2, 3})  // five standard deviations
    CHECK(std::abs(reaches[static_cast<std::size_t>(reach)] - 1000) < 5 * 26);
  CHECK(model.draw(line, std::vector{0u, 9u}, 1).neighbours.size() <=
        6);  // nothing beyond the ends

  train::skip_gram often(text, {.drawn = 100000}, 1);
  auto const negatives = often.draw(line, std::vector{5u}, 7).negatives;
  double all = 0;
  for (auto const count : text.counts) all += std::pow(static_cast<double>(count), 0.75);
  for (std::uint32_t word = 0; word < text.words.size(); word += 9) {
    double const mean = 1e5 * std::pow(static_cast<double>(text.counts[word]), 0.75) / all;
    CAPTURE(word);
    CHECK(std::abs(static_cast<double>(std::ranges::count(negatives, word)) - mean) <
          5 * std::sqrt(mean));
  }
}

TEST_CASE("sampler: in an epoch the ranks together see every image once") {
  constexpr int images = 120, batch = 5;
  for (int ranks : {1, 2, 3, 4}) {
    CAPTURE(ranks);
    std::multiset<std::uint32_t> seen;
    for (int rank = 0; rank < ranks; ++rank) {
      train::sampler sample(images, batch, rank, ranks, 7);
      for (std::uint64_t step = 0; step < sample.steps_per_epoch(); ++step)
        for (auto const image : sample(step)) seen.insert(image);
    }
    CHECK(seen.size() == images);
    CHECK(std::set(seen.begin(), seen.end()).size() == images);
  }
}

TEST_CASE("sampler: with labels, each rank has the images of its share of the sorted labels") {
  constexpr int images = 120, batch = 5, ranks = 4;
  std::vector<std::uint8_t> labels(images);
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::uint8_t>(i * 7 % 8);
  std::multiset<std::uint32_t> seen;
  for (int rank = 0; rank < ranks; ++rank) {
    CAPTURE(rank);
    train::sampler sample(images, batch, rank, ranks, 7, labels);
    CHECK(sample.steps_per_epoch() == 6);
    std::vector<std::uint32_t> first, second;
    for (std::uint64_t step = 0; step < 6; ++step)
      for (auto const image : sample(step)) {
        CHECK(labels[image] / 2 == rank);  // two of the eight labels
        first.push_back(image);
      }
    for (std::uint64_t step = 6; step < 12; ++step)
      for (auto const image : sample(step)) second.push_back(image);
    CHECK(first != second);
    CHECK(std::ranges::is_permutation(first, second));
    seen.insert(first.begin(), first.end());
  }
  CHECK(std::set(seen.begin(), seen.end()).size() == images);
}

TEST_CASE("sampler: every epoch has another order, a seed has always the same") {
  train::sampler once(1000, 10, 0, 1, 7), again(1000, 10, 0, 1, 7), other(1000, 10, 0, 1, 8);
  auto const copy = [](auto images) { return std::vector(images.begin(), images.end()); };
  CHECK(copy(once(3)) == copy(again(3)));
  CHECK(copy(once(3)) != copy(other(3)));
  CHECK(copy(once(3)) != copy(once(3 + 100)));
  CHECK_THROWS_WITH(train::sampler(99, 25, 0, 4, 1),
                    "99 training images are too few for 4 ranks with batches of 25");
}

TEST_CASE("sgd: momentum sums what came before, the schedule ends above zero") {
  hcomp::host_executor executor;
  for (std::size_t const values : {1, 1024, 1025, 5000}) {
    CAPTURE(values);
    train::sgd optimiser(values, 0.5f, executor);
    std::vector<float> const gradient(values, 1.0f);
    std::vector<float> parameters(values, 7.0f);
    auto const is = [&](std::span<float const> found, float expected) {
      return std::ranges::count(found, expected) == std::ssize(gradient);
    };
    CHECK(is(optimiser(gradient, 2), 2));
    CHECK(is(optimiser(gradient, 2), 3));  // 2 * (1 + 0.5)
    optimiser.apply(parameters);
    CHECK(is(parameters, 4));
  }
  CHECK(train::schedule(0, 10) == 1);
  CHECK(train::schedule(9, 10) == doctest::Approx(0.1));
}

TEST_CASE("majority_vote: on devices the steps of CPUs, bit for bit") {
  constexpr std::size_t values = 40000;
  for (int const ranks : {2, 3}) {
    CAPTURE(ranks);
    auto const x = random_vectors(ranks, values, 6);
    auto expected = x, found = x;
    auto const both = [&](train::paced_transport& transport, std::size_t rank) {
      hcomp::host_executor host;
      auto& on_host = expected[rank];
      (*train::make_synchronizer(train::trial_from("majority_vote"), 0.25, values, {}, 7, transport,
                                 host))(on_host, 3, 0.5f);

      hcomp::testing::guarded_executor device;
      hcomp::host_staged over(transport, device);
      hcomp::testing::device_vector<float> update(x[rank], device);
      train::majority_vote<decltype(over), hcomp::testing::guarded_executor> synchronize(
          values, 0.25, 7, {}, over, device);
      synchronize(update.span(), 3, 0.5f);
      found[rank] = update.host();
    };
    CHECK(on_ranks(ranks, both) == nothing_thrown(ranks));
    CHECK(found == expected);
  }
}

TEST_CASE("data: a file that is not IDX is refused with its name and its first bytes") {
  auto const folder = std::filesystem::temp_directory_path() / "hcomp_train_parts_test";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "train-images-idx3-ubyte") << "PNG.";
  CHECK_THROWS_WITH_AS(
      train::load_data(folder.string(), 1),
      doctest::Contains("is no IDX file of bytes with 3 extents: it starts with 80, 78, 71, 46"),
      std::runtime_error);
  std::filesystem::remove_all(folder);
}

TEST_CASE("report: results of several seeds become mean and deviation") {
  train::comparison all;
  all.ranks = 4;
  for (double const accuracy : {88.0, 90.0}) {
    train::history run;
    run.codec = "marsit";
    run.parameters = 1000;
    run.bytes_per_step = 600;
    run.curve.push_back({});
    run.curve.back().accuracy = accuracy;
    all.add(run);
  }
  auto const json = train::to_json(all);
  CHECK(json["runs"].size() == 2);
  CHECK(json["device"] == "host");
  CHECK(json["runs"][1]["messages"] == "host");
  CHECK(json["runs"][0]["compression_ratio"] == 10);  // a ring of 4 sends 6000 of 4000 bytes
  CHECK(json["mean_over_seeds"]["marsit"]["test_accuracy"] == 89);
  CHECK(json["mean_over_seeds"]["marsit"]["test_accuracy_deviation"] ==
        doctest::Approx(std::sqrt(2.0)));
}

TEST_CASE("report: the table has what a method loses against fp32, and marsit's settings") {
  train::comparison all;
  all.ranks = 4;
  all.settings.flush_limit = 0.002;
  for (std::string const codec : {"fp32", "marsit"}) {
    train::history run;
    run.codec = codec;
    run.parameters = 1000;
    run.bytes_per_step = 600;
    run.curve.push_back({});
    run.curve.back().accuracy = codec == "fp32" ? 89.25 : 88.5;
    all.add(run);
  }
  auto const text = train::table(all);
  CHECK(text.find("88.50   -0.75 ") != text.npos);
  CHECK(text.find("marsit: the first 20 steps in full precision, and every 100th, which moves a "
                  "parameter by at most 0.002\n") != text.npos);
}

TEST_CASE("report: twins are compared at every observation") {
  train::comparison all;
  all.settings.check = true;
  auto const add = [&](char const* codec, double loss) {
    train::history run;
    run.codec = codec;
    run.curve.resize(3);
    run.curve[0].train_loss = 4;
    run.curve[1].test_loss = loss;
    all.add(run);
  };
  add("fixed", 2);
  add("sparse_fixed", 2);
  CHECK(train::complaints(all).empty());
  CHECK(train::table(all).ends_with(
      "All losses of sparse_fixed and fixed are the same, bit for bit.\n"));
  all.rows.pop_back();
  add("sparse_fixed", std::nextafter(2.0, 3.0));
  CHECK(train::complaints(all) ==
        "check: losses of sparse_fixed and fixed differ by 2.22e-16 of their size, 0 is allowed\n");
  // for word vectors, float rounding may cause a small difference
  all.rows.clear();
  add("fp32", 2);
  add("sparse", 2 + 4e-5);
  CHECK(train::complaints(all).empty());
  all.settings.model = train::find_model("embedding");
  CHECK(train::complaints(all) ==
        "check: losses of sparse and fp32 differ by 2.00e-05 of their size, 1e-05 is allowed\n");
  all.rows.pop_back();
  add("sparse", 2 + 1e-5);
  CHECK(train::complaints(all).empty());
}

TEST_CASE("top_k: sends the largest means, sums of a step miss what a residual has") {
  constexpr int ranks = 3;
  constexpr std::size_t values = 1000;
  auto const x = random_vectors(ranks, values, 3);  // the same in every step
  auto const one_step = trained(ranks, "top_k:share=0.1", values, 7, 1);
  for (auto const& parameters : one_step) CHECK(parameters == one_step.front());
  auto const moved =
      static_cast<double>(values) - static_cast<double>(std::ranges::count(one_step[0], 0.0f));
  CHECK(moved >= 100);
  CHECK(moved <= 300);
  // A step adds 0.5 to the mean magnitude and sends a tenth of the values, so a sent value has
  // accumulated about 5. The residual after many steps is at most of this size.
  constexpr int steps = 200;
  auto const many = trained(ranks, "top_k:share=0.1", values, 7, steps);
  for (std::size_t i = 0; i < values; ++i) {
    REQUIRE(std::abs(many[0][i] + steps * mean_at(x, i)) < 8);
  }
}

TEST_CASE("trial: its name says what goes wrong; what cannot be is refused with its value") {
  CHECK(train::trial_from("thc").name() == "thc");
  CHECK(train::trial_from("thc:late=0.1:lost=0.01").name() == "thc, 10 % late, 1 % lost");
  CHECK(train::trial_from("uniform_thc:lost=0.07").name() == "uniform_thc, 7 % lost");
  CHECK(train::trial_from("thc:late=0").name() == "thc, aggregated");
  CHECK(train::trial_from("top_k").name() == "top_k");
  CHECK(train::trial_from("top_k:share=0.05").name() == "top_k, share=0.05");
  CHECK_THROWS_WITH(train::trial_from("thc:share=0.1"),
                    "thc:share=0.1: it has no key 'share'; it has: bits, granularity, truncation, "
                    "transform, hop_bits");
  CHECK_FALSE(train::trial_from("marsit").by_aggregators);
  CHECK_THROWS_WITH(train::trial_from("thc:late=1.5"), "'1.5' is no share from 0 to below 1");
  for (auto const* share : {"1", "-0.1", "nan", "", "0.1x"}) {
    CAPTURE(share);
    CHECK_THROWS_AS(train::share_from(share), std::invalid_argument);
  }
  CHECK_THROWS_WITH(train::trial_from("marsit:lost=0.1"),
                    "marsit:lost=0.1: marsit has no aggregator; these have: thc, uniform_thc");
  CHECK_THROWS_WITH(train::trial_from("thc:slow=0.1"),
                    doctest::Contains("thc:slow=0.1: it has no key 'slow'; it has: bits, "));
  CHECK_THROWS_WITH(train::trial_from("marsit:bits=2"),
                    "marsit:bits=2: 'bits=2' is no setting of marsit, which has none");
  CHECK(train::trial_from("inceptionn").name() == "inceptionn, E=10");
  CHECK(train::trial_from("inceptionn:6").name() == "inceptionn, E=6");
  CHECK(train::trial_from("inceptionn:E=6,nearest=no").name() == "inceptionn, E=6, nearest=no");
  CHECK_THROWS_WITH(train::trial_from("inceptionn:15"),
                    "inceptionn:15: 'E=15': E is a whole number from 1 to 14");
  CHECK_THROWS_WITH(train::trial_from("thc:bound=6"),
                    doctest::Contains("thc:bound=6: it has no key 'bound'; it has: bits, "));
  CHECK_THROWS_WITH(train::trial_from("thc:bits=1,truncation=0.03125:late=0"),
                    "thc:bits=1,truncation=0.03125:late=0: codec 'thc:bits=1,granularity=1,"
                    "truncation=0.03125' loses 3.702 of a vector's energy, and error feedback "
                    "works below 0.75");
  CHECK(train::trial_from("uniform_thc:bits=1").name() == "uniform_thc, bits=1");
  CHECK(train::trial_from("thc:bits=2,transform=1024:late=0.1").name() ==
        "thc, bits=2, transform=1024, 10 % late");
  CHECK(train::trial_from("error_bounded").name() == "error_bounded, bound=1e-05");
  CHECK(train::trial_from("error_bounded:bound=0.002").name() == "error_bounded, bound=0.002");
  CHECK(train::trial_from("identity").name() == "identity");
  CHECK(train::trial_from("lossless_sparse:fixed=64").name() == "lossless_sparse, fixed=64");
  CHECK_THROWS_WITH(train::trial_from("sign_count"),
                    doctest::Contains("no codec is called 'sign_count'; train has: fp32, "));
  for (std::string const bound : {"0", "-1", "nan", "inf", "", "1e-3x"})
    CHECK_THROWS_WITH(train::trial_from("error_bounded:bound=" + bound),
                      doctest::Contains(("'bound=" + bound + "': bound is a number from").c_str()));
}

TEST_CASE(
    "error_bounded: no update is off by more than the bound, and all ranks get the same bits") {
  constexpr std::size_t values = 5000;
  for (int const ranks : {1, 3, 4}) {
    CAPTURE(ranks);
    auto const x = random_vectors(ranks, values, 5);
    auto updates = x;
    auto const thrown = with_synchronizers(
        ranks, "error_bounded:bound=0.001", values, 1,
        [&](auto& synchronize, std::size_t rank) { synchronize(updates[rank], 0, 1); });
    CHECK(thrown == nothing_thrown(ranks));
    double largest = 0;
    for (std::size_t i = 0; i < values; ++i) {
      largest = std::max(largest, std::abs(static_cast<double>(updates[0][i]) - mean_at(x, i)));
    }
    CHECK(largest <= 0.001 + 0x1p-23);  // dividing by 3 rounds as well
    CHECK(largest > 0.0003);            // the codec uses the requested bound, not a smaller one
    for (auto const& update : updates) CHECK(update == updates[0]);
  }
}

TEST_CASE("majority_vote: a step in the direction of most ranks, of one where they are divided") {
  constexpr std::size_t values = 5000;
  for (int const ranks : {1, 2, 3, 4, 5}) {
    CAPTURE(ranks);
    auto const x = random_vectors(ranks, values, 5);
    auto updates = x;
    auto const thrown = on_ranks(ranks, [&](train::paced_transport& transport, std::size_t rank) {
      hcomp::host_executor executor;
      auto const synchronize = train::make_synchronizer(train::trial_from("signum"), 0.5, values,
                                                        {}, 1, transport, executor);
      (*synchronize)(updates[rank], 0, 0.5f);
    });
    CHECK(thrown == nothing_thrown(ranks));
    int divided = 0, up = 0;
    for (std::size_t i = 0; i < values; ++i) {
      int sum = 0;
      for (auto const& of_rank : x) sum += of_rank[i] >= 0 ? 1 : -1;
      if (sum != 0) {
        REQUIRE(updates[0][i] == (sum > 0 ? 0.25f : -0.25f));
      } else {
        REQUIRE(std::abs(updates[0][i]) == 0.25f);
        ++divided;
        up += updates[0][i] > 0;
      }
    }
    for (auto const& update : updates) CHECK(update == updates[0]);
    // Binomial(divided, 1/2), four standard deviations
    CHECK(std::abs(2 * up - divided) <= 4 * std::sqrt(divided));
    CHECK((divided > 1000) == (ranks % 2 == 0));
  }
}

TEST_CASE("dist_ef_sign: what is left out is sent later, by ranks and by owners") {
  // With equal gradients in all steps, the error of the parameters is the residual, which hardly
  // grows. Values lost in every step would keep the relative error constant.
  constexpr std::size_t values = 20000;
  for (int const ranks : {1, 3, 4}) {
    CAPTURE(ranks);
    auto const x = random_vectors(ranks, values, 3);  // those of trained()
    auto const error_after = [&](std::uint64_t steps) {
      auto const parameters = trained(ranks, "dist_ef_sign", values, 7, steps);
      for (auto const& of_rank : parameters) REQUIRE(of_rank == parameters[0]);
      double error = 0, norm = 0;
      for (std::size_t i = 0; i < values; ++i) {
        double const wanted = -mean_at(x, i), got = parameters[0][i] / static_cast<double>(steps);
        error += (got - wanted) * (got - wanted);
        norm += wanted * wanted;
      }
      return std::sqrt(error / norm);
    };
    double const soon = error_after(64), late = error_after(1024);
    CAPTURE(soon);
    CHECK(late < soon / 4);  // 16 if residuals did not grow at all
  }
}

TEST_CASE("dist_ef_sign, drive: two bits per value and (P - 1) / P, and NaN ends all ranks") {
  constexpr std::size_t values = 3 << 16;  // a share is not a multiple of a block
  constexpr int ranks = 4;
  auto updates = random_vectors(ranks, values, 3);
  std::vector<std::uint64_t> sent(ranks);
  auto const once = [&](auto& synchronize, std::size_t rank) {
    sent[rank] = synchronize(updates[rank], 0, 1).bytes_sent;
  };
  double const ideal = 2.0 * values / 8 * (ranks - 1) / ranks;
  for (auto const* method : {"dist_ef_sign", "drive"}) {
    CAPTURE(method);
    CHECK(with_synchronizers(ranks, method, values, 1, once) == nothing_thrown(ranks));
    for (auto const bytes : sent) {
      CHECK(static_cast<double>(bytes) >= ideal);
      CHECK(static_cast<double>(bytes) <= 1.02 * ideal);  // headers of 32 bytes, 12 scales
    }
  }
  updates[2][77777] = std::numeric_limits<float>::quiet_NaN();
  for (auto const* method : {"dist_ef_sign", "drive"})
    CHECK(with_synchronizers(ranks, method, values, 1, once) ==
          std::vector<std::string>(ranks, "nonfinite_error"));
}

TEST_CASE("drive: unbiased, with the variance of one bit per rotated value in two phases") {
  // Error of one message: (pi / 2 - 1) ||x||^2 (Vargaftik et al., 2021). With independent values,
  // ||mean||^2 = ||x||^2 / P, so ranks add 0.571 ||mean||^2, and the owner 0.571 of the sum.
  constexpr std::size_t values = 30000;
  constexpr int steps = 64;
  double const one = std::numbers::pi / 2 - 1, both = one + one * (1 + one);
  for (int const ranks : {1, 3, 4}) {
    CAPTURE(ranks);
    auto const x = random_vectors(ranks, values, 3);  // those of trained()
    auto const parameters = trained(ranks, "drive", values, 7, steps);
    for (auto const& of_rank : parameters) REQUIRE(of_rank == parameters[0]);
    double error = 0, norm = 0;
    for (std::size_t i = 0; i < values; ++i) {
      double const mean = mean_at(x, i);
      error += std::pow(static_cast<double>(parameters[0][i]) / steps + mean, 2);
      norm += mean * mean;
    }
    CHECK(error / norm == doctest::Approx(both / steps).epsilon(0.05));
  }
}

TEST_CASE("powersgd: of full rank it is the mean, of rank 2 the rest is sent later") {
  constexpr int ranks = 3;
  std::vector<train::matrix_shape> const matrices{{7, 5}, {6, 40}};
  constexpr std::size_t values = 7 * 5 + 6 * 40;
  auto const x = random_vectors(ranks, values, 3);
  /// The largest error of the mean update after equal updates in all steps.
  auto const error_after = [&](int rank_of_products, int steps) {
    vectors sums(ranks, std::vector<float>(values));
    train::options settings;
    settings.powersgd_rank = rank_of_products;
    auto const thrown = on_ranks(ranks, [&](train::paced_transport& transport, std::size_t rank) {
      hcomp::host_executor executor;
      auto const synchronize = train::make_synchronizer(train::trial_from("powersgd"), 0, values,
                                                        settings, 7, transport, executor, matrices);
      for (int step = 0; step < steps; ++step) {
        auto update = x[rank];
        (*synchronize)(update, static_cast<std::uint64_t>(step), 1);
        for (std::size_t i = 0; i < values; ++i) sums[rank][i] += update[i] / float(steps);
      }
    });
    CHECK(thrown == nothing_thrown(ranks));
    for (auto const& sum : sums) CHECK(sum == sums[0]);
    double largest = 0;
    for (std::size_t i = 0; i < values; ++i)
      largest = std::max(largest, std::abs(double{sums[0][i]} - mean_at(x, i)));
    return largest;
  };
  CHECK(error_after(7, 1) < 1e-5);
  CHECK(error_after(2, 1) > 0.2);
  CHECK(error_after(2, 400) < error_after(2, 25) / 4);  // 16 if residuals did not grow
}

TEST_CASE("powersgd: a model without matrices is refused") {
  CHECK(with_synchronizers(1, "powersgd", 10, 1, [](auto&, std::size_t) {}) ==
        std::vector<std::string>{"powersgd compresses matrices, and the model has none"});
}

TEST_CASE("marsit_full: updates wait for the next step in full precision, and for the limit") {
  constexpr int ranks = 3;
  constexpr std::size_t values = 1000;
  auto const x = random_vectors(ranks, values, 3);
  train::options settings;
  settings.period = 4;
  settings.warm_up = 1;
  settings.flush_limit = 0.5;
  auto const thrown = on_ranks(ranks, [&](train::paced_transport& transport, std::size_t rank) {
    hcomp::host_executor executor;
    auto const synchronize = train::make_synchronizer(train::trial_from("marsit_full"), 0, values,
                                                      settings, 7, transport, executor);
    std::vector<double> waits(values);
    for (std::uint64_t step = 0; step < 8; ++step) {
      auto update = x[rank];
      auto const sent = (*synchronize)(update, step, 1).bytes_sent;
      bool const is_full = step == 0 || step == 3 || step == 7;
      CHECK((sent > 0) == is_full);
      for (std::size_t i = 0; i < values; ++i) {
        waits[i] += mean_at(x, i);
        double const moved = is_full ? std::clamp(waits[i], -0.5, 0.5) : 0;
        REQUIRE(double{update[i]} == doctest::Approx(moved).epsilon(1e-5));
        waits[i] -= moved;
      }
    }
  });
  CHECK(thrown == nothing_thrown(ranks));
}

TEST_CASE("local_sgd: updates stay those of the rank, settling averages the parameters") {
  constexpr int ranks = 3;
  constexpr std::size_t values = 1000;
  auto const x = random_vectors(ranks, values, 3);
  auto const alone = trained(ranks, "local_sgd", values, 7, 2);
  auto const settled = trained(ranks, "local_sgd", values, 7, 2, nullptr, true);
  for (std::size_t rank = 0; rank < ranks; ++rank)
    for (std::size_t i = 0; i < values; ++i) {
      REQUIRE(alone[rank][i] == -2 * x[rank][i]);
      REQUIRE(double{settled[rank][i]} == doctest::Approx(-2 * mean_at(x, i)).epsilon(1e-5));
    }
}

TEST_CASE("aggregators: when nothing goes wrong, updates are those of the ring, bit by bit") {
  for (std::string const codec : {"thc", "uniform_thc"})
    for (int const ranks : {1, 2, 4}) {
      CAPTURE(codec);
      CAPTURE(ranks);
      // equal numbers of full blocks per rank, because the ring splits other sizes
      std::size_t const values = 4 * hcomp::thc<float>::block_values;
      CHECK(trained(ranks, codec + ":late=0", values, 7, 4) == trained(ranks, codec, values, 7, 4));
    }
}

TEST_CASE("aggregators: who is late is in no sum of the step, and all ranks get the same bits") {
  constexpr int ranks = 4;
  constexpr std::size_t values = 30000;
  auto const x = random_vectors(ranks, values, 3);
  int late = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    auto updates = x;
    std::array<double, ranks> left_out{};
    auto const thrown = with_synchronizers(ranks, "thc:late=0.3", values, seed,
                                           [&](auto& synchronize, std::size_t rank) {
                                             synchronize(updates[rank], 0, 1);
                                             left_out[rank] = synchronize.lost().left_out;
                                             CHECK(synchronize.lost().missed == 0);
                                           });
    REQUIRE(thrown == nothing_thrown(ranks));
    for (auto const& update : updates) CHECK(update == updates.front());
    double error = 0, square = 0;
    auto const in = static_cast<double>(std::ranges::count(left_out, 0.0));
    late += static_cast<int>(std::ranges::count(left_out, 1.0));
    CHECK(in + static_cast<double>(std::ranges::count(left_out, 1.0)) == ranks);
    for (std::size_t i = 0; i < values; ++i) {
      double mean = 0;
      for (std::size_t rank = 0; rank < ranks; ++rank)
        if (left_out[rank] == 0) mean += static_cast<double>(x[rank][i]) / in;
      error += std::pow(static_cast<double>(updates[0][i]) - mean, 2);
      square += std::pow(static_cast<double>(x[0][i]), 2);
    }
    CHECK(error / square < 1.1 * 0.0204 / in);  // (V + B) / k of the default table
  }
  CHECK(late > 24 - 13);  // 80 draws of 0.3: three standard deviations of 4.1
  CHECK(late < 24 + 13);
}

TEST_CASE(
    "aggregators: lost sums let replicas drift, alike with the same seed, until they settle") {
  constexpr int ranks = 3;
  constexpr std::size_t values = 100000;
  std::vector<train::losses> lost(ranks);
  auto const drifted = trained(ranks, "thc:lost=0.1", values, 5, 5, &lost);
  for (auto const& one : lost) {
    // 490 results: three standard deviations of 0.0136
    CHECK(one.missed == doctest::Approx(0.1).epsilon(0.4));
    CHECK(one.left_out == doctest::Approx(0.1 * 0.9).epsilon(0.4));
  }
  CHECK(drifted[0] != drifted[1]);
  CHECK(trained(ranks, "thc:lost=0.1", values, 5, 5) == drifted);
  CHECK(trained(ranks, "thc:lost=0.1", values, 6, 5) != drifted);
  auto const settled = trained(ranks, "thc:lost=0.1", values, 5, 5, nullptr, true);
  for (auto const& parameters : settled) CHECK(parameters == settled.front());
  for (std::size_t i = 0; i < values; i += 999)
    CHECK(settled[0][i] ==
          doctest::Approx((drifted[0][i] + drifted[1][i] + drifted[2][i]) / 3).epsilon(1e-5));
}

TEST_CASE("aggregators: NaN on one rank, late or not, ends all of them") {
  constexpr int ranks = 3;
  constexpr std::size_t values = 20000;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    CAPTURE(seed);
    auto const thrown = with_synchronizers(
        ranks, "thc:late=0.5:lost=0.2", values, seed, [&](auto& synchronize, std::size_t rank) {
          auto update = random_vectors(ranks, values, seed)[rank];
          synchronize(update, 0, 1);
          if (rank == 1) update[values / 2] = std::nanf("");
          for (std::uint64_t step = 1; step < 4; ++step) synchronize(update, step, 1);
        });
    CHECK(thrown == std::vector<std::string>(ranks, "nonfinite_error"));
  }
}
