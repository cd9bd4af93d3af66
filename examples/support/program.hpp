#pragma once
/// @file
/// Output and errors of MPI programs: texts are printed once, errors end all ranks.

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

/// This rank's number among the ranks of its node. Collective.
inline int rank_on_host() {
  MPI_Comm host;
  MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
  int const rank = hcomp::mpi::rank_of(host);
  MPI_Comm_free(&host);
  return rank;
}

/// Prints to standard output and flushes it. main_of reports write errors, e.g. of a full disk.
inline void print(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

/// Writes a text file. A regular file is replaced atomically: readers see the old or the new
/// content, also if the program is killed. Devices and pipes are written directly.
/// @throws std::runtime_error  the file cannot be written
inline void write_file(std::string const& file, std::string const& text) {
  namespace fs = std::filesystem;
  bool const exists_already = fs::exists(file);
  auto const into = exists_already && !fs::is_regular_file(file) ? file : file + ".part";
  std::ofstream out(into);
  out << text;
  out.close();
  std::error_code failed;
  if (out && into != file) fs::rename(into, file, failed);
  if (!out || failed) throw std::runtime_error(file + " could not be written to its end");
}

/// Checks that a file can be written, without changing or creating it.
/// @throws std::runtime_error  the file cannot be written
inline void require_writable(std::string const& file) {
  if (file.empty()) return;
  bool const is_new = !std::filesystem::exists(file);
  if (!std::ofstream(file, std::ios::app)) throw std::runtime_error(file + " cannot be written");
  if (is_new) std::filesystem::remove(file);
}

/// Prints on rank 0 and flushes.
template <class... Args> void say(fmt::format_string<Args...> text, Args&&... args) {
  if (rank() == 0) print(fmt::format(text, std::forward<Args>(args)...));
}

/// Runs `work`, which may fail on some ranks. If it fails, all ranks throw the error of the first
/// failed rank. Collective.
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

/// Thrown on all ranks if SIGINT or SIGTERM ended the work early, after results are written.
struct interrupted {
  int signal;
};

/// The body of main(): initialises MPI, calls `run(argc, argv)`, and prints every error as one
/// line.
///
/// @param name      name of the program, printed before errors
/// @param is_alone  whether an error may concern this rank only, like every transport_error; such
///                  an error aborts the job
/// @return  0: success; 1: an error, also of writing to standard output; 128 + signal: interrupted;
///          or the status of `usage`
template <class Run>
int main_of(char const* name, int argc, char** argv, Run const& run,
            bool (*is_alone)(std::exception const&) = nullptr) {
  auto const leave = [&](std::exception const& e) {
    fmt::print(stderr, "{}: rank {}: {}\n", name, rank(), hcomp::detail::printable(e.what()));
    MPI_Abort(comm, 1);  // other ranks may wait for this one
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
