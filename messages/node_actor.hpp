#pragma once

/// Nodes as other nodes see them.

#include "messages/queue_words.hpp"

#include <caf/actor_control_block.hpp>
#include <caf/typed_actor.hpp>

#include <cstdint>
#include <string>

namespace caravan {

/// Grows when nodes of different numbers cannot work together.
inline constexpr std::uint32_t cluster_protocol = 1;

/// Who is there? The address may lead to another node than the one that was looked for, or to an older start of it.
struct node_hello {
  std::string name;
  std::string incarnation;  ///< different for each start of a node
  std::uint32_t protocol = cluster_protocol;
};
template <class I>
typename I::result_type inspect(I& f, node_hello& x) {
  return f(x.name, x.incarnation, x.protocol);
}

struct find_queue {
  std::string name;
};
template <class I>
typename I::result_type inspect(I& f, find_queue& x) {
  return f(x.name);
}

/// The actor of a queue that the asked node owns; null when it does not.
struct found_queue {
  caf::strong_actor_ptr queue;
};
template <class I>
typename I::result_type inspect(I& f, found_queue& x) {
  return f(x.queue);
}

/// Where the asked node tells its events: an event_bus_actor.
struct find_events {};
template <class I>
typename I::result_type inspect(I& f, find_events&) {
  return f();
}
struct found_events {
  caf::strong_actor_ptr bus;
};
template <class I>
typename I::result_type inspect(I& f, found_events& x) {
  return f(x.bus);
}

/// What a node publishes at its cluster address.
using node_actor = caf::typed_actor<caf::replies_to<node_hello>::with<node_hello>, caf::replies_to<find_queue>::with<found_queue>,
                                    caf::replies_to<find_events>::with<found_events>>;

}  // namespace caravan
