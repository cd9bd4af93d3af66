/// @file
/// Translates PTX text to kernels: statements, declarations, operands.

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <support/ptx/program.hpp>
#include <unordered_map>
#include <utility>
#include <vector>

namespace hcomp::ptx {
namespace {

operation const special_operation{.what = step::special, .arguments = 1};
operation const exit_operation{.what = step::exit, .has_result = false};
operation const copy_operation{.what = step::copy, .has_result = false, .arguments = 3};

bool is_space(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }

std::string trimmed(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return std::string(text);
}

/// Splits at commas outside of brackets.
std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> parts;
  int depth = 0;
  std::size_t first = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    char const c = i < text.size() ? text[i] : ',';
    if (c == '{' || c == '[' || c == '(') ++depth;
    if (c == '}' || c == ']' || c == ')') --depth;
    if (c == ',' && depth == 0) {
      if (auto part = trimmed(text.substr(first, i - first)); !part.empty())
        parts.push_back(std::move(part));
      first = i + 1;
    }
  }
  return parts;
}

/// Integers, and floats as their bits: 0f3F800000, 0d3FF0000000000000.
std::optional<std::uint64_t> number(std::string const& text) {
  char const* first = text.c_str();
  char* end = nullptr;
  bool const is_float = text.size() > 2 && text[0] == '0' && std::strchr("fFdD", text[1]);
  std::uint64_t value;
  if (is_float)
    value = std::strtoull(first + 2, &end, 16);
  else if (text[0] == '-')
    value = static_cast<std::uint64_t>(std::strtoll(first, &end, 0));
  else
    value = std::strtoull(first, &end, 0);
  if (end && *end == 'U') ++end;
  if (end == first || *end != '\0') return std::nullopt;
  return value;
}

std::size_t bytes_of_type(std::string_view type) {  // .b8, .f64
  auto const digits = type.find_first_of("0123456789");
  return digits == std::string_view::npos ? 0 : std::strtoul(type.data() + digits, nullptr, 10) / 8;
}

struct statement {
  std::string text;
  int line;
};

/// Splits the text: statements without their semicolons, labels with their colons, braces.
class reader {
 public:
  explicit reader(std::string_view text) : text_(without_comments(text)) {}

  bool is_at_body() {
    while (at_ < text_.size() && is_space(text_[at_])) step();
    return at_ < text_.size() && text_[at_] == '{';
  }

  /// The next statement, or an empty one at the end.
  statement next() {
    while (at_ < text_.size() && is_space(text_[at_])) step();
    statement one{"", line_};
    if (at_ < text_.size() && (text_[at_] == '{' || text_[at_] == '}')) {
      one.text = text_[at_];
      step();
      return one;
    }
    bool const is_line = text_.compare(at_, 8, ".version") == 0 ||
                         text_.compare(at_, 7, ".target") == 0 ||
                         text_.compare(at_, 13, ".address_size") == 0 ||
                         text_.compare(at_, 5, ".file") == 0 || text_.compare(at_, 4, ".loc") == 0;
    for (int depth = 0; at_ < text_.size(); step()) {
      char const c = text_[at_];
      if (is_line ? c == '\n' : c == ';') {
        step();
        break;
      }
      // a brace that begins a body, unlike that of a vector or of a variable's values
      bool const begins_body = c == '{' && depth == 0 && is_head(one.text);
      if (begins_body) break;
      one.text += c;
      depth += (c == '(' || c == '{') - (c == ')' || c == '}');
      if (c == ':' && one.text[0] == '$') {
        step();
        break;
      }
    }
    one.text = trimmed(one.text);
    return one;
  }

 private:
  std::string text_;
  std::size_t at_ = 0;
  int line_ = 1;

