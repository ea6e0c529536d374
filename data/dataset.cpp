// dataset.cpp -- from arrays of any type to a Dataset, or one sentence that says why not.
#include "data/dataset.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstdio>

namespace lc {

namespace {

constexpr double kRangeTolerance = 1e-6, kSumTolerance = 1e-3;

std::string number(double x) {
    char text[32];
    std::snprintf(text, sizeof text, "%.6g", x);
    return text;
}

// One array of the selected rows, with what its messages need.
struct Matrix {
    const NpyArray* array;
    int64_t first_row, n, columns;
    std::vector<float> x;  // (n, columns)

    const float* row(int64_t i) const { return x.data() + i * columns; }
    [[noreturn]] void refuse_at(int64_t i, const std::string& expected, const std::string& advice) const {
        refuse(array->source, "expected " + expected + ", found " + number(x[size_t(i)]) + " at row " +
                                  std::to_string(first_row + i / columns) + ", column " + std::to_string(i % columns) +
                                  "; " + advice);
    }
};

Matrix read_matrix(const NpyArray& a, Rows rows, const char* what) {
    if (a.shape.size() != 2) {
        const bool one_column = a.shape.size() == 1 && std::string(what) != "features";
        refuse(a.source,
               std::string("expected ") + what + " as a matrix, a row per sample, found shape " + a.shape_text() +
                   (one_column ? "; two classes need two columns: 1 - p and p" : "; reshape it to two dimensions"));
    }
    Matrix m = {&a, rows.begin, rows.end - rows.begin, a.shape[1], a.to_floats(rows.begin, rows.end)};
    for (int64_t i = 0; i < int64_t(m.x.size()); ++i) {
        if (!std::isfinite(m.x[size_t(i)])) m.refuse_at(i, std::string("finite ") + what, "mend or drop that row");
    }
    return m;
}

void check_classes(const Matrix& m) {
    if (m.columns >= 2) return;
    refuse(m.array->source, "expected at least two classes, found shape " + m.array->shape_text() +
                                "; two classes need two columns: 1 - p and p, or 0 and the logit");
}

double row_sum(const Matrix& m, int64_t r) {
    double sum = 0;
    for (int64_t c = 0; c < m.columns; ++c) sum += double(m.row(r)[c]);
    return sum;
}

bool in_range(float p) { return double(p) >= -kRangeTolerance && double(p) <= 1 + kRangeTolerance; }

void check_probs(const Matrix& m) {
    for (int64_t i = 0; i < int64_t(m.x.size()); ++i) {
        if (in_range(m.x[size_t(i)])) continue;
        m.refuse_at(i, "probabilities in [0, 1]", "logits are given by --logits or the name logits");
    }
    for (int64_t r = 0; r < m.n; ++r) {
        if (std::abs(row_sum(m, r) - 1) <= kSumTolerance) continue;
        refuse(m.array->source, "expected probabilities that sum to 1 in every row, found " + number(row_sum(m, r)) +
                                    " in row " + std::to_string(m.first_row + r) +
                                    "; normalise the rows, or give logits");
    }
}

void check_logits(const Matrix& m) {
    if (!std::all_of(m.x.begin(), m.x.end(), in_range)) return;
    for (int64_t r = 0; r < m.n; ++r) {
        if (std::abs(row_sum(m, r) - 1) > kSumTolerance) return;
    }
    refuse(m.array->source,
           "expected logits, found rows that are all in [0, 1] and sum to 1; give them as probabilities, "
           "by --probs or the name probs");
}

// A file may hold both; then one must be the softmax of the other, or it is not clear which is meant.
void check_agreement(const Matrix& logits, const Matrix& probs) {
    if (logits.columns != probs.columns) {
        refuse(probs.array->source, "expected as many classes as the logits have, found " + probs.array->shape_text() +
                                        " and " + logits.array->shape_text() + "; drop one of the two");
    }
    for (int64_t r = 0; r < logits.n; ++r) {
        const float* g = logits.row(r);
        const double largest = double(*std::max_element(g, g + logits.columns));
        double sum = 0;
        for (int64_t c = 0; c < logits.columns; ++c) sum += std::exp(double(g[c]) - largest);
        for (int64_t c = 0; c < logits.columns; ++c) {
            const double p = std::exp(double(g[c]) - largest) / sum;
            if (std::abs(p - double(probs.row(r)[c])) <= kSumTolerance) continue;
            probs.refuse_at(r * probs.columns + c, "the softmax of the logits beside them, here " + number(p),
                            "drop the array that is not meant");
        }
    }
}

void set_scores(Dataset& data, const DatasetArrays& arrays, Rows rows) {
    std::optional<Matrix> logits, probs;
    if (arrays.logits) {
        logits = read_matrix(*arrays.logits, rows, "logits");
        check_classes(*logits);
        check_logits(*logits);
    }
    if (arrays.probs) {
        probs = read_matrix(*arrays.probs, rows, "probabilities");
        check_classes(*probs);
        check_probs(*probs);
    }
    if (logits && probs) check_agreement(*logits, *probs);
    data.C = logits ? logits->columns : probs->columns;
    data.logits = std::move(logits ? logits->x : probs->x);
    if (logits) return;
    data.probs = arrays.probs->to_doubles(rows.begin, rows.end);
    for (float& x : data.logits) x = std::log(std::max(x, FLT_MIN));
}

std::vector<int32_t> read_labels(const NpyArray& a, Rows rows, int64_t C, bool needed) {
    if (a.shape.size() != 1 && !(a.shape.size() == 2 && a.shape[1] == 1)) {
        refuse(a.source,
               "expected one label per sample, found shape " + a.shape_text() +
                   (a.shape.size() == 2 && a.shape[1] == C ? "; turn one-hot rows into labels with argmax" : ""));
    }
    const std::vector<int64_t> wide = a.to_integers(rows.begin, rows.end);
    const auto [low, high] = std::minmax_element(wide.begin(), wide.end());
    const bool from_one = *low >= 1 && *high == C;
    for (size_t i = 0; i < wide.size(); ++i) {
        if (wide[i] >= 0 && wide[i] < C) continue;
        refuse(a.source, "expected labels from 0 to " + std::to_string(C - 1) + ", found " + std::to_string(wide[i]) +
                             " in row " + std::to_string(rows.begin + int64_t(i)) +
                             (from_one ? "; they seem to count from 1: subtract 1" : "; mend or drop that row"));
    }
    if (needed && *low == *high) {
        refuse(a.source, "expected labels of at least two classes, found only class " + std::to_string(*low) +
                             "; take other rows, or shuffle the samples before they are split");
    }
    return {wide.begin(), wide.end()};
}

void check_lengths(const DatasetArrays& arrays, int64_t n, const NpyArray& reference) {
    for (const auto* a : {&arrays.features, &arrays.logits, &arrays.probs, &arrays.labels}) {
        if (!*a || (*a)->rows() == n) continue;
        refuse((*a)->source, "expected as many rows as " + reference.source + " has, " + std::to_string(n) +
                                 ", found " + std::to_string((*a)->rows()) + "; use arrays of the same samples");
    }
}

std::string list_of(const std::map<std::string, NpyArray>& arrays) {
    std::string text;
    for (const auto& [name, a] : arrays) text += (text.empty() ? "" : ", ") + name;
    return text.empty() ? "none" : text;
}

}  // namespace

DatasetArrays pick_arrays(const std::map<std::string, NpyArray>& arrays, const std::string& source) {
    const auto take = [&](const std::string& name, const std::string& alias) -> std::optional<NpyArray> {
        const auto own = arrays.find(name), other = arrays.find(alias);
        if (own != arrays.end() && other != arrays.end() && name != alias) {
            refuse(source, "expected either " + name + " or " + alias + ", found both; drop one");
        }
        const auto found = own != arrays.end() ? own : other;
        return found == arrays.end() ? std::nullopt : std::optional(found->second);
    };
    DatasetArrays picked = {take("features", "features"), take("logits", "logits"), take("probs", "predictions"),
                            take("labels", "ground_truth")};
    if (!picked.logits && !picked.probs) {
        refuse(source, "expected an array 'logits' or 'probs' (and 'features', 'labels'), found " + list_of(arrays) +
                           "; rename the arrays, or name the files one by one: --logits F");
    }
    return picked;
}

void check_dataset(const DatasetArrays& arrays, Needs needs, Rows& rows, const std::string& source) {
    if (!arrays.logits && !arrays.probs) refuse(source, "expected logits or probs, found neither; give one of them");
    if (needs.features && !arrays.features) refuse(source, "expected features, found none; they are needed here");
    if (needs.labels && !arrays.labels) refuse(source, "expected labels, found none; they are needed here");
    const NpyArray& scores = arrays.logits ? *arrays.logits : *arrays.probs;
    const int64_t all = scores.rows();
    check_lengths(arrays, all, scores);
    if (rows.end == -1) rows.end = all;
    if (rows.begin < 0 || rows.begin > rows.end || rows.end > all) {
        refuse(source, "expected rows within 0:" + std::to_string(all) + ", found " + std::to_string(rows.begin) + ":" +
                           std::to_string(rows.end) + "; choose others");
    }
    const int64_t least = needs.labels ? 2 : 1;  // there is nothing to learn from one sample, but it can be predicted
    if (rows.end - rows.begin < least) {
        refuse(source, "expected at least " + std::to_string(least) + (least == 1 ? " sample" : " samples") +
                           ", found " + std::to_string(rows.end - rows.begin) + "; take more rows");
    }
}

Dataset make_dataset(const DatasetArrays& arrays, Needs needs, Rows rows, const std::string& source) {
    check_dataset(arrays, needs, rows, source);
    Dataset data;
    data.n = rows.end - rows.begin;
    data.source = source;
    set_scores(data, arrays, rows);
    if (arrays.features) {
        Matrix m = read_matrix(*arrays.features, rows, "features");
        data.d = m.columns;
        if (data.d == 0) refuse(m.array->source, "expected at least one feature, found shape " + m.array->shape_text());
        data.features = std::move(m.x);
    }
    if (arrays.labels) data.labels = read_labels(*arrays.labels, rows, data.C, needs.labels);
    return data;
}

}  // namespace lc
