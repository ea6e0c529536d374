// Speed of softmax and its relatives: few classes and many, and the widths around which the kernels change their way.
#include "tests/bench/bandwidth.h"

int main(int argc, char** argv) {
    const lc::Backend& b = *lc::find_backend("cpu");
    bench::Bandwidth table(argc, argv);
    for (int64_t C : {2, 10, 32, 64, 65, 100, 128, 1000, 1001}) {
        const int64_t N = 10000000 / C;
        lc::Buffer<float> x(b, N * C), y(b, N * C), log_y(b, N * C), dx(b, N * C);
        bench::fill(x);
        const std::string size = bench::shape(N, C);
        const double one = 4.0 * double(N * C);  // bytes of an array
        table.row("softmax", size, 2 * one, [&] { b.softmax(y.data(), x.data(), N, C, nullptr); });
        table.row("log_softmax", size, 2 * one, [&] { b.log_softmax(log_y.data(), x.data(), N, C, nullptr); });
        table.row("softmax_bwd", size, 3 * one, [&] { b.softmax_bwd(dx.data(), x.data(), y.data(), N, C, nullptr); });
        table.row("log_softmax_bwd", size, 3 * one,
                  [&] { b.log_softmax_bwd(dx.data(), x.data(), log_y.data(), N, C, nullptr); });
    }
}
