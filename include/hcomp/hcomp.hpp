#pragma once
/// @file
/// The main header: plans, codecs, error feedback, executors and transports.
///
/// More headers that need neither MPI nor UCX nor CUDA:
///
/// - extend.hpp: interfaces for new codecs and for direct encoding
/// - lanes.hpp: encodings that plain MPI_SUM or a switch can add
/// - model.hpp: cost models of collectives
/// - aggregation.hpp: in-network aggregation
/// - concurrent.hpp: several collectives at the same time

#include <hcomp/core/version.hpp>

#include <hcomp/codec/error_bounded/error_bounded.hpp>
#include <hcomp/codec/error_bounded/fallback.hpp>
#include <hcomp/codec/error_bounded/options.hpp>
#include <hcomp/codec/float_cast/float_cast.hpp>
#include <hcomp/codec/float_cast/identity.hpp>
#include <hcomp/codec/inceptionn/inceptionn.hpp>
#include <hcomp/codec/inceptionn/options.hpp>
#include <hcomp/codec/lossless/lossless.hpp>
#include <hcomp/codec/lossless_integers/lossless_integers.hpp>
#include <hcomp/codec/reproducible/reproducible.hpp>
#include <hcomp/codec/sign/count.hpp>
#include <hcomp/codec/sign/sign.hpp>
#include <hcomp/codec/sparse/lossless_sparse.hpp>
#include <hcomp/codec/sparse_strategy.hpp>
#include <hcomp/codec/thc/thc.hpp>
#include <hcomp/collective/agreement/digest.hpp>
#include <hcomp/collective/agreement/options.hpp>
#include <hcomp/collective/agreement/report.hpp>
#include <hcomp/collective/automatic/automatic.hpp>
#include <hcomp/collective/automatic/automatic_options.hpp>
#include <hcomp/collective/by_name/make_plan.hpp>
#include <hcomp/collective/by_name/registered_codecs.hpp>
#include <hcomp/collective/engine/host_staged.hpp>
#include <hcomp/collective/engine/sampled.hpp>
#include <hcomp/collective/plan/any_plan.hpp>
#include <hcomp/collective/plan/marsit.hpp>
#include <hcomp/collective/plan/plan.hpp>
#include <hcomp/collective/schedule/algorithm.hpp>
#include <hcomp/collective/sparse/sparse_plan.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/core/half.hpp>
#include <hcomp/exec/executor.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/feedback/error_feedback.hpp>
#include <hcomp/feedback/global_compensation.hpp>
#include <hcomp/feedback/sparsifier.hpp>
#include <hcomp/transport/any_transport.hpp>
#include <hcomp/transport/in_process.hpp>
#include <hcomp/transport/transport.hpp>
