#pragma once
/// @file
/// An MPI_Op for any codec whose blocks can be merged: compression inside plain MPI_Allreduce.

#include <mpi.h>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <hcomp/codec/compressor.hpp>
#include <hcomp/collective/plan/encoded_vector.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/core/detail/float_environment.hpp>
#include <hcomp/core/group.hpp>
#include <hcomp/exec/executor.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/mpi/call.hpp>
#include <hcomp/op/block_work.hpp>
#include <hcomp/op/encode.hpp>
#include <limits>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace hcomp::mpi {

namespace detail {

/// Elementwise maximum of the words over all ranks. Collective.
/// @throws std::invalid_argument  more words than an int can count
inline void unite_statistics(std::vector<std::uint32_t>& words, std::size_t values, MPI_Comm comm) {
  if (words.size() > static_cast<std::size_t>(std::numeric_limits<int>::max()))
    throw std::invalid_argument("mpi::measure: " + std::to_string(values) + " values have " +
                                std::to_string(words.size()) +
                                " words of statistics, more than MPI's int count can hold");
  require(MPI_Allreduce(MPI_IN_PLACE, words.data(), static_cast<int>(words.size()), MPI_UINT32_T,
                        MPI_MAX, comm),
          "MPI_Allreduce of the statistics");
}

}  // namespace detail

/// The calibration words of all ranks' values, for encode_options::statistics. Empty if the codec
/// is not Calibrated. Collective.
template <Compressor C>
std::vector<std::uint32_t> measure(C const& codec, std::span<typename C::value_type const> x,
                                   MPI_Comm comm) {
  auto words = hcomp::measure(codec, x);
  if constexpr (Calibrated<C>) detail::unite_statistics(words, x.size(), comm);
  return words;
}

/// The same for values in the memory space of the vector's executor.
template <Compressor C, Executor E>
std::vector<std::uint32_t> measure(encoded_vector<C, E>& vector,
                                   std::span<typename C::value_type const> x, MPI_Comm comm) {
  auto words = vector.measure(x);
  if constexpr (Calibrated<C>) detail::unite_statistics(words, x.size(), comm);
  return words;
}

namespace detail {

/// The state of a datatype: the codec, and how to merge blocks in the memory where MPI has them.
/// Copied with the datatype.
template <HomomorphicSum C, Executor E> struct block_merger {
  C codec;

  void operator()(std::byte* acc, std::byte const* in, std::size_t blocks) const {
    merge_blocks<C> const work{codec, acc, in};
    for (std::size_t i = 0; i < blocks; ++i) work(simd_group{}, i);
  }
};

/// Merges in device memory if at least one operand is there, otherwise in host memory.
template <HomomorphicSum C, DeviceExecutor E> class block_merger<C, E> {
 public:
  block_merger(C const& of_blocks, E& executor)
      : codec(of_blocks), device_(std::make_shared<device>(executor)) {}

  C codec;

  void operator()(std::byte* acc, std::byte const* in, std::size_t blocks) const {
    auto const is_on_device = [&](std::byte const* bytes) {
      return device_->executor.space_of(bytes) == memory_space::device;
    };
    bool const acc_on_device = is_on_device(acc), in_on_device = is_on_device(in);
    if (!acc_on_device && !in_on_device)
      return block_merger<C, host_executor>{codec}(acc, in, blocks);
    if (acc_on_device) require_aligned(acc);
    if (in_on_device) require_aligned(in);
    std::lock_guard const alone(device_->used);
    E& executor = device_->executor;
    if (acc_on_device && in_on_device) {
      executor.for_each_block(blocks, merge_blocks<C>{codec, acc, in});
      return executor.synchronize();
    }
    std::size_t const bytes = blocks * codec.block_bytes(C::block_values);
    std::byte* const copy = device_->scratch_of(bytes);
    executor.write(copy, acc_on_device ? in : acc, bytes);
    executor.for_each_block(blocks, acc_on_device ? merge_blocks<C>{codec, acc, copy}
                                                  : merge_blocks<C>{codec, copy, in});
    if (acc_on_device)
      executor.synchronize();
    else
      executor.wait(executor.read(acc, copy, bytes));
  }

 private:
  static void require_aligned(std::byte const* blocks) {
    auto const address = reinterpret_cast<std::uintptr_t>(blocks);
    if (address % 4 != 0)
      throw std::invalid_argument("they start at the device's address " + std::to_string(address) +
                                  ", which is not a multiple of 4");
  }

  /// State shared by copies of a datatype.
  struct device {
    explicit device(E& used_by_all) : executor(used_by_all) {}

    std::byte* scratch_of(std::size_t bytes) {
      if (!scratch || scratch->size() < bytes) scratch.emplace(bytes);
      return scratch->data();
    }

    E& executor;
    std::mutex used;
    std::optional<typename E::buffer> scratch;  ///< device copy of blocks that a call has in host
                                                ///< memory
  };

  std::shared_ptr<device> device_;
};

}  // namespace detail

