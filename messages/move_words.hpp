#pragma once

/// How a queue goes from one node to another. Plain: no CAF here.

#include "messages/queue_words.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace caravan {

/// What a queue's actor knows and its storage does not.
struct queue_image {
  struct pool {
    pool_id id = 0;
    pool_kind kind = pool_kind::remote;
    std::uint32_t idle = 0;
    std::uint32_t prefetch = 0;
    std::uint32_t most = 0;
  };
  struct lease {
    std::uint64_t token = 0;
    pool_id pool = 0;
    std::vector<record> items;
    bool purged = false;
  };
  struct postponed {
    std::chrono::milliseconds delay{0};  ///< from now
    record item;
  };
  queue_phase phase = queue_phase::running;
  wall_time paused_until{};
  std::string paused_by;
  std::uint64_t next_token = 0;
  queue_totals totals;
  std::vector<finished_item> finished;
  std::vector<pool> pools;
  std::vector<lease> leases;
  std::vector<postponed> later;
};

/// One message of the old owner. They are carried out in the order of `seq`, each once.
struct move_step {
  enum class kind : std::uint8_t {
    prepare = 0,  ///< make room: nothing of an earlier try is left
    rows = 1,     ///< put what it carries, forget `gone`
    image = 2,    ///< the last of the state; answered when all of it is as durable as the storage can make it
    commit = 3,   ///< it is yours
    abort = 4,    ///< it is not: forget everything
  };
  std::string queue;
  std::uint64_t move = 0;   ///< names the move; never used again
  std::uint64_t epoch = 0;  ///< of the new owner
  std::string from;
  std::uint64_t seq = 0;
  kind what = kind::prepare;
  std::vector<record> rows;     ///< new to the target
  std::vector<record> changed;  ///< may be there in another shape
  std::vector<item_id> gone;
  std::vector<kept_key> keys;
  queue_image image;
  std::string type;
  bool unique = false;
};

/// The answer to a step: all steps up to `seq` are done, or why the move cannot be.
struct move_answer {
  std::uint64_t move = 0;
  std::uint64_t seq = 0;
  std::string refused;  ///< empty: it goes well
};

/// The new owner is in doubt: what did the old one decide?
struct ask_move {
  std::string queue;
  std::uint64_t move = 0;
};
enum class move_outcome : std::uint8_t { pending = 0, committed = 1, aborted = 2 };
struct move_decision {
  move_outcome outcome = move_outcome::pending;
};

// By position, so append only.
// clang-format off
template <class I> typename I::result_type inspect(I& f, finished_item& x) { return f(x.id, x.what, x.attempts, x.at); }
template <class I> typename I::result_type inspect(I& f, queue_image::pool& x) { return f(x.id, x.kind, x.idle, x.prefetch, x.most); }
template <class I> typename I::result_type inspect(I& f, queue_image::lease& x) { return f(x.token, x.pool, x.items, x.purged); }
template <class I> typename I::result_type inspect(I& f, queue_image::postponed& x) { return f(x.delay, x.item); }
template <class I> typename I::result_type inspect(I& f, queue_image& x) { return f(x.phase, x.paused_until, x.paused_by, x.next_token, x.totals, x.finished, x.pools, x.leases, x.later); }
template <class I> typename I::result_type inspect(I& f, move_step& x) { return f(x.queue, x.move, x.epoch, x.from, x.seq, x.what, x.rows, x.changed, x.gone, x.keys, x.image, x.type, x.unique); }
template <class I> typename I::result_type inspect(I& f, move_answer& x) { return f(x.move, x.seq, x.refused); }
template <class I> typename I::result_type inspect(I& f, ask_move& x) { return f(x.queue, x.move); }
template <class I> typename I::result_type inspect(I& f, move_decision& x) { return f(x.outcome); }
// clang-format on

}  // namespace caravan
