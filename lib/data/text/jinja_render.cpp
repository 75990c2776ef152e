#include <algorithm>
#include <map>
#include <utility>

#include "base/shown.h"
#include "data/text/jinja.h"
#include "data/text/jinja_syntax.h"
#include "data/text/jinja_values.h"

namespace fp::jinja {
namespace {

using Kind = Expression::Kind;

constexpr int64_t kMaxSteps = 200'000;

class Renderer {
 public:
  Renderer(const Value& variables, const std::string& where) : where_(where), scopes_(1) {
    for (const auto& [name, value] : variables.items()) scopes_[0][name] = value;
  }

  std::string run(const std::vector<Statement>& program) {
    all(program);
    return std::move(output_);
  }

 private:
  using Scope = std::map<std::string, Value>;

  [[noreturn]] void fail(const std::string& what) const {
    throw DataError(fmt::format("{}: chat_template, line {}: {}", where_, line_, what));
  }
  void step(int line) {
    line_ = line;
    if (++steps_ > kMaxSteps) fail("the template takes too many steps");
  }
  Value bounded(Value value) const {
    if (weight(value) > kMaxWeight) fail("a value is too large");
    return value;
  }

  Value* find(const std::string& name) {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope)
      if (const auto it = scope->find(name); it != scope->end()) return &it->second;
    return nullptr;
  }

  void all(const std::vector<Statement>& statements) {
    for (const Statement& s : statements) one(s);
  }
  void one(const Statement& s) {
    switch (s.kind) {
      case Statement::Kind::text:
        return write(s.text);
      case Statement::Kind::output:
        step(s.line);
        return write(text(value(s.expression)));
      case Statement::Kind::choice:
        step(s.line);
        return all(is_true(value(s.condition)) ? s.body : s.other);
      case Statement::Kind::loop:
        return loop(s);
      case Statement::Kind::set:
        return set(s);
    }
  }
  void write(const std::string& more) {
    output_ += more;
    if (output_.size() > kMaxWeight) fail("the text is too long");
  }
  void set(const Statement& s) {
    step(s.line);
    Value result = value(s.expression);
    if (s.member.empty()) {
      scopes_.back()[s.names[0]] = std::move(result);
      return;
    }
    Value* object = find(s.names[0]);
    if (!object || !object->is_object()) fail(fmt::format("'{}' is no namespace", shown(s.names[0])));
    (*object)[s.member] = std::move(result);
    if (weight(*object) > kMaxWeight) fail("a value is too large");
  }

  void bind(const Statement& s, const Value& item) {
    if (s.names.size() == 1) {
      scopes_.back()[s.names[0]] = item;
      return;
    }
    if (!item.is_array() || item.size() != 2) fail("the items of this loop are no pairs");
    for (size_t i = 0; i < 2; ++i) scopes_.back()[s.names[i]] = item[i];
  }
  void loop(const Statement& s) {
    step(s.line);
    const Value list = value(s.expression);
    if (!list.is_array() && !list.is_object()) fail(fmt::format("a loop over {}", kind_of(list)));
    std::vector<Value> items;
    scopes_.emplace_back();
    for (const auto& [key, element] : list.items()) {
      const Value item = list.is_array() ? element : Value(key);
      step(s.line);
      bind(s, item);
      if (!s.has_condition || is_true(value(s.condition))) items.push_back(item);
    }
    for (size_t i = 0; i < items.size(); ++i) {
      step(s.line);
      scopes_.back() = Scope();
      bind(s, items[i]);
      scopes_.back()["loop"] = {{"first", i == 0}, {"last", i + 1 == items.size()}, {"index", i + 1},
                                {"index0", i},     {"length", items.size()},        {"revindex", items.size() - i}};
      all(s.body);
    }
    scopes_.pop_back();
    if (items.empty()) all(s.other);
  }

  std::string text(const Value& v) const {
    if (v.is_string()) return v.get<std::string>();
    if (v.is_discarded()) return "";
    if (v.is_null()) return "None";
    if (v.is_boolean()) return v.get<bool>() ? "True" : "False";
    if (v.is_number_integer()) return v.dump();
    fail(fmt::format("{} as text", kind_of(v)));
  }

  Value value(const Expression& e) {
    step(e.line);
    switch (e.kind) {
      case Kind::literal:
        return e.value;
      case Kind::name: {
        const Value* found = find(e.text);
        if (!found) return undefined();
        steps_ += static_cast<int64_t>(weight(*found) / 64);  // what is copied counts as well
        return *found;
      }
      case Kind::list:
      case Kind::dict:
        return bounded(collection(e));
      case Kind::unary:
        return unary(e);
      case Kind::binary:
        return bounded(binary(e));
      case Kind::choice:
        return value(e.operands[is_true(value(e.operands[1])) ? 0 : 2]);
      case Kind::member:
        return member(value(e.operands[0]), Value(e.text));
      case Kind::index:
        return member(value(e.operands[0]), value(e.operands[1]));
      case Kind::slice:
        return slice(e);
      case Kind::call:
        return bounded(call(e));
      case Kind::filter:
        return bounded(reported(apply_filter(e.text, value(e.operands[0]), rest_of(e, 1), named(e)),
                                fmt::format("the filter '{}'", shown(e.text))));
      case Kind::test:
        return reported(apply_test(e.text, value(e.operands[0])), fmt::format("the test '{}'", shown(e.text)));
    }
    return undefined();
  }

