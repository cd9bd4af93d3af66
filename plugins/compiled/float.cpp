#include <hcomp/collective/by_name/detail/builtin_rows.hpp>

namespace hcomp {

template codec_table<float>& codec_rows<float>();
template codec_table<float> const& detail::rounding_codecs<float>();

}  // namespace hcomp
