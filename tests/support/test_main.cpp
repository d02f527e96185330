// The engine and main() of CAF's unit tests, compiled once for all test programs.
#define CAF_SUITE main
#include "caf/test/unit_test_impl.hpp"
