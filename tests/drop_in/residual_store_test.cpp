#include <doctest/doctest.h>

#include <c/residual_store.hpp>
#include <hcomp/feedback/error_feedback.hpp>

using namespace hcomp;
using namespace hcomp::drop_in;

namespace {

tensor_key key_of(void const* buffer, std::size_t values = 100, std::uint64_t communicator = 1,
                  std::uint32_t turn = 0) {
  return {communicator, buffer, values, sizeof(float), turn};
}
/// Size of one tensor of 100 floats: a residual and its successor.
constexpr std::size_t one_tensor = 2 * 100 * sizeof(float);

}  // namespace

TEST_CASE("residual store: communicator, buffer, length, type and turn identify a tensor") {
  residual_store store(1 << 20);
  int a = 0, b = 0;
  auto const first = store.take<float>(key_of(&a));
  CHECK(store.take<float>(key_of(&a)) == first);
  CHECK(store.take<float>(key_of(&b)) != first);
  CHECK(store.take<float>(key_of(&a, 101)) != first);
  CHECK(store.take<float>(key_of(&a, 100, 2)) != first);
  CHECK(store.take<float>(key_of(&a, 100, 1, 1)) != first);
  tensor_key in_double = key_of(&a);
  in_double.value_bytes = sizeof(double);
  auto const other = store.take<double>(in_double);
  CHECK(static_cast<void const*>(other.get()) != static_cast<void const*>(first.get()));
  CHECK(other->values() == 100);
  CHECK(store.forgotten() == 0);
}

TEST_CASE("residual store: evicts the least recently used residual, and only beyond the limit") {
  residual_store store(3 * one_tensor);
  int a = 0, b = 0, c = 0, d = 0;
  store.take<float>(key_of(&a)).reset();
  float const* const kept = store.take<float>(key_of(&b))->residual().data();
  store.take<float>(key_of(&c)).reset();
  CHECK(store.bytes() == 3 * one_tensor);
  CHECK(store.forgotten() == 0);
  // a is the least recently used now
  CHECK(store.take<float>(key_of(&b))->residual().data() == kept);
  store.take<float>(key_of(&d)).reset();
  CHECK(store.forgotten() == 1);
  CHECK(store.bytes() == 3 * one_tensor);
  CHECK(store.take<float>(key_of(&b))->residual().data() == kept);
  CHECK(store.forgotten() == 1);
  store.take<float>(key_of(&a)).reset();  // evicts c
  store.take<float>(key_of(&d)).reset();
  CHECK(store.forgotten() == 2);
}

TEST_CASE("residual store: a residual in use stays, and one that is too large is not kept") {
  residual_store store(one_tensor);
  int a = 0, b = 0;
  auto const in_use = store.take<float>(key_of(&a));
  CHECK(store.take<float>(key_of(&b)) == nullptr);
  CHECK(store.take<float>(key_of(&b, 101)) == nullptr);
  CHECK(store.take<float>(key_of(&a)) == in_use);
  CHECK(store.forgotten() == 0);
}

TEST_CASE("residual store: a residual that is too large evicts nothing") {
  residual_store store(one_tensor);
  int a = 0, b = 0;
  store.take<float>(key_of(&a)).reset();
  CHECK(store.take<float>(key_of(&b, 101)) == nullptr);
  CHECK(store.forgotten() == 0);
  CHECK(store.bytes() == one_tensor);
}

TEST_CASE("residual store: a freed communicator leaves nothing behind") {
  residual_store store(1 << 20);
  int a = 0;
  for (std::uint64_t number : {1, 2, 3})
    for (std::uint32_t turn : {0, 1}) store.take<float>(key_of(&a, 100, number, turn)).reset();
  store.forget(2);
  CHECK(store.bytes() == 4 * one_tensor);
  store.forget(1);
  store.forget(3);
  store.forget(4);
  CHECK(store.bytes() == 0);
  CHECK(store.forgotten() == 0);
}
