#pragma once
/// @file
/// A reduction of device buffers, on the device or staged through host memory.

#include <mpi.h>
#include <cstddef>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <c/cuda_memory.hpp>
#include <c/device_plan.hpp>
#include <c/plan_cache.hpp>
#include <c/spare_memory.hpp>
#include "communicator.hpp"
#include "compressed_call.hpp"

namespace hcomp::drop_in {

/// A reduction with the program's buffers, or with host copies of its device buffers. As for MPI,
/// device buffers must be ready when the program calls. Each rank decides alone whether to copy. An
/// all-reduce stays on the device if libhcomp_cuda.so takes it; see plan_cache::stays_on_device.
/// Copies use pageable memory. Memory without an owning context, for example of a pool, is copied
/// in the context of the program's thread.
class staged_call {
 public:
  /// Copies device buffers to host memory. If a copy fails, prints the error. After an error, or
  /// with device=no in the rule, this rank cannot access the buffers and all ranks leave the call
  /// to MPI.
  /// @param may_stay  the caller takes receive buffers in device memory
  staged_call(communicator& state, compressed_call const& of_program, bool may_stay)
      : of_program_(of_program) {
    auto const& call = of_program.call;
    bool const from_device = call.send != MPI_IN_PLACE && is_in_device(call.send),
               to_device = call.receives && is_in_device(call.receive);
    if (!from_device && !to_device) return;
    copied_ = of_program;
    copied_->is_out_of_reach = !of_program.as.takes_device;
    if (copied_->is_out_of_reach) return;
    try {
      context_.emplace(of_program.context);
      copied_->is_on_device = may_stay && stays(from_device, to_device);
      if (copied_->is_on_device) return;
      auto& own = copied_->call;
      if (from_device) own.send = copy_of(state, call.send);
      if (!to_device) return;
      own.receive = call.send == MPI_IN_PLACE ? copy_of(state, call.receive)
                                              : staging_memory(state, of_program.result_bytes());
    } catch (std::exception const& error) {
      copied_->is_out_of_reach = true;
      print_once(std::string(call.function) +
                 " is left to MPI: a buffer in a device's memory: " + error.what());
    }
  }
  staged_call(staged_call const&) = delete;
  staged_call& operator=(staged_call const&) = delete;

  compressed_call const& reduction() const { return copied_ ? *copied_ : of_program_; }
  /// Copies the result to the program's buffer.
  /// @throws copy_error  the copy to the device fails
  void put_back() const {
    auto const& call = of_program_.call;
    if (!call.receives || reduction().call.receive == call.receive) return;
    try {
      copy_to_device(call.receive, reduction().call.receive, of_program_.result_bytes());
    } catch (std::runtime_error const& error) {
      throw copy_error(error.what());
    }
  }

 private:
  bool stays(bool from_device, bool to_device) const {
    auto const& it = of_program_;
    bool const is_compared = it.as.check_every > 0 || it.shadow_calls > 0 || it.as.if_faster;
    if (is_compared || !to_device || (it.call.send != MPI_IN_PLACE && !from_device)) return false;
    return plan_cache::stays_on_device(usable_cuda_library, it.d.type, it.values(), it.as.spec);
  }
  /// Null, after one line about the reason, if this process cannot use libhcomp_cuda.so.
  static cuda_library const* usable_cuda_library() {
    static cuda_library const* const usable = []() -> cuda_library const* {
      try {
        loaded_cuda_library().require_device();
        return &loaded_cuda_library();
      } catch (std::runtime_error const& error) {
        print_once(std::string("vectors in a device's memory are copied to the host: ") +
                   error.what());
        return nullptr;
      }
    }();
    return usable;
  }

  std::byte* staging_memory(communicator& state, std::size_t bytes) {
    memory_.push_back(state.spare().take(bytes));
    return memory_.back().get().data();
  }
  std::byte* copy_of(communicator& state, void const* device) {
    auto* const to = staging_memory(state, of_program_.bytes());
    copy_from_device(to, device, of_program_.bytes());
    return to;
  }

  compressed_call const& of_program_;
  std::optional<compressed_call> copied_;
  std::optional<used_context> context_;  ///< of the program's thread, to the end
  std::vector<spare_memory::lent> memory_;
};

}  // namespace hcomp::drop_in
