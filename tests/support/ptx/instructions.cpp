/// @file
/// The instruction set: a table of mnemonics with all their suffixes. Any other mnemonic is an
/// error, so that no suffix is overlooked.
///
/// Follows PTX ISA 9.0. Missing, because nvcc does not generate them for hcomp's kernels: textures,
/// surfaces, calls through pointers, half precision except its conversions, tensor cores,
/// asynchronous copies, ordered and volatile accesses.

#include <algorithm>
#include <cfenv>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <support/ptx/program.hpp>
#include <type_traits>
#include <unordered_map>

namespace hcomp::ptx {
namespace {

using table = std::unordered_map<std::string, operation>;

template <class... T> struct types {};
using unsigned_types = types<std::uint16_t, std::uint32_t, std::uint64_t>;
using signed_types = types<std::int16_t, std::int32_t, std::int64_t>;
using float_types = types<float, double>;
using narrow_types = types<std::uint8_t, std::int8_t>;

template <class F, class... T> void for_types(types<T...>, F const& f) {
  (f.template operator()<T>(), ...);
}

template <class T> std::string name_of() {
  if constexpr (std::is_same_v<T, bool>) return "pred";
  char const kind = std::is_floating_point_v<T> ? 'f' : std::is_signed_v<T> ? 's' : 'u';
  return kind + std::to_string(8 * sizeof(T));
}
/// A type suffix for untyped bits.
template <class T> std::string bits_of() { return "b" + std::to_string(8 * sizeof(T)); }

/// Float arithmetic has a single NaN. Double arithmetic propagates its input's NaN.
template <class T> T result_of(T value) {
  if constexpr (std::is_same_v<T, float>)
    if (std::isnan(value)) return std::bit_cast<float>(0x7fffffffu);
  return value;
}

/// Half precision, computed from its definition, independent of hcomp's code.
std::uint16_t half_of(float value) {
  if (std::isnan(value)) return 0x7fff;
  double const magnitude = std::fabs(value);
  auto const sign = std::signbit(value) ? 0x8000 : 0;
  if (magnitude >= 65520) return static_cast<std::uint16_t>(sign | 0x7c00);
  int exponent = 0;
  std::frexp(magnitude, &exponent);
  // exponent of the unit in the last place
  int const unit = magnitude == 0 ? -24 : std::max(exponent - 11, -24);
  auto const units = static_cast<int>(std::nearbyint(std::ldexp(magnitude, -unit)));
  return static_cast<std::uint16_t>(sign | (((unit + 24) << 10) + units));
}
float float_of(std::uint16_t half) {
  int const exponent = half >> 10 & 31, fraction = half & 1023;
  if (exponent == 31 && fraction != 0) return std::bit_cast<float>(0x7fffffffu);
  float const magnitude = exponent == 31 ? std::numeric_limits<float>::infinity()
                          : exponent == 0
                              ? std::ldexp(static_cast<float>(fraction), -24)
                              : std::ldexp(static_cast<float>(1024 + fraction), exponent - 25);
  return half & 0x8000 ? -magnitude : magnitude;
}
void convert_to_half(registers r, instruction const& n) {
  r.put<std::uint16_t>(n.results[0], half_of(r.get<float>(n.arguments[0])));
}
void convert_from_half(registers r, instruction const& n) {
  r.put<float>(n.results[0], float_of(r.get<std::uint16_t>(n.arguments[0])));
}

/// r = f(a, b, ...) with all operands of type T.
template <class T, int arity, auto f> void compute(registers r, instruction const& n) {
  auto const& a = n.arguments;
  if constexpr (arity == 1)
    r.put<T>(n.results[0], f(r.get<T>(a[0])));
  else if constexpr (arity == 2)
    r.put<T>(n.results[0], f(r.get<T>(a[0]), r.get<T>(a[1])));
  else
    r.put<T>(n.results[0], f(r.get<T>(a[0]), r.get<T>(a[1]), r.get<T>(a[2])));
}
/// The same, but all arguments except the first, or the result, have 32 bits.
template <class T, auto f> void shift(registers r, instruction const& n) {
  r.put<T>(n.results[0], f(r.get<T>(n.arguments[0]), r.get<std::uint32_t>(n.arguments[1])));
}
template <class T, auto f> void count(registers r, instruction const& n) {
  r.put<std::uint32_t>(n.results[0], f(r.get<T>(n.arguments[0])));
}

// ---- Integers -----------------------------------------------------------------------------------

template <class T> using bits_t = std::make_unsigned_t<T>;
template <class T> inline constexpr int width = 8 * static_cast<int>(sizeof(T));

/// With 64 bits: C++ promotes smaller types to int, which overflows.
template <class T> T sum(T a, T b) {
  return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}
template <class T> T difference(T a, T b) {
  return static_cast<T>(static_cast<std::uint64_t>(a) - static_cast<std::uint64_t>(b));
}
template <class T> T product(T a, T b) {
  return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}
template <class T> T high_product(T a, T b) {
  using wide = std::conditional_t<std::is_signed_v<T>, __int128_t, __uint128_t>;
  return static_cast<T>(wide{a} * wide{b} >> width<T>);
}
template <class T> T quotient(T a, T b) {  // by 0: all ones, as on devices
  if (b == 0) return static_cast<T>(-1);
  if (std::is_signed_v<T> && b == static_cast<T>(-1)) return difference(T{0}, a);
  return static_cast<T>(a / b);
}
template <class T> T remainder(T a, T b) { return difference(a, product(quotient(a, b), b)); }
template <class T> T shift_left(T a, std::uint32_t by) {
  return by >= width<T> ? T{0} : static_cast<T>(static_cast<std::uint64_t>(a) << by);
}
template <class T> T shift_right(T a, std::uint32_t by) {
  if (by >= width<T>) return std::is_signed_v<T> && a < 0 ? static_cast<T>(-1) : T{0};
  return static_cast<T>(a >> by);
}
template <class T> T reversed(T a) {
  T found = 0;
  for (int i = 0; i < width<T>; ++i)
    found = static_cast<T>(found | (a >> i & 1) << (width<T> - 1 - i));
  return found;
}
/// The highest bit that differs from the sign; -1 if none does.
template <class T> std::uint32_t highest(T a) {
  auto const value = static_cast<bits_t<T>>(std::is_signed_v<T> && a < 0 ? ~a : a);
  return static_cast<std::uint32_t>(static_cast<int>(std::bit_width(value)) - 1);
}
template <class T> std::uint32_t highest_from_above(T a) {
  auto const found = highest(a);
  return found == ~0u ? found : width<T> - 1 - found;
}

template <class T> void multiply_wide(registers r, instruction const& n) {
  auto const& a = n.arguments;
  if constexpr (std::is_signed_v<T>)
    r.put<std::int64_t>(n.results[0], std::int64_t{r.get<T>(a[0])} * r.get<T>(a[1]));
  else
    r.put<std::uint64_t>(n.results[0], std::uint64_t{r.get<T>(a[0])} * r.get<T>(a[1]));
}
template <class T> void multiply_wide_add(registers r, instruction const& n) {
  multiply_wide<T>(r, n);
  r.put<std::uint64_t>(n.results[0], r.raw(n.results[0]) + r.raw(n.arguments[2]));
}
template <class T> void insert_bits(registers r, instruction const& n) {
  auto const& a = n.arguments;
  unsigned const first = r.get<std::uint32_t>(a[2]) & 255, bits = r.get<std::uint32_t>(a[3]) & 255;
  T const ones = bits >= width<T> ? static_cast<T>(~T{0}) : static_cast<T>((T{1} << bits) - 1);
  T const mask = shift_left<T>(ones, first);
  r.put<T>(n.results[0], (shift_left(r.get<T>(a[0]), first) & mask) | (r.get<T>(a[1]) & ~mask));
}
template <class T> void extract_bits(registers r, instruction const& n) {
  auto const& a = n.arguments;
  unsigned const first = r.get<std::uint32_t>(a[1]) & 255, bits = r.get<std::uint32_t>(a[2]) & 255;
  auto const value = r.get<T>(a[0]);
  unsigned const last = std::min<unsigned>(first + bits - 1, width<T> - 1);
  bool const sign = std::is_signed_v<T> && bits > 0 && (value >> last & 1);
  bits_t<T> found = 0;
  for (unsigned i = 0; i < width<T>; ++i) {
    bool const bit = i < bits && first + i < width<T> ? (value >> (first + i) & 1) != 0 : sign;
    found = static_cast<bits_t<T>>(found | bits_t<T>{bit} << i);
  }
  r.put<T>(n.results[0], static_cast<T>(found));
}
void permute_bytes(registers r, instruction const& n) {
  std::uint64_t const bytes = r.get<std::uint32_t>(n.arguments[0]) |
                              std::uint64_t{r.get<std::uint32_t>(n.arguments[1])} << 32;
  auto const selectors = r.get<std::uint32_t>(n.arguments[2]);
  std::uint32_t found = 0;
  for (unsigned i = 0; i < 4; ++i) {
    unsigned const selector = selectors >> 4 * i & 15;
    auto byte = static_cast<std::uint32_t>(bytes >> 8 * (selector & 7)) & 255;
    if (selector & 8) byte = byte & 128 ? 255 : 0;  // the sign of the byte
    found |= byte << 8 * i;
  }
  r.put(n.results[0], found);
}
void any_logic(registers r, instruction const& n) {
  auto const a = r.get<std::uint32_t>(n.arguments[0]), b = r.get<std::uint32_t>(n.arguments[1]),
             c = r.get<std::uint32_t>(n.arguments[2]);
  auto const table = r.get<std::uint32_t>(n.arguments[3]);
  std::uint32_t found = 0;
  for (unsigned row = 0; row < 8; ++row)
    if (table >> row & 1) found |= (row & 4 ? a : ~a) & (row & 2 ? b : ~b) & (row & 1 ? c : ~c);
  r.put(n.results[0], found);
}
template <bool left, bool wraps> void funnel_shift(registers r, instruction const& n) {
  std::uint64_t const both = r.get<std::uint32_t>(n.arguments[0]) |
                             std::uint64_t{r.get<std::uint32_t>(n.arguments[1])} << 32;
  auto by = r.get<std::uint32_t>(n.arguments[2]);
  by = wraps ? by & 31 : std::min(by, 32u);
  r.put(n.results[0], static_cast<std::uint32_t>(left ? both >> (32 - by) : both >> by));
}

// ---- Comparisons and choices --------------------------------------------------------------------

/// Comparisons of `setp`. The last eight are true for NaN operands, or test for NaN.
enum class comparison { eq, ne, lt, le, gt, ge, equ, neu, ltu, leu, gtu, geu, num, nan };

template <class T, comparison how> bool compare(T a, T b) {
  using enum comparison;
  bool unordered = false;
  if constexpr (std::is_floating_point_v<T>) unordered = std::isnan(a) || std::isnan(b);
  if constexpr (how == eq) return a == b;
  if constexpr (how == ne) return !unordered && a != b;
  if constexpr (how == lt) return a < b;
  if constexpr (how == le) return a <= b;
  if constexpr (how == gt) return a > b;
  if constexpr (how == ge) return a >= b;
  if constexpr (how == equ) return unordered || a == b;
  if constexpr (how == neu) return unordered || a != b;
  if constexpr (how == ltu) return unordered || a < b;
  if constexpr (how == leu) return unordered || a <= b;
  if constexpr (how == gtu) return unordered || a > b;
  if constexpr (how == geu) return unordered || a >= b;
  if constexpr (how == num) return !unordered;
  return unordered;
}
enum class with { nothing, conjunction, disjunction, exclusive };
template <class T, comparison how, with combined>
void set_predicate(registers r, instruction const& n) {
  bool found = compare<T, how>(r.get<T>(n.arguments[0]), r.get<T>(n.arguments[1]));
  bool other = !found;
  if constexpr (combined != with::nothing) {
    bool const third = r.get<bool>(n.arguments[2]);
    auto const combine = [&](bool value) {
      if constexpr (combined == with::conjunction) return value && third;
      if constexpr (combined == with::disjunction) return value || third;
      return value != third;
    };
    found = combine(found);
    other = combine(other);
  }
  r.put(n.results[0], found);
  if (n.result_count > 1) r.put(n.results[1], other);
}
template <class T> void select(registers r, instruction const& n) {
  r.put<T>(n.results[0], r.get<T>(n.arguments[r.get<bool>(n.arguments[2]) ? 0 : 1]));
}

// ---- Moves and conversions ----------------------------------------------------------------------

template <class T> void move(registers r, instruction const& n) {
  if (n.argument_count > 1) {  // the parts of a value, lowest first
    int const bits = width<T> / n.argument_count;
    std::uint64_t value = 0;
    for (int i = 0; i < n.argument_count; ++i)
      value |= (r.raw(n.arguments[i]) & ((std::uint64_t{1} << bits) - 1)) << bits * i;
    r.put(n.results[0], static_cast<T>(value));
  } else if (n.result_count > 1) {
    int const bits = width<T> / n.result_count;
    auto const value = r.get<std::uint64_t>(n.arguments[0]);
    for (int i = 0; i < n.result_count; ++i)
      r.put(n.results[i], value >> bits * i & ((std::uint64_t{1} << bits) - 1));
  } else {
    r.put<T>(n.results[0], r.get<T>(n.arguments[0]));
  }
}

/// Sets the rounding mode during its lifetime.
class rounding {
 public:
  explicit rounding(int mode) : before_(std::fegetround()) {
    if (mode != before_) std::fesetround(mode);
  }
  rounding(rounding const&) = delete;
  rounding& operator=(rounding const&) = delete;
  ~rounding() {
    if (std::fegetround() != before_) std::fesetround(before_);
  }

