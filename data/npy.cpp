// npy.cpp -- one array: its header, a Python dictionary in text, and its values.
//
//     "\x93NUMPY" major minor length {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }  padding "\n" data
//
// `length` has 2 bytes in format 1 and 4 in formats 2 and 3; format 3 is UTF-8 where 2 is Latin-1, which only names of
// structure fields can show.
#include "data/npy.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>
#include <set>
#include <string_view>

#include "data/element.h"
#include "data/zip.h"
#include "kernels/check.h"

namespace lc {

namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kMaxRank = 64;  // as in NumPy 2

// Reads the dictionary and nothing more of Python: strings, True, False, tuples of whole numbers.  What a descr may be
// beyond a string (a list of the fields of a structure) is carried over as text.
class HeaderParser {
  public:
    HeaderParser(std::string_view text, NpyArray& out) : text_(text), out_(out) {}

    void parse() {
        expect('{');
        while (!accept('}')) {
            const std::string_view key = quoted();
            if (!seen_.insert(key).second) bad("every key once, found '" + std::string(key) + "' twice");
            expect(':');
            value_of(key);
            if (!accept(',') && peek() != '}') bad("',' or '}'" + found());
        }
        peek();
        if (at_ < text_.size()) bad("nothing after '}'" + found());  // not even a NUL
        if (seen_.size() != 3) bad("the keys descr, fortran_order and shape, found " + std::to_string(seen_.size()));
    }

  private:
    void value_of(std::string_view key) {
        if (key == "descr") return descr();
        if (key == "shape") return shape();
        if (key != "fortran_order") bad("the keys descr, fortran_order and shape, found '" + std::string(key) + "'");
        out_.fortran_order = accept("True");
        if (!out_.fortran_order && !accept("False")) bad("True or False" + found());
    }
    void descr() {
        if (peek() == '\'' || peek() == '"') return void(out_.descr = quoted());
        const size_t start = at_;
        if (peek() != '[') bad("a type" + found());
        int depth = 0;
        do {
            const char c = peek();
            if (c == '\0') bad("']'" + found());
            if (c == '\'' || c == '"') {
                quoted();
                continue;
            }
            depth += (c == '[' || c == '(') - (c == ']' || c == ')');
            ++at_;
        } while (depth > 0);
        out_.descr = text_.substr(start, at_ - start);
    }
    void shape() {
        expect('(');
        while (!accept(')')) {
            int64_t size = 0;
            peek();  // passes over spaces
            const char* const begin = text_.data() + at_;
            const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), size);
            if (error != std::errc() || size < 0) bad("sizes below 2^63 in the shape" + found());
            at_ += size_t(end - begin);
            accept("L");  // Python 2 wrote long numbers so
            out_.shape.push_back(size);
            if (out_.shape.size() > kMaxRank) bad("at most " + std::to_string(kMaxRank) + " dimensions, found more");
            if (!accept(',') && peek() != ')') bad("',' or ')' in the shape" + found());
        }
    }

    char peek() {  // the next character that is no space; 0 at the end
        at_ = std::min(text_.find_first_not_of(" \t\r\n", at_), text_.size());
        return at_ < text_.size() ? text_[at_] : '\0';
    }
    bool accept(std::string_view word) {
        peek();
        if (text_.substr(at_, word.size()) != word) return false;
        at_ += word.size();
        return true;
    }
    bool accept(char c) { return accept(std::string_view(&c, 1)); }
    void expect(char c) {
        if (!accept(c)) bad(std::string("'") + c + "'" + found());
    }
    std::string_view quoted() {
        const char quote = peek();
        if (quote != '\'' && quote != '"') bad("a string" + found());
        const size_t start = at_ + 1, end = text_.find(quote, start);
        if (end == std::string_view::npos) bad("the end of a string, found none");
        at_ = end + 1;
        return text_.substr(start, end - start);
    }
    std::string found() const {
        if (at_ >= text_.size()) return ", found the header's end";
        return std::string(", found '").append(text_.substr(at_, 20)) + "'";
    }
    [[noreturn]] void bad(const std::string& expected_and_found) const {
        refuse(out_.source,
               "the .npy header is damaged: expected " + expected_and_found + "; write the file again with numpy.save");
    }

    std::string_view text_;
    NpyArray& out_;
    size_t at_ = 0;
    std::set<std::string_view> seen_;
};

