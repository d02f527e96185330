#include "nodes/client/remote_worker.hpp"

#include "config/values.hpp"
#include "toolbox/backoff.hpp"

#include <nlohmann/json.hpp>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

namespace caravan {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using clock_type = std::chrono::steady_clock;

namespace {

using json = nlohmann::json;

constexpr auto beat_every = 2s;
constexpr auto claim_grace = 1s;    ///< for claims to be answered once the worker stops
constexpr auto handler_grace = 2s;  ///< for handlers to end once they are asked to
constexpr std::size_t most_jobs = 1000;
const toolbox::backoff_options pauses{.first = 100ms, .most = 5s};

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

std::optional<std::string> from_base64(std::string_view text) {
  constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  unsigned bits = 0;
  int have = 0;
  for (const char c : text) {
    if (c == '=') break;
    const auto value = digits.find(c);
    if (value == std::string_view::npos) return std::nullopt;
    bits = bits << 6 | static_cast<unsigned>(value);
    if ((have += 6) < 8) continue;
    have -= 8;
    out.push_back(static_cast<char>(bits >> have & 255));
  }
  return out;
}

std::string text_of(const json& object, const char* name) {
  const auto at = object.find(name);
  return at != object.end() && at->is_string() ? at->get<std::string>() : std::string{};
}

std::optional<std::chrono::system_clock::time_point> instant_of(const std::string& text) {
  // "2026-05-01T12:00:00.000Z", as nodes write it.
  int y = 0, mo = 0, d = 0, h = 0, mi = 0, s = 0, ms = 0;
  if (std::sscanf(text.c_str(), "%d-%d-%dT%d:%d:%d.%dZ", &y, &mo, &d, &h, &mi, &s, &ms) != 7) return std::nullopt;
  const std::chrono::sys_days day{std::chrono::year{y} / mo / d};
  return day + std::chrono::hours{h} + std::chrono::minutes{mi} + std::chrono::seconds{s} + milliseconds{ms};
}

std::string_view word_of(item_outcome::kind k) {
  switch (k) {
    case item_outcome::kind::unhandled:
      return "unhandled";
    case item_outcome::kind::failed:
      return "failed";
    case item_outcome::kind::rejected:
      return "rejected";
    case item_outcome::kind::later:
      return "later";
    case item_outcome::kind::handled:
      return "handled";
  }
  return "failed";
}

/// What one handler call gets.
struct call {
  std::string lease;
  std::string queue;
  std::vector<std::string> names;  ///< of the jobs
  std::shared_ptr<std::vector<record>> items = std::make_shared<std::vector<record>>();
  std::uint64_t token = 0;
  clock_type::time_point deadline = clock_type::time_point::max();
  std::stop_source stop;
  bool lost = false;  ///< under the mutex, as all that follows
  bool begun = false;
  bool ended = false;
};

struct claim {
  std::string url;  ///< of the node that gave it
  milliseconds lease{0};
  clock_type::time_point ends;
  clock_type::time_point extend_at;
  std::vector<std::shared_ptr<call>> open;  ///< calls that are not acknowledged
};

}  // namespace

struct remote_worker::engine : std::enable_shared_from_this<remote_worker::engine> {
  explicit engine(remote_worker_options o) : options(std::move(o)), concurrency(std::max(options.concurrency, 1u)) {}

  remote_worker_options options;
  const std::chrono::system_clock::time_point started = std::chrono::system_clock::now();

  mutable std::mutex mutex;
  mutable std::condition_variable changed;
  unsigned concurrency;
  unsigned busy = 0;      ///< calls on the shelf or in a handler
  unsigned reserved = 0;  ///< slots that claims under way are for
  unsigned without = 0;   ///< loops of queues that have no slot now
  bool quiet = false;
  bool stops = false;
  bool hands_back = false;  ///< handlers are asked to stop because the worker ends
  bool keeper_ends = false;
  bool beat_now = false;
  bool trouble_told = false;
  std::map<std::string, claim> claims;
  std::deque<std::shared_ptr<call>> shelf;
  unsigned idle_threads = 0;
  unsigned threads = 0;  ///< that run handlers
  unsigned other_threads = 0;
  unsigned claimers = 0;
  std::stop_source claims_stop;
  remote_worker_figures figures;

