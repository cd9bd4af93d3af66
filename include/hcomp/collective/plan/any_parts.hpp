#pragma once
/// @file
/// encoded_parts whose codec is chosen at run time.

#include <cstddef>
#include <cstdint>
#include <hcomp/collective/agreement/options.hpp>
#include <hcomp/collective/plan/any_plan.hpp>
#include <hcomp/collective/plan/encoded_parts.hpp>
#include <hcomp/core/half.hpp>
#include <hcomp/core/random.hpp>
#include <hcomp/exec/executor.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/op/encoded_layout.hpp>
#include <span>
#include <utility>

namespace hcomp {

/// The steps of an all-reduce of several float vectors, as those of encoded_parts; see make_parts.
/// Every vector has error feedback, or none.
template <class V, Executor E = host_executor> class any_parts {
 public:
  using value_type = V;
  using error_type = typename detail::feedback_of<V, E>::error;

  any_parts() = default;
  any_parts(any_parts const&) = delete;
  any_parts& operator=(any_parts const&) = delete;
  virtual ~any_parts() = default;

  virtual std::size_t part_bytes() const = 0;
  virtual std::size_t reduced_bytes() const = 0;
  virtual std::size_t statistics_words() const = 0;
  /// See encoded_parts::set_magnitude_at. Codecs without a magnitude ignore it.
  virtual void set_magnitude_at(accumulator_t<V> const* magnitude, std::size_t v) = 0;
  /// @param feedback  null: none
  virtual void measure(std::span<V const> x, error_type* feedback, std::uint32_t* statistics,
                       std::size_t v) = 0;
  virtual void encode(std::span<V const> x, error_type* feedback, draw_key const& key,
                      std::uint32_t const* statistics, std::byte* out, std::size_t v) = 0;
  virtual void merge(std::byte const* in, std::byte* out) = 0;
  /// Decodes the parts of all ranks, or this rank's, and commits the feedback.
  virtual void decode(std::byte const* in, bool is_own_part, std::span<V> x, error_type* feedback,
                      draw_key const& key, reduce_op op, std::size_t v) = 0;
  virtual bool has_failed() const = 0;
  virtual void check() = 0;
};

namespace detail {

/// @tparam Parts  an encoded_parts
template <class Parts, Executor E>
class some_parts final : public any_parts<typename Parts::value_type, E> {
 public:
  using V = typename Parts::value_type;
  using typename any_parts<V, E>::error_type;

  template <class... Arguments>
  explicit some_parts(Arguments&&... arguments) : parts_(std::forward<Arguments>(arguments)...) {}

  std::size_t part_bytes() const override { return parts_.part_bytes(); }
  std::size_t reduced_bytes() const override { return parts_.reduced_bytes(); }
  std::size_t statistics_words() const override { return parts_.statistics_words(); }
  void set_magnitude_at([[maybe_unused]] accumulator_t<V> const* magnitude,
                        [[maybe_unused]] std::size_t v) override {
    if constexpr (requires { parts_.set_magnitude_at(magnitude, v); })
      parts_.set_magnitude_at(magnitude, v);
  }
  void measure(std::span<V const> x, error_type* feedback, std::uint32_t* statistics,
               std::size_t v) override {
    if (feedback)
      parts_.measure(x, *feedback, statistics, v);
    else
      parts_.measure(x, statistics, v);
  }
  void encode(std::span<V const> x, error_type* feedback, draw_key const& key,
              std::uint32_t const* statistics, std::byte* out, std::size_t v) override {
    if (feedback)
      parts_.encode(x, *feedback, key, statistics, out, v);
    else
      parts_.encode(x, key, statistics, out, v);
  }
  void merge(std::byte const* in, std::byte* out) override { parts_.merge(in, out); }
  void decode(std::byte const* in, bool is_own_part, std::span<V> x, error_type* feedback,
              draw_key const& key, reduce_op op, std::size_t v) override {
    if (!feedback)
      return is_own_part ? parts_.decode_part(in, x, key, op, v) : parts_.decode(in, x, key, op, v);
    if (is_own_part)
      parts_.decode_part(in, x, *feedback, key, op, v);
    else
      parts_.decode(in, x, *feedback, key, op, v);
    parts_.commit(*feedback, v);
  }
  bool has_failed() const override { return parts_.has_failed(); }
  void check() override { parts_.check(); }

 private:
  Parts parts_;
};

}  // namespace detail
}  // namespace hcomp
