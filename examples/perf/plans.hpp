#pragma once
/// @file
/// All-reduce plans of hcomp over any transport. This part does not use MPI.

#include <hcomp/collective/by_name/codec_entry.hpp>
#include <hcomp/collective/by_name/codec_info.hpp>
#include <hcomp/collective/cost/costs.hpp>
#include <memory>
#include <string>
#include <vector>

#include "contender.hpp"
#include "options.hpp"
#include "transports.hpp"

namespace perf {

template <class T> using contender_list = std::vector<std::unique_ptr<contender<T>>>;

/// Vectors of one size to be timed.
struct job {
  options const& o;
  std::size_t values;
  double typical;  ///< mean |x|: the magnitude of sign codecs
  transports& by;
};

/// Codecs that --codec can name, for values of type T: those of hcomp, those of --codecs, and zfp
/// for comparison.
template <class T> hcomp::codec_registry<T>& codecs();

/// Adds the codec with all algorithms of the command line that it supports. Collective.
/// @throws std::runtime_error, std::invalid_argument  an unknown codec; on all ranks
template <class T>
void add_plans(contender_list<T>& list, job const& it, std::string const& codec,
               std::string const& transport);

/// Adds an automatic_plan that chooses among codecs and algorithms of the command line. Collective.
template <class T>
void add_automatic(contender_list<T>& list, job const& it, std::string const& transport);

/// Costs of the link and of the command line's codecs. Collective.
template <class T> hcomp::cost_table cost_table_of(job const& it, std::string const& transport);

/// Costs of codec identity over MPI. Collective.
template <class T> hcomp::codec_cost const& identity_cost(job const& it);

}  // namespace perf