  void log(std::string_view level, const std::string& text) const {
    if (options.log) options.log(level, text);
  }

  // ---- what all threads share ----

  void obey(const json& orders) {  // under the mutex
    const auto state = text_of(orders, "state");
    const auto n = orders.value("concurrency", 0u);
    const auto wanted = n > 0 ? n : std::max(options.concurrency, 1u);
    if (std::exchange(concurrency, wanted) != wanted) log("info", "concurrency is " + std::to_string(wanted) + " now");
    if (const bool q = state == "quiet"; std::exchange(quiet, q) != q)
      log("info", q ? "claims nothing more until it is told to run" : "claims jobs again");
    if (state == "stop" && !std::exchange(stops, true)) log("info", "is ordered to stop");
    changed.notify_all();
  }

  void tell_trouble(const error& why) {
    {
      const std::lock_guard lock(mutex);
      if (std::exchange(trouble_told, true)) return;
    }
    log("warn", why.text + "; tries again");
  }
  void trouble_over() {
    {
      const std::lock_guard lock(mutex);
      if (!std::exchange(trouble_told, false)) return;
    }
    log("info", "claims again");
  }

  // ---- claims ----

  [[nodiscard]] unsigned free_slots() const {  // under the mutex
    const auto used = busy + reserved;
    return used < concurrency ? concurrency - used : 0;
  }

  void claim_loop(const std::string& queue) {
    node_caller nodes(options.addresses, options.calls);
    toolbox::backoff pause{pauses};
    bool found = true;
    std::unique_lock lock(mutex);
    ++without;
    for (;;) {
      changed.wait(lock, [&] { return stops || (!quiet && free_slots() > 0); });
      if (stops) break;
      --without;
      // A queue that had nothing keeps one slot, so that the others can have the rest.
      const auto spare = free_slots();
      const auto slots = !found && options.queues.size() > 1 ? 1 : std::max(1u, spare - std::min(spare, without));
      reserved += slots;
      lock.unlock();
      node_call c;
      c.method = "POST";
      c.path = "/v1/queues/" + path_segment(queue) + "/claim";
      c.body = json{{"max", std::min(slots * options.batch, most_jobs)},
                    {"wait", config::format_duration(options.wait)},
                    {"lease", config::format_duration(options.lease)},
                    {"worker", options.name}}
                   .dump();
      c.timeout = options.wait + 15s;
      c.stop = claims_stop.get_token();
      const auto asked = clock_type::now();
      const auto answer = nodes.call(c);
      lock.lock();
      reserved -= slots;
      ++without;
      std::optional<std::chrono::nanoseconds> wait;
      if (!answer) {
        wait = pause.next();
        lock.unlock();
        if (answer.failure().code != errc::conflict) tell_trouble(answer.failure());
        lock.lock();
      } else if (answer->status == 429) {
        wait = std::max<std::chrono::nanoseconds>(answer->retry_after, 50ms);
        const auto said = json::parse(answer->body, nullptr, false);
        if (said.is_object())
          if (const auto exact = config::parse_duration(text_of(said, "retry_after"))) wait = *exact;
      } else if (answer->status != 200) {
        wait = pause.next();
        lock.unlock();
        tell_trouble(answer->failure());
        lock.lock();
      } else {
        pause.reset();
        lock.unlock();
        trouble_over();
        lock.lock();
        try {
          found = take(queue, *answer, slots, asked);
        } catch (const json::exception& e) {
          found = false;
          wait = pause.next();
          log("error", answer->url + " answers a claim with what no node answers: " + e.what());
        }
      }
      changed.notify_all();
      if (wait) changed.wait_for(lock, *wait, [&] { return stops; });
    }
    --without;
    --claimers;
    changed.notify_all();
  }

