/// @file
/// hcomp-info: shows the parts of this installation of hcomp and its problems.

#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <c/settings.hpp>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <drop_in/environment.hpp>
#include <drop_in/mpi_kind.hpp>
#include <exception>
#include <filesystem>
#include <hcomp/core/detail/printable.hpp>
#include <hcomp/core/simd_level.hpp>
#include <hcomp/core/version.hpp>
#include <hcomp/udp/address.hpp>
#include <hcomp/udp/statistics.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <c/device_plan.hpp>
#include "codec_table.hpp"
#include "device_memory.hpp"
#include "kernel_offload.hpp"
#include "try_library.hpp"

namespace {

namespace files = std::filesystem;
using namespace hcomp;

/// Problems found, for the end of the output.
std::vector<std::string> wrong;

/// Writes to standard output; `leave` reports a failed write.
void put(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stdout); }

/// Returns the exit status after all output is written.
int leave(int status) {
  if (std::fflush(stdout) == 0 && !std::ferror(stdout)) return status;
  fmt::print(stderr, "hcomp-info: standard output could not be written to its end\n");
  return EXIT_FAILURE;
}

/// Prints `text` after `name`. Further lines align with the first.
void print(std::string_view name, std::string text) {
  constexpr std::string_view gap = "\n                    ";
  for (auto at = text.find('\n'); at != text.npos; at = text.find('\n', at + 1))
    text.replace(at, 1, gap);
  put(fmt::format("  {:<17} {}\n", name, hcomp::detail::printable(text)));
}
void print_wrong(std::string_view name, std::string const& text) {
  print(name, text);
  wrong.push_back(fmt::format("{}: {}", name, text));
}

std::string version_text(int major, int minor, int patch) {
  return fmt::format("{}.{}.{}", major, minor, patch);
}
std::string const version =
    version_text(HCOMP_VERSION_MAJOR, HCOMP_VERSION_MINOR, HCOMP_VERSION_PATCH);

std::vector<std::string> split(std::string_view text, std::string_view marks) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    auto const end = std::min(text.find_first_of(marks), text.size());
    if (end > 0) parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

// ---- MPI

/// Version of libhcomp.so, its MPI library and that MPI's version, and whether a job "goes on" or
/// "ends" when a rank fails: "0.1.0|/usr/lib/libmpi.so.40|Open MPI v4.1.4|ends". Unknown parts are
/// "?".
std::string describe_hcomp(void* handle) {
  std::string text = "?";
  if (auto* const ask = info::function_in<int(int*, int*, int*)>(handle, "hcomp_version")) {
    int major = 0, minor = 0, patch = 0;
    ask(&major, &minor, &patch);
    text = version_text(major, minor, patch);
  }
  auto* const ask = info::function_in<int(char*, int*)>(handle, "MPI_Get_library_version");
  Dl_info found;
  if (!ask || dladdr(reinterpret_cast<void*>(ask), &found) == 0) return text + "|?|?|?";
  std::vector<char> words(1 << 14);  // larger than the text of any MPI
  int length = 0;
  ask(words.data(), &length);
  std::string mpi;  // first line up to a comma, with single spaces
  for (char const c : std::string_view(words.data(), static_cast<std::size_t>(length))) {
    if (c == ',' || c == '|' || c == '\n' || c == '\0') break;
    bool const space = c == ' ' || c == '\t';
    if (!space || !mpi.ends_with(' ')) mpi += space ? ' ' : c;
  }
  // mpi/ulfm.hpp calls these functions. MPICH's versions end the job.
  bool const has_ulfm = mpi.starts_with("Open MPI") && dlsym(handle, "MPIX_Comm_get_failed");
  return text + "|" + found.dli_fname + "|" + (mpi.empty() ? "?" : mpi) +
         (has_ulfm ? "|goes on" : "|ends");
}
std::string describe_nothing(void*) { return {}; }

/// Folder of the libraries for an MPI: beside this program in a build, or the installed one.
files::path folder_for(std::string const& mpi) {
  std::error_code error;
  auto const here = files::read_symlink("/proc/self/exe", error).parent_path();
  if (files::exists(here / mpi, error)) return here / mpi;
  return (here / HCOMP_INFO_INSTALLED_LIBRARIES / mpi).lexically_normal();
}

