// options.h -- every choice of LN, KC and KO by name, and the presets and settings that bundle them.
//
// The paper and its authors' code disagree in many places; both readings exist, can be chosen one by one, and are written into
// every fitted file.  preset `auto` is our own: it needs no number from the user.
//
//     NetOptions o = preset("ln", "paper", C);        auto | paper | authors
//     apply_setting(o, "cifar100");                   hidden, dropout, epochs of that data set
//     o.gamma = 3;                                    and anything by itself
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/js_ce_loss.h"
#include "kernels/nw_smooth.h"

namespace lc {

enum class Method { ln, kc, ko };              // what predicts, and what is trained
enum class Affine { scalar, vector };          // entries of w_phi, b_phi and of w_g, b_g
enum class Stop { fixed, js, nll };            // when training ends, and by what the best epoch is chosen
enum class ReferenceSet { fit, validation };   // whose rows KC and KO compare with
enum class Bandwidth { fixed, knn, learned };  // one length, one per row by its neighbours, one per row by the network

struct NetOptions {
    Method method = Method::ln;
    std::string preset = "auto";

    NwForm nw = NwForm::exact;                   // --nw paper | authors
    JsDistance js = JsDistance::categorical;     // --js categorical | classwise
    Affine affine = Affine::scalar;              // --affine scalar | vector
    Stop stop = Stop::fixed;                     // --stop fixed | js | nll
    ReferenceSet reference = ReferenceSet::fit;  // --reference fit | validation
    Bandwidth bandwidth = Bandwidth::fixed;      // --bandwidth fixed | knn | learned

    int64_t hidden = 64;      // --hidden
    float dropout = 0.3f;     // --dropout
    int64_t epochs = 22;      // --epochs: how many, or at most
    int64_t patience = 10;    // epochs without a better one before training stops
    int64_t first_stop = 0;   // epochs before which it never stops
    float lr = 1e-3f;         // --lr
    int64_t batch = 1024;     // --batch
    float lambda = 1.0f;      // --lambda: weight of the cross-entropy of theta
    double gamma = 10;        // --fit-gamma; 0: auto
    int64_t components = 50;  // --pca
    int64_t neighbours = 10;  // --neighbours, of bandwidth knn
    bool two_starts = false, final_temperature = false, verdict = false;  // what `auto` adds (LN, KC, KO)

    double held_back() const { return stop != Stop::fixed || reference == ReferenceSet::validation ? 0.1 : 0.0; }
};

NetOptions preset(std::string_view method, std::string_view name, int64_t C);
void apply_setting(NetOptions& o, std::string_view setting);  // cifar10 | cifar100 | tissuemnist
void check_options(const NetOptions& o);                      // refuses what cannot be, with one sentence

// Every choice as text and back, for files, tables and JSON: {"nw", "paper"}, {"hidden", "64"}, ...
using NamedValues = std::vector<std::pair<std::string, std::string>>;
NamedValues to_text(const NetOptions& o);
void set_option(NetOptions& o, const std::string& name, const std::string& value);  // refuses an unknown name or value
std::string method_name(const NetOptions& o);                                       // "ln:paper"

// The number that an option's text stands for, refused outside low .. high; and the shortest text of a number.
double option_number(const std::string& option, const std::string& text, double low, double high);
std::string number_text(double x);

}  // namespace lc
