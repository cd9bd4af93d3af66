#pragma once
/// @file
/// Synchronizers for vectors in host or device memory.

#include <cstddef>
#include <cstdint>
#include <hcomp/codec/error_bounded/error_bounded.hpp>
#include <hcomp/codec/float_cast/float_cast.hpp>
#include <hcomp/codec/float_cast/identity.hpp>
#include <hcomp/codec/inceptionn/inceptionn.hpp>
#include <hcomp/codec/sign/count.hpp>
#include <hcomp/codec/thc/thc.hpp>
#include <hcomp/collective/by_name/detail/builtin_entries.hpp>
#include <hcomp/collective/by_name/make_plan.hpp>
#include <hcomp/collective/engine/sampled.hpp>
#include <hcomp/collective/plan/marsit.hpp>
#include <hcomp/collective/plan/plan.hpp>
#include <hcomp/exec/executor.hpp>
#include <hcomp/feedback/detail/arrays_of.hpp>
#include <hcomp/feedback/error_feedback.hpp>
#include <hcomp/transport/transport.hpp>
#include <memory>
#include <span>

#include "array_in.hpp"
#include "for_each_value.hpp"
#include "options.hpp"
#include "synchronizer.hpp"
#include "trial.hpp"

namespace train {

/// The mean over the ranks, with a codec that needs no error feedback.
template <class Codec, hcomp::Transport T, hcomp::Executor E> class mean : public synchronizer {
 public:
  mean(std::size_t values, Codec const& codec, std::uint64_t seed, hcomp::plan_options const& how,
       T& transport, E& executor)
      : seed_(seed), plan_(values, codec, transport, executor, how) {}

  hcomp::report operator()(std::span<float> update, std::uint64_t step, float) override {
    return plan_.all_reduce(update, {.seed = seed_, .step = step, .op = hcomp::reduce_op::mean});
  }

 private:
  std::uint64_t seed_;
  hcomp::plan<Codec, T, E> plan_;
};

/// The mean over the ranks, with error feedback.
template <class Codec, hcomp::Transport T, hcomp::Executor E>
class mean_with_feedback : public synchronizer {
 public:
  mean_with_feedback(std::size_t values, Codec const& codec, std::uint64_t seed,
                     hcomp::plan_options const& how, T& transport, E& executor)
      : seed_(seed),
        feedback_(values),
        plan_(values, hcomp::fit(codec, static_cast<std::uint32_t>(transport.size())), transport,
              executor, how) {}

  hcomp::report operator()(std::span<float> update, std::uint64_t step, float) override {
    return plan_.all_reduce(update, feedback_,
                            {.seed = seed_, .step = step, .op = hcomp::reduce_op::mean});
  }

 private:
  std::uint64_t seed_;
  hcomp::error_feedback<float, hcomp::detail::arrays_of<E>::template array> feedback_;
  hcomp::plan<Codec, T, E> plan_;
};

/// to[i] = from[i]
struct copy_value {
  float const* from;
  float* to;

  HCOMP_HD void operator()(std::size_t i) const { to[i] = from[i]; }
};

/// The sign of the majority; on a tie, that of the owner.
struct decide {
  float* votes;  ///< sum of the ranks' signs
  float const* own;

