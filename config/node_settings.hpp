#pragma once

/// The settings of a node apart from its queues. Defaults filled in and bounds checked by read_settings.hpp: whoever
/// holds one need not check again.

#include "config/lock_settings.hpp"
#include "config/cache_settings.hpp"
#include "config/limit_settings.hpp"
#include "config/qos_settings.hpp"
#include "config/queue_settings.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace caravan::config {

/// [node]
struct node_settings {
  std::string name;          ///< NAME; absent: the host's name
  std::string data_dir;      ///< DATA_DIR, absolute
  bool auto_create = false;  ///< AUTO_CREATE. Take pushes to queues that no section names
};

/// [http]
struct http_settings {
  std::string host = "127.0.0.1";   ///< ADDR without its port, no brackets; "" is every address
  std::uint16_t port = 7171;        ///< the port of ADDR; 0: any free one
  std::string read_token;           ///< READ_TOKEN; all four: empty is "no token needed", and only so on loopback
  std::string push_token;           ///< PUSH_TOKEN
  std::string work_token;           ///< WORK_TOKEN
  std::string admin_token;          ///< ADMIN_TOKEN
  std::size_t max_body = 8u << 20;  ///< MAX_BODY, bytes
  std::chrono::milliseconds header_timeout{10'000};  ///< HEADER_TIMEOUT
  std::chrono::milliseconds idle_timeout{60'000};    ///< IDLE_TIMEOUT
  std::size_t max_connections = 10'000;              ///< MAX_CONNECTIONS
};

enum class log_level : std::uint8_t { trace, debug, info, warn, error };
enum class log_format : std::uint8_t { automatic, text, json };

/// [log]
struct log_settings {
  log_level level = log_level::info;          ///< LEVEL
  log_format format = log_format::automatic;  ///< FORMAT = auto | text | json
  std::string file;                           ///< FILE, absolute; empty: standard error
};

/// [redis]
struct redis_settings {
  std::string conn_str;  ///< CONN_STR; checked; empty: none was set
};

/// [cluster]
struct cluster_settings {
  std::string host = "127.0.0.1";                 ///< ADDR without its port, no brackets
  std::uint16_t port = 0;                         ///< the port of ADDR; 0: any free one
  std::string tls_cert;                           ///< TLS_CERT, absolute; all three or none
  std::string tls_key;                            ///< TLS_KEY, absolute
  std::string tls_ca;                             ///< TLS_CA, absolute
  std::vector<std::string> nodes;                 ///< NODES: who may join; empty: any name
  std::chrono::milliseconds owner_lease{10'000};  ///< OWNER_LEASE
};

/// A whole file.
struct settings {
  node_settings node;
  http_settings http;
  log_settings log;
  redis_settings redis;
  lock_settings locks;
  cluster_settings cluster;
  std::vector<queue_settings> queues;  ///< of each [queue.NAME], in the order of the file
  std::vector<cache_settings> caches;  ///< of [cache], and then of each [cache.NAME]
  qos_settings qos;
  std::vector<limit_settings> limits;  ///< of each [limit.NAME], in the order of the file
};

}  // namespace caravan::config
