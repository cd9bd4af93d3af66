#include "aggregated.hpp"

#include <hcomp/collective/plan/any_plan.hpp>
#include <hcomp/udp/make_plan.hpp>
#include <hcomp/udp/predict.hpp>
#include <memory>
#include <utility>

#include "../support/known_to_all.hpp"
#include "codec_promise.hpp"

namespace perf {
namespace {

class aggregated_contender final : public contender<float> {
 public:
  explicit aggregated_contender(hcomp::any_plan<float> plan) : plan_(std::move(plan)) {}

  hcomp::report run(std::span<float> x, hcomp::call_options const& call) override {
    auto const stats = example::known_to_all([&] { return plan_.all_reduce(x, call); });
    bytes_to_send = static_cast<double>(stats.bytes_sent);
    return stats;
  }

 private:
  hcomp::any_plan<float> plan_;
};

}  // namespace

void add_aggregated(contender_list<float>& list, job const& it, std::string const& name) {
  auto& ranks = it.by.at("mpi");
  auto one = std::make_unique<aggregated_contender>(example::known_to_all([&] {
    return hcomp::udp::make_plan<float>(name, it.values, ranks, {.aggregators = it.o.aggregators});
  }));
  one->name = {name, "aggregator", "udp"};
  auto const codec = hcomp::codec_from(codecs<float>(), name);
  one->accuracy = promise_of<float>(*codec.entry, codec.settings, ranks.size(), it.o.mean);
  one->predicted_seconds =
      hcomp::udp::predict(ranks.size(), it.values, it.by.costs.codec(codec, it.values, ranks),
                          it.by.costs.link("mpi", ranks))
          .seconds();
  list.push_back(std::move(one));
}

}  // namespace perf
