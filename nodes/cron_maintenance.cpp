#include "nodes/cron_maintenance.hpp"

#include "integration/leveldb/level_storage.hpp"
#include "messages/caf_error.hpp"
#include "nodes/foreign_thread.hpp"

#include <caf/all.hpp>

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>

namespace caravan {

using namespace std::chrono_literals;

namespace {

using queue_list = std::vector<std::shared_ptr<hosted_queue>>;

constexpr std::size_t page = 1000;
constexpr caf::timespan patience = 10s;

/// Those that QUEUE names; empty: all.
expected<queue_list> chosen(const maintenance_parts& parts, const std::string& name) {
  auto all = parts.queues();
  if (name.empty()) return all;
  std::erase_if(all, [&](const auto& q) { return q->name() != name; });
  if (all.empty())
    return error{errc::not_found, "QUEUE = " + name + ": there is no such queue on this node; correct or remove it"};
  return all;
}

template <class Reply, class Message>
expected<Reply> ask(caf::scoped_actor& self, const queue_actor& queue, const Message& message) {
  std::optional<expected<Reply>> out;
  self->request(queue, patience, message)
      .receive([&](Reply& r) { out.emplace(std::move(r)); }, [&](caf::error& e) { out.emplace(from_caf(e)); });
  return std::move(*out);
}

// ---- delete_old_dead_jobs ----

expected<std::size_t> delete_old(const maintenance_parts& parts, const hosted_queue& queue, wall_time before,
                                 const std::stop_token& stop) {
  const foreign_thread here;
  caf::scoped_actor self{*parts.system};
  std::size_t count = 0;
  list_jobs next{record_state::dead, wall_time::min(), {}, page};
  while (!stop.stop_requested()) {
    const auto jobs = ask<job_list>(self, queue.actor(), next);
    if (!jobs) return jobs.failure();
    for (const auto& job : jobs->jobs) {
      next.after_id = job.item.id;
      if (job.item.pushed_at >= before) continue;
      if (stop.stop_requested()) return count;
      const auto gone = ask<ack>(self, queue.actor(), change_job{job.item.id, job_change::remove});
      // Somebody else was faster, or runs it again.
      if (!gone && gone.failure().code != errc::not_found && gone.failure().code != errc::conflict)
        return gone.failure();
      if (gone) ++count;
    }
    if (jobs->jobs.size() < page) break;
  }
  return count;
}

expected<std::string> delete_old_dead_jobs(const maintenance_parts& parts, const task_run& run) {
  const auto age = run.settings.duration("OLDER_THAN");
  if (age < 1min) return {errc::invalid_argument, "OLDER_THAN: must be at least 1m"};
  const auto queues = chosen(parts, run.settings.text("QUEUE"));
  if (!queues) return queues.failure();
  const auto before = parts.clock->wall() - std::chrono::ceil<std::chrono::milliseconds>(age);
  std::size_t count = 0;
  std::string failed;
  for (const auto& q : *queues) {
    if (!q->actor()) continue;
    const auto n = delete_old(parts, *q, before, run.stop);
    if (n)
      count += *n;
    else
      failed += (failed.empty() ? "" : "; ") + std::string("queue \"") + q->name() + "\": " + n.failure().text;
  }
  const auto done = std::to_string(count) + " dead jobs deleted";
  if (!failed.empty()) return {errc::backend_failed, done + ", but " + failed};
  return done;
}

// ---- compact_storage ----

expected<std::string> compact_storage(const maintenance_parts& parts, const task_run& run) {
  const auto queues = chosen(parts, run.settings.text("QUEUE"));
  if (!queues) return queues.failure();
  std::size_t count = 0;
  for (const auto& q : *queues) {
    if (run.stop.stop_requested()) break;
    const auto store = q->local_storage();
    if (auto* level = dynamic_cast<level_storage*>(store.get())) {
      level->compact();
      ++count;
    }
  }
  return std::to_string(count) + " queues compacted";
}

// ---- check_storage ----

struct check_result {
  std::size_t rows = 0;
  std::string wrong;  ///< empty: nothing
  bool busy = false;  ///< it changed all the time, and was not judged
};

expected<std::size_t> rows_of(storage& store, record_state state, const std::stop_token& stop) {
  std::size_t count = 0;
  read_cursor after;
  while (!stop.stop_requested()) {
    const auto some = store.read(state, after, page);
    if (!some) return some.failure();
    count += some->size();
    if (some->empty()) break;
    after = {sort_of(some->back()), some->back().id};
  }
  return count;
}

expected<check_result> check(storage& store, const std::stop_token& stop) {
  check_result out;
  for (int attempt = 0; attempt < 3; ++attempt) {
    const auto before = store.count();
    std::array<std::size_t, record_states> rows{};
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const auto n = rows_of(store, static_cast<record_state>(i), stop);
      if (!n) return n.failure();
      rows[i] = *n;
    }
    const auto after = store.count();
    if (stop.stop_requested()) return error{errc::timed_out, "it was asked to stop"};
    out.rows = std::accumulate(rows.begin(), rows.end(), std::size_t{0});
    out.busy = before.last != after.last;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const auto state = static_cast<record_state>(i);
      out.busy = out.busy || before.of(state) != after.of(state);
    }
    if (out.busy) continue;
    out.wrong.clear();
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const auto state = static_cast<record_state>(i);
      if (rows[i] == after.of(state)) continue;
      out.wrong += (out.wrong.empty() ? "" : ", ") + std::to_string(after.of(state)) + " " + std::string(name_of(state)) +
                   " are counted and " + std::to_string(rows[i]) + " are there";
    }
    if (out.wrong.empty()) break;  // else once more: work may have gone on in between and look the same
  }
  return out;
}

