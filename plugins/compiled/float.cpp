#include <hcomp/collective/by_name/detail/builtin_entries.hpp>

namespace hcomp {

template codec_registry<float>& registered_codecs<float>();
template codec_registry<float> const& detail::rounding_codecs<float>();

}  // namespace hcomp
