// real_data.h -- outputs of real classifiers, from the folder named by LOCALCAL_DATA; tests that need them skip
// without.
//
//     dumps/    features (n, d), logits (n, C), labels (n)
//     records/  predictions (n, C): probabilities, ground_truth (n)
#pragma once
#include <cstdlib>
#include <filesystem>
#include <gtest/gtest.h>

#include "calib/calibrator.h"
#include "data/npy.h"
#include "tests/long.h"

namespace test {

struct Dump {
    int64_t n = 0, d = 0, C = 0;
    std::vector<float> features, logits;
    std::vector<int32_t> labels;

    explicit Dump(const std::string& path) {
        const auto arrays = lc::read_npz(path);
        n = arrays.at("features").shape[0], d = arrays.at("features").shape[1], C = arrays.at("logits").shape[1];
        features = arrays.at("features").to_floats();
        logits = arrays.at("logits").to_floats();
        for (int64_t y : arrays.at("labels").to_integers()) labels.push_back(int32_t(y));
    }
    lc::Samples rows(int64_t begin, int64_t end) const {
        return lc::Samples{n, d, C, features.data(), logits.data(), labels.data()}.rows(begin, end);
    }
};

struct Record {
    int64_t n = 0, C = 0;
    std::vector<float> probs;
    std::vector<int32_t> labels;

    explicit Record(const std::string& path) {
        const auto arrays = lc::read_npz(path);
        n = arrays.at("predictions").shape[0], C = arrays.at("predictions").shape[1];
        probs = arrays.at("predictions").to_floats();
        for (int64_t y : arrays.at("ground_truth").to_integers()) labels.push_back(int32_t(y));
    }
};

class RealData : public testing::Test {
  protected:
    void SetUp() override {
        LC_LONG_TEST();
        const char* folder = std::getenv("LOCALCAL_DATA");
        if (folder == nullptr || !std::filesystem::exists(std::string(folder) + "/dumps")) {
            GTEST_SKIP()
                << "needs real predictions: set LOCALCAL_DATA to a folder with dumps/cifar10_resnet20_test.npz";
        }
        folder_ = folder;
    }
    Dump dump(const std::string& name) const { return Dump(folder_ + "/dumps/" + name + "_test.npz"); }
    Record record(const std::string& name) const { return Record(folder_ + "/records/" + name + ".npz"); }

  private:
    std::string folder_;
};

}  // namespace test
