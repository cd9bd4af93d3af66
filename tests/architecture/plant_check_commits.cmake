include(${CMAKE_CURRENT_LIST_DIR}/planted.cmake)

# ---- One subject ---------------------------------------------------------------------------------
set(options --message ${WORK}/message)
string(REPEAT "x" 62 x)  # "core: add " has 10 characters

foreach(subject "core: add ${x}" "codec: pass the size" "error feedback test: address a race"
    "tests: feed blocks of one value" "python: bring back Ctrl-C" "drop-in: re-tune after a change"
    "examples/torch: fetch, then train" "README: focus on codecs" "Revert \"core: adding a size\"")
  expect("'${subject}'" "" message "${subject}\n\nWhy: it is so, whatever the body looks like: 1.")
endforeach()

foreach(case
    "core: add ${x}x|has 73 characters, at most 72 are allowed"
    "add a codec|has not the form 'area: imperative ...'"
    "core: |has not the form"
    "core: add|has not the form"
    "an area of many words: add it|has not the form"
    "core: adding a size|begins with 'adding'"
    "core: added a size|begins with 'added'"
    "core: adds a size|begins with 'adds'"
    "core: sums are faster|begins with 'sums'"
    "core: a size is added|begins with 'a'"
    "core: what a size is|begins with 'what'"
    "core: no size is wrong|begins with 'no'"
    "core: in a size|begins with 'in'"
    "core: sparse vectors on devices|begins with 'sparse'"
    "core: Add a size|begins with 'Add' after the area, an imperative in small letters"
    "core: HCOMP_X decides|begins with 'HCOMP_X'"
    "core: 64 bits|begins with '64'")
  string(REGEX MATCH "^[^|]+" subject "${case}")
  string(REGEX REPLACE "^[^|]+[|]" "" regex "${case}")
  expect("'${subject}'" "${regex}" message "${subject}")
endforeach()
expect("an empty message" "has not the form" message "")
set(options "")

# ---- A history -----------------------------------------------------------------------------------
# skipped(<what> <folder> <regex>)
function(skipped what folder regex)
  execute_process(COMMAND ${PYTHON} ${CHECK} --root ${folder} RESULT_VARIABLE result
    OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 77 OR NOT output MATCHES "^Skipped: ${regex}")
    message(SEND_ERROR "${what}: should be skipped, but the status is ${result}:\n${output}")
  endif()
endfunction()

plant(cmake/check_prose.py "# the first file")
skipped("a source archive" ${WORK} "no git history: .* is not the top folder of a git repository")
find_program(git git)
if(NOT git)
  message("Skipped: git was not found")
  return()
endif()

git(${WORK} init -q)
git(${WORK} commit -q --allow-empty -m "what an old subject looks like")
skipped("a history without the first file" ${WORK} "no commit of the history adds cmake/check_prose.py")
git(${WORK} add .)
git(${WORK} commit -q -m "tests: add check_prose")
judge("an old subject" "")
git(${WORK} commit -q --allow-empty -m "core: add a size")
git(${WORK} checkout -q -b other)
git(${WORK} commit -q --allow-empty -m "core: read a size")
git(${WORK} checkout -q main)
git(${WORK} merge -q --no-ff -m "Merge other" other)
judge("good subjects and a merge" "")

set(clone ${WORK}/clone)
git(${WORK} clone -q --depth 1 file://${WORK} ${clone})
skipped("a shallow clone" ${clone} "this shallow clone has one commit")
file(REMOVE_RECURSE ${clone})

git(${WORK} commit -q --allow-empty -m "core: a new subject")
git(${WORK} commit -q --allow-empty -m "core: write a size")
judge("a subject of the history" "[0-9a-f]+: 'core: a new subject' begins with 'a' after .* 5 subjects, 1 wrong")
file(REMOVE_RECURSE "${WORK}")
