// peak.h -- what this machine can do at most, measured here and now: the 100 % of the benchmarks.
#pragma once

namespace bench {

// The highest rate of float32 multiply-adds (two operations each) from registers to registers, in GFLOP/s, with the widest
// vectors of this CPU: the best of many runs of a millisecond during `seconds`.  Threads run at the same time.
double fma_peak(int threads, double seconds = 0.3);

}  // namespace bench
