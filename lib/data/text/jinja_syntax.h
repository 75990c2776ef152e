// The syntax tree of a Jinja template (data/text/jinja.h).
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fp::jinja {

using Value = nlohmann::json;  // an undefined value is discarded JSON

inline Value undefined() { return Value(Value::value_t::discarded); }

struct NamedArgument;

struct Expression {
  // literal: value | name: text | list, dict (keys and values in turn) : operands | unary: text, operands[0] | binary:
  // text, two operands | choice: value, condition, other | member: operands[0].text | index: operands[0][operands[1]] |
  // slice: operands[0][1:2:3], each of which may be a literal none | call: operands[0] is the function or method, then
  // the arguments | filter, test: text, operands[0] and the arguments
  enum class Kind { literal, name, list, dict, unary, binary, choice, member, index, slice, call, filter, test };
  Kind kind = Kind::literal;
  int line = 0;
  std::string text;
  Value value;
  std::vector<Expression> operands;
  std::vector<NamedArgument> named;  // of a call
};

struct NamedArgument {
  std::string name;
  Expression value;
};

struct Statement {
  // text: text | output: expression | loop: name in expression, if condition; body, other | choice: condition; body,
  // other | set: name (and member) = expression
  enum class Kind { text, output, loop, choice, set };
  Kind kind = Kind::text;
  int line = 0;
  std::string text, member;
  std::vector<std::string> names;
  Expression expression, condition;
  bool has_condition = false;
  std::vector<Statement> body, other;
};

// Parses a template. Throws DataError as JinjaTemplate's constructor does.
std::vector<Statement> parse(std::string_view text, const std::string& where);

// Evaluates a template. Throws as JinjaTemplate::render() does.
std::string render(const std::vector<Statement>& program, const Value& variables, const std::string& where);

}  // namespace fp::jinja
