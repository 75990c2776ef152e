#include "io/json.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/shown.h"
#include "io/filesystem.h"

namespace fp {
namespace {

constexpr size_t kLongestReason = 200;

// The position of the parser in a text.
class Position {
 public:
  Position(std::string_view text, const std::string& where) : text_(text), at_(text.data()), where_(where) {}

  // Iterates over the text and records its position.
  class Iterator {
   public:
    using iterator_category = std::forward_iterator_tag;
    using value_type = char;
    using difference_type = std::ptrdiff_t;
    using pointer = const char*;
    using reference = const char&;

    Iterator() = default;
    Iterator(const char* at, const char** seen) : at_(at), seen_(seen) {}
    reference operator*() const { return *at_; }
    Iterator& operator++() {
      *seen_ = ++at_;
      return *this;
    }
    Iterator operator++(int) {
      const Iterator before = *this;
      ++*this;
      return before;
    }
    bool operator==(const Iterator& o) const { return at_ == o.at_; }

   private:
    const char* at_ = nullptr;
    const char** seen_ = nullptr;
  };
  Iterator begin() { return {text_.data(), &at_}; }
  Iterator end() { return {text_.data() + text_.size(), &at_}; }

  [[noreturn]] void fail(const char* kind, const std::string& what) const {
    const std::string_view before = text_.substr(0, static_cast<size_t>(at_ - text_.data()));
    const auto lines = std::ranges::count(before, '\n');
    const size_t line_start = before.rfind('\n') + 1;  // 0 if there is none
    const std::string line = text_.find('\n') == std::string_view::npos ? "" : fmt::format("line {}, ", lines + 1);
    throw JsonError(fmt::format("{}: {}{}column {}: {}", where_, kind, line,
                                std::max<size_t>(before.size() - line_start, 1), what));
  }

 private:
  std::string_view text_;
  const char* at_;
  const std::string& where_;
};

// Builds a value from the parser's events.
template <class Json>
class Builder : public nlohmann::json_sax<Json> {
 public:
  Builder(const JsonLimits& limits, const Position& position) : limits_(limits), position_(position) {}
  Json root;

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(typename Json::number_integer_t value) override { return add(value); }
  bool number_unsigned(typename Json::number_unsigned_t value) override { return add(value); }
  bool number_float(typename Json::number_float_t value, const std::string&) override { return add(value); }
  bool string(std::string& value) override { return add(value); }
  bool binary(typename Json::binary_t&) override { return false; }  // JSON has none

  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_array() override {
    open_.pop_back();
    return true;
  }
  bool end_object() override {
    if constexpr (kOrdered) require_different_keys(open_.back()->template get_ref<Object&>());
    open_.pop_back();
    return true;
  }
  bool key(std::string& name) override {
    auto& object = open_.back()->template get_ref<Object&>();
    if constexpr (kOrdered) {
      object.emplace_back(name, nullptr);
      member_ = &object.back().second;
    } else {
      const auto [it, is_new] = object.try_emplace(name, nullptr);
      if (!is_new && limits_.keys_once) refuse_key(name);
      member_ = &it->second;
    }
    return true;
  }
  // The parser's reason, without its numbers: "[...] parse error at line 1, column 2: syntax error ...".
  bool parse_error(std::size_t, const std::string&, const typename Json::exception& e) override {
    std::string_view reason = e.what();
    reason.remove_prefix(std::min(reason.find("] ") + 2, reason.size()));
    if (reason.starts_with("parse error at")) reason.remove_prefix(std::min(reason.find(": ") + 2, reason.size()));
    position_.fail("not JSON: ", shown(reason, kLongestReason));
  }

 private:
  using Object = typename Json::object_t;
  static constexpr bool kOrdered = std::is_same_v<Json, nlohmann::ordered_json>;

  template <class Value>
  Json* put(Value&& value) {
    if (open_.empty()) return &(root = std::forward<Value>(value));
    if (open_.back()->is_object()) return &(*member_ = std::forward<Value>(value));
    return &open_.back()->template get_ref<typename Json::array_t&>().emplace_back(std::forward<Value>(value));
  }
  template <class Value>
  bool add(Value&& value) {
    put(std::forward<Value>(value));
    return true;
  }
  bool open(Json&& container) {
    if (open_.size() >= static_cast<size_t>(limits_.depth))
      position_.fail("", fmt::format("{} nested lists and objects; legal: up to {}", open_.size() + 1, limits_.depth));
    open_.push_back(put(std::move(container)));
    return true;
  }

  [[noreturn]] void refuse_key(const std::string& name) const {
    position_.fail("", fmt::format("duplicate key \"{}\"", shown(name)));
  }
  void require_different_keys(const Object& object) const {
    std::vector<std::string_view> keys;
    for (const auto& [name, value] : object) keys.push_back(name);
    std::ranges::sort(keys);
    if (const auto twice = std::ranges::adjacent_find(keys); twice != keys.end()) refuse_key(std::string(*twice));
  }

  JsonLimits limits_;
  const Position& position_;
  std::vector<Json*> open_;  // the open objects and lists, outermost first
  Json* member_ = nullptr;   // the member of the innermost object that receives the next value
};

template <class Json>
Json parse(std::string_view text, const std::string& where, const JsonLimits& limits) {
  if (text.size() > limits.bytes)
    throw JsonError(fmt::format("{}: {} bytes of JSON; legal: up to {}", where, text.size(), limits.bytes));
  Position position(text, where);
  Builder<Json> builder(limits, position);
  Json::sax_parse(position.begin(), position.end(), &builder);
  return std::move(builder.root);
}

}  // namespace

nlohmann::json parse_json(std::string_view text, const std::string& where, const JsonLimits& limits) {
  return parse<nlohmann::json>(text, where, limits);
}

nlohmann::ordered_json parse_ordered_json(std::string_view text, const std::string& where, const JsonLimits& limits) {
  return parse<nlohmann::ordered_json>(text, where, limits);
}

std::string read_json_file(const std::filesystem::path& path, const JsonLimits& limits) {
  if (const auto bytes = size_of_file(path); bytes && *bytes > limits.bytes)
    throw JsonError(fmt::format("{}: {} bytes of JSON; legal: up to {}", path.string(), *bytes, limits.bytes));
  return read_file(path);
}

nlohmann::json read_json(const std::filesystem::path& path, const JsonLimits& limits) {
  return parse_json(read_json_file(path, limits), path.string(), limits);
}

}  // namespace fp
