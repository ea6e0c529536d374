// calibrator.h -- what every method of calibration is: fitted once on labelled rows, then applied to any rows.
//
//     std::unique_ptr<Calibrator> c = make_calibrator("ln:paper");      calib/methods.h
//     c->fit(samples, {.backend = &b});
//     Prediction p = c->predict(test, {.backend = &b});                  row by row: pieces give the same as the whole
//     save_calibrator("model.safetensors", *c);
//     c = load_calibrator("model.safetensors");                          the same predictions, bit for bit
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/safetensors.h"
#include "kernels/backend.h"
#include "kernels/progress.h"
#include "nn/pca.h"

namespace lc {

// Rows of a classifier's output, in host memory.
struct Samples {
    int64_t n = 0, d = 0, C = 0;
    const float* features = nullptr;  // (n, d) or null
    const float* logits = nullptr;    // (n, C)
    const int32_t* labels = nullptr;  // (n); null where they are not known
    const double* probs = nullptr;  // (n, C) as given, where probabilities were: logits are their logarithms, in float

    Samples rows(int64_t begin, int64_t end) const {
        return {end - begin,
                d,
                C,
                features ? features + begin * d : nullptr,
                logits + begin * C,
                labels ? labels + begin : nullptr,
                probs ? probs + begin * C : nullptr};
    }
};

struct Prediction {
    int64_t n = 0, C = 0, k = 0;
    std::vector<double> probs;      // (n, C)
    std::vector<double> log_probs;  // (n, C): exact where probs underflow; -infinity where they are 0
    std::vector<float> features;    // (n, k), where the method has a space of its own; else empty
};

// Where and how to work.
struct Context {
    const Backend* backend = nullptr;
    uint64_t seed = 0;
    Progress progress = {};
    std::function<void(const std::string&)> note = {};  // one sentence that a person should read
    std::string checkpoint = {};                        // a file: training state is kept there, and taken up from there
};

// What fit() found out, by name, in the order it should be read: "gamma" -> "1.41", "ended" -> "best epoch 83 of 98".
// Numbers are given as numbers too, for JSON.
struct Finding {
    std::string name, text;
    bool is_number = false;
    double number = 0;
};
Finding finding(const std::string& name, const std::string& text);
Finding finding(const std::string& name, double number);  // its text has six digits

class Calibrator {
  public:
    virtual ~Calibrator() = default;
    virtual std::string method() const = 0;  // "ln:auto"
    virtual void fit(const Samples& s, const Context& c) = 0;
    virtual Prediction predict(const Samples& s, const Context& c) const = 0;  // labels are not looked at
    virtual void store(SafetensorsWriter& out) const = 0;
    virtual void restore(const Safetensors& in) = 0;
    virtual std::vector<Finding> findings() const { return {}; }  // of the fit; kept in the file
    virtual std::vector<std::pair<std::string, std::string>> options() const { return {}; }  // every choice, by name
    virtual int64_t features_expected() const = 0;                                           // columns; 0: none needed
    virtual int64_t classes_expected() const = 0;
    virtual bool uses_features() const { return false; }
    virtual bool keeps_order() const { return false; }  // of the classes in every row: the arg-max is the classifier's
    virtual int64_t impossible_labels(const Samples&) const { return 0; }  // that get probability 0, before any floor
    // How it sees the classifier's features, if it reduces them.
    virtual const Pca* reduction() const { return nullptr; }
};

// What fit() needs of its rows, refused with one sentence: at least two rows, two classes, labels in range, finite numbers.
void check_samples(const Samples& s, bool with_features, bool with_labels);

// What predict() of a method without features needs: that it was fitted, and rows of as many classes.
void check_applies(const Calibrator& c, const Samples& s);

int64_t stored_classes(const Safetensors& in);  // of a fitted model; refuses what cannot be their number

void save_calibrator(const std::string& path, const Calibrator& c,
                     const std::map<std::string, std::string>& also = {});  // `also`: further metadata
std::unique_ptr<Calibrator> load_calibrator(const std::string& path);

// Refuses rows that the fitted calibrator was not made for.
void check_fits(const Calibrator& c, const Samples& s, const std::string& source);

}  // namespace lc
