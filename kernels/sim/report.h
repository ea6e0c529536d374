// report.h -- inside the runtime: collecting findings, and turning addresses into names a person knows.
#pragma once
#include <cstdint>
#include <string>

#include "kernels/sim/control.h"

namespace cusim {

// Records a finding once per `key` (with its kind and kernel), afterwards only counts it.
void report(Finding finding, const std::string& key);

// What a launch did wrong: the text ends with who launched it.
struct Launch;
void report_in(const Launch& launch, Kind kind, const std::string& text, const std::string& where,
               const std::string& key);
[[noreturn]] void throw_fault_in(const Launch& launch, Kind kind, const std::string& text, const std::string& where);

// The same as report() in two steps, for checks that would spend most of their time on texts nobody reads: true if the
// finding is new and should now be told to report().
bool is_new(Kind kind, const std::string& kernel, const std::string& key);

// What was reported since watch_reports(), as an exception: how a launch with findings ends.  Warnings do not count.
void watch_reports();
void throw_if_reported();
[[noreturn]] void throw_fault(Finding finding);  // report and throw in one

std::string index_text(unsigned x, unsigned y, unsigned z);  // "(3,0,0)"

// ---- addresses (symbols.cpp) ----------------------------------------------------------------------------------------

std::string source_place(const char* file, int line);  // "softmax.cu:40"
std::string source_place(const void* pc);         // of a return address; "device.cuh:18 (inlined at softmax.cu:40)"
std::string source_place_low32(uint32_t pc);      // of the low half of a return address
std::string outermost(const std::string& place);  // "device.cuh:18 (inlined at softmax.cu:40)" -> "softmax.cu:40"
std::string function_name(const void* function, const char* otherwise);  // demangled, without parameters
std::string mangled_name(const void* function);                          // empty if the symbol is not visible
bool in_loaded_image(const void* p);                                     // constants of the program or of a library

}  // namespace cusim
