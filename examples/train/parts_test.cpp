/// The parts of train that need no MPI.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <stdexcept>

#include "data.hpp"
#include "mlp.hpp"
#include "report.hpp"
#include "sgd.hpp"

namespace {

train::batch first_images(train::dataset const& data, std::uint32_t images) {
  std::vector<std::uint32_t> numbers(images);
  std::iota(numbers.begin(), numbers.end(), 0u);
  train::batch out;
  train::gather(data, numbers, out);
  return out;
}

}  // namespace

TEST_CASE("mlp: the gradient is what the loss does when a parameter moves") {
  auto const images = first_images(train::load_data("synthetic", 1).train, 25);
  std::vector<int> const widths{64, 20, 15, 10};
  train::mlp network(widths, 3);
  network.learn(images);
  std::vector<float> const gradient(network.gradient().begin(), network.gradient().end());
  float const h = 1e-3f;
  for (std::size_t i = 0; i < gradient.size(); i += 7) {
    CAPTURE(i);
    float& parameter = network.parameters()[i];
    float const before = parameter;
    parameter = before + h;
    double const above = network.evaluate(images).loss;
    parameter = before - h;
    double const below = network.evaluate(images).loss;
    parameter = before;
    // h^2 of the third derivative, 1e-7 / h of rounding, and kinks of ReLU that lie between
    CHECK(std::abs((above - below) / (2.0 * h) / 25 - double(gradient[i])) < 1e-3);
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
  train::sgd optimiser(100, 0.5f);
  std::vector<float> const gradient(100, 1.0f);
  std::vector<float> update(100);
  optimiser(gradient, 2, update);
  CHECK(update[99] == 2);
  optimiser(gradient, 2, update);
  CHECK(update[99] == 3);  // 2 * (1 + 0.5)
  CHECK(train::schedule(0, 10) == 1);
  CHECK(train::schedule(9, 10) == doctest::Approx(0.1));
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

TEST_CASE("report: figures of several seeds become mean and deviation") {
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
  CHECK(json["runs"][0]["compression_ratio"] == 10);  // a ring of 4 sends 6000 of 4000 bytes
  CHECK(json["mean_over_seeds"]["marsit"]["test_accuracy"] == 89);
  CHECK(json["mean_over_seeds"]["marsit"]["test_accuracy_deviation"] ==
        doctest::Approx(std::sqrt(2.0)));
}