bool same_file(files::path const& a, files::path const& b) {
  std::error_code error;
  return files::equivalent(a, b, error);
}

/// "4.1.4": the Open MPI version that the component was built for.
std::string describe_component(void* handle) {
  struct descriptor {  // start of all components of interface 2.1: mca_base_component_2_1_0_t
    int interface[3];
    char project[16];
    int version[3];
  };
  auto const* const it = static_cast<descriptor const*>(dlsym(handle, "mca_coll_hcomp_component"));
  if (!it || it->interface[0] != 2 || it->interface[1] != 1) return "?";
  return version_text(it->version[0], it->version[1], it->version[2]);
}

/// Text of the line about mca_coll_hcomp.so, which is optional.
/// @param open_mpi  version of the Open MPI that the libraries beside it link: "Open MPI v4.1.4"
std::string component_line(files::path const& folder, std::string const& open_mpi) {
  auto const component = (folder / "mca_coll_hcomp.so").string();
  std::error_code error;
  if (!files::exists(component, error)) {
    std::string_view const why = HCOMP_INFO_NO_COMPONENT;
    return fmt::format("no mca_coll_hcomp.so{}{}; CMake's target hcomp_coll builds it",
                       why.empty() ? "" : ", because ", why);
  }
  auto const tried = info::try_library(component, describe_component);
  if (!tried.loads) {
    wrong.push_back("openmpi: does not load: " + tried.words);
    return "does not load: " + tried.words;
  }
  auto const& built_for = tried.words;
  auto const series = built_for.substr(0, built_for.rfind('.') + 1);  // "4.1.", with one layout
  if (!open_mpi.starts_with("Open MPI v" + series))
    wrong.push_back(fmt::format("openmpi: {} is for Open MPI {} and stays off in {}", component,
                                built_for, open_mpi));
  return fmt::format("{}, for Open MPI {}", component, built_for);
}

/// @param mpi       "openmpi"
/// @param built_by  the libmpi found when hcomp was built
void show_mpi(std::string const& mpi, std::string const& built_by) {
  auto const folder = folder_for(mpi);
  auto const c = (folder / "libhcomp.so").string(),
             pmpi = (folder / drop_in::mpi_kind_called(mpi)->preload).string();
  std::error_code error;
  for (auto const& library : {c, pmpi})
    if (!files::exists(library, error))
      return print_wrong(mpi, fmt::format("{} does not exist; {} was found when hcomp was built",
                                          library, built_by));
  auto const tried = info::try_library(c, describe_hcomp);
  if (!tried.loads && tried.words.starts_with("libmpi_abi.so"))
    return print(mpi, fmt::format("{}\n{}\nfor programs that bring {}, which is not here", c, pmpi,
                                  tried.words.substr(0, tried.words.find(':'))));
  if (!tried.loads) return print_wrong(mpi, "does not load: " + tried.words);
  auto const words = split(tried.words, "|");
  if (words[0] != "?" && words[0] != version)
    return print_wrong(mpi,
                       fmt::format("{} is of hcomp {}, this program of {}", c, words[0], version));
  if (words[1] == "?") return print_wrong(mpi, c + " has no MPI_Get_library_version");
  if (auto const too = info::try_library(pmpi, describe_nothing); !too.loads)
    return print_wrong(mpi, "does not load: " + too.words);
  auto text = fmt::format("{} in {}\n{}\n{}", words[2], words[1], c, pmpi);
  if (mpi == "openmpi") text += "\n" + component_line(folder, words[2]);
  text += "\n" + info::mpi_device_memory(c);
  text += words[3] == "goes on"
              ? "\nfailed ranks: a job can continue, started by mpirun --with-ft ulfm"
              : "\nfailed ranks: end a job, because ULFM does not work in this MPI";
  if (!same_file(words[1], built_by)) text += "\nhcomp was built with " + built_by;
  print(mpi, text);
}