  /// Under the mutex. False: it gave no jobs.
  bool take(const std::string& queue, const node_reply& answer, unsigned slots, clock_type::time_point asked) {
    const auto said = json::parse(answer.body, nullptr, false);
    if (!said.is_object()) {
      log("error", answer.url + " answers a claim with something that is no JSON object");
      return false;
    }
    if (const auto orders = said.find("orders"); orders != said.end() && orders->is_object()) obey(*orders);
    const auto jobs = said.find("jobs");
    if (jobs == said.end() || !jobs->is_array() || jobs->empty()) return false;
    const auto now = clock_type::now();
    const auto name = text_of(said, "lease");
    claim c;
    c.url = answer.url;
    c.lease = options.lease;
    const auto remaining = config::parse_duration(text_of(said, "remaining")).value_or(options.lease);
    c.ends = now + remaining;
    c.extend_at = now + remaining / 3;
    if (now - asked > remaining / 3) c.extend_at = now;  // it may have lain in the socket while this process was frozen
    const auto server_end = instant_of(text_of(said, "lease_end"));
    const auto size = std::max<std::size_t>(1, std::min(options.batch, (jobs->size() + slots - 1) / slots));
    for (const auto& j : *jobs) {
      if (c.open.empty() || c.open.back()->items->size() >= size) {
        c.open.push_back(std::make_shared<call>());
        c.open.back()->lease = name;
        c.open.back()->queue = queue;
      }
      auto& into = *c.open.back();
      record r;
      const auto id_text = text_of(j, "id");
      if (const auto id = parse_job_id(id_text)) r.id = id->item;
      if (const auto payload = j.find("payload"); payload != j.end())
        r.payload = payload->dump();
      else
        r.payload = from_base64(text_of(j, "payload_base64")).value_or("");
      r.key = text_of(j, "key");
      r.attempts = std::max(j.value("attempt", 1u), 1u) - 1;
      if (const auto headers = j.find("headers"); headers != j.end() && headers->is_object())
        for (const auto& [h, v] : headers->items())
          if (v.is_string()) r.headers.emplace_back(h, v.get<std::string>());
      // By the node's clock: what counts is how far it lies ahead of the lease's end.
      if (const auto deadline = instant_of(text_of(j, "deadline")); deadline && server_end)
        into.deadline = std::min(into.deadline, c.ends + (*deadline - *server_end));
      into.token = std::max<std::uint64_t>(into.token, std::strtoull(text_of(j, "token").c_str(), nullptr, 10));
      into.items->push_back(std::move(r));
      into.names.push_back(id_text);
    }
    figures.claimed += jobs->size();
    for (const auto& one : c.open) {
      shelf.push_back(one);
      ++busy;
      if (idle_threads >= shelf.size()) continue;
      ++threads;
      std::thread([self = shared_from_this()] { self->handle_loop(); }).detach();
    }
    claims.emplace(name, std::move(c));
    return true;
  }

  // ---- handlers ----

  void handle_loop() {
    node_caller nodes(options.addresses, options.calls);
    std::unique_lock lock(mutex);
    for (;;) {
      ++idle_threads;
      changed.wait(lock, [&] { return !shelf.empty() || keeper_ends || (threads > concurrency && busy < threads); });
      --idle_threads;
      if (shelf.empty()) break;
      const auto work = shelf.front();
      shelf.pop_front();
      work->begun = true;
      lock.unlock();
      batch_result rest;
      const auto count = work->items->size();
      try {
        const batch b{work->queue, work->token, options.lease, work->items};
        run_context ctx;
        ctx.stop = work->stop.get_token();
        ctx.deadline = work->deadline;
        ctx.node = options.name;
        rest = options.handler->run(b, ctx);
      } catch (const std::exception& e) {
        rest = whole_batch(count, item_outcome::kind::failed, std::string("the handler threw: ") + e.what());
      } catch (...) {
        rest = whole_batch(count, item_outcome::kind::failed, "the handler threw something that is no std::exception");
      }
      acknowledge(nodes, *work, rest);
      lock.lock();
      work->ended = true;
      --busy;
      changed.notify_all();
    }
    --threads;
    changed.notify_all();
  }

