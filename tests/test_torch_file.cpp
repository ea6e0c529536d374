// test_torch_file.cpp -- weights as PyTorch itself saved them, files put together here, and every way to be refused.
#include <cstring>

#include "data/inflate.h"
#include "data/torch_file.h"
#include "data/zip.h"
#include "tests/golden/torch_files.h"
#include "tests/pickle_bytes.h"

namespace lc {
namespace {

using namespace pickled;
using Shape = std::vector<int64_t>;

Weights parse(const std::string& file) {
    const auto kept = std::make_shared<std::string>(file);
    return parse_torch(as_bytes(*kept), "x.pth", kept);
}
std::vector<double> values(const Weights& w, const std::string& name) {
    const SafeTensor* t = w.find(name);
    if (t == nullptr) ADD_FAILURE() << "no tensor " << name;
    return t == nullptr ? std::vector<double>() : t->to_doubles();
}
// ---- by PyTorch itself ------------------------------------------------------------------------------------------------
std::string unpacked(const char* hex) {
    std::string gz;
    for (; *hex != 0; hex += 2) gz += char(std::stoi(std::string(hex, 2), nullptr, 16));
    uint32_t size = 0;
    std::memcpy(&size, gz.data() + gz.size() - 4, 4);
    const auto damaged = [](const std::string&, const std::string& what) { throw std::runtime_error(what); };
    const auto bytes = inflate_all(as_bytes(gz), size, Wrapping::gzip, "golden", damaged);
    return {reinterpret_cast<const char*>(bytes.get()), size};
}

TEST(WeightsByTorch, EveryType) {
    for (const char* file : {golden::kTypesZip, golden::kTypesLegacy}) {
        const Weights w = parse(unpacked(file));
        EXPECT_EQ(w.format, file == golden::kTypesZip ? "torch zip" : "torch legacy");
        std::string types;
        for (const SafeTensor& t : w.tensors) {
            types += t.dtype + " ";
            EXPECT_EQ(t.shape, Shape{3});
            EXPECT_EQ(t.to_doubles(), (std::vector<double>{0, 1, t.dtype == "BOOL" ? 1.0 : 100.0})) << t.name;
        }
        EXPECT_EQ(types, "F64 F32 F16 BF16 I64 I32 I16 I8 U8 BOOL ");
        EXPECT_TRUE(w.metadata.empty());
    }
}

TEST(WeightsByTorch, Views) {
    for (const char* file : {golden::kViewsZip, golden::kViewsLegacy}) {
        const Weights w = parse(unpacked(file));
        const auto check = [&](const char* name, const Shape& shape, const std::function<double(int)>& element) {
            std::vector<double> wanted(size_t(w.find(name)->count()));
            for (size_t i = 0; i < wanted.size(); ++i) wanted[i] = element(int(i));
            EXPECT_EQ(w.find(name)->shape, shape) << name;
            EXPECT_EQ(values(w, name), wanted) << name;
        };
        ASSERT_EQ(w.tensors.size(), 9u);
        check("whole", {2, 3, 4}, [](int i) { return i; });
        check("transposed", {6, 4}, [](int i) { return i / 4 + i % 4 * 6; });
        check("tail", {4}, [](int i) { return 20 + i; });
        check("every third", {8}, [](int i) { return 1 + 3 * i; });
        check("permuted", {3, 2, 2}, [](int i) { return 1 + i / 4 + i / 2 % 2 * 12 + i % 2 * 8; });
        check("expanded", {2, 3}, [](int) { return 5; });
        check("scalar", {}, [](int) { return 7; });
        check("empty", {0, 5}, [](int) { return 0; });
        check("parameter", {2}, [](int i) { return 3 + i; });
        EXPECT_EQ(w.find("tail")->bytes.data(), w.find("whole")->bytes.data() + 80);  // they share a storage
    }
}

TEST(WeightsByTorch, Checkpoint) {
    for (const char* file : {golden::kCheckpointZip, golden::kCheckpointLegacy}) {
        const Weights w = parse(unpacked(file));
        std::string names;
        for (const SafeTensor& t : w.tensors) names += t.name + " ";
        EXPECT_EQ(names, "0.weight 0.bias 1.weight 1.bias 1.running_mean 1.running_var 1.num_batches_tracked ");
        EXPECT_EQ(w.find("0.weight")->shape, (Shape{2, 1, 1, 1}));
        EXPECT_EQ(values(w, "1.bias"), (std::vector<double>{3.5, 3.5}));
        EXPECT_EQ(w.find("module.0.weight"), nullptr);
        EXPECT_EQ(w.metadata, (std::map<std::string, std::string>{{"amp", "True"},
                                                                  {"arch", "resnet"},
                                                                  {"best", "91.25"},
                                                                  {"epoch", "161"},
                                                                  {"far", "-1099511627776"},
                                                                  {"negative", "-5"},
                                                                  {"optimizer", "left out: a dictionary of 2"},
                                                                  {"scheduler", "None"},
                                                                  {"seed", "left out: an integer beyond 64 bits"}}));
    }
}

TEST(WeightsByTorch, CutShort) {
    for (const char* file : {golden::kViewsZip, golden::kViewsLegacy}) {
        const std::string whole = unpacked(file);
        for (size_t size = 0; size < whole.size(); ++size) {
            ASSERT_NE(refusal([&] { parse(whole.substr(0, size)); }), "nothing was refused") << size;
        }
    }
}

// ---- put together here ------------------------------------------------------------------------------------------------
const std::string kFour = little<int64_t>(4) + little(1.f) + little(2.f) + little(3.f) + little(4.f);

std::string one(const std::string& tensor) {
    return legacy(dict({{"w", tensor}, {"also", storage("0", 4)}}), {"0"}, kFour);
}
void refused_tensor(const std::string& tensor, const std::string& reason) {
    expect_refusal([&] { parse(one(tensor)); }, reason);
}

TEST(TorchTensors, Views) {
    EXPECT_EQ(values(parse(one(tensor(storage("0", 4), 0, {2, 2}, {2, 1}))), "w"), (std::vector<double>{1, 2, 3, 4}));
    EXPECT_EQ(values(parse(one(tensor(storage("0", 4), 0, {2, 2}, {1, 2}))), "w"), (std::vector<double>{1, 3, 2, 4}));
    EXPECT_EQ(values(parse(one(tensor(storage("0", 4), 3, {1, 1}, {INT64_MAX, INT64_MAX}))), "w"),
              std::vector<double>{4});
    EXPECT_EQ(values(parse(one(tensor(storage("0", 4), 1, {2, 1, 2}, {1, INT64_MAX, 1}))), "w"),
              (std::vector<double>{2, 3, 3, 4}));
    EXPECT_TRUE(values(parse(one(tensor(storage("0", 4), 4, {0, 9}, {9, 1}))), "w").empty());
}

TEST(TorchTensors, RefusesViewsThatDoNotFit) {
    const std::string four = storage("0", 4);
    refused_tensor(tensor(four, 1, {4}, {1}),
                   "x.pth: w: expected a view within its storage of 4 elements, found one beyond");
    refused_tensor(tensor(four, 0, {2, 2}, {3, 1}), "a view within its storage");
    refused_tensor(tensor(four, 4, {}, {}), "a view within its storage");
    refused_tensor(tensor(four, 5, {0}, {1}), "a view within its storage");
    refused_tensor(tensor(four, INT64_MAX, {2}, {1}), "a view within its storage");
    refused_tensor(tensor(four, 0, {3}, {INT64_MAX}), "a view within its storage");
    refused_tensor(tensor(four, -1, {1}, {1}), "an offset from 0, found -1");
    refused_tensor(tensor(four, 0, {-1}, {1}), "sizes and strides from 0, found -1");
    refused_tensor(tensor(four, 3, {2}, {-1}), "sizes and strides from 0, found -1");
    refused_tensor(tensor(four, 0, {2}, {}), "a stride for each of 1 dimensions, found 0");
    refused_tensor(tensor(four, 0, {INT64_MAX, 3}, {0, 0}), "a shape whose product fits 64 bits");
    refused_tensor(tensor(four, 0, {1 << 20, 1 << 10}, {0, 0}),
                   "expected views that together are no larger than the file");
    refused_tensor(tensor(four, 0, Shape(65, 1), Shape(65, 1)), "at most 64 dimensions, found 65");
    refused_tensor(tensor(four, 0, {4}, {1}, dict({{"neg", "\x88"}})), "found one with flags");
    refused_tensor(tensor("N", 0, {4}, {1}), "a persistent id, found None");
    refused_tensor(tensor(storage("0", -1), 0, {4}, {1}), "a storage's size, found -1");
    refused_tensor(tensor(storage("0", INT64_MAX), 0, {4}, {1}), "a storage's size, found 9223372036854775807");
    refused_tensor(tensor(storage("0", 4, "QInt8Storage"), 0, {4}, {1}), "found 'torch.QInt8Storage'");
    refused_tensor(global("torch._utils", "_rebuild_tensor_v2") + ")R", "an integer, found no more");
}

TEST(TorchTensors, CopiesTogetherAreNoLargerThanTheFile) {
    std::vector<std::pair<std::string, std::string>> many;
    for (int i = 0; i < 40; ++i) {
        many.emplace_back("w" + std::to_string(i), tensor(storage("0", 4), 0, {100, 100}, {0, 0}));
    }
    expect_refusal([&] { parse(legacy(dict(many), {"0"}, kFour)); },
                   "expected views that together are no larger than the file");
    many.resize(20);  // 800 kB
    EXPECT_EQ(parse(legacy(dict(many), {"0"}, kFour)).tensors.size(), 20u);
}

std::string nested(const std::string& dictionary) { return legacy(dictionary, {"0"}, kFour); }

TEST(TorchTensors, Wrappers) {
    const std::string t = tensor(storage("0", 4), 0, {4}, {1}), inner = dict({{"module.w", t}});
    EXPECT_NE(parse(nested(dict({{"net", inner}}))).find("w"), nullptr);
    EXPECT_NE(parse(nested(dict({{"model_state_dict", inner}}))).find("w"), nullptr);
    EXPECT_NE(parse(nested(dict({{"model", dict({{"net", inner}})}}))).find("w"), nullptr);
    EXPECT_NE(parse(nested(dict({{"state_dict", inner}, {"model", dict({{"v", t}})}}))).find("w"), nullptr);
    EXPECT_NE(parse(nested(dict({{"module.w", t}, {"v", t}}))).find("module.w"), nullptr);  // not all have it
    EXPECT_NE(parse(nested(dict({{"module.", t}}))).find("module."), nullptr);
    const Weights beside = parse(nested(dict({{"model", inner}, {"mean", t}, {"note", text(std::string(200, 'x'))}})));
    EXPECT_EQ(beside.metadata.at("mean"), "left out: a tensor");
    EXPECT_EQ(beside.metadata.at("note"), std::string(100, 'x') + "...");
    expect_refusal(
        [&] {
            parse(nested(dict({{"encoder", inner}})));
        },
        "expected a dictionary of tensors, by itself or under");
    expect_refusal([&] { parse(nested(dict({{std::string(1001, 'w'), t}}))); }, "names of at most 1000 bytes");
    expect_refusal([&] { parse(nested(dict({{"w", t}, {"w", t}}))); }, "every name once, found 'w' twice");
    expect_refusal([&] { parse(nested("}K\1" + t + "s")); }, "expected texts as names, found an integer");
    expect_refusal([&] { parse(nested(t)); }, "expected a dictionary of tensors, found a call");
    expect_refusal([&] { parse(legacy("}q\1" + text("state_dict") + "h\1s", {}, "")); },
                   "expected a dictionary of tensors");  // itself
    std::string deep = inner;
    for (int i = 0; i < 4; ++i) deep = dict({{"net", deep}});
    EXPECT_NE(parse(nested(deep)).find("w"), nullptr);
    expect_refusal([&] { parse(nested(dict({{"net", deep}}))); }, "expected a dictionary of tensors");
}

TEST(TorchLegacy, RefusesWhatDoesNotAddUp) {
    const std::string object = dict({{"w", tensor(storage("0", 4), 0, {4}, {1})}});
    const auto check = [&](const std::string& file, const std::string& reason) {
        expect_refusal([&] { parse(file); }, reason);
    };
    check(program("K\1"), "expected a file by torch.save, found another pickle");
    check(kMagic + program(number(1000)), "version 1001");
    check(kMagic + program(number(1001)) + program("N"), "facts about the machine");
    check(kMagic + program(number(1001)) + program(dict({{"little_endian", "\x89"}})), "found big endian");
    check(legacy(object, {}, ""), "the storage '0', found none");
    check(legacy(object, {"1"}, kFour), "storages that tensors have, found '1'");
    check(legacy(object, {"0", "0"}, kFour + kFour), "every storage once, found '0' twice");
    check(legacy(object, {"0"}, kFour + "x"), "the file's end after its storages, found 1 bytes");
    check(legacy(object, {"0"}, little<int64_t>(5) + kFour), "4 elements in the storage '0', found 5");
    check(legacy(object, {"0"}, little<int64_t>(-1)), "4 elements in the storage '0', found -1");
    check(legacy(object, {"0"}, kFour.substr(0, 23)), "16 bytes of the storage '0', found 15");
    check(legacy(object, {"0"}, "1234567"), "the storage '0', found the file's end");
    const std::string other = tensor(storage("0", 4, "IntStorage"), 0, {4}, {1});
    check(legacy(dict({{"w", tensor(storage("0", 4), 0, {4}, {1})}, {"v", other}}), {"0"}, kFour),
          "one type and size for the storage '0'");
    const std::string huge = dict({{"w", tensor(storage("0", int64_t(1) << 60), 0, {4}, {1})}});
    check(legacy(huge, {"0"}, little(int64_t(1) << 60)), "4611686018427387904 bytes of the storage '0', found 0");
    check(legacy("}" + text("args") + global("argparse", "Namespace") + ")Rs", {}, ""),
          "found 'argparse.Namespace', which is not run");
}

class TorchZip : public FolderTest {
  protected:
    using Entries = std::vector<std::pair<std::string, std::string>>;
    std::string zip(const Entries& entries) const {
        ZipWriter out(path("x.pth"));
        for (const auto& [name, bytes] : entries) {
            out.begin(name, bytes.size());
            out.append(bytes.data(), bytes.size());
            out.end();
        }
        out.commit();
        return path("x.pth");
    }
    void refused_zip(const Entries& entries, const std::string& reason) const {
        expect_refusal([&] { read_weights(zip(entries)); }, reason);
    }
};

TEST_F(TorchZip, ReadsAndRefuses) {
    const std::string pickle = program(dict({{"w", tensor(storage("7", 4), 0, {2, 2}, {1, 2})}})),
                      data = kFour.substr(8);
    const Weights w = read_weights(
        zip({{"any/data.pkl", pickle}, {"any/data/7", data}, {"any/version", "3\n"}, {"any/byteorder", "little"}}));
    EXPECT_EQ(w.format, "torch zip");
    EXPECT_EQ(values(w, "w"), (std::vector<double>{1, 3, 2, 4}));
    refused_zip({{"a/data.pkl", pickle}}, "expected the entry 'a/data/7', found none");
    refused_zip({{"a/data.pkl", pickle}, {"a/data/7", data + "x"}}, "16 bytes in 'data/7', found 17");
    refused_zip({{"a/data.pkl", pickle}, {"b/data.pkl", pickle}, {"a/data/7", data}},
                "expected one data.pkl, found 'a/data.pkl' and 'b/data.pkl'");
    refused_zip({{"a/data.pkl", pickle}, {"a/data/7", data}, {"a/byteorder", "big"}}, "found big endian");
    refused_zip({{"a/data.pkl", pickle}, {"a/constants.pkl", ""}}, "found a TorchScript program");
    refused_zip({{"a.npy", "x"}}, "found a zip archive without data.pkl");
    refused_zip({{"a/data.pkl", ""}}, "1 more bytes, found 0");
}

}  // namespace
}  // namespace lc
