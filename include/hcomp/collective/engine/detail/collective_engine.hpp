#pragma once
/// @file
/// Base classes of engines: the part of a plan that handles ranks.

#include <hcomp/collective/agreement/detail/call_check.hpp>
#include <hcomp/collective/agreement/detail/codec_terms.hpp>
#include <hcomp/collective/agreement/options.hpp>
#include <hcomp/collective/agreement/report.hpp>
#include <hcomp/collective/engine/detail/call_session.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/core/detail/error_text.hpp>
#include <hcomp/op/encoded_layout.hpp>
#include <hcomp/transport/any_transport.hpp>
#include <stdexcept>

namespace hcomp::detail {

/// Common to all engines: a session, and the layout.
class engine_base {
 public:
  /// @param space     memory space of the messages
  /// @param enqueues  the engine can use stream-ordered transports
  /// @throws std::invalid_argument  it cannot, and the transport is one; see also call_session
  engine_base(codec_terms const& codec, encoded_layout const& layout, any_transport& transport,
              plan_options const& options, memory_space space, bool enqueues = false)
      : session_(codec, layout.values, transport, options, space), layout_(layout) {
    if (transport.is_stream_ordered() && !enqueues)
      throw std::invalid_argument(
          error_text({"plan: a stream-ordered transport needs a device, a codec of fixed rate and "
                      "another algorithm than sampled; codec '",
                      codec.name, "' with algorithm ", options.algorithm.name(),
                      space == memory_space::host ? " in host memory" : "",
                      " needs the host between messages"}));
  }
  engine_base(engine_base const&) = delete;
  engine_base& operator=(engine_base const&) = delete;

  encoded_layout const& layout() const { return layout_; }
  plan_options const& options() const { return session_.options(); }
  void set_codec(codec_terms const& codec) { session_.set_codec(codec); }
  virtual ~engine_base() = default;
  /// See call_session. Virtual, like everything that a plan calls, so that it is compiled with the
  /// engine.
  virtual report refuse_feedback(operation what, call_arguments const& given,
                                 call_options const& call) {
    return session_.refuse_feedback(what, given, call);
  }
  /// Whether calls are enqueued: the transport is stream-ordered.
  bool enqueues() const { return transport().is_stream_ordered(); }
  /// See plan::check.
  virtual void check_enqueued() {}

 protected:
  any_transport& transport() const { return session_.transport(); }

  call_session session_;
  encoded_layout layout_;
};

/// The collectives of a plan, with its promises.
/// @tparam Values  work between the values of one call and encoded vectors
template <class Values> class collective_engine : public engine_base {
 public:
  using engine_base::engine_base;

  /// The blocks that this rank owns after `reduce_scatter`.
  virtual block_range shard_blocks() const = 0;
  virtual report all_reduce(call_arguments const& given, Values& values,
                            call_options const& call) = 0;
  virtual report reduce_scatter(call_arguments const& given, Values& values,
                                call_options const& call) = 0;
  virtual report all_gather(call_arguments const& given, Values& values,
                            call_options const& call) = 0;
};

}  // namespace hcomp::detail
