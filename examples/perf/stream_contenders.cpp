#include "stream_contenders.hpp"

#include <fmt/core.h>

#include <hcomp/codec/inceptionn.hpp>
#include <hcomp/codec/uncompressed_stream.hpp>
#include <hcomp/collective/variable_rate_plan.hpp>
#include <utility>

#include "named_codec.hpp"

namespace perf {
namespace {

template <class C> class stream_contender final : public contender<float> {
 public:
  stream_contender(way as, C const& codec, std::size_t values, hcomp::any_transport& transport,
                   hcomp::variable_rate_options const& options)
      : values_sent_(2.0 * (transport.size() - 1) / transport.size() * static_cast<double>(values)),
        plan_(values, codec, transport, options) {
    this->name = std::move(as);
    if (!options.fitted) this->accuracy = {(transport.size() + 1) * 2 * rounding<float>(), false};
  }
  hcomp::report run(std::span<float> x, hcomp::call_options const& call) override {
    auto const figures = plan_.all_reduce(x, call);
    this->bytes_to_send = static_cast<double>(figures.bytes_sent);
    if constexpr (hcomp::FittedVariableRate<C>)
      if (auto const settings = plan_.codec().options();
          values_sent_ > 0 && !plan_.options().worker_aggregator)
        this->remark = fmt::format("{} sent {:.1f} bits per value and hop, prescaled by 2^{}",
                                   this->name.codec, 8 * this->bytes_to_send / values_sent_,
                                   settings.prescale);
    return figures;
  }

 private:
  double values_sent_;  ///< by a rank on a ring
  hcomp::variable_rate_plan<C, hcomp::any_transport> plan_;
};

template <class C>
void add_all(contender_list<float>& list, job const& it, std::string const& name, C const& codec,
             std::string const& transport_name) {
  auto& transport = it.by.at(transport_name);
  hcomp::variable_rate_options options;
  options.fitted = hcomp::FittedVariableRate<C>;
  auto const add = [&](std::string const& algorithm) {
    list.push_back(std::make_unique<stream_contender<C>>(way{name, algorithm, transport_name},
                                                         codec, it.values, transport, options));
  };
  for (auto const& how : it.o.algorithms) {
    if (!sums_streams(how)) continue;
    options.plan.how = how;
    add(how.name());
  }
  options.plan.how = {};
  options.worker_aggregator = true;
  if (it.o.worker_aggregator) add("aggregator");
}

}  // namespace

void add_streams(contender_list<float>& list, job const& it, std::string const& codec,
                 std::string const& transport) {
  int const bound = stream_name::from(codec)->bound_exponent;
  if (bound == 0)
    add_all(list, it, codec, hcomp::uncompressed_stream{}, transport);
  else
    add_all(list, it, codec, hcomp::inceptionn({.bound_exponent = bound}), transport);
}

}  // namespace perf
