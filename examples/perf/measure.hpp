#pragma once
/// @file
/// The measurement loop: calls all contenders in turns.

#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <hcomp/transport/any_transport.hpp>
#include <vector>

#include "../support/interruption.hpp"
#include "../support/program.hpp"
#include "contenders.hpp"
#include "exact.hpp"
#include "input.hpp"
#include "options.hpp"
#include "result.hpp"
#include "wire_counter.hpp"

namespace perf {

/// Measurements of one contender on one rank.
struct samples {
  std::vector<double> seconds, encode, communicate, merge, decode;
  double bytes_sent = 0, bytes_on_wire = 0;  ///< over all calls

  void add(double call, hcomp::report const& r) {
    seconds.push_back(call);
    encode.push_back(r.seconds_encode);
    communicate.push_back(r.seconds_communicate);
    merge.push_back(r.seconds_merge);
    decode.push_back(r.seconds_decode);
    bytes_sent += static_cast<double>(r.bytes_sent);
  }
};

/// Combines the ranks' samples of one contender. Collective.
inline void unite(samples const& mine, bool counts_bytes, bool counts_wire, row& out) {
  auto const calls = static_cast<int>(mine.seconds.size());
  auto const of_all = [](double metric) {
    std::vector<double> all(static_cast<std::size_t>(example::ranks()));
    MPI_Allgather(&metric, 1, MPI_DOUBLE, all.data(), 1, MPI_DOUBLE, example::comm);
    return spread::of(all);
  };
  out.seconds = of_all(spread::of(mine.seconds).median);
  out.calls.resize(mine.seconds.size());
  MPI_Allreduce(mine.seconds.data(), out.calls.data(), calls, MPI_DOUBLE, MPI_MAX, example::comm);
  out.seconds_encode = of_all(spread::of(mine.encode).median).most;
  out.seconds_communicate = of_all(spread::of(mine.communicate).median).most;
  out.seconds_merge = of_all(spread::of(mine.merge).median).most;
  out.seconds_decode = of_all(spread::of(mine.decode).median).most;
  if (counts_bytes) out.bytes_sent = of_all(mine.bytes_sent).most / calls;
  if (counts_wire) out.bytes_on_wire = of_all(mine.bytes_on_wire).most / calls;
}

/// Times all contenders on vectors of `values` values. Returns one row per contender, in their
/// order. Collective.
///
/// Every rank times a call from a barrier to its return. Every round calls each contender once, so
/// that other load of machine and network affects all contenders. The results of the first round
/// are compared with the exact sum; this round is not timed. A signal ends the measurement before
/// the next call. Contenders without a timed call then have no row.
template <class T>
std::vector<row> measure(options const& o, input const& data, std::size_t values,
                         contender_list<T>& list, hcomp::any_transport& transport,
                         example::interruption& stop) {
  using clock = std::chrono::steady_clock;
  auto const since = [](clock::time_point t) {
    return std::chrono::duration<double>(clock::now() - t).count();
  };
  std::vector<float> plain(values);
  data.read(example::rank(), 0, plain);
  std::vector<T> const original(plain.begin(), plain.end());
  plain = {};
  std::vector<T> x(values);
  hcomp::call_options call{.seed = o.seed,
                           .op = o.mean ? hcomp::reduce_op::mean : hcomp::reduce_op::sum};
  auto const counter = [&] { return o.interface.empty() ? 0 : bytes_sent_by(o.interface); };

  std::vector<row> rows(list.size());
  std::vector<samples> seen(list.size());
  {
    exact_sum<T> const exact(data, values, o.mean);
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (stop.signal() != 0) return {};
      x = original;
      list[i]->bring(x);
      auto const stats = list[i]->run(x, call);
      list[i]->fetch(x);
      auto const verdict = exact.judge(x, list[i]->accuracy, stats.error, transport);
      rows[i].count = values;
      rows[i].bytes = values * sizeof(T);
      rows[i].type = o.type;
      rows[i].name = list[i]->name;
      rows[i].memory = list[i]->memory;
      rows[i].error = verdict.error;
      rows[i].same_bits = verdict.same_bits;
      rows[i].as_promised = verdict.as_promised;
    }
  }
  auto const start = clock::now();
  for (int round = 1; round < o.warm_up + o.calls; ++round) {
    bool const timed = round >= o.warm_up;
    call.step = static_cast<std::uint64_t>(round);
    for (std::size_t i = 0; i < list.size() && stop.signal() == 0; ++i) {
      x = original;
      list[i]->bring(x);
      MPI_Barrier(example::comm);
      auto const wire = counter();
      auto const begin = clock::now();
      auto const stats = list[i]->run(x, call);
      double const seconds = since(begin);
      if (timed) {
        seen[i].add(seconds, stats);
        MPI_Barrier(example::comm);  // messages that a rank forwards belong to this call
        seen[i].bytes_on_wire += static_cast<double>(counter() - wire);
      }
    }
    int enough = timed && seen[0].seconds.size() >= 3 && since(start) > o.seconds;
    MPI_Bcast(&enough, 1, MPI_INT, 0, example::comm);
    if (enough || stop.signal() != 0) break;
  }
  rows.resize(static_cast<std::size_t>(
      std::ranges::count_if(seen, [](samples const& one) { return !one.seconds.empty(); })));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    bool const is_plan = list[i]->name.codec != "raw" && list[i]->name.transport != "op";
    unite(seen[i], is_plan, !o.interface.empty(), rows[i]);
    rows[i].predicted = list[i]->predicted_seconds;
    rows[i].vs_mpi = speed_up(rows[0], rows[i]);
  }
  return rows;
}

}  // namespace perf
