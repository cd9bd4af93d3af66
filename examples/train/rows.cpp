#include "rows.hpp"

namespace hcomp {

template codec_table<float>& codec_rows<float>();

}  // namespace hcomp
