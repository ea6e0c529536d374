// npy.h -- NumPy's array files: .npy (format 1, 2, 3) and .npz (a zip of them, stored or deflated, zip64 too).
//
//     NpyArray a = read_npy("features.npy");              header parsed, data mapped; nothing is copied yet
//     std::map<std::string, NpyArray> z = read_npz("dump.npz");
//     std::vector<float> x = a.to_floats();               any numeric dtype, byte and memory order -> row-major float32
//     NpzWriter out("out.npz"); out.add("probs", {n, C}, p); out.commit();
//
// Types    f2 f4 f8, i1 i2 i4 i8, u1 u2 u4 u8, bool; little and big endian; C and Fortran order.  Objects, strings,
//          structures and complex numbers are listed with their type, so that they may lie beside numbers in a .npz,
//          and refused by name where their values are asked for.  Nothing is ever unpickled.
// Hostile  shapes whose product overflows, headers longer than the file, data that are not as long as shape x type
//          says, entries that unpack to more than they say, names that repeat: refused with one sentence, before any
//          allocation that the file's own size does not justify.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/file.h"

namespace lc {

struct NpyArray {
    std::string source;  // "dump.npz: features", for messages
    std::string descr;   // the type as the file has it: "<f4"
    std::vector<int64_t> shape;
    char kind = 'f';   // f i u b; ? for what is no number
    int itemsize = 4;  // bytes; 0 for what is no number
    bool big_endian = false, fortran_order = false;
    std::span<const std::byte> bytes;         // of the elements, in the file's order
    std::shared_ptr<const void> keeps_alive;  // the mapping, or the unpacked bytes

    int64_t count() const;
    int64_t rows() const;  // shape[0]; 1 for a number by itself, whose shape is ()
    bool is_numeric() const { return kind != '?'; }
    std::string dtype() const;       // "float32", "int64", "bool"; the descr of what is no number
    std::string shape_text() const;  // "(10000, 64)", "(3,)", "()": as Python writes it
    bool is_plain_float32() const;   // little endian, C order, f4, 4-byte aligned: bytes can be used in place

    // Rows [begin, end) in C order; end = -1: to the last.  Each refuses values that its type cannot hold (element.h):
    // float rounds but does not overflow, integers must be whole.
    std::vector<float> to_floats(int64_t row_begin = 0, int64_t row_end = -1) const;
    std::vector<double> to_doubles(int64_t row_begin = 0, int64_t row_end = -1) const;
    std::vector<int64_t> to_integers(int64_t row_begin = 0, int64_t row_end = -1) const;
};

NpyArray read_npy(const std::string& path);
std::map<std::string, NpyArray> read_npz(const std::string& path);  // names without ".npy"
bool looks_like_zip(const MappedFile& file);

// The same from memory, which must outlive the arrays (stored data are used in place) unless `keeps_alive` owns it.
NpyArray parse_npy(std::span<const std::byte> file, const std::string& source,
                   std::shared_ptr<const void> keeps_alive = nullptr);
std::map<std::string, NpyArray> parse_npz(std::span<const std::byte> file, const std::string& source,
                                          std::shared_ptr<const void> keeps_alive = nullptr);

std::string shape_text(const std::vector<int64_t>& shape);
std::string npy_header(const std::string& descr, const std::vector<int64_t>& shape);  // C order; a multiple of 64 bytes

void write_npy(const std::string& path, const std::vector<int64_t>& shape, const float* x);

// Stored, not deflated: a reader can map it, NumPy reads it as fast as the disk is.  Zip64 above 4 GiB.  Rows may come
// in pieces.
class NpzWriter {
  public:
    explicit NpzWriter(const std::string& path);
    ~NpzWriter();
    void add(const std::string& name, const std::vector<int64_t>& shape, const float* x);
    void add(const std::string& name, const std::vector<int64_t>& shape, const int64_t* x);
    void begin(const std::string& name,
               const std::vector<int64_t>& shape);  // float32 in pieces: begin, append ..., end
    void append(const float* x, int64_t count);
    void end();
    void commit();

  private:
    struct Implementation;
    std::unique_ptr<Implementation> implementation_;
};

}  // namespace lc
