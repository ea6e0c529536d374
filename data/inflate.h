// inflate.h -- what deflate packed, unpacked by zlib: entries of zip archives, and .gz files.
//
// Hostile  deflate packs at most 1032 : 1, so data that claim more are refused before memory is asked for; data that
//          unpack to more or fewer bytes than they claim, or end before the packed bytes do, are refused too.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace lc {

enum class Wrapping { none, gzip };  // what is around the packed data: nothing, or gzip's header and checksum

// `damaged` says what the bytes should have been, with the file's name; it must not return.
using Damaged = void (*)(const std::string& source, const std::string& what);

std::shared_ptr<std::byte[]> inflate_all(std::span<const std::byte> packed, uint64_t size, Wrapping wrapping,
                                         const std::string& source, Damaged damaged);

}  // namespace lc
