// local_error_null.cu -- CUDA backend of local_error_null (contract: local_error_null.h; tiles and threads: nw_smooth.cuh).
//
// Idea     the sums of w and w p do not depend on the labels: the walk of local_error.cu leaves them in the workspace.
//          Then a block owns 64 queries and kSets sets of labels and walks over all rows again.  A set gives every row
//          one class, so a pair costs one addition per set: of w to (query, set, class), where the bins agree.  At the
//          end the block has e of its queries, and reduces it to one total and one maximum per set and class; a last
//          kernel joins these over the tiles of queries, in their order.
// Launch   walk: grid = (tiles of a slice, ceil(B / kSets)), block = 256; join: a thread per set and class.
//          More sets per block would save distances, fewer give more blocks: the workspace holds kSliceBytes / (512 C
//          kSets) of them at once.
// Owners   thread (lane, group) owns the sums of its query and of every fourth set: no atomics, one order.  A warp has
//          one set and one row at a time, hence one class and 32 neighbouring sums; lanes in another bin sit out.  (The
//          simulator runs threads one by one and takes the turns they sit out for others': its profile overstates the
//          sectors of that line.)
// Shared   30 KiB: two slices of 16 features, the weights, classes and their bins of 64 rows in 8 sets.
// Traffic  a pair and set reads and writes a sum, 16 B, in the few KiB of a set that stay in L1; writes pass on to L2.
//          The bin that a row has in its class is gathered, once per block, row and set: a sector each, by nature.
// Numbers  float32, sums over rows in two floats; total in double over the tiles.
// Profile  `make sim-profile OP=local_error_null`
#include "kernels/local_error.cuh"
#include "kernels/local_error_common.h"
#include "kernels/local_error_null.h"

