/// @file
/// The C API for fault-tolerant groups, which continue when ranks fail.

#include <hcomp/elastic.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <hcomp/collective/plan/any_plan.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/elastic/group.hpp>
#include <hcomp/elastic/plan.hpp>
#include <hcomp/elastic/rendezvous_store.hpp>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "make_feedback_plan.hpp"
#include "plan.hpp"

namespace {

using hcomp::c_api::guarded;
using hcomp::c_api::require;
using hcomp::c_api::taken;
using hcomp::drop_in::codec_spec;
using hcomp::drop_in::value_type;

/// Elastic plan for the C API. It has no reduce-scatter and no all-gather: a failed rank would take
/// its shard with it.
template <class V> class elastic_plan : public hcomp::elastic::plan<V> {
 public:
  using hcomp::elastic::plan<V>::plan;

  hcomp::value_range shard() const { refuse(); }
  std::size_t shard_alignment() const { refuse(); }
  template <class... Arguments> hcomp::report reduce_scatter(Arguments&&...) { refuse(); }
  template <class... Arguments> hcomp::report all_gather(Arguments&&...) { refuse(); }

 private:
  [[noreturn]] static void refuse() {
    throw std::invalid_argument(
        "a plan over an elastic group has no shards; it supports only hcomp_all_reduce");
  }
};

class elastic_connection final : public hcomp::c_api::connection {
 public:
  /// @param enter  (store, settings) creates or joins the group and returns it
  template <class Enter>
  elastic_connection(char const* directory, int timeout_ms, Enter const& enter)
      : store_(&require(directory, "directory")) {
    if (timeout_ms < 0)
      throw std::invalid_argument("timeout_ms is " + std::to_string(timeout_ms) +
                                  ", it can be 0 and more");
    std::chrono::milliseconds const timeout(timeout_ms);
    group_ = enter(store_, hcomp::elastic::group::settings{{.timeout = timeout}, timeout});
    known_ = group_->members();
  }

  /// Ranks that failed while a group of `size` ranks was created count as lost.
  void know_first(int size) {
    known_.resize(static_cast<std::size_t>(size));
    std::iota(known_.begin(), known_.end(), 0);
  }
  hcomp::elastic::group& group() { return *group_; }
  hcomp::elastic::group const& group() const { return *group_; }
  /// Names of the ranks that failed in the calls so far.
  std::vector<int> const& lost() {
    if (known_ == group_->members()) return lost_;
    for (int const one : known_)
      if (std::ranges::find(group_->members(), one) == group_->members().end())
        lost_.push_back(one);
    known_ = group_->members();
    return lost_;
  }
  std::vector<std::byte> state;  ///< result of the last hcomp_elastic_share_any

  hcomp::any_transport& transport() override { return group_->transport(); }
  std::uint64_t next_handle() override { return 0; }  // the group numbers calls
  bool numbers_steps() const override { return true; }
  /// Not collective: other ranks may have created their plans earlier. Plans compare in every call.
  void agree_on_plan(std::string const&, std::string const& error) override {
    if (!error.empty()) throw std::invalid_argument(error);
  }
  hcomp::any_plan<float> plan_of(codec_spec const& how, std::size_t values,
                                 hcomp::host_executor& executor,
                                 std::shared_ptr<hcomp::node::collectives>,
                                 std::type_identity<float>) override {
    return plan<float>(how, values, executor);
  }
  hcomp::any_plan<double> plan_of(codec_spec const& how, std::size_t values,
                                  hcomp::host_executor& executor,
                                  std::shared_ptr<hcomp::node::collectives>,
                                  std::type_identity<double>) override {
    return plan<double>(how, values, executor);
  }
  /// The group exchanges plans for host memory when members change.
  bool makes_device_plans() const override { return false; }
  std::unique_lock<std::mutex> enter() override {
    lost();  // records failed ranks before the next call changes the members
    if (failed_)
      throw hcomp::transport_error(
          failed_->peer(),
          std::string("it failed before and can only be freed: ") + failed_->what());
    return {};
  }
  void tell_others(hcomp::transport_error const& error) override { failed_ = error; }

 private:
  template <class V>
  hcomp::any_plan<V> plan(codec_spec const& how, std::size_t values,
                          hcomp::host_executor& executor) {
    if (how.algorithm.hierarchical)
      throw std::invalid_argument("algorithm hierarchical is not for plans over an elastic group");
    auto const make = [how, values, &executor](hcomp::any_transport& over) {
      hcomp::detail::kept_transport kept(over);
      return hcomp::any_plan<V>(
          how.entry_text(), std::move(kept),
          std::make_unique<hcomp::detail::some_plan<hcomp::drop_in::feedback_plan<V>>>(
              how.entry_text(), values, over, executor, hcomp::drop_in::options_of<V>(how)));
    };
    return {how.entry_text(), hcomp::detail::kept_transport(transport()),
            std::make_unique<hcomp::detail::some_plan<elastic_plan<V>>>(values, *group_, make)};
  }

  hcomp::elastic::directory_store store_;
  std::unique_ptr<hcomp::elastic::group> group_;
  std::vector<int> known_, lost_;
  std::optional<hcomp::transport_error> failed_;
};

}  // namespace

struct hcomp_elastic : hcomp::c_api::handle {
  std::shared_ptr<elastic_connection> over;
};

