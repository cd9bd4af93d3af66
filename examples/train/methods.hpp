#pragma once
/// @file
/// The methods of `train`, each with its tuned settings.

#include <array>
#include <string>
#include <string_view>

namespace train {

/// A name for --codec, and its default settings for training.
///
/// The settings of each method were tuned separately, on Fashion-MNIST with four ranks: learning
/// rate from 0.02 to 0.2, momentum 0 and 0.9, sign step from 3e-5 to 2e-3.
/// Exceptions: dist_ef_sign, drive, powersgd and local_sgd have the settings of ef_sign, and
/// marsit_full those of marsit. For other networks and numbers of ranks, use search.py.
struct method {
  std::string_view name;
  std::string_view what;
  std::string_view codec;   ///< codec for make_plan; empty: the method is more than a codec
  double rate;              ///< initial learning rate; decreases linearly to 0
  double momentum;          ///< of each rank's gradient, before communication
  double sign_step;         ///< initial move of a parameter by one sign; 0: sends no signs
  bool aggregated = false;  ///< supports aggregators, --late and --lost
};

inline constexpr std::array methods{
    method{"fp32", "all-reduce in full precision", "identity", 0.02, 0.9, 0},
    method{"fp16", "all-reduce in half precision", "fp16", 0.02, 0.9, 0},
    method{"bf16", "all-reduce in bfloat16", "bf16", 0.02, 0.9, 0},
    method{"majority_vote", "signSGD: the majority of the gradients' signs", "", 1, 0, 1e-4},
    method{"signum", "the same with momentum before the sign", "", 1, 0.9, 1e-4},
    method{"ef_sign", "EF-signSGD: scaled signs with error feedback, to all ranks", "", 0.02, 0.9,
           0},
    method{"dist_ef_sign", "the same in two phases, with error feedback of owners, too", "", 0.02,
           0.9, 0},
    method{"drive", "DRIVE: signs of rotated blocks in two phases, unbiased", "", 0.02, 0.9, 0},
    method{"powersgd", "PowerSGD: low-rank products per layer, with error feedback", "", 0.02, 0.9,
           0},
    method{"thc", "THC: 4-bit table indices, with error feedback", "thc", 0.02, 0.9, 0, true},
    method{"uniform_thc", "the same with equidistant levels", "uniform_thc", 0.02, 0.9, 0, true},
    method{"sparse", "only values that are not 0 on some rank", "lossless_sparse", 0.02, 0.9, 0},
    method{"sparse_fixed", "the same in fixed point, exact", "lossless_sparse:fixed=32", 0.02, 0.9,
           0},
    method{"fixed", "all values in the same fixed point",
           "lossless_sparse:fixed=32,packed=no,sketched=no", 0.02, 0.9, 0},
    method{"top_k", "the largest 1 % of values, or :share=SHARE, with error feedback", "top_k",
           0.02, 0.9, 0},
    method{"inceptionn",
           "INCEPTIONN: 2 to 34 bits per value; :E, 10: error 4 sqrt(P) 2^-E of the peak",
           "inceptionn:nearest=yes", 0.02, 0.9, 0},
    method{"error_bounded", "quantized to integers; :BOUND, 1e-5: largest error of an update",
           "error_bounded:bound=1e-5", 0.02, 0.9, 0},
    method{"marsit", "one bit per value, full precision every --period steps", "", 0.1, 0, 1e-3},
    method{"marsit_inf", "one bit per value, never full precision", "", 0.1, 0, 1e-3},
    method{"marsit_full", "Marsit's steps in full precision alone; others send and move nothing",
           "", 0.1, 0, 0},
    method{"local_sgd", "ranks train alone; parameters are averaged every --period steps", "", 0.02,
           0.9, 0},
};

/// Methods that support CUDA device memory. The list is short, because nvcc takes some seconds for
/// each method.
inline constexpr std::array<std::string_view, 9> methods_on_device{
    "fp32",       "fp16",          "majority_vote", "signum",    "thc",
    "inceptionn", "error_bounded", "marsit",        "marsit_inf"};

/// The method called `name`. If no method has this name, the mean with hcomp's codec of this name,
/// with the rate and momentum of the other means. Null if no codec has this name either.
method const* find_method(std::string_view name);

}  // namespace train
