#pragma once

#include "actors/queue/rate_gate.hpp"
#include "config/queue_settings.hpp"
#include "integration/storage.hpp"
#include "messages/record.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace caravan {

/// The lines of the order keys of one queue: whose turn it is, who must wait, what to read next. Keys take turns; one that
/// may not go on now is passed over and delays no other.
///
/// Every keyed row of the storage is in one place: in its key's line (in memory), counted behind it, or in a handler. The
/// first few of each key are in memory, `window` in all. With KEY_CONCURRENCY = 1 an item that comes back with a pause holds
/// its key until it ends, so the order is kept; its row says until when (`due`), so a restart keeps it too.
///
/// At the start nothing is known of the keys: their rows are read once, in the order of the hashes, and a key goes on as soon
/// as all of its rows were seen. Not thread safe, no I/O, no clock.
class key_lines {
public:
  using steady = std::chrono::steady_clock::time_point;

  struct limits {
    std::size_t window = 20'000;  ///< items in memory, of all keys
    std::size_t per_key = 100;    ///< of one key
    std::size_t load = 2'000;     ///< of one read
  };
  struct reading {
    read_cursor after;
    std::size_t most = 0;
  };

  /// `stored`: keyed rows that are there at the start.
  key_lines(std::size_t concurrency, config::rate rate, std::size_t stored, limits l)
    : concurrency_(concurrency), rate_(rate), limits_(l), unscanned_(stored), scanning_(stored > 0) {}

  /// A row that has just come to the keyed state.
  void add(record&& r);
  /// One that was handed out comes again; with a due time in the future not before it. ended() must have been called.
  void put_back(record&& r, wall_time now);
  /// One of this key left its handler.
  void ended(const record& r);

  /// Before anything was read: a stored row that a handler has already.
  void start_running(const record& r);

  /// Keys whose turn may come now. Each of them has an item.
  [[nodiscard]] std::size_t ready() const { return turns_.size(); }
  /// The next item, in turn; only when ready() > 0. It counts as running.
  record take(steady now, wall_time wall);
  /// Keys whose time came take part again.
  void wake(steady now, wall_time wall);
  [[nodiscard]] std::optional<steady> next_steady() const;
  [[nodiscard]] std::optional<wall_time> next_wall() const;

  /// What should be read next, while nothing is being read.
  std::optional<reading> next_read();
  /// Its answer. Rows above `known_through` are not announced yet. Returns how many rows that were counted are not there: they
  /// were lost behind our back, and are forgotten.
  std::size_t on_loaded(std::vector<record>&& records, item_id known_through, wall_time now);
  void on_load_failed() { reading_ = false; }
  /// The answer on its way counts no more.
  void forget_reading() { reading_ = false; }

  /// An item in line is taken out, wherever that was asked for.
  std::optional<record> remove(item_id id, std::uint64_t hash);
  /// Whether an item that is not in memory may lie behind its key's line.
  [[nodiscard]] bool may_be_unloaded(const record& r) const;
  /// Such an item goes away.
  void forget_unloaded(const record& r);
  /// All that is in line is forgotten. Returns how many; what runs still counts as running.
  std::size_t clear();

  /// Items in line, loaded or not.
  [[nodiscard]] std::size_t total() const { return loaded_ + unloaded_ + unscanned_; }
  /// Nothing that may go on now is still unread.
  [[nodiscard]] bool all_read() const { return !scanning_ && hungry_.empty() && !reading_; }
  [[nodiscard]] std::size_t keys() const { return lines_.size(); }
  /// For tests and reports: items of this key in handlers.
  [[nodiscard]] std::size_t running(std::uint64_t hash) const;
  [[nodiscard]] std::size_t most_running() const { return concurrency_; }

private:
  friend struct queue_core_probe;

  struct line {
    std::vector<record> items;  ///< by id, the first at the back
    item_id end;                ///< rows of the key up to here are in memory or in handlers
    std::uint32_t unloaded = 0;
    std::uint32_t running = 0;
    rate_gate gate;
    bool in_turn = false;
    bool hungry = false;   ///< in hungry_: more of it should be read
    bool gap = false;      ///< during the scan: a row of it was left out, so all behind that are
    bool waits = false;  ///< for a time; in one of the maps below
  };
  using line_map = std::unordered_map<std::uint64_t, line>;

  void insert(line& l, record&& r);
  void settle(std::uint64_t hash, line& l);
  void drop_if_idle(line_map::iterator it);
  void count_behind(line& l) { ++l.unloaded, ++unloaded_; }
  void on_scanned(std::vector<record>&& records, item_id known_through);
  std::size_t end_scan();
  void make_room();
  void distrust(std::pair<std::uint64_t, item_id> place);
  /// All rows of the key were seen.
  [[nodiscard]] bool scanned(std::uint64_t hash) const;
  [[nodiscard]] bool ahead_of_scan(std::uint64_t hash, item_id id) const;

  std::size_t concurrency_;
  config::rate rate_;
  limits limits_;
  line_map lines_;
  std::deque<std::uint64_t> turns_;
  std::deque<std::uint64_t> hungry_;
  std::multimap<steady, std::uint64_t> by_rate_;
  std::multimap<wall_time, std::uint64_t> by_due_;
  std::size_t loaded_ = 0;
  std::size_t unloaded_ = 0;
  steady now_{};  ///< of the last call that had one
  wall_time wall_{};

  std::size_t unscanned_ = 0;
  bool scanning_ = false;
  read_cursor scanned_to_;
  std::unordered_set<item_id> counted_;  ///< came during the scan, ahead of it: behind their lines already

  std::unordered_set<item_id> running_rows_;  ///< of start_running(), until the scan passed them

  bool reading_ = false;
  std::uint64_t read_for_ = 0;  ///< the key that is read for
  std::optional<std::pair<std::uint64_t, item_id>> distrusted_;  ///< the first place that changed since the read was asked for
};

}  // namespace caravan
