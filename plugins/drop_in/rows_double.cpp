#include "rows.hpp"

namespace hcomp {

template codec_table<double>& codec_rows<double>();

}  // namespace hcomp