  HCOMP_HD void operator()(std::size_t i) const {
    if (votes[i] == 0) votes[i] = own[i];
  }
};

/// A fixed step in the direction of the majority of signs.
///
/// Every rank counts the votes for its share of the values and sends the result to all ranks, as
/// one bit per value. On a tie its own vote decides, so results are not biased to one sign.
/// Source: Bernstein et al., signSGD with majority vote, ICLR 2019.
template <hcomp::Transport T, hcomp::Executor E> class majority_vote : public synchronizer {
 public:
  majority_vote(std::size_t values, double sign_step, std::uint64_t seed,
                hcomp::plan_options const& how, T& transport, E& executor)
      : executor_(&executor),
        sign_step_(static_cast<float>(sign_step)),
        seed_(seed),
        votes_(values,
               hcomp::fit(hcomp::sign_count<float>{}, static_cast<std::uint32_t>(transport.size())),
               transport, executor, how),
        own_(votes_.shard().count) {}

  hcomp::report operator()(std::span<float> update, std::uint64_t step, float schedule) override {
    auto codec = votes_.codec();
    codec.magnitude = sign_step_ * schedule;
    votes_.set_codec(codec);
    hcomp::call_options const call{.seed = seed_, .step = step};
    float* const shard = update.data() + votes_.shard().first;
    for_each_value(*executor_, own_.size(), copy_value{shard, own_.data()});
    auto stats = votes_.reduce_scatter(update, call);
    for_each_value(*executor_, own_.size(), decide{shard, own_.data()});
    stats += votes_.all_gather(update, call);
    return stats;
  }

 private:
  E* executor_;
  float sign_step_;
  std::uint64_t seed_;
  hcomp::plan<hcomp::sign_count<float>, T, E> votes_;
  array_in<E, float> own_;  ///< votes of this rank for its share
};

template <hcomp::Transport T, hcomp::Executor E> class marsit : public synchronizer {
 public:
  marsit(std::size_t values, hcomp::marsit_options const& how, T& transport, E& executor)
      : sign_step_(how.sign_step), synchronize_(values, how, transport, executor) {}

  hcomp::report operator()(std::span<float> update, std::uint64_t, float schedule) override {
    synchronize_.set_sign_step(sign_step_ * static_cast<double>(schedule));
    return synchronize_(update);
  }

 private:
  double sign_step_;
  hcomp::marsit<float, T, E> synchronize_;
};

/// As make_synchronizer, for methods of signs that are more than a codec. Null for other methods.
/// @param executor  of the vectors' memory
template <hcomp::Transport T, hcomp::Executor E>
std::unique_ptr<synchronizer> make_by_signs(trial const& what, double sign_step, std::size_t values,
                                            options const& o, std::uint64_t seed, T& transport,
                                            E& executor) {
  using std::make_unique;
  auto const name = what.how->name;
  hcomp::plan_options const plan{.algorithm = hcomp::algorithm::from(algorithm_of(what, o))};
  if (name == "majority_vote" || name == "signum")
    return make_unique<majority_vote<T, E>>(values, sign_step, seed, plan, transport, executor);
  if (name == "marsit" || name == "marsit_inf") {
    hcomp::marsit_options const settings{.sign_step = sign_step,
                                         .period = name == "marsit" ? o.period : 0,
                                         .warm_up = o.warm_up,
                                         .flush_limit = o.flush_limit,
                                         .seed = seed,
                                         .plan = plan};
    return make_unique<marsit<T, E>>(values, settings, transport, executor);
  }
  return nullptr;
}

/// As make_synchronizer, for methods_on_device. Null for other methods.
/// @param executor  of the device
template <hcomp::Transport T, hcomp::Executor E>
std::unique_ptr<synchronizer> make_on_device(trial const& what, double sign_step,
                                             std::size_t values, options const& o,
                                             std::uint64_t seed, T& transport, E& executor) {
  using std::make_unique;
  auto const name = what.how->name;
  hcomp::plan_options const plan{.algorithm = hcomp::algorithm::from(algorithm_of(what, o))};
  auto const mean_by = [&]<class Codec>(Codec const& codec) -> std::unique_ptr<synchronizer> {
    return make_unique<mean<Codec, T, E>>(values, codec, seed, plan, transport, executor);
  };
  if (name == "fp32") return mean_by(hcomp::identity<float>{});
  if (name == "fp16") return mean_by(hcomp::float_cast<hcomp::float16, float>{});
  if (name == "inceptionn") return mean_by(hcomp::detail::inceptionn_of(*what.settings));
  if (name == "error_bounded") {  // the setting is a bound of the mean
    auto of_sum = hcomp::detail::error_bounded_of<float>(*what.settings).options();
    of_sum.bound *= transport.size();
    return mean_by(hcomp::error_bounded(of_sum));
  }
  if (name == "thc")
    return make_unique<mean_with_feedback<hcomp::thc<float>, T, E>>(
        values, hcomp::thc<float>(hcomp::detail::thc_options_of(*what.settings)), seed, plan,
        transport, executor);
  return make_by_signs(what, sign_step, values, o, seed, transport, executor);
}

}  // namespace train
