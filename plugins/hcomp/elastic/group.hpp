#pragma once
/// @file
/// A fault-tolerant group over UCX: ranks may fail and join.

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/collective/agreement/agreement.hpp>
#include <hcomp/core/detail/error_text.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/core/group.hpp>
#include <hcomp/core/hash.hpp>
#include <hcomp/core/random.hpp>
#include <hcomp/elastic/membership.hpp>
#include <hcomp/elastic/rendezvous_store.hpp>
#include <hcomp/transport/any_transport.hpp>
#include <hcomp/transport/detail/deadline.hpp>
#include <hcomp/ucx/transport.hpp>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace hcomp::elastic {

/// A group of ranks that continues after ranks fail, and admits new ranks.
///
/// A plan repeats its all-reduce by itself when a rank fails. `admit` lets new ranks join between
/// two all-reduces. All these calls are made in the same order on all ranks.
///
/// Each generation begins with a meeting on the rendezvous store. The first member list that is
/// published there is valid, and its members connect a new transport. A rank that does not arrive
/// within the meeting_timeout is excluded, and its own calls fail. A note on the store that is
/// missing, damaged or of another run is a transport_error. For one thread at a time. The store is
/// not owned.
class group final : public membership {
 public:
  struct settings {
    ucx::options transport = {};  ///< of the transport of every generation
    /// How long members wait for one that may still arrive: longer than any computation between two
    /// all-reduces. A member whose process has ended, as far as the store can tell, is not waited
    /// for.
    std::chrono::milliseconds meeting_timeout{30'000};
  };

  /// Creates the group of a new job: all `size` ranks, named 0 to size - 1. Collective. Continues
  /// without ranks that fail meanwhile: see members().
  /// @throws std::invalid_argument  invalid name or size, or the store was used before
  /// @throws transport_error        on all ranks alike: a rank did not arrive, or the ranks cannot
  ///                                connect; a new attempt needs a new store
  group(rendezvous_store& store, int name, int size) : group(store, name, size, {}) {}
  group(rendezvous_store& store, int name, int size, settings how)
      : membership(name, false), store_(&store), how_(how) {
    if (size < 1 || name < 0 || name >= size)
      throw std::invalid_argument(hcomp::detail::error_text(
          {"elastic::group: rank ", name, " of ", size, " ranks; 0 <= rank < size is needed"}));
    for (int one = 0; one < size; ++one) members_.push_back(one);
    if (look(note_of(0, life_of(name_))))
      throw std::invalid_argument(hcomp::detail::error_text(
          {"elastic::group: rank ", name_,
           " is on this rendezvous store already, of an earlier run or ",
           "a second time; every run needs a store of its own, and who comes back joins"}));
    register_life();
    renew([&] { connect(false); });
  }
  /// Joins a running job: waits until its members call `admit`, at most for the meeting_timeout.
  /// Afterwards call `share` to get the state of the job.
  /// @throws transport_error  no member admitted this rank in time
  static std::unique_ptr<group> join(rendezvous_store& store, settings how) {
    return std::unique_ptr<group>(new group(store, how));
  }

  /// Admits waiting ranks. Returns true on all ranks if a new member needs the state: then all call
  /// `share`. Collective, between two all-reduces.
  bool admit() {
    std::vector<std::byte> somebody(1);
    bool const is_from_others = make_call(somebody, [&] {
      std::uint8_t waits = !newcomers(generation_ + 1).empty();
      unite_records(transport(), tag, waits, [](auto& a, auto b) { a |= b; });
      somebody[0] = std::byte{waits};
    });
    if (somebody[0] == std::byte{0}) return false;
    // A rank that got the answer from another rank is already in the next generation, which these
    // join. A rank that repeated the call together with ranks that made it for the first time is
    // not.
    if (!is_from_others)
      renew([&] {
        ++generation_;
        connect(true);
      });
    return somebody_lacks_the_state();
  }
  /// Copies `state` of a member that has it to the members that need it. Collective, after `admit`
  /// and `join`.
  /// @throws std::invalid_argument  sizes differ; on all ranks alike
  /// @throws std::runtime_error     no remaining member has the state
  void share(std::span<std::byte> state) {
    std::vector<std::byte> shared(state.begin(), state.end());
    give_state(shared, true);
    if (!has_state_) std::ranges::copy(last_, state.begin());
    has_state_ = 1;
  }
  /// The same with sizes that may differ: new members need not know it, and receive the state of
  /// some member.
  /// @throws std::runtime_error  no remaining member has the state
  void share_any(std::vector<std::byte>& state) {
    auto shared = state;
    give_state(shared, false);
    if (!has_state_) state = last_;
    has_state_ = 1;
  }
  /// Marks this member as one that needs the state in the next share. At the start of a job, all
  /// but one may call it.
  void forget_state() { has_state_ = 0; }
  /// Ends the group after the last call: no rank leaves while another one needs its results.
  /// Collective.
  void close() override {
    std::vector<std::byte> nothing;
    make_call(nothing, [&] {
      std::uint8_t arrived = 1;
      unite_records(transport(), tag, arrived, [](std::uint8_t&, std::uint8_t) {});
    });
  }

