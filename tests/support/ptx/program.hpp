#pragma once
/// @file
/// PTX in executable form: names are resolved, operands are indices of registers.

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <vector>

namespace hcomp::ptx {

struct instruction;
struct memory_access;

/// The text is not PTX that the machine supports.
struct parse_error : std::runtime_error {
  using runtime_error::runtime_error;
};

/// Location of an operand: register `place` of the thread, or constant `~place` of the function.
using place = std::int32_t;

/// The registers of a thread and the constants of its function: the operands of most instructions.
struct registers {
  std::uint64_t* mine;
  std::uint64_t const* constants;

  std::uint64_t raw(place p) const { return p >= 0 ? mine[p] : constants[~p]; }

  /// A register holds a value in its lowest bits. The bits above are ignored.
  template <class T> T get(place p) const {
    std::uint64_t const bits = raw(p);
    if constexpr (std::is_same_v<T, bool>)
      return (bits & 1) != 0;
    else if constexpr (std::is_same_v<T, float>)
      return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    else if constexpr (std::is_same_v<T, double>)
      return std::bit_cast<double>(bits);
    else
      return static_cast<T>(bits);
  }
  /// Integers are extended to 64 bits, as by loads and conversions to wider registers.
  template <class T> void put(place p, T value) const {
    if constexpr (std::is_same_v<T, float>)
      mine[p] = std::bit_cast<std::uint32_t>(value);
    else if constexpr (std::is_same_v<T, double>)
      mine[p] = std::bit_cast<std::uint64_t>(value);
    else if constexpr (std::is_signed_v<T>)
      mine[p] = static_cast<std::uint64_t>(static_cast<std::int64_t>(value));
    else
      mine[p] = value;
  }
};

/// The machine's action for an instruction.
enum class step : std::uint8_t {
  compute,   ///< `execute` on registers alone
  load,      ///< `access` at an address, then registers
  store,     ///< the same in the other direction
  atomic,    ///< load and store
  prefetch,  ///< `access` does nothing, but the memory must exist
  branch,    ///< to `target`
  call,      ///< to `target`, and back by `return_`
  return_,
  copy,          ///< copies bytes of local memory: an argument or a result of a call
  exit,          ///< the thread ends
  trap,          ///< the program ends
  special,       ///< reads a special register, which the first argument names
  shared_base,   ///< cvta.shared: an offset in a window becomes a generic address
  local_base,    ///< cvta.local
  remove_base,   ///< cvta.to.*: the reverse
  is_space,      ///< isspacep
  warp_barrier,  ///< bar.warp.sync; from here to match: all named lanes of the warp have to arrive
  shuffle,
  vote,
  redux,
  block_barrier,        ///< bar.sync; all threads of the block, or a given number
  block_barrier_reduce  ///< bar.red
};

/// State spaces. Generic addresses of global memory are the host's.
enum class space : std::uint8_t { generic, global, shared, local, param };

enum class special_register : std::uint8_t {
  tid,
  ntid,
  ctaid,
  nctaid,
  one,   ///< sizes of the second and third dimension
  zero,  ///< indices in them
  laneid,
  warpid,
  lanemask_lt,
  lanemask_le,
  lanemask_eq,
  lanemask_ge,
  lanemask_gt,
  clock
};

/// One entry of the instruction set.
struct operation {
  step what = step::compute;
  void (*execute)(registers, instruction const&) = nullptr;             ///< compute
  void (*access)(registers, instruction const&, std::byte*) = nullptr;  ///< load, store, atomic
  bool has_result = true;  ///< the first operand is written
  int arguments = 0;       ///< without addresses and results
  space where = space::generic;
  int bytes = 0;  ///< of memory
  int mode = 0;   ///< variant of a shuffle, vote or reduction
};

struct instruction {
  operation const* op = nullptr;
  place guard = 0;
  bool has_guard = false, guard_is_negated = false;
  std::array<place, 4> results{}, arguments{};
  std::int8_t result_count = 0, argument_count = 0;
  bool has_address = false, has_base = false;
  space where = space::generic;
  place base = 0;
  std::int64_t offset = 0;         ///< added to the base; symbols are numbers here
  std::uint32_t unused_bytes = 0;  ///< bits for bytes of a vector that are unused, by a pragma
  std::int32_t target = -1;
  std::int32_t line = 0;
  mutable void* last_allocation = nullptr;  ///< cache: most threads access the same one
};

struct parameter {
  std::size_t offset, bytes;
};

/// One kernel, followed by the functions that it calls. Each function has its own registers, so
/// recursion is impossible. Arguments and results are in local memory.
struct kernel {
  std::string name;
  std::vector<instruction> code;
  std::vector<std::string> texts;  ///< of the instructions
  std::vector<std::uint64_t> constants;
  std::vector<parameter> parameters;
  std::size_t parameter_bytes = 0, register_count = 0, local_bytes = 0;
  unsigned max_threads = 0;  ///< 0: the device's limit
  /// Static shared memory of the module. Dynamic memory follows it.
  std::size_t shared_bytes = 0;
};

struct program {
  std::deque<kernel> kernels;
  std::unordered_map<std::string, kernel*> by_name;
  struct variable {
    std::string name;
    std::vector<std::byte> bytes;  ///< 16 spare bytes for alignment
    std::size_t begin, size;
  };
  std::deque<variable> globals;
};

/// @throws parse_error  with the line
program parse(std::string_view text);

/// The operation called `mnemonic`, with all its suffixes; null if it does not exist.
operation const* find_operation(std::string const& mnemonic);

}  // namespace hcomp::ptx
