#pragma once
/// @file
/// Child processes of a test.

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace hcomp::testing {

/// Replaces this process by a command, which it searches in PATH. Returns 127 if that fails.
inline int execute(std::vector<std::string> words) {
  std::vector<char*> arguments;
  for (auto& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ::execvp(arguments[0], arguments.data());
  return 127;
}

/// A child process. Its destructor kills it. The kernel kills it if the thread that started it ends
/// first.
///
/// Statuses are exit statuses, or minus the signal that ended the process.
class child_process {
 public:
  /// Starts a process that ends by `_exit(body())`, with status 1 after an exception.
  /// @param captured  STDOUT_FILENO or STDERR_FILENO, which `read_line` and `rest` read; -1:
  ///                  neither
  /// @throws std::system_error  the process or the pipe cannot be created
  explicit child_process(std::function<int()> const& body, int captured = -1) {
    int ends[2] = {-1, -1};
    if (captured >= 0 && ::pipe2(ends, O_CLOEXEC) != 0) fail("pipe2");
    std::fflush(nullptr);
    if (id_ = ::fork(); id_ < 0) fail("fork");
    if (id_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (captured >= 0) ::dup2(ends[1], captured);
      for (int const end : ends) ::close(end);
      run(body);
    }
    ::close(ends[1]);
    output_ = ends[0];
  }
  child_process(child_process&& from) noexcept
      : id_(from.id_),
        output_(std::exchange(from.output_, -1)),
        status_(std::exchange(from.status_, 0)) {}
  child_process& operator=(child_process&&) = delete;
  ~child_process() {
    kill(SIGKILL);
    ::close(output_);
  }

  pid_t id() const { return id_; }
  void send(int signal) const {
    if (!status_) ::kill(id_, signal);
  }

  /// Waits for the end of the process and returns its status.
  int wait() {
    while (!has_ended(0)) {
    }
    return *status_;
  }
  /// The same for a limited time; none if the process still runs.
  std::optional<int> wait_for(std::chrono::duration<double> limit) {
    auto const end = std::chrono::steady_clock::now() + limit;
    while (!has_ended(WNOHANG) && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::microseconds(500));
    return status_;
  }
  bool is_running() { return !has_ended(WNOHANG); }
  /// Sends a signal, waits for the end of the process and returns its status.
  int kill(int signal) {
    send(signal);
    return wait();
  }

  /// The next line of the captured output, without its line end.
  std::string read_line() {
    std::string line;
    for (char c; read(c) && c != '\n';) line += c;
    return line;
  }
  /// The rest of the captured output. Waits until the process and its children have closed it.
  std::string rest() {
    std::string text;
    for (char c; read(c);) text += c;
    return text;
  }

 private:
  [[noreturn]] static void run(std::function<int()> const& body) {
    int status = 1;
    try {
      status = body();
    } catch (std::exception const& error) {
      std::fprintf(stderr, "process %d: %s\n", static_cast<int>(::getpid()), error.what());
    }
    std::fflush(nullptr);
    ::_exit(status);
  }
  [[noreturn]] static void fail(char const* what) {
    throw std::system_error(errno, std::generic_category(), what);
  }
  bool has_ended(int flags) {
    if (status_) return true;
    int status = 0;
    pid_t const ended = ::waitpid(id_, &status, flags);
    if (ended < 0 && errno != EINTR) fail("waitpid");
    if (ended == id_) status_ = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    return status_.has_value();
  }
  bool read(char& to) const { return ::read(output_, &to, 1) == 1; }

  pid_t id_ = -1;
  int output_ = -1;
  std::optional<int> status_;
};

/// "exit status 1", "signal 9".
inline std::string status_text(int status) {
  return status < 0 ? "signal " + std::to_string(-status) : "exit status " + std::to_string(status);
}

}  // namespace hcomp::testing
