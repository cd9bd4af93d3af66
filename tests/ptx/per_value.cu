/// @file
/// Work of kernels per value, counted by the PTX machine and compared with kernels/README.md.
///
///     test_ptx.per_value <page>
///
/// Prints the table. Fails if the page's table has other rows, if a kernel does more work than the
/// page states, or so much less that the page is out of date.

#include <dlfcn.h>

#include <cstddef>
#include <cstdio>
#include <exception>
#include <hcomp/gpu/stream_executor.hpp>
#include <string>
#include <support/ptx/stats.hpp>
#include <support/work_of_plans.hpp>
#include <support/work_table.hpp>

namespace {

using namespace hcomp;
using namespace hcomp::testing;

/// Checks one count of the page and prints the error. Returns true if there is none.
/// @param least  a difference that is rounding
bool check(std::string const& work, char const* what, double found, double said, double least) {
  bool const is_more = found > said * 1.03 + least, is_less = found < said * 0.9 - least;
  if (is_more || is_less)
    std::printf("WRONG: %s: %s %.2f, the page says %.2f%s\n", work.c_str(), what, found, said,
                is_more ? "" : ": it is out of date");
  return !is_more && !is_less;
}

bool check(work_table const& found, work_table const& said) {
  bool is_right = true;
  for (auto const& [work, r] : found) {
    auto const place = said.find(work);
    if (place == said.end()) {
      std::printf("WRONG: %s: not on the page\n", work.c_str());
      is_right = false;
      continue;
    }
    work_row const& s = place->second;
    is_right &= check(work, "instructions", r.instructions, s.instructions, 0.05);
    is_right &= check(work, "sectors", r.sectors, s.sectors, 0.005);
    is_right &= check(work, "local accesses", r.local, s.local, 0.005);
    is_right &= check(work, "share", r.share, s.share, 0.01);
  }
  for (auto const& [work, r] : said) {
    if (found.contains(work)) continue;
    std::printf("WRONG: %s: on the page, and not measured\n", work.c_str());
    is_right = false;
  }
  return is_right;
}

/// Null without the machine.
auto* take_stats() {
  static auto* const found =
      reinterpret_cast<decltype(&hcomp_ptx_take_stats)>(dlsym(RTLD_DEFAULT, HCOMP_PTX_TAKE_STATS));
  return found;
}

/// Counts the work on vectors of `values`, and prints it.
work_table counted() {
  constexpr std::size_t values = 65536;  // two blocks of signs, more of the other codecs
  gpu::stream_executor executor;
  work_table found;
  auto const add = [&](auto const& work) {
    ptx::stats before, did;
    work.prepare();
    executor.synchronize();
    take_stats()(&before);
    work.run();
    executor.synchronize();
    take_stats()(&did);
    auto const n = static_cast<double>(values);
    auto const sectors = static_cast<double>(did.loaded_sectors + did.stored_sectors);
    auto const least = static_cast<double>(work.least());
    work_row r{static_cast<double>(did.issued) / n, 32 * sectors / least, work.asked,
               static_cast<double>(did.local) / n};
    r.share = promised_share(r, least / n, h200);
    found[work.name] = r;
    std::printf("%s\n", text_of(work.name, r).c_str());
    std::fflush(stdout);
  };
  work_of_plans(executor, values, add).all();
  return found;
}

}  // namespace

int main(int count, char** arguments) try {
  if (!take_stats()) {
    std::printf("Skipped: this is about the PTX machine, which is not loaded\n");
    return 77;
  }
  if (count != 2) {
    std::fprintf(stderr, "test_ptx.per_value <page with the table>\n");
    return 2;
  }
  std::printf("%s\n|---|---:|---:|---:|---:|---:|---:|\n", work_table_head);
  return check(counted(), read_work_table(arguments[1])) ? 0 : 1;
} catch (std::exception const& error) {
  std::fprintf(stderr, "test_ptx.per_value: %s\n", error.what());
  return 1;
}
