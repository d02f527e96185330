#pragma once

/// Where one queue lives in Redis. All names hold the queue's full name in braces, so that they share one slot.
/// docs/formats.md describes what is in them.

#include <array>
#include <string>

namespace caravan {

struct redis_queue_keys {
  redis_queue_keys() = default;
  /// `db`: channels are common to all databases of a server, so its number is part of the channel's name.
    redis_queue_keys(const std::string& queue_full_name, const std::string& set_full_name, unsigned db)
      : prefix("caravan:{" + queue_full_name + "}:"),
        all{prefix + "meta",
            prefix + "items",
            prefix + "waiting",
            prefix + "delayed",
            prefix + "dead",
            prefix + "incoming",
            prefix + "incoming_due",
            prefix + set_full_name,
            prefix + set_full_name + ":times",
            prefix + "idempotency",
            prefix + "idempotency:times",
            prefix + "owner",
            prefix + "damaged",
            prefix + "news:" + std::to_string(db),
            prefix + "ranked",
            prefix + "done",
            prefix + "held",
            prefix + "keyed"} {}

  std::string prefix;
  /// As every script takes them: KEYS[1] to KEYS[18], in the order of redis_queue_scripts.cpp.
  std::array<std::string, 18> all;

  /// The channel on which pushes of other nodes and a free owner's place are told.
  [[nodiscard]] const std::string& news() const { return all[13]; }
};

}  // namespace caravan
