#pragma once

/// Our errors as CAF carries them, and back.

#include <caravan/error.hpp>

#include <caf/error.hpp>
#include <caf/make_message.hpp>

namespace caravan {

/// The category of errc in a caf::error; 10 characters at most.
[[nodiscard]] caf::atom_value error_category() noexcept;

[[nodiscard]] caf::error to_caf(const error& e);
/// Errors of CAF itself become timed_out (the outcome is unknown), queue_closed (nobody there) or backend_failed.
[[nodiscard]] error from_caf(const caf::error& e);

}  // namespace caravan
