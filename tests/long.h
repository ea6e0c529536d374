// long.h -- tests that take long are left to builds without sanitizers, which are ten times faster.
#pragma once
#include <gtest/gtest.h>

#ifdef LC_SANITIZED
    #define LC_LONG_TEST() GTEST_SKIP() << "left to builds without sanitizers, which are ten times faster"
#else
    #define LC_LONG_TEST() static_cast<void>(0)
#endif
