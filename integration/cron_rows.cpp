#include "integration/cron_rows.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

namespace caravan {

namespace {

using std::chrono::milliseconds;

constexpr std::size_t longest_message = 1000;
constexpr auto row_version = 1;  // stored; a change needs a new number, and version 1 stays readable
constexpr auto most_attempts = 32;
constexpr std::size_t most_recent = 16;

bool moves_cursor(cron_trigger trigger) { return trigger != cron_trigger::start && trigger != cron_trigger::manual; }

bool gone(const cron_running& run, const cron_node& seen_by, cron_time now) {
  return now >= run.lease_until || (run.node.name == seen_by.name && run.node.incarnation != seen_by.incarnation);
}

void end_run(cron_row& row, cron_time now, cron_outcome outcome, std::string message) {
  const auto& run = *row.state.running;
  if (message.size() > longest_message) message.resize(longest_message);
  row.state.last = cron_last_run{run.token, run.node.name, run.who, run.trigger,       run.occurrence,
                                 run.since, now,           outcome, std::move(message)};
  ++row.state.runs;
  if (outcome == cron_outcome::error || outcome == cron_outcome::lost) ++row.state.failures;
  row.state.running.reset();
}

void begin_run(cron_row& row, cron_running run) {
  run.token = ++row.token;
  row.state.running = std::move(run);
}

// ---- bytes: numbers with a blank behind, texts with their length in front ----

class writer {
public:
  template <class Number>
  void number(Number value) {
    out.append(std::to_string(value)).push_back(' ');
  }
  void text(std::string_view value) {
    number(value.size());
    out.append(value);
  }
  void time(cron_time value) { number(value.time_since_epoch().count()); }
  void instant(cron_instant value) { number(value.time_since_epoch().count()); }
  void node(const cron_node& value) {
    text(value.name);
    number(value.incarnation);
  }
  void running(const cron_running& r) {
    number(r.token);
    node(r.node);
    number(r.request);
    number(static_cast<int>(r.trigger));
    text(r.who);
    instant(r.occurrence);
    instant(r.from);
    time(r.since);
    time(r.lease_until);
    number(r.after);
  }
  template <class T, class Write>
  void maybe(const std::optional<T>& value, Write write) {
    number(int{value.has_value()});
    if (value) write(*value);
  }
  std::string out;
};

/// After the first thing that does not fit everything is empty, and `ok` is false.
class parser {
public:
  explicit parser(std::string_view bytes) : rest(bytes) {}

  template <class Number>
  Number number() {
    Number value{};
    const auto [end, failed] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
    const auto used = static_cast<std::size_t>(end - rest.data());
    if (failed != std::errc{} || used >= rest.size() || rest[used] != ' ') {
      ok = false;
      rest = {};
      return {};
    }
    rest.remove_prefix(used + 1);
    return value;
  }
  std::string text() {
    const auto length = number<std::size_t>();
    if (length > rest.size()) {
      ok = false;
      rest = {};
      return {};
    }
    std::string out(rest.substr(0, length));
    rest.remove_prefix(length);
    return out;
  }
  bool flag() { return number<int>() != 0; }
  cron_time time() { return cron_time(milliseconds(number<std::int64_t>())); }
  cron_instant instant() { return cron_instant(std::chrono::seconds(number<std::int64_t>())); }
  cron_node node() {
    auto name = text();
    return {std::move(name), number<std::uint64_t>()};
  }
  cron_running running() {
    cron_running r;
    r.token = number<std::uint64_t>();
    r.node = node();
    r.request = number<std::uint64_t>();
    r.trigger = word<cron_trigger>();
    r.who = text();
    r.occurrence = instant();
    r.from = instant();
    r.since = time();
    r.lease_until = time();
    r.after = number<std::uint64_t>();
    return r;
  }
  template <class Enum>
  Enum word() {
    return static_cast<Enum>(number<std::uint8_t>());
  }

