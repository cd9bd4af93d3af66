#include "workplace.hpp"

#include <hcomp/exec/host_executor.hpp>
#include <utility>

#include "classification.hpp"
#include "eigen_products.hpp"
#include "sgd.hpp"

namespace train {
namespace {

class host_workplace : public workplace {
 public:
  host_workplace(options const& o, paced_transport& transport)
      : settings_(&o), transport_(&transport), crew_(o.threads) {}

  std::unique_ptr<task> classify(data_split data, std::vector<int> const& hidden) override {
    return std::make_unique<classification<hcomp::host_executor, products>>(std::move(data), hidden,
                                                                            alone_, multiply_);
  }
  std::unique_ptr<optimiser> make_optimiser(std::size_t parameters, float momentum) override {
    return std::make_unique<sgd<hcomp::host_executor>>(parameters, momentum, alone_);
  }
  std::unique_ptr<synchronizer> make_synchronizer(trial const& what, double sign_step,
                                                  model& trained, std::uint64_t seed) override {
    return train::make_synchronizer(what, sign_step, trained.parameters().size(), *settings_, seed,
                                    *transport_, crew_, trained.matrices());
  }
  void finish() override {}
  std::span<float const> on_host(std::span<float const> values) override { return values; }

 private:
  using products = eigen_products<hcomp::host_executor>;

  options const* settings_;
  paced_transport* transport_;
  hcomp::host_executor alone_;  ///< for the model
  hcomp::host_executor crew_;   ///< for encoding and decoding
  products multiply_{alone_};
};

}  // namespace

std::unique_ptr<workplace> make_host_workplace(options const& o, paced_transport& transport) {
  return std::make_unique<host_workplace>(o, transport);
}

}  // namespace train
