#include <algorithm>
#include <initializer_list>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/shown.h"
#include "data/text/jinja_syntax.h"
#include "data/text/jinja_tokens.h"

namespace fp::jinja {
namespace {

using Kind = Expression::Kind;

constexpr int kMaxNesting = 200;
constexpr size_t kMaxTemplate = size_t{1} << 20;

class Parser {
 public:
  Parser(std::vector<Piece> pieces, const std::string& where) : pieces_(std::move(pieces)), where_(where) {}

  std::vector<Statement> run() { return block({}); }

 private:
  [[noreturn]] void fail_at(int line, const std::string& what) const {
    throw DataError(
        fmt::format("{}: chat_template, line {}: {}, outside the subset of Jinja that is read", where_, line, what));
  }
  [[noreturn]] void fail(const std::string& what) const { fail_at(token().line, what); }

  const Token& token() const { return (*tokens_)[token_]; }
  bool is(std::string_view text) const {
    return (token().kind == Token::Kind::name || token().kind == Token::Kind::sign) && token().text == text;
  }
  bool take(std::string_view text) {
    if (!is(text)) return false;
    ++token_;
    return true;
  }
  void expect(std::string_view text) {
    if (!take(text)) fail(fmt::format("'{}' where '{}' is expected", shown(token().text), text));
  }
  std::string expect_name() {
    if (token().kind != Token::Kind::name) fail(fmt::format("'{}' where a name is expected", shown(token().text)));
    return (*tokens_)[token_++].text;
  }
  void expect_end() {
    if (token().kind != Token::Kind::end) fail(fmt::format("'{}'", shown(token().text)));
  }

  // Counts the nesting of statements and expressions, which recurse. A chain such as a + b + c nests to the left.
  class Nested {
   public:
    explicit Nested(Parser& parser) : parser_(parser) { add(); }
    ~Nested() { parser_.nesting_ -= levels_; }
    Nested(const Nested&) = delete;
    void add() {
      ++levels_;
      if (++parser_.nesting_ > kMaxNesting) parser_.fail_at(parser_.line_, "too much nesting");
    }

   private:
    Parser& parser_;
    int levels_ = 0;
  };

  // Reads statements up to one of `ends`, at which the tokens then are, behind its name.
  std::vector<Statement> block(const std::set<std::string>& ends) {
    const Nested nested(*this);
    std::vector<Statement> list;
    for (; piece_ < pieces_.size(); ++piece_) {
      const Piece& piece = pieces_[piece_];
      line_ = piece.line;
      if (piece.kind == Piece::Kind::text) {
        Statement text;
        text.text = piece.text;
        list.push_back(std::move(text));
        continue;
      }
      tokens_ = &piece.tokens;
      token_ = 0;
      if (piece.kind == Piece::Kind::output) {
        Statement output;
        output.kind = Statement::Kind::output;
        output.line = piece.line;
        output.expression = expression();
        expect_end();
        list.push_back(std::move(output));
        continue;
      }
      const std::string name = expect_name();
      if (ends.contains(name)) return list;
      if (name == "generation" || name == "endgeneration") continue;  // marks what is learned; the same text
      list.push_back(statement(name));
    }
    if (!ends.empty()) fail_at(line_, fmt::format("no {{% {} %}}", *ends.rbegin()));
    return list;
  }

  Statement statement(const std::string& name) {
    Statement s;
    s.line = line_;
    if (name == "if") return choice();
    if (name == "for") return loop();
    if (name != "set") fail(fmt::format("the statement '{}'", shown(name)));
    s.kind = Statement::Kind::set;
    s.names = {expect_name()};
    if (take(".")) s.member = expect_name();
    expect("=");
    s.expression = expression();
    expect_end();
    return s;
  }

