#include "synchronizer.hpp"

#include <fmt/core.h>

#include <hcomp/hcomp.hpp>
#include <stdexcept>

#include "aggregated.hpp"
#include "ef_sign.hpp"
#include "paced_transport.hpp"

namespace train {
namespace {

/// The mean over the ranks, by a codec whose sums are good enough as they are.
template <class Codec> class mean : public synchronizer {
 public:
  mean(std::size_t values, std::uint64_t seed, hcomp::plan_options const& how,
       paced_transport& transport, hcomp::host_executor& executor)
      : seed_(seed), plan_(values, {}, transport, executor, how) {}

  hcomp::report operator()(std::span<float> update, std::uint64_t step, float) override {
    return plan_.all_reduce(update,
                            {.seed = seed_, .step = step, .result = hcomp::reduction::mean});
  }

 private:
  std::uint64_t seed_;
  hcomp::plan<Codec, paced_transport, hcomp::host_executor> plan_;
};

/// The mean over the ranks of what is sent, and what is lost by sending is sent later.
template <class Codec> class mean_with_feedback : public synchronizer {
 public:
  mean_with_feedback(std::size_t values, std::uint64_t seed, hcomp::plan_options const& how,
                     paced_transport& transport, hcomp::host_executor& executor)
      : seed_(seed),
        feedback_(values),
        plan_(values, hcomp::fit(Codec{}, static_cast<std::uint32_t>(transport.size())), transport,
              executor, how) {}

  hcomp::report operator()(std::span<float> update, std::uint64_t step, float) override {
    return plan_.all_reduce(update, feedback_,
                            {.seed = seed_, .step = step, .result = hcomp::reduction::mean});
  }

 private:
  std::uint64_t seed_;
  hcomp::error_feedback<float> feedback_;
  hcomp::plan<Codec, paced_transport, hcomp::host_executor> plan_;
};

/// The mean over the ranks, of which only what is not 0 on some rank is sent.
/// @tparam Lane  float, or an integer for fixed point
template <class Lane> class sparse_mean : public synchronizer {
 public:
  sparse_mean(std::size_t values, std::uint64_t seed, hcomp::sparse_plan_options const& how,
              paced_transport& transport, hcomp::host_executor& executor)
      : seed_(seed), plan_(values, transport, executor, how) {}

  hcomp::report operator()(std::span<float> update, std::uint64_t step, float) override {
    return plan_.all_reduce(update,
                            {.seed = seed_, .step = step, .result = hcomp::reduction::mean});
  }

 private:
  std::uint64_t seed_;
  hcomp::sparse_plan<Lane, paced_transport, hcomp::host_executor> plan_;
};

/// The mean over the ranks of each one's largest values; others are sent when they have added up.
class top_k_mean : public synchronizer {
 public:
  top_k_mean(std::size_t values, double share, std::uint64_t seed,
             hcomp::sparse_plan_options const& how, paced_transport& transport,
             hcomp::host_executor& executor)
      : keep_largest_(values, hcomp::top_share{share}),
        mean_(values, seed, how, transport, executor) {}

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

/// The mean over the ranks, off by no more than the codec states, in as many bits as it takes.
template <class Codec> class bounded_mean : public synchronizer {
 public:
  bounded_mean(std::size_t values, Codec const& codec, std::uint64_t seed,
               hcomp::plan_options const& how, paced_transport& transport)
      : seed_(seed),
        plan_(values, codec, transport, {.fitted = hcomp::FittedVariableRate<Codec>, .plan = how}) {
  }

  hcomp::report operator()(std::span<float> update, std::uint64_t step, float) override {
    return plan_.all_reduce(update,
                            {.seed = seed_, .step = step, .result = hcomp::reduction::mean});
  }

 private:
  std::uint64_t seed_;
  hcomp::variable_rate_plan<Codec, paced_transport> plan_;
};

/// A fixed step in the direction that most ranks want; none where they are divided.
/// Source: Bernstein et al., signSGD with majority vote, ICLR 2019.
class majority_vote : public synchronizer {
 public:
  majority_vote(std::size_t values, double sign_step, std::uint64_t seed,
                hcomp::plan_options const& how, paced_transport& transport,
                hcomp::host_executor& executor)
      : sign_step_(static_cast<float>(sign_step)),
        seed_(seed),
        votes_(values,
               hcomp::fit(hcomp::sign_count<float>{}, static_cast<std::uint32_t>(transport.size())),
               transport, executor, how) {}

