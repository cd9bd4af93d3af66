#pragma once
/// @file
/// Interfaces for new codecs and for direct encoding: codec concepts, registry entries, and
/// functions that encode, merge and decode vectors. Plans are in hcomp.hpp.

#include <hcomp/codec/block_header.hpp>
#include <hcomp/codec/compressor.hpp>
#include <hcomp/codec/device_hints.hpp>
#include <hcomp/codec/inceptionn/bursts.hpp>
#include <hcomp/codec/registry.hpp>
#include <hcomp/codec/sparse.hpp>
#include <hcomp/codec/variable_rate.hpp>
#include <hcomp/codec/variable_rate_codec.hpp>
#include <hcomp/collective/agreement/agreement.hpp>
#include <hcomp/collective/by_name/codec_entry.hpp>
#include <hcomp/collective/by_name/codec_info.hpp>
#include <hcomp/collective/by_name/make_codec_entry.hpp>
#include <hcomp/collective/engine/variable_rate_coder.hpp>
#include <hcomp/collective/plan/any_parts.hpp>
#include <hcomp/collective/plan/encoded_parts.hpp>
#include <hcomp/collective/plan/encoded_vector.hpp>
#include <hcomp/core/bernoulli.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/codec_ids.hpp>
#include <hcomp/core/compensated.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/core/group.hpp>
#include <hcomp/core/hash.hpp>
#include <hcomp/core/random.hpp>
#include <hcomp/core/simd.hpp>
#include <hcomp/core/simd_level.hpp>
#include <hcomp/exec/mirror.hpp>
#include <hcomp/feedback/feedback.hpp>
#include <hcomp/op/block_work.hpp>
#include <hcomp/op/encode.hpp>
#include <hcomp/op/encoded_layout.hpp>
