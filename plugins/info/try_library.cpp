#include "try_library.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <link.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace hcomp::info {

namespace {

void write_all(int file, std::string_view text) {
  while (!text.empty()) {
    auto const written = write(file, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}
std::string read_all(int file) {
  std::string text;
  char part[4096];
  for (;;) {
    auto const count = read(file, part, sizeof part);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return text;
    text.append(part, static_cast<std::size_t>(count));
  }
}

}  // namespace

trial run_apart(std::string const& what, std::function<int(int output)> const& work) {
  int ends[2];
  // Programs started by `work` must not inherit the pipe: they would keep it open.
  if (pipe2(ends, O_CLOEXEC) != 0) return {false, fmt::format("pipe2: {}", std::strerror(errno))};
  std::fflush(stdout);  // the child would print buffered text again
  pid_t const child = fork();
  if (child < 0) {
    int const error = errno;
    close(ends[0]), close(ends[1]);
    return {false, fmt::format("fork: {}", std::strerror(error))};
  }
  if (child == 0) {
    close(ends[0]);
    dup2(ends[1], 1), dup2(ends[1], 2);  // the loader prints its errors there
    _exit(work(ends[1]));
  }
  close(ends[1]);
  auto words = read_all(ends[0]);
  close(ends[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status))
    return {false, fmt::format("{}: ends the process that loads it: {}", what,
                               strsignal(WTERMSIG(status)))};
  while (words.ends_with('\n')) words.pop_back();
  return {WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS, std::move(words)};
}

trial try_library(std::string const& library, std::string (*describe)(void* handle)) {
  auto tried = run_apart(library, [&](int output) {
    void* const handle = dlopen(library.c_str(), RTLD_LAZY | RTLD_LOCAL);
    write_all(output, handle ? '\0' + describe(handle) : std::string(dlerror()));
    return handle ? EXIT_SUCCESS : EXIT_FAILURE;
  });
  // Drops the library's own output.
  if (tried.loads) tried.words.erase(0, tried.words.rfind('\0') + 1);
  return tried;
}

std::vector<std::string> libraries_of(std::string const& file) {
  std::string loader;  // loader of this program
  dl_iterate_phdr(
      [](dl_phdr_info* program, std::size_t, void* found) {
        for (int i = 0; i < program->dlpi_phnum; ++i)
          if (auto const& part = program->dlpi_phdr[i]; part.p_type == PT_INTERP)
            *static_cast<std::string*>(found) =
                reinterpret_cast<char const*>(program->dlpi_addr + part.p_vaddr);
        return 1;  // all further entries are libraries
      },
      &loader);
  auto const path = std::filesystem::absolute(file).string();
  auto const listed = run_apart(file, [&](int) {
    unsetenv("LD_PRELOAD");
    setenv("LD_TRACE_LOADED_OBJECTS", "1", 1);  // like ldd; --list would fail for missing libraries
    execl(loader.c_str(), loader.c_str(), path.c_str(), nullptr);
    std::perror(loader.c_str());
    return EXIT_FAILURE;
  });
  if (!listed.loads) throw std::runtime_error(listed.words);
  std::vector<std::string> names;  // "\tlibmpi.so.40 => /usr/lib/libmpi.so.40 (0x7f0000000000)"
  std::istringstream lines(listed.words);
  for (std::string name, rest; lines >> name && std::getline(lines, rest);) names.push_back(name);
  return names;
}

}  // namespace hcomp::info
