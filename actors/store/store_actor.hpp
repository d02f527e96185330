#pragma once

#include "actors/store/trouble.hpp"
#include "actors/queue/intake.hpp"
#include "integration/storage.hpp"
#include "messages/queue_words.hpp"

#include <caf/allowed_unsafe_message_type.hpp>
#include <caf/typed_event_based_actor.hpp>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace caravan {

/// Changes of a queue's rows, carried out in this order: moves, erasures, keys, whole states.
struct store_changes {
  std::vector<record_move> move;
  std::vector<record_ref> erase;
  item_id low_water;
  std::vector<record_ref> release;
  std::vector<record_state> clear;  ///< up to the id `clear_through`
  item_id clear_through;

  [[nodiscard]] bool empty() const { return move.empty() && erase.empty() && release.empty() && clear.empty(); }
};
struct store_load {
  record_state state = record_state::waiting;
  read_cursor after;
  std::size_t max = 0;
};
struct store_find {
  item_id id;
};
/// How many rows there are, counted now where others push into the same place.
struct store_look {};
struct store_counts {
  storage_counts counts;
};
struct store_records {
  std::vector<record> records;
};
struct store_retry {};
/// Other nodes pushed something.
struct adopt_pushes {};

/// Makes a storage's blocking calls for the queue's actor, in the order they come. Spawn it detached where the storage
/// blocks. Never leaves the process of its storage.
using store_actor = caf::typed_actor<caf::replies_to<store_changes>::with<ack>, caf::replies_to<store_load>::with<store_records>,
                                     caf::replies_to<store_find>::with<store_records>,
                                     caf::replies_to<push_items>::with<push_results>, caf::reacts_to<store_retry>,
                                     caf::reacts_to<adopt_pushes>, caf::replies_to<store_look>::with<store_counts>>;

struct store_state {
  static inline const char* name = "store";
  std::shared_ptr<storage> store;
  std::shared_ptr<intake> door;
  std::shared_ptr<trouble> health;
  /// What has to be tried again, and all that came after it: a read that overtook a change would find rows where they
  /// no longer are. Each answers its request and returns true, or false to be tried again.
  std::deque<std::function<bool()>> waiting;
  bool retrying = false;
  bool sick = false;  ///< the last call failed
  store_state() = default;
};

/// A change that fails is tried again every second until it succeeds: what the queue decided must reach the disk in
/// order. The answer comes when it is done.
store_actor::behavior_type store_behavior(store_actor::stateful_pointer<store_state> self, std::shared_ptr<storage> store,
                                          std::shared_ptr<intake> door, std::shared_ptr<trouble> health);

}  // namespace caravan

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(caravan::store_changes)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(caravan::store_load)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(caravan::store_find)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(caravan::store_records)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(caravan::store_retry)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(caravan::adopt_pushes)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(caravan::store_look)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(caravan::store_counts)
