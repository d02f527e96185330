#include "actors/cron/due.hpp"

#include <algorithm>

namespace caravan {

using std::chrono::floor;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

constexpr auto clocks_differ_by = std::chrono::minutes(10);

/// The same on every node and in every version: it decides when tasks run.
std::uint64_t spread(const std::string& name, cron_instant occurrence) {
  std::uint64_t x = 14695981039346656037u;
  for (const auto c : name) x = (x ^ static_cast<unsigned char>(c)) * 1099511628211u;
  x ^= static_cast<std::uint64_t>(occurrence.time_since_epoch().count());
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

}  // namespace

cron_time start_of(const cron_timing& t, cron_instant occurrence) {
  if (t.jitter <= milliseconds(0)) return occurrence;
  auto most = t.jitter;
  if (const auto next = t.when.next(occurrence))
    most = std::min(most, milliseconds(*next - occurrence) - milliseconds(1));
  return occurrence + milliseconds(static_cast<std::int64_t>(spread(t.name, occurrence) %
                                                             static_cast<std::uint64_t>(most.count() + 1)));
}

std::optional<cron_instant> next_of(const cron_timing& t, cron_instant cursor) { return t.when.next(cursor); }

std::optional<cron_instant> latest_due(const cron_timing& t, cron_instant cursor, cron_time now) {
  const auto first = next_of(t, cursor);
  if (!first || start_of(t, *first) > now) return std::nullopt;
  if (const auto interval = t.when.interval()) return now - *first < *interval ? *first : floor<seconds>(now);
  auto last = t.when.previous(floor<seconds>(now) + seconds(1));
  // The next occurrence begins only after the start of this one, so at most one is still held back.
  if (last && start_of(t, *last) > now) last = t.when.previous(*last);
  return last && *last > cursor ? last : first;
}

passed between(const cron_timing& t, cron_instant after, cron_instant before) {
  passed out;
  for (auto at = next_of(t, after); at && *at < before && out.count < most_counted; at = next_of(t, *at)) {
    if (out.count++ == 0) out.first = *at;
    out.last = *at;
  }
  if (out.count == most_counted && !t.when.interval())
    if (const auto last = t.when.previous(before)) out.last = *last;
  return out;
}

bool clock_was_set_back(const cron_timing& t, cron_instant cursor, cron_time now) {
  const auto ahead = cursor - now;
  if (ahead <= clocks_differ_by) return false;
  // A skip moves the cursor to the next time, however far that is.
  if (const auto first = t.when.next(floor<seconds>(now)); first && cursor <= *first) return false;
  const auto next = next_of(t, cursor);
  return !next || ahead > *next - cursor;
}

}  // namespace caravan
