// cli.cpp -- what the commands share, but for their options (conventions: cli.h).
#include "experiments/cli.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <new>
#include <nlohmann/json.hpp>

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

}  // namespace

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

std::string fixed(double x, int digits) {
    char text[64];
    std::snprintf(text, sizeof text, "%.*f", digits, x);
    return text;
}

std::string percent(double share, int digits) { return fixed(100 * share, digits) + " %"; }

void print_json(const nlohmann::ordered_json& object) {
    const auto replace = nlohmann::ordered_json::error_handler_t::replace;  // names in odd encodings must not end a run
    print(object.dump(2, ' ', false, replace) + "\n");
}

}  // namespace lc::cli
