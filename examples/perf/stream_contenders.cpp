#include "stream_contenders.hpp"

#include <fmt/core.h>

#include <cmath>
#include <hcomp/codec/error_bounded_stream.hpp>
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
                   hcomp::variable_rate_options const& options, bool mean)
      : values_sent_(2.0 * (transport.size() - 1) / transport.size() * static_cast<double>(values)),
        plan_(values, codec, transport, options) {
    this->name = std::move(as);
    if constexpr (hcomp::BoundedVariableRate<C>)
      this->accuracy = promise_of(plan_.codec(), mean);
    else if (!options.fitted)
      this->accuracy = {(transport.size() + 1) * 2 * rounding<float>(), false};
  }
  hcomp::report run(std::span<float> x, hcomp::call_options const& call) override {
    auto const figures = plan_.all_reduce(x, call);
    this->bytes_to_send = static_cast<double>(figures.bytes_sent);
    if (values_sent_ > 0 && !plan_.options().worker_aggregator) {
      if constexpr (hcomp::FittedVariableRate<C>)
        this->remark =
            bits() + fmt::format(", prescaled by 2^{}", plan_.codec().options().prescale);
      if constexpr (hcomp::BoundedVariableRate<C>)
        this->remark = bits() + fmt::format(", integers off by up to {:.2g}", figures.error);
    }
    return figures;
  }

 private:
  std::string bits() const {
    return fmt::format("{} sent {:.1f} bits per value and hop", this->name.codec,
                       8 * this->bytes_to_send / values_sent_);
  }

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
    list.push_back(std::make_unique<stream_contender<C>>(
        way{name, algorithm, transport_name}, codec, it.values, transport, options, it.o.mean));
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

promise promise_of(hcomp::error_bounded_stream const& codec, bool mean) {
  auto const& options = codec.options();
  double const parts = mean ? options.ranks : 1;
  double const largest_integer = (std::ldexp(1.0, options.magnitude_bits) - 1) * codec.step();
  double const roundings = options.ranks;  // of as many sums to float
  return {{}, false, [=](double magnitude) {
            double const by_floats = magnitude * parts > largest_integer ? roundings : 0;
            double const by_division = mean ? 2 : 0;
            return options.bound / parts +
                   (by_floats + by_division) * rounding<float>() * magnitude;
          }};
}

void add_streams(contender_list<float>& list, job const& it, std::string const& codec,
                 std::string const& transport) {
  auto const [exponent, bound] = *stream_name::from(codec);
  if (exponent > 0)
    add_all(list, it, codec, hcomp::inceptionn({.bound_exponent = exponent}), transport);
  else if (bound > 0)
    add_all(list, it, codec, hcomp::error_bounded_stream({.bound = bound}), transport);
  else
    add_all(list, it, codec, hcomp::uncompressed_stream{}, transport);
}

}  // namespace perf
