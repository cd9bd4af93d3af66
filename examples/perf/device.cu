#include "device.hpp"

#include <algorithm>
#include <cstdint>
#include <hcomp/collective/agreement/agreement.hpp>
#include <hcomp/collective/by_name/detail/builtin_entries.hpp>
#include <hcomp/collective/by_name/make_plan.hpp>
#include <hcomp/collective/cost/cost_model.hpp>
#include <hcomp/collective/engine/host_staged.hpp>
#include <hcomp/collective/plan/plan.hpp>
#include <hcomp/gpu/stream_executor.hpp>
#include <span>
#include <type_traits>
#include <utility>

#include "../support/take_device.hpp"
#include "codec_promise.hpp"
#include "device_codecs.hpp"
#include "sparse_reduction.hpp"
#include "variable_rate_reduction.hpp"

namespace perf {

using hcomp::any_transport;
using hcomp::gpu::stream_executor;

namespace {

/// A contender with a vector in device memory; works on the default stream.
class device_contender : public contender<float> {
 public:
  explicit device_contender(std::size_t values) : on_device_(values * sizeof(float)) {}

  void bring(std::span<float const> x) override {
    executor_.wait(executor_.write(on_device_.data(), x.data(), on_device_.size()));
  }
  void fetch(std::span<float> x) override {
    executor_.wait(executor_.read(x.data(), on_device_.data(), on_device_.size()));
  }

 protected:
  std::span<float> vector() const {
    return {reinterpret_cast<float*>(on_device_.data()), on_device_.size() / sizeof(float)};
  }

  stream_executor executor_;
  hcomp::gpu::device_buffer on_device_;
};

using host_staged = hcomp::host_staged<any_transport, stream_executor>;

/// `codec` fitted for `ranks` ranks.
/// @param typical  mean |x| of the values
template <class C> C fitted(C codec, double typical, int ranks) {
  if constexpr (requires { codec.magnitude; })
    codec.magnitude = static_cast<decltype(codec.magnitude)>(typical);
  return hcomp::fit(codec, static_cast<std::uint32_t>(ranks));
}

template <class C> class device_plan final : public device_contender {
 public:
  device_plan(strategy as, std::size_t values, C const& codec, any_transport& transport,
              hcomp::plan_options const& options)
      : device_contender(values),
        over_(transport, executor_),
        sum_(values, codec, over_, executor_, options) {
    name = std::move(as);
    memory = over_.copies_messages() ? "host_staged" : "device";
    std::uint64_t most =
        hcomp::bytes_sent_per_rank(codec, values, transport.rank(), transport.size(), options);
    hcomp::unite_records(transport, hcomp::tag_t{0}, most,
                         [](auto& a, auto const& b) { a = std::max(a, b); });
    bytes_to_send = static_cast<double>(most);
  }
  hcomp::report run(std::span<float>, hcomp::call_options const& call) override {
    auto const stats = sum_.all_reduce(vector(), call);
    executor_.synchronize();
    return stats;
  }

 private:
  host_staged over_;
  hcomp::plan<C, host_staged, stream_executor> sum_;
};

/// @tparam Sum  a variable_rate_reduction or a sparse_reduction
template <class Sum> class device_reduction final : public device_contender {
 public:
  template <class... Settings>
  device_reduction(strategy as, std::size_t values, any_transport& transport,
                   Settings const&... settings)
      : device_contender(values),
        over_(transport, executor_),
        sum_(values, settings..., over_, executor_) {
    name = std::move(as);
  }
  hcomp::report run(std::span<float>, hcomp::call_options const& call) override {
    auto const stats = sum_.run(vector(), call, *this);
    executor_.synchronize();
    memory = stats.messages == hcomp::message_memory::device ? "device" : "host_staged";
    return stats;
  }

 private:
  host_staged over_;
  Sum sum_;
};

/// Runs a contender that takes host memory on vectors in device memory.
class host_contender final : public device_contender {
 public:
  host_contender(std::unique_ptr<contender<float>> inner, std::size_t values, int ranks,
                 bool reaches)
      : device_contender(values),
        inner_(std::move(inner)),
        copy_(reaches ? 0 : on_device_.size()),
        ranks_(ranks) {
    name = inner_->name;
    accuracy = inner_->accuracy;
    bytes_to_send = inner_->bytes_to_send;
    memory = reaches ? "device" : "host_staged";
  }
  hcomp::report run(std::span<float>, hcomp::call_options const& call) override {
    auto sum = call;
    sum.op = hcomp::reduce_op::sum;
    divisor_ = call.op == hcomp::reduce_op::mean ? static_cast<float>(ranks_) : 1.0f;
    if (copy_.size() == 0) return inner_->run(vector(), sum);
    executor_.wait(executor_.read(copy_.data(), on_device_.data(), copy_.size()));
    auto const stats =
        inner_->run({reinterpret_cast<float*>(copy_.data()), copy_.size() / sizeof(float)}, sum);
    executor_.wait(executor_.write(on_device_.data(), copy_.data(), copy_.size()));
    return stats;
  }
  void fetch(std::span<float> x) override {
    device_contender::fetch(x);
    for (float& value : x) value /= divisor_;
  }

