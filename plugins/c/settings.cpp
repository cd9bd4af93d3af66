#include "settings.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <hcomp/collective/by_name/registered_codecs.hpp>
#include <hcomp/core/detail/printable.hpp>
#include <limits>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <type_traits>
#include <utility>

namespace hcomp::drop_in {

namespace {

constexpr std::size_t no_limit = static_cast<std::size_t>(-1);
constexpr int most_int = std::numeric_limits<int>::max();

// ---- Codecs and keys

/// A codec that a rule can name.
struct choice_of_codec {
  std::string_view name, about;
  std::vector<value_type> types;      ///< supported value types
  codec_info const* entry = nullptr;  ///< null: none, the all-reduce of MPI
  void (*check)(codec_settings const&) = nullptr;
  bool has_parts = false;  ///< see make_parts

  /// 16-bit floats are encoded as floats.
  bool supports(value_type type) const {
    bool const is_half = type == value_type::float16 || type == value_type::bfloat16;
    return std::ranges::find(types, is_half ? value_type::float32 : type) != types.end();
  }
  bool serves(calls_of whose) const { return whose == calls_of::mpi || !entry || has_parts; }
  bool wants_feedback() const { return entry && entry->wants_feedback; }
  /// Keys that a user sets once. The magnitude is set in every call.
  std::vector<codec_key> keys() const {
    std::vector<codec_key> keys;
    if (entry) keys = entry->keys;
    std::erase_if(keys, [](codec_key const& one) { return one.name == "magnitude"; });
    return keys;
  }
  std::vector<algorithm_kind> strategies() const {
    return entry ? entry->algorithms : std::vector<algorithm_kind>{};
  }
};

/// Adds the codecs for values of type V.
template <class V> void add_codecs(std::vector<choice_of_codec>& list, value_type type) {
  registered_codecs<V>().for_each([&](codec_entry<V> const& entry) {
    auto const known = std::ranges::find(list, entry.name, &choice_of_codec::name);
    if (known != list.end())
      known->types.push_back(type);
    else
      list.push_back(
          {entry.name, entry.about, {type}, &entry, entry.check, entry.make_parts != nullptr});
  });
}

std::vector<choice_of_codec> const& codecs() {
  static auto const all = [] {
    add_codecs_from_environment();
    using enum value_type;
    std::vector<choice_of_codec> list{
        {"none", "the library's own reduction, unchanged", {float32, float64, int32, int64}}};
    add_codecs<float>(list, float32);
    add_codecs<double>(list, float64);
    add_codecs<std::int32_t>(list, int32);
    add_codecs<std::int64_t>(list, int64);
    return list;
  }();
  return all;
}

choice_of_codec const* find_codec(std::string_view name) {
  for (auto const& one : codecs())
    if (one.entry ? one.entry->is_called(name) : one.name == name) return &one;
  return nullptr;
}

std::vector<value_type> const& types_for(calls_of whose) {
  using enum value_type;
  static std::vector<value_type> const of_mpi{float32, float64, int32, int64},
      of_nccl{float32, float16, bfloat16};
  return whose == calls_of::mpi ? of_mpi : of_nccl;
}
/// The types that the word before a rule's ':' names; empty for an unknown word.
std::vector<value_type> types_called(std::string_view word, calls_of whose) {
  using enum value_type;
  if (word == "all")
    return whose == calls_of::mpi ? std::vector{float32, float64} : types_for(whose);
  for (auto const type : types_for(whose))
    if (word == to_text(type)) return {type};
  return {};
}

struct key_facts {
  std::string_view name, value;
  std::string_view whose;  ///< "all", "all but none", or "feedback": codecs that use error feedback
  std::string_view about;

