#pragma once
/// @file
/// Charts of what was measured, drawn by gnuplot, as SVG elements for an HTML page.

#include <string>
#include <string_view>
#include <vector>

#include "network.hpp"

namespace perf {

/// The colour of every codec on a page and the mark of every algorithm.
class looks {
 public:
  explicit looks(std::vector<network> const& all);
  /// "#rrggbb"
  std::string color(std::string_view codec) const;
  struct mark {
    int point;           ///< gnuplot's number
    char const* symbol;  ///< the same as a character
  };
  static mark mark_of(std::string_view algorithm);

 private:
  std::vector<std::pair<std::string, std::string>> colors_;
};

/// Time over size: the MPI libraries' own in grey, every codec in its colour and every algorithm
/// with its mark; the fastest of a codec is drawn thick and with the time that its link needs.
/// @throws std::runtime_error  gnuplot is missing or fails
std::string time_chart(network const& all, looks const& look, std::string const& id);

/// Speed-up over rate: of every codec the fastest way.
std::string speed_up_chart(rate_series const& all, looks const& look, std::string const& id);

}  // namespace perf