 private:
  int before_;
};

template <class To, class From, bool saturates>
void convert_integer(registers r, instruction const& n) {
  auto const value = static_cast<__int128_t>(r.get<From>(n.arguments[0]));
  using limits = std::numeric_limits<To>;
  r.put(n.results[0],
        static_cast<To>(saturates ? std::clamp<__int128_t>(value, limits::min(), limits::max())
                                  : value));
}
template <class To, class From, int mode> void convert_to_float(registers r, instruction const& n) {
  rounding const so(mode);
  From const volatile value = r.get<From>(n.arguments[0]);  // volatile: rounded here, not before
  To const volatile found = static_cast<To>(value);
  r.put<To>(n.results[0], result_of<To>(found));
}
template <class To, class From, int mode>
void convert_to_integer(registers r, instruction const& n) {
  rounding const so(mode);
  From const value = r.get<From>(n.arguments[0]);
  From const whole = std::nearbyint(value);
  constexpr bool is_wide = sizeof(From) == 8 || sizeof(To) == 8;
  using limits = std::numeric_limits<To>;
  To found;
  if (std::isnan(value))
    found = is_wide ? static_cast<To>(bits_t<To>{1} << (width<To> - 1)) : To{0};
  else if (whole < static_cast<From>(limits::min()))
    found = limits::min();
  else if (whole >= std::ldexp(From{1}, limits::digits))
    found = limits::max();
  else
    found = static_cast<To>(whole);
  r.put(n.results[0], found);
}
template <class T, int mode> void round_to_integral(registers r, instruction const& n) {
  rounding const so(mode);
  r.put<T>(n.results[0], result_of(std::nearbyint(r.get<T>(n.arguments[0]))));
}
template <class T> void saturate(registers r, instruction const& n) {
  auto const value = r.get<T>(n.arguments[0]);
  r.put<T>(n.results[0], value > 0 ? std::min(value, T{1}) : T{0});  // NaN becomes 0, too
}

// ---- Memory -------------------------------------------------------------------------------------

template <class T> void load(registers r, instruction const& n, std::byte* at) {
  for (int i = 0; i < n.result_count; ++i, at += sizeof(T)) {
    T value;
    std::memcpy(&value, at, sizeof(T));
    r.put<T>(n.results[i], value);
  }
}
template <class T> void store(registers r, instruction const& n, std::byte* at) {
  for (int i = 0; i < n.argument_count; ++i, at += sizeof(T)) {
    T const value = r.get<T>(n.arguments[i]);
    std::memcpy(at, &value, sizeof(T));
  }
}
/// *at = f(*at, a). The result, if any, is the old value.
template <class T, auto f> void atomic(registers r, instruction const& n, std::byte* at) {
  T before;
  std::memcpy(&before, at, sizeof(T));
  T const after = f(before, r.get<T>(n.arguments[0]));
  std::memcpy(at, &after, sizeof(T));
  if (n.result_count > 0) r.put<T>(n.results[0], before);
}
template <class T> void compare_and_swap(registers r, instruction const& n, std::byte* at) {
  T before;
  std::memcpy(&before, at, sizeof(T));
  T const after = r.get<T>(n.arguments[1]);
  if (before == r.get<T>(n.arguments[0])) std::memcpy(at, &after, sizeof(T));
  r.put<T>(n.results[0], before);
}

// ---- The table ----------------------------------------------------------------------------------

class instruction_set {
 public:
  instruction_set() {
    for_types(unsigned_types{}, [&]<class T>() { integers<T>(); });
    for_types(signed_types{}, [&]<class T>() { integers<T>(); });
    for_types(unsigned_types{}, [&]<class T>() { words<T>(); });
    for_types(float_types{}, [&]<class T>() { floats<T>(); });
    predicates();
    moves_and_conversions();
    memory();
    threads();
  }
  operation const* find(std::string const& name) const {
    auto const found = all_.find(name);
    return found == all_.end() ? nullptr : &found->second;
  }