  void acknowledge(node_caller& nodes, call& work, const batch_result& rest) {
    std::vector<const item_outcome*> outcomes(work.names.size(), nullptr);
    for (const auto& o : rest)
      if (o.index < outcomes.size()) outcomes[o.index] = &o;
    node_call c;
    c.method = "POST";
    c.path = "/v1/leases/" + path_segment(work.lease) + "/ack";
    c.timeout = 10s;
    auto jobs = json::array();
    std::uint64_t handled = 0, others = 0;
    toolbox::backoff pause{{.first = 50ms, .most = 1s}};
    std::unique_lock lock(mutex);
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
      const auto* o = outcomes[i];
      // What a handler leaves because the worker ends was not tried: it is handed back with the rest of the claim.
      if (o && o->what == item_outcome::kind::unhandled && hands_back) continue;
      json j{{"id", work.names[i]}, {"outcome", o ? word_of(o->what) : "handled"}};
      if (o && !o->text.empty()) j["error"] = o->text.substr(0, 4096);
      if (o && o->delay > 0ms && (o->what == item_outcome::kind::later || o->what == item_outcome::kind::failed))
        j["delay"] = config::format_duration(o->delay);
      ++(o ? others : handled);
      jobs.push_back(std::move(j));
    }
    const bool all = jobs.size() == work.names.size();
    c.body = json{{"jobs", std::move(jobs)}}.dump(-1, ' ', false, json::error_handler_t::replace);
    for (;;) {
      const auto at = claims.find(work.lease);
      if (at == claims.end() || work.lost || clock_type::now() >= at->second.ends) {
        figures.lost += work.names.size();
        if (!std::exchange(work.lost, true))
          log("warn", "queue \"" + work.queue + "\": the lease of " + work.names.front() +
                          " ended before it could be acknowledged; it comes again");
        break;
      }
      if (handled + others == 0) return;  // still open: handed back at the end
      c.only = at->second.url;
      lock.unlock();
      const auto answer = nodes.call(c);
      std::optional<error> why;
      if (answer && answer->status != 200) why = answer->failure();
      lock.lock();
      if (answer && answer->status == 200) {
        count_jobs(answer->body, handled + others);
        break;
      }
      const bool again = !answer || answer->status == 429 || answer->status >= 500;
      if (!again) {
        figures.lost += work.names.size();
        work.lost = true;
        log("warn", why->text);
        break;
      }
      changed.wait_for(lock, pause.next(), [&] { return work.lost; });
    }
    const auto at = claims.find(work.lease);
    if (at == claims.end() || (!all && !work.lost)) return;
    std::erase_if(at->second.open, [&](const auto& o) { return o.get() == &work; });
    if (at->second.open.empty()) claims.erase(at);
  }

  void count_jobs(const std::string& body, std::uint64_t said) {  // under the mutex
    const auto answer = json::parse(body, nullptr, false);
    const auto jobs = answer.is_object() ? answer.find("jobs") : answer.end();
    if (!answer.is_object() || jobs == answer.end() || !jobs->is_array()) {
      figures.handled += said;
      return;
    }
    for (const auto& j : *jobs) {
      if (!j.value("counted", false))
        ++figures.lost;
      else if (text_of(j, "outcome") == "handled")
        ++figures.handled;
      else
        ++figures.not_handled;
    }
  }

  // ---- leases ----

  void lose(claim& c, const std::set<std::string>* only, const std::string& why) {  // under the mutex
    for (const auto& o : c.open) {
      const bool its =
          !only || std::any_of(o->names.begin(), o->names.end(), [&](const auto& n) { return only->contains(n); });
      if (!its || o->lost) continue;
      o->lost = true;
      log("warn", "queue \"" + o->queue + "\": the lease of " + o->names.front() + " is lost: " + why);
      const auto work = o;
      if (work->begun) {
        work->stop.request_stop();
      } else {
        std::erase(shelf, work);
        work->ended = true;
        figures.lost += work->names.size();
        --busy;
      }
    }
    changed.notify_all();
  }

