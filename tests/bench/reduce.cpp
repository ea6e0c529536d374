// Speed of the reductions: tall, wide and square matrices, along both axes.
#include "tests/bench/bandwidth.h"

int main(int argc, char** argv) {
    using lc::Reduction;
    const lc::Backend& b = *lc::find_backend("cpu");
    bench::Bandwidth table(argc, argv);
    for (auto [N, C] :
         {std::pair<int64_t, int64_t>{1000000, 10}, {10, 1000000}, {4096, 4096}, {10000, 1000}, {1000000, 1}}) {
        lc::Buffer<float> x(b, N * C), out(b, N + C);
        lc::Buffer<int32_t> place(b, N + C);
        bench::fill(x);
        const std::string size = bench::shape(N, C);
        const auto both = [&, N = N, C = C](const char* name, const auto& rows, const auto& columns) {
            table.row(std::string("row ") + name, size, 4.0 * double(N * C + N), [&] { rows(N, C); });
            table.row(std::string("col ") + name, size, 4.0 * double(N * C + C), [&] { columns(N, C); });
        };
        for (auto [name, how] : {std::pair{"sum", Reduction::sum}, {"max", Reduction::max}}) {
            both(
                name, [&, how = how](int64_t n, int64_t c) { b.row_reduce(out.data(), x.data(), n, c, how, nullptr); },
                [&, how = how](int64_t n, int64_t c) { b.col_reduce(out.data(), x.data(), n, c, how, nullptr); });
        }
        both(
            "argmax", [&](int64_t n, int64_t c) { b.row_argmax(place.data(), x.data(), n, c, nullptr); },
            [&](int64_t n, int64_t c) { b.col_argmax(place.data(), x.data(), n, c, nullptr); });
    }
}