/// Libraries for one of the found MPIs are sufficient; none at all is a problem.
void show_mpis() {
  put("\nMPI\n");
  int found = 0, built = 0;
  for (auto const& one : split(HCOMP_INFO_MPIS, "|")) {
    auto const mark = one.find('=');
    auto const mpi = one.substr(0, mark), built_by = one.substr(mark + 1);
    std::error_code error;
    auto const folder = folder_for(mpi);
    found += !built_by.empty();
    if (built_by.empty()) {
      print(mpi, "was not found when hcomp was built");
    } else if (files::exists(folder, error)) {
      ++built;
      show_mpi(mpi, built_by);
    } else {
      print(mpi, fmt::format("not built; its folder would be {}", folder.string()));
    }
  }
  if (found > 0 && built == 0) wrong.push_back("MPI: hcomp's libraries are not here");
}

// ---- UCX, GPUs, aggregators, codecs

std::string describe_ucx(void* handle) {
  auto* const ask = info::function_in<char const*()>(handle, "ucp_get_version_string");
  return ask ? ask() : "without ucp_get_version_string";
}

std::string describe_gpus(void* handle) {
  // Declared here, so that cuda.h is not needed.
  auto* const init = info::function_in<int(unsigned)>(handle, "cuInit");
  auto* const version_of = info::function_in<int(int*)>(handle, "cuDriverGetVersion");
  auto* const count_of = info::function_in<int(int*)>(handle, "cuDeviceGetCount");
  auto* const name_of = info::function_in<int(char*, int, int)>(handle, "cuDeviceGetName");
  if (!init || !version_of || !count_of || !name_of) return "none: the driver lacks functions";
  int driver = 0, count = 0;
  version_of(&driver);
  auto const cuda = fmt::format("driver for CUDA {}.{}", driver / 1000, driver % 1000 / 10);
  if (int const status = init(0); status != 0) {
    char const* why = nullptr;
    if (auto* const words = info::function_in<int(int, char const**)>(handle, "cuGetErrorString"))
      words(status, &why);
    return fmt::format("none: {}, {} ({})", cuda, why ? why : "cuInit failed", status);
  }
  count_of(&count);
  auto text = count == 0 ? "none: " + cuda : cuda;
  for (int device = 0; device < count; ++device) {
    char name[256] = "";
    name_of(name, sizeof name, device);
    text += fmt::format("\n{}: {}", device, name);
  }
  return text;
}

std::string describe_cuda_library(void* handle) {
  auto* const made_for =
      info::function_in<decltype(hcomp_cuda_made_for)>(handle, "hcomp_cuda_made_for");
  auto* const get = info::function_in<decltype(hcomp_cuda_library)>(handle, "hcomp_cuda_library");
  std::string const theirs = made_for && get ? made_for() : "no version";
  if (theirs != drop_in::cuda_library_version())
    return fmt::format("is of hcomp {}, this program of {}", theirs,
                       drop_in::cuda_library_version());
  try {
    get()->require_device();
  } catch (std::exception const& error) {
    return error.what();
  }
  return "vectors in GPU memory stay there";
}
std::string cuda_library_text() {
  auto const file = folder_for("cuda") / "libhcomp_cuda.so";
  std::error_code error;
  if (!files::exists(file, error))
    return fmt::format("{} was not built, so vectors in GPU memory cannot stay there",
                       file.string());
  auto const tried = info::try_library(file, describe_cuda_library);
  return fmt::format("{}\n{}", file.string(), tried.words);
}

void show_machine() {
  put("\nMachine\n");
  constexpr auto libucp = "libucp.so.0";
  auto const ucx = info::try_library(libucp, describe_ucx);
  print("UCX", ucx.loads ? ucx.words + "\n" + info::ucx_device_memory(libucp)
                         : "none, which only hcomp::ucx needs: " + ucx.words);
  auto const gpus = info::try_library("libcuda.so.1", describe_gpus);
  print("GPU", gpus.loads ? gpus.words : "none, which only hcomp::gpu needs: " + gpus.words);
  print("C API over CUDA", cuda_library_text());
  switch (processor_simd_level()) {
    case simd_level::avx512: print("processor", "AVX-512"); break;
    case simd_level::avx2: print("processor", "AVX2"); break;
    case simd_level::baseline: print("processor", "no AVX2; codecs take what every one has"); break;
  }
  print("XDP", info::kernel_offload());
}

