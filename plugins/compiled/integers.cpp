#include <cstdint>
#include <hcomp/collective/by_name/detail/builtin_entries.hpp>

namespace hcomp {

template codec_registry<std::int32_t>& registered_codecs<std::int32_t>();
template codec_registry<std::int64_t>& registered_codecs<std::int64_t>();

}  // namespace hcomp
