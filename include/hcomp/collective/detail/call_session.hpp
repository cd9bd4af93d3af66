#pragma once
/// @file
/// Beginning and end of every collective call: agree, then trust what came out.

#include <cmath>
#include <cstdint>
#include <hcomp/codec/compressor.hpp>
#include <hcomp/collective/agreement.hpp>
#include <hcomp/collective/detail/call_check.hpp>
#include <hcomp/collective/options.hpp>
#include <hcomp/collective/report.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/op/code_layout.hpp>
#include <hcomp/op/detail/code_check.hpp>
#include <hcomp/transport/transport.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace hcomp::detail {

/// What a rank's findings are of. Ranks that all hold the same blocks need not ask each other,
/// unless each may have met damage of its own.
enum class findings { of_all, of_all_to_compare, of_parts };

/// What all collectives on one codec, size and transport share: options, records of all ranks.
template <HomomorphicSum C, Transport T> class call_session {
 public:
  call_session(C const& codec, std::size_t values, T& transport, plan_options const& options,
               memory_space space)
      : codec_(codec), values_(values), transport_(&transport), options_(options), space_(space) {
    if (!transport.reaches(space))
      throw std::invalid_argument(
          "plan: the transport does not reach the executor's memory, which is a device's; "
          "hcomp::staged copies messages for it");
    set_codec(codec);
  }

  void set_codec(C const& codec) {
    for (double const parameter : codec.parameters())
      if (!std::isfinite(parameter))
        throw std::invalid_argument("plan: codec '" + std::string(C::name) + "' has a parameter " +
                                    std::to_string(parameter));
    codec_ = codec;
  }

  /// Checks this rank's arguments, then those of all ranks; before anything is changed.
  template <class F>
  report start(operation what, std::span<typename C::value_type> x, F const& feedback,
               call_options const& call) {
    what_ = what;
    stream_ = stream_of(call.key());
    bytes_before_ = transport_->bytes_sent();
    report figures;
    figures.messages = messages();
    stopwatch watch;
    auto const mine = describe(what, x, values_, codec_, feedback, options_, call);
    bool alike = true;  // without a check equal weights are assumed, and verified in the blocks
    if (options_.check && transport_->size() > 1) {
      call_summary summary(mine);
      unite_records(*transport_, options_.tag, summary,
                    [](call_summary& a, call_summary const& b) { a.unite(b); });
      alike = summary.all_alike();
      if (!alike) all_gather_records(*transport_, options_.tag, mine, records_);
      watch.add_to(figures.seconds_communicate);
    }
    if (alike) records_.assign(static_cast<std::size_t>(transport_->size()), mine);
    require_agreement(records_);
    total_weight_ = total_weight(codec_, std::span<call_record const>(records_));
    return figures;
  }

  /// Throws what is wrong with the finished blocks, on all ranks alike.
  void finish(code_findings found, findings whose, code_layout const& layout, report& figures) {
    if (whose != findings::of_all && transport_->size() > 1) {
      stopwatch watch;
      findings_summary summary{found.is_sound() ? 0u : 1u, found.weight};
      unite_records(*transport_, options_.tag, summary,
                    [](findings_summary& a, findings_summary const& b) { a.unite(b); });
      found.weight = summary.weight;
      if (summary.trouble) {
        all_gather_records(*transport_, options_.tag, found, findings_);
        code_findings all;
        for (auto const& one : findings_) all.merge(one);
        if (whose == findings::of_all_to_compare) all.nonfinite_blocks = found.nonfinite_blocks;
        found = all;
      }
      watch.add_to(figures.seconds_communicate);
    }
    require_sound(to_text(what_), C::name, found, options_.nonfinite, layout);
    figures.weight = layout.blocks() > 0 ? found.weight : total_weight_;
  }

  report done(report figures) const {
    figures.bytes_sent = transport_->bytes_sent() - bytes_before_;
    return figures;
  }

  C const& codec() const { return codec_; }
  T& transport() const { return *transport_; }
  plan_options const& options() const { return options_; }
  std::uint64_t stream() const { return stream_; }  ///< of the call
  /// What the finished sum must weigh; 0 if the ranks were not asked.
  std::uint64_t expected_weight() const { return options_.check ? total_weight_ : 0; }
  std::uint32_t weight_of(int rank) const {
    return static_cast<std::uint32_t>(records_[static_cast<std::size_t>(rank)].weight);
  }

 private:
  message_memory messages() const {
    if (space_ == memory_space::host) return message_memory::host;
    if constexpr (requires { transport_->copies_messages(); })
      if (transport_->copies_messages()) return message_memory::staged;
    return message_memory::device;
  }

  C codec_;
  std::size_t values_;
  T* transport_;
  plan_options options_;
  memory_space space_;
  operation what_ = operation::all_reduce;
  std::uint64_t stream_ = 0;
  std::uint64_t total_weight_ = 0;
  std::uint64_t bytes_before_ = 0;
  std::vector<call_record> records_;
  std::vector<code_findings> findings_;
};

}  // namespace hcomp::detail
