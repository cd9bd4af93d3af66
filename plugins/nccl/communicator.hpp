#pragma once
/// @file
/// What libhcomp_nccl.so keeps of a communicator.

#include <cuda_runtime_api.h>

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <hcomp/nccl/library.hpp>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bucket.hpp"
#include "live_communicator.hpp"
#include "reduction_call.hpp"

namespace hcomp::drop_in {

/// Lets this thread allocate memory and wait while some thread captures a CUDA graph.
class relaxed_capture {
 public:
  relaxed_capture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  ~relaxed_capture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  relaxed_capture(relaxed_capture const&) = delete;
  relaxed_capture& operator=(relaxed_capture const&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

/// The number of the CUDA graph that the stream's work is captured for; 0: none.
std::uint64_t capture_of(cudaStream_t stream);

/// What a rank tells the others of a communicator.
struct introduction {
  enum : std::uint32_t { able = 0, has_invalid_settings = 1, has_no_cuda_library = 2 };

  std::uint64_t settings = 0;  ///< hash of version and rules
  std::uint64_t node = 0;      ///< as NCCL tells nodes apart
  std::uint64_t process = 0;
  std::uint32_t state = able;
  std::uint32_t wants_nodes = 0;  ///< a rule is hierarchical, and NCCL has ncclCommSplit
};

class nccl_communicator {
 public:
  /// @throws std::runtime_error  NCCL refuses the communicator
  explicit nccl_communicator(nccl::communicator comm);
  nccl_communicator(nccl_communicator const&) = delete;
  nccl_communicator& operator=(nccl_communicator const&) = delete;

  live_communicator& live() { return live_; }
  int size() const { return size_; }
  int rank() const { return rank_; }
  int device() const { return device_; }

  /// Exchanges introductions. Collective: in the first call of ncclAllReduce or ncclReduceScatter.
  /// Several communicators of a thread do it together, because each rank of one may be here.
  /// Waits on the host. Connects all ranks, so that later calls need not wait for each other.
  /// @param is_late  called while it waits, with the seconds so far, on whom; true: gives up
  /// @throws std::runtime_error  NCCL fails, or `is_late`; the communicators fail from then on
  static void introduce(std::span<nccl_communicator* const> all, introduction const& own,
                        std::function<bool(double, nccl_communicator const&)> const& is_late);
  bool has_introductions() const { return is_introduced_; }
  /// Why no call can be taken over, on all ranks alike: an error of the job. Empty: none.
  std::string const& error() const { return error_; }
  /// Why NCCL reduces all vectors; null: it does not.
  char const* why_left() const { return why_left_; }

  /// Whether the work of all buckets is done, so that ending this waits for nothing.
  bool is_idle() const;
  /// Whether hierarchical calls have a stage inside nodes: nodes of equally many ranks.
  bool has_nodes() const { return nodes_.nodes > 1; }
  /// Ends the communicators of its nodes, while or before NCCL ends its own; then `await_end`.
  void end(bool is_abort);
  void await_end();
  /// Asynchronous error of the communicators of its nodes.
  int state_of_nodes();
  /// Enqueues calls of one kind, type and rule.
  /// @param feedback_bytes  limit of memory for residuals; 0: no error feedback
  /// @return  result of NCCL
  /// @throws wire_error      parts of an earlier call were damaged; this call is enqueued
  /// @throws std::exception  memory or the codec
  int reduce(std::span<reduction_call const> calls, bucket_kind kind, std::size_t feedback_bytes,
             std::uint64_t& bytes_sent, char const*& failed);

  std::mutex& mutex() { return mutex_; }

 private:
  struct buffer {
    void const* send;
    void const* receive;
    std::size_t values;

    friend auto operator<=>(buffer const&, buffer const&) = default;
  };
  struct kept_residual {
    std::unique_ptr<buffer_residual> memory;
    std::uint64_t used = 0;
    bool is_captured = false;
  };
  struct kept_bucket {
    std::unique_ptr<nccl_bucket> bucket;
    std::uint64_t used = 0;
  };

  void judge(std::span<introduction const> all);
  void find_nodes(std::span<introduction const> all);
  /// Makes the communicators of nodes. Collective.
  static void make_nodes(std::span<nccl_communicator* const> all);
  /// Splits each of them; the communicators by their place in `with`.
  template <class F>
  static std::vector<std::pair<std::size_t, std::unique_ptr<live_communicator>>> split(
      std::span<nccl_communicator* const> with, F const& color_and_key);
  static void connect_nodes(std::span<nccl_communicator* const> with);
  void drop_oldest_bucket(std::size_t most);
  nccl_bucket& bucket_of(bucket_kind const& kind);
  buffer_residual* residual_of(reduction_call const& call, std::size_t values, bool is_captured,
                               std::size_t limit);
  static constexpr std::size_t most_buckets = 64;

  live_communicator live_;
  int rank_ = 0, size_ = 0, device_ = 0;
  bool is_introduced_ = false;
  std::string error_;
  char const* why_left_ = nullptr;
  node_communicators nodes_{};
  std::mutex nodes_mutex_;  ///< protects the next line from threads that end the communicator
  std::unique_ptr<live_communicator> inside_, between_;
  std::vector<std::thread> aborts_;
  std::mutex mutex_;
  std::uint64_t calls_ = 0;
  std::map<buffer, kept_residual> residuals_;
  std::size_t residual_bytes_ = 0;
  std::shared_ptr<owned_stream> stream_;  ///< of all buckets but those of CUDA graphs
  std::map<bucket_kind, kept_bucket> buckets_;
};

}  // namespace hcomp::drop_in
