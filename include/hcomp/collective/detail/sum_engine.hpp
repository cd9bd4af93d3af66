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

/// The collectives of a plan, whose promises these are.
class sum_engine {
 public:
  sum_engine(sum_engine_settings const& made_for, any_transport& transport,
             plan_options const& options)
      : session_(made_for.codec, made_for.layout.values, transport, options, made_for.space),
        layout_(made_for.layout) {}
  sum_engine(sum_engine const&) = delete;
  sum_engine& operator=(sum_engine const&) = delete;
  virtual ~sum_engine() = default;

  code_layout const& layout() const { return layout_; }
  plan_options const& options() const { return session_.options(); }
  void set_codec(codec_terms const& codec) { session_.set_codec(codec); }

  /// The blocks of which this rank holds the sum after `reduce_scatter`.
  virtual block_range owned_blocks() const = 0;
  virtual report all_reduce(call_arguments const& given, value_work& values,
                            call_options const& call) = 0;
  virtual report reduce_scatter(call_arguments const& given, value_work& values,
                                call_options const& call) = 0;
  virtual report all_gather(call_arguments const& given, value_work& values,
                            call_options const& call) = 0;

 protected:
  any_transport& transport() const { return session_.transport(); }

  call_session session_;
  code_layout layout_;
};

}  // namespace hcomp::detail