  void step() { line_ += text_[at_++] == '\n'; }
  static bool is_head(std::string const& text) {
    return text.find(".entry") != std::string::npos || text.find(".func") != std::string::npos;
  }
  static std::string without_comments(std::string_view text) {
    std::string rest;
    rest.reserve(text.size());
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text.substr(i, 2) == "//") {
        i = std::min(text.find('\n', i), text.size());
        rest += '\n';
      } else if (text[i] != '\0') {
        rest += text[i];
      }
    }
    return rest;
  }
};

/// A declared variable.
struct declaration {
  std::string name;
  std::size_t align = 1, element = 0, count = 1;
  bool is_array = false;
  std::string values;

  explicit declaration(std::string const& text) {
    std::string head = text;
    if (auto const equals = text.find('='); equals != std::string::npos) {
      values = trimmed(std::string_view(text).substr(equals + 1));
      head = trimmed(std::string_view(text).substr(0, equals));
    }
    for (std::size_t at = 0; at < head.size();) {
      auto const end = std::min(head.find_first_of(" \t\n", at), head.size());
      std::string const word = head.substr(at, end - at);
      at = std::min(head.find_first_not_of(" \t\n", end), head.size());
      if (word == ".align")
        align = std::strtoul(head.c_str() + at, nullptr, 10);
      else if (word.starts_with(".") && bytes_of_type(word) > 0)
        element = bytes_of_type(word);
      else
        name = word;
    }
    if (auto const bracket = name.find('['); bracket != std::string::npos) {
      count = std::strtoul(name.c_str() + bracket + 1, nullptr, 10);  // [] is 0
      name.resize(bracket);
      is_array = true;
    }
    align = std::max(align, element);
  }
  std::size_t bytes() const { return element * count; }
};

std::size_t rounded_up(std::size_t value, std::size_t to) { return (value + to - 1) / to * to; }

class parser {
 public:
  explicit parser(std::string_view text) : reader_(text) {}

  program parse() {
    for (statement s = reader_.next(); !s.text.empty(); s = reader_.next()) {
      line_ = s.line;
      bool const is_kernel = s.text.find(".entry") != std::string::npos;
      if (is_kernel || s.text.find(".func") != std::string::npos)
        read_function(s, is_kernel);
      else if (s.text.find(".shared") != std::string::npos)
        declare_shared(s.text);
      else if (s.text.starts_with(".global") || s.text.starts_with(".const") ||
               s.text.starts_with(".visible") || s.text.starts_with(".weak"))
        declare_global(s.text);
      else if (s.text[0] != '.')
        fail("statement outside of functions: " + s.text);
    }
    for (auto const& one : kernels_) parse_kernel(one);
    for (auto& one : program_.kernels) {
      one.shared_bytes = rounded_up(shared_bytes_, 16);
      auto const begin = [&](std::uint64_t value) {  // of dynamic shared memory, which is known now
        return value - dynamic_shared < most_shared ? value - dynamic_shared + one.shared_bytes
                                                    : value;
      };
      for (auto& n : one.code)
        n.offset = static_cast<std::int64_t>(begin(static_cast<std::uint64_t>(n.offset)));
      for (auto& value : one.constants) value = begin(value);
      program_.by_name[one.name] = &one;
    }
    return std::move(program_);
  }

 private:
  /// Placeholder for the address of dynamic shared memory until all static variables are known: a
  /// number that no program uses.
  static constexpr std::uint64_t dynamic_shared = 0xd7a2'9c41'58b0'0000, most_shared = 1 << 20;

  /// A kernel, or a function that kernels call.
  struct source {
    std::string name, result;
    std::vector<std::string> parameters;  ///< declarations
    unsigned max_threads = 0;
    std::vector<statement> body;
    bool is_kernel;
  };
  struct symbol {
    std::uint64_t value;
    bool is_local = false;  ///< in local memory, like arguments and results of calls
    std::size_t bytes = 0;
  };

  reader reader_;
  program program_;
  std::vector<source> kernels_;
  std::unordered_map<std::string, source> functions_;
  std::unordered_map<std::string, symbol> module_symbols_;
  std::size_t shared_bytes_ = 0;
  int line_ = 0;

