// test_file.cpp -- files are mapped as they are, and appear under their name whole or not at all.
#include <csignal>
#include <sys/resource.h>
#include <sys/stat.h>

#include "data/file.h"
#include "tests/file_bytes.h"

namespace lc {
namespace {

class Mapped : public FolderTest {};
class Atomic : public FolderTest {};

TEST_F(Mapped, ShowsTheBytes) {
    MappedFile file(write("a", std::string("one\0two", 7)));
    ASSERT_EQ(file.bytes().size(), 7u);
    EXPECT_EQ(file.bytes()[4], std::byte('t'));
    MappedFile moved = std::move(file);
    EXPECT_EQ(moved.bytes()[0], std::byte('o'));
    moved = MappedFile(write("b", ""));
    EXPECT_TRUE(moved.bytes().empty());
    EXPECT_EQ(moved.path(), path("b"));
}

TEST_F(Mapped, RefusesWhatIsNoFile) {
    EXPECT_EQ(refusal([&] { MappedFile(path("none")); }),
              path("none") + ": expected a readable file, found: No such file or directory; check its name");
    EXPECT_NE(refusal([&] { MappedFile(path(".")); }).find("found a folder"), std::string::npos);
    ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
    EXPECT_NE(refusal([&] { MappedFile(path("pipe")); }).find("found a pipe"), std::string::npos);
}

TEST_F(Atomic, AppearsAtCommitAndReplaces) {
    write("out", "old");
    AtomicFile out(path("out"));
    out.write("????? ", 6);
    out.write("world", 5);
    out.write_at(0, "hello", 5);
    EXPECT_EQ(read(path("out")), "old");
    out.commit();
    EXPECT_EQ(read(path("out")), "hello world");
    EXPECT_EQ(files(), 1u);
}

TEST_F(Atomic, LeavesNothingBehind) {
    write("out", "old");
    {
        AtomicFile out(path("out")), other(path("out"));  // two writers of one name do not meet
        out.write("new", 3);
        EXPECT_EQ(files(), 3u);
    }
    EXPECT_EQ(read(path("out")), "old");
    EXPECT_EQ(files(), 1u);
}

TEST_F(Atomic, FollowsLinks) {
    std::filesystem::create_symlink(write("real", "old"), path("link"));
    AtomicFile out(path("link"));
    out.write("new", 3);
    out.commit();
    EXPECT_TRUE(std::filesystem::is_symlink(path("link")));
    EXPECT_EQ(read(path("real")), "new");
}

TEST_F(Atomic, RefusesPlacesWhereNoFileCanBe) {
    EXPECT_NE(refusal([&] { AtomicFile(path(".")); }).find("found a folder"), std::string::npos);
    EXPECT_NE(refusal([&] { AtomicFile("/dev/null"); }).find("found a device"), std::string::npos);
    EXPECT_NE(refusal([&] { AtomicFile(path("no/such/folder")); }).find("check that the folder exists"),
              std::string::npos);
}

TEST_F(Atomic, ADiskThatEndsIsNoFaultOfTheInput) {
    const auto before = std::signal(SIGXFSZ, SIG_IGN);
    struct rlimit all = {}, little = {};
    ::getrlimit(RLIMIT_FSIZE, &all);
    little = all;
    little.rlim_cur = 4;  // a file of more than four bytes cannot be written
    std::string message = "nothing failed";
    try {
        AtomicFile out(path("out"));
        ::setrlimit(RLIMIT_FSIZE, &little);
        out.write("hello", 5);
        out.commit();
    } catch (const std::runtime_error& e) {
        message = e.what();
    }
    ::setrlimit(RLIMIT_FSIZE, &all);
    std::signal(SIGXFSZ, before);
    EXPECT_EQ(message, path("out") + ": writing failed: File too large; nothing was kept");
    EXPECT_EQ(files(), 0u);
}

}  // namespace
}  // namespace lc
