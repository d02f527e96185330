#include "integration/cache/run_loader.hpp"

#include <exception>

namespace caravan {

std::string shown_cache_key(std::string_view key) {
  std::string out = "\"";
  for (const char c : key.substr(0, 80)) out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  return out + (key.size() > 80 ? "...\"" : "\"");
}

expected<std::string> run_loader(std::string_view key, const cache_port::loader& load) {
  try {
    return load();
  } catch (const std::exception& e) {
    return {errc::backend_failed, "the loader of cache key " + shown_cache_key(key) + " threw: " + e.what()};
  } catch (...) {
    return {errc::backend_failed, "the loader of cache key " + shown_cache_key(key) + " threw no std::exception"};
  }
}

}  // namespace caravan
