#pragma once
/// @file
/// The command hcomp-aggregator as a process.

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <functional>
#include <string>
#include <vector>

namespace hcomp::testing {

/// hcomp-aggregator, until this ends.
class aggregator_process {
 public:
  /// @param prepare  called in the process before the command takes its place
  explicit aggregator_process(std::vector<std::string> options,
                              std::function<void()> const& prepare = {}) {
    int ends[2];
    REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
    options.insert(options.begin(), HCOMP_AGGREGATOR);
    std::vector<char*> words;
    for (auto& option : options) words.push_back(option.data());
    words.push_back(nullptr);
    id_ = ::fork();
    if (id_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // a test that is killed leaves nothing behind
      if (prepare) prepare();
      ::dup2(ends[1], STDOUT_FILENO);
      ::execv(words[0], words.data());
      ::_exit(127);
    }
    ::close(ends[1]);
    out_ = ends[0];
    auto const first = read_line();
    std::string const before = "hcomp-aggregator: listens on ";
    REQUIRE_MESSAGE(first.starts_with(before), first);
    address = first.substr(before.size());
  }
  aggregator_process(aggregator_process const&) = delete;
  aggregator_process& operator=(aggregator_process const&) = delete;
  ~aggregator_process() {
    if (id_ > 0) kill(SIGKILL);
    ::close(out_);
  }

  void send(int signal) const { ::kill(id_, signal); }
  /// Sends the signal and waits; the exit status, or minus the signal.
  int kill(int signal) {
    send(signal);
    int status = 0;
    ::waitpid(id_, &status, 0);
    id_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  /// All it has printed that was not read.
  std::string rest() {
    std::string text;
    for (char c; ::read(out_, &c, 1) == 1;) text += c;
    return text;
  }

  std::string address;

 private:
  std::string read_line() {
    std::string line;
    for (char c; ::read(out_, &c, 1) == 1 && c != '\n';) line += c;
    return line;
  }

  pid_t id_ = -1;
  int out_ = -1;
};

}  // namespace hcomp::testing