  void keep_loop() {
    node_caller nodes(options.addresses, options.calls);
    std::unique_lock lock(mutex);
    while (!keeper_ends) {
      const auto now = clock_type::now();
      auto next = now + 1h;
      std::string due;
      for (auto& [name, c] : claims) {
        if (c.extend_at <= now) due = name;
        next = std::min(next, c.extend_at);
      }
      std::erase_if(claims, [](const auto& c) {
        return std::all_of(c.second.open.begin(), c.second.open.end(),
                           [](const auto& o) { return o->lost && o->ended; });
      });
      if (due.empty() || !claims.contains(due)) {
        changed.wait_until(lock, std::min(next, now + 1s));  // a claim may come any time
        continue;
      }
      auto& c = claims.at(due);
      if (now >= c.ends) {
        lose(c, nullptr, "it could not be extended in time");
        c.extend_at = now + 1h;
        continue;
      }
      c.extend_at = now + c.lease / 3;
      node_call e;
      e.method = "POST";
      e.path = "/v1/leases/" + path_segment(due) + "/extend";
      e.body = "{}";
      e.timeout = std::clamp<milliseconds>(c.lease / 3, 500ms, 5s);
      e.only = c.url;
      lock.unlock();
      const auto answer = nodes.call(e);
      std::optional<error> why;
      if (answer && answer->status != 200) why = answer->failure();
      lock.lock();
      const auto at = claims.find(due);
      if (at == claims.end()) continue;
      if (answer && answer->status == 200) {
        at->second.ends = now + at->second.lease;  // from before it was asked
        const auto said = json::parse(answer->body, nullptr, false);
        std::set<std::string> lost;
        if (said.is_object() && said.contains("lost") && said["lost"].is_array())
          for (const auto& id : said["lost"])
            if (id.is_string()) lost.insert(id.get<std::string>());
        if (!lost.empty()) lose(at->second, &lost, "it is over, or the job ran past its TIMEOUT");
      } else if (answer && answer->status < 500 && answer->status != 429) {
        lose(at->second, nullptr, why->text);
        at->second.extend_at = now + 1h;
      } else {
        at->second.extend_at =
            std::min(clock_type::now() + std::min<milliseconds>(at->second.lease / 6, 1s), at->second.ends);
      }
    }
    --other_threads;
    changed.notify_all();
  }

  // ---- being seen ----

  void beat(node_caller& nodes, std::unique_lock<std::mutex>& lock, std::string_view state) {
    node_call c;
    c.method = "POST";
    c.path = "/v1/workers/" + path_segment(options.name) + "/beat";
    c.timeout = 3s;
    const auto at = std::chrono::floor<milliseconds>(started);
    const auto day = std::chrono::floor<std::chrono::days>(at);
    const std::chrono::year_month_day date{day};
    const std::chrono::hh_mm_ss time{at - day};
    std::array<char, 40> text{};
    std::snprintf(text.data(), text.size(), "%04d-%02u-%02uT%02d:%02d:%02d.%03dZ", static_cast<int>(date.year()),
                  static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                  static_cast<int>(time.hours().count()), static_cast<int>(time.minutes().count()),
                  static_cast<int>(time.seconds().count()), static_cast<int>(time.subseconds().count()));
    c.body = json{{"host", host_name()},    {"pid", ::getpid()},        {"version", options.version}, {"state", state},
                  {"started", text.data()}, {"queues", options.queues}, {"concurrency", concurrency}, {"busy", busy}}
                 .dump(-1, ' ', false, json::error_handler_t::replace);
    lock.unlock();
    const auto answer = nodes.call(c);
    lock.lock();
    if (!answer || answer->status != 200 || state == "stopped") return;
    const auto orders = json::parse(answer->body, nullptr, false);
    try {
      if (orders.is_object()) obey(orders);
    } catch (const json::exception&) {
      log("error", answer->url + " answers with orders that no node gives");
    }
  }

