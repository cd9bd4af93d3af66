include(${CMAKE_CURRENT_LIST_DIR}/planted.cmake)

set(define "#define HCOMP_VERSION_")
set(header include/hcomp/core/version.hpp
  "${define}MAJOR 1\n${define}MINOR 2\n${define}PATCH 3\nint wire_version = 4")

expect("a version to come" "" ${header} CHANGELOG.md "# Changes\n\n## Unreleased: 1.2.3, wire format 4\n## 1.2.2")
expect("a release" "" ${header} CHANGELOG.md "## 1.2.3, 2027-01-31, wire format 4")
expect("another version" "is '## Unreleased: 1.3.0, wire format 4', not"
  ${header} CHANGELOG.md "## Unreleased: 1.3.0, wire format 4\n## 1.2.3, 2027-01-31, wire format 4")
expect("another wire format" "is '## 1.2.3, 2027-01-31, wire format 3', not"
  ${header} CHANGELOG.md "## 1.2.3, 2027-01-31, wire format 3")
expect("no heading" "is '', not" ${header} CHANGELOG.md "# Changes")
expect("no version" "does not define HCOMP_VERSION_MAJOR" include/hcomp/core/version.hpp "//" CHANGELOG.md "# Changes")

set(options -D TAG=v1.2.3)
expect("the tag of a release" "" ${header} CHANGELOG.md "## 1.2.3, 2027-01-31, wire format 4")
expect("a tag without a release" "is '## Unreleased: 1.2.3, wire format 4', not"
  ${header} CHANGELOG.md "## Unreleased: 1.2.3, wire format 4")
set(options -D TAG=1.2.3)
expect("another tag" "the tag is 1.2.3, but" ${header} CHANGELOG.md "## 1.2.3, 2027-01-31, wire format 4")
