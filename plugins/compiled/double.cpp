#include <hcomp/collective/by_name/detail/builtin_entries.hpp>

namespace hcomp {

template codec_registry<double>& registered_codecs<double>();
template codec_registry<double> const& detail::rounding_codecs<double>();

}  // namespace hcomp