namespace {

/// Runs a collective of the group.
/// @param f  (connection)
template <class F> int run(char const* function, hcomp_elastic* group, F const& f) noexcept {
  return guarded(function, [&] {
    auto& over = *require(group, "group").over;
    auto const entered = over.enter();
    try {
      f(over);
    } catch (hcomp::transport_error const& error) {
      over.tell_others(error);
      throw;
    }
  });
}

/// @param enter  see elastic_connection
template <class Enter>
int make(char const* function, char const* directory, int timeout_ms, hcomp_elastic** group,
         Enter const& enter) noexcept {
  if (group) *group = nullptr;
  return guarded(function, [&] {
    auto& place = require(group, "group");
    place =
        new hcomp_elastic{{}, std::make_shared<elastic_connection>(directory, timeout_ms, enter)};
  });
}

/// Calls f(connection), which is not collective.
template <class F> int look(char const* function, hcomp_elastic const* group, F const& f) noexcept {
  return guarded(function, [&] { f(*require(group, "group").over); });
}

/// Calls f with the caller's bytes.
/// @throws std::invalid_argument  `pointer` is null; f still runs, with no bytes, so that the other
///                                ranks learn of the error
template <class Byte, class Void, class F>
void with_bytes(Void* pointer, std::size_t bytes, char const* name, F const& f) {
  std::string const complaint =
      pointer || bytes == 0
          ? ""
          : std::string(name) + " is a null pointer, of " + std::to_string(bytes) + " bytes";
  try {
    f(std::span(static_cast<Byte*>(pointer), complaint.empty() ? bytes : 0));
  } catch (std::invalid_argument const&) {
    if (complaint.empty()) throw;
  }
  if (!complaint.empty()) throw std::invalid_argument(complaint);
}

}  // namespace

int hcomp_elastic_create(char const* directory, int rank, int size, int timeout_ms,
                         hcomp_elastic** group) {
  int const status =
      make(__func__, directory, timeout_ms, group, [&](auto& store, auto const& how) {
        return std::make_unique<hcomp::elastic::group>(store, rank, size, how);
      });
  if (status == HCOMP_OK) (*group)->over->know_first(size);
  return status;
}
int hcomp_elastic_join(char const* directory, int timeout_ms, hcomp_elastic** group) {
  return make(__func__, directory, timeout_ms, group,
              [](auto& store, auto const& how) { return hcomp::elastic::group::join(store, how); });
}
int hcomp_elastic_free(hcomp_elastic** group) {
  return guarded(__func__, [&] {
    auto const it = taken(group, "group");
    if (!it) return;
    try {
      auto const entered = it->over->enter();
      it->over->group().close();
    } catch (std::exception const&) {  // the other ranks continue without this one
    }
  });
}

int hcomp_elastic_now(hcomp_elastic const* group, hcomp_elastic_state* now) {
  return look(__func__, group, [&](auto& over) {
    auto const& it = over.group();
    auto const& members = it.members();
    auto const rank = std::ranges::find(members, it.name()) - members.begin();
    require(now, "now") = {it.generation(), it.name(), static_cast<int>(rank),
                           static_cast<int>(members.size()), static_cast<int>(over.lost().size())};
  });
}
int hcomp_elastic_members(hcomp_elastic const* group, int* names) {
  return look(__func__, group, [&](auto& over) {
    std::ranges::copy(over.group().members(), &require(names, "names"));
  });
}
int hcomp_elastic_lost(hcomp_elastic const* group, int* names) {
  return look(__func__, group,
              [&](auto& over) { std::ranges::copy(over.lost(), &require(names, "names")); });
}

int hcomp_elastic_admit(hcomp_elastic* group, int* needed) {
  return run(__func__, group, [&](auto& over) {
    bool const somebody = over.group().admit();
    require(needed, "needed") = somebody;
  });
}
int hcomp_elastic_share(hcomp_elastic* group, void* state, size_t bytes) {
  return run(__func__, group, [&](auto& over) {
    with_bytes<std::byte>(state, bytes, "state", [&](auto all) { over.group().share(all); });
  });
}
int hcomp_elastic_share_any(hcomp_elastic* group, void const* mine, size_t bytes,
                            void const** state, size_t* state_bytes) {
  return run(__func__, group, [&](auto& over) {
    with_bytes<std::byte const>(mine, bytes, "mine", [&](auto all) {
      over.state.assign(all.begin(), all.end());
      over.group().share_any(over.state);
    });
    require(state, "state") = over.state.data();
    require(state_bytes, "state_bytes") = over.state.size();
  });
}
int hcomp_elastic_forget(hcomp_elastic* group) {
  return look(__func__, group, [](auto& over) { over.group().forget_state(); });
}

int hcomp_plan_create_elastic(hcomp_elastic* group, size_t values, int type, char const* codec_text,
                              hcomp_plan** plan) {
  if (plan) *plan = nullptr;
  return guarded(__func__, [&] {
    auto const& over = require(group, "group").over;
    auto const entered = over->enter();
    std::optional<value_type> known;
    if (type == HCOMP_FLOAT) known = value_type::float32;
    if (type == HCOMP_DOUBLE) known = value_type::float64;
    hcomp::c_api::create_plan(over, values, known, codec_text, plan);
  });
}
