// part: full
// optimise: -O1
// timeout: 240
#include <doctest/doctest.h>

#include <algorithm>
#include <collective/on_ranks.hpp>
#include <collective/tampered_transport.hpp>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <hcomp/codec/registry.hpp>
#include <hcomp/codec/sparse/lossless_sparse.hpp>
#include <hcomp/collective/by_name/make_plan.hpp>
#include <hcomp/collective/engine/host_staged.hpp>
#include <hcomp/collective/sparse/sparse_plan.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <support/few_cases.hpp>
#include <support/guarded_executor.hpp>
#include <utility>
#include <vector>

using namespace hcomp;
using namespace hcomp::testing;

namespace {

using bytes = std::vector<std::byte>;

/// An all-reduce with damaged messages.
struct setup {
  std::string codec;
  algorithm how;
  int ranks;
  std::size_t values;
  bool checksum;
  bool check;
  bool on_device;
  reduce_op op;
  detail::operation what;
  int calls;  ///< calls before the damaged one

  plan_options options() const {
    return {.algorithm = how,
            .check = check,
            .checksum = checksum,
            .segment_bytes = 4096,
            .decode_on_arrival_bytes = 20'000};
  }

  std::string text() const {
    return codec + " by " + how.name() + ", " + std::to_string(ranks) + " ranks, " +
           std::to_string(values) + " values, " + detail::to_text(what) + ", checksum " +
           (checksum ? "on" : "off") + ", check " + (check ? "on" : "off") +
           (on_device ? ", on a device" : "") + (op == reduce_op::mean ? ", mean" : "");
  }
};

/// The messages of one rank in the last call.
using traffic = std::vector<bytes>;

struct run {
  std::vector<outcome> outcomes;
  std::vector<std::vector<float>> before, x;
  std::vector<traffic> earlier, last;  ///< per rank: messages of the calls before, and of the last
                                       ///< call
};

/// Codecs of integers have no mean.
bool is_of_integers(std::string const& codec) {
  return registered_codecs<std::int32_t>().find(codec) != nullptr;
}

/// Many zeros for a codec that skips zeros.
std::vector<float> input(setup const& s, int rank, int call) {
  auto x = integer_values(s.values, static_cast<std::uint64_t>(100 + call), rank);
  if (s.codec.starts_with("lossless_sparse"))
    for (std::size_t i = 0; i < x.size(); ++i)
      if (i % 37 != 5) x[i] = 0;
  return x;
}

template <class Plan>
void call(Plan& sum, setup const& s, std::span<typename Plan::value_type> x,
          call_options const& how) {
  if (s.what == detail::operation::all_reduce) sum.all_reduce(x, how);
  if (s.what == detail::operation::reduce_scatter) sum.reduce_scatter(x, how);
  if (s.what == detail::operation::all_gather) sum.all_gather(x, how);
}

/// Calls use(sum) with a function sum(x, call_options) for vectors in host memory.
template <class Use> void on_host(setup const& s, tampered_transport& transport, Use const& use) {
  host_executor executor;
  if (is_of_integers(s.codec)) {
    auto sum = make_plan<std::int32_t>(s.codec, s.values, transport, executor, s.options());
    return use([&](std::vector<float>& x, call_options const& how) {
      std::vector<std::int32_t> whole(x.begin(), x.end());
      try {
        call(sum, s, whole, how);
      } catch (...) {
        x.assign(whole.begin(), whole.end());
        throw;
      }
      x.assign(whole.begin(), whole.end());
    });
  }
  auto sum = make_plan<float>(s.codec, s.values, transport, executor, s.options());
  use([&](std::vector<float>& x, call_options const& how) { call(sum, s, x, how); });
}

/// The same for vectors in host memory, which are copied to the simulated device and back, also on
/// errors.
template <class C, class Use>
void on_device(C const& codec, setup const& s, tampered_transport& transport, Use const& use) {
  guarded_executor executor;
  host_staged over(transport, executor);
  plan sum(s.values, codec, over, executor, s.options());
  use([&](std::vector<float>& x, call_options const& how) {
    device_vector<float> const device_values(x, executor);
    try {
      call(sum, s, device_values.span(), how);
    } catch (...) {
      x = device_values.host();
      throw;
    }
    x = device_values.host();
  });
}
template <class Use> void on_device(setup const& s, tampered_transport& transport, Use const& use) {
  if (s.codec == "sign") return on_device(sign<float>{}, s, transport, use);
  if (s.codec == "thc") return on_device(fit(thc<float>{}, s.ranks), s, transport, use);
  if (s.codec == "fp16") return on_device(float_cast<float16, float>{}, s, transport, use);
  if (s.codec == "lossless_sparse:fixed=32")
    return on_device(lossless_sparse<std::uint32_t>{}, s, transport, use);
  if (s.codec == "inceptionn") return on_device(inceptionn(), s, transport, use);
  if (s.codec == "error_bounded:bound=1e-2")
    return on_device(error_bounded({.bound = 1e-2}), s, transport, use);
  throw std::invalid_argument("damage_test: no codec is called '" + s.codec + "' on devices");
}

/// @param damage  called with (rank, number of the message, message) in the last call
template <class Damage> run run_with(setup const& s, Damage const& damage) {
  auto const ranks = static_cast<std::size_t>(s.ranks);
  run r;
  r.before.resize(ranks);
  r.x.resize(ranks);
  r.earlier.resize(ranks);
  r.last.resize(ranks);
  r.outcomes = outcomes_on(s.ranks, [&](in_process& inner) {
    auto const rank = static_cast<std::size_t>(inner.rank());
    bool is_last = false;
    tampered_transport transport(inner, [&](int, int, bytes& message) {
      auto& sent = is_last ? r.last[rank] : r.earlier[rank];
      sent.push_back(message);
      if (is_last) damage(rank, sent.size() - 1, message);
    });
    auto const all_calls = [&](auto const& sum) {
      for (int call = 0; call <= s.calls; ++call) {
        auto& x = r.x[rank];
        r.before[rank] = x = input(s, inner.rank(), call);
        is_last = call == s.calls;
        sum(x, {.seed = 5, .op = s.op});
      }
    };
    if (s.on_device)
      on_device(s, transport, all_calls);
    else
      on_host(s, transport, all_calls);
  });
  return r;
}

/// Damages one message. Returns false if it changes nothing.
bool mutate(bytes& message, int kind, random_numbers& numbers, bytes const& replayed,
            bytes const& other) {
  bytes const original = message;
  std::size_t const n = message.size();
  auto const below = [&](std::size_t bound) { return bound == 0 ? 0 : numbers.next() % bound; };
  auto const flip = [&] {
    if (n == 0) return;
    std::size_t const bit = below(8 * n);
    message[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
  };
  switch (kind) {
    case 0: flip(); break;
    case 1:
      for (std::size_t i = 2 + below(15); i > 0; --i) flip();
      break;
    case 2:
      if (n > 0)
        for (std::size_t first = below(n), i = first, end = i + 1 + below(n - first); i < end; ++i)
          message[i] = static_cast<std::byte>(numbers.next());
      break;
    case 3:
      if (n > 0)
        for (std::size_t first = below(n), i = first, end = i + 1 + below(n - first); i < end; ++i)
          message[i] = std::byte{0};
      break;
    case 4: message.resize(below(3) == 0 ? below(n) : n - std::min(n, 1 + below(32))); break;
    case 5:
      for (std::size_t i = 1 + below(below(2) ? 8 : 4000); i > 0; --i)
        message.push_back(static_cast<std::byte>(numbers.next()));
      break;
    case 6: message = replayed; break;
    case 7: message = other; break;
    case 8: {  // a word that breaks arithmetic, at the place of a header field
      std::uint64_t const words[] = {0,
                                     1,
                                     0x7fffffff,
                                     0x80000000,
                                     0xffffffff,
                                     ~std::uint64_t{0},
                                     0x7ff0000000000000,
                                     0x8000,
                                     std::uint64_t{1} << 40,
                                     0x7f800000};
      auto const word = words[below(std::size(words))];
      std::size_t const size = std::size_t{1} << below(4), at = below(128 / size) * size;
      if (at + size <= n) std::memcpy(message.data() + at, &word, size);
      break;
    }
    default:  // disables a block's own checksum and damages the rest
      if (n > 40) message[6] &= std::byte{0xfb};
      flip();
  }
  return message != original;
}
constexpr int mutations = 10;
/// Kinds of damage: those of mutate, and a message of another rank, in an eighth of the runs. Not
/// without `check`: it may be the answer to the message that it replaces.
constexpr int kinds = 12;

struct strategy {
  std::string codec;
  algorithm how;
  bool on_device;
};

/// Every codec with a name, for floats or integers, with each of its algorithms, and each kind of
/// codec on the simulated device.
std::vector<strategy> strategies() {
  std::vector<strategy> all;
  registered_codecs<float>().for_each([&](codec_entry<float> const& row) {
    std::vector<std::string> texts{row.name};
    if (row.name == "error_bounded") texts = {"error_bounded:bound=1e-2"};
    if (row.name == "lossless_sparse")
      texts = {"lossless_sparse", "lossless_sparse:fixed=32", "lossless_sparse:dense=no"};
    for (auto const& text : texts)
      for (auto const kind : row.algorithms) all.push_back({text, {kind}, false});
  });
  registered_codecs<std::int32_t>().for_each([&](codec_info const& row) {
    for (auto const kind : row.algorithms) all.push_back({row.name, {kind}, false});
  });
  for (char const* const codec : {"sign", "thc", "fp16", "lossless_sparse:fixed=32", "inceptionn",
                                  "error_bounded:bound=1e-2"})
    for (auto const kind : {algorithm_kind::ring, algorithm_kind::direct})
      all.push_back({codec, {kind}, true});
  all.push_back({"sign", {algorithm_kind::sampled}, true});
  return all;
}

/// Outcomes of the runs with one damaged message.
struct tally {
  int damaged = 0, harmless = 0, told_to_all = 0, told_to_some = 0, unnoticed = 0;
};

bool same_bits(std::vector<std::vector<float>> const& a, std::vector<std::vector<float>> const& b) {
  for (std::size_t rank = 0; rank < a.size(); ++rank)
    if (first_difference(a[rank], b[rank]) != nowhere) return false;
  return true;
}

/// Damages one message of one rank in each of `trials` runs.
tally damage(bool checksum, int trials, std::uint64_t seed) {
  auto const all = strategies();
  std::map<std::string, run> intact;
  tally count;
  for (int trial = 0; trial < trials; ++trial) {
    CAPTURE(trial);
    random_numbers numbers(seed, static_cast<std::uint32_t>(trial));
    auto const draw = [&](std::size_t below) { return numbers.next() % below; };
    setup s;
    auto const& chosen = all[draw(all.size())];
    s.codec = chosen.codec;
    s.how = chosen.how;
    s.on_device = chosen.on_device;
    s.check = draw(4) > 0;
    s.ranks = s.how.kind == algorithm_kind::torus ? 4 : 2 + static_cast<int>(draw(4));
    std::size_t const sizes[] = {1, 7, 100, 3000, 9000};
    s.values = sizes[draw(std::size(sizes))];
    s.checksum = checksum;
    s.op = draw(2) ? reduce_op::sum : reduce_op::mean;
    s.calls = 1;
    s.what = static_cast<detail::operation>(1 + draw(3));
    if (!s.how.splits_vector()) s.what = detail::operation::all_reduce;
    if (s.what == detail::operation::all_gather || is_of_integers(s.codec)) s.op = reduce_op::sum;
    CAPTURE(s.text());
    auto const [found, is_new] = intact.try_emplace(s.text());
    auto& clean = found->second;
    if (is_new) {
      clean = run_with(s, [](std::size_t, std::size_t, bytes&) {});
      CAPTURE(to_text(clean.outcomes));
      REQUIRE(all_ended_alike(clean.outcomes, "returned"));
    }
    std::size_t const victim = draw(static_cast<std::size_t>(s.ranks));
    auto const& sent = clean.last[victim];
    if (sent.empty()) continue;
    std::size_t const number = draw(sent.size());
    int const kind = static_cast<int>(draw(s.check ? kinds : mutations));
    CAPTURE(victim);
    CAPTURE(number);
    CAPTURE(kind);
    auto const& earlier = clean.earlier[victim];
    auto const& others =
        clean.last[(victim + 1 + draw(static_cast<std::size_t>(s.ranks - 1))) % clean.last.size()];
    bool applied = false;
    auto const damaged = run_with(s, [&](std::size_t rank, std::size_t at, bytes& message) {
      if (rank != victim || at != number) return;
      if (kind >= mutations && !others.empty())
        applied =
            std::exchange(
                message, others[draw(2) ? number % others.size() : draw(others.size())]) != message;
      else
        applied =
            mutate(message, kind, numbers, number < earlier.size() ? earlier[number] : message,
                   sent[number > 0 ? number - 1 : 0]);
    });
    if (!applied) continue;
    ++count.damaged;
    auto const& outcomes = damaged.outcomes;
    auto const returned = std::ranges::count(outcomes, "returned", &outcome::what);
    std::string const ends = to_text(outcomes);
    CAPTURE(ends);
    REQUIRE(ends.find("still waits") == ends.npos);
    for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
      CAPTURE(rank);
      auto const& one = outcomes[rank];
      if (one.what == "returned" || !checksum) continue;
      bool const told = one.what == "wire_error" || one.what == "transport_error" ||
                        one.what == "disagreement_error" || one.what == "invalid_argument";
      REQUIRE(told);
      REQUIRE(first_difference(damaged.x[rank], damaged.before[rank]) == nowhere);
    }
    if (returned == s.ranks) {
      bool const right = same_bits(damaged.x, clean.x);
      ++(right ? count.harmless : count.unnoticed);
      if (checksum) REQUIRE(right);
    } else if (returned == 0) {
      ++count.told_to_all;
      bool const alike = all_ended_alike(outcomes, outcomes[0].what);
      if (checksum) REQUIRE(alike);
    } else {  // the last message of a call: its sender has returned
      ++count.told_to_some;
      for (std::size_t rank = 0; rank < outcomes.size() && checksum; ++rank) {
        if (outcomes[rank].what != "returned") continue;
        CAPTURE(rank);
        REQUIRE(first_difference(damaged.x[rank], clean.x[rank]) == nowhere);
      }
    }
  }
  return count;
}

int trials() {
  if (char const* const wanted = std::getenv("HCOMP_DAMAGE_TRIALS")) return std::atoi(wanted);
  return few_cases ? 500 : 3000;
}

}  // namespace

TEST_CASE("damage with checksum: all damage is detected, and no rank is left waiting") {
  auto const count = damage(true, trials(), 1);
  MESSAGE(count.damaged << " messages damaged: " << count.told_to_all << " told to all ranks, "
                        << count.told_to_some << " to some, " << count.harmless << " harmless");
  CHECK(count.damaged > trials() / 2);
  CHECK(count.unnoticed == 0);
}

TEST_CASE("damage without checksum: no rank is left waiting") {
  auto const count = damage(false, trials() / 3, 2);
  MESSAGE(count.damaged << " messages damaged: " << count.told_to_all << " told to all ranks, "
                        << count.told_to_some << " to some, " << count.harmless << " harmless, "
                        << count.unnoticed << " unnoticed");
  CHECK(count.damaged > trials() / 6);
}
