include(${CMAKE_CURRENT_LIST_DIR}/planted.cmake)

set(headers
  include/hcomp/codec/a.hpp "// a"
  include/hcomp/codec/detail/b.hpp "// not public"
  include/hcomp/core/version.hpp "// version"
  include/hcomp/op/c.hpp "// c")
set(a "#include <hcomp/codec/a.hpp>\n")
set(version "#include <hcomp/core/version.hpp>\n")
set(c "#include <hcomp/op/c.hpp>\n")
set(umbrella include/hcomp/hcomp.hpp)

expect("a sorted umbrella" "" ${headers} ${umbrella} "#pragma once\n/// @file\n\n${a}${version}${c}")
expect("the version in front" "" ${headers} ${umbrella} "#pragma once\n${version}\n${a}${c}")
expect("a header in another umbrella" ""
  ${headers} ${umbrella} "#pragma once\n${a}${version}" include/hcomp/more.hpp "#pragma once\n${c}")
expect("a header in two umbrellas" "named in more.hpp and in hcomp.hpp"
  ${headers} ${umbrella} "#pragma once\n${a}${version}${c}"
  include/hcomp/more.hpp "#pragma once\n${c}")
expect("no umbrella" "there is no include/hcomp/hcomp.hpp" ${headers})
expect("a header that is missing" "no umbrella has <hcomp/op/c.hpp>"
  ${headers} ${umbrella} "#pragma once\n${a}${version}")
expect("a header that does not exist" "<hcomp/op/d.hpp>, which is not a public header"
  ${headers} ${umbrella} "#pragma once\n${a}${version}${c}#include <hcomp/op/d.hpp>")
expect("a header of a detail folder" "detail/b.hpp>, which is not a public header"
  ${headers} ${umbrella} "#pragma once\n${a}#include <hcomp/codec/detail/b.hpp>\n${version}${c}")
expect("an unsorted umbrella" "are not sorted"
  ${headers} ${umbrella} "#pragma once\n${c}${a}${version}")
expect("a header named twice" "named twice"
  ${headers} ${umbrella} "#pragma once\n${a}${a}${version}${c}")
expect("code in another umbrella" "more.hpp holds only comments and includes, not: namespace"
  ${headers} ${umbrella} "#pragma once\n${a}${version}"
  include/hcomp/more.hpp "#pragma once\n${c}namespace hcomp {}")
expect("code in the umbrella" "holds only comments and includes, not: namespace"
  ${headers} ${umbrella} "#pragma once\n${a}${version}${c}namespace hcomp {}")