  hcomp::report operator()(std::span<float> update, std::uint64_t step, float schedule) override {
    auto const figures = votes_.all_reduce(update, {.seed = seed_, .step = step});
    float const size = sign_step_ * schedule;
    for (float& votes : update) votes = votes > 0 ? size : votes < 0 ? -size : 0;
    return figures;
  }

 private:
  float sign_step_;
  std::uint64_t seed_;
  hcomp::plan<hcomp::sign_count<float>, paced_transport, hcomp::host_executor> votes_;
};

class marsit : public synchronizer {
 public:
  marsit(std::size_t values, hcomp::marsit_options const& how, paced_transport& transport,
         hcomp::host_executor& executor)
      : sign_step_(how.sign_step), synchronize_(values, how, transport, executor) {}

  hcomp::report operator()(std::span<float> update, std::uint64_t, float schedule) override {
    synchronize_.set_sign_step(sign_step_ * static_cast<double>(schedule));
    return synchronize_(update);
  }

 private:
  double sign_step_;
  hcomp::marsit<float, paced_transport, hcomp::host_executor> synchronize_;
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
  hcomp::plan_options const plan{.how = hcomp::algorithm::from(algorithm_of(what, o))};
  if (how.name == "fp32")
    return make_unique<mean<hcomp::identity<float>>>(values, seed, plan, transport, executor);
  if (how.name == "fp16")
    return make_unique<mean<hcomp::float_cast<hcomp::float16, float>>>(values, seed, plan,
                                                                       transport, executor);
  if (how.name == "bf16")
    return make_unique<mean<hcomp::float_cast<hcomp::bfloat16, float>>>(values, seed, plan,
                                                                        transport, executor);
  if (how.name == "thc")
    return make_unique<mean_with_feedback<hcomp::thc<float>>>(values, seed, plan, transport,
                                                              executor);
  if (how.name == "uniform_thc")
    return make_unique<mean_with_feedback<hcomp::uniform_thc<float>>>(values, seed, plan, transport,
                                                                      executor);
  if (how.name == "majority_vote" || how.name == "signum")
    return make_unique<majority_vote>(values, sign_step, seed, plan, transport, executor);
  hcomp::sparse_plan_options const sparse{.plan = plan};
  if (how.name == "sparse")
    return make_unique<sparse_mean<float>>(values, seed, sparse, transport, executor);
  if (how.name == "sparse_fixed")
    return make_unique<sparse_mean<std::uint32_t>>(values, seed, sparse, transport, executor);
  if (how.name == "fixed") {
    hcomp::sparse_plan_options const dense{.ways = {.packed = false, .sketched = false},
                                           .plan = plan};
    return make_unique<sparse_mean<std::uint32_t>>(values, seed, dense, transport, executor);
  }
  if (how.name == "top_k")
    return make_unique<top_k_mean>(values, what.share, seed, sparse, transport, executor);
  if (how.name == "inceptionn")
    return make_unique<bounded_mean<hcomp::inceptionn>>(
        values,
        hcomp::inceptionn({.bound_exponent = what.bound_exponent,
                           .rounding = hcomp::inceptionn_rounding::nearest}),
        seed, plan, transport);
  if (how.name == "error_bounded")
    return make_unique<bounded_mean<hcomp::error_bounded_stream>>(
        values, hcomp::error_bounded_stream({.bound = what.bound * transport.size()}), seed, plan,
        transport);
  if (how.name == "ef_sign") return make_unique<ef_sign>(values, seed, transport);
  if (how.name == "marsit" || how.name == "marsit_inf") {
    hcomp::marsit_options const settings{.sign_step = sign_step,
                                         .period = how.name == "marsit" ? o.period : 0,
                                         .warm_up = o.warm_up,
                                         .flush_limit = o.flush_limit,
                                         .seed = seed,
                                         .plan = plan};
    return make_unique<marsit>(values, settings, transport, executor);
  }
  throw std::invalid_argument(fmt::format("method '{}' has no synchronizer", how.name));
}

}  // namespace train
