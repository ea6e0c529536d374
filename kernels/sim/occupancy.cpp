// occupancy.cpp -- how many blocks of a kernel fit on one multiprocessor of a GPU that is not here.
//
//     input, one kernel a line:   arch registers static_smem dynamic_smem threads         80 114 33280 0 256
//     output, a line each:        blocks warps percent limits                             2 16 25 registers
//
// The rules are NVIDIA's: cuda_occupancy.h of the toolkit, which needs neither a GPU nor the CUDA runtime, only the
// properties of the device.  Those are in the table below, from the CUDA C++ Programming Guide, "Technical
// specifications per compute capability".  Built and asked by resources.py; not part of any program.
#include <cstdio>
#include <cuda_occupancy.h>
#include <string>

namespace {

constexpr size_t KiB = 1024;

struct Gpu {
    const char* name;
    int arch, threads_per_sm, sms;
    size_t smem_per_sm;  // a block may have all of it but 1 KiB, which the driver keeps for itself
};
constexpr Gpu kGpus[] = {
    {"A100", 80, 2048, 108, 164 * KiB},
    {"RTX 3090", 86, 1536, 82, 100 * KiB},
    {"RTX 4090", 89, 1536, 128, 100 * KiB},
    {"H100 SXM", 90, 2048, 132, 228 * KiB},
};

const Gpu* find_gpu(int arch) {
    for (const Gpu& g : kGpus) {
        if (g.arch == arch) return &g;
    }
    return nullptr;
}

cudaOccDeviceProp properties(const Gpu& g) {
    cudaOccDeviceProp p;
    p.computeMajor = g.arch / 10;
    p.computeMinor = g.arch % 10;
    p.maxThreadsPerBlock = 1024;
    p.maxThreadsPerMultiprocessor = g.threads_per_sm;
    p.regsPerBlock = p.regsPerMultiprocessor = 64 * 1024;
    p.warpSize = 32;
    p.sharedMemPerBlock = 48 * KiB;
    p.sharedMemPerMultiprocessor = g.smem_per_sm;
    p.sharedMemPerBlockOptin = g.smem_per_sm - KiB;
    p.reservedSharedMemPerBlock = KiB;
    p.numSms = g.sms;
    return p;
}

std::string limits(unsigned factors) {
    std::string text;
    const auto add = [&](unsigned bit, const char* name) {
        if (factors & bit) text += (text.empty() ? "" : ",") + std::string(name);
    };
    add(OCC_LIMIT_WARPS, "warps");
    add(OCC_LIMIT_REGISTERS, "registers");
    add(OCC_LIMIT_SHARED_MEMORY, "shared");
    add(OCC_LIMIT_BLOCKS, "blocks");
    add(OCC_LIMIT_BARRIERS, "barriers");
    return text.empty() ? "none" : text;
}

}  // namespace

int main() {
    int arch, registers, threads;
    size_t static_smem, dynamic_smem;
    while (std::scanf("%d %d %zu %zu %d", &arch, &registers, &static_smem, &dynamic_smem, &threads) == 5) {
        const Gpu* gpu = find_gpu(arch);
        if (gpu == nullptr) {
            std::fprintf(stderr, "occupancy: no GPU of sm_%d in the table\n", arch);
            return 2;
        }
        const cudaOccDeviceProp device = properties(*gpu);
        cudaOccFuncAttributes kernel;
        kernel.maxThreadsPerBlock = threads;
        kernel.numRegs = registers;
        kernel.sharedSizeBytes = static_smem;
        kernel.maxDynamicSharedSizeBytes = dynamic_smem;
        kernel.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
        kernel.numBlockBarriers = 1;
        const cudaOccDeviceState state;  // no preference between shared memory and L1: the driver's default
        cudaOccResult r;
        const cudaOccError e =
            cudaOccMaxActiveBlocksPerMultiprocessor(&r, &device, &kernel, &state, threads, dynamic_smem);
        if (e != CUDA_OCC_SUCCESS) {
            std::fprintf(stderr, "occupancy: cuda_occupancy.h refuses sm_%d, %d registers, %d threads (error %d)\n",
                         arch, registers, threads, int(e));
            return 2;
        }
        const int warps = r.activeBlocksPerMultiprocessor * ((threads + 31) / 32), slots = gpu->threads_per_sm / 32;
        const int percent = (200 * warps + slots) / (2 * slots);  // rounded, a half upwards
        std::printf("%d %d %d %s\n", r.activeBlocksPerMultiprocessor, warps, percent,
                    limits(r.limitingFactors).c_str());
    }
}
