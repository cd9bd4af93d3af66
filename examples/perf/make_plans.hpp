#pragma once
/// @file
/// Definitions of plans.hpp, instantiated for one type of values per file: codecs and algorithms
/// multiply, and so does the time to compile them.

#include <algorithm>
#include <hcomp/extend.hpp>
#include <hcomp/hcomp.hpp>
#include <hcomp/model.hpp>
#include <type_traits>
#include <utility>

#include "named_codec.hpp"
#include "plans.hpp"

namespace perf {

/// hcomp's own collectives.
template <class C, class T> class plan_contender final : public contender<T> {
 public:
  plan_contender(way name, std::size_t values, C const& codec, hcomp::any_transport& transport,
                 hcomp::algorithm const& how, int threads)
      : executor_(threads), plan_(values, codec, transport, executor_, options_of(how)) {
    this->name = std::move(name);
    this->accuracy = promise_of<C>(transport.size());
    std::uint64_t most = hcomp::bytes_sent_per_rank(codec, values, transport.rank(),
                                                    transport.size(), options_of(how));
    hcomp::unite_records(transport, hcomp::tag_t{0}, most,
                         [](auto& a, auto const& b) { a = std::max(a, b); });
    this->bytes_to_send = static_cast<double>(most);
  }
  hcomp::report run(std::span<T> x, hcomp::call_options const& call) override {
    return plan_.all_reduce(x, call);
  }

 private:
  static hcomp::plan_options options_of(hcomp::algorithm const& how) {
    hcomp::plan_options options;
    options.how = how;
    return options;
  }
  hcomp::host_executor executor_;
  hcomp::plan<C, hcomp::any_transport, hcomp::host_executor> plan_;
};

/// Whatever the cost model takes to be quickest.
template <class T> class automatic_contender final : public contender<T> {
 public:
  automatic_contender(std::string const& transport_name, std::size_t values,
                      hcomp::any_transport& transport, hcomp::automatic_options const& how,
                      int threads)
      : executor_(threads), plan_(values, transport, executor_, how, hcomp::codec_rows<T>()) {
    auto const& chosen = plan_.chosen();
    this->name = {"automatic", "chosen", transport_name};
    this->remark = "automatic took " + hcomp::to_text(chosen) + " expected";
    this->predicted_seconds = chosen.seconds();
    hcomp::builtin_codecs<T>::with(
        chosen.codec, [&]<class C>() { this->accuracy = promise_of<C>(transport.size()); });
    hcomp::plan_options options = how.plan;
    options.how = chosen.how;
    this->bytes_to_send = static_cast<double>(hcomp::bytes_sent_per_rank(
        plan_.costs().of(chosen.codec), values, 0, transport.size(), options));
  }
  hcomp::report run(std::span<T> x, hcomp::call_options const& call) override {
    return plan_.all_reduce(x, call);
  }

 private:
  hcomp::host_executor executor_;
  hcomp::automatic_plan<T> plan_;
};

template <class T>
void add_plans(contender_list<T>& list, job const& it, std::string const& name,
               std::string const& transport_name) {
  auto& transport = it.by.at(transport_name);
  with_codec<T>(name, [&]<class C>(C const& asked) {
    C const codec = fitted(asked, it.typical, transport.size());
    auto const& link = it.by.costs.link(transport_name, transport);
    auto const& cost = it.by.costs.codec(registry_name(name), codec, it.values, transport);
    for (auto const& how : it.o.algorithms) {
      if (how.kind == hcomp::algorithm_kind::owner && !hcomp::OneRanksBit<C>) continue;
      list.push_back(std::make_unique<plan_contender<C, T>>(
          way{name, how.name(), transport_name}, it.values, codec, transport, how, it.o.threads));
      list.back()->predicted_seconds =
          hcomp::predicted_seconds(how, transport.size(), it.values, cost, link);
    }
  });
}

/// By hcomp's names, each once, identity always among them.
inline std::vector<std::string> codecs_to_choose_from(options const& o) {
  std::vector<std::string> names{"identity"};
  for (auto const& asked : o.codecs) {
    auto const name = registry_name(asked);
    if (is_registered(asked) && std::ranges::find(names, name) == names.end())
      names.push_back(name);
  }
  return names;
}

template <class T> hcomp::cost_table cost_table_of(job const& it, std::string const& over) {
  auto& transport = it.by.at(over);
  hcomp::cost_table table;
  table.link = it.by.costs.link(over, transport);
  for (auto const& name : codecs_to_choose_from(it.o))
    hcomp::builtin_codecs<T>::with(name, [&]<class C>() {
      table.codecs.push_back(
          {name, it.by.costs.codec(name, fitted(C{}, it.typical, transport.size()), it.values,
                                   transport)});
    });
  return table;
}

template <class T> hcomp::codec_cost const& identity_cost(job const& it) {
  return it.by.costs.codec("identity", hcomp::identity<T>{}, it.values, it.by.at("mpi"));
}

template <class T>
void add_automatic(contender_list<T>& list, job const& it, std::string const& transport_name) {
  hcomp::automatic_options how;
  how.allowed = {codecs_to_choose_from(it.o), it.o.algorithms};
  how.magnitude = it.typical;
  how.costs = cost_table_of<T>(it, transport_name);
  list.push_back(std::make_unique<automatic_contender<T>>(
      transport_name, it.values, it.by.at(transport_name), how, it.o.threads));
}

}  // namespace perf
