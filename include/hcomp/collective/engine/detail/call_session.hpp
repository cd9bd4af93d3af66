#pragma once
/// @file
/// Start and end of every collective call: compare arguments, then verify the result.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <hcomp/collective/agreement/agreement.hpp>
#include <hcomp/collective/agreement/detail/call_check.hpp>
#include <hcomp/collective/agreement/detail/codec_terms.hpp>
#include <hcomp/collective/agreement/options.hpp>
#include <hcomp/collective/agreement/report.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/core/detail/error_text.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/core/group.hpp>
#include <hcomp/core/hash.hpp>
#include <hcomp/core/random.hpp>
#include <hcomp/op/detail/call_verdict.hpp>
#include <hcomp/op/detail/encoded_check.hpp>
#include <hcomp/op/encoded_layout.hpp>
#include <hcomp/transport/any_transport.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace hcomp::detail {

/// Which blocks a rank's findings cover. Ranks that hold the same blocks need no exchange, unless
/// each may have received damage.
enum class findings { of_all, of_all_to_compare, of_parts };

/// A stream-ordered call that has begun on this rank.
struct enqueued_call {
  report stats;
  agreement_words words;       ///< of this rank's arguments
  std::exception_ptr refused;  ///< the error of this rank's own arguments; null: none
};

/// State shared by all collectives of one codec, size and transport: options and records of all
/// ranks.
class call_session {
 public:
  /// @param space  memory space of the vectors
  /// @throws std::invalid_argument  the transport does not reach it
  call_session(codec_terms const& codec, std::size_t values, any_transport& transport,
               plan_options const& options, memory_space space)
      : codec_(codec), values_(values), transport_(&transport), options_(options), space_(space) {
    if (!transport.reaches(space))
      throw std::invalid_argument(
          space == memory_space::device
              ? "plan: the transport does not reach the executor's memory, which is a device's; "
                "hcomp::host_staged copies messages for it"
              : "plan: the transport moves messages in a device's memory only; the executor's is "
                "host memory");
  }

  /// Changes the codec's parameters from the next call on.
  void set_codec(codec_terms const& codec) { codec_ = codec; }

  /// Checks this rank's arguments, then compares those of all ranks, before anything is changed.
  report start(operation what, call_arguments const& given, call_options const& call) {
    auto [mine, stats] = opened(what, given, call);
    stopwatch watch;
    needs_fallback_ = given.needs_fallback && transport_->size() == 1;
    bool alike = true;  // Without a check equal weights are assumed, and verified in the blocks.
    if (options_.check && transport_->size() > 1) {
      call_summary summary(mine, given.needs_fallback, std::exchange(seconds_of_last_, 0));
      unite(summary, [](call_summary& a, call_summary const& b) { a.unite(b); });
      alike = summary.all_alike();
      needs_fallback_ = summary.needs_fallback != 0;
      if (!alike) all_gather_records(*transport_, options_.tag, mine, records_, next_seal());
      watch.add_to(stats.seconds_communicate);
      stats.seconds_agree = stats.seconds_communicate;
      stats.seconds_of_last = summary.seconds_of_last;
    }
    since_agreement_ = {};
    if (alike) records_.assign(static_cast<std::size_t>(transport_->size()), mine);
    require_agreement(codec_, alike ? std::span(records_).first(1) : std::span(records_));
    require_op(codec_, records_.front());
    seal_ += codec_.codec_id;  // A call may run collectives with several codecs.
    total_weight_ = total_weight(codec_, std::span<call_record const>(records_));
    return stats;
  }

