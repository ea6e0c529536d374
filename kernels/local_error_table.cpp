// local_error_table.cpp -- see local_error_table.h.
#include "kernels/local_error_table.h"

#include <algorithm>

#include "kernels/check.h"
#include "kernels/parallel.h"

namespace lc::cpu {
namespace {

void check_bins(const char* op, const LocalError& in) {
    for (int64_t k = 0; k < in.n * in.C; ++k) {
        LC_CHECK(in.bin[k] >= -1 && in.bin[k] < kMostBins,
                 op << ": bin[" << k / in.C << ", " << k % in.C << "] = " << in.bin[k] << " is no bin from 0 to "
                    << kMostBins - 1 << ", nor -1 for an entry that is left out; check the binning");
    }
}

std::vector<int32_t> fullest_bins(const LocalError& in) {
    std::vector<int32_t> fullest(size_t(in.C), kNoDenseBin);
    int32_t bins = 0;
    for (int64_t k = 0; k < in.n * in.C; ++k) bins = std::max(bins, in.bin[k] + 1);
    std::vector<int64_t> count(size_t(bins) * size_t(in.C));  // (bins, C)
    for (int64_t i = 0; i < in.n; ++i) {
        for (int64_t c = 0; c < in.C; ++c) {
            const int32_t bin = in.bin[i * in.C + c];
            if (bin >= 0) ++count[size_t(bin * in.C + c)];
        }
    }
    for (int64_t c = 0; c < in.C; ++c) {
        int64_t most = 0;
        for (int32_t bin = 0; bin < bins; ++bin) {
            const int64_t here = count[size_t(bin * in.C + c)];
            if (here > most) most = here, fullest[size_t(c)] = bin;
        }
    }
    return fullest;
}

struct Sparse {  // of one block
    std::vector<SparseEntry> entries;
    std::vector<SparseRun> runs;
    std::vector<SparseClass> classes;
};

// The turned arrays of a block and a class; the entries that are not in its dense bin, in order.
void fill_class(LocalTable& t, const LocalError& in, int64_t block, int64_t c, Sparse& to) {
    float* const residual = t.dense_residual.get() + block * t.C * kBlock;
    int32_t* const bins = t.query_bin.get() + block * t.C * kBlock;
    std::vector<std::pair<int32_t, SparseEntry>> found;  // bin, entry
    for (int64_t j = 0; j < kBlock; ++j) {
        const int64_t k = (block * kBlock + j) * t.C + c;
        const bool there = j < t.rows(block), dense = there && in.bin[k] == t.dense[size_t(c)];
        residual[c * kBlock + j] = dense ? in.residual[k] : 0.0f;
        bins[place(c, j, t.C)] = there && in.bin[k] >= 0 ? in.bin[k] : kNoQuery;
        if (!there || dense) continue;
        found.push_back({in.bin[k], {int32_t(j), in.residual[k]}});
        const int64_t group = block * (kBlock / kGroup) + j / kGroup;
        if (in.bin[k] >= 0) t.bins_present[size_t(group * t.C + c)] |= uint64_t(1) << (in.bin[k] % 64);
    }
    if (found.empty()) return;
    std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    to.classes.push_back({int32_t(c), int64_t(to.runs.size()), 0});
    for (size_t k = 0; k < found.size(); ++k) {
        if (k == 0 || found[k].first != found[k - 1].first) {
            to.runs.push_back({found[k].first, int64_t(to.entries.size()), 0});
        }
        to.entries.push_back(found[k].second);
        to.runs.back().end = int64_t(to.entries.size());
    }
    to.classes.back().end = int64_t(to.runs.size());
}

void append(LocalTable& t, const Sparse& s) {
    const int64_t entries = int64_t(t.sparse.size()), runs = int64_t(t.runs.size());
    t.sparse.insert(t.sparse.end(), s.entries.begin(), s.entries.end());
    for (const SparseRun& r : s.runs) t.runs.push_back({r.bin, r.begin + entries, r.end + entries});
    for (const SparseClass& c : s.classes) t.classes.push_back({c.c, c.begin + runs, c.end + runs});
    t.first_class.push_back(int64_t(t.classes.size()));
}

}  // namespace

LocalTable make_local_table(const char* op, const LocalError& in) {
    check_bins(op, in);
    LocalTable t;
    t.n = in.n, t.C = in.C, t.blocks = ceil_div(in.n, kBlock);
    t.dense = fullest_bins(in);
    const size_t padded = size_t(t.blocks * t.C * kBlock);
    t.dense_residual = hwy::AllocateAligned<float>(padded);
    t.query_bin = hwy::AllocateAligned<int32_t>(padded);
    LC_CHECK(t.dense_residual && t.query_bin, op << ": out of memory: " << padded * 8 << " bytes; score fewer rows");
    t.bins_present.assign(size_t(t.blocks * (kBlock / kGroup) * t.C), 0);
    std::vector<Sparse> sparse(size_t(t.blocks));
    for_each_chunk(t.blocks, 1, [&](int64_t block, int64_t end) {
        for (; block < end; ++block) {
            for (int64_t c = 0; c < t.C; ++c) fill_class(t, in, block, c, sparse[size_t(block)]);
        }
    });
    t.first_class.push_back(0);
    for (const Sparse& s : sparse) append(t, s);
    return t;
}

}  // namespace lc::cpu
