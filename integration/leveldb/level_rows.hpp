#pragma once

/// The keys and small values of a LevelDB folder. docs/formats.md shows them byte by byte.

#include "integration/storage.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace caravan::level {

// On disk. Raise it when an old program could misread new rows; open refuses a higher one.
inline constexpr std::uint8_t format_version = 2;

/// On disk: never change a letter.
enum class row_kind : char {
  place = 'd',        ///< id -> where the record of a sorted state is
  done = 'f',         ///< when it may go, id -> record
  held = 'h',         ///< due, id -> record
  idempotency = 'i',  ///< digest -> owner, expiry
  keyed = 'k',        ///< hash of the order key, id -> record
  meta = 'm',         ///< name -> see the structs below
  quarantine = 'q',   ///< kind and rest of a damaged row's key -> its bytes
  ranked = 'r',       ///< -priority, id -> record
  delayed = 't',      ///< due, id -> record
  unique = 'u',       ///< digest -> owner, expiry; under the set's name
  waiting = 'w',      ///< id -> record
  dead = 'x',         ///< id -> record
};

[[nodiscard]] row_kind kind_of(record_state state) noexcept;
/// Nothing when no records are under this kind.
[[nodiscard]] std::optional<record_state> state_of(row_kind kind) noexcept;

/// Builds keys in one buffer; each view is good until the next call. The length stands before the name, so no queue's
/// range can lie inside another's.
class row_key {
public:
  explicit row_key(std::string_view name);

  std::string_view start(row_kind kind) { return begin(kind); }
  std::string_view id(row_kind kind, item_id id);
  std::string_view place(row_kind kind, wall_time sort, item_id id);
  std::string_view digest(row_kind kind, const key_digest& digest);
  std::string_view named(row_kind kind, std::string_view rest);
  /// Above every row of the kind. A live row stands there, so that a search that finds nothing does not walk through
  /// the deleted rows of whatever comes next: a million of those cost half a second.
  std::string_view fence(row_kind kind);

  /// What follows the kind in `key`; nothing when it is not a row of this name and kind, or is the fence.
  [[nodiscard]] std::optional<std::string_view> rest(row_kind kind, std::string_view key) const;

private:
  std::string_view begin(row_kind kind);
  std::string buffer_;
  std::size_t prefix_;
};

struct sort_place {
  wall_time sort = wall_time::min();
  item_id id;
  friend auto operator<=>(const sort_place&, const sort_place&) = default;
};

// The rests of keys and the values. Each parse answers nothing for bytes that none of these wrote.
[[nodiscard]] std::optional<item_id> parse_id(std::string_view rest);
[[nodiscard]] std::optional<sort_place> parse_place(std::string_view rest);
[[nodiscard]] std::optional<key_digest> parse_digest(std::string_view rest);

struct place_row {
  record_state state = record_state::delayed;
  wall_time sort;
  friend bool operator==(const place_row&, const place_row&) = default;
};
[[nodiscard]] std::string format_place_row(const place_row& row);
[[nodiscard]] std::optional<place_row> parse_place_row(std::string_view value);

struct key_row {
  item_id owner;
  wall_time expires;
  bool by_push = false;  ///< the push asked for it, whatever the queue is set to
};
[[nodiscard]] std::string format_key_row(const key_row& row);
[[nodiscard]] std::optional<key_row> parse_key_row(std::string_view value);

/// Where scans may begin. Each is a lower bound: too low costs time, too high would lose work.
struct heads_row {
  static constexpr std::string_view name = "heads";
  item_id waiting;
  sort_place delayed;
};
[[nodiscard]] std::string format(const heads_row& row);
[[nodiscard]] std::optional<heads_row> parse_heads(std::string_view value);

/// Every id up to `limit` may have been handed out.
struct ids_row {
  static constexpr std::string_view name = "ids";
  item_id limit;
};
[[nodiscard]] std::string format(const ids_row& row);
[[nodiscard]] std::optional<ids_row> parse_ids(std::string_view value);

/// Exact when `clean`, which a close sets and an open takes away.
struct counts_row {
  static constexpr std::string_view name = "counts";
  bool clean = false;
  storage_counts counts;
};
[[nodiscard]] std::string format(const counts_row& row);
[[nodiscard]] std::optional<counts_row> parse_counts(std::string_view value);

inline constexpr std::string_view format_row_name = "format";

}  // namespace caravan::level
