// ops.cpp -- every case that its op's list (tests/ops) marks `bench`, on the CPU, against a memcpy of the bytes the op must
// read and write: what an op bound by memory can reach at best.  gemm, which is bound by arithmetic, has gemm.cpp.
//
//     build/release/cuda/bench/ops [--quick]        (`make bench` runs it)
#include <bit>

#include "tests/bench/bandwidth.h"
#include "tests/harness.h"

namespace {

// The operands of a case in backend memory, without the guards that tests put around them.
struct Placed {
    std::vector<lc::Buffer<uint32_t>> buffers;
    test::Device device;

    Placed(const lc::Backend& b, const test::Operands& operands) {
        for (const test::Operand& o : operands) {
            buffers.emplace_back(b, int64_t(o.v.size()));
            uint32_t* const p = buffers.back().data();
            const bool ints = o.type == test::Type::i32;
            for (size_t i = 0; i < o.v.size(); ++i)
                p[i] = ints ? uint32_t(int32_t(o.v[i])) : std::bit_cast<uint32_t>(float(o.v[i]));
            device.pointers.push_back(p);
        }
    }
};

}  // namespace

int main(int argc, char** argv) {
    const lc::Backend& b = *lc::find_backend("cpu");
    bench::Bandwidth table(argc, argv);
    for (const test::Case& c : test::case_lists().cases) {
        if (!c.bench || c.op == "gemm") continue;
        test::Random random(test::seed());
        const Placed placed(b, c.make(random));
        table.row(c.op, c.name, c.bytes, [&] { c.run(b, placed.device); });
    }
}
