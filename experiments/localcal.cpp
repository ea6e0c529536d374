// localcal.cpp -- the program: finds the command and runs it.
#include "experiments/cli.h"
#include "kernels/check.h"

namespace lc::cli {

// The commands, in the order of --help.
//
//        command       file
#define LC_ALL_COMMANDS(X)           \
    X(fit)     /* cmd_fit.cpp */     \
    X(apply)   /* cmd_apply.cpp */   \
    X(eval)    /* cmd_eval.cpp */    \
    X(compare) /* cmd_compare.cpp */ \
    X(sweep)   /* cmd_sweep.cpp */   \
    X(explain) /* cmd_explain.cpp */ \
    X(inspect) /* cmd_inspect.cpp */ \
    X(devices) /* cmd_devices.cpp */

#define LC_DECLARE(name) extern const Command name##_command;
LC_ALL_COMMANDS(LC_DECLARE)
#undef LC_DECLARE

namespace {

#define LC_POINTER(name) &name##_command,
const std::vector<const Command*> kCommands = {LC_ALL_COMMANDS(LC_POINTER)};
#undef LC_POINTER

std::vector<std::string> command_names() {
    std::vector<std::string> names;
    for (const Command* c : kCommands) names.push_back(c->name);
    return names;
}

std::string joined(const std::vector<std::string>& words) {
    std::string text;
    for (const std::string& w : words) text += (text.empty() ? "" : ", ") + w;
    return text;
}

std::string help() {
    std::vector<std::vector<std::string>> rows;
    for (const Command* c : kCommands) rows.push_back({"  " + std::string(c->name), c->summary});
    return std::string(kProgram) + ": multiclass local calibration of classifiers\n\n" +
           "Usage: localcal COMMAND [options]     options come after the command\n" +
           "       localcal --help | --version\n\n" + "Commands:\n" + table(rows) +
           "\n`localcal COMMAND --help` lists the options of a command and shows one example.  Start with:\n"
           "  $ localcal devices\n";
}

[[noreturn]] void refuse(const std::string& word) {
    const std::string expected = "expected a command (" + joined(command_names()) + "), found ";
    if (word.empty()) throw Error(expected + "nothing; see 'localcal --help'");
    std::vector<std::string> known = command_names();
    known.insert(known.end(), {"--help", "--version"});
    const std::string hint = did_you_mean(word, known);
    if (!hint.empty()) throw Error(expected + "'" + word + "'" + hint);
    throw Error(expected + "'" + word + "'; " + (word[0] == '-' ? "options come after it, " : "") +
                "see 'localcal --help'");
}

void run(std::vector<std::string> args) {
    const std::string first = args.empty() ? "" : args.front();
    if (first == "--help" || first == "-h") return print(help());
    if (first == "--version") return print(std::string(kProgram) + "\n");
    for (const Command* c : kCommands) {
        if (first == c->name) return run_command(*c, "localcal " + first, {args.begin() + 1, args.end()});
    }
    refuse(first);
}

}  // namespace
}  // namespace lc::cli

int main(int argc, char** argv) { return lc::cli::run_program("localcal", lc::cli::run, argc, argv); }
