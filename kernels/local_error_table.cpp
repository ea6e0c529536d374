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

// The turned arrays of a block, and its sparse entries in order.
void fill_block(LocalTable& t, const LocalError& in, int64_t block, std::vector<SparseEntry>& entries,
                std::vector<SparseRun>& runs) {
    float* const residual = t.dense_residual.get() + block * t.C * kBlock;
    int32_t* const bins = t.query_bin.get() + block * t.C * kBlock;
    std::vector<std::pair<int32_t, SparseEntry>> of_class;  // bin, entry
    for (int64_t c = 0; c < t.C; ++c) {
        of_class.clear();
        for (int64_t j = 0; j < kBlock; ++j) {
            const int64_t k = (block * kBlock + j) * t.C + c;
            const bool there = j < t.rows(block), dense = there && in.bin[k] == t.dense[size_t(c)];
            residual[c * kBlock + j] = dense ? in.residual[k] : 0.0f;
            bins[c * kBlock + j] = there && in.bin[k] >= 0 ? in.bin[k] : kNoQuery;
            if (there && !dense) of_class.push_back({in.bin[k], {int32_t(j), in.residual[k]}});
        }
        std::stable_sort(of_class.begin(), of_class.end(), [](auto& a, auto& b) { return a.first < b.first; });
        for (const auto& [bin, entry] : of_class) {
            const bool again = !runs.empty() && runs.back().c == c && runs.back().bin == bin;
            if (!again) runs.push_back({int32_t(c), bin, int64_t(entries.size()), 0});
            entries.push_back(entry);
            runs.back().end = int64_t(entries.size());
        }
    }
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
    std::vector<std::vector<SparseEntry>> entries(size_t(t.blocks));
    std::vector<std::vector<SparseRun>> runs(size_t(t.blocks));
    for_each_chunk(t.blocks, 1, [&](int64_t block, int64_t end) {
        for (; block < end; ++block) fill_block(t, in, block, entries[size_t(block)], runs[size_t(block)]);
    });
    for (size_t block = 0; block < size_t(t.blocks); ++block) {
        t.first_run.push_back(int64_t(t.runs.size()));
        const int64_t shift = int64_t(t.sparse.size());
        for (const SparseRun& r : runs[block]) t.runs.push_back({r.c, r.bin, r.begin + shift, r.end + shift});
        t.sparse.insert(t.sparse.end(), entries[block].begin(), entries[block].end());
    }
    t.first_run.push_back(int64_t(t.runs.size()));
    return t;
}

}  // namespace lc::cpu
