// cli.cpp -- options everywhere, configuration files, and CLI11's errors in our words (conventions: cli.h).
#include "experiments/cli.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <new>
#include <nlohmann/json.hpp>
#include <omp.h>
#include <set>

#include "kernels/check.h"

namespace lc::cli {

namespace {

// How many letters to change, add, drop or swap with a neighbour to turn a into b.
size_t edit_distance(const std::string& a, const std::string& b) {
    std::vector<std::vector<size_t>> d(a.size() + 1,
                                       std::vector<size_t>(b.size() + 1));  // d[i][j]: of the first i and j
    for (size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
    for (size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
    for (size_t i = 1; i <= a.size(); ++i) {
        for (size_t j = 1; j <= b.size(); ++j) {
            const size_t change = a[i - 1] != b[j - 1];
            d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + change});
            const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (swapped) d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
        }
    }
    return d[a.size()][b.size()];
}

std::vector<std::string> option_names(const CLI::App& app) {  // "--seed", "--threads", ...
    std::vector<std::string> names;
    for (const CLI::Option* o : app.get_options()) {
        for (const std::string& name : o->get_lnames()) names.push_back("--" + name);
    }
    return names;
}

std::string see_help(const CLI::App& app) { return "; see '" + app.get_name() + " --help'"; }

// `key = value` lines, a key being an option of the command without its dashes.  CLI11 reads the file; what it would
// skip in silence (lines of one or two letters, keys that mean nothing, keys given twice) is refused here.
class ConfigFile : public CLI::ConfigTOML {
  public:
    explicit ConfigFile(const CLI::App& app) : app_(app) {}

    std::vector<CLI::ConfigItem> from_config(std::istream& in) const override {
        std::stringstream text;
        for (std::string line; std::getline(in, line); text << line << "\n") {
            const std::string bare = CLI::detail::trim_copy(line);
            if (!bare.empty() && bare.size() < 3 && bare[0] != '#') refuse("lines `key = value`", "'" + bare + "'");
        }
        std::vector<CLI::ConfigItem> items = CLI::ConfigTOML::from_config(text);
        std::set<std::string> seen;
        for (const CLI::ConfigItem& item : items) check(item, seen);
        return items;
    }

