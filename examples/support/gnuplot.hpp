#pragma once
/// @file
/// Pictures, drawn by the program gnuplot.

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>

namespace example {

/// @throws std::runtime_error  gnuplot is missing: better known before hours of work
inline void require_gnuplot() {
  if (std::system("gnuplot --version >/dev/null 2>&1") != 0)
    throw std::runtime_error(
        "--plot needs the program gnuplot, which was not found; on Debian: apt install "
        "gnuplot-nox");
}

/// Runs a script.
/// @throws std::runtime_error  gnuplot is missing or fails
inline void gnuplot(std::string const& script) {
  FILE* const pipe = popen("gnuplot", "w");
  if (pipe == nullptr) throw std::runtime_error("gnuplot cannot be started");
  bool const written = std::fwrite(script.data(), 1, script.size(), pipe) == script.size();
  if (int const status = pclose(pipe); !written || status != 0)
    throw std::runtime_error("gnuplot failed with status " + std::to_string(status));
}

/// A text as a script's literal, of which nothing is run; line breaks become spaces.
inline std::string gnuplot_text(std::string_view text) {
  std::string literal = "\"";
  for (char const c : text) switch (c) {
      case '"':
      case '\\': (literal += '\\') += c; break;
      case '`': literal += "\\140"; break;  // else a command would begin
      case '\n':
      case '\r': literal += ' '; break;
      default: literal += c;
    }
  return literal + "\"";
}
/// The command by which a script draws into a file.
/// @throws std::runtime_error  no script can name the file: there is a line break in it
inline std::string gnuplot_output(std::string_view file) {
  if (file.find_first_of("\n\r") != file.npos)
    throw std::runtime_error("a picture cannot be drawn into a file with a line break in its name");
  return "set output " + gnuplot_text(file) + "\n";
}

/// Runs a script that draws one picture with the terminal svg, and gives it as an element for HTML.
/// @param id  put before every name inside, so that a page may have several pictures
/// @throws std::runtime_error  gnuplot is missing or fails, or there is no room for its file
inline std::string gnuplot_svg(std::string const& id, std::string const& script) {
  auto file = (std::filesystem::temp_directory_path() / "hcomp-picture-XXXXXX").string();
  int const descriptor = mkstemp(file.data());
  if (descriptor < 0) throw std::runtime_error(file + " cannot be made");
  close(descriptor);
  struct remover {
    std::string const& file;
    ~remover() { std::remove(file.c_str()); }
  } const removed{file};
  gnuplot(gnuplot_output(file) + script + "\nunset output\n");

  std::ifstream in(file);
  std::string svg(std::istreambuf_iterator<char>(in), {});
  auto const begin = svg.find("<svg"), end = svg.rfind("</svg>");
  if (begin == std::string::npos || end == std::string::npos)
    throw std::runtime_error("gnuplot drew no whole picture");
  svg = svg.substr(begin, end + 6 - begin);
  for (std::string_view const before : {"id='", "id=\"", "href='#", "url(#"})
    for (auto at = svg.find(before); at != std::string::npos; at = svg.find(before, at + 1))
      svg.insert(at + before.size(), id + "-");
  return svg;
}

/// @throws std::runtime_error  the file cannot be written; it is as it was, and none if it was none
inline void require_writable(std::string const& file) {
  if (file.empty()) return;
  bool const is_new = !std::filesystem::exists(file);
  if (!std::ofstream(file, std::ios::app)) throw std::runtime_error(file + " cannot be written");
  if (is_new) std::filesystem::remove(file);
}

}  // namespace example