 private:
  /// Creates a joining rank.
  group(rendezvous_store& store, settings how)
      : membership(new_name(), true), store_(&store), how_(how) {
    register_life();
    std::uint64_t const mine = static_cast<std::uint64_t>(name_);
    for (std::uint64_t place = 0;; ++place) {  // enters the queue
      publish(queue_note(place), std::as_bytes(std::span(&mine, 1)));
      if (numbers_in(required(queue_note(place)).bytes).front() == mine) break;
    }
    renew([&] { connect(false); });
    somebody_lacks_the_state();
  }

  /// Implements share.
  /// @param is_one_size  all states must have equal size
  void give_state(std::vector<std::byte>& shared, bool is_one_size) {
    make_call(shared, [&] {
      record const mine{calls(), shared.size(), 0, 1, has_state_};
      std::vector<record> all;
      all_gather_records(transport(), tag, mine, all, generation_);
      auto const from = std::ranges::find(all, std::uint64_t{1}, &record::has_state);
      if (from == all.end()) throw std::runtime_error("share: no remaining rank has the state");
      for (std::size_t rank = 0; rank < all.size(); ++rank)
        if (is_one_size && all[rank].bytes != from->bytes)
          throw std::invalid_argument(
              hcomp::detail::error_text({"share: rank ", from - all.begin(), " has ", from->bytes,
                                         " bytes of state, rank ", rank, " ", all[rank].bytes}));
      if (has_state_ == 0) shared.resize(from->bytes);
      pass(static_cast<int>(from - all.begin()), shared,
           [&](int rank) { return all[static_cast<std::size_t>(rank)].has_state == 0; });
    });
  }
  /// Enters a generation, or a later one if a rank fails meanwhile. Between two calls.
  /// @param come  connects the transport of the generation
  template <class F> void renew(F const& come) {
    std::vector<std::byte> nothing;
    std::uint64_t weight = 0;
    try {
      come();
      fetch(nothing, weight);
    } catch (final_error const&) {
      throw;
    } catch (transport_error const&) {
      if (members_.empty()) throw;  // no member has admitted it
      ++failures_;
      recover(nothing, weight);
    }
  }
  /// The call after one that admitted new ranks, and their first: whether a member needs the state.
  /// The same answer on all ranks, even if ranks fail meanwhile.
  bool somebody_lacks_the_state() {
    std::vector<std::byte> answer(1);
    make_call(answer, [&] {
      std::uint8_t lacks = has_state_ == 0;
      unite_records(transport(), tag, lacks, [](auto& a, auto b) { a |= b; });
      answer[0] = std::byte{lacks};
    });
    return answer[0] != std::byte{0};
  }

  /// A name that is unique with high probability, above the names of a job's first ranks.
  static int new_name() {
    auto const now = std::chrono::system_clock::now().time_since_epoch().count();
    auto const drawn =
        mix(mix(static_cast<std::uint64_t>(now)) + static_cast<std::uint64_t>(::getpid()));
    return static_cast<int>(drawn % (1u << 29)) + (1 << 29);
  }
  static std::string life_of(int name) { return "member" + std::to_string(name); }
  static std::string queue_note(std::uint64_t place) { return "newcomer" + std::to_string(place); }
  static std::string note_of(std::uint64_t generation, std::string const& what) {
    return "generation" + std::to_string(generation) + "." + what;
  }
  static std::vector<std::uint64_t> numbers_in(std::span<std::byte const> bytes) {
    std::vector<std::uint64_t> numbers(bytes.size() / sizeof(std::uint64_t));
    std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(std::uint64_t));
    return numbers;
  }
  static void pause() { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }

  // ---- Notes: the seal, and the bytes.

