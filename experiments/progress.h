// progress.h -- one line on standard error that says how far long work is.
//
//     ProgressLine line(common.quiet);
//     model.fit(data, line.callback());
//
//      42%  1:07 passed, 1:32 left  epoch 7, loss 0.31            redrawn in place, ten times a second at most
//     100%  2:41 passed  epoch 17, loss 0.24                      stays when the ProgressLine ends
//
// Work that ends within two seconds shows nothing, and nothing is ever shown with --quiet or where standard error is
// not a terminal.  A line that ends before its work (an exception) stays as it was, so that the message stands below
// it.
#pragma once
#include <functional>
#include <string>
#include <string_view>

#include "kernels/progress.h"

namespace lc::cli {

// Where the line is drawn, and what the time is: tests bring their own.
struct Screen {
    std::function<void(std::string_view)> write;
    std::function<int()> columns;   // asked at every redraw: windows change size
    std::function<double()> clock;  // seconds
};
Screen standard_error();

class ProgressLine {
  public:
    explicit ProgressLine(bool quiet);           // on standard error
    explicit ProgressLine(Screen screen);        // always shown
    ProgressLine(const ProgressLine&) = delete;  // callback() points here
    ProgressLine& operator=(const ProgressLine&) = delete;
    ~ProgressLine();

    Progress callback();  // valid as long as this object

  private:
    void update(double fraction, std::string_view note);
    void follow_speed(double now);
    void draw(const std::string& text);
    std::string text(double now, const std::string& ending) const;

    Screen screen_;
    bool shown_ = true;      // false: quiet, or no terminal
    double start_ = 0;       // seconds
    double sampled_at_ = 0;  // when the speed was last looked at, and how far the work was then
    double sampled_ = 0;     // fraction
    double last_draw_ = -1;  // -1: nothing drawn yet
    double fraction_ = 0;    // as told last
    double speed_ = 0;       // fraction per second, smoothed
    std::string note_;
    size_t drawn_ = 0;  // columns in use on the screen
};

std::string format_seconds(double seconds);  // "0:07", "1:02:03"

}  // namespace lc::cli
