// local_error_table.h -- how the CPU files of local_error.h see the rows: in blocks of kRefs, turned round, and with one
// bin of each class told apart.
//
// With many classes nearly every probability is small, and nearly all entries of a class fall in one bin.  That is its
// dense bin.  Sums over it are a matrix product; only the other entries, a few per row, are visited one by one:
//
//     in the dense bin    sum_j w_ij r_jc  =  (W R)_ic                  R: the residuals, 0 outside the dense bins
//                         sum_j w_ij       =  all - missing             missing: of rows j that are not in it
//     in another bin      what row j gives, where bin_jc = bin_ic       for the sparse entries (j, c) alone
//
// all and missing are sums in double of the very same float32 numbers: their difference is right to n 2^-53 of them,
// where kLeastWeight asks for 1e-6.  Squares can be much smaller than that against all: see kCancelled.
#pragma once
#include <algorithm>
#include <cstdint>
#include <hwy/aligned_allocator.h>
#include <limits>
#include <vector>

#include "kernels/local_error.h"

namespace lc::cpu {

constexpr int64_t kBlock = 192;      // rows of a block: the references of a tile (nw_kernel.h)
constexpr int32_t kNoQuery = -2;     // bin of an entry that is left out, as a query: equal to no reference's
constexpr int32_t kNoDenseBin = -3;  // of a class whose entries are all left out

// Arrays (C, kBlock) over the queries of a block are kept as (kBlock / kGroup, C, kGroup): what a panel of queries walks
// over, class after class, then lies close together.
constexpr int64_t kGroup = 32;
constexpr int64_t place(int64_t c, int64_t lane, int64_t C) { return (lane / kGroup * C + c) * kGroup + lane % kGroup; }

// h of w = exp(h D).  Neither 0 nor infinite, so that the distance 0 of a row to itself has weight 1, and the infinite one
// of a row that is left out weight 0, for every gamma.
inline float exponent_of(float gamma) {
    constexpr double kLeast = std::numeric_limits<float>::min(), kMost = std::numeric_limits<float>::max();
    return -float(std::clamp(0.5 / (double(gamma) * double(gamma)), kLeast, kMost));
}

struct SparseEntry {
    int32_t j;  // row within its block
    float r;
};

// The sparse entries of a block that share class and bin.  Bin -1 is left out: it is nobody's, and not in the dense bin.
struct SparseRun {
    int32_t bin;
    int64_t begin, end;  // entries
};

// The runs of one class in a block.
struct SparseClass {
    int32_t c;
    int64_t begin, end;  // runs
};

struct LocalTable {
    int64_t n = 0, C = 0, blocks = 0;
    std::vector<int32_t> dense;                         // (C): the fullest bin of each class
    std::vector<SparseEntry> sparse;                    // block after block, sorted by class, bin and row
    std::vector<SparseRun> runs;                        // of them
    std::vector<SparseClass> classes;                   // of them
    std::vector<int64_t> first_class;                   // (blocks + 1)
    std::vector<uint64_t> bins_present;                 // (blocks, kBlock / kGroup, C): bit bin % 64, of sparse entries
    hwy::AlignedFreeUniquePtr<float[]> dense_residual;  // (blocks, C, kBlock): r in the dense bins, else 0
    hwy::AlignedFreeUniquePtr<int32_t[]> query_bin;     // (blocks, C, kBlock), by place()

    int64_t rows(int64_t block) const { return std::min(kBlock, n - block * kBlock); }
    const float* residual_of(int64_t block) const { return dense_residual.get() + block * C * kBlock; }
    const int32_t* bins_of(int64_t block) const { return query_bin.get() + block * C * kBlock; }
    const uint64_t* present_in(int64_t block, int64_t lane) const {  // (C)
        return bins_present.data() + (block * (kBlock / kGroup) + lane / kGroup) * C;
    }
};

// Where so little is left of all that rounding shows, the few entries concerned are summed again, one by one.
constexpr double kCancelled = 1e-7;

// A sum over the neighbours of the queries of a block, of something that each pair has: its weight, the square of it, ...
struct PairSum {
    double* same;     // (C, kBlock) by place(): over the query's bin, where that is not the dense one
    double* missing;  // (C, kBlock) by place(): over references outside the dense bin
    double* all;      // (kBlock): over all references

    double of(int64_t at, int64_t lane, bool dense) const { return dense ? all[lane] - missing[at] : same[at]; }
    bool cancelled(int64_t at, int64_t lane) const { return all[lane] - missing[at] < kCancelled * all[lane]; }
};

// What is known so far about the queries of a block.
struct LocalSums {
    double* product;         // (C, kBlock) by place(): of w r, over the query's bin
    PairSum weight, square;  // of w and w^2
    PairSum spread;          // of w |phi_i - phi_j|_1
    bool squares, spreads;   // whether the last two are wanted

    static int64_t doubles(int64_t C, bool squares, bool spreads) {
        return (C + (1 + squares + spreads) * (2 * C + 1)) * kBlock;
    }
    LocalSums(double* memory, int64_t C, bool squares_too, bool spreads_too)
        : product(memory), squares(squares_too), spreads(spreads_too) {
        double* next = memory + C * kBlock;
        const auto take = [&](bool wanted) {
            const PairSum sum = {next, next + C * kBlock, next + 2 * C * kBlock};
            if (wanted) next += (2 * C + 1) * kBlock;
            return sum;
        };
        weight = take(true), square = take(squares), spread = take(spreads);
    }
};

// Refuses a bin outside -1 .. kMostBins - 1.
LocalTable make_local_table(const char* op, const LocalError& in);

}  // namespace lc::cpu
