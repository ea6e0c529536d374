// methods.h -- every method of calibration by name.
#pragma once
#include <map>

#include "calib/calibrator.h"

namespace lc {

// "ts", "dc:authors", "ln:paper", ... or a name people know it by: "dirichlet", "temp-scaling".  `options` are
// choices of the method by name ("hidden" -> "128"); a name or value that the method does not know is refused.
std::unique_ptr<Calibrator> make_calibrator(const std::string& method,
                                            const std::map<std::string, std::string>& options);

std::unique_ptr<Calibrator> restore_calibrator(const Safetensors& in);  // by its metadata "method"

}  // namespace lc
