// file_bytes.h -- what the tests of file formats share: files written byte by byte, a folder for them, refusals.
#pragma once
#include <filesystem>
#include <fstream>
#include <functional>
#include <gtest/gtest.h>
#include <iterator>
#include <span>
#include <string>
#include <unistd.h>

#include "kernels/check.h"

namespace lc {

template <class T>
std::string little(T value) {  // its bytes as they lie in a file
    return {reinterpret_cast<const char*>(&value), sizeof value};
}

inline std::span<const std::byte> as_bytes(const std::string& s) {
    return {reinterpret_cast<const std::byte*>(s.data()), s.size()};
}

inline std::string refusal(const std::function<void()>& f) {
    try {
        f();
    } catch (const Error& e) {
        return e.what();
    }
    return "nothing was refused";
}

inline void expect_refusal(const std::function<void()>& f, const std::string& reason) {
    const std::string found = refusal(f);
    EXPECT_NE(found.find(reason), std::string::npos) << found << "\nand not: " << reason;
}

class FolderTest : public testing::Test {  // a temporary folder per test
  protected:
    FolderTest() { std::filesystem::create_directories(folder_); }
    ~FolderTest() override { std::filesystem::remove_all(folder_); }
    std::string path(const std::string& name) const { return (folder_ / name).string(); }
    std::string write(const std::string& name, const std::string& bytes) const {
        std::ofstream(path(name), std::ios::binary) << bytes;
        return path(name);
    }
    static std::string read(const std::string& path) {
        std::ifstream in(path, std::ios::binary);
        return {std::istreambuf_iterator<char>(in), {}};
    }
    size_t files() const {  // how many there are
        return size_t(std::distance(std::filesystem::directory_iterator(folder_), {}));
    }

  private:
    const std::filesystem::path folder_ =
        std::filesystem::temp_directory_path() / ("localcal-" + std::to_string(::getpid()) + "-" +
                                                  testing::UnitTest::GetInstance()->current_test_info()->name());
};

}  // namespace lc
