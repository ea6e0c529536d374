// image_batch.h -- images as a network takes them: of one size, normalised, channels last.
//
//     ImagePipeline pipeline = {.height = 224, .width = 224, .normalisation = named_normalisation("imagenet")};
//     load_batch(out, *images, {3, 1, 4}, pipeline);
//
// fit = stretch   resized to height x width, whatever the proportions
//       crop      the shorter side resized to `shorter_side`, then the middle: torchvision's evaluation (256 and 224)
//
// Images are shared out among the OpenMP threads, and the numbers are the same for any number of them.  An image that
// cannot be read is an lc::Error with its name; of several, the first in the batch.
#pragma once
#include "data/images.h"
#include "data/normalise.h"

namespace lc {

enum class Fit { stretch, crop };

struct ImagePipeline {
    int64_t height = 224, width = 224;
    Fit fit = Fit::stretch;
    int64_t shorter_side = 256;  // of crop alone; at least as long as height and width
    Normalisation normalisation;
};

Image fit_image(const Image& image, const ImagePipeline& pipeline, const std::string& name);

void load_batch(float* out,  // (rows, height, width, 3)
                const ImageSource& images, const std::vector<int64_t>& rows, const ImagePipeline& pipeline);

}  // namespace lc
