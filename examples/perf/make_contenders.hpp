#pragma once
/// @file
/// Definition of make_contenders(). Every file that includes it instantiates it for one value type.

#include <hcomp/extend.hpp>
#include <hcomp/hcomp.hpp>
#include <hcomp/model.hpp>
#include <hcomp/mpi/device_memory.hpp>
#include <hcomp/mpi/op.hpp>
#include <utility>

#include "../support/program.hpp"
#include "aggregated.hpp"
#include "codec_promise.hpp"
#include "contenders.hpp"
#include "device.hpp"
#include "mpi_algorithms.hpp"
#include "plans.hpp"
#include "raw_reduction.hpp"
#include "sparse_op.hpp"
#ifdef HCOMP_PERF_ZFP
#include "zfp_codec.hpp"
#endif

namespace perf {

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
    if (call.op == hcomp::reduce_op::mean)
      for (auto& value : x) value = static_cast<T>(value / static_cast<T>(example::ranks()));
    return {};
  }

 private:
  chosen_algorithm on_;
  raw_reduction<T> sum_;
};

/// MPI_Allreduce with a codec of hcomp as MPI_Op.
template <class C, class T> class op_contender final : public contender<T> {
 public:
  op_contender(std::size_t values, C const& codec)
      : sum_(hcomp::fit(codec, static_cast<std::uint32_t>(example::ranks()))) {
    this->bytes_to_send = 2.0 * (example::ranks() - 1) / example::ranks() *
                          static_cast<double>(hcomp::layout_of(sum_.codec(), values).bytes());
    encoded_.resize(hcomp::encoded_bytes(sum_.codec(), values));
  }
  hcomp::report run(std::span<T> x, hcomp::call_options const& call) override {
    int const rank = example::rank();
    hcomp::report stats;
    hcomp::detail::stopwatch watch;
    hcomp::encode(
        sum_.codec(), std::span<T const>(x), std::span(encoded_),
        {.key = call.key(),
         .rank = rank,
         .statistics = hcomp::mpi::measure(sum_.codec(), std::span<T const>(x), example::comm)});
    watch.add_to(stats.seconds_encode);
    hcomp::mpi::require(MPI_Allreduce(MPI_IN_PLACE, encoded_.data(), sum_.count(x.size()),
                                      sum_.type(), sum_.handle(), example::comm),
                        "MPI_Allreduce");
    watch.add_to(stats.seconds_communicate);
    hcomp::decode(sum_.codec(), std::span<std::byte const>(encoded_), x,
                  {.key = call.key(), .op = call.op});
    watch.add_to(stats.seconds_decode);
    return stats;
  }

 private:
  hcomp::mpi::op<C> sum_;
  std::vector<std::byte> encoded_;
};

/// Adds the MPI library's all-reduce, and its algorithms of --mpi-algorithm.
template <class T> void add_raw(contender_list<T>& list, job const& it) {
  auto names = it.o.mpi_algorithms;
  if (names == std::vector<std::string>{"all"}) names = mpi_algorithms();
  if constexpr (std::is_same_v<T, float>)
    if (it.o.device == "cuda") {
      names.insert(names.begin(), "");
      for (auto const& name : names)
        list.push_back(on_device(std::make_unique<raw_contender<T>>(it.values, name), it.values,
                                 example::ranks(), hcomp::mpi::reaches_device()));
      return;
    }
  auto own = std::make_unique<raw_contender<T>>(it.values, "");
  auto& transport = it.by.at("mpi");
  own->predict(it.by.costs.link("mpi", transport), identity_cost<T>(it), it.values);
  list.push_back(std::move(own));
  for (auto const& name : names)
    list.push_back(std::make_unique<raw_contender<T>>(it.values, name));
}

/// Calls f with the unfitted codec, as an object of its own type.
template <class T, class F> void with_type_of(hcomp::named_codec<T> const& codec, F const& f) {
#ifdef HCOMP_PERF_ZFP
  if constexpr (std::is_floating_point_v<T>)
    if (codec.entry->is_called("zfp")) return f(zfp_codec<T>{codec.settings.whole("bits")});
#endif
  bool found = false;
  hcomp::builtin_codecs<T>::for_each([&]<class C>() {
    if (found || !codec.entry->is_called(C::name)) return;
    found = true;
    f(C{});
  });
}

template <class T> void add_op(contender_list<T>& list, job const& it, std::string const& name) {
  auto const codec = hcomp::codec_from(codecs<T>(), name);
  if (!has_op(*codec.entry, codec.settings)) return;
  if (auto const sparse = sparse_codec::from(*codec.entry, codec.settings)) {
    if constexpr (std::is_same_v<T, float>) switch (sparse->fixed) {
        case 32:
          list.push_back(std::make_unique<sparse_op_contender<std::uint32_t>>(*sparse));
          break;
        case 64:
          list.push_back(std::make_unique<sparse_op_contender<std::uint64_t>>(*sparse));
          break;
        default: list.push_back(std::make_unique<sparse_op_contender<float>>(*sparse));
      }
  } else {
    with_type_of(codec, [&]<class C>(C one) {
      if constexpr (requires { one.magnitude; })
        one.magnitude = static_cast<decltype(one.magnitude)>(it.typical);
      list.push_back(std::make_unique<op_contender<C, T>>(it.values, one));
    });
  }
  list.back()->name = {name, "MPI", "op"};
  list.back()->accuracy = promise_of<T>(*codec.entry, codec.settings, example::ranks(), it.o.mean);
}

template <class T> contender_list<T> make_contenders(job const& it) {
  contender_list<T> list;
  add_raw(list, it);
  for (auto const& name : it.o.codecs) {
    for (auto const& transport : it.o.transports) {
      if (name == "raw") continue;
      if constexpr (std::is_same_v<T, float>)  // options of a device have type float
        if (it.o.device == "cuda") {
          add_device_plans(list, it, name, transport);
          continue;
        }
      if (name == "automatic") {
        if (transport != "op") add_automatic(list, it, transport);
      } else if (transport == "op") {
        add_op(list, it, name);
      } else {
        add_plans(list, it, name, transport);
      }
    }
    if constexpr (std::is_same_v<T, float>)
      if (!it.o.aggregators.empty() && !is_own(name) &&
          has_indices(*hcomp::codec_from(codecs<T>(), name).entry))
        add_aggregated(list, it, name);
  }
  return list;
}

}  // namespace perf
