#pragma once
/// @file
/// English text as numbers of words.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace train {

/// Where Debian's package dict-gcide puts the GNU Collaborative International Dictionary of
/// English.
inline constexpr char const* gcide_file = "/usr/share/dictd/gcide.dict.dz";

/// What is in a file, plain or compressed by gzip or dictzip; or, for "synthetic", sentences drawn
/// from `seed`, each of words that go together.
/// @throws std::runtime_error  it cannot be read
std::string load_text(std::string const& source, std::uint64_t seed);

/// Calls f with every word of `text`, in lower case: two or more of the letters a to z.
/// Left out is what dictionaries have in brackets (sources, origins) and between backslashes
/// (pronunciation), unless it goes on for longer than such notes do.
/// @param f  its argument is valid during the call
void for_each_word(std::string_view text, std::function<void(std::string_view)> const& f);

/// Which words count.
struct corpus_settings {
  std::uint32_t vocabulary = 12000;  ///< the most frequent ones, at most so many
  std::uint32_t min_count = 5;       ///< seen so often in the training part
  /// Words with a larger share of the text are thinned, more the more frequent they are; 0: none.
  double thin_above = 1e-4;
};

/// A text in two parts, without words that are not in the vocabulary. Blocks of 1000 words go to
/// one or the other; every 25th to the test set.
/// Source: thinning as in Mikolov et al., NeurIPS 2013, as their word2vec.c does it.
struct corpus {
  /// @throws std::runtime_error  fewer than two words are left for the vocabulary or a part
  corpus(std::string_view text, corpus_settings const& how, std::uint64_t seed);

  std::vector<std::string> words;          ///< the most frequent first, then by the alphabet
  std::vector<std::uint64_t> counts;       ///< in the training part before thinning
  std::vector<std::uint32_t> train, test;  ///< numbers of words, in the text's order
  /// Where in the test part to look: spread over it, at most 16,384 places.
  std::vector<std::uint32_t> test_places;
};

}  // namespace train
