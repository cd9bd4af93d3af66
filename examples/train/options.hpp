#pragma once
/// @file
/// Options of the command line.

#include <cstdint>
#include <hcomp/collective/schedule/algorithm.hpp>
#include <optional>
#include <string>
#include <vector>

#include "models.hpp"
#include "skip_gram_settings.hpp"
#include "text.hpp"
#include "trial.hpp"

namespace train {

struct options {
  model_kind const* model = &models.front();
  std::vector<trial> trials;
  std::optional<hcomp::algorithm> algorithm;  ///< none: the default of the method
  /// HOST:PORT of hcomp-aggregator, for trials with aggregators; empty: the ranks are aggregators.
  std::vector<std::string> aggregators;
  int deadline_ms = 100;  ///< deadline of hcomp-aggregator's sums
  std::string transport = "mpi";
  int ranks = 0;                ///< number of ranks that are threads; 0: the ranks of MPI
  std::string device = "host";  ///< or "cuda"
  double link = 0;              ///< Gbit/s at which a rank may send; 0: no limit
  int threads = 1;

  std::string data;
  std::vector<int> hidden{500, 500, 500, 500};  ///< mlp
  corpus_settings words;                        ///< embedding
  skip_gram_settings vectors;                   ///< embedding
  double epochs = 0;
  int batch = 0;                                    ///< per rank
  std::string partition = "shuffled";               ///< or "by_label"; mlp
  std::optional<double> rate, momentum, sign_step;  ///< replace those of all methods
  std::uint64_t period = 100;                       ///< marsit, marsit_full and local_sgd
  std::uint64_t warm_up = 20;                       ///< marsit and marsit_inf
  double flush_limit = 2e-3;                        ///< marsit
  int powersgd_rank = 4;
  double resync =
      1;  ///< epochs between averagings of replicas that may drift apart; 0: only at the end
  std::uint64_t seed = 1;
  int seeds = 1;

  std::string json, dump;         ///< files to write; empty: none
  std::uint64_t dump_step = 100;  ///< step of `dump`, counted from 1
  bool check = false;
  std::optional<double> within;
};

/// @throws example::usage
options parse(int argc, char const* const* argv);

}  // namespace train
