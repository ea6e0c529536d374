// test_npy.cpp -- .npy and .npz from bytes written here by hand: every type and order, and every way to be refused.
#include <cmath>
#include <cstring>
#include <limits>
#include <zlib.h>

#include "data/npy.h"
#include "data/zip.h"
#include "tests/file_bytes.h"

namespace lc {
namespace {

// ---- .npy -----------------------------------------------------------------------------------------------------------

std::string npy(const std::string& header, const std::string& data, int version = 1) {
    const std::string length = version == 1 ? little(uint16_t(header.size())) : little(uint32_t(header.size()));
    return std::string("\x93NUMPY") + char(version) + '\0' + length + header + data;
}
std::string dictionary(const std::string& descr, const std::string& shape, const std::string& fortran = "False") {
    return "{'descr': '" + descr + "', 'fortran_order': " + fortran + ", 'shape': " + shape + ", }\n";
}
NpyArray parse(const std::string& file) {
    static std::string kept;  // arrays point into it
    kept = file;
    return parse_npy(as_bytes(kept), "x.npy");
}
std::string refused(const std::string& file) {
    return refusal([&] { parse(file); });
}
template <class T>
std::string column(std::initializer_list<T> values, bool big_endian = false) {
    std::string data;
    for (T v : values) {
        std::string bytes = little(v);
        if (big_endian) std::reverse(bytes.begin(), bytes.end());
        data += bytes;
    }
    return data;
}

// Two numbers of a type in both byte orders: read as double, float and (where whole) integer.
template <class T>
void check_type(const std::string& type, const char* name, T a, T b) {
    for (const bool big : {false, true}) {
        const NpyArray x = parse(npy(dictionary((big ? ">" : "<") + type, "(2,)"), column({a, b}, big)));
        EXPECT_EQ(x.dtype(), name);
        EXPECT_EQ(x.to_doubles(), (std::vector<double>{double(a), double(b)})) << name << big;
        EXPECT_EQ(x.to_floats(), (std::vector<float>{float(a), float(b)})) << name << big;
        if (type[0] != 'f') {
            EXPECT_EQ(x.to_integers(), (std::vector<int64_t>{int64_t(a), int64_t(b)})) << name << big;
        }
    }
}

TEST(Npy, EveryTypeInBothByteOrders) {
    check_type<float>("f4", "float32", 1.5f, -3e38f);
    check_type<double>("f8", "float64", 0.1, -1e-300);
    check_type<int8_t>("i1", "int8", -128, 127);
    check_type<int16_t>("i2", "int16", -32768, 258);
    check_type<int32_t>("i4", "int32", INT32_MIN, 0x01020304);
    check_type<int64_t>("i8", "int64", INT64_MIN, 0x0102030405060708);
    check_type<uint8_t>("u1", "uint8", 255, 7);
    check_type<uint16_t>("u2", "uint16", 65535, 258);
    check_type<uint32_t>("u4", "uint32", UINT32_MAX, 258);
    check_type<uint64_t>("u8", "uint64", INT64_MAX, 258);
    const NpyArray flags = parse(npy(dictionary("|b1", "(3,)"), std::string("\0\1\2", 3)));
    EXPECT_EQ(flags.dtype(), "bool");
    EXPECT_EQ(flags.to_integers(), (std::vector<int64_t>{0, 1, 1}));
    EXPECT_EQ(parse(npy(dictionary("|u1", "(1,)"), "\x09")).to_integers(), (std::vector<int64_t>{9}));
}

TEST(Npy, EveryHalfFloat) {  // against the definition: sign, 2^(e-15), fraction; e = 0 is subnormal, e = 31 inf and NaN
    std::string data;
    for (int bits = 0; bits < 65536; ++bits) data += little(uint16_t(bits));
    const std::vector<float> x = parse(npy(dictionary("<f2", "(65536,)"), data)).to_floats();
    for (int bits = 0; bits < 65536; ++bits) {
        const int e = bits >> 10 & 31, f = bits & 1023;
        double want = e == 0 ? std::ldexp(f, -24) : std::ldexp(1024 + f, e - 25);
        if (e == 31) want = f ? NAN : INFINITY;
        if (bits & 0x8000) want = -want;
        const float got = x[size_t(bits)];
        if (std::isnan(want))
            ASSERT_TRUE(std::isnan(got)) << bits;
        else
            ASSERT_TRUE(double(got) == want && std::signbit(got) == std::signbit(want)) << bits;
    }
}

TEST(Npy, Formats1To3AndTheirPadding) {
    for (int version : {1, 2, 3}) {
        const NpyArray x =
            parse(npy(dictionary("<i2", "(1, 2)") + std::string(50, ' ') + "\n", column<int16_t>({4, 5}), version));
        EXPECT_EQ(x.shape, (std::vector<int64_t>{1, 2}));
        EXPECT_EQ(x.to_integers(), (std::vector<int64_t>{4, 5}));
    }
    // Keys in another order, other quotes, no spaces, Python 2's long numbers.
    const std::string odd = "{\"shape\":(2L,1L),'fortran_order':False,\"descr\":\"<i2\"}";
    EXPECT_EQ(parse(npy(odd, column<int16_t>({4, 5}))).shape_text(), "(2, 1)");
}

TEST(Npy, ShapesOfAnyRank) {
    const NpyArray scalar = parse(npy(dictionary("<f4", "()"), column({2.5f})));
    EXPECT_EQ(scalar.shape_text(), "()");
    EXPECT_EQ(scalar.rows(), 1);
    EXPECT_EQ(scalar.to_floats(), (std::vector<float>{2.5f}));
    EXPECT_EQ(parse(npy(dictionary("<f4", "(1,)"), column({2.5f}))).shape_text(), "(1,)");
    for (const char* shape : {"(0,)", "(0, 3)", "(3, 0)", "(0, 4611686018427387904)"}) {
        for (const char* fortran : {"False", "True"}) {
            const NpyArray x = parse(npy(dictionary("<f4", shape, fortran), ""));
            EXPECT_EQ(x.count(), 0);
            EXPECT_TRUE(x.to_floats().empty());
        }
    }
}

TEST(Npy, FortranOrderAndRows) {
    // x[i][j][k] = 100 i + 10 j + k with shape (2, 3, 2); in Fortran order the first index runs fastest.
    std::string data;
    std::vector<double> want;
    for (int k = 0; k < 2; ++k)
        for (int j = 0; j < 3; ++j)
            for (int i = 0; i < 2; ++i) data += little(int16_t(100 * i + 10 * j + k));
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 3; ++j)
            for (int k = 0; k < 2; ++k) want.push_back(100 * i + 10 * j + k);
    const NpyArray x = parse(npy(dictionary("<i2", "(2, 3, 2)", "True"), data));
    EXPECT_EQ(x.to_doubles(), want);
    EXPECT_EQ(x.to_doubles(1, 2), std::vector<double>(want.begin() + 6, want.end()));
    EXPECT_EQ(x.to_doubles(0, 1), std::vector<double>(want.begin(), want.begin() + 6));