  // of the kernel
  kernel* kernel_ = nullptr;
  std::unordered_map<std::string, place> registers_;
  std::unordered_map<std::uint64_t, place> constants_;
  struct linked {
    int begin;
    std::string result;
    std::unordered_map<std::string, symbol> symbols;
  };
  std::unordered_map<std::string, linked> linked_;  ///< the functions that it calls
  std::vector<std::pair<std::size_t, std::string>> calls_;

  // of the kernel, or of a function that it calls
  source const* source_ = nullptr;
  std::unordered_map<std::string, symbol> symbols_;
  std::vector<std::unordered_map<std::string, std::string>> scopes_;  ///< registers declared inside
                                                                      ///< braces
  std::unordered_map<std::string, int> labels_;
  std::vector<std::pair<std::size_t, std::string>> branches_;
  std::uint32_t unused_bytes_ = 0;

  [[noreturn]] void fail(std::string const& what) const {
    throw parse_error("PTX line " + std::to_string(line_) + ": " + what);
  }

  void declare_shared(std::string const& text) {
    declaration const one(text);
    if (text.starts_with(".extern")) {
      module_symbols_[one.name] = {dynamic_shared};
      return;
    }
    shared_bytes_ = rounded_up(shared_bytes_, one.align);
    module_symbols_[one.name] = {shared_bytes_};
    shared_bytes_ += one.bytes();
  }
  void declare_global(std::string const& text) {
    declaration const one(text);
    auto& variable = program_.globals.emplace_back();
    variable.name = one.name;
    variable.size = one.bytes();
    variable.bytes.resize(variable.size + 16);
    auto const address = reinterpret_cast<std::uintptr_t>(variable.bytes.data());
    variable.begin = rounded_up(address, 16);
    module_symbols_[one.name] = {variable.begin};
    std::string values = one.values;
    if (values.starts_with("{")) values = values.substr(1, values.rfind('}') - 1);
    auto* to = variable.bytes.data() + (variable.begin - address);
    for (auto const& value : split(values)) {
      auto const bits = number(value);
      if (!bits) fail("value '" + value + "' of " + one.name);
      std::memcpy(to, &*bits, one.element);
      to += one.element;
    }
  }

  /// [.visible] .entry name(parameters) .maxntid 128, 1, 1 or .func (result) name(parameters), and
  /// its body, unless it is only a declaration.
  void read_function(statement const& head, bool is_kernel) {
    source one;
    one.is_kernel = is_kernel;
    std::string_view rest = head.text;
    auto const parentheses = [&] {
      auto const open = rest.find('('), close = rest.find(')', open);
      if (open == std::string_view::npos) return std::vector<std::string>{};
      auto found = split(rest.substr(open + 1, close - open - 1));
      rest.remove_prefix(close + 1);
      return found;
    };
    rest.remove_prefix(is_kernel ? rest.find(".entry") + 6 : rest.find(".func") + 5);
    if (trimmed(rest).starts_with("(")) one.result = parentheses().at(0);
    std::string const begin = trimmed(rest);
    one.name = begin.substr(0, begin.find_first_of(" \t\n("));
    one.parameters = parentheses();
    if (auto const at = rest.find(".maxntid"); at != std::string_view::npos)
      one.max_threads = static_cast<unsigned>(std::strtoul(rest.data() + at + 8, nullptr, 10));
    if (!reader_.is_at_body()) return;
    int depth = 0;
    do {
      one.body.push_back(reader_.next());
      auto const& text = one.body.back().text;
      if (text.empty()) fail(one.name + " does not end");
      depth += (text == "{") - (text == "}");
    } while (depth > 0);
    if (is_kernel)
      kernels_.push_back(std::move(one));
    else
      functions_[one.name] = std::move(one);
  }

