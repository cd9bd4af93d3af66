#pragma once
/// @file
/// Encodes and decodes a vector in an executor's memory, without a plan: for MPI_Allreduce with
/// hcomp's op, and for programs that transfer the bytes themselves.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/compressor.hpp>
#include <hcomp/collective/engine/detail/inspection.hpp>
#include <hcomp/core/detail/error_text.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/core/random.hpp>
#include <hcomp/exec/detail/own_memory.hpp>
#include <hcomp/exec/executor.hpp>
#include <hcomp/exec/mirror.hpp>
#include <hcomp/op/block_work.hpp>
#include <hcomp/op/detail/encoded_check.hpp>
#include <hcomp/op/encode.hpp>
#include <hcomp/op/encoded_layout.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace hcomp {
namespace detail {

struct clear_bytes {
  std::byte* bytes;
  std::size_t count;

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t) const {
    for (auto i = static_cast<std::size_t>(group.worker()); i < count; i += Group::workers)
      bytes[i] = std::byte{0};
  }
};

}  // namespace detail

/// An encoded vector in an executor's memory, reused for vectors of one size. Blocks have equal
/// size. The executor does what `encode` and `decode` do in host memory.
///
/// The executor is used, not owned, and must outlive this. Calls after the first allocate nothing.
/// Memory: the encoded vector and the statistics; on a device 40 more bytes per block, in device
/// memory and in host memory.
template <Compressor C, Executor E> class encoded_vector {
 public:
  using value_type = typename C::value_type;

  /// @param values  per vector, >= 0
  encoded_vector(std::size_t values, C const& codec, E& executor)
      : codec_(codec),
        layout_(layout_of(codec, values)),
        executor_(&executor),
        inspect_(layout_.blocks()),
        statistics_(statistics_words(codec, layout_)),
        memory_(encoded_bytes(codec, values)) {
    if (size() > layout_.bytes())  // once: neither encoding nor merging writes there
      executor.for_each_block(
          1, detail::clear_bytes{data() + layout_.bytes(), size() - layout_.bytes()});
  }

  std::size_t values() const { return layout_.values; }
  C const& codec() const { return codec_; }
  /// The encoded vector, in the executor's memory. Other threads and devices may read it after
  /// `synchronize` of the executor.
  std::byte* data() const { return memory_.data(); }
  std::size_t size() const { return memory_.size(); }

  /// Like hcomp::measure: statistics of `x`, for encode_options::statistics once the words of all
  /// ranks are united. Empty if the codec is not Calibrated. Waits for the executor.
  /// @param x  values() values in the executor's memory
  /// @throws std::invalid_argument  wrong number of values
  /// @throws memory_error  `x` is not in the executor's memory
  std::vector<std::uint32_t> measure(std::span<value_type const> x) {
    require_vector("measure", x);
    if constexpr (Calibrated<C>) {
      executor_->for_each_block(
          layout_.blocks(),
          measure_blocks<C, value_type const*>{codec_, layout_, x.data(), statistics_.for_work()});
      statistics_.fetch(*executor_, words());
    }
    return {statistics_.for_host(), statistics_.for_host() + words()};
  }

  /// Enqueues the encoding of `x` on the executor. With statistics it first waits for earlier work.
  /// Does not wait for the encoded vector: call `synchronize` before MPI reads it.
  /// @param x        values() values in the executor's memory
  /// @param options  statistics are in host memory and are not used after return
  /// @throws std::invalid_argument  as encode; wrong number of values
  /// @throws memory_error  `x` is not in the executor's memory
  void encode(std::span<value_type const> x, encode_options const& options = {}) {
    require_vector("encode", x);
    auto origin = detail::origin_of(codec_, layout_, options);
    if (origin.statistics) {
      executor_->synchronize();
      std::copy(options.statistics.begin(), options.statistics.end(), statistics_.for_host());
      statistics_.send(*executor_, words());
      origin.statistics = statistics_.for_work();
    }
    executor_->for_each_block(layout_.blocks(), encode_blocks<C, value_type const*>{
                                                    codec_, layout_, x.data(), data(), origin});
  }

  /// Decodes into `x`, for work that is given to the executor afterwards. Waits for the inspection
  /// of the blocks. Returns the weight of the sum (0 if x is empty).
  /// @param x  values() values in the executor's memory
  /// @throws std::invalid_argument  wrong number of values
  /// @throws memory_error  `x` is not in the executor's memory
  /// @throws wire_error, nonfinite_error  as decode; x is unchanged
  std::uint64_t decode(std::span<value_type> x, decode_options const& options = {}) {
    require_vector("decode", x);
    auto const found = inspect_(*executor_, codec_, layout_, layout_.all(), data(),
                                philox_key(options.key), options.weight, options.op);
    detail::require_sound("decode", C::name, found, options.nonfinite, layout_);
    executor_->for_each_block(layout_.blocks(),
                              decode_blocks<C>{codec_, layout_, 0, data(), x.data(), options.op,
                                               options.nonfinite == nonfinite_policy::propagate});
    return found.weight;
  }

 private:
  std::size_t words() const { return statistics_words(codec_, layout_); }

  void require_vector(char const* who, std::span<value_type const> x) const {
    if (x.size() != values())
      throw std::invalid_argument(detail::error_text(
          {who, ": ", x.size(), " values, the encoded_vector was made for ", values()}));
    if (!detail::can_work_on(executor_, x))
      throw memory_error(detail::error_text(
          {who, ": the ", x.size(), " values are not in memory that the executor can work on"}));
  }

  C codec_;
  encoded_layout layout_;
  E* executor_;
  detail::inspection<E> inspect_;
  mirror<std::uint32_t, E> statistics_;
  typename E::buffer memory_;
};

}  // namespace hcomp