  /// `start` for stream-ordered transports. Sends nothing: all ranks compare the words later, and
  /// weights must be equal.
  enqueued_call enqueue(operation what, call_arguments const& given, call_options const& call) {
    auto [mine, stats] = opened(what, given, call);
    auto other = mine;
    other.refused = complaint::none;
    records_.assign(static_cast<std::size_t>(transport_->size()), other);
    records_[static_cast<std::size_t>(transport_->rank())] = mine;
    std::exception_ptr refused;
    try {
      require_agreement(codec_, records_);
      require_op(codec_, mine);
      total_weight_ = total_weight(codec_, std::span<call_record const>(records_));
    } catch (std::exception const&) {
      refused = std::current_exception();
    }
    stats.weight = what == operation::all_gather ? 1 : total_weight_;
    auto const arguments =
        mix(next_seal() ^
            fingerprint(serial_group{}, reinterpret_cast<std::byte const*>(&mine), sizeof(mine)));
    return {stats, {arguments, transport_->rank(), refused != nullptr}, refused};
  }
  /// @throws the error of a failed stream-ordered call, on all ranks alike
  [[noreturn]] void raise(call_verdict const& verdict, encoded_layout const& layout) const {
    auto const* const what = to_text(static_cast<operation>(verdict.what));
    std::uint64_t const number = verdict.failed - 1;
    if (verdict.why == trouble::refused)
      throw disagreement_error(
          error_text({what, ": rank ", verdict.refusing_rank, " refused its arguments of call ",
                      number, " of the plan; its own error has the reason"}));
    if (verdict.why == trouble::disagreement)
      throw disagreement_error(error_text(
          {what, ": the arguments of call ", number,
           " of the plan differ between ranks: the collective, the codec or its parameters, the "
           "options, seed, step, tensor, weight or operation"}));
    require_sound(what, codec_.name, verdict.found(), options_.nonfinite, layout);
    auto const text =
        error_text({what, ": codec '", codec_.name, "', call ", number, " of the plan: "});
    if (verdict.why == trouble::damaged)
      throw wire_error(text + "another rank received a damaged message");
    throw nonfinite_error(text +
                          (verdict.why == trouble::overflow
                               ? "another rank found a sum of finite values that overflows"
                               : "another rank found NaN or infinity, or overflow") +
                          "; x is unchanged");
  }

  /// After `start`, for codecs without weights.
  /// @throws std::invalid_argument  on all ranks alike
  void require_weights_of_one() const {
    for (int r = 0; r < transport_->size(); ++r)
      if (auto const weight = weight_of(r); weight != 1)
        throw std::invalid_argument("plan: rank " + std::to_string(r) + " has weight " +
                                    std::to_string(weight) + ", codec '" +
                                    std::string(codec_.name) + "' knows only 1");
  }

  /// Throws the faults of reduced blocks, on all ranks alike; otherwise returns the findings of all
  /// ranks.
  encoded_findings finish(encoded_findings found, findings whose, encoded_layout const& layout,
                          report& stats) {
    if (whose != findings::of_all && transport_->size() > 1) {
      stopwatch watch;
      findings_summary summary(found);
      unite_findings(summary);
      found.weight = summary.heaviest;
      found.error = summary.error;
      found.needs_fallback = summary.needs_fallback;
      if (summary.trouble) {
        all_gather_records(*transport_, options_.tag, found, findings_, next_seal());
        encoded_findings all;
        for (auto const& one : findings_) all.merge(one);
        if (whose == findings::of_all_to_compare) all.nonfinite_blocks = found.nonfinite_blocks;
        found = all;
      } else if (summary.lightest < summary.heaviest) {
        throw wire_error(error_text({to_text(what_), ": finished blocks hold weights of ",
                                     summary.lightest, " on some rank and of ", summary.heaviest,
                                     " on another; they are not of one sum"}));
      }
      watch.add_to(stats.seconds_communicate);
    }
    require_sound(to_text(what_), codec_.name, found, options_.nonfinite, layout);
    stats.weight = layout.blocks() > 0 ? found.weight : total_weight_;
    return found;
  }

  /// unite_records of this call.
  template <class Record, class Unite> void unite(Record& mine, Unite const& unite) {
    unite_records(*transport_, options_.tag, mine, unite, next_seal());
  }

