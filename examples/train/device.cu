#include "device.hpp"

#include <hcomp/collective/engine/host_staged.hpp>
#include <hcomp/collective/engine/variable_rate_coder.hpp>
#include <hcomp/gpu/error.hpp>
#include <hcomp/gpu/stream_executor.hpp>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "../support/take_device.hpp"
#include "classification.hpp"
#include "cublas_products.hpp"
#include "sgd.hpp"
#include "synchronizers.hpp"

namespace train {
namespace {

using hcomp::gpu::stream_executor;

/// Does all work on the default stream.
class device_workplace : public workplace {
 public:
  device_workplace(options const& o, paced_transport& transport)
      : settings_(&o), over_(transport, executor_) {}

  std::unique_ptr<task> classify(data_split data, std::vector<int> const& hidden) override {
    return std::make_unique<classification<stream_executor, cublas_products>>(
        std::move(data), hidden, executor_, multiply_);
  }
  std::unique_ptr<optimiser> make_optimiser(std::size_t parameters, float momentum) override {
    return std::make_unique<sgd<stream_executor>>(parameters, momentum, executor_);
  }
  std::unique_ptr<synchronizer> make_synchronizer(trial const& what, double sign_step,
                                                  model& trained, std::uint64_t seed) override {
    auto made = make_on_device(what, sign_step, trained.parameters().size(), *settings_, seed,
                               over_, executor_);
    if (!made)
      throw std::invalid_argument("method '" + std::string(what.how->name) +
                                  "' has no synchronizer on devices");
    return made;
  }
  void finish() override { executor_.synchronize(); }
  std::span<float const> on_host(std::span<float const> values) override {
    copy_.resize(values.size());
    executor_.wait(executor_.read(copy_.data(), values.data(), values.size_bytes()));
    return copy_;
  }

 private:
  options const* settings_;
  stream_executor executor_;
  cublas_products multiply_;
  hcomp::host_staged<paced_transport, stream_executor> over_;
  std::vector<float> copy_;
};

}  // namespace

std::string take_device(int rank_on_host) { return example::take_device(rank_on_host); }

bool is_of_device(std::exception const& error) {
  return dynamic_cast<hcomp::gpu::cuda_error const*>(&error) ||
         dynamic_cast<cublas_error const*>(&error);
}

std::unique_ptr<workplace> make_device_workplace(options const& o, paced_transport& transport) {
  return std::make_unique<device_workplace>(o, transport);
}

}  // namespace train
