// test_input.cpp -- INPUT as the commands take it: what is read from which files, and every sentence that refuses.
#include <cfloat>
#include <cmath>
#include <cstdlib>

#include "experiments/cli.h"
#include "experiments/input.h"
#include "tests/file_bytes.h"

namespace lc::cli {
namespace {

using Floats = std::vector<float>;
constexpr float kNan = NAN, kInf = INFINITY;

class Input : public FolderTest {
  protected:
    // Three samples, two features, three classes; each test changes what it is about.
    Floats features = {1, 2, 3, 4, 5, 6};
    Floats logits = {1, -2, 3, 0, 5, 0, 0.5f, 0.25f, 0.25f};
    Floats probs = {0.5f, 0.25f, 0.25f, 1, 0, 0, 0.125f, 0.125f, 0.75f};
    std::vector<int64_t> labels = {2, 1, 0};

    std::string npz(const std::vector<std::pair<std::string, std::string>>& arrays) {  // {name in the file, array}
        NpzWriter out(path("data.npz"));
        for (const auto& [name, what] : arrays) {
            if (what == "features") out.add(name, {3, 2}, features.data());
            if (what == "logits") out.add(name, {3, 3}, logits.data());
            if (what == "probs") out.add(name, {3, 3}, probs.data());
            if (what == "labels") out.add(name, {3}, labels.data());
        }
        out.commit();
        return path("data.npz");
    }
    std::string all() { return npz({{"features", "features"}, {"logits", "logits"}, {"labels", "labels"}}); }
    std::string npy(const char* name, const std::vector<int64_t>& shape, const Floats& x) {
        write_npy(path(name), shape, x.data());
        return path(name);
    }
    Dataset load_data(const std::string& file, Needs needs = {}, const std::string& rows = "") {
        InputOptions o;
        o.data = file;
        o.rows = rows;
        return load(o, needs);
    }
    void says(const std::string& text, const InputOptions& o, Needs needs = {true, true}) {
        const std::string got = refusal([&] { load(o, needs); });
        EXPECT_NE(got.find(text), std::string::npos) << got;
        EXPECT_EQ(got.find('['), got.find("[0, 1]")) << "no place in the source belongs here: " << got;
    }
    void data_says(const std::string& text, const std::string& file, const std::string& rows = "") {
        InputOptions o;
        o.data = file;
        o.rows = rows;
        says(text, o);
    }
};

TEST_F(Input, OneFile) {
    const Dataset data = load_data(all(), {true, true});
    EXPECT_EQ(std::tuple(data.n, data.C, data.d), std::tuple(3, 3, 2));
    EXPECT_EQ(data.features, features);
    EXPECT_EQ(data.logits, logits);
    EXPECT_EQ(data.labels, (std::vector<int32_t>{2, 1, 0}));
    EXPECT_TRUE(data.probs.empty());
    EXPECT_EQ(data.source, path("data.npz"));
}

TEST_F(Input, FilesOneByOne) {
    npz({{"whatever", "labels"}});
    const InputOptions o = {"", npy("f.npy", {3, 2}, features), npy("g.npy", {3, 3}, logits), "", path("data.npz"), ""};
    const Dataset data = load(o, {true, true});
    EXPECT_EQ(data.features, features);
    EXPECT_EQ(data.logits, logits);
    EXPECT_EQ(data.labels, (std::vector<int32_t>{2, 1, 0}));
}

TEST_F(Input, ProbabilitiesBecomeLogarithms) {
    const Dataset data = load_data(npz({{"probs", "probs"}}));
    EXPECT_EQ(int64_t(data.probs.size()), data.n * data.C);
    for (size_t i = 0; i < 9; ++i) EXPECT_EQ(data.logits[i], std::log(std::max(probs[i], FLT_MIN)));
    EXPECT_TRUE(data.features.empty() && data.labels.empty());
    EXPECT_EQ(data.d, 0);
}

TEST_F(Input, NamesOfNetcal) {
    const Dataset data = load_data(npz({{"predictions", "probs"}, {"ground_truth", "labels"}}), {false, true});
    EXPECT_EQ(int64_t(data.probs.size()), data.n * data.C);
    EXPECT_EQ(data.labels[0], 2);
    data_says("expected either probs or predictions, found both", npz({{"predictions", "probs"}, {"probs", "probs"}}));
}

TEST_F(Input, LogitsAndProbabilitiesMustAgree) {
    for (size_t i = 0; i < 9; ++i) logits[i] = 7 + std::log(std::max(probs[i], 1e-9f));
    const auto both = [&] { return npz({{"logits", "logits"}, {"probs", "probs"}}); };
    EXPECT_EQ(load_data(both()).logits, logits);
    std::swap(probs[0], probs[1]);
    EXPECT_NE(refusal([&] { load_data(both()); })
                  .find("probs: expected the softmax of the logits beside them, here 0.5, "
                        "found 0.25 at row 0, column 0"),
              std::string::npos);
}

TEST_F(Input, Rows) {
    const Dataset data = load_data(all(), {true, true}, "1:3");
    EXPECT_EQ(data.n, 2);
    EXPECT_EQ(data.features, (Floats{3, 4, 5, 6}));
    EXPECT_EQ(data.logits, Floats(logits.begin() + 3, logits.end()));
    EXPECT_EQ(data.labels, (std::vector<int32_t>{1, 0}));
    EXPECT_EQ(load_data(all(), {}, ":2").labels, (std::vector<int32_t>{2, 1}));
    EXPECT_EQ(load_data(all(), {}, "1:").labels, (std::vector<int32_t>{1, 0}));
    data_says("expected rows within 0:3, found 0:4", all(), "0:4");
    data_says("found 4:3", all(), "4:");
    data_says("found 2:1", all(), "2:1");
    data_says("expected at least 2 samples, found 1", all(), "0:1");
    data_says("expected at least 2 samples, found 0", all(), "3:3");
    for (const char* bad : {"1", ":", "a:b", "1:2:3", "-1:2", "1 :2", "1:9223372036854775808"}) {
        data_says("--rows takes", all(), bad);
    }
    logits[5] = kNan;  // rows that are not read are not looked at, and places are those of the file
    data_says("found nan at row 1, column 2; mend or drop that row", all(), "1:3");
    EXPECT_EQ(refusal([&] {
                  labels[1] = 7, load_data(npz({{"probs", "probs"}, {"labels", "labels"}}), {}, "1:");
              }),
              path("data.npz") + ": labels: expected labels from 0 to 2, found 7 in row 1; mend or drop that row");
}

TEST_F(Input, OptionsThatContradictEachOther) {
    const std::string f = npy("f.npy", {3, 2}, features), g = npy("g.npy", {3, 3}, logits);
    says("expected input, found none; give --data", {});
    says("expected either --data FILE.npz or one file per array, found both", {all(), f, "", "", "", ""});
    says("expected --logits F or --probs F, found neither", {"", f, "", "", "", ""});
    says("expected --logits F or --probs F, found both", {"", f, g, g, "", ""});
    says("expected --features F, found none", {"", "", g, "", g, ""});
    says("expected --labels F, found none", {"", f, g, "", "", ""});
    says("--logits takes a .npy file or a .npz file with one array; found 3 arrays", {"", f, all(), "", f, ""});
    says("--data takes a .npz file", {f, "", "", "", "", ""});
}

TEST_F(Input, ArraysThatAreNotThere) {
    data_says("expected an array 'logits' or 'probs' (and 'features', 'labels'), found lgits, y",
              npz({{"lgits", "logits"}, {"y", "labels"}}));
    data_says("found none; rename", npz({}));
    data_says("expected features, found none", npz({{"logits", "logits"}, {"labels", "labels"}}));
    data_says("expected labels, found none", npz({{"logits", "logits"}, {"features", "features"}}));
    data_says("No such file", path("none.npz"));
    all();
    std::filesystem::resize_file(path("data.npz"), std::filesystem::file_size(path("data.npz")) - 1);
    data_says("the file is cut short", path("data.npz"));
}

TEST_F(Input, NumbersThatAreNone) {
    for (const float bad : {kNan, kInf, -kInf}) {
        features[3] = bad;
        data_says("features: expected finite features, found ", all());
        data_says(" at row 1, column 1; mend or drop that row", all());
        features[3] = 0;
        logits[8] = bad;
        data_says("logits: expected finite logits", all());
        data_says(" at row 2, column 2;", all());
        logits[8] = 0;
    }
}

TEST_F(Input, LogitsAndProbabilitiesAreNeverGuessed) {
    const std::string p = npy("p.npy", {3, 3}, probs), g = npy("g.npy", {3, 3}, logits);
    says("expected logits, found rows that are all in [0, 1] and sum to 1; give them as probabilities, by --probs",
         {"", "", p, "", "", ""}, {});
    says("expected probabilities in [0, 1], found -2 at row 0, column 1; logits are given by --logits",
         {"", "", "", g, "", ""}, {});
    probs[4] = 0.002f;
    says("expected probabilities that sum to 1 in every row, found 1.002 in row 1",
         {"", "", "", npy("p.npy", {3, 3}, probs), "", ""}, {});
    probs[4] = 0.0009f;
    EXPECT_NO_THROW(load({"", "", "", npy("p.npy", {3, 3}, probs), "", ""}, {}));
    probs[3] = 1.0001f;
    says("found 1.0001 at row 1, column 0", {"", "", "", npy("p.npy", {3, 3}, probs), "", ""}, {});
    probs[3] = kNan;
    says("expected finite probabilities", {"", "", "", npy("p.npy", {3, 3}, probs), "", ""}, {});
}

TEST_F(Input, Shapes) {
    const std::string f = npy("f.npy", {3, 2}, features), g = npy("g.npy", {3, 3}, logits);
    const Needs none = {};
    says("expected logits as a matrix, a row per sample, found shape (9,); two classes need two columns",
         {"", "", npy("x.npy", {9}, logits), "", "", ""}, none);
    says("expected at least two classes, found shape (9, 1)", {"", "", npy("x.npy", {9, 1}, logits), "", "", ""}, none);
    says("found shape (3, 3, 1); reshape it", {"", "", npy("x.npy", {3, 3, 1}, logits), "", "", ""}, none);
    says("expected features as a matrix, a row per sample, found shape (3,); reshape",
         {"", npy("x.npy", {3}, features), g, "", "", ""}, none);
    says("expected at least one feature, found shape (3, 0)", {"", npy("x.npy", {3, 0}, {}), g, "", "", ""}, none);
    says("expected at least 1 sample, found 0", {"", "", npy("x.npy", {0, 3}, {}), "", "", ""}, none);
    says("x.npy: expected as many rows as " + g + " has, 3, found 2; use arrays of the same samples",
         {"", npy("x.npy", {2, 2}, features), g, "", "", ""}, none);
    says("has, 3, found 2", {"", f, g, "", npy("x.npy", {2}, {0, 1}), ""}, none);
}

TEST_F(Input, Labels) {
    const std::string g = npy("g.npy", {3, 3}, logits);
    const auto from = [&](const std::vector<int64_t>& shape, const Floats& y) {
        return InputOptions{"", "", g, "", npy("y.npy", shape, y), ""};
    };
    const Needs needed = {false, true};
    EXPECT_EQ(load(from({3}, {0, 2, 1}), needed).labels, (std::vector<int32_t>{0, 2, 1}));  // whole numbers of any type
    EXPECT_EQ(load(from({3, 1}, {0, 2, 1}), needed).labels, (std::vector<int32_t>{0, 2, 1}));
    says("expected one label per sample, found shape (3, 3); turn one-hot rows into labels with argmax",
         from({3, 3}, {1, 0, 0, 1, 0, 0, 1, 0, 0}), needed);
    says("expected one label per sample, found shape (3, 2)", from({3, 2}, features), needed);
    says("expected whole numbers of at most 64 bits, found another value at row 1", from({3}, {0, 1.5f, 1}), needed);
    says("expected whole numbers", from({3}, {0, kNan, 1}), needed);
    says("expected labels from 0 to 2, found 3 in row 2; mend or drop", from({3}, {0, 1, 3}), needed);
    says("found -1 in row 0", from({3}, {-1, 1, 2}), needed);
    says("they seem to count from 1: subtract 1", from({3}, {1, 2, 3}), needed);
    says("expected labels of at least two classes, found only class 1", from({3}, {1, 1, 1}), needed);
    EXPECT_NO_THROW(load(from({3}, {1, 1, 1}), {}));  // where they are not needed
}

TEST_F(Input, RealFiles) {
    const char* folder = std::getenv("LOCALCAL_DATA");
    if (folder == nullptr) GTEST_SKIP() << "LOCALCAL_DATA names no folder with real data";
    const std::string root = folder;
    const Dataset dump = load_data(root + "/dumps/cifar100_resnet56_test.npz", {true, true}, "5000:");
    EXPECT_EQ(std::tuple(dump.n, dump.C, dump.d), std::tuple(5000, 100, 64));
    const Dataset record = load_data(root + "/records/wideresnet-16-4-cifar-10.npz", {false, true});
    EXPECT_EQ(std::tuple(record.n, record.C, record.d), std::tuple(10000, 10, 0));
    EXPECT_EQ(int64_t(record.probs.size()), record.n * record.C);
    int right = 0;
    for (int64_t i = 0; i < record.n; ++i) {
        const float* row = record.logits.data() + i * record.C;
        right += std::max_element(row, row + record.C) - row == record.labels[size_t(i)];
    }
    EXPECT_GT(right, 9000);  // a network, not a shifted or transposed array
}

TEST_F(Input, TheOptionsReachTheirPlaces) {
    static InputOptions o;
    const Command command = {"try", "reads options", "", [](Options& options, const Common&) -> std::function<void()> {
                                 add_input_options(options, o);
                                 return [] {};
                             }};
    run_command(command, "try",
                {"--data", "a", "--features", "b", "--logits", "c", "--probs", "d", "--labels", "e", "--rows", "1:2"});
    EXPECT_EQ(std::vector({o.data, o.features, o.logits, o.probs, o.labels, o.rows}),
              (std::vector<std::string>{"a", "b", "c", "d", "e", "1:2"}));
    testing::internal::CaptureStdout();
    run_command(command, "try", {"--help"});
    EXPECT_NE(testing::internal::GetCapturedStdout().find("\nInput:\n"), std::string::npos);
}

}  // namespace
}  // namespace lc::cli
