#include <hcomp/collective/by_name/detail/builtin_rows.hpp>

namespace hcomp {

template codec_table<double>& codec_rows<double>();
template codec_table<double> const& detail::rounding_codecs<double>();

}  // namespace hcomp