    const NpyArray c = parse(npy(dictionary("<i2", "(3, 2)"), column<int16_t>({0, 1, 10, 11, 20, 21})));
    EXPECT_EQ(c.to_integers(1, 3), (std::vector<int64_t>{10, 11, 20, 21}));
    EXPECT_TRUE(c.to_integers(2, 2).empty());
    for (const auto& rows : {std::pair{-1, 2}, {2, 1}, {0, 4}, {4, 4}, {0, -2}}) {
        EXPECT_NE(refusal([&] { c.to_integers(rows.first, rows.second); }).find("expected rows within 0:3"),
                  std::string::npos);
    }
}

TEST(Npy, ValuesThatDoNotFitAreRefusedWithTheirPlace) {
    const double largest = double(std::numeric_limits<float>::max()), half_an_ulp = std::ldexp(1.0, 103);
    const auto doubles = [](std::initializer_list<double> v) {
        return parse(npy(dictionary("<f8", "(1, " + std::to_string(v.size()) + ")"), column(v)));
    };
    EXPECT_EQ(doubles({largest}).to_floats()[0], std::numeric_limits<float>::max());
    EXPECT_EQ(doubles({std::nextafter(largest + half_an_ulp, 0.0)}).to_floats()[0], std::numeric_limits<float>::max());
    EXPECT_EQ(refusal([&] {
                  doubles({0, largest + half_an_ulp}).to_floats();
              }),
              "x.npy: expected numbers within the range of float32 (3.4e38), found another value at row 0, column 1; "
              "mend or drop that row");
    EXPECT_NE(refusal([&] { doubles({-1e39}).to_floats(); }).find("row 0, column 0"), std::string::npos);
    EXPECT_TRUE(std::isinf(doubles({INFINITY}).to_floats()[0]));  // whether it may be there is not decided here
    EXPECT_TRUE(std::isnan(doubles({NAN}).to_floats()[0]));

    EXPECT_EQ(doubles({-3, 1e15, -0x1p63}).to_integers(), (std::vector<int64_t>{-3, 1000000000000000, INT64_MIN}));
    for (double bad : {0.5, 0x1p63, double(NAN), double(INFINITY)}) {
        EXPECT_NE(refusal([&] { doubles({1, bad}).to_integers(); }).find("expected whole numbers"), std::string::npos);
    }
    const NpyArray u = parse(npy(dictionary("<u8", "(1,)"), column<uint64_t>({uint64_t(INT64_MAX) + 1})));
    EXPECT_NE(refusal([&] { u.to_integers(); }).find("at row 0;"), std::string::npos);
    EXPECT_EQ(u.to_doubles()[0], 0x1p63);

    const NpyArray f = parse(npy(dictionary("<f8", "(2, 2)", "True"), column({1., 2., 1e300, 4.})));
    EXPECT_NE(refusal([&] { f.to_floats(); }).find("row 0, column 1"), std::string::npos);
}

TEST(Npy, WhatIsNoNumberIsListedAndRefusedByName) {
    for (const char* descr : {"'<U10'", "'|S3'", "'<c8'", "'|O'", "'<f16'", "'<M8[ns]'", "'<f3'", "'|f4'", "'=f4'",
                              "''", "[('a', '<f4'), ('b', '<i4', (2, 2))]", "[('it]s', '<f4')]"}) {
        const std::string header = std::string("{'descr': ") + descr + ", 'fortran_order': False, 'shape': (3,)}";
        const NpyArray x = parse(npy(header, "whatever it is"));
        EXPECT_FALSE(x.is_numeric()) << descr;
        EXPECT_EQ(x.shape_text(), "(3,)");
        EXPECT_NE(refusal([&] { x.to_floats(); }).find("found elements of type " + x.descr), std::string::npos);
        EXPECT_FALSE(x.is_plain_float32());
    }
}

TEST(Npy, PlainFloat32CanBeUsedInPlace) {
    const std::string data = column({1.f, 2.f, 3.f, 4.f});
    const auto plain = [&](const char* descr, const char* shape, const char* fortran, size_t shift) {
        std::string header = dictionary(descr, shape, fortran);  // made so long that the data are `shift` off
        header.append((64 - (10 + header.size()) % 64) + shift, ' ');
        alignas(64) static char memory[512];
        const std::string file = npy(header, data);
        std::memcpy(memory, file.data(), file.size());
        return parse_npy(std::as_bytes(std::span(memory, file.size())), "x").is_plain_float32();
    };
    EXPECT_TRUE(plain("<f4", "(2, 2)", "False", 0));
    EXPECT_TRUE(plain("<f4", "(4,)", "True", 4));
    EXPECT_FALSE(plain("<f4", "(2, 2)", "False", 1));
    EXPECT_FALSE(plain(">f4", "(2, 2)", "False", 0));
    EXPECT_FALSE(plain("<f4", "(2, 2)", "True", 0));
    EXPECT_FALSE(plain("<i4", "(2, 2)", "False", 0));
    EXPECT_FALSE(plain("<f8", "(2,)", "False", 0));
}

TEST(Npy, DamagedHeaders) {
    const auto says = [](const std::string& file, const std::string& text) {
        EXPECT_NE(refused(file).find(text), std::string::npos) << refused(file);
    };
    says("", "found an empty file");
    says("PK\3\4 and so on", "found a zip archive");
    says("1,2,3\n", "found other bytes");
    says("\x93NUMPY", "expected .npy format 1, 2 or 3, found 0");
    says(npy(dictionary("<f4", "(1,)"), "1234", 4), "found 4");
    says(std::string("\x93NUMPY\1\0\5", 9), "the file is cut short");
    says(std::string("\x93NUMPY\2\0\xff\xff\xff\xff", 12), "expected a header of 4294967295 bytes");
    for (const char* header :
         {"", "{", "{}", "[]", "{'descr': '<f4'}", "{'descr': '<f4', 'descr': '<f4', 'shape': (1,)}",
          "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'more': 1}",
          "{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}", "{'descr': '<f4', 'fortran_order': False, 'shape': 1}",
          "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
          "{'descr': '<f4', 'fortran_order': False, 'shape': (1.5,)}",
          "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
          "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x",
          "{'descr': '<f4' 'fortran_order': False, 'shape': (1,)}",
          "{'descr': '<f4', 'fortran_order': False, 'shape': (1 1)}",
          "{'descr': '<f4, 'fortran_order': False, 'shape': (1,)}",
          "{'descr': [('a', '<f4', 'fortran_order': False, 'shape': (1,)}",
          "{'descr': 4, 'fortran_order': False, 'shape': (1,)}",
          "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)"}) {
        says(npy(header, "1234"), "the .npy header is damaged");
    }
    says(npy(dictionary("<f4", "(1,)") + std::string("\0", 1), "1234"), "expected nothing after '}'");
    std::string many;
    for (int i = 0; i < 65; ++i) many += "1,";
    says(npy(dictionary("<f4", "(" + many + ")"), "1234"), "at most 64 dimensions");
}

TEST(Npy, DataThatDoNotMatchTheShape) {
    EXPECT_EQ(
        refused(npy(dictionary("<f4", "(2, 3)"), std::string(23, 'x'))),
        "x.npy: expected 24 bytes of data for shape (2, 3) of float32, found 23; the file is damaged or holds more "
        "than one array: write it again");
    EXPECT_NE(refused(npy(dictionary("<f4", "(2, 3)"), std::string(25, 'x'))).find("found 25"), std::string::npos);
    for (const char* shape : {"(4294967296, 4294967296)", "(9223372036854775807,)", "(0, 4294967296, 4294967296)",
                              "(2305843009213693952, 1)"}) {
        EXPECT_NE(refused(npy(dictionary("<f8", shape), "12345678")).find("expected a shape that a file can hold"),
                  std::string::npos)
            << shape;
    }
}

// ---- .npz: a zip archive made here, so that every field can be wrong ------------------------------------------------

struct Entry {
    std::string name, data;
    bool deflate = false, zip64 = false;
    int64_t claimed = -1;    // unpacked size, where it is not data.size()
    uint32_t crc_error = 0;  // added to the checksum
    uint16_t flags = 0, method = 0xffff;
};

std::string deflated(const std::string& data) {
    z_stream z = {};
    deflateInit2(&z, 9, Z_DEFLATED, -MAX_WBITS, 9, Z_DEFAULT_STRATEGY);
    std::string out(data.size() + 100, '\0');
    z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(data.data()));
    z.avail_in = uInt(data.size());
    z.next_out = reinterpret_cast<Bytef*>(out.data());
    z.avail_out = uInt(out.size());
    deflate(&z, Z_FINISH);
    out.resize(z.total_out);
    deflateEnd(&z);
    return out;
}