 private:
  table all_;

  void add(std::string const& name, int arguments, void (*execute)(registers, instruction const&)) {
    operation one;
    one.execute = execute;
    one.arguments = arguments;
    all_[name] = one;
  }

  template <class T> void integers() {
    std::string const t = "." + name_of<T>();
    add("add" + t, 2, compute<T, 2, &sum<T>>);
    add("sub" + t, 2, compute<T, 2, &difference<T>>);
    add("mul.lo" + t, 2, compute<T, 2, &product<T>>);
    add("mul.hi" + t, 2, compute<T, 2, &high_product<T>>);
    add("mad.lo" + t, 3, compute<T, 3, [](T a, T b, T c) { return sum(product(a, b), c); }>);
    add("mad.hi" + t, 3, compute<T, 3, [](T a, T b, T c) { return sum(high_product(a, b), c); }>);
    if constexpr (sizeof(T) < 8) {
      add("mul.wide" + t, 2, multiply_wide<T>);
      add("mad.wide" + t, 3, multiply_wide_add<T>);
    }
    add("div" + t, 2, compute<T, 2, &quotient<T>>);
    add("rem" + t, 2, compute<T, 2, &remainder<T>>);
    add("min" + t, 2, compute<T, 2, [](T a, T b) { return std::min(a, b); }>);
    add("max" + t, 2, compute<T, 2, [](T a, T b) { return std::max(a, b); }>);
    if constexpr (std::is_signed_v<T>) {
      add("neg" + t, 1, compute<T, 1, [](T a) { return difference(T{0}, a); }>);
      add("abs" + t, 1, compute<T, 1, [](T a) { return a < 0 ? difference(T{0}, a) : a; }>);
    }
    add("shr" + t, 2, shift<T, &shift_right<T>>);
    if constexpr (sizeof(T) >= 4) {
      add("bfe" + t, 3, extract_bits<T>);
      add("bfind" + t, 1, count<T, &highest<T>>);
      add("bfind.shiftamt" + t, 1, count<T, &highest_from_above<T>>);
    }
    comparisons<T>("." + name_of<T>());
    add("selp" + t, 3, select<T>);
  }

