/// @file
/// Shared libraries with codecs, valid and invalid.

#include <doctest/doctest.h>

#include <collective/on_ranks.hpp>
#include <hcomp/codec_library.hpp>
#include <hcomp/collective/by_name/make_plan.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/transport/in_process.hpp>
#include <stdexcept>
#include <string>
#include <vector>

using namespace hcomp;
using namespace hcomp::testing;

namespace {

std::string const folder = OUTSIDE_LIBRARIES;
std::string const steps = folder + "/libsteps.so";

std::string refusal(std::string const& paths) {
  try {
    codec_library::from(paths);
  } catch (std::invalid_argument const& why) {
    return why.what();
  }
  return "nothing was refused";
}

}  // namespace

TEST_CASE("codec_library: codecs of a shared library make plans like built-in ones") {
  auto const found = codec_library::from(":" + steps);
  CHECK(found.names() == "steps");
  codec_registry<float> floats({});
  codec_registry<double> doubles({});
  found.add_to(floats, doubles);
  CHECK(floats.names() == "steps");
  CHECK(doubles.at("steps").keys.at(0).name == "step");
  auto const named = codec_from(floats, "steps:0.25");
  run_ranks(3, [&](in_process& transport) {
    any_transport over(transport);
    host_executor executor;
    auto const plan = named.entry->make({named.settings, 5000, over, executor, {}, 3});
    std::vector<float> x(5000, 0.3f);
    plan->all_reduce(x, {});
    CHECK(x == std::vector<float>(5000, 0.75f));
  });
  CHECK_THROWS_WITH_AS(codec_from(floats, "steps:2"),
                       doctest::Contains("step is a number from 1e-06 to 1"),
                       std::invalid_argument);
}

TEST_CASE("codec_library: unusable files are refused with their path") {
  CHECK(refusal("") == "nothing was refused");
  CHECK(refusal("/nowhere/libx.so").starts_with("no codecs in '/nowhere/libx.so': "));
  CHECK(refusal("/nowhere/libx.so").find("No such file") != std::string::npos);
  // not searched for
  CHECK(refusal("libnowhere.so").find("./libnowhere.so: ") != std::string::npos);
  CHECK(refusal(steps + ":/dev/null").starts_with("no codecs in '/dev/null': "));
  CHECK(refusal(folder + "/libno_codecs.so") ==
        "no codecs in '" + folder + "/libno_codecs.so': it has no function hcomp_codecs_made_for");
  CHECK(refusal(folder + "/libother_version.so") ==
        "no codecs in '" + folder +
            "/libother_version.so': it was made for hcomp 0.0.1, wire format 1, rows of 8 bytes; "
            "this is " +
            codec_library::version());
  CHECK(refusal(folder + "/libthrows.so") ==
        "no codecs in '" + folder + "/libthrows.so': it has no licence");
}

TEST_CASE("codec_library: if a name is taken, no codec is added") {
  auto const found = codec_library::from(folder + "/libtaken_name.so");
  codec_registry<float> floats({});
  codec_registry<double> doubles({});
  doubles.add(registered_codecs<double>().at("sign"));
  CHECK_THROWS_WITH_AS(found.add_to(floats, doubles), "there is a codec 'sign' already",
                       std::invalid_argument);
  CHECK(floats.names().empty());
  auto const twice = codec_library::from(steps + ":" + steps);
  CHECK_THROWS_WITH_AS(twice.add_to(floats), "there is a codec 'steps' already",
                       std::invalid_argument);
  CHECK(floats.names().empty());
}
