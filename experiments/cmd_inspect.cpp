// cmd_inspect.cpp -- localcal inspect: names, shapes, types and metadata of arrays and weights, in any format we read.
#include <cmath>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "data/npy.h"
#include "data/torch_file.h"
#include "data/weights.h"
#include "experiments/cli.h"
#include "kernels/check.h"

namespace lc::cli {

namespace {

using Json = nlohmann::ordered_json;

// Of the values as float64: the range of the finite ones, and how many are not.
struct Stats {
    std::optional<double> min, max;  // none where there is no finite value
    int64_t nan = 0, inf = 0;

    void take(const std::vector<double>& values) {
        for (const double x : values) {
            nan += std::isnan(x);
            inf += std::isinf(x);
            if (!std::isfinite(x)) continue;
            min = std::min(min.value_or(x), x);
            max = std::max(max.value_or(x), x);
        }
    }
};

struct Item {
    std::string name;  // empty for the one array of a .npy
    std::vector<int64_t> shape;
    std::string dtype;
    std::optional<Stats> stats;
};

struct FileReport {
    std::string path, format;
    std::map<std::string, std::string> metadata;
    std::vector<Item> items;
};

Item describe(const std::string& name, const NpyArray& a, bool with_stats) {
    Item item = {name, a.shape, a.dtype(), {}};
    if (!with_stats || !a.is_numeric()) return item;
    item.stats.emplace();
    const int64_t rows = a.rows();
    const int64_t piece =
        std::max<int64_t>(1, (1 << 20) / std::max<int64_t>(1, a.count() / std::max<int64_t>(1, rows)));
    for (int64_t r = 0; r < rows; r += piece) item.stats->take(a.to_doubles(r, std::min(rows, r + piece)));
    return item;
}

FileReport describe_npy(const std::string& path, bool with_stats) {
    return {path, "npy", {}, {describe("", read_npy(path), with_stats)}};
}

FileReport describe_npz(const std::string& path, bool with_stats) {
    FileReport report = {path, "npz", {}, {}};
    for (const auto& [name, array] : read_npz(path)) report.items.push_back(describe(name, array, with_stats));
    return report;
}

FileReport describe_weights(const std::string& path, bool with_stats) {
    const Weights file = read_weights(path, "arrays (.npy, .npz) or ");
    FileReport report = {path, file.format, file.metadata, {}};
    for (const SafeTensor& t : file.tensors) {
        report.items.push_back({t.name, t.shape, t.dtype, {}});
        if (with_stats) report.items.back().stats.emplace().take(t.to_doubles());
    }
    return report;
}

FileReport describe_file(const std::string& path, bool with_stats) {  // by its first bytes, whatever its name
    std::error_code ignored;
    if (std::filesystem::is_directory(path, ignored)) return describe_weights(path, with_stats);
    const MappedFile file(path);
    const std::span<const std::byte> bytes = file.bytes();
    const bool zip = looks_like_zip(file), npy = bytes.size() >= 6 && std::memcmp(bytes.data(), "\x93NUMPY", 6) == 0;
    if (npy) return describe_npy(path, with_stats);
    if (zip && !looks_like_torch(bytes, path)) return describe_npz(path, with_stats);
    return describe_weights(path, with_stats);
}

Json to_json(const FileReport& report) {
    Json arrays = Json::array();
    for (const Item& item : report.items) {
        arrays.push_back({{"name", item.name}, {"shape", item.shape}, {"dtype", item.dtype}});
        if (report.format == "npy") arrays.back()["name"] = nullptr;
        if (!item.stats) continue;
        const auto number = [](const std::optional<double>& x) { return x ? Json(*x) : Json(nullptr); };
        const Stats& s = *item.stats;
        arrays.back()["stats"] = {{"min", number(s.min)}, {"max", number(s.max)}, {"nan", s.nan}, {"inf", s.inf}};
    }
    Json metadata = Json::object();
    for (const auto& [key, text] : report.metadata) metadata[key] = text;
    return {{"file", report.path}, {"format", report.format}, {"metadata", metadata}, {"arrays", arrays}};
}

std::string to_text(const FileReport& report, bool with_stats) {
    std::vector<std::vector<std::string>> rows = {{"name", "shape", "type"}};
    if (with_stats) rows.back().insert(rows.back().end(), {"min", "max", "nan", "inf"});
    for (const Item& item : report.items) {
        const std::string name = report.format == "npy" ? "-" : printable(item.name);
        rows.push_back({name, shape_text(item.shape), printable(item.dtype)});
        if (!item.stats) continue;
        const auto number = [](const std::optional<double>& x) {
            char text[32] = "-";
            if (x) std::snprintf(text, sizeof text, "%.6g", *x);
            return std::string(text);
        };
        const Stats& s = *item.stats;
        for (const std::string& cell : {number(s.min), number(s.max), std::to_string(s.nan), std::to_string(s.inf)}) {
            rows.back().push_back(cell);
        }
    }
    std::string text = printable(report.path) + " (" + report.format + ")\n";
    for (const auto& [key, value] : report.metadata) text += "  " + printable(key) + ": " + printable(value) + "\n";
    return text + table(rows);
}

void inspect(const std::vector<std::string>& files, bool with_stats, const Common& common) {
    Json reports = Json::array();
    std::string text;
    for (const std::string& path : files) {
        const FileReport report = describe_file(path, with_stats);
        reports.push_back(to_json(report));
        text += (text.empty() ? "" : "\n") + to_text(report, with_stats);
    }
    if (!common.json) return print(text);
    print_json({{"schema", "localcal.inspect/1"}, {"program", kProgram}, {"files", reports}});
}

}  // namespace

extern const Command inspect_command = {
    "inspect",
    "names, shapes, types and metadata of arrays (.npy, .npz) and weights (.safetensors, .pth, TensorFlow.js)",
    "  $ localcal inspect dump.npz --stats\n"
    "  dump.npz (npz)\n"
    "  name      shape        type     min       max      nan  inf\n"
    "  features  (10000, 64)  float32  0         6.31333  0    0\n"
    "  labels    (10000,)     uint8    0         9        0    0\n"
    "  logits    (10000, 10)  float32  -18.7793  45.9755  0    0\n"
    "\n"
    "min and max are those of the finite values; nan and inf count the others.",
    [](Options& options, const Common& common) -> std::function<void()> {
        struct Wanted {
            std::vector<std::string> files;
            bool stats = false;
        };
        const auto o = std::make_shared<Wanted>();
        options.add_option("FILE", o->files, "what to look at, one or more").required().type_name("");
        options.add_flag("--stats", o->stats, "also read the values: range, number of NaN and infinities");
        return [o, &common] { inspect(o->files, o->stats, common); };
    }};

}  // namespace lc::cli
