#pragma once
/// @file
/// Means by way of aggregators, which add integers as a switch does: workers, servers and packets.

#include <hcomp/collective/aggregation/aggregated_mean.hpp>
#include <hcomp/collective/aggregation/aggregation_layout.hpp>
#include <hcomp/collective/aggregation/aggregation_packet.hpp>
#include <hcomp/collective/aggregation/aggregator.hpp>
#include <hcomp/collective/aggregation/aggregator_options.hpp>
#include <hcomp/collective/aggregation/serve_aggregation.hpp>
#include <hcomp/transport/in_process_packets.hpp>
#include <hcomp/transport/lossy_packets.hpp>
#include <hcomp/transport/packet_link.hpp>
