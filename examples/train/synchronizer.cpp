#include "synchronizer.hpp"

#include <fmt/core.h>

#include <hcomp/collective/by_name/registered_codecs.hpp>
#include <hcomp/hcomp.hpp>
#include <optional>
#include <stdexcept>

#include "aggregated.hpp"
#include "by_address.hpp"
#include "drive.hpp"
#include "ef_sign.hpp"
#include "paced_transport.hpp"
#include "powersgd.hpp"
#include "rounds.hpp"
#include "synchronizers.hpp"
#include "two_phases.hpp"

namespace train {
namespace {

/// The mean over the ranks with a codec that is selected by name. Uses error feedback if the codec
/// wants it.
class mean_by_name : public synchronizer {
 public:
  mean_by_name(trial const& what, std::size_t values, std::uint64_t seed,
               hcomp::plan_options const& how, paced_transport& transport,
               hcomp::host_executor& executor)
      : mean_by_name(codec_of(what, transport.size()), values, seed, how, transport, executor) {}

  hcomp::report operator()(std::span<float> update, std::uint64_t step, float) override {
    hcomp::call_options const call{.seed = seed_, .step = step, .op = hcomp::reduce_op::mean};
    return feedback_ ? plan_.all_reduce(update, *feedback_, call) : plan_.all_reduce(update, call);
  }

 private:
  mean_by_name(hcomp::named_codec<float> const& codec, std::size_t values, std::uint64_t seed,
               hcomp::plan_options const& how, paced_transport& transport,
               hcomp::host_executor& executor)
      : seed_(seed),
        plan_(hcomp::make_plan<float>(codec.text(), values, transport, executor, how)) {
    if (codec.entry->wants_feedback) feedback_.emplace(values);
  }
  /// Converts a bound: that of a trial is for the mean, that of a codec for the sum.
  static hcomp::named_codec<float> codec_of(trial const& what, int ranks) {
    auto codec = hcomp::codec_from(hcomp::registered_codecs<float>(), what.how->codec);
    codec.settings = *what.settings;
    for (auto const& key : codec.entry->keys)
      if (key.name == "bound" || key.name == "rel")
        if (auto const of_mean = codec.settings.get(key.name))
          codec.settings.set(key.name, key.text(*of_mean * ranks));
    return codec;
  }

  std::uint64_t seed_;
  hcomp::any_plan<float> plan_;
  std::optional<hcomp::error_feedback<float>> feedback_;
};

}  // namespace

std::string algorithm_of(trial const& what, options const& o) {
  auto const& how = *what.how;
  if (what.by_aggregators) return o.aggregators.empty() ? "aggregators" : "aggregator";
  if (how.name == "ef_sign" || how.name == "dist_ef_sign" || how.name == "drive") return "direct";
  bool const is_marsit = how.name == "marsit" || how.name == "marsit_inf";
  bool const is_packed = how.name == "sparse" || how.name == "sparse_fixed" || how.name == "top_k";
  if (!o.algorithm) return is_packed ? "direct" : "ring";
  if (o.algorithm->kind == hcomp::algorithm_kind::sampled && !is_marsit) return "ring";
  return o.algorithm->name();
}

std::unique_ptr<synchronizer> make_synchronizer(trial const& what, double sign_step,
                                                std::size_t values, options const& o,
                                                std::uint64_t seed, paced_transport& transport,
                                                hcomp::host_executor& executor,
                                                std::vector<matrix_shape> const& matrices) {
  using std::make_unique;
  auto const& how = *what.how;
  if (what.by_aggregators) {
    auto const by_aggregators = [&]<class C>(C const& codec) -> std::unique_ptr<synchronizer> {
      if (!o.aggregators.empty())
        return make_unique<mean_by_address<C>>(values, codec, *what.by_aggregators, o, seed,
                                               transport, executor);
      return make_unique<mean_by_aggregators<C>>(values, codec, *what.by_aggregators, seed,
                                                 transport, executor);
    };
    auto const settings = hcomp::detail::thc_options_of(*what.settings);
    return how.name == "thc" ? by_aggregators(hcomp::thc<float>(settings))
                             : by_aggregators(hcomp::uniform_thc<float>(settings));
  }
  hcomp::plan_options const plan{.algorithm = hcomp::algorithm::from(algorithm_of(what, o))};
  if (what.settings)
    return make_unique<mean_by_name>(what, values, seed, plan, transport, executor);
  if (how.name == "ef_sign") return make_unique<ef_sign>(values, seed, transport);
  if (how.name == "dist_ef_sign") return make_unique<dist_ef_sign>(values, seed, transport);
  if (how.name == "drive") return make_unique<drive>(values, seed, transport);
  if (how.name == "powersgd")
    return make_unique<powersgd>(matrices, o.powersgd_rank, seed, plan, transport, executor);
  if (how.name == "local_sgd") return make_unique<local_sgd>(values, plan, transport, executor);
  if (how.name == "marsit_full")
    return make_unique<marsit_full>(values, o, plan, transport, executor);
  if (auto made = make_by_signs(what, sign_step, values, o, seed, transport, executor)) return made;
  throw std::invalid_argument(fmt::format("method '{}' has no synchronizer", how.name));
}

}  // namespace train
