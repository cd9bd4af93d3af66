#pragma once
/// @file
/// Definition of make_contenders(), instantiated for one type of values per file: codecs,
/// algorithms and transports multiply, and so does the time to compile them.

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <hcomp/hcomp.hpp>
#include <hcomp/mpi/op.hpp>
#include <limits>
#include <stdexcept>
#include <type_traits>

#include "contenders.hpp"
#include "mpi_algorithms.hpp"
#include "raw_sum.hpp"
#ifdef HCOMP_PERF_ZFP
#include "zfp_codec.hpp"
#endif

namespace perf {

/// A rounding error of the values that cross the wire, per addition.
template <class T> constexpr double rounding() {
  if constexpr (std::is_same_v<T, hcomp::float16>) return 0x1p-11;
  if constexpr (std::is_same_v<T, hcomp::bfloat16>) return 0x1p-8;
  return static_cast<double>(std::numeric_limits<T>::epsilon()) / 2;
}

/// What a codec's documentation says of a sum over so many ranks.
template <class C> promise promise_of(int ranks) {
  using T = typename C::value_type;
  std::string_view const name = C::name;
  double wire = 0;
  if (name == "identity") wire = rounding<T>();
  if (name == "float_cast:fp16") wire = 0x1p-11;
  if (name == "float_cast:bf16") wire = 0x1p-8;
  // encoding, every addition and decoding round once; magnitudes add up along the way
  if (wire > 0) return {(ranks + 1) * (wire + rounding<T>()), false};
  return {std::nullopt, name == "sign" || name == "sign_count"};
}

template <class T> class raw_contender final : public contender<T> {
 public:
  raw_contender(std::size_t values, std::string const& algorithm) : on_(example::comm, algorithm) {
    this->name = {"raw", algorithm.empty() ? "MPI" : "MPI:" + algorithm, "mpi"};
    this->accuracy.relative_error = (example::ranks() + 1) * 2 * rounding<T>();
    this->bytes_to_send =
        2.0 * (example::ranks() - 1) / example::ranks() * static_cast<double>(values * sizeof(T));
  }
  void predict(hcomp::link_cost const& link, hcomp::codec_cost const& identity,
               std::size_t values) {
    this->predicted_seconds =
        hcomp::library_seconds(example::ranks(), static_cast<double>(values * sizeof(T)),
                               identity.merge / sizeof(T), link);
  }
  hcomp::report run(std::span<T> x, hcomp::call_options const& call) override {
    on_.select();
    hcomp::mpi::require(MPI_Allreduce(MPI_IN_PLACE, x.data(), static_cast<int>(x.size()),
                                      sum_.type(), sum_.op(), on_.comm()),
                        "MPI_Allreduce");
    if (call.result == hcomp::reduction::mean)
      for (auto& value : x) value = static_cast<T>(value / static_cast<T>(example::ranks()));
    return {};
  }

 private:
  chosen_algorithm on_;
  raw_sum<T> sum_;
};

/// hcomp's own collectives: Collective is a plan or an owner_selection.
template <class Collective, class C, class T> class plan_contender final : public contender<T> {
 public:
  template <class Transport>
  plan_contender(way name, std::size_t values, C const& codec, Transport& transport,
                 hcomp::algorithm const& how, int threads)
      : executor_(threads), plan_(values, codec, transport, executor_, options_of(how)) {
    this->name = std::move(name);
    this->accuracy = promise_of<C>(transport.size());
    std::uint64_t most =
        hcomp::bytes_sent_per_rank(how, transport.rank(), transport.size(),
                                   hcomp::layout_of(codec, values, how.sharers(transport.size())));
    MPI_Allreduce(MPI_IN_PLACE, &most, 1, MPI_UINT64_T, MPI_MAX, example::comm);
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
  Collective plan_;
};

/// hcomp's codec as an MPI_Op, moved by the MPI library.
template <class C, class T> class op_contender final : public contender<T> {
 public:
  op_contender(std::size_t values, C const& codec)
      : sum_(hcomp::fit(codec, static_cast<std::uint32_t>(example::ranks()))) {
    this->name = {C::name, "MPI", "op"};
    this->accuracy = promise_of<C>(example::ranks());
    this->bytes_to_send = 2.0 * (example::ranks() - 1) / example::ranks() *
                          static_cast<double>(hcomp::layout_of(sum_.codec(), values).bytes());
    code_.resize(hcomp::code_bytes(sum_.codec(), values));
  }
  hcomp::report run(std::span<T> x, hcomp::call_options const& call) override {
    int const rank = example::rank();
    hcomp::report figures;
    hcomp::detail::stopwatch watch;
    hcomp::encode(sum_.codec(), std::span<T const>(x), std::span(code_),
                  {.key = call.key(), .rank = rank});
    watch.add_to(figures.seconds_encode);
    hcomp::mpi::require(MPI_Allreduce(MPI_IN_PLACE, code_.data(), sum_.count(x.size()), sum_.type(),
                                      sum_.handle(), example::comm),
                        "MPI_Allreduce");
    watch.add_to(figures.seconds_communicate);
    hcomp::decode(sum_.codec(), std::span<std::byte const>(code_), x,
                  {.key = call.key(), .result = call.result});
    watch.add_to(figures.seconds_decode);
    return figures;
  }

 private:
  hcomp::mpi::op<C> sum_;
  std::vector<std::byte> code_;
};

/// Whatever the cost model takes to be quickest.
template <class Transport, class T> class automatic_contender final : public contender<T> {
 public:
  automatic_contender(std::string const& transport_name, std::size_t values, Transport& transport,
                      hcomp::automatic_options const& how, int threads)
      : executor_(threads), plan_(values, transport, executor_, how) {
    auto const& chosen = plan_.chosen();
    this->name = {"automatic", "chosen", transport_name};
    this->remark = "automatic took " + hcomp::to_text(chosen) + " expected";
    this->predicted_seconds = chosen.seconds();
    hcomp::builtin_codecs<T>::with(
        chosen.codec, [&]<class C>() { this->accuracy = promise_of<C>(transport.size()); });
    auto const layout =
        plan_.costs().of(chosen.codec).layout(values, chosen.how.sharers(transport.size()));
    this->bytes_to_send =
        static_cast<double>(hcomp::bytes_sent_per_rank(chosen.how, 0, transport.size(), layout));
  }
  hcomp::report run(std::span<T> x, hcomp::call_options const& call) override {
    return plan_.all_reduce(x, call);
  }

 private:
  hcomp::host_executor executor_;
  hcomp::automatic_plan<T, Transport, hcomp::host_executor> plan_;
};

template <class T> class contender_maker {
 public:
  contender_maker(options const& o, std::size_t values, double typical, transports& by)
      : o_(&o), values_(values), typical_(typical), by_(&by) {}

  contender_list<T> make() {
    add_raw();
    for (auto const& name : o_->codecs) {
      if (name == "raw") continue;
      if (name.starts_with("zfp:"))
        add_zfp(name);
      else if (name == "automatic")
        add_automatic();
      else
        hcomp::builtin_codecs<T>::with(registry_name(name), [&]<class C>() { add(C{}, name); });
    }
    return std::move(list_);
  }

  hcomp::cost_table costs(std::string const& transport_name, auto& transport) {
    hcomp::cost_table table;
    table.link = by_->costs.link(transport_name, transport);
    for (auto const& name : codecs_to_choose_from())
      hcomp::builtin_codecs<T>::with(name, [&]<class C>() {
        table.codecs.push_back({name, cost_of(fitted(C{}), name, transport)});
      });
    return table;
  }

 private:
  /// By hcomp's names, each once, identity always among them.
  std::vector<std::string> codecs_to_choose_from() const {
    std::vector<std::string> names{"identity"};
    for (auto const& asked : o_->codecs) {
      auto const name = registry_name(asked);
      bool const is_ours = name != "raw" && name != "automatic" && !name.starts_with("zfp:");
      if (is_ours && std::ranges::find(names, name) == names.end()) names.push_back(name);
    }
    return names;
  }

  template <class C> C fitted(C codec) const {
    if constexpr (requires { codec.magnitude; })
      codec.magnitude = static_cast<decltype(codec.magnitude)>(typical_);
    return hcomp::fit(codec, static_cast<std::uint32_t>(example::ranks()));
  }

  template <class C>
  hcomp::codec_cost const& cost_of(C const& codec, std::string const& name, auto& transport) {
    return by_->costs.codec(registry_name(name), codec, values_, transport);
  }

  void add_raw() {
    auto own = std::make_unique<raw_contender<T>>(values_, "");
    own->predict(by_->costs.link("mpi", *by_->mpi),
                 cost_of(hcomp::identity<T>{}, "identity", *by_->mpi), values_);
    list_.push_back(std::move(own));
    auto names = o_->mpi_algorithms;
    if (names == std::vector<std::string>{"all"}) names = mpi_algorithms();
    for (auto const& name : names)
      list_.push_back(std::make_unique<raw_contender<T>>(values_, name));
  }

  void add_zfp(std::string const& name) {
#ifdef HCOMP_PERF_ZFP
    if constexpr (std::is_floating_point_v<T>) {
      zfp_codec<T> codec;
      char const* const end = name.data() + name.size();
      auto const read = std::from_chars(name.data() + 4, end, codec.bits);
      if (read.ec != std::errc{} || read.ptr != end || codec.bits < 4 || codec.bits > 32)
        throw std::runtime_error(
            fmt::format("--codec {}: zfp takes 4 to 32 bits per value, as in zfp:8", name));
      add(codec, name);
    } else {
      throw std::runtime_error(fmt::format("--codec {}: zfp takes float and double only", name));
    }
#else
    throw std::runtime_error(fmt::format("--codec {}: this program was built without zfp", name));
#endif
  }

  template <class C> void add(C const& asked, std::string const& name) {
    C const codec = fitted(asked);
    for (auto const& transport : o_->transports) {
      if (transport == "mpi") add_plans(codec, name, transport, *by_->mpi);
#ifdef HCOMP_EXAMPLE_UCX
      if (transport == "ucx") add_plans(codec, name, transport, *by_->ucx);
#endif
      if (transport == "op") {
        list_.push_back(std::make_unique<op_contender<C, T>>(values_, codec));
        list_.back()->name.codec = name;
      }
    }
  }

  template <class C, class Transport>
  void add_plans(C const& codec, std::string const& name, std::string const& transport_name,
                 Transport& transport) {
    auto const& link = by_->costs.link(transport_name, transport);
    auto const& cost = cost_of(codec, name, transport);
    for (auto const& how : o_->algorithms) {
      std::size_t const known = list_.size();
      way const as{name, how.name(), transport_name};
      if (how.kind != hcomp::algorithm_kind::owner) {
        using plan = hcomp::plan<C, Transport, hcomp::host_executor>;
        list_.push_back(std::make_unique<plan_contender<plan, C, T>>(as, values_, codec, transport,
                                                                     how, o_->threads));
      } else if constexpr (std::is_same_v<C, hcomp::sign<T>>) {
        using selection = hcomp::owner_selection<T, Transport, hcomp::host_executor>;
        list_.push_back(std::make_unique<plan_contender<selection, C, T>>(
            as, values_, codec, transport, how, o_->threads));
      }
      if (list_.size() > known)
        list_.back()->predicted_seconds =
            hcomp::predicted_seconds(how, transport.size(), values_, cost, link);
    }
  }

  void add_automatic() {
    for (auto const& name : o_->transports) {
      if (name == "mpi") add_automatic(name, *by_->mpi);
#ifdef HCOMP_EXAMPLE_UCX
      if (name == "ucx") add_automatic(name, *by_->ucx);
#endif
    }
  }
  void add_automatic(std::string const& transport_name, auto& transport) {
    hcomp::automatic_options how;
    how.allowed = {codecs_to_choose_from(), o_->algorithms};
    how.magnitude = typical_;
    how.costs = costs(transport_name, transport);
    list_.push_back(std::make_unique<automatic_contender<std::decay_t<decltype(transport)>, T>>(
        transport_name, values_, transport, how, o_->threads));
  }

  options const* o_;
  std::size_t values_;
  double typical_;
  transports* by_;
  contender_list<T> list_;
};

template <class T>
contender_list<T> make_contenders(options const& o, std::size_t values, double typical,
                                  transports& by) {
  return contender_maker<T>(o, values, typical, by).make();
}

template <class T> hcomp::cost_table cost_table_of(options const& o, transports& by) {
  contender_maker<T> maker(o, o.max_bytes / sizeof(T), 1, by);
#ifdef HCOMP_EXAMPLE_UCX
  if (o.transports.front() == "ucx") return maker.costs("ucx", *by.ucx);
#endif
  return maker.costs("mpi", *by.mpi);
}

}  // namespace perf
