// optimise: -O1
/// @file
/// The laws of tests/support/laws/variable_rate_coder.hpp about devices and workers.

#include <cstddef>
#include <hcomp/core/config.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <support/laws/variable_rate_coder.hpp>
#include <support/worker_group.hpp>

using laws::variable_rate::all_codecs;

namespace {

/// Several workers per block without shared memory, as on a device.
struct workers_executor {
  static constexpr hcomp::memory_space space = hcomp::memory_space::host;
  using buffer = hcomp::host_buffer;

  template <class F> void for_each_block(std::size_t blocks, F const& f) {
    workers::run<5>([&](auto group) {
      for (std::size_t i = 0; i < blocks; ++i) {
        f(group, i);
        group.sync();
      }
    });
  }
  void synchronize() {}
};

}  // namespace

TEST_CASE_TEMPLATE_DEFINE(
    "variable_rate_coder: bytes and values of the codec; the host touches no device memory", C,
    device_law) {
  laws::variable_rate_coder::on_device<C>();
}
TEST_CASE_TEMPLATE_APPLY(device_law, all_codecs);

TEST_CASE_TEMPLATE_DEFINE("variable_rate_coder: bytes and values of the codec by several workers",
                          C, workers_law) {
  laws::variable_rate_coder::by_workers<C>();
}
TEST_CASE_TEMPLATE_APPLY(workers_law, all_codecs);

TEST_CASE("variable_rate_coder of inceptionn: by workers without shared memory") {
  workers_executor executor;
  for (std::size_t const n : {1, 1025, 5000})
    laws::variable_rate_coder::agree(executor, hcomp::inceptionn(), 0, n);
}
