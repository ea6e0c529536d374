// Speed of the elementwise ops: inside the caches and beyond them.
#include "tests/bench/bandwidth.h"

int main(int argc, char** argv) {
    const lc::Backend& b = *lc::find_backend("cpu");
    bench::Bandwidth table(argc, argv);
    for (int64_t n : {int64_t(1) << 14, int64_t(1) << 18, int64_t(1) << 24}) {
        lc::Buffer<float> x(b, n), y(b, n), out(b, n);
        bench::fill(x);
        bench::fill(y);
        const std::string size = std::to_string(n);
        const double one = 4.0 * double(n);  // bytes of an array
        table.row("add", size, 3 * one, [&] { b.add(out.data(), x.data(), y.data(), n, nullptr); });
        table.row("add in place", size, 3 * one, [&] { b.add(out.data(), out.data(), y.data(), n, nullptr); });
        table.row("scale", size, 2 * one, [&] { b.scale(out.data(), x.data(), 2.0f, n, nullptr); });
        table.row("relu", size, 2 * one, [&] { b.relu(out.data(), x.data(), n, nullptr); });
        table.row("relu_bwd", size, 3 * one, [&] { b.relu_bwd(out.data(), x.data(), y.data(), n, nullptr); });
        table.row("dropout", size, 2 * one, [&] { b.dropout(out.data(), x.data(), 0.3f, {1, 2}, n, nullptr); });
    }
    for (auto [N, C] : {std::pair<int64_t, int64_t>{1000000, 10}, {100000, 100}, {10000, 1000}, {10000, 1001}}) {
        lc::Buffer<float> x(b, N * C), bias(b, C), out(b, N * C);
        bench::fill(x);
        bench::fill(bias);
        table.row("bias", bench::shape(N, C), 8.0 * double(N * C),
                  [&, N = N, C = C] { b.bias(out.data(), x.data(), bias.data(), N, C, nullptr); });
    }
}