  void parse_kernel(source const& one) {
    kernel_ = &program_.kernels.emplace_back();
    kernel_->name = one.name;
    kernel_->max_threads = one.max_threads;
    registers_.clear();
    constants_.clear();
    linked_.clear();
    calls_.clear();
    symbols_ = module_symbols_;
    for (auto const& text : one.parameters) {
      declaration const parameter(text);
      std::size_t const at = rounded_up(kernel_->parameter_bytes, parameter.align);
      kernel_->parameters.push_back({at, parameter.bytes()});
      kernel_->parameter_bytes = at + parameter.bytes();
      symbols_[parameter.name] = {at};
    }
    parse_body(one);
    for (std::size_t i = 0; i < calls_.size(); ++i) {
      auto const [at, name] = calls_[i];
      auto& function = linked_.at(name);
      if (function.begin < 0) {
        function.begin = static_cast<int>(kernel_->code.size());
        symbols_ = function.symbols;
        parse_body(functions_.at(name));
      }
      kernel_->code[at].target = function.begin;
    }
  }

  void parse_body(source const& one) {
    source_ = &one;
    scopes_.clear();
    labels_.clear();
    branches_.clear();
    for (auto const& s : one.body) {
      line_ = s.line;
      if (s.text == "{")
        scopes_.emplace_back();
      else if (s.text == "}")
        scopes_.pop_back();
      else if (s.text.back() == ':')
        labels_[s.text.substr(0, s.text.size() - 1)] = static_cast<int>(kernel_->code.size());
      else if (s.text[0] == '.')
        declare(s.text);
      else
        parse_instruction(s.text);
    }
    add({.op = one.is_kernel ? &exit_operation : find_operation("ret")}, "end of " + one.name);
    for (auto const& [at, label] : branches_) {
      auto const found = labels_.find(label);
      if (found == labels_.end()) fail("no label " + label);
      kernel_->code[at].target = found->second;
    }
  }
  void add(instruction n, std::string const& text) {
    n.line = line_;
    kernel_->code.push_back(n);
    kernel_->texts.push_back(text);
  }

  symbol in_local_memory(declaration const& one) {
    std::size_t const at = rounded_up(kernel_->local_bytes, std::max<std::size_t>(one.align, 16));
    kernel_->local_bytes = at + one.bytes();
    return {at, true, one.bytes()};
  }
  void declare(std::string const& text) {
    if (text.starts_with(".local") || text.starts_with(".param")) {
      declaration const one(text);
      auto const before = symbols_.find(one.name);  // of another call
      if (before == symbols_.end() || before->second.bytes < one.bytes())
        symbols_[one.name] = in_local_memory(one);
    } else if (text.starts_with(".shared")) {
      declare_shared(text);
      symbols_.insert(module_symbols_.begin(), module_symbols_.end());
    } else if (text.starts_with(".reg")) {
      if (scopes_.size() < 2) return;  // names of the whole function need no declaration
      for (auto const& name : split(std::string_view(text).substr(text.find_first_of(" \t", 5))))
        scopes_.back()[name] = name + '#' + std::to_string(registers_.size()) + '#' +
                               std::to_string(kernel_->code.size());
    } else if (auto const mask = text.find("used_bytes_mask"); mask != std::string::npos) {
      unused_bytes_ =
          ~static_cast<std::uint32_t>(std::strtoul(text.c_str() + mask + 15, nullptr, 0));
    } else if (!text.starts_with(".pragma") && !text.starts_with(".loc")) {
      fail("directive " + text);
    }
  }

