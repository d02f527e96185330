#include "nodes/node_watch.hpp"

#include "nodes/foreign_thread.hpp"
#include "nodes/http/ask.hpp"
#include "nodes/http/lock_ask.hpp"
#include "nodes/node_runtime.hpp"
#include "nodes/ownership.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>
#include <utility>

namespace caravan {

using namespace std::chrono_literals;
using steady = std::chrono::steady_clock;

namespace {

constexpr auto fresh = 900ms;  // how old a snapshot may be
constexpr auto outside_fresh = 10s;
constexpr auto patience = 2s;  // for a queue's answer
constexpr auto busy_pause = 1s;
constexpr auto idle_pause = 15s;
constexpr std::uintmax_t file_most = 16u << 20;

double seconds_since_epoch(std::chrono::system_clock::time_point t) {
  return std::chrono::duration<double>(t.time_since_epoch()).count();
}

/// Of a queue without an actor.
queue_status status_of(const queue_info& i) {
  queue_status st;
  st.name = i.name;
  st.owner = i.owner;
  st.counts.totals.pushed = i.pushed;
  st.counts.totals.handled = i.handled;
  st.counts.totals.failed = i.failed;
  st.counts.totals.died = i.died;
  st.counts.running = i.running;
  return st;
}

queue_counters counters_of(const queue_status& st, std::chrono::system_clock::time_point now) {
  queue_counters c;
  c.waiting = st.counts.waiting;
  c.running = st.counts.running;
  c.delayed = st.counts.delayed;
  c.dead = st.counts.dead;
  c.pushed = st.counts.totals.pushed;
  c.handled = st.counts.totals.handled;
  c.failed = st.counts.totals.failed;
  if (st.oldest_waiting != wall_time{})
    c.oldest = std::max(0.0, std::chrono::duration<double>(now - st.oldest_waiting).count());
  return c;
}

std::string line_of(const queue_history::record_line& l) {
  const auto& p = l.minute;
  const nlohmann::json row{l.queue,  p.at,      p.pushed,  p.handled, p.failed,
                           p.oldest, p.waiting, p.running, p.delayed, p.dead};
  return row.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::optional<queue_history::record_line> line_from(const std::string& text) {
  const auto row = nlohmann::json::parse(text, nullptr, false);
  if (!row.is_array() || row.size() != 10 || !row[0].is_string()) return std::nullopt;
  for (std::size_t i = 1; i < row.size(); ++i)
    if (!row[i].is_number()) return std::nullopt;
  history_point p;
  p.at = row[1];
  p.pushed = row[2];
  p.handled = row[3];
  p.failed = row[4];
  p.oldest = row[5];
  p.waiting = row[6];
  p.running = row[7];
  p.delayed = row[8];
  p.dead = row[9];
  return queue_history::record_line{row[0], p};
}

}  // namespace

class node_watch::impl : public std::enable_shared_from_this<impl> {
public:
  using queues_then = std::function<void(std::shared_ptr<const queue_snapshot>)>;
  using outside_then = std::function<void(std::shared_ptr<const outside_facts>)>;

  explicit impl(node_runtime& node)
      : node_(node), file_(std::filesystem::path(node.settings().node.data_dir) / "history.jsonl") {
    load();
  }

  void begin() {
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  }

  void end() {
    if (thread_.joinable()) {
      thread_.request_stop();
      wake_.notify_all();
      thread_.join();
    }
    {
      // Who is told something may look at the node, which ends after this.
      std::unique_lock lock(mutex_);
      ended_ = true;
      left_.wait(lock, [&] { return telling_ == 0; });
      wait_for_queues_.clear();
      wait_for_outside_.clear();
    }
    save();
  }

  void queues(queues_then then) {
    std::shared_ptr<const queue_snapshot> there;
    {
      const std::lock_guard lock(mutex_);
      if (latest_ && steady::now() - latest_->taken < fresh) {
        there = latest_;
      } else {
        wait_for_queues_.push_back(std::move(then));
        if (asking_) return;
        asking_ = true;
      }
    }
    if (there)
      tell(std::vector{std::move(then)}, there);
    else
      ask_all();
  }