std::string zip(const std::vector<Entry>& entries, bool zip64_end = false, const std::string& comment = "") {
    std::string file, directory;
    for (const Entry& e : entries) {
        const std::string packed = e.deflate ? deflated(e.data) : e.data;
        const uint64_t size = e.claimed < 0 ? e.data.size() : uint64_t(e.claimed), place = file.size();
        const uint32_t crc =
            uint32_t(crc32(0, reinterpret_cast<const Bytef*>(e.data.data()), uInt(e.data.size()))) + e.crc_error;
        const uint16_t method = e.method != 0xffff ? e.method : e.deflate ? 8 : 0;
        const auto u32 = [&](uint64_t x) { return little(e.zip64 ? UINT32_MAX : uint32_t(x)); };
        const std::string common = little<uint16_t>(20) + little(e.flags) + little(method) + little<uint32_t>(0) +
                                   little(crc) + u32(packed.size()) + u32(size) + little(uint16_t(e.name.size()));
        const std::string unrelated = little<uint16_t>(0x7875) + little<uint16_t>(3) + "abc";  // another extra field
        const std::string extra = e.zip64 ? unrelated + little<uint16_t>(1) + little<uint16_t>(24) +
                                                little<uint64_t>(size) + little<uint64_t>(packed.size()) +
                                                little<uint64_t>(place)
                                          : "";
        // The extra field here is not the one in the directory: only this one says where the data start.
        file += "PK\3\4" + common + little<uint16_t>(7) + e.name + unrelated + packed;
        directory += "PK\1\2" + little<uint16_t>(20) + common + little(uint16_t(extra.size())) + little<uint16_t>(2) +
                     std::string(8, '\0') + u32(place) + e.name + extra + "hi";
    }
    const uint64_t place = file.size(), size = directory.size(), count = entries.size();
    file += directory;
    if (zip64_end) {
        const uint64_t end64 = file.size();
        file += "PK\6\6" + little<uint64_t>(44) + std::string(12, '\0') + little(count) + little(count) + little(size) +
                little(place) + "PK\6\7" + little<uint32_t>(0) + little(end64) + little<uint32_t>(1);
    }
    const auto u16 = [&](uint64_t x) { return little(zip64_end ? uint16_t(0xffff) : uint16_t(x)); };
    const auto u32 = [&](uint64_t x) { return little(zip64_end ? UINT32_MAX : uint32_t(x)); };
    return file + "PK\5\6" + little<uint32_t>(0) + u16(count) + u16(count) + u32(size) + u32(place) +
           little(uint16_t(comment.size())) + comment;
}