  Value reported(std::optional<Value> result, const std::string& what) const {
    if (!result) fail(what + " with these arguments is outside the subset of Jinja that is read");
    return std::move(*result);
  }
  std::vector<Value> rest_of(const Expression& e, size_t first) {
    std::vector<Value> values;
    for (size_t i = first; i < e.operands.size(); ++i) values.push_back(value(e.operands[i]));
    return values;
  }
  Value named(const Expression& e) {
    Value values = Value::object();
    for (const auto& [name, expression] : e.named) values[name] = value(expression);
    return values;
  }
  Value collection(const Expression& e) {
    Value result = e.kind == Kind::list ? Value::array() : Value::object();
    for (size_t i = 0; i < e.operands.size(); i += e.kind == Kind::list ? 1 : 2)
      if (e.kind == Kind::list)
        result.push_back(value(e.operands[i]));
      else
        result[text(value(e.operands[i]))] = value(e.operands[i + 1]);
    return result;
  }

  Value unary(const Expression& e) {
    const Value operand = value(e.operands[0]);
    if (e.text == "not") return !is_true(operand);
    if (!operand.is_number_integer()) fail(fmt::format("'-' of {}", kind_of(operand)));
    return -operand.get<int64_t>();
  }
  Value binary(const Expression& e) {
    Value left = value(e.operands[0]);
    if (e.text == "and") return is_true(left) ? value(e.operands[1]) : left;
    if (e.text == "or") return is_true(left) ? left : value(e.operands[1]);
    const Value right = value(e.operands[1]);
    if (e.text == "~") return text(left) + text(right);
    if (e.text == "==") return equal(left, right);
    if (e.text == "!=") return !equal(left, right);
    return reported(apply_binary(e.text, left, right),
                    fmt::format("'{}' of {} and {}", shown(e.text), kind_of(left), kind_of(right)));
  }

  Value member(const Value& object, const Value& key) const {
    if (object.is_discarded())
      fail(fmt::format("'{}' of an undefined value", key.is_string() ? shown(text(key)) : "[]"));
    if (object.is_object() && key.is_string()) {
      const auto it = object.find(key.get<std::string>());
      return it != object.end() ? *it : undefined();
    }
    if (object.is_array() && key.is_number_integer()) {
      const auto size = static_cast<int64_t>(object.size());
      const int64_t i = key.get<int64_t>() < 0 ? key.get<int64_t>() + size : key.get<int64_t>();
      return i >= 0 && i < size ? object[static_cast<size_t>(i)] : undefined();
    }
    if (key.is_string()) return undefined();
    fail(fmt::format("an index of {}", kind_of(object)));
  }
  Value slice(const Expression& e) {
    const Value list = value(e.operands[0]);
    const std::vector<Value> bounds = rest_of(e, 1);
    const auto legal = [](const Value& v) { return v.is_null() || v.is_number_integer(); };
    if (!list.is_array() || !std::all_of(bounds.begin(), bounds.end(), legal))
      fail(fmt::format("a slice of {}", kind_of(list)));
    const auto size = static_cast<int64_t>(list.size());
    const int64_t stride = bounds[2].is_null() ? 1 : bounds[2].get<int64_t>();
    if (stride != 1 && stride != -1) fail("a slice with a step other than 1 and -1");
    const auto clamp = [&](const Value& v, int64_t absent, int64_t least, int64_t most) {
      if (v.is_null()) return absent;
      const int64_t i = std::clamp(v.get<int64_t>(), -size - 1, size);
      return std::clamp(i < 0 ? i + size : i, least, most);
    };
    Value result = Value::array();
    if (stride > 0)
      for (int64_t i = clamp(bounds[0], 0, 0, size), end = clamp(bounds[1], size, 0, size); i < end; ++i)
        result.push_back(list[static_cast<size_t>(i)]);
    else
      for (int64_t i = clamp(bounds[0], size - 1, -1, size - 1), end = clamp(bounds[1], -1, -1, size - 1); i > end; --i)
        result.push_back(list[static_cast<size_t>(i)]);
    return result;
  }

  Value call(const Expression& e) {
    const Expression& callee = e.operands[0];
    const std::vector<Value> arguments = rest_of(e, 1);
    if (callee.kind == Kind::member)
      return reported(apply_method(callee.text, value(callee.operands[0]), arguments),
                      fmt::format("the method '{}'", shown(callee.text)));
    if (callee.kind == Kind::name && callee.text == "raise_exception")
      throw JinjaRefusal(fmt::format("{}: chat_template refuses this conversation: {}", where_,
                                     arguments.empty() ? "" : shown(text(arguments[0]), 200)));
    if (callee.kind == Kind::name && callee.text == "namespace" && arguments.empty()) return named(e);
    if (callee.kind == Kind::name && callee.text == "range")
      return reported(numbers(arguments), "the function 'range'");
    fail(fmt::format("the function '{}' is outside the subset of Jinja that is read", shown(callee.text)));
  }

  const std::string& where_;
  std::vector<Scope> scopes_;
  std::string output_;
  int line_ = 1;
  int64_t steps_ = 0;
};

}  // namespace

std::string render(const std::vector<Statement>& program, const Value& variables, const std::string& where) {
  return Renderer(variables, where).run(program);
}

}  // namespace fp::jinja

namespace fp {

struct JinjaTemplate::Program {
  std::string where;
  std::vector<jinja::Statement> statements;
};

JinjaTemplate::JinjaTemplate(std::string_view text, const std::string& where)
    : program_(std::make_unique<Program>(Program{where, jinja::parse(text, where)})) {}
JinjaTemplate::~JinjaTemplate() = default;
JinjaTemplate::JinjaTemplate(JinjaTemplate&&) noexcept = default;

std::string JinjaTemplate::render(const nlohmann::json& variables) const {
  return jinja::render(program_->statements, variables, program_->where);
}

}  // namespace fp