 private:
  std::unique_ptr<contender<float>> inner_;
  hcomp::gpu::pinned_buffer copy_;
  int ranks_;
  float divisor_ = 1;
};

}  // namespace

std::string take_device(int rank_on_host) { return example::take_device(rank_on_host); }

void add_device_plans(contender_list<float>& list, job const& it, std::string const& name,
                      std::string const& transport_name) {
  auto& transport = it.by.at(transport_name);
  auto const codec = hcomp::codec_from(codecs<float>(), name);
  auto const& settings = codec.settings;
  auto const accuracy = promise_of<float>(*codec.entry, settings, transport.size(), it.o.mean);
  // make(strategy, options) returns a contender
  auto const add = [&](auto const& make) {
    for (auto const& how : it.o.algorithms) {
      if (std::ranges::find(codec.entry->algorithms, how.kind) == codec.entry->algorithms.end())
        continue;
      hcomp::plan_options options;
      options.algorithm = how;
      list.push_back(make(strategy{name, how.name(), transport_name}, options));
      list.back()->accuracy = accuracy;
    }
  };
  auto const add_sparse = [&]<class Lane>(Lane, sparse_codec const& sparse) {
    using sum = sparse_reduction<Lane, host_staged, stream_executor>;
    add([&](strategy as, hcomp::plan_options const& options) {
      return std::make_unique<device_reduction<sum>>(std::move(as), it.values, transport, sparse,
                                                     options.algorithm);
    });
  };
  auto const add_variable_rate = [&]<class C>(C const& one) {
    using sum = variable_rate_reduction<C, host_staged, stream_executor>;
    add([&](strategy as, hcomp::plan_options const& options) {
      return std::make_unique<device_reduction<sum>>(std::move(as), it.values, transport, one,
                                                     options);
    });
  };
  if (auto const sparse = sparse_codec::from(*codec.entry, settings)) {
    sparse->fixed == 32 ? add_sparse(std::uint32_t{}, *sparse) : add_sparse(float{}, *sparse);
  } else if (codec.entry->is_called("inceptionn")) {
    add_variable_rate(hcomp::detail::inceptionn_of(settings));
  } else if (codec.entry->is_called("error_bounded")) {
    add_variable_rate(hcomp::detail::error_bounded_of<float>(settings));
  } else {
    device_codecs::for_each([&]<class C>() {
      if (!codec.entry->is_called(C::name)) return;
      auto const chosen = fitted(C{}, it.typical, transport.size());
      add([&](strategy as, hcomp::plan_options const& options) {
        return std::make_unique<device_plan<C>>(std::move(as), it.values, chosen, transport,
                                                options);
      });
    });
  }
}

std::unique_ptr<contender<float>> on_device(std::unique_ptr<contender<float>> inner,
                                            std::size_t values, int ranks, bool reaches) {
  return std::make_unique<host_contender>(std::move(inner), values, ranks, reaches);
}

}  // namespace perf
