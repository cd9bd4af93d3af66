#pragma once
/// @file
/// Membership of a fault-tolerant group, and recovery of the results of calls.

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

/// The interface of a group that plans use, independent of its transport: see group (UCX) and
/// mpi_group.
///
/// Members have permanent names, and ranks 0 to size - 1 within the current generation. Whenever a
/// member fails or joins, a new generation with a new transport begins. All ranks make all calls in
/// the same order. So no rank is more than one call behind another, and ranks that finished a call
/// can send its result to the rest.
class membership {
 public:
  virtual ~membership() = default;

  int name() const { return name_; }
  int rank() const { return any_->rank(); }
  int size() const { return any_->size(); }
  /// The names of the members, in rank order.
  std::vector<int> const& members() const { return members_; }
  /// The number of membership changes: plans of an earlier generation are invalid.
  std::uint64_t generation() const { return generation_; }
  /// The transport of the current generation. After it throws, call `recover`.
  /// @throws std::runtime_error  `recover` has failed before
  any_transport& transport() {
    if (!any_) throw std::runtime_error("elastic: the group has failed before, and can only end");
    return *any_;
  }

  /// Ends the group after the last call: no rank leaves while another one needs its results.
  /// Collective.
  virtual void close() = 0;

  // ---- For plan, and for any other call that all members make.

  /// The number of calls that this member has finished.
  std::uint64_t calls() const { return calls_; }
  /// Marks the current call as finished.
  /// @param result  its result, the same on all ranks; swapped with another buffer and kept until
  ///                no member can need it
  void finish_call(std::vector<std::byte>& result, std::uint64_t weight) {
    last_.swap(result);
    last_weight_ = weight;
    ++calls_;
  }
  /// Recovers from a transport_error: continues with the remaining members, even if more of them
  /// fail meanwhile. Returns true if some of them have finished the current call: then `result` is
  /// its result. Otherwise none has, and all repeat the call.
  /// @throws transport_error  the group continued without this member, or the ranks cannot meet
  bool recover(std::vector<std::byte>& result, std::uint64_t& weight) {
    for (;;) try {
        ++generation_;
        connect();
        return fetch(result, weight);
      } catch (final_error const&) {
        throw;
      } catch (transport_error const&) {  // another member failed
        ++failures_;
      }
  }

 protected:
  membership(membership&&) = default;
  membership& operator=(membership&&) = default;

  /// This member can only end: the group continued without it, or the ranks cannot meet.
  struct final_error : transport_error {
    using transport_error::transport_error;
  };
  /// The state of a member, as sent to all members.
  struct record {
    std::uint64_t calls, bytes, weight, knows_calls, has_state;
  };
  static constexpr tag_t tag = 0;

  /// @param is_new  joins after the group has made calls
  membership(int name, bool is_new) : name_(name), knows_calls_(!is_new), has_state_(!is_new) {}

  /// Sets members_ and any_ for this generation.
  /// @throws final_error; another transport_error if another member failed
  virtual void connect() = 0;

  /// Calls f(), which computes `result`, or fetches the result from another member.
  /// @return  whether it came from another member, which computed it in the previous generation
  template <class F> bool make_call(std::vector<std::byte>& result, F const& f) {
    std::uint64_t weight = 0;
    bool is_from_others = false;
    for (bool is_made = false; !is_made;) try {
        f();
        is_made = true;
      } catch (final_error const&) {
        throw;
      } catch (transport_error const&) {
        is_made = is_from_others = recover(result, weight);
      }
    auto kept = result;
    finish_call(kept, weight);
    return is_from_others;
  }

  /// In a new generation: sends the result of the current call to members that lack it. See
  /// recover.
  bool fetch(std::vector<std::byte>& result, std::uint64_t& weight) {
    record const mine{calls_, last_.size(), last_weight_, knows_calls_, has_state_};
    std::vector<record> all;
    all_gather_records(transport(), tag, mine, all, generation_);
    failures_ = 0;
    record best{};  // the first member that has finished the most calls
    int from = -1;
    for (int rank = 0; rank < size(); ++rank) {
      auto const& one = all[static_cast<std::size_t>(rank)];
      if (one.knows_calls != 0 && (from < 0 || one.calls > best.calls)) {
        best = one;
        from = rank;
      }
    }
    if (knows_calls_ == 0) calls_ = best.calls;  // a new member starts with the next call
    knows_calls_ = 1;
    // No member can be further behind: a call needs all members, which have finished the call
    // before it.
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
  /// Broadcasts bytes from rank `from` to the ranks that lack them.
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

  std::vector<int> members_;  ///< empty: this rank waits to join
  std::optional<any_transport> any_;
  std::uint64_t generation_ = 0;
  std::uint64_t failures_ = 0;  ///< generations in a row in which the members did not connect
  int name_;
  std::uint64_t knows_calls_, has_state_;  ///< 0: a new member, until its first call or share
  std::vector<std::byte> last_;            ///< result of the last finished call

 private:
  std::uint64_t calls_ = 0;
  std::uint64_t last_weight_ = 0;
};

}  // namespace hcomp::elastic
