#pragma once

/// Values of a cache in a Redis, which may hold other things as well.

#include "integration/cache_adapter.hpp"
#include "integration/redis/redis_client.hpp"

#include <memory>
#include <string>

namespace caravan {

/// A client for a cache alone: who can do without an answer waits half a second for one, not three.
[[nodiscard]] redis_options redis_cache_options(config::redis_address address);

/// A key is "prefix:key", whatever its bytes; clear() walks over the keys with SCAN and leaves others alone. Times go
/// in milliseconds, by the server's clock. A call whose reply got lost is repeated by the client, so a take may lose
/// its value, and a remove may answer false.
class redis_cache final : public cache_adapter {
public:
  /// Others may use `client` as well. Two caches share nothing if no prefix with a : behind it begins the other.
  redis_cache(std::shared_ptr<redis_client> client, std::string prefix);

  [[nodiscard]] std::string name() const override;
  expected<void> ping() override;
  expected<std::optional<std::string>> get(std::string_view key) override;
  expected<void> put(std::string_view key, std::string_view value, std::chrono::milliseconds ttl) override;
  expected<bool> remove(std::string_view key) override;
  expected<std::optional<std::string>> take(std::string_view key) override;
  expected<bool> exists(std::string_view key) override;
  /// What is put while it walks may stay.
  expected<void> clear() override;
  /// Nothing: counting would walk over all keys of the server.
  expected<cache_usage> usage() override { return cache_usage{}; }

private:
  [[nodiscard]] std::string full_key(std::string_view key) const { return prefix_ + std::string(key); }
  expected<redis_value> ask(std::initializer_list<std::string_view> words);
  [[nodiscard]] error odd(const char* command) const;

  const std::shared_ptr<redis_client> client_;
  const std::string prefix_;
};

}  // namespace caravan