  /// A type suffix for untyped bits.
  template <class T> void words() {
    std::string const t = "." + bits_of<T>();
    add("and" + t, 2, compute<T, 2, [](T a, T b) { return static_cast<T>(a & b); }>);
    add("or" + t, 2, compute<T, 2, [](T a, T b) { return static_cast<T>(a | b); }>);
    add("xor" + t, 2, compute<T, 2, [](T a, T b) { return static_cast<T>(a ^ b); }>);
    add("not" + t, 1, compute<T, 1, [](T a) { return static_cast<T>(~a); }>);
    add("cnot" + t, 1, compute<T, 1, [](T a) { return static_cast<T>(a == 0); }>);
    add("shl" + t, 2, shift<T, &shift_left<T>>);
    add("shr" + t, 2, shift<T, &shift_right<T>>);
    comparisons<T>(t);
    add("selp" + t, 3, select<T>);
    if constexpr (sizeof(T) >= 4) {
      add("popc" + t, 1,
          count<T, [](T a) { return static_cast<std::uint32_t>(std::popcount(a)); }>);
      add("clz" + t, 1,
          count<T, [](T a) { return static_cast<std::uint32_t>(std::countl_zero(a)); }>);
      add("brev" + t, 1, compute<T, 1, &reversed<T>>);
      add("bfi" + t, 4, insert_bits<T>);
    }
    if constexpr (sizeof(T) == 4) {
      add("prmt.b32", 3, permute_bytes);
      add("lop3.b32", 4, any_logic);
      add("shf.l.wrap.b32", 3, funnel_shift<true, true>);
      add("shf.l.clamp.b32", 3, funnel_shift<true, false>);
      add("shf.r.wrap.b32", 3, funnel_shift<false, true>);
      add("shf.r.clamp.b32", 3, funnel_shift<false, false>);
    }
  }

