// test_progress.cpp -- the progress line, on a screen made of a string and a clock that is moved by hand.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <memory>
#include <stdexcept>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <thread>
#include <unistd.h>

#include "experiments/progress.h"

namespace lc::cli {
namespace {

struct FakeScreen {
    double now = 1000;  // a clock need not start at zero
    int columns = 80;
    std::string written;
    int drawings = 0;

    Screen screen() {
        return {[this](std::string_view t) { written += t, drawings += t[0] == '\r'; }, [this] { return columns; },
                [this] { return now; }};
    }
    double seconds_left() const {  // -1: the line does not say
        int minutes = 0, seconds = 0;
        const std::string line = last_line();
        const size_t comma = line.find(", ");
        if (comma == std::string::npos || sscanf(line.c_str() + comma, ", %d:%d left", &minutes, &seconds) != 2)
            return -1;
        return minutes * 60 + seconds;
    }
    // What a person sees: '\r' goes back to the first column, later characters cover earlier ones.  ASCII only.
    std::string last_line() const {
        std::string line;
        size_t at = 0;
        for (char c : written) {
            if (c == '\r') at = 0;
            if (c == '\r' || c == '\n') continue;
            if (at == line.size()) line += ' ';
            line[at++] = c;
        }
        return line.substr(0, line.find_last_not_of(' ') + 1);
    }
};

TEST(Progress, ShowsNothingForWorkUnderTwoSeconds) {
    FakeScreen f;
    {
        ProgressLine line(f.screen());
        const Progress progress = line.callback();
        progress(0, "begin");
        f.now += 1.99;
        progress(1, "end");
    }
    EXPECT_EQ(f.written, "");
}

TEST(Progress, ShowsPercentTimesAndNote) {
    FakeScreen f;
    ProgressLine line(f.screen());
    f.now += 10;
    line.callback()(0.25, "epoch 3");
    EXPECT_EQ(f.last_line(), " 25%  0:10 passed, 0:30 left  epoch 3");
}

TEST(Progress, RedrawsTenTimesASecondAtMost) {
    FakeScreen f;
    ProgressLine line(f.screen());
    const Progress progress = line.callback();
    f.now += 2;
    for (int i = 0; i < 10000; ++i) {
        f.now += 0.001;
        progress(i / 10000.0, "");
    }
    EXPECT_LE(f.drawings, 101);
    EXPECT_GE(f.drawings, 90);
}

TEST(Progress, LeavesAFinalLine) {
    FakeScreen f;
    {
        ProgressLine line(f.screen());
        const Progress progress = line.callback();
        f.now += 60;
        progress(0.5, "a long note that is not there any more");
        f.now += 0.01;  // too soon to redraw: the final line must show it all the same
        progress(1, "done");
        f.now += 5;
    }
    EXPECT_EQ(f.last_line(), "100%  1:05 passed  done");
    EXPECT_EQ(f.written.back(), '\n');
}

TEST(Progress, SaysThatItWasStopped) {
    FakeScreen f;
    try {
        ProgressLine line(f.screen());
        f.now += 4;
        line.callback()(0.5, "half");
        throw std::runtime_error("disk full");
    } catch (const std::runtime_error&) {
        f.written += "message\n";
    }
    EXPECT_NE(f.written.find(" 50%  0:04 passed, stopped  half"), std::string::npos) << f.written;
    EXPECT_EQ(f.written.substr(f.written.size() - 9), "\nmessage\n");
}

TEST(Progress, NeverSays100PercentBeforeTheEnd) {
    FakeScreen f;
    ProgressLine line(f.screen());
    f.now += 3;
    line.callback()(0.9999, "");
    EXPECT_EQ(f.last_line().substr(0, 4), " 99%");
}

TEST(Progress, EstimateFollowsTheRecentSpeedSmoothly) {
    FakeScreen f;
    ProgressLine line(f.screen());
    const Progress progress = line.callback();
    double fraction = 0;
    const auto work = [&](double seconds, double speed) {
        for (int i = 0; i < seconds * 10; ++i) {
            f.now += 0.1001;  // a hair over the redraw interval
            progress(fraction += speed * 0.1001, "");
        }
    };
    work(20, 0.01);
    EXPECT_NEAR(f.seconds_left(), 80, 1);
    work(0.3, 0.1);  // a burst at ten times the speed: 8 s by itself, smoothed it must not take a third off
    EXPECT_GT(f.seconds_left(), 54);
    EXPECT_LT(f.seconds_left(), 77);
    work(60, 0.001);  // six times the memory later only the new speed counts: 0.71 / 0.001
    EXPECT_NEAR(f.seconds_left(), (1 - fraction) / 0.001, 40);
}

TEST(Progress, RespectsTheWidthAndItsChange) {
    FakeScreen f;
    f.columns = 40;
    ProgressLine line(f.screen());
    const Progress progress = line.callback();
    f.now += 10;
    progress(0.5, std::string(200, 'x'));
    EXPECT_EQ(f.last_line().size(), 39u);
    f.columns = 12;
    f.written.clear();
    f.now += 1;
    progress(0.55, std::string(200, 'x'));
    EXPECT_EQ(f.written.size(), 12u) << "'\\r' and 11 columns";
    f.columns = 0;  // what some terminals answer
    f.now += 1;
    EXPECT_NO_THROW(progress(0.6, "x"));
}

TEST(Progress, NeverCutsInsideACharacter) {
    FakeScreen f;
    ProgressLine line(f.screen());
    const Progress progress = line.callback();
    f.now += 10;
    const std::string gamma = "\xCE\xB3";  // two bytes, one column
    std::string note;
    for (int i = 0; i < 100; ++i) note += gamma;
    for (f.columns = 41; f.columns < 45; ++f.columns) {
        f.now += 1;
        f.written.clear();
        progress(0.5, note);
        EXPECT_EQ(f.written.substr(f.written.size() - 2), gamma) << f.columns;
        size_t shown = 0;
        for (char c : f.written.substr(1)) shown += (c & 0xC0) != 0x80;
        EXPECT_EQ(shown, size_t(f.columns - 1));
    }
}

TEST(Progress, SurvivesOddInput) {
    FakeScreen f;
    ProgressLine line(f.screen());
    const Progress progress = line.callback();
    for (double fraction : {-1.0, 0.0, 7.0, double(NAN), double(INFINITY), -double(INFINITY), 0.3}) {
        f.now += 3;
        progress(fraction, "one\ntwo\x1b[2J");
    }
    EXPECT_EQ(f.last_line().substr(0, 4), " 30%");
    EXPECT_EQ(f.written.find_first_of("\n\x1b"), std::string::npos) << "a note must not move the cursor";
}

TEST(Progress, FormatsSeconds) {
    EXPECT_EQ(format_seconds(0), "0:00");
    EXPECT_EQ(format_seconds(59.6), "1:00");
    EXPECT_EQ(format_seconds(3599), "59:59");
    EXPECT_EQ(format_seconds(3600), "1:00:00");
    EXPECT_EQ(format_seconds(1e300), "99:59:59");
    EXPECT_EQ(format_seconds(-5), "0:00");
}

// The real thing: shown on a terminal, and only there.  Standard error is a pseudo-terminal, then a pipe, for a moment.
class StandardError : public testing::Test {
  protected:
    void SetUp() override {
        saved_ = dup(STDERR_FILENO);
        terminal_ = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK);
        ASSERT_EQ(pipe2(pipe_, O_NONBLOCK), 0);
        if (terminal_ < 0 || grantpt(terminal_) != 0 || unlockpt(terminal_) != 0)
            GTEST_SKIP() << "needs pseudo-terminals: this system has no /dev/pts";
        slave_ = open(ptsname(terminal_), O_RDWR | O_NOCTTY);
        ASSERT_GE(slave_, 0);
    }
    void TearDown() override {
        redirect(saved_);
        for (int fd : {saved_, terminal_, slave_, pipe_[0], pipe_[1]}) close(fd);
    }
    static void redirect(int fd) { dup2(fd, STDERR_FILENO); }
    static std::string read_all(int fd) {
        char buffer[4096];
        const ssize_t n = read(fd, buffer, sizeof buffer);
        return n > 0 ? std::string(buffer, size_t(n)) : "";
    }
    int saved_ = -1, terminal_ = -1, slave_ = -1, pipe_[2] = {-1, -1};
};

TEST_F(StandardError, HasTheWidthOfTheTerminal) {
    winsize size{};
    size.ws_col = 33;
    ASSERT_EQ(ioctl(terminal_, TIOCSWINSZ, &size), 0);
    redirect(slave_);
    EXPECT_EQ(standard_error().columns(), 33);
    redirect(pipe_[1]);
    EXPECT_EQ(standard_error().columns(), 80);
}

TEST_F(StandardError, ShowsOnATerminalOnlyAndNotWhenQuiet) {
    redirect(slave_);
    auto shown = std::make_unique<ProgressLine>(false), quiet = std::make_unique<ProgressLine>(true);
    redirect(pipe_[1]);
    auto piped = std::make_unique<ProgressLine>(false);
    std::this_thread::sleep_for(std::chrono::milliseconds(2050));

    piped->callback()(0.5, "note");
    piped.reset();
    EXPECT_EQ(read_all(pipe_[0]), "");
    redirect(slave_);
    quiet->callback()(0.5, "note");
    quiet.reset();
    EXPECT_EQ(read_all(terminal_), "");
    shown->callback()(0.5, "note");
    shown.reset();
    EXPECT_NE(read_all(terminal_).find("note"), std::string::npos);
}

}  // namespace
}  // namespace lc::cli
