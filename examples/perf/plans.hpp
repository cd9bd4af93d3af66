#pragma once
/// @file
/// hcomp's own ways to sum, over any transport: what knows nothing of MPI.

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

/// What is to be timed: vectors of one size.
struct job {
  options const& o;
  std::size_t values;
  double typical;  ///< mean |x|: what one sign decodes to
  transports& by;
};

/// Codecs for values of type T that --codec can name: hcomp's, those of --codecs, and what this
/// program has besides to compare with.
template <class T> hcomp::codec_registry<T>& codecs();

/// Every algorithm that is asked for and goes with the codec. Collective.
/// @throws std::runtime_error, std::invalid_argument  an unknown codec, on all ranks alike
template <class T>
void add_plans(contender_list<T>& list, job const& it, std::string const& codec,
               std::string const& transport);

/// The plan that chooses among the codecs and algorithms that are asked for. Collective.
template <class T>
void add_automatic(contender_list<T>& list, job const& it, std::string const& transport);

/// The costs of the codecs that are asked for, and of the link. Collective.
template <class T> hcomp::cost_table cost_table_of(job const& it, std::string const& transport);

/// What values cost as they are, over MPI. Collective.
template <class T> hcomp::codec_cost const& identity_cost(job const& it);

}  // namespace perf
