// torch_file.h -- what torch.save writes: .pth, .pt, .th, whatever the name.  Nothing in the file is ever run (pickle.h).
//
// Zip      (PyTorch 1.6 and later) entries NAME/data.pkl: the pickled object, in which a tensor is a view (offset, sizes,
//          strides) of a storage named by its key; NAME/data/KEY: the storages' bytes; NAME/byteorder.  torch.save does
//          not compress, so compressed entries are refused, and with them every zip bomb.
// Older    five pickles one after another (magic number, format's version, facts about the machine, the object, list of
//          the storages' keys), then for each key 8 bytes of count and the storage's bytes.
// Gives    the tensors of a dictionary; torch_tensors.h says what is unwrapped on the way there.
#pragma once
#include "data/weights.h"

namespace lc {

// A zip archive with data.pkl, or a pickle.  Refuses a damaged archive.
bool looks_like_torch(std::span<const std::byte> file, const std::string& path);
Weights parse_torch(std::span<const std::byte> file, const std::string& path, std::shared_ptr<const void> keeps_alive);

}  // namespace lc
