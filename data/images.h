// images.h -- a set of images, with or without labels, whatever files it comes from.
//
//     auto images = open_images("cifar10:cifar-10-batches-bin:test");
//     Image x = images->image(17);
//
//     cifar10:FOLDER:train|test     the binary version (cifar.h); cifar100 with its fine labels; cifar10:FILE.bin is one file
//     npz:FILE:train|val|test       MedMNIST's layout: train_images (n, h, w) or (n, h, w, 3) of bytes, train_labels (n, 1)
//     fashion:FOLDER:train|test     four IDX files, plain or .gz
//     FOLDER                        a sub-folder of image files per class, in the order of their names; or image files
//                                   without labels
//     FILE                          one image
//
// Sets of arrays are read at once; image files when they are asked for, their names alone at once.  In a folder, files
// count by their names' endings (.jpg .png ...: decode.h looks at the bytes again), sub-folders of a class belong to
// it, and hidden files and others are passed over; description() says how many.
//
// hash()   of all pixels (arrays) or all bytes of all files (folders), the names and the labels.  Sizes and times
//          of files would be had for nothing, but a copy would count as other data and an edited file perhaps as the
//          same; and reading a file costs less than a thousandth of what a network does with it.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/image.h"

namespace lc {

class ImageSource {
  public:
    virtual ~ImageSource() = default;
    virtual int64_t size() const = 0;
    virtual int64_t classes() const = 0;                                 // 0 where there are no labels
    virtual int32_t label(int64_t i) const = 0;                          // in [0, classes()); -1 where there are none
    virtual Image image(int64_t i) const = 0;                            // any thread, at any time
    virtual std::string name(int64_t i) const = 0;                       // "cats/17.jpg", "cifar10:x:test, image 17"
    virtual std::vector<std::string> class_names() const { return {}; }  // empty where classes are numbers
    virtual std::string hash() const = 0;                                // 16 hexadecimal digits
    virtual std::string description() const = 0;                         // "10000 images of 32 x 32 in 10 classes"
};

std::unique_ptr<ImageSource> open_images(const std::string& what);

// The last two forms of open_images.
std::unique_ptr<ImageSource> open_image_files(const std::string& path);

}  // namespace lc
