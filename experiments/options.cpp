// options.cpp -- CLI11: options everywhere, configuration files, and its errors in our words (conventions: cli.h).
#include "experiments/options.h"

#include <CLI/CLI.hpp>
#include <omp.h>
#include <set>

#include "experiments/cli.h"
#include "kernels/check.h"

namespace lc::cli {

Option Option::required() { return Option(option_->required()); }
Option Option::type_name(const std::string& text) { return Option(option_->type_name(text)); }
Option Option::group(const std::string& title) { return Option(option_->group(title)); }
Option Option::delimiter(char c) { return Option(option_->delimiter(c)); }
Option Option::range(int64_t low, int64_t high) { return Option(option_->check(CLI::Range(low, high))); }
Option Option::positive() { return Option(option_->check(CLI::PositiveNumber)); }

#define LC_ADD_OPTION(T)                                                                     \
    Option Options::add_option(const std::string& name, T& value, const std::string& help) { \
        return Option(app_.add_option(name, value, help));                                   \
    }
LC_ADD_OPTION(std::string)
LC_ADD_OPTION(int64_t)
LC_ADD_OPTION(double)
LC_ADD_OPTION(std::vector<std::string>)
LC_ADD_OPTION(std::vector<double>)
#undef LC_ADD_OPTION
Option Options::add_option(const std::string& name, std::function<void(const std::string&)> take,
                           const std::string& help) {
    return Option(app_.add_option_function<std::string>(name, take, help));
}
Option Options::add_flag(const std::string& name, bool& value, const std::string& help) {
    return Option(app_.add_flag(name, value, help));
}

namespace {

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
    Options options(app);
    const std::function<void()> run = command.define(options, common);
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

}  // namespace lc::cli
