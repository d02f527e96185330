#include "integration/leveldb/level_rows.hpp"

namespace caravan::level {

namespace {

using std::chrono::milliseconds;

constexpr std::size_t fence_size = 17;  // longer than the longest rest, 16 bytes
constexpr std::size_t seal_size = 4;

void put(std::string& out, std::uint64_t n) {
  // Big-endian: bytes sort as numbers do.
  char bytes[8];
  for (int i = 0; i < 8; ++i) bytes[i] = static_cast<char>(n >> (56 - 8 * i));
  out.append(bytes, 8);
}

std::uint64_t get(std::string_view in, std::size_t at) {
  std::uint64_t n = 0;
  for (std::size_t i = 0; i < 8; ++i) n = n << 8 | static_cast<unsigned char>(in[at + i]);
  return n;
}

// The sign bit turned, so that times before 1970 sort first.
std::uint64_t sortable(wall_time t) {
  return static_cast<std::uint64_t>(t.time_since_epoch().count()) ^ (std::uint64_t{1} << 63);
}
wall_time from_sortable(std::uint64_t n) {
  return wall_time{milliseconds{static_cast<std::int64_t>(n ^ (std::uint64_t{1} << 63))}};
}

std::string sealed(std::string bytes) {
  const auto sum = digest_of(bytes).low;
  for (std::size_t i = 0; i < seal_size; ++i) bytes.push_back(static_cast<char>(sum >> (8 * i)));
  return bytes;
}

/// The bytes without their checksum; nothing when they are damaged or not `size` long.
std::optional<std::string_view> unsealed(std::string_view value, std::size_t size) {
  if (value.size() != size + seal_size) return std::nullopt;
  const auto bytes = value.substr(0, size);
  if (sealed(std::string{bytes}) != value) return std::nullopt;
  return bytes;
}

}  // namespace

row_kind kind_of(record_state state) noexcept {
  switch (state) {
    case record_state::waiting:
      break;
    case record_state::delayed:
      return row_kind::delayed;
    case record_state::dead:
      return row_kind::dead;
    case record_state::ranked:
      return row_kind::ranked;
    case record_state::done:
      return row_kind::done;
    case record_state::held:
      return row_kind::held;
    case record_state::keyed:
      return row_kind::keyed;
  }
  return row_kind::waiting;
}

std::optional<record_state> state_of(row_kind kind) noexcept {
  for (std::size_t i = 0; i < record_states; ++i)
    if (kind_of(static_cast<record_state>(i)) == kind) return static_cast<record_state>(i);
  return std::nullopt;
}

row_key::row_key(std::string_view name) {
  buffer_.push_back(static_cast<char>(name.size() >> 8));
  buffer_.push_back(static_cast<char>(name.size()));
  buffer_.append(name);
  prefix_ = buffer_.size();
  buffer_.reserve(prefix_ + 1 + fence_size);
}

std::string_view row_key::begin(row_kind kind) {
  buffer_.resize(prefix_);
  buffer_.push_back(static_cast<char>(kind));
  return buffer_;
}

std::string_view row_key::id(row_kind kind, item_id id) {
  begin(kind);
  put(buffer_, id.value);
  return buffer_;
}

std::string_view row_key::place(row_kind kind, wall_time sort, item_id id) {
  begin(kind);
  put(buffer_, sortable(sort));
  put(buffer_, id.value);
  return buffer_;
}

std::string_view row_key::digest(row_kind kind, const key_digest& digest) {
  begin(kind);
  put(buffer_, digest.high);
  put(buffer_, digest.low);
  return buffer_;
}

std::string_view row_key::named(row_kind kind, std::string_view rest) {
  begin(kind);
  buffer_.append(rest);
  return buffer_;
}

std::string_view row_key::fence(row_kind kind) {
  begin(kind);
  buffer_.append(fence_size, '\xff');
  return buffer_;
}

std::optional<std::string_view> row_key::rest(row_kind kind, std::string_view key) const {
  if (key.size() <= prefix_ || key[prefix_] != static_cast<char>(kind)) return std::nullopt;
  if (key.substr(0, prefix_) != std::string_view{buffer_}.substr(0, prefix_)) return std::nullopt;
  const auto rest = key.substr(prefix_ + 1);
  if (rest.size() == fence_size && rest.find_first_not_of('\xff') == rest.npos) return std::nullopt;
  return rest;
}

std::optional<item_id> parse_id(std::string_view rest) {
  if (rest.size() != 8) return std::nullopt;
  return item_id{get(rest, 0)};
}

std::optional<sort_place> parse_place(std::string_view rest) {
  if (rest.size() != 16) return std::nullopt;
  return sort_place{from_sortable(get(rest, 0)), item_id{get(rest, 8)}};
}

std::optional<key_digest> parse_digest(std::string_view rest) {
  if (rest.size() != 16) return std::nullopt;
  return key_digest{get(rest, 0), get(rest, 8)};
}

// The first version knew delayed records only, and wrote no state.
std::string format_place_row(const place_row& row) {
  std::string out;
  put(out, sortable(row.sort));
  if (row.state != record_state::delayed) out.push_back(static_cast<char>(row.state));
  return out;
}

std::optional<place_row> parse_place_row(std::string_view value) {
  if (value.size() == 8) return place_row{record_state::delayed, from_sortable(get(value, 0))};
  if (value.size() != 9 || static_cast<unsigned char>(value[8]) >= record_states) return std::nullopt;
  const auto state = static_cast<record_state>(value[8]);
  if (!is_sorted(state)) return std::nullopt;
  return place_row{state, from_sortable(get(value, 0))};
}

std::string format_key_row(const key_row& row) {
  std::string out;
  put(out, row.owner.value);
  put(out, sortable(row.expires));
  if (row.by_push) out.push_back(1);
  return out;
}

std::optional<key_row> parse_key_row(std::string_view value) {
  if (value.size() != 16 && value.size() != 17) return std::nullopt;
  return key_row{item_id{get(value, 0)}, from_sortable(get(value, 8)), value.size() == 17};
}

std::string format(const heads_row& row) {
  std::string out;
  put(out, row.waiting.value);
  put(out, sortable(row.delayed.sort));
  put(out, row.delayed.id.value);
  return sealed(std::move(out));
}

std::optional<heads_row> parse_heads(std::string_view value) {
  const auto in = unsealed(value, 24);
  if (!in) return std::nullopt;
  return heads_row{item_id{get(*in, 0)}, {from_sortable(get(*in, 8)), item_id{get(*in, 16)}}};
}

std::string format(const ids_row& row) {
  std::string out;
  put(out, row.limit.value);
  return sealed(std::move(out));
}

std::optional<ids_row> parse_ids(std::string_view value) {
  const auto in = unsealed(value, 8);
  if (!in) return std::nullopt;
  return ids_row{item_id{get(*in, 0)}};
}

std::string format(const counts_row& row) {
  std::string out;
  out.push_back(row.clean ? 1 : 0);
  for (std::size_t i = 0; i < record_states; ++i) put(out, row.counts.of(static_cast<record_state>(i)));
  return sealed(std::move(out));
}

std::optional<counts_row> parse_counts(std::string_view value) {
  // The states were always numbered on from here; the first version had three.
  for (const auto states : {record_states, std::size_t{3}}) {
    const auto in = unsealed(value, 1 + 8 * states);
    if (!in) continue;
    counts_row row;
    row.clean = (*in)[0] != 0;
    for (std::size_t i = 0; i < states; ++i) row.counts.of(static_cast<record_state>(i)) = get(*in, 1 + 8 * i);
    return row;
  }
  return std::nullopt;
}

}  // namespace caravan::level