  template <class T> void floats() {
    std::string const t = "." + name_of<T>();
    for (std::string const rounded : {"", ".rn"}) {
      add("add" + rounded + t, 2, compute<T, 2, [](T a, T b) { return result_of(a + b); }>);
      add("sub" + rounded + t, 2, compute<T, 2, [](T a, T b) { return result_of(a - b); }>);
      add("mul" + rounded + t, 2, compute<T, 2, [](T a, T b) { return result_of(a * b); }>);
    }
    add("div.rn" + t, 2, compute<T, 2, [](T a, T b) { return result_of(a / b); }>);
    add("rcp.rn" + t, 1, compute<T, 1, [](T a) { return result_of(1 / a); }>);
    add("sqrt.rn" + t, 1, compute<T, 1, [](T a) { return result_of(std::sqrt(a)); }>);
    add("fma.rn" + t, 3, compute<T, 3, [](T a, T b, T c) { return result_of(std::fma(a, b, c)); }>);
    // of two zeros, -0 is the smaller one; of a NaN and a number, the number is the result
    add("min" + t, 2, compute<T, 2, [](T a, T b) {
          return a == b ? (std::signbit(a) ? a : b) : result_of(std::fmin(a, b));
        }>);
    add("max" + t, 2, compute<T, 2, [](T a, T b) {
          return a == b ? (std::signbit(a) ? b : a) : result_of(std::fmax(a, b));
        }>);
    add("neg" + t, 1, compute<T, 1, [](T a) { return -a; }>);
    add("abs" + t, 1, compute<T, 1, [](T a) { return std::fabs(a); }>);
    add("copysign" + t, 2, compute<T, 2, [](T a, T b) { return std::copysign(b, a); }>);
    comparisons<T>(t);
    add("selp" + t, 3, select<T>);
  }

