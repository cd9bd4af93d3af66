#include <hcomp/collective/by_name/detail/builtin_entries.hpp>

namespace hcomp {

template codec_registry<bfloat16>& registered_codecs<bfloat16>();
template codec_registry<bfloat16> const& detail::rounding_codecs<bfloat16>();

}  // namespace hcomp
