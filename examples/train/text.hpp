#pragma once
/// @file
/// English text as a sequence of word numbers.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace train {

/// Text of the GNU Collaborative International Dictionary of English, in Debian's package
/// dict-gcide.
inline constexpr char const* gcide_file = "/usr/share/dictd/gcide.dict.dz";

/// Reads a file, plain or compressed by gzip or dictzip. For "synthetic": draws sentences from
/// `seed`, each with words of one subject.
/// @throws std::runtime_error  the file cannot be read
std::string load_text(std::string const& source, std::uint64_t seed);

/// Calls f with every word of `text` in lower case. A word has two or more of the letters a to z.
/// Skips notes of dictionaries: text in brackets (sources, origins) and between backslashes
/// (pronunciation), if it is not too long for a note.
/// @param f  its argument is valid during the call
void for_each_word(std::string_view text, std::function<void(std::string_view)> const& f);

/// Selection of words.
struct corpus_settings {
  std::uint32_t vocabulary = 12000;  ///< largest number of words, the most frequent ones
  std::uint32_t min_count = 5;       ///< smallest number of occurrences in the training part
  /// Words with a larger share of the text are thinned, frequent words more; 0: no thinning.
  double thin_above = 1e-4;
};

/// A text in a training and a test part, with words of the vocabulary only. Of blocks of 1000
/// words, every 25th is in the test part.
/// Source: thinning after Mikolov et al., NeurIPS 2013, as in their word2vec.c.
struct corpus {
  /// @throws std::runtime_error  fewer than two words are left for the vocabulary or a part
  corpus(std::string_view text, corpus_settings const& how, std::uint64_t seed);

  std::vector<std::string> words;          ///< by decreasing frequency, then in alphabetical order
  std::vector<std::uint64_t> counts;       ///< occurrences in the training part, before thinning
  std::vector<std::uint32_t> train, test;  ///< numbers of words, in the text's order
  /// Positions in the test part to evaluate, evenly spread, at most 16,384.
  std::vector<std::uint32_t> test_places;
};

}  // namespace train
