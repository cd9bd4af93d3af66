#include "stream_contenders.hpp"

#include <hcomp/exec/host_executor.hpp>
#include <utility>

#include "stream_sum.hpp"

namespace perf {
namespace {

template <class C> class stream_contender final : public contender<float> {
 public:
  stream_contender(way as, C const& codec, std::size_t values, hcomp::any_transport& transport,
                   hcomp::plan_options const& options, bool mean)
      : sum_(values, codec, options, transport, executor_) {
    this->name = std::move(as);
    this->accuracy = sum_.accuracy(mean);
  }
  hcomp::report run(std::span<float> x, hcomp::call_options const& call) override {
    return sum_.run(x, call, *this);
  }

 private:
  hcomp::host_executor executor_;
  stream_sum<C, hcomp::any_transport, hcomp::host_executor> sum_;
};

}  // namespace

void add_streams(contender_list<float>& list, job const& it, std::string const& codec,
                 std::string const& transport) {
  for_stream_ways(it, codec, [&]<class C>(C const& one, hcomp::plan_options const& options) {
    list.push_back(std::make_unique<stream_contender<C>>(way{codec, options.how.name(), transport},
                                                         one, it.values, it.by.at(transport),
                                                         options, it.o.mean));
  });
}

}  // namespace perf
