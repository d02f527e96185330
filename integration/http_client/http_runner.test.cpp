#define CAF_SUITE http_runner
#include "caf/test/unit_test.hpp"
