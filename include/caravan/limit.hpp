#pragma once

/// How often something may be done, by key:
///
///   auto sms = node.limit("sms");                        // [limit.sms] RATE = 5, PER = 1h
///   if (!sms.take(number).value()) return refuse();

#include <caravan/error.hpp>

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

namespace caravan {

/// A limit without templates, as a node implements it.
class limit_port {
public:
  virtual ~limit_port() = default;
  virtual expected<bool> take(std::string_view key, std::uint64_t n) = 0;
  virtual expected<void> reset(std::string_view key) = 0;
};

/// A handle; copies mean the same limit. Keys are up to 1024 bytes of any kind.
///
/// Threads: safe. STORE = memory never blocks; STORE = redis blocks for a round trip, and half a second when the server
/// does not answer, but only one caller each second. What is permitted then says WHEN_DOWN: it is no error.
class limit {
public:
  explicit limit(std::shared_ptr<limit_port> port) : port_(std::move(port)) {}

  /// All `n` or none. False: not now. invalid_argument: `n` is 0 or more than the limit ever permits at once; a key
  /// that is too long.
  expected<bool> take(std::string_view key, std::uint64_t n = 1) { return port_->take(key, n); }
  /// The key may take as one that was never seen. backend_failed: the server does not answer, and nothing is known.
  expected<void> reset(std::string_view key) { return port_->reset(key); }

private:
  std::shared_ptr<limit_port> port_;
};

}  // namespace caravan
