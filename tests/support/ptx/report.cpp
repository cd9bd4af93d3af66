#include <cxxabi.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <support/ptx/report.hpp>

namespace hcomp::ptx {
namespace {

/// Expected findings, and the reasons why they are harmless.
struct expectation {
  finding what;
  char const* detail;  ///< begin of the finding's text
  char const* kernel;  ///< part of its name
  char const* why;
};
constexpr char const* whole_words =
    "INCEPTIONN's chunks end at any byte and are read by whole words, of which bytes behind the "
    "chunk "
    "are not used";
constexpr expectation expectations[] = {
    {finding::race, "write after read, global memory",
     "run_blocks<hcomp::detail::find_claims_of_parts>",
     "one lane writes a word that all lanes of its warp have read; what it writes is their ballot, "
     "so "
     "it cannot be written before they have read"},
    {finding::uninitialised, "global memory", "hcomp::detail::unpack_owned_bits>",
     "loads 64 bits, of which it uses as many as are a rank's; those behind may never have been "
     "written, but are in the same allocation"},
    {finding::uninitialised, "shared memory",
     "hcomp::detail::decode_chunks<hcomp::detail::inceptionn::chunk_coder>", whole_words},
    {finding::uninitialised, "shared memory",
     "hcomp::detail::encode_in_order<hcomp::detail::inceptionn::chunk_coder,", whole_words},
    {finding::uninitialised, "shared memory",
     "hcomp::detail::find_nonfinite_chunks<hcomp::detail::inceptionn::chunk_coder>", whole_words},
};

bool is_expected(finding what, std::string const& detail, std::string const& kernel) {
  for (auto const& one : expectations)
    if (one.what == what && detail.starts_with(one.detail) &&
        kernel.find(one.kernel) != std::string::npos)
      return true;
  return false;
}

std::uint64_t number(char const* name, std::uint64_t otherwise) {
  char const* const text = std::getenv(name);
  return text && *text ? std::strtoull(text, nullptr, 10) : otherwise;
}

}  // namespace

options const& options::get() {
  static options const all{
      number("HCOMP_PTX_CHECKS", 1) != 0, number("HCOMP_PTX_EAGER", 0) != 0,
      number("HCOMP_PTX_STATS", 0) != 0,  static_cast<int>(number("HCOMP_PTX_ORDER", 0)),
      number("HCOMP_PTX_SEED", 1),        static_cast<int>(number("HCOMP_PTX_MULTIPROCESSORS", 1))};
  return all;
}

report& report::get() {
  static auto& one = *new report;  // outlives all its users
  return one;
}

void report::fail(std::string const& what) {
  std::fflush(stdout);
  std::fprintf(stderr, "PTX machine: error: %s\n", what.c_str());
  std::fflush(stderr);
  std::_Exit(1);
}

void report::add(finding what, std::string const& detail, kernel const& in, std::size_t at) {
  auto& one = findings_[{in.name, what, in.code[at].line, detail}];
  if (one.times++ == 0) one.text = in.texts[at];
}

bool report::finish() const {
  bool is_sound = true;
  for (auto const& [where, count] : findings_) {
    auto const& [name, what, line, detail] = where;
    std::string const kernel = demangled(name);
    bool const expected = is_expected(what, detail, kernel);
    if (expected && !options::get().stats) continue;
    is_sound &= expected;
    std::fprintf(stderr, "PTX machine: %s%s: %s, %llu times: line %d '%s' of %s\n",
                 expected ? "expected " : "", what == finding::race ? "race" : "uninitialised",
                 detail.c_str(), static_cast<unsigned long long>(count.times), line,
                 count.text.c_str(), kernel.c_str());
  }
  double seconds = 0;
  std::uint64_t launches = 0, instructions = 0;
  std::size_t launched_kernels = 0;
  if (options::get().stats)
    std::fprintf(
        stderr,
        "| kernel | launches | threads | instructions | issued | bytes loaded | sectors | bytes "
        "stored "
        "| sectors | shared accesses | local accesses | barriers | warp steps | seconds |\n");
  for (auto const& [name, f] : stats_) {
    seconds += f.seconds;
    launches += f.launches;
    instructions += f.instructions;
    launched_kernels += f.launches > 0;
    if (!options::get().stats) continue;
    std::fprintf(stderr, "| %s |", demangled(name).c_str());
    for (std::uint64_t const metric :
         {f.launches, f.threads, f.instructions, f.issued, f.loaded_bytes, f.loaded_sectors,
          f.stored_bytes, f.stored_sectors, f.shared, f.local, f.barriers, f.warp_steps})
      std::fprintf(stderr, " %llu |", static_cast<unsigned long long>(metric));
    std::fprintf(stderr, " %.2f |\n", f.seconds);
  }
  if (launches > 0)
    std::fprintf(
        stderr,
        "PTX machine: %llu launches of %zu of %zu kernels, %.0f million instructions, %.1f s "
        "in kernels\n",
        static_cast<unsigned long long>(launches), launched_kernels, stats_.size(),
        static_cast<double>(instructions) / 1e6, seconds);
  std::fflush(stderr);
  return is_sound;
}

std::string demangled(std::string const& name) {
  int status = 0;
  char* const text = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
  std::string const found = status == 0 ? text : name;
  std::free(text);
  return found;
}

}  // namespace hcomp::ptx
