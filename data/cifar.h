// cifar.h -- CIFAR-10 and CIFAR-100 as their author publishes them for C programs (cs.toronto.edu/~kriz/cifar.html).
//
//     CifarImages x = read_cifar(Cifar::ten, "cifar-10-batches-bin", "test");
//
// Format   CIFAR-10: data_batch_1.bin ... data_batch_5.bin (train), test_batch.bin; a record is label, 3072 bytes.
//          CIFAR-100: train.bin, test.bin; a record is coarse label (of 20), fine label (of 100), 3072 bytes.
//          The bytes are (3, 32, 32): all of red, all of green, all of blue.
// Refused  files that are not whole records or hold none, labels out of range, batches of different lengths.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace lc {

enum class Cifar { ten, hundred };

struct CifarImages {
    int64_t n = 0;
    std::vector<uint8_t> pixels;  // (n, 32, 32, 3)
    std::vector<int32_t> labels;  // (n); the fine ones of CIFAR-100
};

constexpr int64_t kCifarSide = 32;

// `where` is the folder of the files, or the folder that has it as cifar-10-batches-bin or cifar-100-binary; `split` is
// train or test.
CifarImages read_cifar(Cifar kind, const std::string& where, const std::string& split);
CifarImages read_cifar_file(Cifar kind, const std::string& path);  // one file
CifarImages parse_cifar(Cifar kind, std::span<const std::byte> file, const std::string& source);

}  // namespace lc