  private:
    void check(const CLI::ConfigItem& item, std::set<std::string>& seen) const {
        if (!item.parents.empty()) refuse("keys without sections", "the section '" + item.parents.front() + "'");
        const CLI::Option* o = app_.get_option_no_throw("--" + item.name);
        if (o == nullptr || !o->get_configurable()) {
            const std::string hint = did_you_mean(item.name, keys());
            refuse("an option of '" + app_.get_name() + "' as key", "'" + item.name + "'", hint);
        }
        if (!seen.insert(item.name).second) refuse("every key once", "'" + item.name + "' twice", "; keep one");
    }
    std::vector<std::string> keys() const {
        std::vector<std::string> names;
        for (const CLI::Option* o : app_.get_options([](const CLI::Option* o) { return o->get_configurable(); })) {
            for (const std::string& name : o->get_lnames()) names.push_back(name);
        }
        return names;
    }
    [[noreturn]] void refuse(const std::string& expected, const std::string& found,
                             const std::string& hint = "") const {
        throw Error("expected " + expected + " in the configuration file '" + app_.get_config_ptr()->as<std::string>() +
                    "', found " + found + (hint.empty() ? see_help(app_) : hint));
    }
    const CLI::App& app_;
};

void add_common_options(CLI::App& app, Common& common) {
    const char* group = "Everywhere";
    app.add_option_function<std::string>(
           "--seed", [&](const std::string& s) { common.seed = parse_integer("--seed", s, 0, UINT64_MAX); },
           "names every random draw: the same seed gives the same run (0)")
        ->type_name("N")
        ->group(group);
    app.add_option_function<std::string>(
           "--threads", [&](const std::string& s) { common.threads = int(parse_integer("--threads", s, 1, 1024)); },
           "CPU threads, 1 to 1024 (all of them); results do not depend on it")
        ->type_name("N")
        ->group(group);
    app.add_option("--device", common.device, "auto, cpu, cuda or cuda:I (auto: a GPU where one answers)")
        ->type_name("NAME")
        ->group(group);
    app.add_flag("--json", common.json, "one JSON object on standard output instead of a table")->group(group);
    app.add_flag("--quiet", common.quiet, "no progress and no notes")->group(group);

    app.set_config("--config", "", "options as lines `threads = 2`; what is typed here wins")
        ->type_name("FILE")
        ->group(group);
    app.config_formatter(std::make_shared<ConfigFile>(app));
    app.set_help_flag("-h,--help", "this text")->group(group);
}

// The option that CLI11 complains about: the longest name in its message.
const CLI::Option* blamed(const CLI::App& app, const CLI::ParseError& e) {
    const std::string message = e.what();
    const CLI::Option* found = nullptr;
    for (const CLI::Option* o : app.get_options()) {
        if (message.find(o->get_name()) == std::string::npos) continue;
        if (found == nullptr || o->get_name().size() > found->get_name().size()) found = o;
    }
    return found;
}

std::string unknown_word(const CLI::App& app, const std::string& found) {
    const std::string word = found.substr(0, found.find('='));
    const char* expected = word[0] == '-' ? "expected an option of '" : "expected only options after '";
    const std::string hint = did_you_mean(word, option_names(app));
    return expected + app.get_name() + "', found '" + word + "'" + (hint.empty() ? see_help(app) : hint);
}

// One sentence (expected, found, what to do) for whatever CLI11 refuses.
std::string reworded(const CLI::App& app, const CLI::ParseError& e) {
    const std::vector<std::string> extra = app.remaining();
    const CLI::Option* option = blamed(app, e);
    if (dynamic_cast<const CLI::ExtrasError*>(&e) && !extra.empty()) return unknown_word(app, extra.front());
    if (dynamic_cast<const CLI::FileError*>(&e)) {
        return "expected a readable file after --config, found '" + app.get_config_ptr()->as<std::string>() +
               "'; check its name";
    }
    if (dynamic_cast<const CLI::ArgumentMismatch*>(&e) && option != nullptr) {
        if (option->count() == 0)
            return "expected a value after " + option->get_name() + ", found nothing" + see_help(app);
        return "expected " + option->get_name() + " once, found it " + std::to_string(option->count()) +
               " times; keep one";
    }
    if (dynamic_cast<const CLI::ConversionError*>(&e) && option != nullptr && option->get_expected_max() == 0) {
        return "expected true or false for " + option->get_name() + ", found '" + option->results().back() + "'" +
               see_help(app);
    }
    if (dynamic_cast<const CLI::RequiredError*>(&e) && option != nullptr) {
        return "expected " + option->get_name() + " after '" + app.get_name() + "', found none" + see_help(app);
    }
    return "'" + app.get_name() + "' cannot use these options: " + e.what() + see_help(app);
}

}  // namespace

void run_command(const Command& command, const std::string& called, std::vector<std::string> args) {
    CLI::App app(command.summary, called);
    app.footer(std::string("Example:\n") + command.example);
    app.get_formatter()->column_width(18);
    app.allow_config_extras(CLI::config_extras_mode::error);
    Common common;
    const std::function<void()> run = command.define(app, common);
    add_common_options(app, common);

    std::reverse(args.begin(), args.end());  // CLI11 takes them from the back
    try {
        app.parse(args);
    } catch (const CLI::CallForHelp&) {
        return print(app.help());
    } catch (const CLI::ParseError& e) {
        throw Error(reworded(app, e));
    }
    if (common.threads > 0) omp_set_num_threads(common.threads);
    run();
}

int run_program(const char* program, const std::function<void(std::vector<std::string>)>& run, int argc, char** argv) {
    const auto complain = [&](const std::string& text, int exit_code) {
        std::fprintf(stderr, "%s: %s\n", program, printable(text).c_str());
        return exit_code;
    };
    std::signal(SIGPIPE, SIG_DFL);  // `localcal ... | head` ends in silence, whatever the caller did to the signal
    try {
        run({argv + 1, argv + argc});
        return 0;
    } catch (const Error& e) {
        return complain(e.what(), 2);
    } catch (const std::bad_alloc&) {
        return complain("not enough memory; use fewer rows, a smaller batch or fewer threads", 1);
    } catch (const std::exception& e) {
        return complain(e.what(), 1);
    }
}

uint64_t parse_integer(const std::string& option, const std::string& text, uint64_t low, uint64_t high) {
    uint64_t value = 0;
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc() || stop != end || value < low || value > high) {
        throw Error(option + " takes a whole number from " + std::to_string(low) + " to " + std::to_string(high) +
                    "; found '" + text + "'");
    }
    return value;
}

std::string did_you_mean(const std::string& word, const std::vector<std::string>& known) {
    const std::string* best = nullptr;
    size_t least =
        std::max<size_t>(1, (word.size() + 1) / 3) + 1;  // a third of the letters wrong is still a slip of the hand
    for (const std::string& candidate : known) {
        const size_t distance = edit_distance(word, candidate);
        if (distance < least) {
            least = distance;
            best = &candidate;
        }
    }
    return best == nullptr ? "" : "; did you mean '" + *best + "'?";
}

std::string table(const std::vector<std::vector<std::string>>& rows) {
    std::vector<size_t> width(rows.front().size());
    for (const auto& row : rows) {
        for (size_t c = 0; c < row.size(); ++c) width[c] = std::max(width[c], row[c].size());
    }
    std::string text;
    for (const auto& row : rows) {
        std::string line;
        for (size_t c = 0; c < row.size(); ++c) line += row[c] + std::string(width[c] - row[c].size() + 2, ' ');
        text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
    }
    return text;
}

std::string printable(std::string text) {
    std::replace_if(
        text.begin(), text.end(), [](unsigned char c) { return c < ' ' || c == 127; }, '?');
    return text;
}

void print(std::string_view text) {
    if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0) return;
    throw std::runtime_error(std::string("standard output cannot be written: ") + std::strerror(errno));
}

void print_json(const nlohmann::ordered_json& object) {
    const auto replace = nlohmann::ordered_json::error_handler_t::replace;  // names in odd encodings must not end a run
    print(object.dump(2, ' ', false, replace) + "\n");
}

}  // namespace lc::cli