  struct sealed_note {
    std::uint64_t seal;
    std::vector<std::byte> bytes;
  };
  static std::uint64_t seal_of(std::string const& what, std::span<std::byte const> bytes) {
    auto const words = std::as_bytes(std::span(what));
    return mix(fingerprint(serial_group{}, words.data(), words.size()) +
               fingerprint(serial_group{}, bytes.data(), bytes.size()));
  }
  [[noreturn]] static void refuse(std::string const& what, char const* why) {
    throw final_error(-1, hcomp::detail::error_text(
                              {"elastic::group: note ", what, " on the rendezvous store ", why,
                               "; nobody may change the store during a run, and every run needs a ",
                               "store of its own"}));
  }
  /// Runs f(), which uses the store.
  template <class F> static auto with_store(F const& f) {
    try {
      return f();
    } catch (std::runtime_error const& error) {
      throw final_error(-1, std::string("elastic::group: ") + error.what());
    }
  }

  void register_life() {
    with_store([&] { store_->live_as(life_of(name_)); });
  }
  /// The first note of a name stays.
  void publish(std::string const& what, std::span<std::byte const> bytes) {
    auto const seal = seal_of(what, bytes);
    std::vector<std::byte> note(sizeof seal);
    std::memcpy(note.data(), &seal, sizeof seal);
    note.insert(note.end(), bytes.begin(), bytes.end());
    with_store([&] { store_->put(what, note); });
  }
  std::optional<sealed_note> look(std::string const& what) const {
    auto const note = with_store([&] { return store_->find(what); });
    if (!note) return std::nullopt;
    sealed_note found{};
    if (note->size() < sizeof found.seal) refuse(what, "is truncated");
    std::memcpy(&found.seal, note->data(), sizeof found.seal);
    found.bytes.assign(note->begin() + sizeof found.seal, note->end());
    if (found.seal != seal_of(what, found.bytes)) refuse(what, "is damaged");
    return found;
  }
  /// A note that was there before.
  sealed_note required(std::string const& what) const {
    auto note = look(what);
    if (!note) refuse(what, "is missing");
    return std::move(*note);
  }

  /// Ranks that wait to join and have published their address for that generation.
  std::vector<int> newcomers(std::uint64_t generation) const {
    std::vector<int> found;
    for (std::uint64_t place = 0; auto const note = look(queue_note(place)); ++place) {
      auto const name = static_cast<int>(numbers_in(note->bytes).front());
      if (std::ranges::find(members_, name) == members_.end() &&
          !store_->has_ended(life_of(name)) && look(note_of(generation, life_of(name))))
        found.push_back(name);
    }
    return found;
  }

  void connect() override { connect(false); }
  /// Connects the transport of this generation.
  /// @param admits  whether new ranks join
  void connect(bool admits) {
    any_.reset();
    over_.reset();
    over_ = std::make_unique<ucx::transport>(
        [&](std::span<std::byte const> mine) {
          return members_.empty() ? wait_for_admission(mine) : meet(mine, admits);
        },
        how_.transport);
    any_.emplace(*over_);
  }

  /// Why a meeting fails, on all ranks alike.
  enum class verdict : std::uint64_t { none, absent, unconnected };
  /// Members that fail to connect in that many generations in a row end.
  static constexpr std::uint64_t most_failures = 2;

  /// Publishes this rank's address, behind the number of its failures to connect.
  /// @return  its seal
  std::uint64_t publish_address(std::span<std::byte const> mine) {
    std::vector<std::byte> bytes(sizeof failures_);
    std::memcpy(bytes.data(), &failures_, sizeof failures_);
    bytes.insert(bytes.end(), mine.begin(), mine.end());
    auto const what = note_of(generation_, life_of(name_));
    publish(what, bytes);
    return seal_of(what, bytes);
  }

