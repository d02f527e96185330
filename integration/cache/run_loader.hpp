#pragma once

#include <caravan/cache.hpp>

#include <string>
#include <string_view>

namespace caravan {

/// A key as it may stand in a text: short, in one line.
[[nodiscard]] std::string shown_cache_key(std::string_view key);

/// A throw becomes an error: one exception must not be looked at by several threads at once, and many may wait for one
/// loader.
[[nodiscard]] expected<std::string> run_loader(std::string_view key, const cache_port::loader& load);

}  // namespace caravan
