#pragma once

#include "integration/runner.hpp"

#include <caravan/context.hpp>

#include <memory>

namespace caravan {

/// A C++ function as a runner. What it throws passes through: the worker turns it into failed attempts.
[[nodiscard]] std::shared_ptr<runner> make_function_runner(raw_handler handler);

}  // namespace caravan
