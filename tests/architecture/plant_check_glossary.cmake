include(${CMAKE_CURRENT_LIST_DIR}/planted.cmake)

set(head "| word | meaning | not | names | in |\n|---|---|---|---|---|\n")
set(plain "| **code** | bytes | | | |\n")
set(worker "| **worker** | a thread | a lane | `lane()` `lane_*` `*_lanes` | `include` |\n")
set(tag "| **tag** | of messages | | `tag` `tags*` but `tags_of` | `include` but `include/ucx` |\n")
set(page CONTRIBUTING.md "${head}${plain}${worker}${tag}")

expect("code that keeps the words" "" ${page}
  include/a.hpp "// lane() and tag in a comment\n#include <a/tag.hpp>\nint const a = f(\"tag\"), tags_of"
  include/ucx/b.hpp "int tag"
  src/c.cpp "int tag")
expect("a name" "include/a.hpp:3: 'tag' breaks the word 'tag'" ${page}
  include/ucx/b.hpp "// b" include/a.hpp "int a[2]\n\nint tag")
expect("a name with more letters behind" "include/a.hpp:1: 'lane_id' breaks the word 'worker'" ${page}
  include/ucx/b.hpp "// b" include/a.hpp "int lane_id")
expect("a name with more letters in front" "include/d/a.cu:2: 'all_lanes' breaks the word 'worker'"
  ${page} include/ucx/b.hpp "// b" include/d/a.cu "int all\nint all_lanes = all")
expect("a call" "include/a.hpp:2: 'lane.*' breaks the word 'worker'" ${page}
  include/ucx/b.hpp "// b" include/a.hpp "int i =\n    group.lane()")
expect("a name in a folder that another word excepts" "include/ucx/b.hpp:1: 'lane_id' breaks" ${page}
  include/ucx/b.hpp "int lane_id, tag")
expect("a row with too few columns" "has not five columns"
  CONTRIBUTING.md "${head}${worker}| **tag** | of messages | `tag` |" include/a.hpp "// a")
expect("names without folders" "has names without folders"
  CONTRIBUTING.md "${head}${worker}| **tag** | of messages | | `tag` | |" include/a.hpp "// a")
expect("a folder that is not there" "is about kernels, which does not exist"
  CONTRIBUTING.md "${head}${worker}| **tag** | of messages | | `tag` | `kernels` |" include/a.hpp "// a")
expect("a page without words" "no glossary with names" CONTRIBUTING.md "# Contributing" include/a.hpp "// a")
expect("no page" "there is no CONTRIBUTING.md" include/a.hpp "int tag")