/// Prints the statistics of a running aggregator.
/// @throws std::exception  the aggregator does not answer
void show_aggregator(std::string const& address) {
  auto const seen = udp::ask_for_statistics(udp::address(address), std::chrono::milliseconds(1500));
  put(fmt::format("hcomp-aggregator at {}\n", hcomp::detail::printable(address)));
  print("jobs",
        fmt::format("{} now, {} of them added in the kernel; {} begun, {} left, {} idle", seen.jobs,
                    seen.jobs_in_kernel, seen.jobs_begun, seen.jobs_left, seen.jobs_idle));
  print("joins", fmt::format("{}, {} refused", seen.joins, seen.joins_refused));
  print("datagrams", fmt::format("{} received, {} sent, {} lost here", seen.received, seen.sent,
                                 seen.lost_here));
  print("dropped", fmt::format("{} damaged or malformed datagrams, {} of unknown jobs, {} "
                               "not from their rank's sender",
                               seen.damaged, seen.unknown_job, seen.foreign));
  print("contributions",
        fmt::format("{} added, {} duplicates, {} late, {} stale, {} refused", seen.added,
                    seen.duplicates, seen.late, seen.stale, seen.refused));
  print("sums", fmt::format("{} whole, {} partial, {} abandoned", seen.whole, seen.partial,
                            seen.abandoned));
}

void show_codecs() {
  put("\nCodecs\n");
  try {
    for (auto const& codec : drop_in::codec_names())
      print(codec, std::string(drop_in::about_codec(codec)));
  } catch (std::invalid_argument const& why) {  // reported with HCOMP_CODECS
    print("none", "because of HCOMP_CODECS; see below");
  }
}

// ---- Environment

/// True if all codecs named in HCOMP_CODECS are available.
bool has_codecs() {
  try {
    auto const& names = drop_in::add_codecs_from_environment();
    print("HCOMP_CODECS", names.empty() ? "not set; it can be shared objects, with ':' between them"
                                        : "adds " + names);
    return true;
  } catch (std::invalid_argument const& why) {
    print_wrong("HCOMP_CODECS", why.what());
    return false;
  }
}

void show_config() {
  try {
    auto const all = drop_in::settings::from(drop_in::variable("HCOMP_CONFIG"));
    auto text = all.text();
    for (auto at = text.find("; "); at != text.npos; at = text.find("; ", at))
      text.replace(at, 2, "\n");
    print("HCOMP_CONFIG", all.rules.empty() ? "no rules: MPI does all reductions" +
                                                  (text.empty() ? "" : "\n" + text)
                                            : text);
  } catch (std::invalid_argument const& what) {
    print("HCOMP_CONFIG", what.what());
    wrong.push_back(what.what());
  }
}

/// Prints the value of a variable, or the error in it.
/// @param words_of  returns the text; throws std::invalid_argument with a text that starts with the
///                  name
template <class F> void show_variable(std::string const& name, F const& words_of) {
  try {
    print(name, words_of());
  } catch (std::invalid_argument const& what) {
    print_wrong(name, std::string(what.what()).substr(name.size() + 2));
  }
}

void show_max_simd() {
  show_variable("HCOMP_MAX_SIMD", [] {
    auto const used = best_simd_level(), has = processor_simd_level();
    auto const text = fmt::format("codecs take {}", name_of(used));
    if (used != has) return fmt::format("{}; the processor has {}", text, name_of(has));
    return drop_in::variable("HCOMP_MAX_SIMD").empty() ? "not set; " + text : text;
  });
}

void show_report() {
  show_variable("HCOMP_REPORT", [] {
    auto const report = drop_in::report_from_environment();
    drop_in::require_writable_report(report);
    return report.empty() ? "not set; it can be summary or json:FILE" : report;
  });
}

void show_shadow() {
  show_variable("HCOMP_SHADOW", [] {
    auto const calls = drop_in::shadow_from_environment();
    return calls ? fmt::format("{} calls are tried beside MPI's own", *calls) : "not set";
  });
}

void show_timeout() {
  show_variable("HCOMP_TIMEOUT", [] {
    return fmt::format("MPI_Init waits {} s for ranks that say nothing",
                       drop_in::timeout_from_environment());
  });
}

