// file.cpp -- POSIX files behind file.h: mmap to read; a new name, fsync and rename to write.
#include "data/file.h"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "kernels/check.h"

namespace lc {

namespace fs = std::filesystem;

void refuse(const std::string& source, const std::string& sentence) { throw Error(source + ": " + sentence); }

namespace {

std::string what_it_is(mode_t mode) {
    if (S_ISDIR(mode)) return "a folder";
    if (S_ISFIFO(mode)) return "a pipe";
    if (S_ISSOCK(mode)) return "a socket";
    return "a device";
}

struct Descriptor {  // closes itself when the constructor of MappedFile throws
    int number;
    ~Descriptor() {
        if (number >= 0) ::close(number);
    }
};

}  // namespace

MappedFile::MappedFile(const std::string& path) : path_(path) {
    // O_NONBLOCK: a pipe that nobody writes to is refused below instead of waited for.
    const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
    struct stat info = {};
    if (file.number < 0 || ::fstat(file.number, &info) != 0) {
        refuse(path, std::string("expected a readable file, found: ") + std::strerror(errno) + "; check its name");
    }
    if (!S_ISREG(info.st_mode)) refuse(path, "expected a file, found " + what_it_is(info.st_mode));
    size_ = size_t(info.st_size);
    if (size_ == 0) return;  // mmap knows no empty mappings
    void* memory = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.number, 0);
    if (memory == MAP_FAILED) throw std::runtime_error(path + ": cannot be mapped: " + std::strerror(errno));
    data_ = static_cast<const std::byte*>(memory);
}

MappedFile::~MappedFile() {
    if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
    std::swap(path_, other.path_);  // the other one unmaps what was here
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
}

AtomicFile::AtomicFile(const std::string& path) : path_(path) {
    struct stat info = {};
    const bool exists = ::stat(path.c_str(), &info) == 0;
    if (exists && !S_ISREG(info.st_mode)) {  // renaming over /dev/null would replace it
        refuse(path, "expected a name for a new file, found " + what_it_is(info.st_mode) + "; give another name");
    }
    std::error_code ignored;
    if (exists && fs::is_symlink(path, ignored))
        path_ = fs::canonical(path).string();  // replace the file, keep the link

    static std::atomic<int> serial{0};  // one process may write one name twice at a time
    partial_ = path_ + "." + std::to_string(::getpid()) + "-" + std::to_string(serial++) + ".partial";
    descriptor_ = ::open(partial_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor_ < 0) {
        refuse(path, std::string("expected a place to write to, found: ") + std::strerror(errno) +
                         "; check that the folder exists and is yours");
    }
}

AtomicFile::~AtomicFile() { close_and_remove(); }

void AtomicFile::close_and_remove() {
    if (descriptor_ < 0) return;
    ::close(std::exchange(descriptor_, -1));
    ::unlink(partial_.c_str());
}

void AtomicFile::fail(const char* doing) const {
    throw std::runtime_error(path_ + ": " + doing + " failed: " + std::strerror(errno) + "; nothing was kept");
}

void AtomicFile::write(const void* bytes, size_t count) {
    const char* p = static_cast<const char*>(bytes);
    while (count > 0) {
        const ssize_t done = ::write(descriptor_, p, count);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) fail("writing");
        p += done;
        count -= size_t(done);
    }
}

void AtomicFile::write_at(size_t offset, const void* bytes, size_t count) {
    const char* p = static_cast<const char*>(bytes);
    while (count > 0) {
        const ssize_t done = ::pwrite(descriptor_, p, count, off_t(offset));
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) fail("writing");
        p += done;
        offset += size_t(done);
        count -= size_t(done);
    }
}

void AtomicFile::commit() {
    LC_CHECK(descriptor_ >= 0, path_ << ": commit() once");
    if (::fsync(descriptor_) != 0) fail("flushing to disk");
    if (::rename(partial_.c_str(), path_.c_str()) != 0) fail("renaming the finished file");
    ::close(std::exchange(descriptor_, -1));  // fsync has reported what close could
    // The new name must survive a power cut too.  Not every file system can flush a folder: the file is whole anyway.
    const std::string folder = fs::path(path_).parent_path().string();
    const Descriptor parent{::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    if (parent.number >= 0) ::fsync(parent.number);
}

}  // namespace lc