  Statement choice() {
    const Nested nested(*this);
    Statement s;
    s.line = line_;
    s.kind = Statement::Kind::choice;
    s.condition = expression();
    expect_end();
    ++piece_;
    s.body = block({"elif", "else", "endif"});
    const std::string end = (*tokens_)[0].text;
    if (end == "elif") {
      s.other.push_back(choice());
    } else if (end == "else") {
      ++piece_;
      s.other = block({"endif"});
    }
    return s;
  }

  Statement loop() {
    Statement s;
    s.line = line_;
    s.kind = Statement::Kind::loop;
    s.names = {expect_name()};
    if (take(",")) s.names.push_back(expect_name());
    expect("in");
    s.expression = disjunction();
    if ((s.has_condition = take("if"))) s.condition = expression();
    expect_end();
    ++piece_;
    s.body = block({"else", "endfor"});
    if ((*tokens_)[0].text == "else") {
      ++piece_;
      s.other = block({"endfor"});
    }
    return s;
  }

  Expression make(Kind kind, std::string text, std::vector<Expression> operands) const {
    Expression e;
    e.kind = kind;
    e.line = token().line;
    e.text = std::move(text);
    e.operands = std::move(operands);
    return e;
  }
  Expression literal(Value value) const {
    Expression e = make(Kind::literal, "", {});
    e.value = std::move(value);
    return e;
  }

  Expression expression() {
    const Nested nested(*this);
    Expression value = disjunction();
    if (!take("if")) return value;
    Expression condition = disjunction();
    Expression other = take("else") ? expression() : literal(undefined());
    return make(Kind::choice, "", {std::move(value), std::move(condition), std::move(other)});
  }
  Expression disjunction() {
    Nested nested(*this);
    Expression left = conjunction();
    for (; take("or"); nested.add()) left = make(Kind::binary, "or", {std::move(left), conjunction()});
    return left;
  }
  Expression conjunction() {
    Nested nested(*this);
    Expression left = negation();
    for (; take("and"); nested.add()) left = make(Kind::binary, "and", {std::move(left), negation()});
    return left;
  }
  Expression negation() {
    const Nested nested(*this);
    if (take("not")) return make(Kind::unary, "not", {negation()});
    return comparison();
  }
  Expression comparison() {
    Nested nested(*this);
    Expression left = concatenation();
    for (;; nested.add()) {
      const std::string sign = token().text;
      if (is("not") && (*tokens_)[token_ + 1].kind == Token::Kind::name && (*tokens_)[token_ + 1].text == "in") {
        token_ += 2;
        left = make(Kind::unary, "not", {make(Kind::binary, "in", {std::move(left), concatenation()})});
      } else if (is("==") || is("!=") || is("<") || is(">") || is("<=") || is(">=") || is("in")) {
        ++token_;
        left = make(Kind::binary, sign, {std::move(left), concatenation()});
      } else if (take("is")) {
        const bool negated = take("not");
        const std::string name = expect_name();
        Expression test = make(Kind::test, name, {std::move(left)});
        left = negated ? make(Kind::unary, "not", {std::move(test)}) : std::move(test);
      } else {
        return left;
      }
    }
  }
  Expression concatenation() {
    return chain({"~"}, [this] { return sum(); });
  }
  Expression sum() {
    return chain({"+", "-"}, [this] { return product(); });
  }
  Expression product() {
    return chain({"*", "/", "//", "%"}, [this] { return unary(); });
  }
  template <class Operand>
  Expression chain(std::initializer_list<std::string_view> signs, const Operand& operand) {
    Nested nested(*this);
    Expression left = operand();
    for (;; nested.add()) {
      const std::string sign = token().text;
      if (!is(sign) || std::find(signs.begin(), signs.end(), sign) == signs.end()) return left;
      ++token_;
      left = make(Kind::binary, sign, {std::move(left), operand()});
    }
  }
  Expression unary() {
    const Nested nested(*this);
    if (take("-")) return make(Kind::unary, "-", {unary()});
    return postfix(primary());
  }