void show_preload() {
  std::vector<std::string> ours;
  for (auto const& library : split(drop_in::variable("LD_PRELOAD"), ": "))
    if (files::path(library).filename().string().starts_with("libhcomp")) ours.push_back(library);
  if (ours.empty())
    return print("LD_PRELOAD",
                 "no library of hcomp; set it for the ranks, or nothing is taken over");
  std::string mpis;
  for (auto const& library : ours) {
    files::path const path(library);
    std::error_code error;
    auto const mpi = path.parent_path().filename().string();
    auto const* const kind = drop_in::mpi_kind_called(mpi);
    std::string const expected(kind ? kind->preload : "libhcomp_pmpi.so");
    if (path.filename() != expected)
      print_wrong("LD_PRELOAD",
                  fmt::format("{} takes nothing over; {} beside it does", library, expected));
    else if (!mpi.empty() && !files::exists(path, error))
      print_wrong("LD_PRELOAD", library + " does not exist, and the loader goes on without it");
    else
      print("LD_PRELOAD", library);
    if (!mpis.empty() && mpis != mpi)
      print_wrong("LD_PRELOAD", fmt::format("libraries for two MPIs, {} and {}", mpis, mpi));
    mpis = mpi;
  }
}

/// The library to preload for a program, or for a library that programs load.
/// @throws std::runtime_error  no such library exists
std::string preload_for(std::string const& file) {
  for (auto const& library : info::libraries_of(file)) {
    auto const* const mpi = drop_in::mpi_kind_of(library);
    if (!mpi) continue;
    auto const path = (folder_for(std::string(mpi->name)) / mpi->preload).string();
    if (!files::exists(path))
      throw std::runtime_error(
          fmt::format("{} is linked with {}, which is {}, and {} does not exist; CMake's target "
                      "hcomp_pmpi_{} builds it",
                      file, library, mpi->words, path, mpi->name));
    return path;
  }
  throw std::runtime_error(file + " is linked with none of Open MPI, MPICH, and the ABI of MPI 5");
}

}  // namespace

int main(int count, char** words) {
  CLI::App app(
      "Says what this installation of hcomp has, what the environment asks of it, and what is "
      "wrong.\nExit status: 0 if nothing is wrong, else 1.",
      "hcomp-info");
  app.set_version_flag("--version", version);
  bool only_settings = false, only_codecs = false;
  app.add_flag("--settings", only_settings, "Print what HCOMP_CONFIG can be, and nothing else");
  app.add_flag("--codecs", only_codecs,
               "Print the codecs as a table in Markdown, and nothing else");
  std::string program;
  auto const* const preload =
      app.add_option("--preload-for", program,
                     "Print the library to preload for this program, and nothing else; for one in "
                     "Python, for mpi4py's MPI.*.so")
          ->type_name("FILE");
  std::string aggregator;
  auto const* const asks =
      app.add_option(
             "--aggregator", aggregator,
             "Print the statistics of the hcomp-aggregator at this address, and nothing else")
          ->type_name("HOST:PORT");
  app.require_option(0, 1);
  try {
    app.parse(count, words);
  } catch (CLI::ParseError const& one) {
    std::ostringstream out, errors;
    int const status = app.exit(one, out, errors);
    put(out.str());
    fmt::print(stderr, "{}", hcomp::detail::printable(errors.str()));
    return leave(status);
  }
  if (only_settings || only_codecs || preload->count() > 0 || asks->count() > 0) {
    try {
      if (asks->count() > 0)
        show_aggregator(aggregator);
      else
        put(only_settings ? drop_in::help()
            : only_codecs ? info::codec_table()
                          : preload_for(program) + "\n");
    } catch (std::exception const& why) {
      fmt::print(stderr, "hcomp-info: {}\n", hcomp::detail::printable(why.what()));
      return EXIT_FAILURE;
    }
    return leave(EXIT_SUCCESS);
  }

  put(fmt::format("hcomp {}, wire format {}\n", version, wire_version));
  show_mpis();
  show_machine();
  show_codecs();
  put("\nEnvironment\n");
  show_max_simd();
  if (has_codecs()) show_config();
  show_report();
  show_shadow();
  show_timeout();
  show_preload();
  put(wrong.empty() ? "\nNothing is wrong.\n" : "\nWrong:\n");
  for (auto const& one : wrong) put(fmt::format("  {}\n", hcomp::detail::printable(one)));
  return leave(wrong.empty() ? EXIT_SUCCESS : EXIT_FAILURE);
}