  /// Every member publishes its address. The first one that sees the addresses of all members not
  /// known to have ended publishes the member list: the verdict, and names and seals of addresses.
  ucx::roll_call meet(std::span<std::byte const> mine, bool admits) {
    auto const seal = publish_address(mine);
    std::vector<std::optional<sealed_note>> come(members_.size());
    for (hcomp::detail::deadline limit(how_.meeting_timeout);;) {
      if (auto const list = look(note_of(generation_, "members")))
        return meeting_of(list->bytes, seal);
      require_own(seal);
      bool all = true;
      for (std::size_t i = 0; i < members_.size(); ++i) {
        if (come[i]) continue;
        // in this order: a process may publish its address and then end
        bool const has_ended = store_->has_ended(life_of(members_[i]));
        come[i] = look(note_of(generation_, life_of(members_[i])));
        all &= come[i] || has_ended;
      }
      if (!all && !limit.passed()) {
        pause();
        continue;
      }
      std::vector<std::uint64_t> list{0};
      std::uint64_t failures = 0;
      auto const add = [&](int name, sealed_note const& note) {
        list.push_back(static_cast<std::uint64_t>(name));
        list.push_back(note.seal);
      };
      for (std::size_t i = 0; i < members_.size(); ++i)
        if (come[i] && !store_->has_ended(life_of(members_[i]))) {
          add(members_[i], *come[i]);
          failures = std::max(failures, numbers_in(come[i]->bytes).front());
        }
      auto why = verdict::none;
      if (list.size() == 1 + 2 * members_.size() && failures >= most_failures)
        why = verdict::unconnected;
      if (generation_ == 0 && !all) why = verdict::absent;
      list[0] = static_cast<std::uint64_t>(why);
      if (admits)
        for (int const one : newcomers(generation_))
          add(one, required(note_of(generation_, life_of(one))));
      publish(note_of(generation_, "members"), std::as_bytes(std::span(list)));
      required(note_of(generation_, "members"));
    }
  }
  /// This rank's address must stay on the store.
  void require_own(std::uint64_t seal) const {
    auto const what = note_of(generation_, life_of(name_));
    if (required(what).seal != seal) refuse(what, "is of another process");
  }
  /// A joining rank publishes its address for the next generation and for later ones, until it is a
  /// member.
  ucx::roll_call wait_for_admission(std::span<std::byte const> mine) {
    for (hcomp::detail::deadline limit(how_.meeting_timeout);;) {
      std::uint64_t seal = 0;
      if (!look(note_of(generation_, "members"))) seal = publish_address(mine);
      std::optional<sealed_note> list;
      while (!(list = look(note_of(generation_, "members")))) {
        if (limit.passed())
          throw transport_error(-1,
                                hcomp::detail::error_text(
                                    {"elastic::group: nobody has admitted this newcomer within ",
                                     how_.meeting_timeout.count(), " ms"}));
        pause();
      }
      auto const words = numbers_in(list->bytes);
      for (std::size_t i = 1; i < words.size(); i += 2)
        if (words[i] == static_cast<std::uint64_t>(name_)) return meeting_of(list->bytes, seal);
      ++generation_;
    }
  }
  /// @param list  see meet
  /// @param seal  of this rank's address
  ucx::roll_call meeting_of(std::span<std::byte const> list, std::uint64_t seal) {
    auto const words = numbers_in(list);
    std::vector<int> names;
    for (std::size_t i = 1; i < words.size(); i += 2) names.push_back(static_cast<int>(words[i]));
    if (static_cast<verdict>(words[0]) == verdict::absent)
      throw final_error(
          -1, hcomp::detail::error_text({"elastic::group: of ", members_.size(), " ranks only ",
                                         names.size(), " came within ",
                                         how_.meeting_timeout.count(), " ms"}));
    if (static_cast<verdict>(words[0]) == verdict::unconnected)
      throw final_error(-1, hcomp::detail::error_text({"elastic::group: the ", names.size(),
                                                       " ranks did not connect in ", most_failures,
                                                       " generations, though no rank has ended"}));
    auto const own = std::ranges::find(names, name_);
    if (own == names.end())
      throw final_error(
          name_, hcomp::detail::error_text({"elastic::group: the others have gone on without rank ",
                                            name_, ", which did not come within ",
                                            how_.meeting_timeout.count(), " ms"}));
    require_own(seal);
    if (names != members_) failures_ = 0;
    members_ = names;
    ucx::roll_call met;
    met.rank = static_cast<int>(own - names.begin());
    for (std::size_t i = 0; i < names.size(); ++i) {
      auto const what = note_of(generation_, life_of(names[i]));
      auto const note = required(what);
      if (note.seal != words[2 + 2 * i]) refuse(what, "is of another process");
      met.addresses.emplace_back(note.bytes.begin() + sizeof failures_, note.bytes.end());
    }
    return met;
  }

  rendezvous_store* store_;
  settings how_;
  std::unique_ptr<ucx::transport> over_;
};

}  // namespace hcomp::elastic