  template <class T, comparison how>
  void comparisons_by(std::string const& name, std::string const& t) {
    std::string const first = "setp." + name;
    add(first + t, 2, set_predicate<T, how, with::nothing>);
    add(first + ".and" + t, 3, set_predicate<T, how, with::conjunction>);
    add(first + ".or" + t, 3, set_predicate<T, how, with::disjunction>);
    add(first + ".xor" + t, 3, set_predicate<T, how, with::exclusive>);
  }
  template <class T> void comparisons(std::string const& t) {
    using enum comparison;
    comparisons_by<T, eq>("eq", t);
    comparisons_by<T, ne>("ne", t);
    comparisons_by<T, lt>("lt", t);
    comparisons_by<T, le>("le", t);
    comparisons_by<T, gt>("gt", t);
    comparisons_by<T, ge>("ge", t);
    if constexpr (std::is_floating_point_v<T>) {
      comparisons_by<T, equ>("equ", t);
      comparisons_by<T, neu>("neu", t);
      comparisons_by<T, ltu>("ltu", t);
      comparisons_by<T, leu>("leu", t);
      comparisons_by<T, gtu>("gtu", t);
      comparisons_by<T, geu>("geu", t);
      comparisons_by<T, num>("num", t);
      comparisons_by<T, nan>("nan", t);
    }
  }

  void predicates() {
    add("and.pred", 2, compute<bool, 2, [](bool a, bool b) { return a && b; }>);
    add("or.pred", 2, compute<bool, 2, [](bool a, bool b) { return a || b; }>);
    add("xor.pred", 2, compute<bool, 2, [](bool a, bool b) { return a != b; }>);
    add("not.pred", 1, compute<bool, 1, [](bool a) { return !a; }>);
    add("mov.pred", 1, compute<bool, 1, [](bool a) { return a; }>);
  }

  template <class To, class From> void conversions_of_integers() {
    std::string const t = "." + name_of<To>() + "." + name_of<From>();
    add("cvt" + t, 1, convert_integer<To, From, false>);
    add("cvt.sat" + t, 1, convert_integer<To, From, true>);
  }
  template <class Float, class Integer, int mode>
  void conversions_by(std::string const& of_floats, std::string const& of_integers) {
    std::string const f = "." + name_of<Float>(), i = "." + name_of<Integer>();
    add("cvt." + of_floats + f + i, 1, convert_to_float<Float, Integer, mode>);
    add("cvt." + of_integers + i + f, 1, convert_to_integer<Integer, Float, mode>);
    add("cvt." + of_integers + ".sat" + i + f, 1, convert_to_integer<Integer, Float, mode>);
    add("cvt." + of_integers + f + f, 1, round_to_integral<Float, mode>);
    add("cvt." + of_floats + ".f32.f64", 1, convert_to_float<float, double, mode>);
  }
  void moves_and_conversions() {
    for_types(unsigned_types{}, [&]<class T>() {
      for (std::string const& t : {name_of<T>(), bits_of<T>(), name_of<bits_signed<T>>()})
        add("mov." + t, 1, move<T>);
    });
    add("mov.f32", 1, move<std::uint32_t>);
    add("mov.f64", 1, move<std::uint64_t>);
    auto const integers = types<std::uint8_t, std::int8_t, std::uint16_t, std::int16_t,
                                std::uint32_t, std::int32_t, std::uint64_t, std::int64_t>{};
    for_types(integers, [&]<class To>() {
      for_types(integers, [&]<class From>() { conversions_of_integers<To, From>(); });
      for_types(float_types{}, [&]<class Float>() {
        conversions_by<Float, To, FE_TONEAREST>("rn", "rni");
        conversions_by<Float, To, FE_TOWARDZERO>("rz", "rzi");
        conversions_by<Float, To, FE_DOWNWARD>("rm", "rmi");
        conversions_by<Float, To, FE_UPWARD>("rp", "rpi");
      });
    });
    add("cvt.rn.f16.f32", 1, convert_to_half);
    add("cvt.f32.f16", 1, convert_from_half);
    add("cvt.f64.f32", 1, convert_to_float<double, float, FE_TONEAREST>);
    add("cvt.sat.f32.f32", 1, saturate<float>);
    add("cvt.sat.f64.f64", 1, saturate<double>);
  }
  template <class T> using bits_signed = std::make_signed_t<T>;

