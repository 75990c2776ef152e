// A thin wrapper of CLI11, whose headers take seconds to compile and are therefore included in command_line.cpp only.
// Names and semantics are those of CLI11.
#pragma once

#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
class Validator;
}  // namespace CLI

namespace fp::cli {

// A condition on a value. A value that violates it is refused with a message that gives the legal values.
class Validator {
 public:
  explicit Validator(const CLI::Validator&);
  const CLI::Validator& get() const { return *validator_; }

 private:
  std::shared_ptr<const CLI::Validator> validator_;
};
struct IsMember : Validator {
  explicit IsMember(const std::vector<std::string>&);
};
struct Range : Validator {
  template <class T>
  Range(T least, T most);  // for int, uint64_t, double; inclusive
};
extern const Validator PositiveNumber, NonNegativeNumber;

// A flag, option or positional argument. Functions that change it return it, for chaining.
class Option {
 public:
  explicit Option(CLI::Option& option) : option_(option) {}
  Option* required();
  Option* check(const Validator&);
  Option* as_size();              // the value is a number of bytes with an optional unit: 64MiB, 1GB
  Option* capture_default_str();  // the help text shows the default
  Option* excludes(Option*);
  Option* excludes(const std::string& name);
  Option* needs(Option*);
  Option* take_all();
  Option* allow_extra_args(bool);
  Option* delimiter(char);
  Option* expected(int values);

 private:
  CLI::Option& option_;
};

// Thrown by App::parse if no command was run: help was requested, or the command line is invalid.
struct Ended : std::exception {
  bool is_mistake = false;      // the command line is invalid
  std::function<void()> print;  // prints the help or the mistake
};

// The program or one of its subcommands.
class App {
 public:
  explicit App(const std::string& description);
  App(const App&) = delete;
  ~App();

  App* add_subcommand(const std::string& name, const std::string& description);
  // Adds an option for one of the types that command_line.cpp instantiates. parse() stores the value in `variable`,
  // which must live until then. Numbers must be finite decimal numbers in the range of their type, and paths not empty.
  template <class T>
  Option* add_option(const std::string& name, T& variable, const std::string& description = "");
  Option* add_flag(const std::string& name, bool& variable, const std::string& description = "");
  void require_subcommand(int count);
  void set_version_flag(const std::string& name, const std::string& version);
  void callback(std::function<void()>);
  void preparse_callback(std::function<void(size_t)>);  // runs before the subcommand's arguments are read

  std::string get_name() const;
  std::vector<App*> get_subcommands() const;  // all of them, used or not

  // Reads the command line and runs its callbacks. Throws Ended, and whatever a callback throws.
  void parse(int argc, char** argv);

 private:
  explicit App(CLI::App& subcommand);
  Option* keep(CLI::Option*);

  std::unique_ptr<CLI::App> owned_;
  CLI::App* app_ = nullptr;
  std::deque<Option> options_;
  std::vector<std::unique_ptr<App>> subcommands_;
};

}  // namespace fp::cli
