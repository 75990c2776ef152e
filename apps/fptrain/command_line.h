// The command line, as CLI11 reads it. Its headers take seconds to compile in each file that has them, so only
// command_line.cpp does; the names and what they mean are CLI11's.
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

// A condition on a value; what breaks it is refused with what would be legal.
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
  Range(T least, T most);  // of int, uint64_t, double
};
extern const Validator PositiveNumber, NonNegativeNumber;

// A flag, option or positional argument. Functions that change it return it.
class Option {
 public:
  explicit Option(CLI::Option& option) : option_(option) {}
  Option* required();
  Option* check(const Validator&);
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

// Nothing was run: help was asked for, or the command line cannot be understood.
struct Ended : std::exception {
  bool is_mistake = false;
  std::function<void()> say;  // prints the help or the mistake
};

// The program or one of its subcommands.
class App {
 public:
  explicit App(const std::string& description);  // the program
  App(const App&) = delete;
  ~App();

  App* add_subcommand(const std::string& name, const std::string& description);
  // Of the types that command_line.cpp lists. The variable gets the value when the command line is read.
  template <class T>
  Option* add_option(const std::string& name, T& variable, const std::string& description = "");
  Option* add_flag(const std::string& name, bool& variable, const std::string& description = "");
  void require_subcommand(int count);
  void set_version_flag(const std::string& name, const std::string& version);
  void callback(std::function<void()>);
  void preparse_callback(std::function<void(size_t)>);  // before the subcommand's own arguments are read

  std::string get_name() const;
  std::vector<App*> get_subcommands() const;  // all, used or not

  // Runs what the command line asks for; throws what a callback throws, and Ended.
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
