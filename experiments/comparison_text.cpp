// comparison_text.cpp -- a comparison as people read it: the table, and what follows from it.
#include <algorithm>
#include <cmath>

#include "experiments/comparison.h"

namespace lc::cli {
namespace {

struct Column {
    const char *metric, *title;
    int digits;
    bool larger_is_better = false;
    bool excess = false;  // over what chance gives, where --null draws it
};
const Column kLocalExcess = {"lce", "lce_excess", 5, false, true};
const Column kColumns[] = {
    {"acc", "acc", 4, true}, {"nll", "nll", 4}, {"brier", "brier", 4}, {"ece", "ece", 5},   {"ece_top", "ece_top", 4},
    {"ecce", "ecce", 5},     {"lce", "lce", 5}, kLocalExcess,          {"mlce", "mlce", 4}, {"lce_own", "lce_own", 5}};

// What a method has in a column; nothing where it lacks the metric.
std::optional<double> value_of(const Compared& m, const Column& column) {
    const CardScore* const s = m.card.find(column.metric);
    if (s == nullptr || (column.excess && !s->null)) return std::nullopt;
    return column.excess ? s->null->excess : s->value;
}

const Compared* best_of(const Comparison& c, const Column& column) {
    const Compared* best = nullptr;
    for (const Compared& m : c.methods) {
        const std::optional<double> x = value_of(m, column);
        if (!x) continue;
        if (best == nullptr ||
            (column.larger_is_better ? *x > *value_of(*best, column) : *x < *value_of(*best, column)))
            best = &m;
    }
    return best;
}

// The cells of one column, the best of at least two marked; empty where no method has the metric.
std::vector<std::string> cells(const Comparison& c, const Column& column) {
    const Compared* const best = best_of(c, column);
    if (best == nullptr) return {};
    const std::string least = fixed(*value_of(*best, column), column.digits);
    int64_t count = 0;
    for (const Compared& m : c.methods) count += value_of(m, column).has_value();
    std::vector<std::string> text;
    for (const Compared& m : c.methods) {
        const std::optional<double> x = value_of(m, column);
        text.push_back(x ? fixed(*x, column.digits) : "-");
        if (x && count > 1 && text.back() == least) text.back() += "*";
    }
    return text;
}

std::string names_of(const std::vector<std::string>& names) {
    std::string text;
    for (size_t k = 0; k < names.size(); ++k) text += (k == 0 ? "" : k + 1 == names.size() ? " and " : ", ") + names[k];
    return text;
}

// ---- sentences ------------------------------------------------------------------------------------------------------

std::string about_classifier(const Comparison& c) {
    const Predictions& s = c.test.before;
    double sure = 0;
    for (int64_t i = 0; i < s.n; ++i) sure += s.row(i)[top_class(s.row(i), s.C)];
    sure /= double(s.n);
    const double right = acc(s);
    const std::string gap = fixed(100 * std::abs(sure - right), 1);
    std::string text = "The classifier (nc) is right on " + percent(right, 1) + " of the test rows and claims " +
                       percent(sure, 1) + " on average: ";
    if (std::abs(sure - right) < 0.005) return text + "on the whole it knows how sure it may be.";
    return text + "it is " + (sure > right ? "too sure" : "too careful") + " by " + gap + " points.";
}

// Who has the lowest log-loss, and whom the rows cannot tell from it.
std::string about_nll(const Comparison& c) {
    const Compared* const best = best_of(c, {"nll", "nll", 4});
    std::string text =
        "The lowest log-loss (nll, which rewards probabilities that are right and sharp) has " + best->method;
    std::vector<std::string> equal;
    for (const Compared& m : c.methods) {
        if (&m != best && m.refused.empty() && !gain_of(*best, m).beyond_noise()) equal.push_back(m.method);
    }
    const Compared* const nc = c.find("nc");
    if (nc != nullptr && nc != best) {
        const Gain g = gain_of(*best, *nc);
        text += ": " + fixed(g.value, 4) + " below nc, give or take " + fixed(2 * g.standard_error, 4);
    }
    if (equal.empty()) return text + "; no other method comes within noise of it.";
    return text + "; " + names_of(equal) + (equal.size() == 1 ? " is" : " are") + " within noise of it.";
}

// The local error itself favours a model that is too sure, which makes less noise: what counts is its excess over what
// chance would give a perfect model with the same probabilities.
std::string about_local_error(const Comparison& c) {
    const Compared* const best = best_of(c, kLocalExcess);
    const Compared* const nc = c.find("nc");
    if (best == nullptr) return "";
    const double least = *value_of(*best, kLocalExcess);
    std::string text = "Locally, among near neighbours in feature space, " + best->method + " errs least: its lce is " +
                       fixed(least, 5) + " above what chance alone gives";
    if (nc == nullptr || nc == best) return text + ".";
    const double own = *value_of(*nc, kLocalExcess);
    text += ", that of nc " + fixed(own, 5);
    std::vector<std::string> worse;
    for (const Compared& m : c.methods) {
        const std::optional<double> x = value_of(m, kLocalExcess);
        if (x && *x > own && *x - own > 0.1 * std::abs(own)) worse.push_back(m.method);
    }
    if (worse.empty()) return text + ".";
    return text + "; " + names_of(worse) + (worse.size() == 1 ? " errs" : " err") + " more than nc by a tenth or more.";
}

std::string about_answers(const Comparison& c) {
    std::vector<std::string> same;
    bool flips = false;
    for (const Compared& m : c.methods) {
        if (m.keeps_order && m.method != "nc") same.push_back(m.method);
        flips = flips || m.flips > 0;
    }
    if (same.empty()) return flips ? "Some rows get another most probable class (flips)." : "";
    return "By construction " + names_of(same) + (same.size() == 1 ? " keeps" : " keep") +
           " every answer of the classifier" +
           (flips ? "; others change the most probable class of some rows (flips)." : ".");
}

std::string about_impossible(const Comparison& c) {
    std::vector<std::string> list;
    for (const Compared& m : c.methods) {
        if (m.impossible > 0) list.push_back(m.method + " (" + std::to_string(m.impossible) + ")");
    }
    if (list.empty()) return "";
    return "True classes that got probability 0 before a floor was put under it, on which the nll depends: " +
           names_of(list) + ".";
}

// Lines of at most 110 columns.
std::string wrapped(const std::string& text) {
    std::string out;
    size_t column = 0;
    for (size_t at = 0; at < text.size();) {
        const size_t end = std::min(text.find(' ', at), text.size());
        const std::string word = text.substr(at, end - at);
        if (column > 0 && column + 1 + word.size() > 110) out += "\n", column = 0;
        if (column > 0) out += " ", ++column;
        out += word, column += word.size(), at = end + 1;
    }
    return out;
}

}  // namespace

Gain gain_of(const Compared& a, const Compared& b) {
    const double n = double(a.nll.size());
    double sum = 0, square = 0;
    for (size_t i = 0; i < a.nll.size(); ++i) sum += b.nll[i] - a.nll[i];
    const double mean = sum / n;
    for (size_t i = 0; i < a.nll.size(); ++i) {
        const double x = b.nll[i] - a.nll[i] - mean;
        square += x * x;
    }
    return {mean, n > 1 ? std::sqrt(square / (n - 1) / n) : 0};
}

std::string comparison_table(const Comparison& c) {
    std::vector<std::vector<std::string>> rows(c.methods.size() + 1);
    const auto add = [&](const std::string& title, const std::vector<std::string>& column) {
        if (column.empty()) return;
        rows[0].push_back(title);
        for (size_t k = 0; k < column.size(); ++k) rows[k + 1].push_back(column[k]);
    };
    std::vector<std::string> names, flips, seconds;
    for (const Compared& m : c.methods) {
        names.push_back(m.method);
        flips.push_back(!m.refused.empty() ? "-" : m.keeps_order ? "none" : std::to_string(m.flips));
        seconds.push_back(!m.refused.empty() ? "-"
                                             : fixed(m.seconds, m.seconds < 10 ? 2 : 1) + (m.kept ? " (kept)" : ""));
    }
    add("method", names);
    for (const Column& column : kColumns) add(column.title, cells(c, column));
    add("flips", flips);
    add("fit seconds", seconds);
    return table(rows);
}

std::string comparison_verdict(const Comparison& c) {
    std::string text;
    if (best_of(c, {"nll", "nll", 4}) != nullptr) {
        for (const std::string& sentence :
             {about_classifier(c), about_nll(c), about_local_error(c), about_answers(c), about_impossible(c)}) {
            if (!sentence.empty()) text += (text.empty() ? "" : " ") + sentence;
        }
        text = wrapped(text) + "\n";
    }
    for (const Compared& m : c.methods) {
        for (const std::string& note : m.notes) text += wrapped(m.method + ": " + note) + "\n";
        if (!m.refused.empty()) text += wrapped(m.method + " has no result: " + m.refused) + "\n";
    }
    return text;
}

}  // namespace lc::cli
