// torch_tensors.h -- from the object that torch.save pickled to named tensors.
//
// Unwraps  a dictionary under "state_dict", "model_state_dict", "model" or "net" that holds tensors, also one in the
//          other; the prefix "module." where all names have it (nn.DataParallel).  Numbers and texts met on the way are metadata; other
//          things beside the tensors, such as the optimizer's state, are named there as left out.
// Tensors  F64 F32 F16 BF16 I64 I32 I16 I8 U8 BOOL; parameters too.  A view that is not contiguous is copied.
// Hostile  every view is checked against its storage.  Copies together are no larger than the file (and 1 MiB): an
//          expanded or often repeated view cannot ask for more.
#pragma once
#include <functional>

#include "data/pickle.h"
#include "data/weights.h"

namespace lc {

std::span<const std::string_view> torch_globals();  // the functions and classes that such a pickle may name

struct StorageId {
    std::string_view key;
    std::string_view dtype;  // "F32"
    int itemsize = 0;        // bytes
    int64_t count = 0;       // elements; count * itemsize fits 64 bits
};
StorageId storage_id(const Pickle& pickle, const PickleValue& persistent, const std::string& source);

// All count * itemsize bytes of a storage; refuses one that the file has not.
using FindStorage = std::function<std::span<const std::byte>(const StorageId& id)>;

Weights torch_weights(const Pickle& pickle, const FindStorage& storage, size_t file_size, const std::string& path,
                      std::shared_ptr<const void> keeps_alive);

}  // namespace lc
