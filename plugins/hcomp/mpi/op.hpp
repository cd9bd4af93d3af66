#pragma once
/// @file
/// Any codec whose blocks can be merged, as an MPI_Op: compression for plain MPI_Allreduce.

#include <mpi.h>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <hcomp/codec/compressor.hpp>
#include <hcomp/core/group.hpp>
#include <hcomp/mpi/call.hpp>
#include <hcomp/op/block_work.hpp>
#include <hcomp/op/encode.hpp>
#include <limits>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace hcomp::mpi {

/// What a Calibrated codec needs to know of all ranks' values before any of them encodes, for
/// encode_options::statistics; of other codecs nothing. Collective.
template <Compressor C>
std::vector<std::uint32_t> measure(C const& codec, std::span<typename C::value_type const> x,
                                   MPI_Comm comm) {
  auto words = hcomp::measure(codec, x);
  if constexpr (Calibrated<C>) {
    if (words.size() > static_cast<std::size_t>(std::numeric_limits<int>::max()))
      throw std::invalid_argument("mpi::measure: " + std::to_string(x.size()) + " values have " +
                                  std::to_string(words.size()) +
                                  " words of statistics, more than MPI's int count can hold");
    require(MPI_Allreduce(MPI_IN_PLACE, words.data(), static_cast<int>(words.size()), MPI_UINT32_T,
                          MPI_MAX, comm),
            "MPI_Allreduce of the statistics");
  }
  return words;
}

/// An MPI_Op and the MPI_Datatype it works on: one element is one encoded block.
///
///     hcomp::mpi::op sum{hcomp::sign{}};
///     auto code = hcomp::encode(sum.codec(), x, {.key = {.seed = 1, .step = t}, .rank = rank});
///     MPI_Allreduce(MPI_IN_PLACE, code.data(), sum.count(x.size()), sum.type(), sum.handle(),
///     comm); hcomp::decode(sum.codec(), code, x, {.key = {.seed = 1, .step = t}});
///
/// For MPI_Allreduce, MPI_Reduce, MPI_Iallreduce, MPI_Reduce_scatter_block, MPI_Reduce_local, ...
/// The datatype carries the codec, so any number of ops of any codecs may live at once and be used
/// by several threads (if MPI was initialised for them); there is no other state.
/// Blocks are merged in the order of their lowest ranks whoever the library hands over first, so
/// the op is declared commutative; with a codec that is not exact in sum the bits depend on the
/// reduction tree the library chooses, but are the same on all ranks as long as it reduces every
/// element along one tree, as MPI asks of it. Blocks that contradict each other make `decode` throw
/// on every rank. Make it after MPI_Init; destroying it after MPI_Finalize is harmless.
template <HomomorphicSum C> class op {
 public:
  /// @param commutative  false: for libraries that fold in an order of each rank's own
  /// @throws transport_error  MPI refuses the op or the datatype
  explicit op(C const& codec = {}, bool commutative = true) {
    auto carried = std::make_unique<C>(codec);
    codec_ = carried.get();
    require(
        MPI_Type_contiguous(static_cast<int>(codec.block_bytes(C::block_values)), MPI_BYTE, &type_),
        "MPI_Type_contiguous");
    require(MPI_Type_commit(&type_), "MPI_Type_commit");
    require(MPI_Type_set_attr(type_, key(), carried.get()), "MPI_Type_set_attr");
    carried.release();  // the attribute deletes it with the datatype
    require(MPI_Op_create(&merge, commutative, &op_), "MPI_Op_create");
  }
  op(op&& other) noexcept
      : codec_(std::exchange(other.codec_, nullptr)),
        type_(std::exchange(other.type_, MPI_DATATYPE_NULL)),
        op_(std::exchange(other.op_, MPI_OP_NULL)) {}
  op& operator=(op&& other) noexcept {
    std::swap(codec_, other.codec_);
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
  C const& codec() const { return *codec_; }

  /// Elements (blocks) that `values` values make: MPI's count.
  /// @throws std::invalid_argument  more than an int can count
  int count(std::size_t values) const {
    std::size_t const blocks = block_count(*codec_, values);
    if (blocks > static_cast<std::size_t>(std::numeric_limits<int>::max()))
      throw std::invalid_argument("mpi::op: " + std::to_string(values) + " values make " +
                                  std::to_string(blocks) +
                                  " blocks, more than MPI's int count can hold");
    return static_cast<int>(blocks);
  }

 private:
  /// Where the datatypes of this codec keep their codec; made once per process, kept to its end.
  static int key() {
    static int const keyval = [] {
      int created = MPI_KEYVAL_INVALID;
      require(MPI_Type_create_keyval(&copy_codec, &delete_codec, &created, nullptr),
              "MPI_Type_create_keyval");
      return created;
    }();
    return keyval;
  }
  static int copy_codec(MPI_Datatype, int, void*, void* from, void* to, int* copied) {
    *static_cast<void**>(to) = new C(*static_cast<C const*>(from));
    *copied = 1;
    return MPI_SUCCESS;
  }
  static int delete_codec(MPI_Datatype, int, void* codec, void*) {
    delete static_cast<C*>(codec);
    return MPI_SUCCESS;
  }

  /// What MPI calls: inout[i] += in[i].
  static void merge(void* in, void* inout, int* count, MPI_Datatype* type) {
    void* codec = nullptr;
    int found = 0;
    MPI_Type_get_attr(*type, key(), static_cast<void*>(&codec), &found);
    if (!found) {  // an op has no way to return an error
      std::fprintf(
          stderr,
          "hcomp: the op of codec '%s' was called with a datatype that is not its own; use "
          "op.type() together with op.handle()\n",
          C::name);
      MPI_Abort(MPI_COMM_WORLD, MPI_ERR_TYPE);
    }
    merge_blocks<C> const work{*static_cast<C const*>(codec), static_cast<std::byte*>(inout),
                               static_cast<std::byte const*>(in)};
    for (int i = 0; i < *count; ++i) work(simd_group{}, static_cast<std::size_t>(i));
  }

  C const* codec_ = nullptr;  // belongs to the datatype
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
  MPI_Op op_ = MPI_OP_NULL;
};

template <class C> op(C) -> op<C>;

}  // namespace hcomp::mpi
