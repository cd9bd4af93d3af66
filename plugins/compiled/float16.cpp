#include <hcomp/collective/by_name/detail/builtin_entries.hpp>

namespace hcomp {

template codec_registry<float16>& registered_codecs<float16>();
template codec_registry<float16> const& detail::rounding_codecs<float16>();

}  // namespace hcomp