const std::string kNumbers = npy(dictionary("<i2", "(3,)"), column<int16_t>({7, 8, 9}));

std::vector<int64_t> first_numbers(const std::string& file) {
    return parse_npz(as_bytes(file), "x.npz").at("a").to_integers();
}
std::string npz_refused(const std::string& file) {
    return refusal([&] { parse_npz(as_bytes(file), "x.npz"); });
}

TEST(Npz, StoredDeflatedZip64Comment) {
    const std::vector<int64_t> want = {7, 8, 9};
    for (const bool deflate : {false, true}) {
        for (const bool zip64 : {false, true}) {
            for (const char* comment : {"", "a comment, PK\5\6 and more of it: its length tells it from the record"}) {
                const Entry b = {"folder/b.npy", npy(dictionary("<f4", "(0,)"), ""), false, zip64};
                EXPECT_EQ(first_numbers(zip({b, {"a.npy", kNumbers, deflate, zip64}}, zip64, comment)), want);
            }
        }
    }
    EXPECT_TRUE(parse_npz(as_bytes(zip({})), "x.npz").empty());
    EXPECT_TRUE(looks_like_zip(as_bytes(zip({}))));
    EXPECT_FALSE(looks_like_zip(as_bytes(kNumbers)));
}

TEST(Npz, StoredEntriesAreUsedInPlaceAndKeepTheFileAlive) {
    const auto file = std::make_shared<std::string>(zip({{"a.npy", kNumbers}, {"b.npy", kNumbers, true}}));
    auto arrays = parse_npz(as_bytes(*file), "x.npz", file);
    const std::byte* a = arrays.at("a").bytes.data();
    EXPECT_TRUE(a > as_bytes(*file).data() && a < as_bytes(*file).data() + file->size());
    EXPECT_EQ(file.use_count(), 2);  // b has memory of its own
    arrays.erase("a");
    EXPECT_EQ(file.use_count(), 1);
    EXPECT_EQ(arrays.at("b").source, "x.npz: b");
}

