/// @file
/// Definitions of device.hpp for builds without CUDA.

#include <stdexcept>

#include "device.hpp"

namespace perf {

std::string take_device(int) {
  throw std::runtime_error("--device cuda: this program was built without CUDA");
}
void add_device_plans(contender_list<float>&, job const&, std::string const&, std::string const&) {
  take_device(0);
}
std::unique_ptr<contender<float>> on_device(std::unique_ptr<contender<float>>, std::size_t, int,
                                            bool) {
  take_device(0);
  return nullptr;
}

}  // namespace perf
