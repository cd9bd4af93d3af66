# cmake -DPROGRAM=<fuzz program> -DARCHIVE=<name>.tar.xz -DFOLDER=<scratch folder> -P replay.cmake
#
# Unpacks the inputs of ARCHIVE into FOLDER and runs PROGRAM on 10000 inputs: these, and inputs
# derived from them with a fixed seed. -use_cmp=0 because the operands of comparisons contain
# addresses, which differ from run to run. Fails if PROGRAM fails, or reads fewer inputs than
# ARCHIVE contains.
cmake_minimum_required(VERSION 3.25)

file(REMOVE_RECURSE ${FOLDER})
file(ARCHIVE_EXTRACT INPUT ${ARCHIVE} DESTINATION ${FOLDER}/inputs)
file(GLOB inputs ${FOLDER}/inputs/*)
list(LENGTH inputs count)
if(count EQUAL 0)
  message(FATAL_ERROR "${ARCHIVE} has no inputs")
endif()
message("${count} inputs in ${ARCHIVE}")

list(JOIN inputs , inputs)  # as files: libFuzzer would write new inputs into a folder
execute_process(
  COMMAND ${PROGRAM} -runs=10000 -seed=1 -use_cmp=0 -max_len=2500 -artifact_prefix=${FOLDER}/
    -seed_inputs=${inputs}
  RESULT_VARIABLE status ERROR_VARIABLE log ECHO_ERROR_VARIABLE)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "${PROGRAM} failed: ${status}")
elseif(NOT log MATCHES "seed corpus: files: ${count} ")
  message(FATAL_ERROR "${PROGRAM} did not read all ${count} inputs")
endif()