  void outside(outside_then then) {
    std::shared_ptr<const outside_facts> there;
    {
      const std::lock_guard lock(mutex_);
      if (!facts_ || steady::now() - facts_->taken > outside_fresh) {
        outside_wanted_ = true;
        wake_.notify_all();
      }
      there = facts_;
      if (!there) {
        wait_for_outside_.push_back(std::move(then));
        return;
      }
    }
    tell(std::vector{std::move(then)}, there);
  }

  void history(const std::function<void(const queue_history&)>& look) const {
    const std::lock_guard lock(mutex_);
    look(history_);
  }

private:
  struct gathering {
    queue_snapshot all;
    std::atomic<std::size_t> missing;
  };

  void ask_all() {
    const auto some = std::make_shared<gathering>();
    for (auto& q : node_.all()) some->all.queues.push_back({std::move(q), {}, {}});
    some->missing = some->all.queues.size() + 1;
    const auto one_less = [me = shared_from_this(), some] {
      if (--some->missing == 0) me->take(std::move(some->all));
    };
    for (auto& w : some->all.queues) {
      const auto actor = w.queue->actor();
      if (!actor) {
        if (const auto i = w.queue->info()) w.status = status_of(*i);
        one_less();
        continue;
      }
      http::ask(node_.system(), actor, get_queue_status{}, patience,
                [this, me = shared_from_this(), some, one_less, &w](expected<queue_status> st) {
                  if (st) w.status = std::move(*st);
                  const auto pool = st ? w.queue->pool() : worker_pool_actor();
                  if (!pool) return one_less();
                  http::ask(node_.system(), pool, get_pool_status{}, patience,
                            [some, one_less, &w](expected<pool_status> p) {
                              if (p) w.pool = std::move(*p);
                              one_less();
                            });
                });
    }
    one_less();
  }

  void take(queue_snapshot&& all) {
    all.taken = steady::now();
    all.at = node_.clock().wall();
    std::map<std::string, queue_counters, std::less<>> now;
    // One on standby knows nothing of what its owner did: its counters would seem to begin anew.
    for (const auto& w : all.queues)
      if (w.status && w.status->phase != queue_phase::standby) now[w.queue->name()] = counters_of(*w.status, all.at);
    const auto done = std::make_shared<const queue_snapshot>(std::move(all));
    std::vector<queues_then> then;
    {
      const std::lock_guard lock(mutex_);
      latest_ = done;
      asking_ = false;
      then.swap(wait_for_queues_);
      if (history_.note(seconds_since_epoch(done->at), now) && pause_ != busy_pause) {
        pause_ = busy_pause;
        sooner_ = true;
        wake_.notify_all();
      }
    }
    tell(then, done);
  }

  void run(const std::stop_token& stop) {
    const foreign_thread here;
    auto next = steady::now();
    std::unique_lock lock(mutex_);
    while (!stop.stop_requested()) {
      wake_.wait_until(lock, next, [&] { return stop.stop_requested() || outside_wanted_ || sooner_; });
      if (stop.stop_requested()) return;
      if (std::exchange(sooner_, false)) next = std::min(next, steady::now() + busy_pause);
      if (std::exchange(outside_wanted_, false)) {
        lock.unlock();
        find_out();
        lock.lock();
      }
      if (steady::now() < next) continue;
      // Longer and longer, until something happens.
      pause_ = std::min<std::chrono::milliseconds>(pause_ * 2, idle_pause);
      lock.unlock();
      queues([](const std::shared_ptr<const queue_snapshot>&) {});
      save();
      lock.lock();
      next = steady::now() + pause_;
    }
  }

