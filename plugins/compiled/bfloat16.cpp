#include <hcomp/collective/by_name/detail/builtin_rows.hpp>

namespace hcomp {

template codec_table<bfloat16>& codec_rows<bfloat16>();
template codec_table<bfloat16> const& detail::rounding_codecs<bfloat16>();

}  // namespace hcomp
