#pragma once
/// @file
/// The error of a result against the exact sum.

#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <hcomp/collective/agreement/digest.hpp>
#include <span>
#include <vector>

#include "../support/program.hpp"
#include "contender.hpp"
#include "input.hpp"

namespace perf {

struct verdict {
  double error = 0;  ///< |result - exact| / |exact|, Euclidean norms over the whole vector
  bool same_bits = true;
  bool as_promised = true;
};

/// The exact sum or mean of the ranks' inputs. Every rank computes and checks one part of the
/// vector. A separate check compares the results of all ranks.
template <class T> class exact_sum {
 public:
  /// Collective.
  exact_sum(input const& data, std::size_t values, bool mean) {
    auto const ranks = static_cast<std::size_t>(example::ranks());
    auto const rank = static_cast<std::size_t>(example::rank());
    first_ = values * rank / ranks;
    sum_.assign(values * (rank + 1) / ranks - first_, 0);
    magnitude_ = sum_;
    has_zero_.assign(sum_.size(), false);
    std::vector<float> x(sum_.size());
    double const scale = mean ? 1.0 / static_cast<double>(ranks) : 1;
    for (int r = 0; r < example::ranks(); ++r) {
      data.read(r, first_, x);
      for (std::size_t i = 0; i < x.size(); ++i) {
        double const summand = static_cast<double>(static_cast<T>(x[i])), value = summand * scale;
        sum_[i] += value;
        magnitude_[i] += std::abs(value);
        largest_ = std::max(largest_, std::abs(summand));
        if (value == 0) has_zero_[i] = true;
      }
    }
    MPI_Allreduce(MPI_IN_PLACE, &largest_, 1, MPI_DOUBLE, MPI_MAX, example::comm);
  }

  /// Compares a result with the exact one. Collective.
  /// @param told  largest error of a value by the call's report; 0: not reported
  template <class Transport>
  verdict judge(std::span<T const> result, promise const& what, double told,
                Transport& transport) const {
    enum { error, exact, allowed, wrong_signs, too_far };
    double total[5] = {};
    for (std::size_t i = 0; i < sum_.size(); ++i) {
      double const value = static_cast<double>(result[first_ + i]);
      total[error] += (value - sum_[i]) * (value - sum_[i]);
      total[exact] += sum_[i] * sum_[i];
      total[allowed] += magnitude_[i] * magnitude_[i];
      // sign codecs decode 0 to a positive or negative value
      bool const unanimous = std::abs(sum_[i]) == magnitude_[i] && !has_zero_[i];
      if (what.keeps_unanimous_signs && unanimous && std::signbit(value) != std::signbit(sum_[i]))
        ++total[wrong_signs];
      double const off = std::abs(value - sum_[i]);
      double const slack = 0x1p-48 * magnitude_[i];  // rounding of the exact sum
      hcomp::summed_value const one{example::ranks(), magnitude_[i], sum_[i], largest_};
      if ((what.largest_error && !(off <= what.largest_error(one))) ||
          (told > 0 && !(off <= told + slack)))
        ++total[too_far];
    }
    MPI_Allreduce(MPI_IN_PLACE, total, 5, MPI_DOUBLE, MPI_SUM, example::comm);
    verdict v;
    v.error = total[exact] > 0 ? std::sqrt(total[error] / total[exact])
                               : (total[error] > 0 ? INFINITY : 0);
    v.same_bits = hcomp::digest(result, transport).same();
    v.as_promised = total[wrong_signs] == 0 && total[too_far] == 0;
    if (what.relative_error)  // false for NaN
      v.as_promised &= std::sqrt(total[error]) <= *what.relative_error * std::sqrt(total[allowed]);
    return v;
  }

 private:
  std::size_t first_ = 0;
  std::vector<double> sum_, magnitude_;
  double largest_ = 0;          ///< largest magnitude of a summand, over all ranks
  std::vector<bool> has_zero_;  ///< the value of some rank is 0
};

}  // namespace perf