expected<std::string> check_storage(const maintenance_parts& parts, const task_run& run) {
  const auto queues = chosen(parts, run.settings.text("QUEUE"));
  if (!queues) return queues.failure();
  std::size_t count = 0, rows = 0, busy = 0;
  std::string wrong;
  for (const auto& q : *queues) {
    const auto store = q->local_storage();
    if (!store) continue;
    const auto found = check(*store, run.stop);
    const auto text = !found ? found.failure().text : found->busy ? std::string() : found->wrong;
    if (!text.empty()) wrong += (wrong.empty() ? "" : "; ") + std::string("queue \"") + q->name() + "\": " + text;
    if (!found) continue;
    ++count;
    rows += found->rows;
    busy += found->busy ? 1 : 0;
  }
  if (!wrong.empty()) return {errc::backend_failed, wrong + "; restart the node, which counts anew, and keep its log"};
  return std::to_string(count) + " queues, " + std::to_string(rows) + " rows" +
         (busy ? "; " + std::to_string(busy) + " changed too fast to be judged" : "");
}

}  // namespace

std::vector<maintenance_task> maintenance_tasks(const maintenance_parts& parts) {
  const task_key queue{"QUEUE", std::string(), "Only this queue; empty: all"};
  const auto with_parts = [&](auto function) -> task_function {
    return [parts, function](const task_run& run) { return function(parts, run); };
  };
  return {
      {"check_storage",
       {.description = "Holds the counts of the queues against their rows",
        .schedule = "30 4 * * sun",
        .keys = {queue}},
       with_parts(check_storage)},
      {"compact_storage",
       {.description = "Gives disk space of handled items back", .schedule = "0 4 * * *", .keys = {queue}},
       with_parts(compact_storage)},
      {"delete_old_dead_jobs",
       {.description = "Deletes dead jobs that were pushed long ago",
        .schedule = "0 3 * * *",
        .keys = {queue, {"OLDER_THAN", std::chrono::nanoseconds(std::chrono::hours(24 * 30)), "Since their push"}}},
       with_parts(delete_old_dead_jobs)},
  };
}

}  // namespace caravan