std::optional<Element> element_of(char kind, int itemsize) {
    for (int i = 0; i <= int(Element::boolean); ++i) {
        const Element type = Element(i);
        if (type == Element::bf16) continue;  // NumPy has none
        const char k = type == Element::boolean ? 'b' : name_of(type)[0];
        if (k == kind && size_of(type) == itemsize) return type;
    }
    return std::nullopt;
}

void set_type(NpyArray& a) {  // "<f4" -> kind, itemsize, byte order
    const std::string& d = a.descr;
    const bool known = d.size() == 3 && element_of(d[1], d[2] - '0');
    const bool ordered = known && (d[0] == '<' || d[0] == '>' || (d[0] == '|' && d[2] == '1'));
    a.kind = ordered ? d[1] : '?';
    a.itemsize = ordered ? d[2] - '0' : 0;
    a.big_endian = ordered && d[0] == '>';
}

Element numeric_type(const NpyArray& a) {
    if (!a.is_numeric()) {
        refuse(a.source, "expected an array of numbers, found elements of type " + a.descr +
                             "; convert it with .astype('float32') or .astype('int64') before saving");
    }
    return *element_of(a.kind, a.itemsize);
}

std::string index_text(const std::vector<int64_t>& shape, int64_t i) {  // "row 3, column 5" from the place in C order
    const int64_t row_size = shape.empty() ? 1 : count_of(shape.data() + 1, shape.size() - 1);
    const std::string row = "row " + std::to_string(i / row_size);
    return shape.size() < 2 ? row : row + ", column " + std::to_string(i % row_size);
}

// Where the first element of run `r` lies in the data of an array in Fortran order, in bytes.  A run is the last
// dimension; r counts all dimensions before it in C order.
int64_t fortran_offset(const NpyArray& a, int64_t r) {
    int64_t stride = a.itemsize * (a.count() / a.shape.back()), offset = 0;
    for (size_t i = a.shape.size() - 1; i-- > 0; r /= a.shape[i]) {
        stride /= a.shape[i];
        offset += r % a.shape[i] * stride;
    }
    return offset;
}

template <class To>
std::vector<To> to_vector(const NpyArray& a, int64_t begin, int64_t end, const char* what_fits) {
    const Element type = numeric_type(a);
    const int64_t rows = a.rows(), row_size = rows == 0 ? 0 : a.count() / rows;
    if (end == -1) end = rows;
    if (begin < 0 || begin > end || end > rows) {
        refuse(a.source, "expected rows within 0:" + std::to_string(rows) + ", found " + std::to_string(begin) + ":" +
                             std::to_string(end));
    }
    std::vector<To> out(size_t((end - begin) * row_size));
    if (out.empty()) return out;

    // One call per run of elements with a constant step: all of them in C order, the last dimension in Fortran order.
    const bool one_run = !a.fortran_order || a.shape.size() < 2;
    const int64_t first = begin * row_size, count = int64_t(out.size());
    const int64_t run = one_run ? count : a.shape.back();
    const int64_t step = one_run ? a.itemsize : a.itemsize * (a.count() / run);
    for (int64_t done = 0; done < count; done += run) {
        const int64_t offset = one_run ? first * a.itemsize : fortran_offset(a, (first + done) / run);
        const int64_t bad = convert(type, a.big_endian, a.bytes.data() + offset, step, run, out.data() + done);
        if (bad >= 0) {
            refuse(a.source, std::string("expected ") + what_fits + ", found another value at " +
                                 index_text(a.shape, first + done + bad) + "; mend or drop that row");
        }
    }
    return out;
}

}  // namespace

int64_t NpyArray::count() const { return count_of(shape.data(), shape.size()); }
int64_t NpyArray::rows() const { return shape.empty() ? 1 : shape[0]; }
std::string NpyArray::dtype() const { return is_numeric() ? name_of(*element_of(kind, itemsize)) : descr; }
std::string NpyArray::shape_text() const { return lc::shape_text(shape); }
bool NpyArray::is_plain_float32() const {
    return kind == 'f' && itemsize == 4 && !big_endian && (!fortran_order || shape.size() < 2) &&
           reinterpret_cast<uintptr_t>(bytes.data()) % alignof(float) == 0;
}