TEST(Npz, LargeEntriesUnpack) {
    std::string data;
    for (int i = 0; i < 300000; ++i) data += little(int32_t(i % 1000));
    const std::string file = zip({{"a.npy", npy(dictionary("<i4", "(300000,)"), data), true}});
    EXPECT_LT(file.size(), data.size() / 10);
    EXPECT_EQ(first_numbers(file).back(), 999);
}

TEST(Npz, RefusesWhatDoesNotAddUp) {
    const auto says = [](const std::string& file, const std::string& text) {
        EXPECT_NE(npz_refused(file).find(text), std::string::npos) << npz_refused(file);
    };
    Entry e{"a.npy", kNumbers, true};
    says(zip({e, e}), "found 'a.npy' twice");
    says(zip({{"a.txt", "hello"}}), "found 'a.txt' in it");
    says(zip({{"a.npy", "hello"}}), "x.npz: a: expected a .npy array");
    e.crc_error = 1;
    says(zip({e}), "its checksum does not match");
    e.crc_error = 0;
    for (int64_t off : {-int64_t(kNumbers.size()), int64_t(-1), int64_t(1), int64_t(100)}) {
        e.claimed = int64_t(kNumbers.size()) + off;
        says(zip({e}), "it does not unpack to the " + std::to_string(e.claimed) + " bytes that it claims");
    }
    for (int64_t claimed : {int64_t(1) << 31, INT64_MAX}) {  // would be an allocation of that size
        e.claimed = claimed;
        e.zip64 = true;
        says(zip({e}), "more than deflate can pack");
    }
    Entry stored{"a.npy", kNumbers};
    stored.claimed = 4;
    says(zip({stored}), "it is stored but claims two sizes");
    stored.claimed = -1;
    stored.flags = 1;
    says(zip({stored}), "'a.npy' is encrypted");
    stored.flags = 0;
    stored.method = 14;
    says(zip({stored}), "found compression method 14");
}