  /// (result), name, (arguments)
  void parse_call(instruction n, std::vector<std::string> parts, std::string const& text) {
    auto const unwrapped = [](std::string const& part) {
      return split(std::string_view(part).substr(1, part.size() - 2));
    };
    std::string result;
    if (!parts.empty() && parts[0][0] == '(') {
      result = unwrapped(parts[0]).at(0);
      parts.erase(parts.begin());
    }
    if (parts.empty() || n.has_guard) fail("call " + text);
    auto const function = functions_.find(parts[0]);
    if (function == functions_.end()) fail("no function " + parts[0]);
    source const& called = function->second;
    if (source_ == &called) fail("a function calls itself: " + text);
    auto [place, is_new] = linked_.try_emplace(called.name, linked{-1, "", module_symbols_});
    linked& callee = place->second;
    if (is_new) {
      for (auto const& one : called.parameters)
        callee.symbols[declaration(one).name] = in_local_memory(declaration(one));
      if (!called.result.empty()) {
        callee.result = declaration(called.result).name;
        callee.symbols[callee.result] = in_local_memory(declaration(called.result));
      }
    }
    auto const arguments = parts.size() > 1 ? unwrapped(parts[1]) : std::vector<std::string>{};
    if (arguments.size() != called.parameters.size()) fail("arguments of " + text);
    for (std::size_t i = 0; i < arguments.size(); ++i)
      add_copy(callee.symbols.at(declaration(called.parameters[i]).name), symbols_.at(arguments[i]),
               text);
    calls_.emplace_back(kernel_->code.size(), called.name);
    add(n, text);
    if (!result.empty()) add_copy(symbols_.at(result), callee.symbols.at(callee.result), text);
  }
  void add_copy(symbol const& to, symbol const& from, std::string const& text) {
    instruction n;
    n.op = &copy_operation;
    n.arguments = {static_cast<place>(to.value), static_cast<place>(from.value),
                   static_cast<place>(std::min(to.bytes, from.bytes))};
    add(n, text);
  }

  place register_of(std::string name) {
    for (std::size_t i = scopes_.size(); i-- > 0;)
      if (auto const found = scopes_[i].find(name); found != scopes_[i].end()) {
        name = found->second;
        break;
      }
    if (!source_->is_kernel) name += source_->name;
    auto const [found, is_new] =
        registers_.try_emplace(name, static_cast<place>(kernel_->register_count));
    kernel_->register_count += is_new;
    return found->second;
  }
  place constant(std::uint64_t value) {
    auto const [found, is_new] =
        constants_.try_emplace(value, ~static_cast<place>(kernel_->constants.size()));
    if (is_new) kernel_->constants.push_back(value);
    return found->second;
  }
  static std::optional<special_register> special(std::string const& name) {
    using enum special_register;
    static std::unordered_map<std::string, special_register> const all{
        {"%tid.x", tid},
        {"%tid.y", zero},
        {"%tid.z", zero},
        {"%ntid.x", ntid},
        {"%ntid.y", one},
        {"%ntid.z", one},
        {"%ctaid.x", ctaid},
        {"%ctaid.y", zero},
        {"%ctaid.z", zero},
        {"%nctaid.x", nctaid},
        {"%nctaid.y", one},
        {"%nctaid.z", one},
        {"%laneid", laneid},
        {"%warpid", warpid},
        {"%lanemask_lt", lanemask_lt},
        {"%lanemask_le", lanemask_le},
        {"%lanemask_eq", lanemask_eq},
        {"%lanemask_ge", lanemask_ge},
        {"%lanemask_gt", lanemask_gt},
        {"%clock", clock},
        {"%clock64", clock}};
    auto const found = all.find(name);
    if (found == all.end()) return std::nullopt;
    return found->second;
  }
  place operand(std::string const& text) {
    if (text[0] == '%') {
      if (special(text)) fail("special register " + text + " where only registers are expected");
      return register_of(text);
    }
    if (auto const value = number(text)) return constant(*value);
    auto const found = symbols_.find(text);
    if (found == symbols_.end()) fail("operand '" + text + "'");
    return constant(found->second.value);
  }