  void access(std::string const& name, step what, int arguments, space where, int bytes,
              void (*how)(registers, instruction const&, std::byte*)) {
    operation one;
    one.what = what;
    one.access = how;
    one.has_result = what == step::load ||
                     (what == step::atomic && !name.starts_with("red") && !name.starts_with("st"));
    one.arguments = arguments;
    one.where = where;
    one.bytes = bytes;
    all_[name] = one;
  }
  template <class T>
  void loads_and_stores(std::string const& t, std::string const& s, space where) {
    for (int const count : {1, 2, 4}) {
      std::string const v = count == 1 ? "" : ".v" + std::to_string(count);
      int const bytes = count * static_cast<int>(sizeof(T));
      if (bytes > 16) continue;
      access("ld" + s + v + t, step::load, 0, where, bytes, load<T>);
      if (where == space::global)
        access("ld" + s + ".nc" + v + t, step::load, 0, where, bytes, load<T>);
      access("st" + s + v + t, step::store, count, where, bytes, store<T>);
    }
  }
  /// For words that other blocks access at the same time: without ordering, and never a race.
  template <class T> void relaxed(std::string const& t) {
    access("ld.relaxed.gpu" + t, step::atomic, 0, space::generic, sizeof(T), load<T>);
    access("st.relaxed.gpu" + t, step::atomic, 1, space::generic, sizeof(T), store<T>);
  }
  template <class T, auto f>
  void atomics_of(std::string const& name, std::string const& t, std::string const& s,
                  space where) {
    access("atom" + s + name + t, step::atomic, 1, where, sizeof(T), atomic<T, f>);
    access("red" + s + name + t, step::atomic, 1, where, sizeof(T), atomic<T, f>);
  }
  void memory() {
    struct {
      char const* name;
      space where;
    } const spaces[] = {{"", space::generic},       {".global", space::global},
                        {".shared", space::shared}, {".local", space::local},
                        {".param", space::param},   {".const", space::global}};
    relaxed<std::uint64_t>(".u64");
    access("prefetch.global.L2", step::prefetch, 0, space::global, 1,
           [](registers, instruction const&, std::byte*) {});
    for (auto const& one : spaces) {
      std::string const s = one.name;
      space const where = one.where;
      for_types(unsigned_types{}, [&]<class T>() {
        loads_and_stores<T>("." + name_of<T>(), s, where);
        loads_and_stores<T>("." + bits_of<T>(), s, where);
      });
      for_types(narrow_types{},
                [&]<class T>() { loads_and_stores<T>("." + name_of<T>(), s, where); });
      loads_and_stores<std::uint8_t>(".b8", s, where);
      for_types(signed_types{},
                [&]<class T>() { loads_and_stores<T>("." + name_of<T>(), s, where); });
      for_types(float_types{},
                [&]<class T>() { loads_and_stores<T>("." + name_of<T>(), s, where); });
      if (where == space::local || where == space::param) continue;
      for_types(types<std::uint32_t, std::int32_t, std::uint64_t, std::int64_t>{}, [&]<class T>() {
        std::string const t = "." + name_of<T>();
        atomics_of<T, &sum<T>>(".add", t, s, where);
        atomics_of<T, [](T a, T b) { return std::min(a, b); }>(".min", t, s, where);
        atomics_of<T, [](T a, T b) { return std::max(a, b); }>(".max", t, s, where);
      });
      for_types(float_types{}, [&]<class T>() {
        atomics_of<T, [](T a, T b) { return result_of(a + b); }>(".add", "." + name_of<T>(), s,
                                                                 where);
      });
      for_types(types<std::uint32_t, std::uint64_t>{}, [&]<class T>() {
        std::string const t = "." + bits_of<T>();
        atomics_of<T, [](T a, T b) { return a & b; }>(".and", t, s, where);
        atomics_of<T, [](T a, T b) { return a | b; }>(".or", t, s, where);
        atomics_of<T, [](T a, T b) { return a ^ b; }>(".xor", t, s, where);
        access("atom" + s + ".exch" + t, step::atomic, 1, where, sizeof(T),
               atomic<T, [](T, T b) { return b; }>);
        access("atom" + s + ".cas" + t, step::atomic, 2, where, sizeof(T), compare_and_swap<T>);
      });
    }
  }

