#include "integration/redis/redis_cache.hpp"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

namespace caravan {

namespace {

// Redis refuses times whose end does not fit into 63 bits of milliseconds.
constexpr std::chrono::milliseconds longest{std::chrono::hours{24 * 365 * 1000}};

const redis_script take_script{"cache take", R"(-- Gets a value and removes it.
-- KEYS: 1 the key
local value = redis.call('GET', KEYS[1])
if value then redis.call('DEL', KEYS[1]) end
return value)"};

/// A text that a MATCH pattern takes literally.
std::string literally(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (std::string_view("*?[]\\^-").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

}  // namespace

redis_options redis_cache_options(config::redis_address address) {
  return impatient_redis_options(std::move(address), "caravan-cache");
}

redis_cache::redis_cache(std::shared_ptr<redis_client> client, std::string prefix)
    : client_(std::move(client)), prefix_(std::move(prefix) + ":") {}

std::string redis_cache::name() const { return "redis at " + client_->where(); }

expected<redis_value> redis_cache::ask(std::initializer_list<std::string_view> words) {
  return client_->command(words);
}

error redis_cache::odd(const char* command) const {
  return {errc::backend_failed,
          "cache " + name() + ": an odd reply to " + command + "; look whether this is a Redis of version 6 or later"};
}

expected<void> redis_cache::ping() {
  const auto pong = ask({"PING"});
  if (!pong) return pong.failure();
  return {};
}

expected<std::optional<std::string>> redis_cache::get(std::string_view key) {
  auto value = ask({"GET", full_key(key)});
  if (!value) return value.failure();
  if (value->is_nil()) return std::optional<std::string>{};
  if (!value->is_text()) return odd("GET");
  return std::optional{std::move(value->text)};
}

expected<void> redis_cache::put(std::string_view key, std::string_view value, std::chrono::milliseconds ttl) {
  const auto full = full_key(key);
  const auto end = std::to_string(std::min(ttl, longest).count());
  const auto done = ttl < ttl.zero()    ? ask({"DEL", full})
                    : ttl == ttl.zero() ? ask({"SET", full, value})
                                        : ask({"SET", full, value, "PX", end});
  if (!done) return done.failure();
  return {};
}

expected<bool> redis_cache::remove(std::string_view key) {
  const auto count = ask({"DEL", full_key(key)});
  if (!count) return count.failure();
  if (!count->is_integer()) return odd("DEL");
  return count->number > 0;
}

expected<std::optional<std::string>> redis_cache::take(std::string_view key) {
  const std::array keys{full_key(key)};
  auto value = client_->eval(take_script, keys, {});
  if (!value) return value.failure();
  if (value->is_nil()) return std::optional<std::string>{};
  if (!value->is_text()) return odd("GET");
  return std::optional{std::move(value->text)};
}

expected<bool> redis_cache::exists(std::string_view key) {
  const auto count = ask({"EXISTS", full_key(key)});
  if (!count) return count.failure();
  if (!count->is_integer()) return odd("EXISTS");
  return count->number > 0;
}

expected<void> redis_cache::clear() {
  const auto pattern = literally(prefix_) + "*";
  std::string cursor = "0";
  do {
    auto page = ask({"SCAN", cursor, "MATCH", pattern, "COUNT", "1000"});
    if (!page) return page.failure();
    if (!page->has(2) || !page->items[0].is_text() || !page->items[1].is_array()) return odd("SCAN");
    cursor = page->items[0].text;
    std::vector<std::string_view> words{"UNLINK"};
    for (const auto& key : page->items[1].items) words.push_back(key.text);
    if (words.size() == 1) continue;
    if (const auto gone = client_->command(words); !gone) return gone.failure();
  } while (cursor != "0");
  return {};
}

}  // namespace caravan
