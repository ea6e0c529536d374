// test_safetensors.cpp -- files written here by hand, files written by the writer, and every way to be refused.
#include "data/safetensors.h"
#include "tests/file_bytes.h"

namespace lc {
namespace {

std::string file_of(const std::string& json, const std::string& data) {
    return little<uint64_t>(json.size()) + json + data;
}
std::string object(const std::string& members) { return std::string("{").append(members).append("}"); }
std::string tensor(const char* name, const char* dtype, const char* shape, int64_t begin, int64_t end) {
    return std::string("\"") + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape + ",\"data_offsets\":[" +
           std::to_string(begin) + "," + std::to_string(end) + "]}";
}
Safetensors parse(const std::string& file) {
    static std::string kept;  // tensors point into it
    kept = file;
    return parse_safetensors(as_bytes(kept), "x.safetensors");
}

template <class T>
void check_type(const char* dtype, T value, double as_double, int64_t as_integer) {
    const Safetensors file = parse(file_of(object(tensor("t", dtype, "[1]", 0, sizeof(T))), little(value)));
    const SafeTensor& t = file.at("t");
    EXPECT_EQ(t.dtype, dtype);
    if (std::string(dtype).find('F') != std::string::npos) {
        EXPECT_EQ(t.to_floats(), std::vector<float>{float(as_double)}) << dtype;
        EXPECT_EQ(t.to_doubles(), std::vector<double>{as_double}) << dtype;
        EXPECT_NE(refusal([&] { t.to_integers(); }).find("expected 64-bit integers, found dtype"), std::string::npos);
    } else {
        EXPECT_EQ(t.to_integers(), std::vector<int64_t>{as_integer}) << dtype;
        EXPECT_EQ(t.to_doubles(), std::vector<double>{double(as_integer)}) << dtype;
        EXPECT_NE(refusal([&] { t.to_floats(); }).find("expected floating-point numbers, found dtype"),
                  std::string::npos);
    }
}

TEST(Safetensors, EveryType) {
    check_type<double>("F64", 0.1, 0.1, 0);
    check_type<float>("F32", -2.5f, -2.5, 0);
    check_type<uint16_t>("F16", 0x3555, 0.333251953125, 0);  // the half nearest to 1/3
    check_type<uint16_t>("BF16", 0xc049, -3.140625, 0);      // the bfloat16 nearest to -pi
    check_type<int64_t>("I64", INT64_MIN, 0, INT64_MIN);
    check_type<int32_t>("I32", -70000, 0, -70000);
    check_type<int16_t>("I16", -300, 0, -300);
    check_type<int8_t>("I8", -3, 0, -3);
    check_type<uint64_t>("U64", INT64_MAX, 0, INT64_MAX);
    check_type<uint32_t>("U32", UINT32_MAX, 0, UINT32_MAX);
    check_type<uint16_t>("U16", 65535, 0, 65535);
    check_type<uint8_t>("U8", 255, 0, 255);
    check_type<uint8_t>("BOOL", 1, 0, 1);
}

TEST(Safetensors, ShapesMetadataAndOrder) {
    const std::string json =
        object(tensor("b", "F32", "[2,1]", 4, 12) + ",\"__metadata__\":{\"k\":\"v\",\"\\u00e9\":\"\"}," +
               tensor("a", "F32", "[]", 0, 4) + "," + tensor("e", "I64", "[0,7]", 12, 12)) +
        "  \n ";
    const Safetensors file = parse(file_of(json, little(1.f) + little(2.f) + little(3.f)));
    ASSERT_EQ(file.tensors.size(), 3u);
    EXPECT_EQ(file.tensors[0].name, "a");  // by place, not by name
    EXPECT_EQ(file.tensors[1].name, "b");
    EXPECT_EQ(file.tensors[2].name, "e");
    EXPECT_EQ(file.at("b").to_floats(), (std::vector<float>{2, 3}));
    EXPECT_EQ(file.at("b").shape, (std::vector<int64_t>{2, 1}));
    EXPECT_EQ(file.at("a").count(), 1);
    EXPECT_TRUE(file.at("e").to_integers().empty());
    EXPECT_EQ(file.meta("k"), "v");
    EXPECT_EQ(file.metadata.size(), 2u);
    EXPECT_EQ(refusal([&] { file.at("w1"); }), "x.safetensors: expected a tensor 'w1', found only a, b, e");
    EXPECT_EQ(refusal([&] { file.meta("schema"); }),
              "x.safetensors: expected metadata 'schema', found only k, \xc3\xa9");
    EXPECT_EQ(file.find("w1"), nullptr);
    EXPECT_TRUE(parse(file_of("{}", "")).tensors.empty());
}

TEST(Safetensors, ValuesThatDoNotFit) {
    const Safetensors wide = parse(file_of(object(tensor("t", "F64", "[2]", 0, 16)), little(1.0) + little(1e39)));
    EXPECT_NE(refusal([&] { wide.at("t").to_floats(); })
                  .find("x.safetensors: t: expected floating-point numbers, found "
                        "a value beyond their range at element 1"),
              std::string::npos);
    const Safetensors large = parse(file_of(object(tensor("t", "U64", "[1]", 0, 8)), little(UINT64_MAX)));
    EXPECT_NE(refusal([&] { large.at("t").to_integers(); }).find("element 0"), std::string::npos);
}

TEST(Safetensors, RefusesWhatDoesNotAddUp) {
    const std::string data(8, 'x');
    const auto says = [](const std::string& file, const std::string& text) {
        const std::string got = refusal([&] { parse(file); });
        EXPECT_NE(got.find(text), std::string::npos) << got;
    };
    const auto header_says = [&](const std::string& json, const std::string& text) { says(file_of(json, data), text); };
    const std::string good = tensor("a", "F32", "[2]", 0, 8);
    ASSERT_NO_THROW(parse(file_of(object(good), data)));

    says("", "8 bytes for the header's length, found 0");
    says(little<uint64_t>(3) + "{}", "found a length of 3");
    says(little<uint64_t>(UINT64_MAX) + "{}", "found a length of 18446744073709551615");
    says(little<uint64_t>(100'000'001) + std::string(100'000'100, ' '),
         "JSON of at most 100 MB, found 100000001 bytes");
    for (const char* json : {"", "{", "not json", "{\"a\":}", "{} {}", "{\"\xff\":1}", "{\"a\":1e999}"}) {
        header_says(json, "expected a JSON object, found something else");
    }
    header_says("[]", "expected a JSON object, found something else");
    header_says("{\"a\":1}", "x.safetensors: a: expected dtype, shape and data_offsets, found none");
    header_says("{\"a\":{}}", "expected a proper 'dtype'");
    header_says("{\"a\":{\"dtype\":4}}", "expected a proper 'dtype'");
    header_says("{\"a\":{\"dtype\":\"F32\",\"shape\":2}}", "expected a proper 'shape'");
    header_says("{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}", "expected a proper 'data_offsets'");
    header_says("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0]}}", "expected two data_offsets, found 1");
    for (const char* size : {"[-2]", "[2.0]", "[\"2\"]", "[9223372036854775808]", "[1e400]"}) {
        const std::string got = refusal([&] { parse(file_of(object(tensor("a", "F32", size, 0, 8)), data)); });
        EXPECT_TRUE(got.find("whole numbers below 2^63") != std::string::npos ||
                    got.find("expected a JSON object") != std::string::npos)
            << got;
    }
    header_says(object(tensor("a", "F8_E4M3", "[8]", 0, 8)), "found 'F8_E4M3'");
    header_says(object(tensor("a", "F32", "[3]", 0, 8)), "expected as many bytes as shape and dtype need, found 8");
    header_says(object(tensor("a", "F32", "[4611686018427387904,4]", 0, 8)), "as shape and dtype need");
    header_says(object(tensor("a", "F64", "[4611686018427387904]", 0, 0)), "as shape and dtype need");
    header_says(object(tensor("a", "F32", "[3]", 0, 12)), "data_offsets within 0:8, found 0:12");
    header_says(object(tensor("a", "F32", "[2]", 8, 0)), "found 8:0");
    header_says(object(tensor("a", "F32", "[1]", 0, 4)), "x.safetensors: expected 4 bytes of data, found 8");
    header_says(object(tensor("a", "F32", "[1]", 4, 8)), "its data at byte 0, where the last ended, found 4");
    header_says(object(good + "," + tensor("b", "F32", "[1]", 4, 8)), "found 4");  // overlap
    header_says(object(good + "," + tensor("b", "F32", "[2]", 0, 8)), "found 0");  // twice the same
    header_says(object(good + "," + good), "found 'a' twice");
    header_says("{\"a\":{\"dtype\":\"F32\",\"dtype\":\"I32\",\"shape\":[2],\"data_offsets\":[0,8]}}",
                "found 'dtype' twice");
    header_says("{" + good + ",\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"}}", "found 'k' twice");
    header_says("{" + good + ",\"__metadata__\":{\"k\":1}}", "expected text as metadata 'k'");
    header_says("{" + good + ",\"__metadata__\":\"text\"}", "expected an object as metadata");
    header_says("{\"a\":{\"shape\":[[2]]}}", "at most 3 levels");
    header_says(std::string(1'000'000, '['), "at most 3 levels");
}

class SafetensorsWriting : public FolderTest {};

TEST_F(SafetensorsWriting, HasTheseBytes) {
    SafetensorsWriter out;
    const float f[] = {1, 2};
    const double d[] = {3};
    out.metadata["schema"] = "test/1";
    out.add("f", {2, 1}, f);
    out.add("d", {}, d);
    out.write(path("x.safetensors"));
    std::string header =
        "{\"__metadata__\":{\"schema\":\"test/1\"},\"d\":{\"dtype\":\"F64\",\"shape\":[],\"data_offsets\":[0,8]},"
        "\"f\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[8,16]}}";
    header.append(184 - header.size(), ' ');  // with the 8 bytes of its length: three times 64
    EXPECT_EQ(read(path("x.safetensors")), file_of(header, little(3.0) + little(1.f) + little(2.f)));
    EXPECT_EQ(files(), 1u);
}

TEST_F(SafetensorsWriting, ReadsBackAligned) {
    SafetensorsWriter out;
    const float f[] = {1, -0.f, 3e-45f};
    const double d[] = {0.1, 1e300};
    const int32_t i[] = {-5, 6, 7};
    const int64_t l[] = {INT64_MIN};
    out.metadata["odd \xff"] = "line\nbreak \"quoted\" \x01";
    out.add("f", {3}, f);
    out.add("i", {3, 1}, i);
    out.add("d", {1, 2}, d);
    out.add("none", {0, 3}, f);
    out.add("l", {}, l);
    out.write(path("x"));
    const Safetensors in = read_safetensors(path("x"));
    ASSERT_EQ(in.tensors.size(), 5u);
    for (const SafeTensor& t : in.tensors) {
        EXPECT_EQ(reinterpret_cast<uintptr_t>(t.bytes.data()) % (t.dtype.ends_with("64") ? 8 : 4), 0u) << t.name;
    }
    EXPECT_EQ(reinterpret_cast<uintptr_t>(in.tensors[0].bytes.data()) % 64, 0u);
    EXPECT_EQ(in.at("f").to_floats(), std::vector<float>(f, f + 3));
    EXPECT_EQ(in.at("d").to_doubles(), std::vector<double>(d, d + 2));
    EXPECT_EQ(in.at("i").to_integers(), std::vector<int64_t>(i, i + 3));
    EXPECT_EQ(in.at("l").to_integers(), std::vector<int64_t>(l, l + 1));
    EXPECT_EQ(in.at("none").shape, (std::vector<int64_t>{0, 3}));
    EXPECT_EQ(in.meta("odd \xef\xbf\xbd"), "line\nbreak \"quoted\" \x01");  // U+FFFD for what is no UTF-8
}

TEST_F(SafetensorsWriting, RefusesMisuse) {
    SafetensorsWriter out;
    const float x[] = {1};
    out.add("a", {1}, x);
    EXPECT_THROW(out.add("a", {1}, x), Error);
    EXPECT_THROW(out.add("__metadata__", {1}, x), Error);
    EXPECT_THROW(out.add("b", {-1}, x), Error);
    EXPECT_THROW(out.add("c", {int64_t(1) << 40, int64_t(1) << 40}, x), Error);
    EXPECT_THROW(out.write(path("no/such/folder")), Error);
    EXPECT_EQ(files(), 0u);
}

}  // namespace
}  // namespace lc