  void find_out() {
    auto f = std::make_shared<outside_facts>();
    if (const auto tasks = node_.tasks())
      if (auto list = tasks->list()) f->tasks = std::move(*list);
    for (const auto& place : node_.shared_places()) {
      store_round_trip s{place->client()->where(), {}};
      const auto begun = steady::now();
      if (place->client()->command({"PING"}))
        s.seconds = std::chrono::duration<double>(steady::now() - begun).count();
      else
        ++store_errors_;
      f->stores.push_back(std::move(s));
      auto some = place->nodes();
      if (!some) continue;
      for (auto& n : *some)
        if (std::none_of(f->nodes.begin(), f->nodes.end(), [&](const auto& x) { return x.name == n.name; }))
          f->nodes.push_back(std::move(n));
    }
    f->store_errors = store_errors_;
    if (const auto locks = node_.locks().actor()) {
      // The answer is waited for by what comes last: the facts are whole then.
      http::ask(node_.system(), locks, get_locks{{}, 10'000}, patience,
                [me = shared_from_this(), f](expected<lock_list> all) {
                  if (all) {
                    f->locks_held = all->locks.size();
                    for (const auto& l : all->locks) f->lock_waiters += l.waiting;
                  }
                  me->answer_outside(f);
                });
      return;
    }
    answer_outside(f);
  }

  void answer_outside(const std::shared_ptr<outside_facts>& f) {
    std::vector<outside_then> then;
    {
      const std::lock_guard lock(mutex_);
      f->taken = steady::now();
      facts_ = f;
      then.swap(wait_for_outside_);
    }
    tell(then, std::shared_ptr<const outside_facts>(f));
  }

  template <class Then, class What>
  void tell(const std::vector<Then>& then, const What& what) {
    {
      const std::lock_guard lock(mutex_);
      if (ended_) return;
      ++telling_;
    }
    for (const auto& t : then) t(what);
    const std::lock_guard lock(mutex_);
    --telling_;
    left_.notify_all();
  }

  void load() {
    std::ifstream in(file_);
    for (std::string line; std::getline(in, line);)
      if (const auto l = line_from(line)) history_.restore(*l);
    in.close();
    rewrite();
  }

  // What the rings hold, and nothing else: in one step, so that a crash keeps the old file.
  void rewrite() {
    const auto all = history_.all_minutes();
    if (all.empty()) return;
    const auto fresh_file = file_.string() + ".new";
    std::error_code ec;
    {
      std::ofstream out(fresh_file, std::ios::trunc);
      std::uintmax_t bytes = 0;
      for (const auto& l : all) {
        const auto text = line_of(l);
        if ((bytes += text.size()) > file_most / 2) break;
        out << text;
      }
      if (!out.flush()) {
        std::filesystem::remove(fresh_file, ec);
        return;
      }
    }
    std::filesystem::rename(fresh_file, file_, ec);
  }

  // A chart is not worth an error: what cannot be written is missing after a restart.
  void save() {
    const std::lock_guard lock(mutex_);
    const auto lines = history_.take_ended_minutes();
    if (lines.empty()) return;
    {
      std::ofstream out(file_, std::ios::app);
      for (const auto& l : lines) out << line_of(l);
    }
    std::error_code ec;
    if (std::filesystem::file_size(file_, ec) > file_most && !ec) rewrite();
  }

  node_runtime& node_;
  const std::filesystem::path file_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::shared_ptr<const queue_snapshot> latest_;
  bool asking_ = false;
  bool ended_ = false;
  std::size_t telling_ = 0;  ///< threads that are in tell()
  std::condition_variable left_;
  std::vector<queues_then> wait_for_queues_;
  std::shared_ptr<const outside_facts> facts_;
  bool outside_wanted_ = false;
  std::vector<outside_then> wait_for_outside_;
  queue_history history_;
  std::chrono::milliseconds pause_ = busy_pause;
  bool sooner_ = false;
  std::uint64_t store_errors_ = 0;  ///< of the thread alone
  std::jthread thread_;
};

node_watch::node_watch(node_runtime& node) : impl_(std::make_shared<impl>(node)) { impl_->begin(); }
node_watch::~node_watch() { stop(); }
void node_watch::stop() { impl_->end(); }
void node_watch::queues(std::function<void(std::shared_ptr<const queue_snapshot>)> then) {
  impl_->queues(std::move(then));
}
void node_watch::outside(std::function<void(std::shared_ptr<const outside_facts>)> then) {
  impl_->outside(std::move(then));
}
void node_watch::history(const std::function<void(const queue_history&)>& look) const { impl_->history(look); }

}  // namespace caravan