TEST(Npz, ManyNamesForOneEntryAreABomb) {  // ten thousand records that all point to the same packed megabyte
    const Entry e{"a.npy", npy(dictionary("|u1", "(1000000,)"), std::string(1000000, '\0')), true};
    const std::string good = zip({e});
    const size_t directory = good.rfind("PK\1\2"), end = good.rfind("PK\5\6");
    std::string record = good.substr(directory, end - directory), records;
    for (char name = 'a'; name < 'z'; ++name) {
        record[46] = name;
        records += record;
    }
    const std::string bomb = good.substr(0, directory) + records + "PK\5\6" + little<uint32_t>(0) +
                             little<uint16_t>(25) + little<uint16_t>(25) + little(uint32_t(records.size())) +
                             little(uint32_t(directory)) + little<uint16_t>(0);
    EXPECT_NE(npz_refused(bomb).find("claim more bytes than the file has"), std::string::npos) << npz_refused(bomb);
}

TEST(Npz, EveryTruncationAndEveryChangedByteIsRefusedOrHarmless) {
    for (const bool deflate : {false, true}) {
        const std::string file = zip({{"a.npy", kNumbers, deflate, true}}, true);
        for (size_t size = 0; size < file.size(); ++size) {
            EXPECT_NE(npz_refused(file.substr(0, size)), "nothing was refused") << size;
        }
        for (size_t i = 0; i < file.size(); ++i) {
            std::string changed = file;
            changed[i] = char(changed[i] ^ 0x11);
            try {
                for (const auto& [name, array] : parse_npz(as_bytes(changed), "x.npz")) {
                    EXPECT_EQ(array.to_integers(), (std::vector<int64_t>{7, 8, 9})) << i;  // the checksum saw to that
                }
            } catch (const Error&) {}
        }
    }
}

// ---- writing --------------------------------------------------------------------------------------------------------

class NpyWriter : public FolderTest {};

