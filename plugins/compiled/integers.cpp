#include <cstdint>
#include <hcomp/collective/by_name/detail/builtin_rows.hpp>

namespace hcomp {

template codec_table<std::int32_t>& codec_rows<std::int32_t>();
template codec_table<std::int64_t>& codec_rows<std::int64_t>();

}  // namespace hcomp
