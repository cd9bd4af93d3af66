#include "synchronizer.hpp"

#include <fmt/core.h>

#include <hcomp/hcomp.hpp>
#include <stdexcept>

#include "aggregated.hpp"
#include "ef_sign.hpp"
#include "paced_transport.hpp"
#include "synchronizers.hpp"

namespace train {
namespace {

/// The mean over the ranks, of which only what is not 0 on some rank is sent.
/// @tparam Lane  float, or an integer for fixed point
template <class Lane>
using sparse_mean = mean<hcomp::lossless<Lane>, paced_transport, hcomp::host_executor>;

/// The mean over the ranks of each one's largest values; others are sent when they have added up.
class top_k_mean : public synchronizer {
 public:
  top_k_mean(std::size_t values, double share, std::uint64_t seed, hcomp::plan_options const& how,
             paced_transport& transport, hcomp::host_executor& executor)
      : keep_largest_(values, hcomp::top_share{share}),
        mean_(values, {}, seed, how, transport, executor) {}

  hcomp::report operator()(std::span<float> update, std::uint64_t step, float schedule) override {
    keep_largest_(update);
    auto const figures = mean_(update, step, schedule);
    keep_largest_.commit();
    return figures;
  }

 private:
  hcomp::sparsifier keep_largest_;
  sparse_mean<float> mean_;
};

}  // namespace

std::string algorithm_of(trial const& what, options const& o) {
  auto const& how = *what.how;
  if (what.by_aggregators) return "aggregators";
  if (how.name == "ef_sign") return "direct";
  bool const is_marsit = how.name == "marsit" || how.name == "marsit_inf";
  bool const is_packed = how.name == "sparse" || how.name == "sparse_fixed" || how.name == "top_k";
  if (!o.algorithm) return is_packed ? "direct" : "ring";
  if (o.algorithm->kind == hcomp::algorithm_kind::owner && !is_marsit) return "ring";
  return o.algorithm->name();
}

std::unique_ptr<synchronizer> make_synchronizer(trial const& what, double sign_step,
                                                std::size_t values, options const& o,
                                                std::uint64_t seed, paced_transport& transport,
                                                hcomp::host_executor& executor) {
  using std::make_unique;
  auto const& how = *what.how;
  if (what.by_aggregators && how.name == "thc")
    return make_unique<mean_by_aggregators<hcomp::thc<float>>>(values, *what.by_aggregators, seed,
                                                               transport, executor);
  if (what.by_aggregators && how.name == "uniform_thc")
    return make_unique<mean_by_aggregators<hcomp::uniform_thc<float>>>(values, *what.by_aggregators,
                                                                       seed, transport, executor);
  if (auto made = make_for_any_memory(what, sign_step, values, o, seed, transport, executor))
    return made;
  hcomp::plan_options const plan{.how = hcomp::algorithm::from(algorithm_of(what, o))};
  if (how.name == "bf16")
    return make_unique<
        mean<hcomp::float_cast<hcomp::bfloat16, float>, paced_transport, hcomp::host_executor>>(
        values, hcomp::float_cast<hcomp::bfloat16, float>{}, seed, plan, transport, executor);
  if (how.name == "uniform_thc")
    return make_unique<
        mean_with_feedback<hcomp::uniform_thc<float>, paced_transport, hcomp::host_executor>>(
        values, seed, plan, transport, executor);
  using hcomp::lossless;
  using fixed = lossless<std::uint32_t>;
  if (how.name == "sparse")
    return make_unique<sparse_mean<float>>(values, lossless<>{}, seed, plan, transport, executor);
  if (how.name == "sparse_fixed")
    return make_unique<sparse_mean<std::uint32_t>>(values, fixed{}, seed, plan, transport,
                                                   executor);
  if (how.name == "fixed")
    return make_unique<sparse_mean<std::uint32_t>>(
        values, fixed{.ways = {.packed = false, .sketched = false}}, seed, plan, transport,
        executor);
  if (how.name == "top_k")
    return make_unique<top_k_mean>(values, what.share, seed, plan, transport, executor);
  if (how.name == "ef_sign") return make_unique<ef_sign>(values, seed, transport);
  throw std::invalid_argument(fmt::format("method '{}' has no synchronizer", how.name));
}

}  // namespace train
