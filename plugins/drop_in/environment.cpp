#include "environment.hpp"

#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <hcomp/core/detail/printable.hpp>
#include <limits>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string_view>
#include <system_error>

namespace hcomp::drop_in {

namespace {

[[noreturn]] void refuse(char const* name, std::string const& value, std::string const& why) {
  throw std::invalid_argument(
      hcomp::detail::printable(std::string(name) + ": '" + value + "'; " + why));
}

/// The variable as a number; none if it is not set.
template <class T>
std::optional<T> number(char const* name, T least, T most, char const* what_it_is) {
  auto const text = variable(name);
  if (text.empty()) return std::nullopt;
  T value{};
  char const* const end = text.data() + text.size();
  auto const read = std::from_chars(text.data(), end, value);
  if (read.ec != std::errc{} || read.ptr != end || value < least || value > most)
    refuse(name, text, what_it_is);
  return value;
}

}  // namespace

void print(std::string const& text) {
  std::fprintf(stderr, "hcomp: %s\n", hcomp::detail::printable(text).c_str());
  std::fflush(stderr);
}

void print_once(std::string const& text) {
  static std::mutex mutex;
  static std::set<std::string> printed;
  std::lock_guard const lock(mutex);
  if (printed.insert(text).second) print(text);
}

std::string variable(char const* name) {
  char const* const value = std::getenv(name);
  return value ? value : "";
}

void require_no_misspelt_config() {
  for (char** one = environ; *one; ++one) {
    std::string_view const text = *one, name = text.substr(0, text.find('='));
    if (name.starts_with("HCOMP_CONF") && name != "HCOMP_CONFIG")
      refuse(std::string(name).c_str(), std::string(text.substr(name.size() + 1)),
             "rules are in HCOMP_CONFIG");
  }
}

std::string report_from_environment() {
  auto const report = variable("HCOMP_REPORT");
  bool const is_file = report.starts_with("json:") && report.size() > 5;
  if (!report.empty() && report != "summary" && !is_file)
    refuse("HCOMP_REPORT", report, "it can be summary or json:FILE");
  std::error_code error;
  auto const file = std::filesystem::absolute(report.substr(is_file ? 5 : 0), error);
  return is_file && !error ? "json:" + file.string() : report;
}

std::optional<std::size_t> shadow_from_environment() {
  return number<std::size_t>("HCOMP_SHADOW", 0, std::numeric_limits<std::size_t>::max(),
                             "it is a number of calls, such as 10");
}

int timeout_from_environment() {
  return number("HCOMP_TIMEOUT", 1, 1'000'000,
                "it is a whole number of seconds from 1 to 1000000, such as 60")
      .value_or(60);
}

void require_writable_report(std::string const& report) {
  if (!report.starts_with("json:")) return;
  auto const file = report.substr(5);
  bool const is_new = access(file.c_str(), F_OK) != 0;
  auto* const opened = std::fopen(file.c_str(), "a");
  if (!opened)
    refuse("HCOMP_REPORT", report,
           "the file cannot be written: " + std::generic_category().message(errno));
  std::fclose(opened);
  if (is_new) std::remove(file.c_str());
}

}  // namespace hcomp::drop_in
