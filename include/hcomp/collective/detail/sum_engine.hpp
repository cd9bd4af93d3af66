#pragma once
/// @file
/// What thinks about ranks in a plan of blocks.

#include <hcomp/collective/detail/call_check.hpp>
#include <hcomp/collective/detail/call_session.hpp>
#include <hcomp/collective/detail/code_work.hpp>
#include <hcomp/collective/detail/codec_terms.hpp>
#include <hcomp/collective/options.hpp>
#include <hcomp/collective/report.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/op/code_layout.hpp>
#include <hcomp/transport/any_transport.hpp>

namespace hcomp::detail {

/// What an engine of blocks is made for.
struct sum_engine_settings {
  codec_terms codec;
  code_layout layout;
  bool is_narrow = false;            ///< blocks travel in fewer bytes than they have in memory
  std::size_t statistics_words = 0;  ///< that ranks agree on before they encode
  memory_space space = memory_space::host;
};

/// What all engines have: a session, and where blocks lie.
class engine_base {
 public:
  /// @param space  of the messages
  engine_base(codec_terms const& codec, code_layout const& layout, any_transport& transport,
              plan_options const& options, memory_space space)
      : session_(codec, layout.values, transport, options, space), layout_(layout) {}
  engine_base(engine_base const&) = delete;
  engine_base& operator=(engine_base const&) = delete;

  code_layout const& layout() const { return layout_; }
  plan_options const& options() const { return session_.options(); }
  void set_codec(codec_terms const& codec) { session_.set_codec(codec); }
  /// See call_session.
  report refuse_feedback(operation what, call_arguments const& given, call_options const& call) {
    return session_.refuse_feedback(what, given, call);
  }

 protected:
  ~engine_base() = default;
  any_transport& transport() const { return session_.transport(); }

  call_session session_;
  code_layout layout_;
};

/// The collectives of a plan of blocks, whose promises these are.
class sum_engine : public engine_base {
 public:
  sum_engine(sum_engine_settings const& made_for, any_transport& transport,
             plan_options const& options)
      : engine_base(made_for.codec, made_for.layout, transport, options, made_for.space) {}
  virtual ~sum_engine() = default;

  /// The blocks of which this rank holds the sum after `reduce_scatter`.
  virtual block_range owned_blocks() const = 0;
  virtual report all_reduce(call_arguments const& given, value_work& values,
                            call_options const& call) = 0;
  virtual report reduce_scatter(call_arguments const& given, value_work& values,
                                call_options const& call) = 0;
  virtual report all_gather(call_arguments const& given, value_work& values,
                            call_options const& call) = 0;
};

}  // namespace hcomp::detail