  /// [register + offset], [symbol + offset] or [number].
  void address(instruction& n, std::string const& text) {
    std::string const inside = trimmed(std::string_view(text).substr(1, text.size() - 2));
    auto const plus = inside.find('+');
    std::string const base = trimmed(std::string_view(inside).substr(0, plus));
    if (plus != std::string::npos) {
      auto const offset = number(trimmed(std::string_view(inside).substr(plus + 1)));
      if (!offset) fail("address " + text);
      n.offset = static_cast<std::int64_t>(*offset);
    }
    n.has_address = true;
    if (base[0] == '%') {
      n.has_base = true;
      n.base = register_of(base);
    } else if (auto const value = number(base)) {
      n.offset += static_cast<std::int64_t>(*value);
    } else if (auto const found = symbols_.find(base); found != symbols_.end()) {
      n.offset += static_cast<std::int64_t>(found->second.value);
      if (found->second.is_local) n.where = space::local;
    } else {
      fail("symbol " + base);
    }
  }

  void parse_instruction(std::string const& text) {
    instruction n;
    std::string rest = text;
    if (rest[0] == '@') {
      auto const end = rest.find_first_of(" \t");
      std::size_t const begin = rest[1] == '!' ? 2 : 1;
      n.has_guard = true;
      n.guard_is_negated = begin == 2;
      n.guard = register_of(rest.substr(begin, end - begin));
      rest = trimmed(std::string_view(rest).substr(end));
    }
    auto const end = std::min(rest.find_first_of(" \t\n"), rest.size());
    std::string const mnemonic = rest.substr(0, end);
    auto const parts = split(std::string_view(rest).substr(end));
    n.op = find_operation(mnemonic);
    if (!n.op) fail("unknown instruction: " + text);
    n.where = n.op->where;
    if (n.op->what == step::call) return parse_call(n, parts, text);
    if (n.op->what == step::return_ && source_->is_kernel) n.op = &exit_operation;
    if (n.op->what == step::branch) {
      if (parts.size() != 1) fail(text);
      branches_.emplace_back(kernel_->code.size(), parts[0]);
    } else if (parts.size() == 2 && special(parts[1])) {
      if (mnemonic != "mov.u32" && mnemonic != "mov.u64") fail("special register in " + text);
      n.op = &special_operation;
      n.results[n.result_count++] = register_of(parts[0]);
      n.arguments[n.argument_count++] = static_cast<place>(*special(parts[1]));
    } else {
      operands(n, parts, text);
    }
    if (n.where == space::param && n.op->what == step::store) fail("writes a parameter: " + text);
    add(n, text);
  }

  void operands(instruction& n, std::vector<std::string> const& parts, std::string const& text) {
    bool is_result = n.op->has_result;
    for (auto const& part : parts) {
      if (part[0] == '[') {
        address(n, part);
        is_result = false;
        continue;
      }
      bool const is_vector = part[0] == '{';
      std::vector<std::string> names{part};
      if (is_vector) {
        names = split(std::string_view(part).substr(1, part.rfind('}') - 1));
      } else if (auto const bar = part.find('|'); bar != std::string::npos) {
        names = {trimmed(std::string_view(part).substr(0, bar)),
                 trimmed(std::string_view(part).substr(bar + 1))};
      }
      auto& to = is_result ? n.results : n.arguments;
      auto& count = is_result ? n.result_count : n.argument_count;
      for (auto const& name : names) {
        if (static_cast<std::size_t>(count) == to.size()) fail("too many operands: " + text);
        to[static_cast<std::size_t>(count++)] =
            name == "_" ? register_of("%unused") : operand(name);
      }
      is_result = false;
    }
    bool const has_memory = n.op->access != nullptr;
    bool const is_barrier =  // may name a number of threads
        n.op->what == step::block_barrier || n.op->what == step::block_barrier_reduce;
    bool const packs = text.find("mov.b") != std::string::npos;
    bool const fits = n.argument_count == n.op->arguments ||
                      (n.argument_count > n.op->arguments && packs) ||
                      (n.argument_count == n.op->arguments + 1 && is_barrier);
    if (!fits || has_memory != n.has_address || n.op->has_result != (n.result_count > 0))
      fail("operands: " + text);
    if (has_memory) n.unused_bytes = std::exchange(unused_bytes_, 0);
  }
};

}  // namespace

program parse(std::string_view text) { return parser(text).parse(); }

}  // namespace hcomp::ptx
