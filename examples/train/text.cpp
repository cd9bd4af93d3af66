#include "text.hpp"

#include <fmt/core.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <unordered_map>

#include "random.hpp"

namespace train {
namespace {

std::string read_file(std::string const& file) {
  if (!std::filesystem::is_regular_file(file))
    throw std::runtime_error(
        fmt::format("{} was not found. On Debian, `apt install dict-gcide` puts a dictionary in "
                    "{}; `--data FILE` reads another text, and `--data synthetic` needs no files",
                    file, gcide_file));
  std::unique_ptr<gzFile_s, int (*)(gzFile)> const in(gzopen(file.c_str(), "rb"), gzclose);
  if (!in) throw std::runtime_error(fmt::format("{} cannot be opened for reading", file));
  std::string text;
  std::vector<char> part(1 << 20);
  int count = 0;
  while ((count = gzread(in.get(), part.data(), static_cast<unsigned>(part.size()))) > 0)
    text.append(part.data(), static_cast<std::size_t>(count));
  int error = Z_OK;
  gzerror(in.get(), &error);
  if (count < 0 || error != Z_OK)
    throw std::runtime_error(
        fmt::format("{} is damaged: no more after {} bytes of text", file, text.size()));
  return text;
}

/// Sentences about one of ten subjects. Each subject has its own words and some shared words.
std::string make_synthetic(std::uint64_t seed) {
  constexpr std::uint32_t subjects = 10, own_words = 20, shared_words = 10, sentences = 4000;
  generator random(seed);
  std::string text;
  for (std::uint32_t i = 0; i < sentences; ++i) {
    auto const subject = below(random, subjects);
    for (std::uint32_t length = 8 + below(random, 8); length > 0; --length) {
      bool const shared = below(random, 4) == 0;
      text += static_cast<char>(shared ? 'z' : 'a' + subject);
      text += static_cast<char>('a' + below(random, shared ? shared_words : own_words));
      text += ' ';
    }
    text.back() = '.';
  }
  return text;
}

constexpr bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/// Length of the note at the start of `text`; 0 if it starts with none.
std::size_t note_length(std::string_view text) {
  constexpr std::size_t longest = 300;
  char const end = text[0] == '[' ? ']' : text[0] == '\\' ? '\\' : '\0';
  if (end == '\0') return 0;
  auto const at = text.substr(0, longest).find(end, 1);
  return at == std::string_view::npos ? 0 : at + 1;
}

/// Words per block; every 25th block belongs to the test set.
constexpr std::size_t block = 1000, blocks_per_test = 25;
bool is_test(std::size_t word) { return word / block % blocks_per_test == blocks_per_test / 2; }

}  // namespace

std::string load_text(std::string const& source, std::uint64_t seed) {
  return source == "synthetic" ? make_synthetic(seed) : read_file(source);
}

void for_each_word(std::string_view text, std::function<void(std::string_view)> const& f) {
  std::string word;
  for (std::size_t i = 0; i < text.size();) {
    if (is_letter(text[i])) {
      word.clear();
      for (; i < text.size() && is_letter(text[i]); ++i) word += static_cast<char>(text[i] | 0x20);
      if (word.size() > 1) f(word);
    } else {
      i += std::max<std::size_t>(1, note_length(text.substr(i)));
    }
  }
}

corpus::corpus(std::string_view text, corpus_settings const& how, std::uint64_t seed) {
  struct text_hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  std::unordered_map<std::string, std::uint32_t, text_hash, std::equal_to<>> number_of;
  std::vector<std::string> seen;
  std::vector<std::uint64_t> seen_count;
  std::vector<std::uint32_t> all;
  for_each_word(text, [&](std::string_view word) {
    auto found = number_of.find(word);
    if (found == number_of.end()) {
      found = number_of.emplace(word, static_cast<std::uint32_t>(seen.size())).first;
      seen.emplace_back(word);
      seen_count.push_back(0);
    }
    seen_count[found->second] += !is_test(all.size());
    all.push_back(found->second);
  });

  std::vector<std::uint32_t> order;
  for (std::uint32_t i = 0; i < seen.size(); ++i)
    if (seen_count[i] >= how.min_count) order.push_back(i);
  std::ranges::sort(order, [&](std::uint32_t a, std::uint32_t b) {
    return seen_count[a] != seen_count[b] ? seen_count[a] > seen_count[b] : seen[a] < seen[b];
  });
  order.resize(std::min<std::size_t>(order.size(), how.vocabulary));
  constexpr std::uint32_t none = ~0u;
  std::vector<std::uint32_t> renumbered(seen.size(), none);
  for (auto const old : order) {
    renumbered[old] = static_cast<std::uint32_t>(words.size());
    words.push_back(seen[old]);
    counts.push_back(seen_count[old]);
  }

  auto const total =
      static_cast<double>(std::accumulate(counts.begin(), counts.end(), std::uint64_t{0}));
  std::vector<double> stays(words.size(), 1);
  for (std::size_t i = 0; i < words.size() && how.thin_above > 0; ++i) {
    double const over = static_cast<double>(counts[i]) / total / how.thin_above;
    stays[i] = 1 / std::sqrt(over) + 1 / over;
  }
  generator random(seed);
  for (std::size_t i = 0; i < all.size(); ++i) {
    auto const word = renumbered[all[i]];
    if (word == none || uniform(random) >= stays[word]) continue;
    (is_test(i) ? test : train).push_back(word);
  }
  if (words.size() < 2 || train.size() < 2 || test.size() < 2)
    throw std::runtime_error(
        fmt::format("a text of {} words is too short: {} words of them are frequent enough for a "
                    "vocabulary, {} are left to learn from and {} to test with",
                    all.size(), words.size(), train.size(), test.size()));
  constexpr std::size_t most_places = 16384;
  for (std::size_t i = 0, places = std::min(test.size(), most_places); i < places; ++i)
    test_places.push_back(static_cast<std::uint32_t>(i * test.size() / places));
}

}  // namespace train
