#include "try_library.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
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

trial try_library(std::string const& library, std::string (*describe)(void* handle)) {
  int ends[2];
  // not for programs that the library starts: they would keep it open
  if (pipe2(ends, O_CLOEXEC) != 0) return {false, fmt::format("pipe2: {}", std::strerror(errno))};
  std::fflush(stdout);  // what is not written yet would be copied
  pid_t const child = fork();
  if (child < 0) {
    int const error = errno;
    close(ends[0]), close(ends[1]);
    return {false, fmt::format("fork: {}", std::strerror(error))};
  }
  if (child == 0) {
    close(ends[0]);
    dup2(ends[1], 1), dup2(ends[1], 2);  // the loader's last words, should it give up
    void* const handle = dlopen(library.c_str(), RTLD_LAZY | RTLD_LOCAL);
    write_all(ends[1], handle ? '\0' + describe(handle) : std::string(dlerror()));
    _exit(handle ? EXIT_SUCCESS : EXIT_FAILURE);
  }
  close(ends[1]);
  auto words = read_all(ends[0]);
  close(ends[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status))
    return {false, fmt::format("{}: ends the process that loads it: {}", library,
                               strsignal(WTERMSIG(status)))};
  bool const loads = WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS;
  if (loads) words.erase(0, words.rfind('\0') + 1);  // what it has printed is not asked for
  while (words.ends_with('\n')) words.pop_back();
  return {loads, std::move(words)};
}

}  // namespace hcomp::info