  /// Rejects error feedback for codecs that take none.
  /// @throws std::invalid_argument  always and on all ranks alike, unless `start` throws first
  report refuse_feedback(operation what, call_arguments const& given, call_options const& call) {
    start(what, given, call);
    throw std::invalid_argument(
        error_text({to_text(what), ": codec '", codec_.name, "' takes no feedback"}));
  }

  report done(report stats) {
    stats.bytes_sent = transport_->bytes_sent() - bytes_before_;
    since_agreement_.add_to(seconds_of_last_);
    return stats;
  }

  /// A new seal for every agreement of every call, equal on all ranks.
  std::uint64_t next_seal() { return seal_ = mix(seal_ + 1); }
  codec_terms const& codec() const { return codec_; }
  any_transport& transport() const { return *transport_; }
  plan_options const& options() const { return options_; }
  std::uint64_t key() const { return key_; }  ///< of the current call
  /// Number of calls before the current one.
  std::uint64_t earlier_calls() const { return calls_ - 1; }
  /// Weight that the result must have; 0 if the ranks were not compared.
  std::uint64_t expected_weight() const { return options_.check ? total_weight_ : 0; }
  operation what() const { return what_; }  ///< the current call
  /// True if any rank's call_arguments request it; false if the ranks were not compared.
  bool needs_fallback() const { return needs_fallback_; }
  std::uint32_t weight_of(int rank) const {
    return static_cast<std::uint32_t>(records_[static_cast<std::size_t>(rank)].weight);
  }

 private:
  /// With checksums there are two rounds. In the second, ranks report whether the first was intact.
  /// So one damaged record either becomes known to all ranks or changes nothing: a rank that
  /// receives only a damaged second record knows that the first was intact.
  void unite_findings(findings_summary& summary) {
    auto const unite_two = [](findings_summary& a, findings_summary const& b) { a.unite(b); };
    if (!options_.checksum) return unite(summary, unite_two);
    int lost = -1;  // a rank whose record was damaged
    unite_sound_records(*transport_, options_.tag, summary, unite_two, next_seal(),
                        [&](int from, std::size_t) { lost = from; });
    unite_sound_records(
        *transport_, options_.tag, lost, [](int& a, int b) { a = std::max(a, b); }, next_seal(),
        [](int, std::size_t) {});
    if (lost >= 0)
      throw wire_error(error_text(
          {to_text(what_), ": the findings record of rank ", lost, " was damaged in transfer"}));
  }

  /// Begins a call: its key, this rank's record of it, and its report.
  std::pair<call_record, report> opened(operation what, call_arguments const& given,
                                        call_options const& call) {
    what_ = what;
    std::uint64_t const number = call.earlier_calls.value_or(calls_);
    calls_ = number + 1;
    draw_key const key = call.key(number, transport_->group());
    key_ = philox_key(key);
    seal_ = mix(number + 1);
    bytes_before_ = transport_->bytes_sent();
    report stats;
    if (!codec_.is_lossless) stats.error = unknown_error;
    stats.messages = messages();
    return {describe(what, given, values_, codec_, options_, call, key), stats};
  }

  message_memory messages() const {
    if (space_ == memory_space::host) return message_memory::host;
    return transport_->copies_messages() ? message_memory::host_staged : message_memory::device;
  }

  codec_terms codec_;
  std::size_t values_;
  any_transport* transport_;
  plan_options options_;
  memory_space space_;
  operation what_ = operation::all_reduce;
  std::uint64_t calls_ = 0;
  std::uint64_t key_ = 0;
  std::uint64_t seal_ = 0;
  std::uint64_t total_weight_ = 0;
  bool needs_fallback_ = false;
  stopwatch since_agreement_;
  double seconds_of_last_ = 0;  ///< on this rank; 0 unless the call succeeded
  std::uint64_t bytes_before_ = 0;
  std::vector<call_record> records_;
  std::vector<encoded_findings> findings_;
};

}  // namespace hcomp::detail
