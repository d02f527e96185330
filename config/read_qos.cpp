#include "config/read_qos.hpp"

#include "config/reader.hpp"

namespace caravan::config {

qos_settings read_qos_settings(const ini& from, problems& found) {
  reader in(from, "qos", found);
  qos_settings out;
  out.enabled = in.boolean("ENABLED");
  out.max_in_flight = static_cast<std::size_t>(in.number("MAX_INFLIGHT").value_or(1));
  out.max_waiting = static_cast<std::size_t>(in.number("MAX_WAITING").value_or(0));
  out.target_wait_time = in.duration("TARGET_WAIT_TIME");
  return out;
}

}  // namespace caravan::config
