// What is not a codec, and whether the compiler says what is missing.
//
// CASE_NO_PARAMETERS: c\.parameters\(\)
// CASE_NO_MERGE: c\.merge_block\(g, acc, in\)
// CASE_PLAN_WITHOUT_MERGE: HomomorphicSum
// CASE_PLAN_OF_NO_CODEC: For a codec by name call hcomp::make_plan
// CASE_PLAN_WITHOUT_EXECUTOR: that is no executor, such as hcomp::host_executor

#include <array>
#include <hcomp/extend.hpp>
#include <hcomp/hcomp.hpp>

struct stub_codec {
  using value_type = float;
  static constexpr char const* name = "stub";
  static constexpr std::uint8_t codec_id = 201;
  static constexpr int block_values = 64;
  static constexpr bool sum_is_exact = true;
  static constexpr bool passes_nonfinite = true;
#if !defined(CASE_NO_PARAMETERS)
  std::array<double, 0> parameters() const { return {}; }
#endif
  std::size_t block_bytes(int n) const { return 32 + static_cast<std::size_t>(n); }
  std::uint32_t max_summands() const { return 1; }
  template <class Group, class Source>
  void encode_block(Group, Source const&, int, std::byte*, hcomp::block_origin const&) const {}
  template <class Group, class Out>
  void decode_block(Group, std::byte const*, int, Out*, hcomp::reduce_op) const {}
#if !defined(CASE_NO_MERGE) && !defined(CASE_PLAN_WITHOUT_MERGE)
  template <class Group> void merge_block(Group, std::byte*, std::byte const*) const {}
#endif
};

#if defined(CASE_PLAN_WITHOUT_MERGE)
using wrong = hcomp::plan<stub_codec, hcomp::in_process, hcomp::host_executor>;
#else
static_assert(hcomp::HomomorphicSum<stub_codec>);
#endif

void use(hcomp::in_process& transport, hcomp::host_executor& executor) {
#if defined(CASE_PLAN_OF_NO_CODEC)
  hcomp::plan sum(10, "thc", transport, executor);
#elif defined(CASE_PLAN_WITHOUT_EXECUTOR)
  hcomp::plan sum(10, hcomp::sign<>{}, transport, transport);
#else
  hcomp::plan sum(10, hcomp::sign<>{}, transport, executor);
#endif
}
