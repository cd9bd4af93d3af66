#pragma once
/// @file
/// What an example that is an MPI program does besides its work: talk once, fail once, on all
/// ranks.

#include <fmt/core.h>
#include <mpi.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <hcomp/core/detail/printable.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/mpi/call.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "command_line.hpp"

namespace example {

inline MPI_Comm const comm = MPI_COMM_WORLD;

inline int rank() { return hcomp::mpi::rank_of(comm); }
inline int ranks() { return hcomp::mpi::size_of(comm); }

/// Among the ranks that share this host's memory. Collective.
inline int rank_on_host() {
  MPI_Comm host;
  MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
  int const rank = hcomp::mpi::rank_of(host);
  MPI_Comm_free(&host);
  return rank;
}

/// To standard output, at once. What fails, as on a full disk, is main_of's to tell at the end.
inline void print(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

/// Writes a file of this text. Who reads it meanwhile, or after the program was killed, finds what it
/// was before, not half of it; but devices and pipes are written to.
/// @throws std::runtime_error  it cannot be written to its end
inline void write_file(std::string const& file, std::string const& text) {
  namespace fs = std::filesystem;
  bool const is_there = fs::exists(file);
  auto const into = is_there && !fs::is_regular_file(file) ? file : file + ".part";
  std::ofstream out(into);
  out << text;
  out.close();
  std::error_code failed;
  if (out && into != file) fs::rename(into, file, failed);
  if (!out || failed) throw std::runtime_error(file + " could not be written to its end");
}

/// @throws std::runtime_error  the file cannot be written; it is as it was, and none if it was none
inline void require_writable(std::string const& file) {
  if (file.empty()) return;
  bool const is_new = !std::filesystem::exists(file);
  if (!std::ofstream(file, std::ios::app)) throw std::runtime_error(file + " cannot be written");
  if (is_new) std::filesystem::remove(file);
}

/// Rank 0 prints, at once.
template <class... Args> void say(fmt::format_string<Args...> text, Args&&... args) {
  if (rank() == 0) print(fmt::format(text, std::forward<Args>(args)...));
}

/// Runs `work`, which may fail on some ranks only; then all ranks throw the first one's error.
template <class Work> void together(Work const& work) {
  std::string error;
  try {
    work();
  } catch (std::exception const& e) {
    error = e.what();
  }
  int first = error.empty() ? ranks() : rank();
  MPI_Allreduce(MPI_IN_PLACE, &first, 1, MPI_INT, MPI_MIN, comm);
  if (first == ranks()) return;
  auto length = error.size();
  MPI_Bcast(&length, 1, MPI_UINT64_T, first, comm);
  error.resize(length);
  MPI_Bcast(error.data(), static_cast<int>(length), MPI_CHAR, first, comm);
  throw std::runtime_error(first == 0 ? error : fmt::format("rank {}: {}", first, error));
}

/// Thrown on all ranks when SIGINT or SIGTERM ended the work early, once its figures are written.
struct interrupted {
  int signal;
};

/// The body of main(): MPI around `run(argc, argv)`, and every error as one line of text.
///
/// Status 0: done; 1: an error, also of writing to standard output; 128 + signal: interrupted; that
/// of `usage`.
/// @param name      of the program, before its errors
/// @param is_alone  of which errors, besides transport_error, others may know nothing
template <class Run>
int main_of(char const* name, int argc, char** argv, Run const& run,
            bool (*is_alone)(std::exception const&) = nullptr) {
  auto const leave = [&](std::exception const& e) {
    fmt::print(stderr, "{}: rank {}: {}\n", name, rank(), hcomp::detail::printable(e.what()));
    MPI_Abort(comm, 1);  // some ranks may wait for others that will not come
  };
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  int status = 0;
  bool const prints = rank() == 0;
  try {
    run(argc, argv);
  } catch (usage const& u) {
    if (prints && u.status == 0) print(u.text);
    if (prints && u.status != 0) fmt::print(stderr, "{}", hcomp::detail::printable(u.text));
    status = u.status;
  } catch (interrupted const& by) {
    if (prints) fmt::print(stderr, "{}: interrupted: {}\n", name, strsignal(by.signal));
    status = 128 + by.signal;
  } catch (hcomp::transport_error const& e) {
    leave(e);
  } catch (std::exception const& e) {
    if (is_alone && is_alone(e)) leave(e);
    if (prints) fmt::print(stderr, "{}: {}\n", name, hcomp::detail::printable(e.what()));
    status = 1;
  }
  if (prints && std::ferror(stdout)) {
    fmt::print(stderr, "{}: standard output could not be written to its end\n", name);
    if (status == 0) status = 1;
  }
  MPI_Finalize();
  return status;
}

}  // namespace example
