#pragma once
/// @file
/// Definition of make_contenders(), instantiated for one type of values per file: codecs,
/// algorithms and transports multiply, and so does the time to compile them.

#include <fmt/core.h>

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
    std::uint64_t most = hcomp::bytes_sent_per_rank(how, transport.rank(), transport.size(),
                                                    hcomp::layout_of(codec, values));
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
      else
        hcomp::builtin_codecs<T>::with(registry_name(name), [&]<class C>() { add(C{}, name); });
    }
    return std::move(list_);
  }

 private:
  void add_raw() {
    list_.push_back(std::make_unique<raw_contender<T>>(values_, ""));
    auto names = o_->mpi_algorithms;
    if (names == std::vector<std::string>{"all"}) names = mpi_algorithms();
    for (auto const& name : names)
      list_.push_back(std::make_unique<raw_contender<T>>(values_, name));
  }

  void add_zfp(std::string const& name) {
#ifdef HCOMP_PERF_ZFP
    if constexpr (std::is_floating_point_v<T>) {
      zfp_codec<T> codec;
      if (std::sscanf(name.c_str(), "zfp:%d", &codec.bits) != 1 || codec.bits < 4 ||
          codec.bits > 32)
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

  template <class C> void add(C codec, std::string const& name) {
    if constexpr (requires { codec.magnitude; })
      codec.magnitude = static_cast<decltype(codec.magnitude)>(typical_);
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
  void add_plans(C const& asked, std::string const& name, std::string const& transport_name,
                 Transport& transport) {
    C const codec = hcomp::fit(asked, static_cast<std::uint32_t>(transport.size()));
    for (auto const& how : o_->algorithms) {
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
    }
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

}  // namespace perf