TEST_F(NpyWriter, NpyHasTheBytesThatNumPyWrites) {
    const float x[] = {1, 2, 3, -4.5f, 5, 6};
    write_npy(path("x.npy"), {2, 3}, x);
    const std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
    const std::string want = std::string("\x93NUMPY\1\0\x76\0", 10) + header +
                             std::string(128 - 10 - header.size() - 1, ' ') + "\n" +
                             std::string(reinterpret_cast<const char*>(x), sizeof x);
    EXPECT_EQ(read(path("x.npy")), want);
    const NpyArray back = read_npy(path("x.npy"));
    EXPECT_TRUE(back.is_plain_float32());
    EXPECT_EQ(back.to_floats(1), (std::vector<float>{-4.5f, 5, 6}));
    EXPECT_EQ(npy_header("<f4", {}).find("'shape': (), }") != std::string::npos, true);
    for (int64_t n = 1; n < INT64_MAX / 10; n *= 10) EXPECT_EQ(npy_header("<f4", {n}).size() % 64, 0u);
}

TEST_F(NpyWriter, NpzIsAlignedAndReadsBack) {
    const float x[] = {1, 2, 3, -4.5f, 5, 6};
    const int64_t labels[] = {-1, int64_t(1) << 60};
    NpzWriter out(path("x.npz"));
    out.add("x", {2, 3}, x);
    out.add("labels", {2}, labels);
    out.begin("pieces", {3, 2});
    out.append(x, 4);
    out.append(nullptr, 0);
    out.append(x + 4, 2);
    out.end();
    out.add("none", {0, 5}, x);
    out.add("\xc3\xa9", {}, x);
    EXPECT_EQ(files(), 1u);  // the partial one
    out.commit();
    EXPECT_EQ(files(), 1u);
    const auto back = read_npz(path("x.npz"));
    EXPECT_EQ(back.size(), 5u);
    for (const auto& [name, array] : back) {
        EXPECT_EQ(reinterpret_cast<uintptr_t>(array.bytes.data()) % 64, 0u) << name;
        EXPECT_EQ(array.is_plain_float32(), name != "labels");
    }
    EXPECT_EQ(back.at("x").to_floats(), std::vector<float>(x, x + 6));
    EXPECT_EQ(back.at("pieces").to_floats(), std::vector<float>(x, x + 6));
    EXPECT_EQ(back.at("pieces").shape_text(), "(3, 2)");
    EXPECT_EQ(back.at("labels").to_integers(), std::vector<int64_t>(labels, labels + 2));
    EXPECT_EQ(back.at("none").shape_text(), "(0, 5)");
    EXPECT_EQ(back.at("\xc3\xa9").shape_text(), "()");
}

TEST_F(NpyWriter, Zip64ReadsBack) {
    ZipWriter out(path("x.npz"), 0);  // every number as if it were beyond 32 bits
    for (const char* name : {"a.npy", "b.npy"}) {
        out.begin(name, kNumbers.size());
        out.append(kNumbers.data(), kNumbers.size());
        out.end();
    }
    out.commit();
    EXPECT_EQ(first_numbers(read(path("x.npz"))), (std::vector<int64_t>{7, 8, 9}));
    EXPECT_NE(read(path("x.npz")).find("PK\6\6"), std::string::npos);
}

TEST_F(NpyWriter, RefusesMisuseAndLeavesNothing) {
    const float x[] = {1, 2};
    const auto says = [&](const std::string& text, const std::function<void(NpzWriter&)>& misuse) {
        NpzWriter out(path("x.npz"));
        EXPECT_NE(refusal([&] { misuse(out); }).find(text), std::string::npos) << refusal([&] { misuse(out); });
    };
    says("give 'a.npy' once", [&](NpzWriter& out) { out.add("a", {2}, x), out.add("a", {2}, x); });
    says("4 bytes are left", [&](NpzWriter& out) { out.begin("b", {1}), out.append(x, 2); });
    says("append 4 more bytes", [&](NpzWriter& out) { out.begin("c", {1}), out.end(); });
    says("before commit()", [&](NpzWriter& out) { out.begin("d", {1}), out.commit(); });
    says("before 'f.npy' begins", [&](NpzWriter& out) { out.begin("e", {1}), out.begin("f", {1}); });
    EXPECT_EQ(files(), 0u);
}

}  // namespace
}  // namespace lc
