#pragma once
/// @file
/// In-network aggregation of means: workers, packets, and aggregators that add integers as a switch
/// does.

#include <hcomp/collective/aggregation/aggregated_mean.hpp>
#include <hcomp/collective/aggregation/aggregation_layout.hpp>
#include <hcomp/collective/aggregation/aggregation_packet.hpp>
#include <hcomp/collective/aggregation/aggregator.hpp>
#include <hcomp/collective/aggregation/aggregator_options.hpp>
#include <hcomp/collective/aggregation/serve_aggregation.hpp>
#include <hcomp/transport/in_process_packets.hpp>
#include <hcomp/transport/lossy_packets.hpp>
#include <hcomp/transport/packet_link.hpp>
