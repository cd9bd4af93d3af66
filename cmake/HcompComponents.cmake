# Enables components, and reports why a component is off.

# hcomp_settle_component(<component> <imported target it needs> <description of that target>)
#
# Creates the alias hcomp::<component> of hcomp_<component> if HCOMP_WITH_<COMPONENT> allows it and
# the needed target exists. Without the target, ON is an error and AUTO means off.
function(hcomp_settle_component component needed words)
  string(TOUPPER ${component} upper)
  set(asked "${HCOMP_WITH_${upper}}")
  if(NOT asked)
    set(state "off, because HCOMP_WITH_${upper} is ${asked}")
  elseif(TARGET ${needed})
    add_library(hcomp::${component} ALIAS hcomp_${component})
    set(state "on")
  elseif(asked STREQUAL "AUTO")
    set(state "off, because ${words} was not found")
  else()
    message(FATAL_ERROR "hcomp: HCOMP_WITH_${upper} is ${asked}, but ${words} was not found. Install "
      "it, point CMAKE_PREFIX_PATH at it, or set HCOMP_WITH_${upper}=OFF.")
  endif()
  hcomp_note("hcomp::${component}" "${state}")
endfunction()

# hcomp_install_if_built(<target> <package> <arguments of install(TARGETS)>...): installs the target
# if it was built. So headers can be installed without a build that takes minutes.
function(hcomp_install_if_built target package)
  if(HCOMP_INSTALL)
    install(TARGETS ${target} ${ARGN} COMPONENT ${package} OPTIONAL)
    install(CODE "
      if(NOT EXISTS \"$<TARGET_FILE:${target}>\")
        message(STATUS \"Not built, so not installed: $<TARGET_FILE:${target}>\")
      endif()" COMPONENT ${package})
  endif()
endfunction()

# hcomp_note(<what> <state>): a line for the summary at the end of the configure run.
function(hcomp_note what state)
  string(LENGTH "${what}" length)
  math(EXPR missing "18 - ${length}")
  string(REPEAT " " ${missing} padding)
  string(REPLACE ";" " " state "${state}")
  set_property(GLOBAL APPEND PROPERTY hcomp_summary "${what}${padding}${state}")
endfunction()

function(hcomp_print_summary)
  get_property(lines GLOBAL PROPERTY hcomp_summary)
  message(STATUS "hcomp ${PROJECT_VERSION} ${CMAKE_BUILD_TYPE}, ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}")
  foreach(line IN LISTS lines)
    message(STATUS "  ${line}")
  endforeach()
endfunction()
