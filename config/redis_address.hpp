#pragma once

/// Connection strings of Redis, and how secrets in any address are hidden.

#include <caravan/error.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace caravan::config {

enum class redis_kind : std::uint8_t { single, unix_socket, sentinel, cluster };

/// A checked connection string. Host names are not resolved.
struct redis_address {
  redis_kind kind = redis_kind::single;
  bool tls = false;
  std::vector<std::pair<std::string, std::uint16_t>> hosts;  ///< at least one, except for unix_socket
  std::string socket_path;                                   ///< unix_socket only
  std::string username;
  std::string password;
  std::string master_name;  ///< sentinel only, never empty there
  unsigned db = 0;
  std::vector<std::pair<std::string, std::string>> options;  ///< the others, names in lower case, in their order
};

/// Reads
///   redis://[[user]:password@][host[:port]][,host...][/db][?option=value&...]     rediss:// with TLS
///   unix://[[user]:password@]/path[?db=n]                      also redis+socket://
///   redis-sentinel://...host,host/[master/]db?master_name=m    also redis+sentinel://, rediss...
///   redis-cluster://...host,host/                              also redis+cluster://, rediss...
///   addrs=host:port,host:port db=0 password=... network=tcp    words with blanks between them
/// invalid_argument for anything else; the text never shows a password.
[[nodiscard]] expected<redis_address> parse_redis_address(std::string_view text);

/// One or more of them, with blanks or commas between: whatever begins with a scheme behind such a separator is the
/// next one. invalid_argument also when two lead to the same data.
[[nodiscard]] expected<std::vector<redis_address>> parse_redis_addresses(std::string_view text);

/// The same for two strings that lead to the same data: hosts, master, path and database, no credentials or options.
[[nodiscard]] std::string storage_key(const redis_address& address);

/// Any address or command with what looks like a password replaced by ***: "://user:***@host", "password=***".
[[nodiscard]] std::string mask_secrets(std::string_view text);

}  // namespace caravan::config
