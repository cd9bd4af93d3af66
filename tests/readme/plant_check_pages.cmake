include(${CMAKE_CURRENT_LIST_DIR}/../architecture/planted.cmake)

set(quote "<!-- from examples/a.cpp -->\n```cpp\n  int a = 2 + b[0]\n```\n")
set(source examples/a.cpp "int main() {\n  int a = 2 + b[0]\n}")

expect("a page in order" "" ${source} tests/run.sh "true"
  README.md "${quote}[page](tests/README.md#the-lab) by tests/run.sh, [up](#here)\n## Here"
  tests/README.md "# Tests\n\n## The lab\n[back](../README.md) [there](https://example.org/x)")
expect("no first page" "there is no README.md" tests/README.md "# Tests")
expect("a link to nothing" "README.md links to tests/b.md, which does not exist"
  README.md "see [b](tests/b.md)")
expect("a link to nothing from a page" "tests/README.md links to a.cpp, which does not exist"
  ${source} README.md "# First" tests/README.md "see [a](a.cpp)")
expect("a link to no heading" "tests/README.md#lab, but there is no such heading"
  README.md "[b](tests/README.md#lab)" tests/README.md "# Tests\n\n## The lab")
expect("a script that is not there" "README.md names tests/run.sh, which does not exist"
  README.md "tests/run.sh")
expect("a quote of nothing" "README.md quotes examples/a.cpp, which does not exist"
  README.md "${quote}")
expect("another quote" "quotes lines of examples/a.cpp that do not stand there"
  README.md "${quote}" examples/a.cpp "int main() {\n  int a = 3 + b[0]\n}")
expect("a mark without a quote" "without a fenced block behind it"
  ${source} README.md "<!-- from examples/a.cpp -->\nsee there")
expect("a part that stands there twice" "tests/README.md has a heading twice: ## The lab"
  README.md "# First" tests/README.md "## The lab\ntext\n## Else\n## The lab\ntext")
string(REPEAT "line\n" 121 long)
expect("a long page" "README.md has 12[0-9] lines" README.md "${long}")
