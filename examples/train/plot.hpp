#pragma once
/// @file
/// A comparison as a picture, drawn by gnuplot.

#include <string>

#include "report.hpp"

namespace train {

/// Accuracy, or else held-out loss, and training loss against bytes sent and against time: mean
/// over the seeds as a line, smallest to largest as a band.
/// Against time without what goes by way of aggregators, whose packets travel in simulated time.
/// @param all   every curve has an observation after the first step
/// @param file  an SVG file, overwritten
/// @throws std::runtime_error  gnuplot is missing or fails
void plot(comparison const& all, std::string const& file);

}  // namespace train
