// run: single
// timeout: 240
#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <hcomp/core/error.hpp>
#include <hcomp/elastic/group.hpp>
#include <hcomp/elastic/rendezvous_store.hpp>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <support/scratch_directory.hpp>
#include <vector>

#include "campaign.hpp"
#include "support.hpp"

using namespace hcomp;
using namespace hcomp::ucx::testing;
using hcomp::testing::scratch_directory;
using namespace std::chrono_literals;

namespace {

using note = std::optional<std::vector<std::byte>>;

/// A store whose notes a test changes on their way to the reader.
class changed_store final : public elastic::rendezvous_store {
 public:
  std::function<note(std::string const&, note)> change = [](auto const&, note it) { return it; };

  void put(std::string const& name, std::span<std::byte const> it) override {
    notes_.try_emplace(name, it.begin(), it.end());
  }
  note find(std::string const& name) override {
    auto const it = notes_.find(name);
    return it == notes_.end() ? std::nullopt : change(name, it->second);
  }
  void live_as(std::string const&) override {}
  bool has_ended(std::string const&) override { return false; }

 private:
  std::map<std::string, std::vector<std::byte>> notes_;
};

/// The words of the transport_error of a group that begins; empty if it begins.
template <class F> std::string refusal(F const& begin) {
  try {
    begin();
  } catch (transport_error const& error) {
    return error.what();
  }
  return "";
}

std::string text_of(outcome const& one) {
  return one.text + std::string(one.clean_exit ? "" : ", no clean exit");
}

}  // namespace

TEST_CASE(
    "elastic meeting: a note that is missing, truncated, damaged or of another run is an error") {
  elastic::group::settings const how{.transport = {.timeout = 2s}, .meeting_timeout = 500ms};
  auto const ranks = run_ranks(1, [&](member&) {
    struct {
      char const* words;
      std::function<note(note)> change;
    } const cases[] = {
        {"is missing", [](note) { return note(); }},
        {"is truncated", [](note) { return note(std::in_place); }},
        {"is truncated", [](note it) { return it->resize(7), it; }},
        {"is damaged", [](note it) { return it->resize(it->size() - 1), it; }},
        {"is damaged", [](note it) { return it->resize(8), it; }},
        {"is damaged", [](note it) { return it->back() ^= std::byte{1}, it; }},
    };
    for (std::string const name : {"generation0.members", "generation0.member0"})
      for (auto const& one : cases) {
        changed_store store;
        store.change = [&](auto const& which, note it) {
          return which == name ? one.change(it) : it;
        };
        auto const words = refusal([&] { elastic::group(store, 0, 1, how); });
        must(words.find(name + " on the rendezvous store " + one.words) != std::string::npos,
             name + ", " + one.words + ": " + words);
      }
    for (auto const& one : cases) {
      changed_store store;
      store.change = [&](auto const& which, note it) {
        return which == "newcomer0" ? one.change(it) : it;
      };
      auto const words = refusal([&] { elastic::group::join(store, how); });
      must(words.find(one.words) != std::string::npos, words);
    }
    note address;
    changed_store other, store;
    other.change = [&](auto const& which, note it) {
      if (which == "generation0.member0") address = it;
      return it;
    };
    elastic::group(other, 0, 1, how);
    store.change = [&](auto const& which, note it) {
      return which == "generation0.member0" ? address : it;
    };
    auto const words = refusal([&] { elastic::group(store, 0, 1, how); });
    must(words.find("is of another process") != std::string::npos, words);
  });
  INFO(text_of(ranks[0]));
  CHECK(ranks[0].how == ending::finished);
  CHECK(ranks[0].clean_exit);
}

