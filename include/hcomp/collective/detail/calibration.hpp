#pragma once
/// @file
/// The units that all ranks encode in: measured, then agreed on, before anything is encoded.

#include <cstddef>
#include <cstdint>
#include <hcomp/codec/compressor.hpp>
#include <hcomp/collective/agreement.hpp>
#include <hcomp/collective/detail/ready_to_move.hpp>
#include <hcomp/collective/report.hpp>
#include <hcomp/exec/executor.hpp>
#include <hcomp/op/block_work.hpp>
#include <hcomp/op/code_layout.hpp>
#include <hcomp/transport/transport.hpp>
#include <span>

namespace hcomp::detail {

/// Keeps the words of one vector in the executor's memory space; none, and does nothing, for codecs
/// that are not Calibrated.
template <Compressor C, Executor E> class calibration {
 public:
  calibration(C const& codec, code_layout const& layout)
      : count_(statistics_words(codec, layout)), memory_(2 * bytes()) {}

  /// What all ranks agreed on, for block_origin::statistics; null if there is nothing.
  std::uint32_t const* words() const { return count_ > 0 ? mine() : nullptr; }

  /// The largest of all ranks' words, on every rank, in ceil(log2 P) steps: maxima do not mind that
  /// some are taken twice.
  /// @param x  a pointer to the values of the whole vector, or `compensated`
  template <Transport T, class Source>
  void agree(C const& codec, code_layout const& layout, Source const& x, T& transport, tag_t tag,
             E& executor, report& figures) {
    if constexpr (Calibrated<C>) {
      if (count_ == 0) return;
      stopwatch watch;
      executor.for_each_block(layout.blocks(), measure_blocks<C, Source>{codec, layout, x, mine()});
      ready_to_move(transport, executor);
      watch.add_to(figures.seconds_encode);
      int const rank = transport.rank(), size = transport.size();
      for (int distance = 1; distance < size; distance *= 2) {
        int const from = (rank + size - distance) % size;
        auto in = transport.irecv(from, tag, std::span(memory_.data() + bytes(), bytes()));
        auto out = transport.isend((rank + distance) % size, tag,
                                   std::span<std::byte const>(memory_.data(), bytes()));
        wait_for_records(transport, in, from, bytes());
        transport.wait(out);
        executor.for_each_block((count_ + unite_statistics::run - 1) / unite_statistics::run,
                                unite_statistics{mine(), other(), count_});
        ready_to_move(transport, executor);
      }
      watch.add_to(figures.seconds_communicate);
    }
  }

 private:
  std::size_t bytes() const { return count_ * sizeof(std::uint32_t); }
  std::uint32_t* mine() const { return reinterpret_cast<std::uint32_t*>(memory_.data()); }
  std::uint32_t* other() const { return mine() + count_; }

  std::size_t count_;
  typename E::buffer memory_;
};

}  // namespace hcomp::detail
