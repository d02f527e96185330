#pragma once

#include "config/retry_policy.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace caravan::config {

enum class queue_type : std::uint8_t { channel, level, redis, dummy };
enum class unique_until : std::uint8_t { start, done, time, success };
enum class sync_mode : std::uint8_t { always, interval, never };

/// [queue.NAME] over [queue], defaults filled in and bounds checked by read_queue_settings: whoever holds one need not
/// check again.
struct queue_settings {
  std::string name;
  queue_type type = queue_type::level;      ///< TYPE
  std::string datadir;                      ///< DATADIR, absolute; level only
  std::string conn_str;                     ///< CONN_STR; redis: checked and never empty; else as it was written
  std::string queue_full_name;              ///< NAME + QUEUE_NAME ("_queue"): the prefix of its rows
  std::string set_full_name;                ///< queue_full_name + SET_NAME ("_unique"): the prefix of its keys
  std::size_t length = 100'000;             ///< LENGTH >= 1. Items waiting before push answers queue_full
  std::size_t batch_length = 20;            ///< BATCH_LENGTH >= 1. Most items of one handler call
  std::optional<unsigned> max_workers = 1;  ///< MAX_WORKERS; absent: max(1, min(cores/2, 10)); none (INI: <= 0): no limit
  bool unique = false;                      ///< UNIQUE
  unique_until until = unique_until::start; ///< UNIQUE_UNTIL = start | done | success | a duration
  std::chrono::milliseconds unique_lifetime{0};           ///< the duration of UNIQUE_UNTIL
  std::string handler;                      ///< HANDLER = exec:COMMAND | http(s)://URL; empty: none here
  bool breaker = false;                     ///< BREAKER; HANDLER = http(s)://URL only
  bool shedder = false;                     ///< SHEDDER; likewise
  std::string encrypt;                      ///< ENCRYPT = file:PATH (absolute) | env:NAME; empty: items are stored as they are
  sync_mode sync = sync_mode::interval;     ///< SYNC = always | interval:<ms> | never; level only
  std::chrono::milliseconds sync_interval{1000};          ///< the <ms> of SYNC = interval:<ms>
  std::chrono::milliseconds batch_debounce{0};            ///< BATCH_DEBOUNCE; 0: adaptive
  std::chrono::milliseconds push_timeout{5000};           ///< PUSH_TIMEOUT. How long a push waits for room
  std::chrono::milliseconds requeue_delay{1000};          ///< REQUEUE_DELAY. Before a wholly unhandled batch comes again
  std::chrono::milliseconds timeout{0};                   ///< TIMEOUT of one handler call; 0: none
  std::uint32_t max_attempts = 0;                         ///< MAX_ATTEMPTS; 0: no limit
  retry_policy retry;                                     ///< RETRY. When a failed item comes again
  double retry_jitter = 0.5;                              ///< RETRY_JITTER / 100. That share of the pause is random
  std::uint32_t max_running = 0;                          ///< MAX_RUNNING items in handlers on all nodes; 0: no limit
  rate start_rate;                                        ///< RATE of starts on all nodes
  std::uint32_t key_concurrency = 1;                      ///< KEY_CONCURRENCY. Items of one order key in handlers; 1: in order
  rate key_rate;                                          ///< KEY_RATE of starts of one order key
  std::chrono::milliseconds retention{0};                 ///< RETENTION of finished items; 0: none is kept
  std::size_t retain_count = 100'000;                     ///< RETAIN_COUNT. Most of them
  std::chrono::milliseconds worker_idle{1000};            ///< WORKER_IDLE. An idle worker beyond the first ends after this
  std::chrono::milliseconds shutdown_timeout{2000};       ///< SHUTDOWN_TIMEOUT. 0: run what waits once instead
  std::chrono::milliseconds lease{30'000};                ///< LEASE of a batch without a sign of life from its pool
  std::chrono::milliseconds idempotency_window{1'800'000};///< IDEMPOTENCY_WINDOW. How long a push's idempotency key is known
  std::uint32_t claim_rate = 0;                           ///< CLAIM_RATE, claims a second of one worker outside; 0: no limit
  std::uint32_t claim_burst = 20;                         ///< CLAIM_BURST >= 1. So many of them at once
  std::size_t max_item_size = 1 << 20;                    ///< MAX_ITEM_SIZE, bytes of one item's payload
};

}  // namespace caravan::config
