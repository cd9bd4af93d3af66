#pragma once
/// @file
/// What can be said on the command line.

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
  std::optional<hcomp::algorithm> algorithm;  ///< none: which way suits the method
  /// Addresses of hcomp-aggregator, for trials by aggregators; none: the ranks themselves are these.
  std::vector<std::string> aggregators;
  int deadline_ms = 100;  ///< of their sums
  std::string transport = "mpi";
  int ranks = 0;                ///< so many threads of one process; 0: the ranks are those of MPI
  std::string device = "host";  ///< or "cuda"
  double link = 0;              ///< Gbit/s at which a rank may send; 0: as fast as it can
  int threads = 1;

  std::string data;
  std::vector<int> hidden{500, 500, 500, 500};  ///< of mlp
  corpus_settings words;                        ///< of embedding
  skip_gram_settings vectors;                   ///< of embedding
  double epochs = 0;
  int batch = 0;                                    ///< per rank
  std::optional<double> rate, momentum, sign_step;  ///< for all methods, instead of their own
  std::uint64_t period = 100;                       ///< of marsit
  std::uint64_t warm_up = 20;                       ///< of marsit and marsit_inf
  double flush_limit = 2e-3;                        ///< of marsit
  double resync =
      1;  ///< epochs after which replicas that may have drifted are averaged; 0: the end
  std::uint64_t seed = 1;
  int seeds = 1;

  std::string json, dump;         ///< files to write; empty: none
  std::uint64_t dump_step = 100;  ///< whose gradients go to `dump`, counted from 1
  bool check = false;
  std::optional<double> within;
};

/// @throws example::usage
options parse(int argc, char const* const* argv);

}  // namespace train