TEST_CASE("elastic meeting: a directory that is made again while ranks meet is an error") {
  std::mt19937 draw(7);
  for (int trial = 0; trial < 3; ++trial) {
    scratch_directory const place;
    unsigned const delay_us = draw() % 4000;
    CAPTURE(delay_us);
    auto const ranks = run_ranks(
        3,
        [&](member& self) {
          elastic::directory_store store(place.path());
          self.meet();
          if (self.rank == 2)
            while (!self.may_go()) usleep(100);
          elastic::group group(store, self.rank, self.size,
                               {.transport = {.timeout = 2s}, .meeting_timeout = 1s});
          group.close();
        },
        [&](director& fate) {
          fate.await_meetings(1);
          while (!std::filesystem::exists(place.path() / "generation0.member1")) usleep(100);
          std::filesystem::rename(place.path(), place.path().string() + ".old");
          std::filesystem::create_directory(place.path());
          usleep(delay_us);
          fate.let_go();
        });
    std::filesystem::remove_all(place.path().string() + ".old");
    for (auto const& one : ranks) {
      INFO(text_of(one));
      CHECK(one.clean_exit);
      CHECK(one.how == ending::gave_up);
    }
    INFO(text_of(ranks[1]));
    CHECK(std::string(ranks[1].text).find("is missing") != std::string::npos);
  }
}

TEST_CASE("elastic meeting: of ranks that do not all come, all are refused") {
  scratch_directory const place;
  auto const ranks = run_ranks(3, [&](member& self) {
    elastic::directory_store store(place.path());
    elastic::group(store, self.rank, 4, {.transport = {.timeout = 2s}, .meeting_timeout = 500ms});
  });
  for (auto const& one : ranks) {
    INFO(text_of(one));
    CHECK(one.how == ending::gave_up);
    CHECK(std::string(one.text).find("of 4 ranks only 3 came within 500 ms") != std::string::npos);
  }
}

TEST_CASE("elastic campaign: a rank killed while ranks meet; all survivors are one group") {
  unsigned const trials = number_in("HCOMP_FAULT_TRIALS", 12),
                 seed = number_in("HCOMP_FAULT_SEED", 1);
  unsigned without = 0, refused = 0;
  double slowest = 0;
  for (unsigned k = 0; k < trials; ++k) {
    std::mt19937 draw(seed + k);
    CAPTURE(seed + k);
    int const size = int(3 + draw() % 4), victim = int(draw() % unsigned(size));
    unsigned const delay_us = draw() % 60'000;
    scratch_directory const place;
    auto const ranks = run_ranks(
        size,
        [&](member& self) {
          self.meet();
          elastic::directory_store store(place.path());
          elastic::group group(store, self.rank, self.size,
                               {.transport = {.timeout = 20s}, .meeting_timeout = 10s});
          for (int step = 0; step < 10; ++step) {
            if (self.rank == victim && step == 5)
              for (;;) pause();
            must(!group.admit(), "nobody joins");
          }
          std::string members;
          for (int const one : group.members()) members += std::to_string(one) + " ";
          group.close();
          throw std::runtime_error(members);  // the outcome, compared below
        },
        [&](director& fate) {
          fate.await_meetings(1);
          usleep(delay_us);
          fate.lose(victim, SIGKILL);
        });
    std::string survivors;
    for (int rank = 0; rank < size; ++rank)
      if (rank != victim) survivors += std::to_string(rank) + " ";
    std::set<ending> endings;
    for (int rank = 0; rank < size; ++rank) {
      if (rank == victim) continue;
      auto const& one = ranks[std::size_t(rank)];
      INFO("rank " << rank << " of " << size << " without " << victim << ": " << text_of(one));
      CHECK(one.clean_exit);
      if (one.how == ending::gave_up)
        CHECK(std::string(one.text).find("ranks only") != std::string::npos);
      else
        CHECK(one.text == survivors);
      endings.insert(one.how);
      slowest = std::max(slowest, one.seconds);
    }
    CHECK(endings.size() == 1);
    ++(endings.contains(ending::gave_up) ? refused : without);
  }
  std::printf("%u trials: %u groups without the killed rank, %u refused; slowest %.2f s\n", trials,
              without, refused, slowest);
}