namespace lc::LC_CUDA_NS {

constexpr int kSets = 32;   // sets of labels of a block
constexpr int kStaged = 8;  // of these in shared memory at a time
static_assert(kSets % kStaged == 0 && kStaged % kGroups == 0, "a set belongs to one block and to one group of threads");

struct NullLabels {
    const int32_t* x;  // (B, n)
    int64_t B;
};

struct NullParts {    // results of the tiles of a slice
    float* total;     // (tiles, B, C)
    float* largest;   // (tiles, B, C)
    float* row_most;  // (tiles, B)
};

// classes, bins (kStaged, kSide): what the sets b .. say about rows j ..; the bin is that of the row in this class, -1
// where there is no such row, set or class.
__device__ __forceinline__ void stage_labels(int* classes, int* bins, const LocalError& in, const NullLabels& labels,
                                             int64_t b, int64_t j) {
    for (int e = int(threadIdx.x); e < kStaged * kSide; e += kNwBlock) {
        const int64_t set = b + e / kSide, row = j + e % kSide;
        const int label = set < labels.B && row < in.n ? labels.x[set * in.n + row] : -1;
        const bool known = label >= 0 && label < in.C;
        classes[e] = known ? label : 0;
        bins[e] = known ? in.bin[row * in.C + label] : -1;
    }
}

// found (kStaged, C, 2, kSide) += the weights of the tile, each for the class of its row; the sets of this thread.
__device__ __forceinline__ void add_labels(float* found, const float* weights, const int* classes, const int* bins,
                                           const int* own, int64_t C, int rows) {
    const NwThread t = nw_thread();
    for (int set = t.group; set < kStaged; set += kGroups) {
        float* const of_set = found + set * C * (2 * kSide) + t.lane;
        for (int r = 0; r < rows; ++r) {
            const int c = classes[set * kSide + r];
            if (own[c * kSide + t.lane] != bins[set * kSide + r]) continue;
            float* const at = of_set + c * (2 * kSide);
            store_sum(at, load_sum(at).plus(weights[r * kPitch + t.lane]));
        }
    }
}

// |e| of one query, set and class, from the sums of w, w p and w [label = c].
__device__ __forceinline__ float null_error(const float* sums, const float* found) {
    const LongSum p = load_sum(sums + 2 * kSide), y = load_sum(found);
    const float weight = load_sum(sums).value(), difference = (p.sum - y.sum) + (p.rest - y.rest);
    return weight < kLeastWeight ? 0.0f : fabsf(difference / weight);  // a NaN stays
}

// A warp reduces one set: lane l has queries l and l + 32, and keeps class c0 + l.
__device__ __forceinline__ void reduce_set(const NullParts& parts, int64_t place, const float* sums, const float* found,
                                           int64_t C) {
    const int lane = int(threadIdx.x) % kWarp;
    float row = 0.0f, other_row = 0.0f;
    for (int64_t c0 = 0; c0 < C; c0 += kWarp) {
        float total = 0.0f, largest = 0.0f;
        for (int64_t c = c0; c < C && c < c0 + kWarp; ++c) {
            const float* const of_p = sums + c * (4 * kSide) + lane;
            const float* const of_y = found + c * (2 * kSide) + lane;
            const float e = null_error(of_p, of_y), other = null_error(of_p + kWarp, of_y + kWarp);
            row += e;
            other_row += other;
            const float sum = warp_sum(e + other), most = warp_reduce<MaxOf>(MaxOf::join(e, other), kWarp);
            if (c - c0 == lane) total = sum, largest = most;
        }
        if (c0 + lane < C) {
            parts.total[place * C + c0 + lane] = total;
            parts.largest[place * C + c0 + lane] = largest;
        }
    }
    row = warp_reduce<MaxOf>(MaxOf::join(row, other_row), kWarp);
    if (lane == 0) parts.row_most[place] = row;
}

__global__ void __launch_bounds__(kNwBlock, 3)
    local_error_null_kernel(NullParts parts, float* found, LocalSums of_slice, LocalError in, NullLabels labels,
                            int64_t first_tile) {
    LC_NW_SHARED(s);
    LC_SHARED(int, classes, [kStaged * kSide]);
    LC_SHARED(int, bins, [kStaged * kSide]);
    const NwThread t = nw_thread();
    const NwRows Z = {in.Z, in.n};
    const int64_t first = (first_tile + blockIdx.x) * kSide, b_first = int64_t(blockIdx.y) * kSets;
    const int64_t b_end = labels.B - b_first < kSets ? labels.B : b_first + kSets;
    const int64_t place = blockIdx.x * labels.B, of_set = in.C * (2 * kSide);
    const int* const own = of_slice.own + blockIdx.x * in.C * kSide;
    float* const mine = found + place * of_set;  // (B, C, 2, kSide)
    for (int64_t b = b_first + t.group; b < b_end; b += kGroups) {
        for (int64_t e = t.lane; e < of_set; e += kSide) mine[b * of_set + e] = 0.0f;
    }
    for (int64_t j = 0; j < in.n; j += kSide) {
        const NwCells D = distances<SquareOf>(s, Z, first, Z, j, in.d);
        for (int64_t b = b_first; b < b_end; b += kStaged) {
            __syncthreads();  // the weights and the labels before may still be read
            if (b == b_first) store_weights(s.D, D, inverse_of(in.gammas[0]), !in.include_self && j == first);
            stage_labels(classes, bins, in, labels, b, j);
            __syncthreads();
            add_labels(mine + b * of_set, s.D, classes, bins, own, in.C, tile_rows(in.n, j));
        }
    }
    __syncthreads();  // the sums of all sets are complete
    const float* const sums = of_slice.sums + blockIdx.x * in.C * (4 * kSide);
    for (int64_t b = b_first + threadIdx.x / kWarp; b < b_end; b += kNwBlock / kWarp) {
        reduce_set(parts, place + b, sums, mine + b * of_set, in.C);
    }
}

// Joins the tiles of a slice to what the slices before gave.  totals (B, C).
__global__ void __launch_bounds__(kRowBlock)
    local_error_null_join_kernel(LocalErrorNull out, double* totals, NullParts parts, LocalSlice slice, int64_t B,
                                 int64_t C) {
    const int64_t e = int64_t(blockIdx.x) * kRowBlock + threadIdx.x;
    const bool fresh = slice.first == 0;
    if (e < B * C) {
        double total = fresh ? 0.0 : totals[e];
        float largest = fresh ? 0.0f : out.largest[e];
        for (int64_t t = 0; t < slice.tiles; ++t) {
            total += double(parts.total[t * B * C + e]);
            largest = MaxOf::join(largest, parts.largest[t * B * C + e]);
        }
        totals[e] = total;
        out.total[e] = float(total);
        out.largest[e] = largest;
    }
    if (e < B) {
        float most = fresh ? 0.0f : out.row_most[e];
        for (int64_t t = 0; t < slice.tiles; ++t) most = MaxOf::join(most, parts.row_most[t * B + e]);
        out.row_most[e] = most;
    }
}

void local_error_null(const LocalErrorNull& out, const LocalError& in, const int32_t* labels, int64_t B,
                      const Progress& progress, Stream s) {
    check_local_error_null(out, in, labels, B);
    const int64_t BC = B * in.C, own = in.C * kSide, sums = 4 * own, found = 2 * B * own;  // of a tile
    const int64_t tiles = slice_tiles(in.n, (own + sums + found + 2 * BC + B) * int64_t(sizeof(float)));
    const Workspace<float> of_slice(tiles * sums, s), of_labels(tiles * found, s), results(tiles * (2 * BC + B), s);
    const Workspace<int> own_bins(tiles * own, s);
    const Workspace<double> totals(BC, s);
    const LocalSums known = {of_slice.data(), own_bins.data()};
    float* const x = results.data();
    const NullParts parts = {x, x + tiles * BC, x + 2 * tiles * BC};
    for_slices(in.n, tiles, progress, s, [&](LocalSlice slice) {
        local_error_sums(known, in, 2, slice, s);
        const dim3 grid(unsigned(slice.tiles), unsigned(ceil_div(B, kSets)));
        LC_LAUNCH(local_error_null_kernel, grid, kNwBlock, 0, s, parts, of_labels.data(), known, in,
                  NullLabels{labels, B}, slice.first);
        LC_LAUNCH(local_error_null_join_kernel, grid_of(ceil_div(BC, kRowBlock)), kRowBlock, 0, s, out, totals.data(),
                  parts, slice, B, in.C);
    });
}

}  // namespace lc::LC_CUDA_NS