/// An MPI_Op and its MPI_Datatype: one element is one encoded block.
///
///     hcomp::mpi::op sum{hcomp::sign{}};
///     auto code = hcomp::encode(sum.codec(), x, {.key = {.seed = 1, .step = t}, .rank = rank});
///     MPI_Allreduce(MPI_IN_PLACE, code.data(), sum.count(x.size()), sum.type(), sum.handle(),
///                   comm);
///     hcomp::decode(sum.codec(), code, x, {.key = {.seed = 1, .step = t}});
///
/// Works with MPI_Allreduce, MPI_Reduce, MPI_Iallreduce, MPI_Reduce_scatter_block,
/// MPI_Reduce_local, ... The datatype carries the codec, and there is no other state. So ops of any
/// codecs can coexist, and several threads can use them (if MPI was initialised for threads).
///
/// Blocks are merged in the order of their lowest ranks, whichever MPI passes first; so the op is
/// declared commutative. If the codec's sum is not exact, the bits depend on MPI's reduction tree;
/// they are equal on all ranks if MPI reduces each element along one tree, as the standard
/// requires. Contradictory blocks make `decode` throw on every rank. Create the op after MPI_Init;
/// destruction after MPI_Finalize is harmless.
///
/// An op with a DeviceExecutor also accepts blocks in device memory, if the MPI does:
///
///     hcomp::gpu::stream_executor executor(stream);
///     hcomp::mpi::op sum{hcomp::sign{}, executor};
///     hcomp::encoded_vector code(x.size(), sum.codec(), executor);
///     code.encode(x, {.key = {.seed = 1, .step = t}, .rank = rank});
///     executor.synchronize();  // MPI knows no streams
///     MPI_Allreduce(MPI_IN_PLACE, code.data(), sum.count(x.size()), sum.type(), sum.handle(),
///                   comm);
///     code.decode(x, {.key = {.seed = 1, .step = t}});
///
/// Each call queries the memory space of its operands, because MPI libraries differ: some pass
/// device pointers, some copies in host memory, some one of each. Two operands in host memory are
/// merged there. If only one is in device memory, the other is copied to device memory that the op
/// keeps. The call returns when the result is in place.
///
/// The executor is not owned, and must outlive the op and copies of its datatype, which take turns
/// with it. No other code may use it while MPI may call the op, in any thread. An error then ends
/// the job by MPI_Abort, because an op cannot report errors.
///
/// @tparam E  executor of the memory space of blocks besides host memory; host_executor: none
template <HomomorphicSum C, Executor E = host_executor> class op {
 public:
  /// @param commutative  pass false for libraries whose reduction order differs between ranks
  /// @throws transport_error  MPI rejects the op or the datatype
  explicit op(C const& codec = {}, bool commutative = true) requires(!DeviceExecutor<E>)
      : op(std::make_unique<merger>(merger{codec}), commutative) {}
  op(C const& codec, E& executor, bool commutative = true) requires DeviceExecutor<E>
      : op(std::make_unique<merger>(codec, executor), commutative) {}
  op(op&& other) noexcept
      : merger_(std::exchange(other.merger_, nullptr)),
        type_(std::exchange(other.type_, MPI_DATATYPE_NULL)),
        op_(std::exchange(other.op_, MPI_OP_NULL)) {}
  op& operator=(op&& other) noexcept {
    std::swap(merger_, other.merger_);
    std::swap(type_, other.type_);
    std::swap(op_, other.op_);
    return *this;
  }
  ~op() {
    if (!is_running()) return;
    if (op_ != MPI_OP_NULL) MPI_Op_free(&op_);
    if (type_ != MPI_DATATYPE_NULL) MPI_Type_free(&type_);
  }

  MPI_Op handle() const { return op_; }
  MPI_Datatype type() const { return type_; }
  C const& codec() const { return merger_->codec; }

  /// The number of elements (blocks) for `values` values: MPI's count.
  /// @throws std::invalid_argument  more than an int can count
  int count(std::size_t values) const {
    std::size_t const blocks = block_count(codec(), values);
    if (blocks > static_cast<std::size_t>(std::numeric_limits<int>::max()))
      throw std::invalid_argument("mpi::op: " + std::to_string(values) + " values make " +
                                  std::to_string(blocks) +
                                  " blocks, more than MPI's int count can hold");
    return static_cast<int>(blocks);
  }

 private:
  using merger = detail::block_merger<C, E>;

  op(std::unique_ptr<merger> carried, bool commutative) : merger_(carried.get()) {
    require(MPI_Type_contiguous(static_cast<int>(codec().block_bytes(C::block_values)), MPI_BYTE,
                                &type_),
            "MPI_Type_contiguous");
    require(MPI_Type_commit(&type_), "MPI_Type_commit");
    require(MPI_Type_set_attr(type_, key(), carried.get()), "MPI_Type_set_attr");
    carried.release();  // the attribute deletes it with the datatype
    require(MPI_Op_create(&merge, commutative, &op_), "MPI_Op_create");
  }

  /// The attribute key of datatypes of this codec; created once per process and never freed.
  static int key() {
    static int const keyval = [] {
      int created = MPI_KEYVAL_INVALID;
      require(MPI_Type_create_keyval(&copy_merger, &delete_merger, &created, nullptr),
              "MPI_Type_create_keyval");
      return created;
    }();
    return keyval;
  }
  static int copy_merger(MPI_Datatype, int, void*, void* from, void* to, int* copied) {
    auto* const copy = new (std::nothrow) merger(*static_cast<merger const*>(from));
    if (copy == nullptr) return MPI_ERR_NO_MEM;
    *static_cast<void**>(to) = copy;
    *copied = 1;
    return MPI_SUCCESS;
  }
  static int delete_merger(MPI_Datatype, int, void* carried, void*) {
    delete static_cast<merger*>(carried);
    return MPI_SUCCESS;
  }

  /// The user function of the op: inout[i] += in[i].
  static void merge(void* in, void* inout, int* count, MPI_Datatype* type) {
    hcomp::detail::float_environment const environment;
    void* carried = nullptr;
    int found = 0;
    MPI_Type_get_attr(*type, key(), static_cast<void*>(&carried), &found);
    if (!found)
      return end_job(
          "was called with a datatype that is not its own; use op.type() together with "
          "op.handle()",
          MPI_ERR_TYPE);
    try {
      (*static_cast<merger const*>(carried))(static_cast<std::byte*>(inout),
                                             static_cast<std::byte const*>(in),
                                             static_cast<std::size_t>(*count));
    } catch (std::exception const& error) {
      end_job(("could not add up " + std::to_string(*count) + " blocks: " + error.what()).c_str(),
              MPI_ERR_OTHER);
    }
  }
  /// Ends the job: an op cannot return an error.
  static void end_job(char const* why, int code) {
    std::fprintf(stderr, "hcomp: the op of codec '%s' %s\n", C::name, why);
    MPI_Abort(MPI_COMM_WORLD, code);
  }

  merger const* merger_ = nullptr;  // owned by the datatype
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
  MPI_Op op_ = MPI_OP_NULL;
};

template <class C> op(C) -> op<C>;
template <class C> op(C, bool) -> op<C>;
template <class C, DeviceExecutor E> op(C, E&) -> op<C, E>;
template <class C, DeviceExecutor E> op(C, E&, bool) -> op<C, E>;

}  // namespace hcomp::mpi
