// fuzz_pickle.cpp -- libFuzzer target: a pickle is refused with lc::Error, or becomes tensors within their storages.  The
// same code as in fuzz_torch.cpp, without the checksums of a zip archive, which mutations never get right.
#include "data/torch_tensors.h"
#include "tests/fuzz/weights.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    static const std::vector<std::byte> zeros(1 << 12);
    const auto storage = [](const lc::StorageId& id) {
        if (id.count > int64_t(zeros.size()) / id.itemsize) lc::refuse("fuzz", "no such storage");
        return std::span(zeros).first(size_t(id.count * id.itemsize));
    };
    lc::read_or_refuse([&] {
        const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
        const lc::Pickle pickle = lc::unpickle(bytes, lc::torch_globals(), "fuzz");
        lc::demand(pickle.size <= size && pickle.values.size() <= size, "there are more values than bytes");
        lc::read_values(lc::torch_weights(pickle, storage, size, "fuzz", nullptr), zeros.size());
    });
    return 0;
}
