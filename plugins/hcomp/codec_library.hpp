#pragma once
/// @file
/// Codecs in shared objects, loaded on request: by HCOMP_CODECS in the C API and the preloaded
/// library, by --codecs in hcomp_perf.
///
/// The author of a codec writes registry entries and defines the two functions declared here:
///
///     #include <hcomp/codec_library.hpp>
///
///     char const* hcomp_codecs_made_for() { return hcomp::codec_library::version(); }
///     void hcomp_codecs(hcomp::codec_library& all) {
///       all.add(my_row<float>());
///       all.add(my_row<double>());
///     }
///
/// Compile it with -shared -fPIC, and with the hcomp and the compiler of the program that loads it.

#include <dlfcn.h>

#include <cstddef>
#include <exception>
#include <hcomp/collective/by_name/codec_entry.hpp>
#include <hcomp/core/detail/printable.hpp>
#include <hcomp/core/half.hpp>
#include <hcomp/core/version.hpp>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace hcomp {

/// Entries of codecs that are not yet in a registry.
class codec_library {
 public:
  /// The version that a shared object and the program that loads it must share, for example "0.1.0,
  /// wire format 1, rows of 216 bytes".
  static char const* version() {
    static std::string const text =
        std::to_string(HCOMP_VERSION_MAJOR) + "." + std::to_string(HCOMP_VERSION_MINOR) + "." +
        std::to_string(HCOMP_VERSION_PATCH) + ", wire format " + std::to_string(wire_version) +
        ", rows of " + std::to_string(sizeof(codec_entry<float>)) + " bytes";
    return text.c_str();
  }

  /// Loads shared objects from paths separated by ':'. They are never unloaded.
  /// @throws std::invalid_argument  one does not exist, does not load, defines no codecs, or was
  ///                                built for another hcomp; the text contains the path and the
  ///                                reason
  static codec_library from(std::string_view paths);

  template <class V> void add(codec_entry<V> row) {
    std::get<rows_of<V>>(rows_).push_back(std::move(row));
  }
  /// Adds the entries to the registries of their value types, all or none.
  /// @throws std::invalid_argument  a name is taken
  template <class... V> void add_to(codec_registry<V>&... tables) const {
    (require_free_names(tables), ...);
    (
        [&] {
          for (auto const& row : std::get<rows_of<V>>(rows_)) tables.add(row);
        }(),
        ...);
  }
  /// The names of all codecs, separated by commas.
  std::string names() const {
    std::set<std::string> names;
    std::apply([&](auto const&... rows) { (add_names(names, rows), ...); }, rows_);
    std::string text;
    for (auto const& name : names) text += (text.empty() ? "" : ", ") + name;
    return text;
  }

 private:
  template <class V> using rows_of = std::vector<codec_entry<V>>;

  template <class V> static void add_names(std::set<std::string>& to, rows_of<V> const& rows) {
    for (auto const& row : rows) to.insert(row.name);
  }
  template <class V> void require_free_names(codec_registry<V> const& table) const {
    std::set<std::string> taken;
    for (auto const& row : std::get<rows_of<V>>(rows_)) {
      auto names = row.also;
      names.push_back(row.name);
      for (auto const& name : names)
        if (table.find(name) || !taken.insert(name).second)
          throw std::invalid_argument("there is a codec '" + name + "' already");
    }
  }
  void read(std::string const& path);

  std::tuple<rows_of<float>, rows_of<double>, rows_of<float16>, rows_of<bfloat16>> rows_;
};

}  // namespace hcomp

// Defined by a shared object with codecs, not by the program that loads it.
extern "C" {
[[gnu::visibility("default")]] char const* hcomp_codecs_made_for();
[[gnu::visibility("default")]] void hcomp_codecs(hcomp::codec_library& all);
}

namespace hcomp {

inline codec_library codec_library::from(std::string_view paths) {
  codec_library all;
  while (!paths.empty()) {
    auto const end = paths.find(':');
    if (auto const path = paths.substr(0, end); !path.empty()) all.read(std::string(path));
    paths.remove_prefix(end == paths.npos ? paths.size() : end + 1);
  }
  return all;
}

inline void codec_library::read(std::string const& path) {
  auto const refuse = [&](std::string const& why) {
    throw std::invalid_argument(detail::printable("no codecs in '" + path + "': " + why));
  };
  // A path with '/' disables dlopen's search path.
  auto const file = path.find('/') == path.npos ? "./" + path : path;
  void* const handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    char const* const why = dlerror();
    refuse(why ? why : "it does not load");
  }
  auto* const made_for =
      reinterpret_cast<decltype(&hcomp_codecs_made_for)>(dlsym(handle, "hcomp_codecs_made_for"));
  auto* const codecs = reinterpret_cast<decltype(&hcomp_codecs)>(dlsym(handle, "hcomp_codecs"));
  if (!made_for || !codecs)
    refuse(std::string("it has no function ") +
           (made_for ? "hcomp_codecs" : "hcomp_codecs_made_for"));
  if (std::string const theirs = made_for(); theirs != version())
    refuse("it was made for hcomp " + theirs + "; this is " + version());
  try {
    codecs(*this);
  } catch (std::exception const& error) {
    refuse(error.what());
  }
}

}  // namespace hcomp