std::vector<float> NpyArray::to_floats(int64_t begin, int64_t end) const {
    return to_vector<float>(*this, begin, end, "numbers within the range of float32 (3.4e38)");
}
std::vector<double> NpyArray::to_doubles(int64_t begin, int64_t end) const {
    return to_vector<double>(*this, begin, end, "numbers");
}
std::vector<int64_t> NpyArray::to_integers(int64_t begin, int64_t end) const {
    return to_vector<int64_t>(*this, begin, end, "whole numbers of at most 64 bits");
}

NpyArray parse_npy(std::span<const std::byte> file, const std::string& source,
                   std::shared_ptr<const void> keeps_alive) {
    const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
    if (!text.starts_with(kMagic)) {
        const char* found = text.empty() ? "an empty file" : looks_like_zip(file) ? "a zip archive" : "other bytes";
        refuse(source, std::string("expected a .npy array, which begins with \\x93NUMPY, found ") + found +
                           "; write it with numpy.save");
    }
    const int version = text.size() > kMagic.size() ? uint8_t(text[kMagic.size()]) : 0;
    const size_t length_size = version == 1 ? 2 : 4, start = kMagic.size() + 2 + length_size;
    if (version < 1 || version > 3) {
        refuse(source,
               "expected .npy format 1, 2 or 3, found " + std::to_string(version) + "; write it again with numpy.save");
    }
    uint32_t length = 0;
    if (text.size() >= start) std::memcpy(&length, text.data() + start - length_size, length_size);
    if (text.size() < start || text.size() - start < length) {
        refuse(source, "expected a header of " + std::to_string(length) + " bytes, found the file's end at " +
                           std::to_string(text.size()) + "; the file is cut short: copy it again");
    }
    NpyArray a;
    a.source = source;
    HeaderParser(text.substr(start, length), a).parse();
    set_type(a);
    a.bytes = file.subspan(start + length);
    a.keeps_alive = std::move(keeps_alive);

    int64_t expected = a.count();
    if (expected < 0 || __builtin_mul_overflow(expected, a.itemsize, &expected)) {
        refuse(source, "expected a shape that a file can hold, found " + a.shape_text() + "; the header is damaged");
    }
    if (a.is_numeric() && uint64_t(expected) != a.bytes.size()) {
        refuse(source, "expected " + std::to_string(expected) + " bytes of data for shape " + a.shape_text() + " of " +
                           a.dtype() + ", found " + std::to_string(a.bytes.size()) +
                           "; the file is damaged or holds more than one array: write it again");
    }
    return a;
}

NpyArray read_npy(const std::string& path) {
    const auto file = std::make_shared<MappedFile>(path);
    return parse_npy(file->bytes(), path, file);
}

std::string shape_text(const std::vector<int64_t>& shape) {
    std::string text;
    for (int64_t size : shape) text += (text.empty() ? "" : ", ") + std::to_string(size);
    return "(" + text + (shape.size() == 1 ? ",)" : ")");
}

std::string npy_header(const std::string& descr, const std::vector<int64_t>& shape) {
    std::string dictionary = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape_text(shape) + ", }";
    const size_t before = kMagic.size() + 4;                                 // magic, version, length
    dictionary.append(63 - (before + dictionary.size()) % 64, ' ') += '\n';  // the data start at a multiple of 64
    const uint16_t length = uint16_t(dictionary.size());
    LC_CHECK(shape.size() <= kMaxRank, "a shape has at most " << kMaxRank << " sizes; found " << shape.size());
    return std::string(kMagic) + '\1' + '\0' + char(length & 255) + char(length >> 8) + dictionary;
}

void write_npy(const std::string& path, const std::vector<int64_t>& shape, const float* x) {
    const std::string header = npy_header("<f4", shape);
    const int64_t count = count_of(shape.data(), shape.size());
    LC_CHECK(count >= 0, path << ": expected a shape whose product fits 64 bits; found " << shape_text(shape));
    AtomicFile out(path);
    out.write(header.data(), header.size());
    out.write(x, size_t(count) * sizeof(float));
    out.commit();
}

}  // namespace lc
