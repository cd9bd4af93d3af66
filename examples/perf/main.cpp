/// @file
/// Benchmarks all-reduce: hcomp's codecs and algorithms against the MPI library.
///
///     mpirun -n 4 hcomp_perf -b 8K -e 64M --codec identity,fp16,sign --algorithm ring,sampled

#include <mpi.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <hcomp/core/half.hpp>
#include <limits>
#include <optional>
#include <set>
#include <stdexcept>

#include "../support/interruption.hpp"
#include "../support/program.hpp"
#include "../support/transports.hpp"
#include "advice.hpp"
#include "contenders.hpp"
#include "device.hpp"
#include "machine.hpp"
#include "measure.hpp"
#include "mpi_algorithms.hpp"
#include "options.hpp"
#include "result.hpp"

namespace perf {

transports::transports(options const& o) : costs(o) {
  by_name_.emplace("mpi", example::make_transport("mpi"));
  for (auto const& name : o.transports)
    if (name == "ucx" && !by_name_.contains(name))
      by_name_.emplace(name, example::make_transport(name));
}

namespace {

int count_nodes() {
  std::array<char, MPI_MAX_PROCESSOR_NAME> mine{};
  int length = 0;
  MPI_Get_processor_name(mine.data(), &length);
  std::vector<std::array<char, MPI_MAX_PROCESSOR_NAME>> all(
      static_cast<std::size_t>(example::ranks()));
  MPI_Allgather(mine.data(), MPI_MAX_PROCESSOR_NAME, MPI_CHAR, all.data(), MPI_MAX_PROCESSOR_NAME,
                MPI_CHAR, example::comm);
  std::ranges::sort(all);
  return static_cast<int>(std::unique(all.begin(), all.end()) - all.begin());
}

/// Memory of the messages of a row; empty for host memory.
std::string about_messages(row const& one) {
  if (one.memory == "host") return "";
  if (one.memory == "shared")
    return fmt::format("{} by {}: in memory that the ranks share, without messages", one.name.codec,
                       one.name.transport);
  return fmt::format(
      "by {}: messages {}", one.name.transport,
      one.memory == "device" ? "in the device's memory" : "staged through pinned host memory");
}

/// Writes JSON and CSV. Rank 0 only.
void save(result const& all, options const& o) {
  if (!o.json.empty()) example::write_file(o.json, to_json(all).dump(1) + "\n");
  if (!o.csv.empty()) example::write_file(o.csv, to_csv(all));
}

/// Measures all sizes. Writes the results so far to the files after every size.
template <class T>
void measure_all(options const& o, input const& data, result& all, example::interruption& stop) {
  if (auto const most = std::ranges::max(sizes(o, sizeof(T))); most > data.values())
    throw std::runtime_error(fmt::format(
        "{} has {} values per rank, --max-bytes asks for {}; the largest is --max-bytes {}",
        o.input, data.values(), most, data.values() * sizeof(T)));
  transports by(o);
  double const typical = data.typical();
  if (!o.rate && example::ranks() > 1) {
    all.rate_was_measured = true;
    all.rate = 8 / by.costs.link("mpi", by.at("mpi")).seconds_per_byte;
  }
  if (!o.latency && example::ranks() > 1)
    all.latency = by.costs.link("mpi", by.at("mpi")).seconds_per_message;
  example::say("{}", table_head(all, o.type));
  if (example::ranks() == 1)
    example::say("# one rank sends nothing; for all-reduces: mpirun -n 2 hcomp_perf\n");
  std::set<std::string> ways_out;
  for (std::size_t const values : sizes(o, sizeof(T))) {
    if (values > static_cast<std::size_t>(std::numeric_limits<int>::max()))
      throw std::runtime_error(
          fmt::format("{} values of {} bytes are too many for MPI_Allreduce, "
                      "which counts to {}",
                      values, sizeof(T), std::numeric_limits<int>::max()));
    auto list = make_contenders<T>({o, values, typical, by});
    auto rows = measure(o, data, values, list, by.at("mpi"), stop);
    std::string said;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (all.rate > 0) rows[i].bound = list[i]->bytes_to_send * 8 / all.rate;
      if (auto const text = about_messages(rows[i]); ways_out.insert(text).second && !text.empty())
        example::say("# {}\n", text);
      example::say("{}", line(all, rows[i]));
      if (auto const& remark = list[i]->remark; !remark.empty() && remark != said)
        example::say("# {}\n", said = remark);
      all.rows.push_back(std::move(rows[i]));
    }
    if (stop.signal() != 0) return;
    example::together([&] {
      if (example::rank() == 0) save(all, o);
    });
  }
  all.is_complete = true;
}

/// Calls f.template operator()<T>() for the type of that name.
template <class F> void with_type(std::string const& name, F const& f) {
  if (name == "float") return f.template operator()<float>();
#ifdef HCOMP_PERF_ALL_TYPES
  if (name == "double") return f.template operator()<double>();
  if (name == "float16") return f.template operator()<hcomp::float16>();
  if (name == "bfloat16") return f.template operator()<hcomp::bfloat16>();
#endif
  throw std::runtime_error(fmt::format("--type {}: this program was built for float only", name));
}

/// --advise: measures codecs and, unless given, the link; prints the recommendations of the cost
/// model.
void advise(options const& o) {
  if (example::ranks() == 1 && !(o.rate && o.latency && o.ranks))
    throw std::runtime_error(
        "--advise on one rank cannot measure a network: give --rate, --latency and --ranks, or "
        "start more ranks");
  transports by(o);
  with_type(o.type, [&]<class T>() {
    auto const* const over = o.transports.front() == "ucx" ? "ucx" : "mpi";
    auto const costs = cost_table_of<T>({o, o.max_bytes / sizeof(T), 1, by}, over);
    hcomp::allowed_strategies allowed{{}, o.algorithms};
    for (auto const& one : costs.codecs) allowed.codecs.push_back(one.codec);
    example::say("{}", advice(costs, o.ranks.value_or(example::ranks()), sizes(o, sizeof(T)),
                              allowed, sizeof(T)));
  });
}

void write(result const& all, options const& o) {
  save(all, o);
  if (!all.is_complete) example::say("# interrupted: these are the results so far\n");
  if (!o.json.empty()) example::say("results in {}\n", o.json);
  if (!o.csv.empty()) example::say("table in {}\n", o.csv);
}

void run(options const& o) {
  example::together([&] {
    if (example::rank() != 0) return;
    for (auto const& file : {o.json, o.csv}) example::require_writable(file);
  });
  if (o.advise) return advise(o);
  result all;
  if (o.device == "cuda") {
    int const local = example::rank_on_host();
    example::together([&] { all.device = take_device(local); });
  }
  std::unique_ptr<input> data;
  example::together([&] {
    if (o.input.empty())
      data = std::make_unique<generated>(o.seed, o.density);
    else
      data = std::make_unique<npy_file>(o.input, example::ranks());
    if (!o.interface.empty()) bytes_sent_by(o.interface);
  });

  all.mpi = mpi_library();
  all.machine = this_machine();
  all.ranks = example::ranks();
  all.nodes = count_nodes();
  all.rate = o.rate.value_or(0);
  all.latency = o.latency.value_or(0);
  all.label = o.label;
  all.mean = o.mean;
  all.input = !o.input.empty() ? o.input
              : o.density < 1  ? fmt::format("normal values of density {}", o.density)
                               : "normal values";
  all.is_complete = false;
  example::interruption stop;
  with_type(o.type, [&]<class T>() { measure_all<T>(o, *data, all, stop); });

  example::together([&] {
    if (example::rank() == 0) write(all, o);
  });
  if (!all.is_complete) throw example::interrupted{stop.signal()};
  if (auto const text = complaints(all); o.check && !text.empty()) throw std::runtime_error(text);
}

/// Parses the command line. If a file is missing on some nodes, all ranks throw.
options parse_together(int argc, char** argv) {
  options asked;
  std::optional<example::usage> said;
  try {
    asked = parse(argc, argv);
  } catch (example::usage const& text) {
    said = text;
  }
  int of_rank_0 = said.has_value();
  MPI_Bcast(&of_rank_0, 1, MPI_INT, 0, example::comm);
  if (of_rank_0) throw said.value_or(example::usage{"", 1});
  example::together([&] {
    if (said) throw std::runtime_error(said->text);
  });
  return asked;
}

}  // namespace
}  // namespace perf

int main(int argc, char** argv) {
  perf::allow_mpi_algorithms();
  return example::main_of("hcomp_perf", argc, argv,
                          [](int c, char** v) { perf::run(perf::parse_together(c, v)); });
}
