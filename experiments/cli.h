// cli.h -- what the commands of localcal share: the options that exist everywhere, tables, JSON, errors.
//
// A command is a file cmd_<name>.cpp that defines one Command, and one line in localcal.cpp.  `define` adds the
// command's own options and returns what runs once they are read; the options live in whatever the returned function
// holds on to:
//
//     extern const Command inspect_command = {
//         "inspect", "names, shapes and types in a file", "  $ localcal inspect model.safetensors\n ...",
//         [](Options& options, const Common& common) -> std::function<void()> {
//             auto file = std::make_shared<std::string>();
//             options.add_option("FILE", *file, "what to look at").required();
//             return [file, &common] { ... print(...); };
//         }};
//
// Errors: bad input or usage is an lc::Error with one sentence (expected, found, what to do) and ends with exit code 2;
// any other exception is a failure of the program or the machine and ends with 1.  Nothing goes to standard output
// then.
#pragma once
#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/options.h"

namespace lc::cli {

inline constexpr const char* kProgram = "localcal 0.1.0";

struct Common {                   // the options that every command has
    uint64_t seed = 0;            // names every random draw of the run
    int threads = 0;              // 0: as many as OpenMP would take
    std::string device = "auto";  // for choose_backend()
    bool json = false;            // one object on standard output and nothing else there
    bool quiet = false;           // no progress, no notes
};

struct Command {
    const char* name;
    const char* summary;  // one line, for the list of commands
    const char* example;  // ends --help: a line to type and what comes back
    std::function<void()> (*define)(Options& options, const Common& common);
};

// Reads the options in `args` and runs the command, or prints its help.  `called` is what the user typed before them:
// "localcal fit".
void run_command(const Command& command, const std::string& called, std::vector<std::string> args);

// The whole of a main(): runs, turns an exception into one line on standard error, and returns the exit code.
int run_program(const char* program, const std::function<void(std::vector<std::string> args)>& run, int argc,
                char** argv);

// A whole number from `low` to `high`, or an Error that names the option.
uint64_t parse_integer(const std::string& option, const std::string& text, uint64_t low, uint64_t high);

// "; did you mean 'fit'?" with the known word nearest to `word`, or "" where none is near enough to be meant.
std::string did_you_mean(const std::string& word, const std::vector<std::string>& known);

// Columns as wide as their widest cell, two spaces between them; the first row is the header.
std::string table(const std::vector<std::vector<std::string>>& rows);

// Text from a file or the command line, unable to break the line or to reach the terminal as an escape.
std::string printable(std::string text);

// Standard output: throws where it cannot be written (a full disk must not look like success).
void print(std::string_view text);
void print_json(const nlohmann::ordered_json& object);

std::string fixed(double x, int digits);            // for tables
std::string percent(double share, int digits = 2);  // "91.73 %"

}  // namespace lc::cli
