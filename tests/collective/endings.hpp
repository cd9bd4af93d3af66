#pragma once
/// @file
/// One call of any kind, and how it ends on all ranks.

#include <doctest/doctest.h>

#include <collective/on_ranks.hpp>
#include <cstddef>
#include <hcomp/collective/agreement/detail/call_check.hpp>
#include <hcomp/collective/agreement/options.hpp>
#include <hcomp/collective/agreement/report.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/transport/in_process.hpp>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace hcomp::testing {

using detail::operation;
inline constexpr operation operations[] = {operation::all_reduce, operation::reduce_scatter,
                                           operation::all_gather};
template <class Sum>
report perform(operation what, Sum& sum, std::span<float> x, call_options const& call = {}) {
  return what == operation::all_reduce       ? sum.all_reduce(x, call)
         : what == operation::reduce_scatter ? sum.reduce_scatter(x, call)
                                             : sum.all_gather(x, call);
}

/// How all ranks ended, and whether x kept every bit.
struct ending {
  std::vector<outcome> outcomes;
  bool unchanged = true;
};
/// Of call(transport, x), or call(transport, executor, x).
/// @param x  a vector for every rank
template <class F> ending ending_of(std::vector<std::vector<float>> x, F const& call) {
  auto const before = x;
  ending result;
  result.outcomes = outcomes_on(static_cast<int>(x.size()), [&](in_process& transport) {
    std::span const mine(x[static_cast<std::size_t>(transport.rank())]);
    if constexpr (std::is_invocable_v<F const&, in_process&, std::span<float>>) {
      call(transport, mine);
    } else {
      host_executor executor;
      call(transport, executor, mine);
    }
  });
  for (std::size_t r = 0; r < x.size(); ++r)
    result.unchanged &= first_difference(x[r], before[r]) == nowhere;
  return result;
}
inline void check_ending(ending const& found, std::string const& what, std::string const& text) {
  CAPTURE(to_text(found.outcomes));
  CHECK(all_ended_alike(found.outcomes, what));
  CHECK(found.outcomes[0].text == text);
  CHECK(found.unchanged);
}

}  // namespace hcomp::testing
