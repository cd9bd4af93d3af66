#include <hcomp/collective/by_name/detail/builtin_rows.hpp>

namespace hcomp {

template codec_table<float16>& codec_rows<float16>();
template codec_table<float16> const& detail::rounding_codecs<float16>();

}  // namespace hcomp
