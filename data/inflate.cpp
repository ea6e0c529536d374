// inflate.cpp -- see inflate.h.
#include "data/inflate.h"

#include <algorithm>
#include <new>
#include <zlib.h>

namespace lc {

std::shared_ptr<std::byte[]> inflate_all(std::span<const std::byte> packed, uint64_t size, Wrapping wrapping,
                                         const std::string& source, Damaged damaged) {
    constexpr uint64_t kMaxRatio = 1032;  // 258 bytes for two bits, https://zlib.net/zlib_tech.html
    if (size / kMaxRatio > packed.size()) damaged(source, "it claims to unpack to more than deflate can pack");
    // Not zeroed: memory that an entry claims but does not fill is never touched, and so never taken.
    std::shared_ptr<std::byte[]> out(new std::byte[size + 1]);  // one more, to notice that there is more
    z_stream z = {};
    if (inflateInit2(&z, wrapping == Wrapping::gzip ? 16 + MAX_WBITS : -MAX_WBITS) != Z_OK) throw std::bad_alloc();
    const std::unique_ptr<z_stream, decltype(&inflateEnd)> owner(&z, &inflateEnd);
    constexpr uint64_t kPiece = 1 << 30;  // zlib counts in 32 bits
    uint64_t taken = 0, made = 0;
    int status = Z_OK;
    while (status == Z_OK) {
        const uint64_t in = std::min(kPiece, packed.size() - taken), room = std::min(kPiece, size + 1 - made);
        z.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(packed.data() + taken));
        z.avail_in = uInt(in);
        z.next_out = reinterpret_cast<Bytef*>(out.get() + made);
        z.avail_out = uInt(room);
        status = inflate(&z, Z_NO_FLUSH);  // Z_BUF_ERROR where it can go no further: input or room is used up
        taken += in - z.avail_in;
        made += room - z.avail_out;
    }
    if (status != Z_STREAM_END || made != size || taken != packed.size()) {
        damaged(source, "it does not unpack to the " + std::to_string(size) + " bytes that it claims");
    }
    return out;
}

}  // namespace lc
