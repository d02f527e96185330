#include "config/read_settings.hpp"
#include "config/reader.hpp"
#include "config/redis_address.hpp"

namespace caravan::config {

lock_settings read_lock_settings(const ini& from, problems& found) {
  reader in(from, "global_lock", found);
  lock_settings out;
  out.service = static_cast<lock_service>(in.choice("SERVICE_TYPE"));
  out.expiry = in.duration("LOCK_EXPIRY");
  if (out.service != lock_service::redis) return out;
  out.conn_str = in.text("SERVICE_CONN_STR");
  if (!out.conn_str.empty()) {
    if (const auto address = parse_redis_addresses(out.conn_str); !address)
      in.complain("SERVICE_CONN_STR", address.failure().text, "or remove it to use [redis]");
    return out;
  }
  // A wrong one of [redis] is reported there.
  out.conn_str = from.get("redis", "CONN_STR");
  if (out.conn_str.empty()) out.conn_str = "redis://127.0.0.1:6379/0";
  return out;
}

}  // namespace caravan::config
