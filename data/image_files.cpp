// image_files.cpp -- folders of image files, and single files, behind images.h.
#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>

#include "data/decode.h"
#include "data/file.h"
#include "data/hash.h"
#include "data/images.h"
#include "data/parallel_try.h"

namespace lc {
namespace {

namespace fs = std::filesystem;

struct File {
    std::string name;  // within the folder
    int32_t label;
};

class ImageFiles : public ImageSource {
  public:
    ImageFiles(fs::path folder, std::vector<File> files, std::vector<std::string> classes, int64_t others)
        : folder_(std::move(folder)), files_(std::move(files)), classes_(std::move(classes)), others_(others) {}

    int64_t size() const override { return int64_t(files_.size()); }
    int64_t classes() const override { return int64_t(classes_.size()); }
    int32_t label(int64_t i) const override { return files_.at(size_t(i)).label; }
    Image image(int64_t i) const override { return read_image(path(i)); }
    std::string name(int64_t i) const override { return files_.at(size_t(i)).name; }
    std::vector<std::string> class_names() const override { return classes_; }
    std::string hash() const override;
    std::string description() const override {
        std::string text = std::to_string(size()) + (size() == 1 ? " image file" : " image files");
        text += classes_.empty() ? " without labels" : " in " + std::to_string(classes()) + " classes";
        return others_ == 0 ? text : text + " (" + std::to_string(others_) + " other files passed over)";
    }

  private:
    std::string path(int64_t i) const { return (folder_ / name(i)).string(); }

    fs::path folder_;
    std::vector<File> files_;
    std::vector<std::string> classes_;
    int64_t others_;
};

std::string ImageFiles::hash() const {
    std::vector<std::string> each(files_.size());
    parallel_try(size(), [&](int64_t i) { each[size_t(i)] = Hash().add_bytes(MappedFile(path(i)).bytes()).text(); });
    Hash all;
    for (size_t i = 0; i < each.size(); ++i) {
        const std::string line = files_[i].name + '\n' + std::to_string(files_[i].label) + ' ' + each[i] + '\n';
        all.add_bytes(std::as_bytes(std::span(line)));
    }
    return all.text();
}

bool hidden(const fs::path& path) { return path.filename().string().starts_with('.'); }

bool named_like_an_image(const fs::path& path) {
    static constexpr std::array kEndings = {".jpg", ".jpeg", ".png", ".bmp",  ".gif",  ".pgm",
                                            ".ppm", ".pnm",  ".tif", ".tiff", ".webp", ".jfif"};
    std::string ending = path.extension().string();
    for (char& c : ending) c = char(std::tolower(static_cast<unsigned char>(c)));
    return std::find(kEndings.begin(), kEndings.end(), ending) != kEndings.end();
}

// What is in a folder, sorted by name.  A folder that cannot be listed is refused.
std::vector<fs::path> entries(const fs::path& folder) {
    std::error_code error;
    std::vector<fs::path> found;
    fs::directory_iterator at(folder, error);
    for (; !error && at != fs::directory_iterator(); at.increment(error)) {
        if (!hidden(at->path())) found.push_back(at->path());
    }
    if (error) refuse(folder.string(), "expected a folder that can be read, found: " + error.message());
    std::sort(found.begin(), found.end());
    return found;
}

bool is_folder(const fs::path& path) {
    std::error_code unreadable;
    return fs::is_directory(path, unreadable);
}

// All images under `folder`, sub-folders behind files; links to folders are followed at the top alone, so that none leads
// in a circle.
void collect(const fs::path& top, const fs::path& folder, int32_t label, std::vector<File>& files, int64_t& others) {
    std::vector<fs::path> inner;
    for (const fs::path& path : entries(folder)) {
        if (is_folder(path)) {
            if (!fs::is_symlink(path)) inner.push_back(path);
        } else if (named_like_an_image(path)) {
            files.push_back({path.lexically_relative(top).string(), label});
        } else {
            ++others;
        }
    }
    for (const fs::path& path : inner) collect(top, path, label, files, others);
}

std::unique_ptr<ImageSource> open_folder(const fs::path& top) {
    std::vector<File> files, loose;
    std::vector<std::string> classes;
    std::string empty;  // a class without images
    int64_t others = 0;
    for (const fs::path& path : entries(top)) {
        if (is_folder(path)) {
            const size_t before = files.size();
            collect(top, path, int32_t(classes.size()), files, others);
            if (files.size() == before && empty.empty()) empty = path.filename().string();
            classes.push_back(path.filename().string());
        } else if (named_like_an_image(path)) {
            loose.push_back({path.filename().string(), -1});
        } else {
            ++others;
        }
    }
    if (files.empty() && loose.empty()) {
        refuse(top.string(), "expected a folder of images, or of one folder of images per class, found no image in it");
    }
    if (!files.empty() && !loose.empty()) {
        refuse(top.string(), "expected images either in one folder per class or without folders, found " +
                                 files[0].name + " and " + loose[0].name + "; move one of the kinds elsewhere");
    }
    if (!loose.empty()) return std::make_unique<ImageFiles>(top, loose, std::vector<std::string>(), others);
    if (!empty.empty()) {
        refuse(top.string(), "expected images in every folder, as each is a class, found none in " + empty +
                                 "; remove that folder or put its images there");
    }
    return std::make_unique<ImageFiles>(top, std::move(files), std::move(classes), others);
}

}  // namespace

std::unique_ptr<ImageSource> open_image_files(const std::string& path) {
    if (is_folder(path)) return open_folder(path);
    const fs::path file = path;
    MappedFile{path};  // refuses what cannot be read
    return std::make_unique<ImageFiles>(file.parent_path(), std::vector<File>{{file.filename().string(), -1}},
                                        std::vector<std::string>(), 0);
}

}  // namespace lc
