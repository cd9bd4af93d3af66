include(${CMAKE_CURRENT_LIST_DIR}/planted.cmake)

set(b bench)  # the check reads this file, too
set(source include/a.hpp "struct real_name {}")
set(page README.md text)
expect("names that exist" "" ${source} tests/bench/fast.cpp "// ${b}_fast" tests/x/cut_it_test.cpp x
  README.md "`real_name`, `test_x.cut_it`, `MPI_Comm_spawn`, `${b}_fast`, plain old_name")
expect("a name that does not exist" "README.md names old_name, which no source file contains"
  ${source} README.md "see `real_name(old_name)`")
expect("a name that only a page has" "b/README.md names old_name, which no source file contains"
  ${source} README.md "old_name" b/README.md "`old_name`")
expect("a benchmark in a command" "README.md names ${b}_slow, but there is no tests/bench/slow"
  tests/bench/fast.cpp x README.md "```sh\nbuild/tests/bench/${b}_slow\n```")
expect("a benchmark in a comment" "include/a.hpp names ${b}_slow, but there is no tests/bench/slow"
  ${page} include/a.hpp "// ${b}_slow")
expect("words not to use" "" ${page} CONTRIBUTING.md "`old_name`")
expect("no page" "there is no page below" ${source})