  Expression postfix(Expression e) {
    Nested nested(*this);
    for (;; nested.add()) {
      if (take(".")) {
        const std::string name = expect_name();
        e = make(Kind::member, name, {std::move(e)});
      } else if (take("[")) {
        e = subscript(std::move(e));
      } else if (take("(")) {
        Expression call = make(Kind::call, "", {std::move(e)});
        arguments(call);
        e = std::move(call);
      } else if (take("|")) {
        const std::string name = expect_name();
        Expression filter = make(Kind::filter, name, {std::move(e)});
        if (take("(")) arguments(filter);
        e = std::move(filter);
      } else {
        return e;
      }
    }
  }
  Expression subscript(Expression object) {
    std::vector<Expression> parts;
    size_t colons = 0;
    while (!is("]")) {
      if (take(":")) {
        if (parts.size() == colons) parts.push_back(literal(nullptr));
        ++colons;
      } else if (parts.size() == colons) {
        parts.push_back(expression());
      } else {
        fail(fmt::format("'{}' in an index", shown(token().text)));
      }
    }
    expect("]");
    if (colons == 0 && parts.size() == 1) return make(Kind::index, "", {std::move(object), std::move(parts[0])});
    if (colons == 0 || colons > 2) fail("an index with this many parts");
    Expression slice = make(Kind::slice, "", {std::move(object)});
    parts.resize(3, literal(nullptr));
    for (Expression& part : parts) slice.operands.push_back(std::move(part));
    return slice;
  }
  void arguments(Expression& call) {
    while (!take(")")) {
      if (token().kind == Token::Kind::name && (*tokens_)[token_ + 1].text == "=" &&
          (*tokens_)[token_ + 1].kind == Token::Kind::sign) {
        std::string name = expect_name();
        expect("=");
        call.named.push_back({std::move(name), expression()});
      } else {
        call.operands.push_back(expression());
      }
      if (!is(")")) expect(",");
    }
  }

  Expression primary() {
    const Token t = token();
    if (t.kind == Token::Kind::end) fail("an expression that ends early");
    ++token_;
    switch (t.kind) {
      case Token::Kind::text: {
        std::string text = t.text;
        while (token().kind == Token::Kind::text) text += (*tokens_)[token_++].text;
        return literal(text);
      }
      case Token::Kind::integer:
        return literal(std::stoll(t.text));
      case Token::Kind::number:
        return literal(std::stod(t.text));
      case Token::Kind::name:
        if (t.text == "true" || t.text == "True") return literal(true);
        if (t.text == "false" || t.text == "False") return literal(false);
        if (t.text == "none" || t.text == "None") return literal(nullptr);
        return make(Kind::name, t.text, {});
      default:
        break;
    }
    if (t.text == "(") {
      Expression inner = expression();
      expect(")");
      return inner;
    }
    if (t.text == "[") return items(Kind::list, "]");
    if (t.text == "{") return items(Kind::dict, "}");
    fail(fmt::format("'{}'", shown(t.text)));
  }
  Expression items(Kind kind, const char* end) {
    Expression list = make(kind, "", {});
    while (!take(end)) {
      list.operands.push_back(expression());
      if (kind == Kind::dict) {
        expect(":");
        list.operands.push_back(expression());
      }
      if (!is(end)) expect(",");
    }
    return list;
  }

  std::vector<Piece> pieces_;
  const std::string& where_;
  size_t piece_ = 0, token_ = 0;
  const std::vector<Token>* tokens_ = nullptr;
  int nesting_ = 0, line_ = 1;
};

}  // namespace

std::vector<Statement> parse(std::string_view text, const std::string& where) {
  if (text.size() > kMaxTemplate)
    throw DataError(fmt::format("{}: chat_template: {} bytes; legal: up to {}", where, text.size(), kMaxTemplate));
  return Parser(divide(text, where), where).run();
}

}  // namespace fp::jinja