  void add(std::string const& name, step what, bool has_result, int arguments, int mode = 0,
           space where = space::generic) {
    operation one;
    one.what = what;
    one.has_result = has_result;
    one.arguments = arguments;
    one.mode = mode;
    one.where = where;
    all_[name] = one;
  }
  void threads() {
    add("bra", step::branch, false, 0);
    add("bra.uni", step::branch, false, 0);
    add("call", step::call, false, 0);
    add("call.uni", step::call, false, 0);
    add("ret", step::return_, false, 0);  // of a kernel: exit
    add("exit", step::exit, false, 0);
    add("trap", step::trap, false, 0);
    for (std::string const t : {".u64", ".u32"}) {
      add("cvta.shared" + t, step::shared_base, true, 1);
      add("cvta.local" + t, step::local_base, true, 1);
      add("cvta.to.shared" + t, step::remove_base, true, 1);
      add("cvta.to.local" + t, step::remove_base, true, 1);
      add("cvta.global" + t, 1, move<std::uint64_t>);
      add("cvta.to.global" + t, 1, move<std::uint64_t>);
    }
    add("isspacep.shared", step::is_space, true, 1, 0, space::shared);
    add("isspacep.local", step::is_space, true, 1, 0, space::local);
    add("isspacep.global", step::is_space, true, 1, 0, space::global);
    // Fences and hints do nothing: threads run one after the other, in program order.
    for (char const* const name : {"membar.cta", "membar.gl", "membar.sys", "fence.acq_rel.cta",
                                   "fence.acq_rel.gpu", "fence.sc.cta", "fence.sc.gpu"})
      add(name, step::compute, false, 0), all_[name].execute = [](registers, instruction const&) {};
    add("bar.warp.sync", step::warp_barrier, false, 1);
    add("shfl.sync.up.b32", step::shuffle, true, 4, 'u');
    add("shfl.sync.down.b32", step::shuffle, true, 4, 'd');
    add("shfl.sync.bfly.b32", step::shuffle, true, 4, 'b');
    add("shfl.sync.idx.b32", step::shuffle, true, 4, 'i');
    add("vote.sync.ballot.b32", step::vote, true, 2, 'b');
    add("vote.sync.any.pred", step::vote, true, 2, 'o');
    add("vote.sync.all.pred", step::vote, true, 2, 'a');
    add("vote.sync.uni.pred", step::vote, true, 2, 'u');
    add("redux.sync.add.u32", step::redux, true, 2, '+');
    add("redux.sync.add.s32", step::redux, true, 2, '+');
    add("redux.sync.min.u32", step::redux, true, 2, '<');
    add("redux.sync.max.u32", step::redux, true, 2, '>');
    add("redux.sync.and.b32", step::redux, true, 2, '&');
    add("redux.sync.or.b32", step::redux, true, 2, '|');
    add("redux.sync.xor.b32", step::redux, true, 2, '^');
    for (std::string const name : {"bar", "barrier", "bar.cta", "barrier.cta"}) {
      add(name + ".sync", step::block_barrier, false, 1);  // and optionally a number of threads
      add(name + ".red.or.pred", step::block_barrier_reduce, true, 2, 'o');
      add(name + ".red.and.pred", step::block_barrier_reduce, true, 2, 'a');
      add(name + ".red.popc.u32", step::block_barrier_reduce, true, 2, '+');
    }
  }
};

}  // namespace

operation const* find_operation(std::string const& mnemonic) {
  static instruction_set const all;
  return all.find(mnemonic);
}

}  // namespace hcomp::ptx