  void beat_loop() {
    node_caller nodes(options.addresses, options.calls);
    std::unique_lock lock(mutex);
    while (!keeper_ends) {
      beat_now = false;
      const bool stopping = stops;
      beat(nodes, lock, stops ? "stopping" : quiet ? "quiet" : "run");
      changed.wait_for(lock, beat_every, [&] { return keeper_ends || beat_now || stops != stopping; });
    }
    beat(nodes, lock, "stopped");
    --other_threads;
    changed.notify_all();
  }

  // ---- life ----

  void start() {
    const std::lock_guard lock(mutex);
    const auto self = shared_from_this();
    for (const auto& q : options.queues) {
      ++claimers;
      std::thread([self, q] { self->claim_loop(q); }).detach();
    }
    other_threads = 2;
    std::thread([self] { self->keep_loop(); }).detach();
    std::thread([self] { self->beat_loop(); }).detach();
  }

  std::size_t stop() {
    std::unique_lock lock(mutex);
    stops = true;
    changed.notify_all();
    // The nodes hear of it and answer what waits there, so that no job is given to a connection that is cut.
    if (!changed.wait_for(lock, claim_grace, [&] { return claimers == 0; })) {
      lock.unlock();
      claims_stop.request_stop();
      lock.lock();
      changed.wait(lock, [&] { return claimers == 0; });
    }
    if (!changed.wait_for(lock, options.shutdown_timeout, [&] { return busy == 0; })) {
      hands_back = true;
      for (const auto& work : std::exchange(shelf, {})) {
        work->ended = true;
        --busy;
      }
      for (auto& [name, c] : claims)
        for (const auto& o : c.open)
          if (o->begun && !o->ended) o->stop.request_stop();
      changed.wait_for(lock, handler_grace, [&] { return busy == 0; });
    }
    const std::size_t left = busy;
    hand_back(lock);
    keeper_ends = true;
    changed.notify_all();
    changed.wait(lock, [&] { return other_threads == 0 && threads <= left; });
    return left;
  }

  void hand_back(std::unique_lock<std::mutex>& lock) {
    std::vector<std::pair<std::string, claim>> over;
    for (const auto& [name, c] : claims) {
      const bool done = std::all_of(c.open.begin(), c.open.end(), [](const auto& o) { return o->ended; });
      if (done && std::any_of(c.open.begin(), c.open.end(), [](const auto& o) { return !o->lost; }))
        over.emplace_back(name, c);
    }
    lock.unlock();
    std::uint64_t jobs = 0;
    {
      node_caller nodes(options.addresses, options.calls);
      for (const auto& [name, c] : over) {
        node_call r;
        r.method = "POST";
        r.path = "/v1/leases/" + path_segment(name) + "/release";
        r.body = "{}";
        r.timeout = 3s;
        r.only = c.url;
        const auto answer = nodes.call(r);
        if (!answer || answer->status != 200) continue;
        const auto said = json::parse(answer->body, nullptr, false);
        if (said.is_object() && said.contains("jobs")) jobs += said["jobs"].size();
      }
    }
    lock.lock();
    figures.handed_back += jobs;
    for (const auto& [name, c] : over) claims.erase(name);
  }
};

remote_worker::remote_worker(remote_worker_options options) {
  if (options.name.empty()) {
    static std::atomic<unsigned> number{0};
    options.name = host_name() + "-" + std::to_string(::getpid()) + "-" + std::to_string(++number);
  }
  options.batch = std::clamp<std::size_t>(options.batch, 1, most_jobs);
  engine_ = std::make_shared<engine>(std::move(options));
  engine_->start();
}

remote_worker::~remote_worker() { stop(); }

std::size_t remote_worker::stop() { return engine_->stop(); }

bool remote_worker::stopping() const {
  const std::lock_guard lock(engine_->mutex);
  return engine_->stops;
}

bool remote_worker::wait_for_stop(milliseconds patience) const {
  std::unique_lock lock(engine_->mutex);
  return engine_->changed.wait_for(lock, patience, [&] { return engine_->stops; });
}

remote_worker_figures remote_worker::figures() const {
  const std::lock_guard lock(engine_->mutex);
  return engine_->figures;
}

const std::string& remote_worker::name() const { return engine_->options.name; }

}  // namespace caravan
