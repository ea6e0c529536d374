// decode_opencv.cpp -- OpenCV behind decode.h, for formats that stb does not know: WebP, TIFF, JPEG 2000, ...
//
// A program that is linked with this file has it, others do not: OpenCV brings a hundred shared libraries with it, which
// a program that reads no images should not wait for.
#include <climits>
#include <opencv2/core/utils/logger.hpp>
#include <opencv2/imgcodecs.hpp>

#include "data/decode.h"
#include "data/file.h"

namespace lc {
namespace {

Image decode_by_opencv(std::span<const std::byte> file, const std::string& source) {
    cv::Mat bgr;
    if (!file.empty() && file.size() <= INT_MAX) {
        const cv::Mat bytes(1, int(file.size()), CV_8UC1, const_cast<std::byte*>(file.data()));
        try {
            bgr = cv::imdecode(bytes, cv::IMREAD_COLOR | cv::IMREAD_IGNORE_ORIENTATION);
        } catch (const cv::Exception&) {  // as an empty result: it is no image
        }
    }
    if (bgr.empty()) {
        refuse(source, std::string("expected an image, found ") +
                           (file.empty() ? "an empty file" : "something that neither stb_image nor OpenCV can decode") +
                           "; save it again, for example as PNG, or leave it out");
    }
    Image image = {bgr.rows, bgr.cols, std::vector<uint8_t>(size_t(bgr.rows) * size_t(bgr.cols) * 3)};
    uint8_t* to = image.pixels.data();
    for (int y = 0; y < bgr.rows; ++y) {
        const uint8_t* from = bgr.ptr(y);
        for (int x = 0; x < bgr.cols; ++x, from += 3, to += 3) to[0] = from[2], to[1] = from[1], to[2] = from[0];
    }
    return image;
}

const bool registered = [] {
    cv::utils::logging::setLogLevel(cv::utils::logging::LOG_LEVEL_SILENT);  // what is wrong is said once, by us
    opencv_decoder = decode_by_opencv;
    return true;
}();

}  // namespace
}  // namespace lc
