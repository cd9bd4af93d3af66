#pragma once
/// @file
/// Umbrella header of the MPI plug-in.

#include <hcomp/mpi/call.hpp>
#include <hcomp/mpi/communicators.hpp>
#include <hcomp/mpi/device_memory.hpp>
#include <hcomp/mpi/exchange.hpp>
#include <hcomp/mpi/native_sum.hpp>
#include <hcomp/mpi/op.hpp>
#include <hcomp/mpi/packets.hpp>
#include <hcomp/mpi/sparse.hpp>
#include <hcomp/mpi/transport.hpp>
#include <hcomp/mpi/ulfm.hpp>
