/// @file
/// Definitions of device.hpp for builds without CUDA or cuBLAS.

#include <stdexcept>

#include "device.hpp"

namespace train {

std::string take_device(int) {
  throw std::runtime_error("--device cuda: this program was built without " HCOMP_TRAIN_MISSING);
}
bool is_of_device(std::exception const&) { return false; }
std::unique_ptr<workplace> make_device_workplace(options const&, paced_transport&) {
  take_device(0);
  return nullptr;
}

}  // namespace train
