#pragma once
/// @file
/// Who is in a group of ranks, and which of them has finished what, whoever of them is lost.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <hcomp/collective/agreement/agreement.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/transport/any_transport.hpp>
#include <optional>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

namespace hcomp::elastic {

/// What sums need of a group, whatever its ranks are connected by: see group (UCX) and mpi_group.
///
/// Members have names, which stay, and ranks 0 to size - 1 among those who are there now. Each time
/// somebody is lost, or comes, there is another generation, with a transport of its own. All calls are
/// made in the same order on all ranks, each by all of them: so nobody is more than one call behind
/// another, and what one has finished it can give to the others.
class membership {
 public:
  virtual ~membership() = default;

  int name() const { return name_; }
  int rank() const { return any_->rank(); }
  int size() const { return any_->size(); }
  /// Their names, by ranks.
  std::vector<int> const& members() const { return members_; }
  /// How often it has become another one: plans of another generation are of no use any more.
  std::uint64_t generation() const { return generation_; }
  /// Another one in every generation. After an error of it there is `recover`.
  /// @throws std::runtime_error  `recover` has failed before
  any_transport& transport() {
    if (!any_) throw std::runtime_error("elastic: the group has failed before, and can only end");
    return *any_;
  }

  /// The end, when no call is to come: nobody is gone while others need its results. Collective.
  virtual void close() = 0;

  // ---- For sum, and for other calls that all members make.

  /// How many this member has finished.
  std::uint64_t calls() const { return calls_; }
  /// The one under way is finished here.
  /// @param result  of it, the same on all ranks; kept, and another buffer given for it, until nobody can need
  ///                it any more
  void finish_call(std::vector<std::byte>& result, std::uint64_t weight) {
    last_.swap(result);
    last_weight_ = weight;
    ++calls_;
  }
  /// After a transport_error: goes on with those who are left, whoever else is lost meanwhile. True if some
  /// of them have finished the call under way: then its result is here, too. Otherwise nobody has, and all make
  /// it again.
  /// @throws transport_error  the others have gone on without this one
  bool recover(std::vector<std::byte>& result, std::uint64_t& weight) {
    for (;;) try {
        ++generation_;
        connect();
        return fetch(result, weight);
      } catch (left_out const&) {
        throw;
      } catch (transport_error const&) {  // somebody was lost again
      }
  }

 protected:
  membership(membership&&) = default;
  membership& operator=(membership&&) = default;

  /// Nothing goes on for this member.
  struct left_out : transport_error {
    using transport_error::transport_error;
  };
  /// What a member says of itself.
  struct record {
    std::uint64_t calls, bytes, weight, knows_calls, has_state;
  };
  static constexpr tag_t tag = 0;

  /// @param is_new  it comes while the others have made calls already
  membership(int name, bool is_new) : name_(name), knows_calls_(!is_new), has_state_(!is_new) {}

  /// Sets members_ and any_ for this generation.
  /// @throws left_out, or another transport_error where somebody was lost again
  virtual void connect() = 0;

  /// f(), which makes `result`, or its result from others.
  /// @return  it is from others, who have made it in the generation before this one
  template <class F> bool make_call(std::vector<std::byte>& result, F const& f) {
    std::uint64_t weight = 0;
    bool is_from_others = false;
    for (bool is_made = false; !is_made;) try {
        f();
        is_made = true;
      } catch (left_out const&) {
        throw;
      } catch (transport_error const&) {
        is_made = is_from_others = recover(result, weight);
      }
    auto kept = result;
    finish_call(kept, weight);
    return is_from_others;
  }

  /// In a new generation: the result of the call under way, for those who lack what others have. See recover.
  bool fetch(std::vector<std::byte>& result, std::uint64_t& weight) {
    record const mine{calls_, last_.size(), last_weight_, knows_calls_, has_state_};
    std::vector<record> all;
    all_gather_records(transport(), tag, mine, all, generation_);
    record best{};  // the first who has finished most
    int from = -1;
    for (int rank = 0; rank < size(); ++rank) {
      auto const& one = all[static_cast<std::size_t>(rank)];
      if (one.knows_calls != 0 && (from < 0 || one.calls > best.calls)) {
        best = one;
        from = rank;
      }
    }
    if (knows_calls_ == 0) calls_ = best.calls;  // a newcomer begins with the next
    knows_calls_ = 1;
    // Nobody can be further behind: a call needs all members, who have finished the one before.
    auto const is_behind = [&](int rank) {
      auto const& one = all[static_cast<std::size_t>(rank)];
      return one.knows_calls != 0 && one.calls != best.calls;
    };
    if (!is_behind(rank())) {
      pass(from, last_, is_behind);
      return false;
    }
    result.resize(best.bytes);
    pass(from, result, is_behind);
    weight = best.weight;
    return true;
  }
  /// Bytes of one rank for those who lack them.
  template <class Lacks> void pass(int from, std::span<std::byte> bytes, Lacks const& lacks) {
    auto& over = transport();
    std::vector<any_transport::request> sends;
    if (rank() == from)
      for (int r = 0; r < size(); ++r)
        if (lacks(r)) sends.push_back(over.isend(r, tag, bytes));
    if (lacks(rank())) {
      auto coming = over.irecv(from, tag, bytes);
      over.wait(coming);
    }
    for (auto& one : sends) over.wait(one);
  }

  std::vector<int> members_;  ///< none: a newcomer that waits
  std::optional<any_transport> any_;
  std::uint64_t generation_ = 0;
  int name_;
  std::uint64_t knows_calls_, has_state_;  ///< 0: a newcomer, at first, and until share
  std::vector<std::byte> last_;            ///< result of the call that was finished last

 private:
  std::uint64_t calls_ = 0;
  std::uint64_t last_weight_ = 0;
};

}  // namespace hcomp::elastic