  std::string_view rest;
  bool ok = true;
};

}  // namespace

std::string_view to_string(cron_trigger x) noexcept {
  switch (x) {
    case cron_trigger::schedule:
      return "schedule";
    case cron_trigger::missed:
      return "missed";
    case cron_trigger::start:
      return "start";
    case cron_trigger::manual:
      return "manual";
    case cron_trigger::queued:
      return "queued";
  }
  return "unknown";
}

std::string_view to_string(cron_outcome x) noexcept {
  switch (x) {
    case cron_outcome::finished:
      return "finished";
    case cron_outcome::error:
      return "error";
    case cron_outcome::cancelled:
      return "cancelled";
    case cron_outcome::lost:
      return "lost";
  }
  return "unknown";
}

std::string encode(const cron_row& row) {
  writer w;
  w.number(row_version);
  w.number(row.token);
  w.number(row.recent.size());
  for (const auto& r : row.recent) {
    w.node(r.node);
    w.number(r.request);
    w.number(static_cast<int>(r.verdict));
    w.instant(r.from);
    w.instant(r.to);
    w.maybe(r.lost, [&](const cron_running& lost) { w.running(lost); });
    w.maybe(r.dropped, [&](cron_instant at) { w.instant(at); });
  }
  const auto& s = row.state;
  w.instant(s.cursor);
  w.number(int{s.paused});
  w.text(s.paused_by);
  w.number(s.runs);
  w.number(s.failures);
  w.maybe(s.queued, [&](cron_instant at) { w.instant(at); });
  w.maybe(s.running, [&](const cron_running& r) { w.running(r); });
  w.number(int{s.last.has_value()});
  if (const auto& l = s.last) {
    w.number(l->token);
    w.text(l->node);
    w.text(l->who);
    w.number(static_cast<int>(l->trigger));
    w.instant(l->occurrence);
    w.time(l->started);
    w.time(l->ended);
    w.number(static_cast<int>(l->outcome));
    w.text(l->message);
  }
  return std::move(w.out);
}

std::optional<cron_row> decode_cron_row(std::string_view bytes) {
  parser p(bytes);
  if (p.number<int>() != row_version) return std::nullopt;
  cron_row row;
  row.token = p.number<std::uint64_t>();
  const auto recent = p.number<std::size_t>();
  for (std::size_t i = 0; p.ok && i < recent; ++i) {
    auto& r = row.recent.emplace_back();
    r.node = p.node();
    r.request = p.number<std::uint64_t>();
    r.verdict = p.word<cron_verdict>();
    r.from = p.instant();
    r.to = p.instant();
    if (p.flag()) r.lost = p.running();
    if (p.flag()) r.dropped = p.instant();
  }
  auto& s = row.state;
  s.cursor = p.instant();
  s.paused = p.flag();
  s.paused_by = p.text();
  s.runs = p.number<std::uint64_t>();
  s.failures = p.number<std::uint64_t>();
  if (p.flag()) s.queued = p.instant();
  if (p.flag()) s.running = p.running();
  if (p.flag()) {
    auto& l = s.last.emplace();
    l.token = p.number<std::uint64_t>();
    l.node = p.text();
    l.who = p.text();
    l.trigger = p.word<cron_trigger>();
    l.occurrence = p.instant();
    l.started = p.time();
    l.ended = p.time();
    l.outcome = p.word<cron_outcome>();
    l.message = p.text();
  }
  if (!p.ok || !p.rest.empty()) return std::nullopt;
  return row;
}

cron_answer apply_claim(cron_row& row, const cron_claim& claim, cron_time now, bool store_clock) {
  cron_answer out;
  auto& s = row.state;
  const auto moves = moves_cursor(claim.trigger);
  const auto mine =
      std::find_if(row.recent.begin(), row.recent.end(), [&](const cron_recent& r) { return r.node == claim.node; });
  if (mine != row.recent.end() && mine->request == claim.request) {
    out.verdict = mine->verdict;
    out.from = mine->from;
    out.to = mine->to;
    out.lost = mine->lost;
    out.dropped = mine->dropped;
    if (out.verdict != cron_verdict::granted) return out;
    if (s.running && s.running->node == claim.node && s.running->request == claim.request) {
      out.token = s.running->token;
      s.running->lease_until = now + claim.lease;
    } else {
      out.verdict = cron_verdict::taken;  // it was given up for lost meanwhile
    }
    return out;
  }
  if (s.paused && claim.trigger != cron_trigger::manual) {
    out.verdict = cron_verdict::paused;
    return out;
  }
  if (moves && s.cursor != claim.cursor) return out;
  // A second of grace: the claimer's idea of the store's clock is as old as the answer that told it.
  if (store_clock && moves && claim.what == cron_claim::action::run &&
      claim.occurrence > now + std::chrono::seconds(1)) {
    out.verdict = cron_verdict::early;
    return out;
  }
  if (s.running && gone(*s.running, claim.node, now)) {
    out.lost = s.running;
    end_run(row, now, cron_outcome::lost, "its node was gone before it said how the run ended");
  }
  if (s.queued && !s.running) out.dropped = std::exchange(s.queued, std::nullopt);

  out.from = s.cursor;
  if (claim.what == cron_claim::action::pass_over) {
    out.verdict = cron_verdict::passed_over;
  } else if (!s.running) {
    out.verdict = cron_verdict::granted;
    begin_run(row, {.node = claim.node,
                    .request = claim.request,
                    .trigger = claim.trigger,
                    .who = claim.who,
                    .occurrence = claim.occurrence,
                    .from = s.cursor,
                    .since = now,
                    .lease_until = now + claim.lease});
    out.token = row.token;
  } else if (moves && claim.busy == cron_claim::when_busy::queue && !s.queued) {
    out.verdict = cron_verdict::queued;
    s.queued = claim.occurrence;
  } else {
    out.verdict = cron_verdict::busy;
  }
  if (moves) s.cursor = claim.occurrence;
  out.to = s.cursor;
  std::erase_if(row.recent, [&](const cron_recent& r) { return r.node.name == claim.node.name; });
  if (row.recent.size() >= most_recent) row.recent.erase(row.recent.begin());
  row.recent.push_back({claim.node, claim.request, out.verdict, out.from, out.to, out.lost, out.dropped});
  return out;
}

void apply_renew(cron_row& row, std::uint64_t token, milliseconds lease, cron_time now) {
  if (auto& run = row.state.running; run && run->token == token) run->lease_until = now + lease;
}

cron_ended apply_finish(cron_row& row, const cron_end& end, cron_time now) {
  cron_ended out;
  auto& s = row.state;
  if (!s.running || s.running->token != end.token) {
    if (s.running && s.running->after == end.token && s.running->node == end.node) {
      out.held = true;  // a repeat: the first one began what was queued
      out.next = s.running;
    } else if (s.last && s.last->token == end.token) {
      out.held = s.last->outcome != cron_outcome::lost;
      if (!out.held) {  // late, but better than not knowing
        if (end.outcome == cron_outcome::finished) --s.failures;
        s.last->outcome = end.outcome;
        s.last->message = end.message.substr(0, longest_message);
      }
    }
    return out;
  }
  out.held = true;
  const auto run = *s.running;
  if (end.give_back) {
    if (moves_cursor(run.trigger) && s.cursor == run.occurrence) s.cursor = run.from;
    s.running.reset();
    return out;
  }
  end_run(row, now, end.outcome, end.message);
  if (s.queued && end.take_queued && !s.paused) {
    const auto occurrence = *std::exchange(s.queued, std::nullopt);
    begin_run(row, {.node = end.node,
                    .request = 0,
                    .trigger = cron_trigger::queued,
                    .who = {},
                    .occurrence = occurrence,
                    .from = s.cursor,
                    .since = now,
                    .lease_until = now + end.lease,
                    .after = end.token});
    out.next = s.running;
  }
  return out;
}

void apply_pause(cron_row& row, bool paused, const std::string& who, cron_instant cursor) {
  if (row.state.paused && !paused) row.state.cursor = std::max(row.state.cursor, cursor);
  row.state.paused = paused;
  row.state.paused_by = paused ? who : std::string();
}

template <class Answer, class Change>
expected<Answer> cron_row_store::change(const std::string& task, cron_time now, Change&& apply) {
  for (auto i = 0; i < most_attempts; ++i) {
    auto there = read(task);
    if (!there) return there.failure();
    cron_row row;
    if (there->bytes) {
      auto decoded = decode_cron_row(*there->bytes);
      if (!decoded)
        return error{errc::backend_failed,
                     "task \"" + task +
                         "\": its stored row is damaged or of a newer version; use that version, or "
                         "remove the row to begin anew"};
      row = std::move(*decoded);
    } else {
      // New, or lost with the store's data: its times begin now, not in 1970.
      row.state.cursor = std::chrono::floor<std::chrono::seconds>(there->now.value_or(now));
    }
    const auto before = row;
    Answer out = apply(row, there->bytes.has_value(), there->now.value_or(now), there->now.has_value());
    if constexpr (std::is_same_v<Answer, cron_view>)
      out = {row.state, there->now};
    else
      out.view = {row.state, there->now};
    if (there->bytes && row == before) return out;
    const auto written = replace(task, there->bytes, encode(row));
    if (!written) return written.failure();
    if (*written) return out;
  }
  return error{errc::backend_failed, "task \"" + task + "\": its row changes all the time; try again"};
}

expected<cron_view> cron_row_store::open(const std::string& task, cron_instant first_cursor, cron_time now) {
  return change<cron_view>(task, now, [&](cron_row& row, bool there, cron_time, bool store_clock) {
    // The first cursor is a wall clock's; one that is ahead must not hold back what is due by the store's.
    if (!there && !store_clock) row.state.cursor = first_cursor;
    return cron_view{};
  });
}

expected<cron_answer> cron_row_store::claim(const cron_claim& claim, cron_time now) {
  return change<cron_answer>(claim.task, now, [&](cron_row& row, bool, cron_time at, bool store_clock) {
    return apply_claim(row, claim, at, store_clock);
  });
}

expected<cron_view> cron_row_store::renew(const std::string& task, std::uint64_t token, milliseconds lease,
                                          cron_time now) {
  return change<cron_view>(task, now, [&](cron_row& row, bool, cron_time at, bool) {
    apply_renew(row, token, lease, at);
    return cron_view{};
  });
}

expected<cron_ended> cron_row_store::finish(const cron_end& end, cron_time now) {
  return change<cron_ended>(end.task, now,
                            [&](cron_row& row, bool, cron_time at, bool) { return apply_finish(row, end, at); });
}

expected<cron_view> cron_row_store::set_paused(const std::string& task, bool paused, const std::string& who,
                                               cron_instant cursor, cron_time now) {
  return change<cron_view>(task, now, [&](cron_row& row, bool, cron_time, bool) {
    apply_pause(row, paused, who, cursor);
    return cron_view{};
  });
}

}  // namespace caravan
