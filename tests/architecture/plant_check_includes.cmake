include(${CMAKE_CURRENT_LIST_DIR}/planted.cmake)

expect("headers that include what they name" ""
  include/hcomp/a.hpp "#include <hcomp/b.hpp>\n#include <cstdint>\n#include <vector>\nstd::vector<std::uint8_t> a"
  kernels/hcomp/b.hpp "// std::span in a comment\nint b = std::somewhere::span + std::unheard_of"
  plugins/hcomp/c.hpp "#include <cstring>\nstd::size_t c = std::strlen(nullptr)")
expect("a name whose header is not included"
  "include/hcomp/a.hpp names std::vector and does not include <vector>"
  include/hcomp/a.hpp "#include <span>\nstd::vector<int> a")
expect("a name whose header another header includes" "plugins/hcomp/a.hpp names std::span"
  include/hcomp/b.hpp "#include <span>"
  plugins/hcomp/a.hpp "#include <hcomp/b.hpp>\nstd::span<int> a")
expect("an algorithm of ranges" "kernels/hcomp/a.hpp names std::sort and does not include <algorithm>"
  kernels/hcomp/a.hpp "void a(int* x) { std::ranges::sort(x, x + 2); }")
expect("a name of several headers, of which there is none" "names std::size_t"
  include/hcomp/a.hpp "#include <cstdint>\nstd::size_t a")
expect("an include line in a comment" "names std::vector"
  include/hcomp/a.hpp "// #include <vector>\nstd::vector<int> a")
expect("no headers" "no headers below" README.md "# A")
