#include "command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <span>
#include <string_view>
#include <type_traits>

#include "base/log.h"
#include "base/shown.h"
#include "config/yaml/problems.h"

namespace fp::cli {

Validator::Validator(const CLI::Validator& validator) : validator_(std::make_shared<const CLI::Validator>(validator)) {}

IsMember::IsMember(const std::vector<std::string>& values) : Validator(CLI::IsMember(values)) {}

namespace {
// CLI11's own validators name the largest double, of 309 digits, as the limit.
template <class Legal>
CLI::Validator number(const std::string& name, const std::string& limit, Legal legal) {
  return CLI::Validator(
      [=](const std::string& text) {
        char* end = nullptr;
        const double value = std::strtod(text.c_str(), &end);
        const bool is_decimal = text.find_first_of("xX") == text.npos;
        const bool is_number = is_decimal && end != text.c_str() && *end == 0 && std::isfinite(value);
        return is_number && legal(value) ? std::string() : "must be a number " + limit + ", not " + text;
      },
      name);
}

// Every option has the check of its type, which CLI11 converts leniently: -1 to the largest unsigned number, 010 to 8,
// an empty word to 0, and NaN to a number in any range.
constexpr const char* kCheckOfType = "type";
constexpr const char* kNoDescription = "";  // the help shows none

template <class T>
CLI::Validator check_of_type() {
  if constexpr (std::is_integral_v<T>) {
    return {[](const std::string& text) {
              T value{};
              const std::string_view digits = std::string_view(text).substr(text.starts_with('-') ? 1 : 0);
              const bool is_octal = digits.size() > 1 && digits.front() == '0';
              const char* const end = text.data() + text.size();
              const auto [stop, error] = std::from_chars(text.data(), end, value);
              return !is_octal && error == std::errc() && stop == end
                         ? std::string()
                         : fmt::format("must be a whole number from {} to {}, not '{}'", std::numeric_limits<T>::min(),
                                       std::numeric_limits<T>::max(), shown(text));
            },
            kNoDescription, kCheckOfType};
  } else if constexpr (std::is_floating_point_v<T>) {
    return number(kNoDescription, "that is finite", [](double) { return true; }).name(kCheckOfType);
  } else {
    return {[](const std::string& text) { return std::string(text.empty() ? "must not be an empty path" : ""); },
            kNoDescription, kCheckOfType};
  }
}

template <class T>
struct ElementOf {
  using type = T;
};
template <class T>
struct ElementOf<std::vector<T>> {
  using type = T;
};

}  // namespace

template <class T>
Range::Range(T least, T most) : Validator(CLI::Range(least, most)) {}
template Range::Range(int, int);
template Range::Range(uint64_t, uint64_t);
template Range::Range(double, double);

const Validator PositiveNumber{number("POSITIVE", "above 0", [](double x) { return x > 0; })},
    NonNegativeNumber{number("NONNEGATIVE", "of 0 or more", [](double x) { return x >= 0; })};

Option* Option::required() { return option_.required(), this; }
Option* Option::check(const Validator& v) { return option_.check(v.get()), this; }
Option* Option::as_size() { return option_.transform(CLI::AsSizeValue(true)), this; }  // before the check of its type
Option* Option::capture_default_str() { return option_.capture_default_str(), this; }
Option* Option::excludes(Option* other) { return option_.excludes(&other->option_), this; }
Option* Option::excludes(const std::string& name) { return option_.excludes(name), this; }
Option* Option::needs(Option* other) { return option_.needs(&other->option_), this; }
Option* Option::take_all() { return option_.take_all(), this; }
Option* Option::allow_extra_args(bool allowed) { return option_.allow_extra_args(allowed), this; }
Option* Option::delimiter(char c) { return option_.delimiter(c), this; }
Option* Option::expected(int values) { return option_.expected(values), this; }

App::App(const std::string& description) : owned_(std::make_unique<CLI::App>(description)), app_(owned_.get()) {}
App::App(CLI::App& subcommand) : app_(&subcommand) {}
App::~App() = default;

App* App::add_subcommand(const std::string& name, const std::string& description) {
  subcommands_.push_back(std::unique_ptr<App>(new App(*app_->add_subcommand(name, description))));
  return subcommands_.back().get();
}

Option* App::keep(CLI::Option* option) { return &options_.emplace_back(*option); }

template <class T>
Option* App::add_option(const std::string& name, T& variable, const std::string& description) {
  CLI::Option* const option = app_->add_option(name, variable, description);
  using Element = typename ElementOf<T>::type;
  if constexpr (!std::is_same_v<Element, std::string>) option->check(check_of_type<Element>());
  return keep(option);
}
#define FP_OPTION_OF(...) template Option* App::add_option(const std::string&, __VA_ARGS__&, const std::string&)
FP_OPTION_OF(int);
FP_OPTION_OF(int64_t);
FP_OPTION_OF(uint64_t);
FP_OPTION_OF(double);
FP_OPTION_OF(std::string);
FP_OPTION_OF(std::filesystem::path);
FP_OPTION_OF(std::vector<int>);
FP_OPTION_OF(std::vector<int64_t>);
FP_OPTION_OF(std::vector<double>);
FP_OPTION_OF(std::vector<std::string>);
FP_OPTION_OF(std::vector<std::filesystem::path>);
#undef FP_OPTION_OF

Option* App::add_flag(const std::string& name, bool& variable, const std::string& description) {
  return keep(app_->add_flag(name, variable, description));
}

void App::require_subcommand(int count) { app_->require_subcommand(count); }
void App::set_version_flag(const std::string& name, const std::string& version) {
  app_->set_version_flag(name, version);
}
void App::callback(std::function<void()> run) { app_->callback(std::move(run)); }
void App::preparse_callback(std::function<void(size_t)> run) { app_->preparse_callback(std::move(run)); }

std::string App::get_name() const { return app_->get_name(); }
std::vector<App*> App::get_subcommands() const {
  std::vector<App*> all;
  for (const auto& subcommand : subcommands_) all.push_back(subcommand.get());
  return all;
}

namespace {

// The command that the arguments lead to, and its full name.
struct Reached {
  const CLI::App* app;
  std::string path = "fptrain";
};

Reached reached_from(const CLI::App* app) {
  Reached r{app};
  for (; !r.app->get_subcommands().empty(); r.path += " " + r.app->get_name()) r.app = r.app->get_subcommands().front();
  return r;
}

// Returns the error message for an unknown subcommand; empty if no subcommand is expected or given.
std::string wrong_subcommand(const Reached& r) {
  if (r.app->get_require_subcommand_min() == 0) return {};
  const std::vector<std::string> rest = r.app->remaining();
  const auto word = std::ranges::find_if(rest, [](const std::string& w) { return !w.starts_with('-'); });
  if (word == rest.end()) return {};
  std::vector<std::string_view> legal;
  for (const CLI::App* subcommand : r.app->get_subcommands({})) legal.push_back(subcommand->get_name());
  const std::string_view near = nearest(*word, legal);
  return fmt::format("{} has no subcommand '{}'{}; legal: {}", r.path, shown(*word),
                     near.empty() ? "" : fmt::format(" (did you mean '{}'?)", near), joined(legal));
}

// Returns the error message for an unknown option; empty if there is none.
std::string wrong_option(const Reached& r) {
  const std::vector<std::string> rest = r.app->remaining();
  const auto word = std::ranges::find_if(rest, [](const std::string& w) { return w.starts_with("--"); });
  if (word == rest.end()) return {};
  std::vector<std::string> legal;
  for (const CLI::Option* option : r.app->get_options())
    for (const std::string& name : option->get_lnames()) legal.push_back("--" + name);
  const std::string_view near = nearest(word->substr(0, word->find('=')), {legal.begin(), legal.end()});
  return fmt::format("{} has no option '{}'{}", r.path, shown(*word),
                     near.empty() ? "" : fmt::format("; did you mean '{}'?", near));
}

// Returns advice for `--set key value`; empty if every --set has key=value.
std::string advice_on_sets(std::span<char* const> arguments) {
  for (size_t i = 0; i + 2 < arguments.size(); ++i) {
    const std::string_view key = arguments[i + 1];
    if (arguments[i] == std::string_view("--set") && key.find('=') == key.npos)
      return fmt::format("; --set takes key=value in one word: --set {}={}", shown(key), shown(arguments[i + 2]));
  }
  return {};
}

// Reports a mistake; where only a subcommand is missing, the help text lists those there are.
void report(const CLI::App* app, const CLI::ParseError& e, std::span<char* const> arguments) {
  const Reached r = reached_from(app);
  const std::string wrong = wrong_subcommand(r);
  if (!wrong.empty()) return log::error("{}", wrong);
  if (r.app->get_require_subcommand_min() > 0) std::fputs(r.app->help().c_str(), stderr);
  if (const std::string option = wrong_option(r); !option.empty())
    return log::error("{}\nRun with --help for more information.", option);
  std::string what = e.what();
  if (what.ends_with(" is required") && r.app->get_require_subcommand_min() == 0) {
    const CLI::Option* option = r.app->get_option_no_throw(what.substr(0, what.find(' ')));
    if (option != nullptr) what += ": " + option->get_description();
  }
  log::error("{}: {}{}\nRun with --help for more information.", r.path, what, advice_on_sets(arguments));
}

}  // namespace

void App::parse(int argc, char** argv) {
  try {
    app_->parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    Ended ended;
    ended.is_mistake = e.get_exit_code() != 0;
    const std::span<char* const> arguments(argv, static_cast<size_t>(argc));
    ended.print = [this, e, arguments, mistake = ended.is_mistake] {
      mistake ? report(app_, e, arguments) : void(app_->exit(e));
    };
    throw ended;
  }
}

}  // namespace fp::cli
