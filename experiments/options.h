// options.h -- how a command declares its options.
//
//     options.add_option("--rows", o->rows, "only rows A to B-1").type_name("A:B").required();
//
// CLI11 reads them.  Its header, ten seconds of a compiler's time, is included by options.cpp and by nothing else.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace lc::cli {

class Option {  // of one option, what is not the default; each returns the option itself
  public:
    explicit Option(CLI::Option* option) : option_(option) {}
    Option required();
    Option type_name(const std::string& text);  // what it takes, for --help
    Option group(const std::string& title);     // of --help
    Option delimiter(char c);                   // of a list
    Option range(int64_t low, int64_t high);
    Option positive();

  private:
    CLI::Option* option_;
};

class Options {
  public:
    explicit Options(CLI::App& app) : app_(app) {}
    // The value keeps what it has where the option is not given.
    Option add_option(const std::string& name, std::string& value, const std::string& help);
    Option add_option(const std::string& name, int64_t& value, const std::string& help);
    Option add_option(const std::string& name, double& value, const std::string& help);
    Option add_option(const std::string& name, std::vector<std::string>& values, const std::string& help);
    Option add_option(const std::string& name, std::vector<double>& values, const std::string& help);
    Option add_option(const std::string& name, std::function<void(const std::string&)> take, const std::string& help);
    Option add_flag(const std::string& name, bool& value, const std::string& help);

  private:
    CLI::App& app_;
};

}  // namespace lc::cli
