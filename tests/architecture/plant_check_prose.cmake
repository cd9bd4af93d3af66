include(${CMAKE_CURRENT_LIST_DIR}/planted.cmake)

set(counts tests/architecture/prose_counts.txt)
set(none ${counts} "# folder habits lines paragraphs\nplugins/x 0 0 0")
set(page plugins/x/README.md)
string(REPEAT "word " 80 allowed)
string(REPEAT "a " 40 forty)

# ---- Habits --------------------------------------------------------------------------------------
expect("a page without habits" "" ${none} ${page} "# Quick start

It `looks` twice as many times as MPI sums, both ways. What has changed? The kernel sums partial sums.

```
whoever looks for others
```")
expect("comments without habits" "" ${none}
  plugins/x/a.cpp "char const* a = \"// whoever\", b = '\"', *c = R\"(// others)\"\nint others"
  plugins/x/a.py "a = '# whoever'\nb = \"\"\"others\"\"\""
  plugins/x/a.sh "# A comment\necho '# whoever'\necho \${a#others}")

set(habits
  "whoever" "It tells whoever asks."
  "others" "One rank waits for the others."
  "such as ... has" "A link such as a phone has is slow."
  "of which" "Two codecs, one of which is exact."
  "so many" "Of so many bits."
  "by way of" "They come by way of a node."
  "goes by" "It goes by the size."
  "is there for" "The table is there for readers."
  "as many" "It takes as many bytes."
  "quick" "It takes the quicker one."
  "whole sums" "It sends whole sums back."
  "ways" "It has two ways to go."
  "looks" "It looks at the header."
  "what ... says/has" "It prints what the page says."
  "sums" "It starts two sums.")
while(habits)
  list(POP_FRONT habits habit sentence)
  expect("the habit '${habit}'" "${page}:3: '${habit}' in: ${sentence}"
    ${none} ${page} "# A page\n\n${sentence} The next sentence is fine.")
endwhile()
expect("a habit in a table" "${page}:3: 'ways'" ${none} ${page} "| a | b |\n|---|---|\n| 1 | two ways |")
expect("a habit over two lines" "${page}:2: 'of which'" ${none} ${page} "# A\nOne of\nwhich is exact.")

# ---- Comments of all languages, and the rows they belong to --------------------------------------
foreach(file
    "a.cpp://" "a.cu:///" "a.h:/*" "a.c: * /*" "a.py:#" "a.cmake:#" "CMakeLists.txt:#" "a.sh:#" "a.f90:!>")
  string(REGEX MATCH "^[^:]+" name ${file})
  string(REGEX REPLACE "^[^:]+:" "" marker ${file})
  set(end "")
  if(marker MATCHES "[*]")
    set(end " */")
    string(REGEX REPLACE "^ [*] " "x " marker "${marker}")
  endif()
  expect("a habit in a comment of ${name}" "plugins/x/${name}:2: 'whoever' in: Whoever asks"
    ${none} plugins/x/${name} "\n${marker} Whoever asks${end}")
endforeach()
expect("a habit in a docstring" "plugins/x/a.py:3: 'whoever'"
  ${none} plugins/x/a.py "def f():\n  \"\"\"Calls back\n  whoever asks.\"\"\"")
expect("a habit beside code" "plugins/x/a.cpp:1: 'whoever'" ${none} plugins/x/a.cpp "int a  // for whoever")

set(rows ${counts} "README.md 0 0 0\ninclude/hcomp/codec 1 0 0\npublic docstrings 0 0 0")
expect("a comment in a header" ""
  ${rows} README.md "# x" include/hcomp/codec/thc/a.hpp "/// A vector.\n// for whoever")
expect("a docstring of a detail folder" "" ${rows} README.md "# x"
  include/hcomp/codec/a.hpp "/// A vector." include/hcomp/codec/detail/a.hpp "/// For whoever")
expect("a public docstring" "public docstrings: 1 habits, 0 are allowed" ${rows} README.md "# x"
  include/hcomp/codec/a.hpp "// for whoever\nint a  ///< for whoever")
expect("a habit in README" "README.md: 1 habits, 0 are allowed" ${rows} README.md "For whoever"
  include/hcomp/codec/a.hpp "// for whoever\nint a  ///< a number")

# ---- Lines and paragraphs ------------------------------------------------------------------------
string(REPEAT "x" 95 x)
expect("a comment up to column 100" "" ${none} plugins/x/a.cpp "// ${x} x")
expect("a longer comment" "a.cpp:1: a comment ends in column 101, at most 100" ${none}
  plugins/x/a.cpp "// ${x} xx")
expect("a long line of code" "" ${none} plugins/x/a.cpp "int ${x}${x}\n// a comment")
expect("a long address" "" ${none} plugins/x/a.cpp "// https://${x}${x}")
expect("paragraphs of 80 words" "" ${none} ${page} "${allowed}\n\n${allowed}\n- ${allowed}\n- ${allowed}")
expect("a paragraph of 81 words" "README.md:3: a paragraph of 81 words, at most 80" ${none} ${page}
  "A page.\n\n${allowed}\nword")
expect("a comment of 81 words" "a.cpp:1: a paragraph of 81 words" ${none} plugins/x/a.cpp
  "// ${forty}\n// ${forty}\n// word")
expect("a long table" "" ${none} ${page} "| ${allowed} | ${allowed} |\n|---|---|")

# ---- The ratchet ---------------------------------------------------------------------------------
set(one ${counts} "plugins/x 1 0 0")
expect("a stored habit" "" ${one} ${page} "For whoever")
expect("one more habit" "plugins/x: 2 habits, 1 are allowed" ${one} ${page} "For whoever\n\nFor others")
expect("one habit less" "plugins/x: 0 habits, 1 are stored. lower the stored count: python3" ${one} ${page} "A page")
expect("a new folder" "plugins/y: not in tests" ${none} ${page} "A page" plugins/y/README.md "A page")
expect("a folder that has gone" "plugins/x: no prose there" ${none})
expect("a row with too few counts" "prose_counts.txt:1: a row is a folder and three counts"
  ${counts} "plugins/x 1" ${page} "A page")
expect("no stored counts" "there is no tests/architecture/prose_counts.txt" ${page} "A page")

# update(<what> <regex of the error> <stored>) for files planted before. With an empty regex the
# check passes then, and the row is as stored.
function(update what regex stored)
  set(options --update ${ARGN})
  judge("${what}" "${regex}")
  set(options "")
  if(regex STREQUAL "")
    judge("${what}, then the check" "")
  endif()
  file(STRINGS "${WORK}/tests/architecture/prose_counts.txt" found REGEX "^[^#]")
  string(REGEX REPLACE " +" " " found "${found}")
  if(NOT found STREQUAL stored)
    message(SEND_ERROR "${what}: stored is ${found}, not ${stored}")
  endif()
endfunction()

plant(${one} ${page} "A page" plugins/y/README.md "For whoever")
update("lower counts and a new folder" "" "plugins/x 0 0 0;plugins/y 1 0 0")
plant(${one} ${page} "For whoever\n\nFor others")
update("a higher count" "plugins/x: 2 habits, 1 are stored. counts only fall" "plugins/x 1 0 0")
update("a higher count of moved text" "" "plugins/x 2 0 0" --accept-moves)
plant(${counts} "README.md 0 0 0" README.md "For whoever")
update("README, which was clean" "README.md: 1 habits, 0 are stored" "README.md 0 0 0" --accept-moves)
plant(${counts} "README.md 1 0 0" README.md "For whoever and others")
update("README, which was not clean" "" "README.md 2 0 0" --accept-moves)

# ---- With a history, only what is new is shown ---------------------------------------------------
find_program(git git)
if(git)
  plant(${one} ${page} "For whoever\n\nA page")
  git(${WORK} init -q)
  git(${WORK} add .)
  git(${WORK} commit -q -m "tests: add a page")
  file(APPEND "${WORK}/${page}" "\nFor others\n")
  judge("a new habit in a history" "1 are allowed ${page}:5: 'others' in: For others 1 rows: 2 habits")
endif()
file(REMOVE_RECURSE "${WORK}")
