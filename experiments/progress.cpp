// progress.cpp -- see progress.h.
#include "experiments/progress.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <sys/ioctl.h>
#include <unistd.h>

namespace lc::cli {

namespace {

constexpr double kPatience = 2.0;  // seconds of work before anything is shown
constexpr double kRedraw = 0.1;    // seconds between two drawings
constexpr double kMemory = 10.0;   // seconds after which an old speed counts for 1/e

// The first `columns` characters.  Bytes 10xxxxxx continue a UTF-8 character, so a cut never falls inside one.
std::string cut(const std::string& text, size_t columns) {
    size_t seen = 0;
    for (size_t i = 0; i < text.size(); ++i) {
        const bool starts = (text[i] & 0xC0) != 0x80;
        if (starts && seen++ == columns) return text.substr(0, i);
    }
    return text;
}

size_t width(const std::string& text) {
    return size_t(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

}  // namespace

Screen standard_error() {
    Screen s;
    s.write = [](std::string_view text) {
        std::fwrite(text.data(), 1, text.size(), stderr);
        std::fflush(stderr);
    };
    s.columns = [] {
        winsize w{};
        return ioctl(STDERR_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col > 0 ? int(w.ws_col) : 80;
    };
    s.clock = [] { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); };
    return s;
}

std::string format_seconds(double seconds) {
    const long s = std::lround(std::clamp(seconds, 0.0, 359999.0));  // 99:59:59
    char text[32];
    if (s < 3600)
        std::snprintf(text, sizeof text, "%ld:%02ld", s / 60, s % 60);
    else
        std::snprintf(text, sizeof text, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
    return text;
}

ProgressLine::ProgressLine(bool quiet) : ProgressLine(standard_error()) {
    shown_ = !quiet && isatty(STDERR_FILENO) == 1;
}

ProgressLine::ProgressLine(Screen screen) : screen_(std::move(screen)), start_(screen_.clock()), sampled_at_(start_) {}

ProgressLine::~ProgressLine() {
    if (last_draw_ < 0) return;
    draw(text(screen_.clock(), fraction_ < 1 ? ", stopped" : ""));
    screen_.write("\n");
}

Progress ProgressLine::callback() {
    return [this](double fraction, std::string_view note) { update(fraction, note); };
}

void ProgressLine::update(double fraction, std::string_view note) {
    if (!shown_) return;
    fraction_ = fraction > 0 ? std::min(fraction, 1.0) : 0;  // also for NaN: a display must not stop the work
    note_ = note;
    std::replace_if(
        note_.begin(), note_.end(), [](unsigned char c) { return c < ' ' || c == 127; }, ' ');

    const double now = screen_.clock();
    if (now - start_ < kPatience || (last_draw_ >= 0 && now - last_draw_ < kRedraw)) return;
    follow_speed(now);
    std::string left;
    if (fraction_ < 1 && speed_ > 0) left = ", " + format_seconds((1 - fraction_) / speed_) + " left";
    draw(text(now, left));
    last_draw_ = now;
}

// Exponential smoothing in time, not per call: a burst of calls weighs no more than one call that took as long.
void ProgressLine::follow_speed(double now) {
    const double recent = (fraction_ - sampled_) / (now - sampled_at_);
    const double weight = last_draw_ < 0 ? 1 : 1 - std::exp(-(now - sampled_at_) / kMemory);
    speed_ += weight * (recent - speed_);
    sampled_at_ = now;
    sampled_ = fraction_;
}

std::string ProgressLine::text(double now, const std::string& ending) const {
    char head[16];
    std::snprintf(head, sizeof head, "%3d%%  ", int(fraction_ * 100));  // rounded down: 100% means done
    const std::string line = head + format_seconds(now - start_) + " passed" + ending;
    return note_.empty() ? line : line + "  " + note_;
}

void ProgressLine::draw(const std::string& text) {
    const int columns = std::max(screen_.columns(), 2);
    const std::string line = cut(text, size_t(columns - 1));  // the last column would wrap on some terminals
    const size_t now = width(line), blanks = drawn_ > now ? std::min(drawn_, size_t(columns - 1)) - now : 0;
    screen_.write("\r" + line + std::string(blanks, ' '));
    drawn_ = now;
}

}  // namespace lc::cli
