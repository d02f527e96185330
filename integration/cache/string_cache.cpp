// What string_cache does itself: it has no cache behind it, or numbers in it.

#include "integration/cache/run_loader.hpp"

#include <charconv>

namespace caravan {

namespace {

std::optional<std::int64_t> parsed(std::string_view text) {
  std::int64_t out = 0;
  const auto* end = text.data() + text.size();
  const auto [stopped, problem] = std::from_chars(text.data(), end, out);
  return problem == std::errc{} && stopped == end ? std::optional{out} : std::nullopt;
}

}  // namespace

error string_cache::none() {
  return {errc::not_found, "there is no cache: it was not opened, or ENABLED = false in [cache]"};
}

bool string_cache::is_int64(std::string_view text) { return parsed(text).has_value(); }

expected<std::int64_t> string_cache::to_int64(std::string_view key, std::string_view text) {
  if (const auto number = parsed(text)) return *number;
  // Only if get_string loads the same key at the same time: this call waited for that loader.
  return {errc::invalid_argument,
          "cache key " + shown_cache_key(key) + " is loaded as a text elsewhere; use one key for one thing"};
}

expected<std::string> string_cache::read_through(std::string_view key, const cache_port::loader& load,
                                                 bool (*usable)(std::string_view)) {
  return port_ ? port_->load(key, load, usable) : run_loader(key, load);
}

}  // namespace caravan