  bool is_of(choice_of_codec const& codec, calls_of calls) const {
    constexpr std::array of_nccl{"feedback", "algorithm", "min", "max", "ranks"};
    if (calls == calls_of::nccl && std::ranges::find(of_nccl, name) == of_nccl.end()) return false;
    return whose == "all" || (whose == "all but none" && codec.entry) ||
           (whose == "feedback" && codec.wants_feedback());
  }
};

constexpr std::array rule_keys{
    key_facts{"feedback", "yes|no", "feedback",
              "error feedback: adds the residual to the next call; default yes"},
    key_facts{"algorithm", "NAME", "all but none",
              "ring, torus[:RxC], direct, recursive_doubling, sampled,\n"
              "                              hierarchical[:NAME]"},
    key_facts{"turns", "N", "all but none", "tensors that share one buffer in turns; default 1"},
    key_facts{"threads", "N", "all but none", "that encode and decode, per rank; default 1"},
    key_facts{"min", "SIZE", "all", "smaller vectors are left alone; default 64KiB, of none 0"},
    key_facts{"max", "SIZE", "all", "larger vectors are left alone; default: no limit"},
    key_facts{"ranks", "N", "all", "smaller communicators are left alone; default 2"},
    key_facts{"when", "always|faster", "all but none",
              "faster: all-reduces are MPI's where that is faster; default always"},
    key_facts{"device", "yes|no", "all but none",
              "no: vectors in a device's memory are MPI's; default yes"},
    key_facts{"check", "N", "all but none",
              "every Nth call by the rule is compared with MPI's own; default 0: none"}};
constexpr std::array program_keys{
    key_facts{"nonblocking", "yes|no", "", "MPI_Iallreduce too, with MPI_THREAD_MULTIPLE"},
    key_facts{"feedback_memory", "SIZE", "",
              "limit of memory for residuals, per rank; default 1GiB"},
    key_facts{"shadow", "N", "", "the first N calls of a communicator are tried beside MPI's"}};

constexpr std::array<std::pair<std::string_view, std::size_t>, 6> units{
    {{"GiB", std::size_t{1} << 30},
     {"MiB", std::size_t{1} << 20},
     {"KiB", std::size_t{1} << 10},
     {"GB", 1'000'000'000},
     {"MB", 1'000'000},
     {"kB", 1'000}}};

std::string joined(auto const& list, auto const& name) {
  std::string text;
  for (auto const& one : list) text.append(text.empty() ? "" : ", ").append(name(one));
  return text;
}
std::string names_of(auto const& list) {
  return joined(list, [](auto const& one) { return one.name; });
}
/// "float only", "float and double".
std::string types_of(choice_of_codec const& codec) {
  std::string text(to_text(codec.types.front()));
  if (codec.types.size() == 1) return text + " only";
  for (auto one = codec.types.begin() + 1; one != codec.types.end(); ++one)
    text.append(one + 1 == codec.types.end() ? " and " : ", ").append(to_text(*one));
  return text;
}
/// Names of the codecs for any of these types.
std::string codecs_for(std::vector<value_type> const& types, calls_of whose) {
  auto all = codecs();
  std::erase_if(all, [&](choice_of_codec const& codec) {
    return !codec.serves(whose) ||
           std::ranges::none_of(types, [&](value_type type) { return codec.supports(type); });
  });
  return names_of(all);
}
std::string algorithms_of(choice_of_codec const& codec) {
  return joined(codec.strategies(), [](algorithm_kind kind) {
    return kind == algorithm_kind::torus ? "torus, torus:RxC" : algorithm{.kind = kind}.name();
  });
}
std::string keys_of(choice_of_codec const& codec, calls_of whose) {
  std::vector<std::string> own;
  for (auto const& one : codec.keys()) own.push_back(one.name);
  for (auto const& one : rule_keys)
    if (one.is_of(codec, whose)) own.emplace_back(one.name);
  return joined(own, [](std::string const& name) { return name; });
}

// ---- Writing

std::string size_text(std::size_t bytes) {
  for (auto const& [unit, size] : units)
    if ((size & (size - 1)) == 0 && bytes > 0 && bytes % size == 0)
      return std::to_string(bytes / size).append(unit);
  return std::to_string(bytes);
}
std::string_view yes_no(bool value) { return value ? "yes" : "no"; }

// ---- Reading

constexpr std::string_view spaces = " \t\r\n";

std::string_view trimmed(std::string_view text) {
  auto const first = text.find_first_not_of(spaces);
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(spaces) - first + 1);
}

/// Removes and returns the text before the first character of `ends`. Removes that character as
/// well.
std::string_view cut(std::string_view& text, std::string_view ends) {
  auto const end = text.find_first_of(ends);
  auto const first = text.substr(0, end);
  text.remove_prefix(end == text.npos ? text.size() : end + 1);
  return first;
}

std::string types_text(calls_of whose) {
  return joined(types_for(whose), [](value_type type) { return to_text(type); }) + ", all";
}

/// The text between two ';', with its number for messages.
struct clause {
  int number;
  std::string_view text;
  calls_of whose;

  std::string name() const {
    return "clause " + std::to_string(number) + " '" + std::string(text) + "'";
  }
  [[noreturn]] void refuse(std::string const& why) const {
    throw std::invalid_argument(hcomp::detail::printable("HCOMP_CONFIG: " + name() + ": " + why));
  }
};

/// `key=value` in a clause.
struct assignment {
  clause const& where;
  std::string_view key, value;

  [[noreturn]] void refuse(std::string const& why) const {
    where.refuse("'" + std::string(key) + "=" + std::string(value) + "': " + why);
  }
  template <class T> T number(T least, T most) const {
    T result{};
    char const* const end = value.data() + value.size();
    auto const read = std::from_chars(value.data(), end, result);
    if (read.ec != std::errc{} || read.ptr != end || result < least || result > most)
      refuse(std::string(key) + " is a whole number from " + std::to_string(least) + " to " +
             std::to_string(most));
    return result;
  }
  bool yes() const {
    if (value != "yes" && value != "no") refuse(std::string(key) + " is yes or no");
    return value == "yes";
  }
  bool is_faster() const {
    if (value != "always" && value != "faster") refuse(std::string(key) + " is always or faster");
    return value == "faster";
  }
  std::size_t size() const {
    std::size_t count = 0, factor = 1;
    char const* const end = value.data() + value.size();
    auto const read = std::from_chars(value.data(), end, count);
    std::string_view const unit(read.ptr, static_cast<std::size_t>(end - read.ptr));
    bool known = read.ec == std::errc{} && unit.empty();
    for (auto const& [name, bytes] : units)
      if (read.ec == std::errc{} && unit == name) known = true, factor = bytes;
    if (!known)
      refuse(std::string(key) + " is a whole number of bytes, or of kB, MB, GB, KiB, MiB or GiB " +
             "written right behind it, such as 64KiB");
    if (count > no_limit / factor)
      refuse("that is more than the " + std::to_string(no_limit) + " bytes an address can tell");
    return count * factor;
  }
  algorithm strategy(choice_of_codec const& codec) const {
    algorithm how;
    try {
      how = algorithm::from(value);
    } catch (std::invalid_argument const& what) {
      refuse(what.what());
    }
    auto const strategies = codec.strategies();
    if (std::ranges::find(strategies, how.kind) == strategies.end())
      refuse("codec '" + std::string(codec.name) + "' supports the algorithms " +
             algorithms_of(codec));
    return how;
  }
};

assignment assignment_in(clause const& where, std::string_view word) {
  auto const equals = word.find('=');
  if (equals == word.npos || equals == 0 || equals + 1 == word.size())
    where.refuse("'" + std::string(word) +
                 "' is no key=value; there must be no space beside the '='");
  return {where, word.substr(0, equals), word.substr(equals + 1)};
}

void refuse_second(assignment const& one, std::vector<std::string_view>& seen) {
  if (std::ranges::find(seen, one.key) != seen.end())
    one.refuse("'" + std::string(one.key) + "' stands here a second time");
  seen.push_back(one.key);
}

void apply(assignment const& one, choice_of_codec const& codec, rule& to) {
  auto const key = one.key;
  if (key == "feedback") to.spec.feedback = one.yes();
  if (key == "algorithm") {
    if (one.where.whose == calls_of::nccl && one.value != "hierarchical")
      one.refuse("over NCCL algorithm is hierarchical");
    to.spec.algorithm = one.strategy(codec);
  }
  if (key == "turns") to.spec.turns = one.number(1, 1'000'000);
  if (key == "threads") to.spec.threads = one.number(1, 1024);
  if (key == "min") to.min_bytes = one.size();
  if (key == "max") to.max_bytes = one.size();
  if (key == "ranks") to.min_ranks = one.number(1, most_int);
  if (key == "when") to.if_faster = one.is_faster();
  if (key == "device") to.takes_device = one.yes();
  if (key == "check") to.check_every = one.number(0, most_int);
}

/// "bits=4,transform=64". Shows the first key even at its default, unless it is off.
std::string keys_text(choice_of_codec const& codec, codec_settings const& given) {
  auto const keys = codec.keys();
  std::string text;
  for (auto const& key : keys)
    if (auto const value = given.get(key.name);
        value && ((key.name == keys[0].name && value != 0) || value != key.usual))
      text += (text.empty() ? "" : ",") + key.name + "=" + key.text(*value);
  return text;
}

/// The rule of a clause, without its type.
rule rule_in(clause const& where, choice_of_codec const& codec, std::string_view words) {
  rule result;
  result.spec.codec = codec.name;
  result.spec.feedback = codec.wants_feedback() && where.whose == calls_of::mpi;
  auto const own = codec.keys();
  auto const is_own = [&](std::string_view key) {
    return std::ranges::find(own, key, &codec_key::name) != own.end();
  };
  if (codec.entry)
    result.spec.algorithm.kind = codec.entry->algorithms.front();
  else
    result.min_bytes = 0;
  std::optional<codec_settings> settings;
  if (codec.entry) settings.emplace(*codec.entry);
  std::vector<std::string_view> seen;
  for (bool first = true; !(words = trimmed(words)).empty(); first = false) {
    auto const word = cut(words, spaces);
    bool const is_value = first && !own.empty() && word.find('=') == word.npos && !is_own(word);
    auto const one =
        is_value ? assignment{where, own.front().name, word} : assignment_in(where, word);
    auto const key = std::ranges::find(rule_keys, one.key, &key_facts::name);
    bool const is_of_rule = key != rule_keys.end() && key->is_of(codec, where.whose);
    if (!is_own(one.key) && !is_of_rule)
      one.refuse("codec '" + std::string(codec.name) + "' has no key '" + std::string(one.key) +
                 "'; there are: " + keys_of(codec, where.whose));
    refuse_second(one, seen);
    if (is_of_rule) {
      apply(one, codec, result);
      continue;
    }
    try {
      settings->set(one.key, one.value);
    } catch (std::invalid_argument const& why) {
      where.refuse(why.what());
    }
  }
  try {
    if (settings) {
      settings->require_all();
      result.spec.keys = keys_text(codec, *settings);
      codec.check(*settings);
    }
  } catch (std::invalid_argument const& why) {
    where.refuse("codec '" + std::string(codec.name) + "': " + why.what());
  }
  if (result.spec.feedback && codec.entry->feedback_refusal)
    if (auto const why = codec.entry->feedback_refusal(*settings); !why.empty())
      where.refuse(why + "; set feedback=no or other keys");
  if (result.min_bytes > result.max_bytes)
    where.refuse("min is " + std::to_string(result.min_bytes) + " bytes and max " +
                 std::to_string(result.max_bytes) + ", so it is for no vector");
  if (result.if_faster && result.spec.feedback)
    where.refuse(
        "when=faster conflicts with feedback=yes, the default of '" + std::string(codec.name) +
        "': all-reduces left to MPI would omit the residual; set feedback=no or when=always");
  return result;
}

/// True if `earlier` concerns every vector that `later` concerns.
bool covers(rule const& earlier, rule const& later) {
  return earlier.type == later.type && earlier.min_bytes <= later.min_bytes &&
         earlier.max_bytes >= later.max_bytes && earlier.min_ranks <= later.min_ranks;
}

/// The text of a rule after its type as words: codec, keys of the codec, keys of the rule.
/// `thc:bits=4,transform=64` and `thc bits=4 transform=64` are equivalent. Replaces names from
/// before 0.1.0 with current names.
std::string with_todays_names(std::string_view rule) {
  auto rest = trimmed(rule);
  auto const first = cut(rest, spaces);
  auto keys = find_codec(first) ? std::string_view{} : first;
  std::string codec(find_codec(first) ? first : cut(keys, ":"));
  std::vector<std::string> words;
  while (!keys.empty()) {
    auto const key = cut(keys, ",");
    words.emplace_back(key.empty() ? "," : key);
  }
  if (first.ends_with(':') || first.ends_with(','))
    words.emplace_back(first.substr(first.size() - 1));
  while (!(rest = trimmed(rest)).empty()) words.emplace_back(cut(rest, spaces));

  bool is_sparse = false;
  for (auto& word : words) {
    // only the codec that is lossless_sparse today had it
    is_sparse |= word == "algorithm=doubling";
    if (word == "algorithm=doubling") word = "algorithm=recursive_doubling";
    if (word == "algorithm=owner") word = "algorithm=sampled";
    if (word == "algorithm=hierarchical:doubling")
      word = "algorithm=hierarchical:recursive_doubling";
    if (word == "when=quicker") word = "when=faster";
    for (std::string_view const key : {"fixed=", "dense=", "packed=", "sketched="})
      is_sparse |= word.starts_with(key);
  }
  if (codec == "lossless" && is_sparse) codec = "lossless_sparse";
  if (codec == "lossless_dense") codec = "lossless";
  for (auto const& word : words) codec.append(" ").append(word);
  return codec;
}

/// Adds the rules of a clause `type: codec ...`.
/// @param made_by  for each rule, the name of its clause
void add_rules(clause const& where, std::vector<rule>& rules, std::vector<std::string>& made_by) {
  auto rest = where.text;
  auto const type = trimmed(cut(rest, ":"));
  rest = trimmed(rest);
  auto const words = with_todays_names(rest);
  rest = words;
  auto const name = cut(rest, spaces);
  auto types = types_called(type, where.whose);
  if (types.empty())
    where.refuse("no type is called '" + std::string(type) +
                 "'; there are: " + types_text(where.whose));
  if (name.empty())
    where.refuse("a codec is missing behind the ':'; there are: " + codecs_for(types, where.whose));
  auto const* const codec = find_codec(name);
  if (!codec)
    where.refuse("no codec is called '" + std::string(name) +
                 "'; there are: " + codecs_for(types, where.whose));
  if (!codec->serves(where.whose))
    where.refuse("codec '" + std::string(name) +
                 "' has no fixed rate; over NCCL there are: " + codecs_for(types, where.whose));
  auto const all_types = types;
  std::erase_if(types, [&](value_type one) { return !codec->supports(one); });
  if (types.empty())
    where.refuse("codec '" + std::string(name) + "' is for " + types_of(*codec) + ", not for " +
                 (type == "all" ? "float and double" : std::string(type)) +
                 "; there are: " + codecs_for(all_types, where.whose));

  auto one = rule_in(where, *codec, rest);
  bool counts = false;
  std::string instead;
  for (auto const which : types) {
    one.type = which;
    auto const before =
        std::ranges::find_if(rules, [&](rule const& other) { return covers(other, one); });
    if (before != rules.end()) {
      instead = made_by[static_cast<std::size_t>(before - rules.begin())];
    } else {
      rules.push_back(one);
      made_by.push_back(where.name());
      counts = true;
    }
  }
  if (!counts) where.refuse("it never counts, because " + instead + " takes all of its vectors");
}

/// Applies a clause `key=value`.
void set_for_program(clause const& where, settings& all, std::vector<std::string_view>& seen) {
  auto value = where.text;
  auto const key = trimmed(cut(value, "="));
  assignment const one{where, key, trimmed(value)};
  if (where.whose == calls_of::nccl && key != "feedback_memory")
    where.refuse("over NCCL the whole program has the key feedback_memory only");
  if (std::ranges::find(program_keys, key, &key_facts::name) == program_keys.end()) {
    bool const of_rule = std::ranges::find(rule_keys, key, &key_facts::name) != rule_keys.end();
    where.refuse("for the whole program there is no key '" + std::string(key) +
                 "'; there are: " + names_of(program_keys) +
                 (of_rule ? "; '" + std::string(key) + "' goes into a rule, such as 'float: thc " +
                                std::string(key) + "=...', without ';' before it"
                          : ""));
  }
  refuse_second(one, seen);
  if (key == "nonblocking") all.nonblocking = one.yes();
  if (key == "feedback_memory") all.feedback_bytes = one.size();
  if (key == "shadow") all.shadow_calls = one.number<std::size_t>(0, 1'000'000'000);
}

}  // namespace

std::string_view to_text(value_type type) {
  constexpr std::array<std::string_view, 6> names{"float",    "double", "float16",
                                                  "bfloat16", "int32",  "int64"};
  return names[static_cast<std::size_t>(type)];
}

std::string codec_spec::text() const {
  auto text = entry_text();
  auto const add = [&](std::string_view key, std::string_view value) {
    text.append(" ").append(key).append("=").append(value);
  };
  auto const* const known = find_codec(codec);
  if (known && known->wants_feedback()) add("feedback", yes_no(feedback));
  if (known && known->entry &&
      algorithm != hcomp::algorithm{.kind = known->entry->algorithms.front()})
    add("algorithm", algorithm.name());
  if (turns != 1) add("turns", std::to_string(turns));
  if (threads != 1) add("threads", std::to_string(threads));
  return text;
}

std::string rule::text() const {
  auto text = std::string(to_text(type)).append(": ").append(spec.text());
  if (min_bytes != 0 || spec.codec != "none") text.append(" min=").append(size_text(min_bytes));
  if (max_bytes != no_limit) text.append(" max=").append(size_text(max_bytes));
  if (min_ranks != 2) text.append(" ranks=").append(std::to_string(min_ranks));
  if (if_faster) text.append(" when=faster");
  if (!takes_device) text.append(" device=no");
  if (check_every != 0) text.append(" check=").append(std::to_string(check_every));
  return text;
}

settings settings::from(std::string_view text, calls_of whose) {
  settings all;
  std::vector<std::string> made_by;
  std::vector<std::string_view> seen;
  for (int number = 1; !text.empty(); ++number) {
    clause const one{number, trimmed(cut(text, ";")), whose};
    if (one.text.empty()) continue;
    auto behind = one.text;
    auto const first = cut(behind, spaces);
    if (!types_called(first, whose).empty() && !trimmed(behind).starts_with(':'))
      one.refuse("a ':' is missing behind '" + std::string(first) + "'");
    auto const mark = one.text.find_first_of(":=");
    if (mark == one.text.npos)
      one.refuse("it is neither 'TYPE: CODEC KEY=VALUE...', where TYPE is one of " +
                 types_text(whose) + ", nor 'KEY=VALUE'");
    if (one.text[mark] == ':')
      add_rules(one, all.rules, made_by);
    else
      set_for_program(one, all, seen);
  }
  return all;
}

rule const* settings::find(value_type type, std::size_t bytes, int ranks) const {
  for (auto const& one : rules)
    if (one.concerns(type, bytes, ranks)) return &one;
  return nullptr;
}

char const* settings::why_none(value_type type, std::size_t bytes, int ranks) const {
  bool of_type = false, of_ranks = false, smaller = true, larger = true;
  for (auto const& one : rules) {
    if (one.type != type) continue;
    of_type = true;
    if (ranks < one.min_ranks) continue;
    of_ranks = true;
    smaller &= bytes < one.min_bytes;
    larger &= bytes > one.max_bytes;
  }
  if (!of_type) return "no rule for this type";
  if (!of_ranks) return "fewer ranks than any rule asks for";
  if (smaller) return "smaller than min of its rules (default 64KiB)";
  if (larger) return "larger than max of its rules";
  return "no rule for this size";
}

std::string settings::text() const {
  std::string text;
  auto const add = [&](std::string const& clause) {
    text.append(text.empty() ? "" : "; ").append(clause);
  };
  settings const defaults;
  for (auto const& one : rules) add(one.text());
  if (nonblocking != defaults.nonblocking) add("nonblocking=yes");
  if (feedback_bytes != defaults.feedback_bytes)
    add("feedback_memory=" + size_text(feedback_bytes));
  if (shadow_calls != defaults.shadow_calls) add("shadow=" + std::to_string(shadow_calls));
  return text;
}

std::vector<std::string> const& codec_names() {
  static std::vector<std::string> const names = [] {
    std::vector<std::string> all;
    for (auto const& one : codecs()) all.emplace_back(one.name);
    return all;
  }();
  return names;
}

std::string_view about_codec(std::string_view codec) {
  auto const* const known = find_codec(codec);
  return known ? known->about : std::string_view{};
}

std::string help() {
  std::string text =
      "HCOMP_CONFIG is clauses with ';' between them:\n"
      "  TYPE: CODEC KEY=VALUE...   how vectors of float, double, int32, int64 or all (float and "
      "double)\n"
      "                             are reduced; the first matching rule applies, MPI reduces the\n"
      "                             rest\n"
      "  KEY=VALUE                  for the whole program\n"
      "such as 'float: thc:bits=4 min=1MiB; float: fp16; double: none; nonblocking=yes'\n";
  auto const line = [&](std::string left, std::string_view right) {
    constexpr std::size_t width = 28;
    if (left.size() < width)
      left.resize(width, ' ');
    else
      left.append("\n").append(2 + width, ' ');
    text.append("  ").append(left).append(right).append("\n");
  };
  text += "\nCodecs\n";
  for (auto const& one : codecs())
    line(std::string(one.name) +
             (one.entry && types_of(one) != "float and double" ? " (" + types_of(one) + ")" : ""),
         one.about);
  auto const lines = [&](auto const& keys) {
    for (auto const& one : keys)
      line(std::string(one.name).append("=").append(one.value), one.about);
  };
  text += "\nKeys of codecs\n";
  for (auto const& codec : codecs())
    for (auto const& key : codec.keys())
      line(key.name + "=" + key.values(),
           std::string(codec.name) + ": " + key.about +
               (key.usual                ? "; default " + key.text(*key.usual)
                : key.instead_of.empty() ? "; needed"
                                         : "; instead of " + key.instead_of));
  text += "\nKeys of a rule\n";
  lines(rule_keys);
  text += "\nKeys for the whole program\n";
  lines(program_keys);
  text += "\nSIZE is bytes, or has kB, MB, GB, KiB, MiB or GiB right behind it\n";
  return text;
}

}  // namespace hcomp::drop_in
