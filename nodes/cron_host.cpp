#include "nodes/cron_host.hpp"

#include "config/read_cron.hpp"
#include "config/values.hpp"
#include "integration/leveldb/level_cron_store.hpp"
#include "integration/memory/memory_cron_store.hpp"
#include "integration/redis/redis_cron_store.hpp"
#include "messages/caf_error.hpp"
#include "nodes/cron_maintenance.hpp"
#include "nodes/foreign_thread.hpp"
#include "nodes/node_runtime.hpp"

#include <caf/all.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <optional>
#include <random>
#include <set>

namespace caravan {

using namespace std::chrono_literals;

namespace {

constexpr auto patience = 10'000ms;

std::chrono::sys_seconds seconds_of(const toolbox::clock& clock) {
  return std::chrono::floor<std::chrono::seconds>(clock.wall());
}

std::uint64_t random_number() {
  std::random_device random;
  return static_cast<std::uint64_t>(random()) << 32 | random();
}

error about(const std::string& task, const error& e) {
  if (e.text.starts_with("task \"")) return e;
  return {e.code, "task \"" + task.substr(0, 80) + "\": " + e.text};
}

expected<task_settings> own_settings(const config::own_keys& own, const std::vector<task_key>& keys) {
  task_settings out;
  for (const auto& k : keys) {
    const auto take = [&](auto value) -> expected<void> {
      if (!value) return value.failure();
      out.set(k.name, std::move(*value));
      return {};
    };
    const auto ok = std::visit(
        [&]<class T>(const T& fallback) -> expected<void> {
          if constexpr (std::is_same_v<T, std::string>) {
            out.set(k.name, own.text(k.name, fallback));
            return {};
          } else if constexpr (std::is_same_v<T, bool>) {
            return take(own.boolean(k.name, fallback));
          } else if constexpr (std::is_same_v<T, std::int64_t>) {
            return take(own.integer(k.name, fallback));
          } else {
            return take(own.duration(k.name, fallback));
          }
        },
        k.fallback);
    if (!ok) return ok.failure();
  }
  return out;
}

cron_function call_of(task_function function, task_settings settings) {
  return [function = std::move(function), settings = std::move(settings)](const cron_run& run, const cron_call& call) {
    const auto done =
        function({run.task, run.id, run.token, run.occurrence, to_string(run.trigger), run.who, call.stop, settings});
    return done ? cron_result{cron_outcome::finished, *done} : cron_result{cron_outcome::error, done.failure().text};
  };
}

std::optional<schedule> parsed(const std::string& text, const schedule_options& options,
                               std::optional<error>& failure) {
  if (text.empty()) return std::nullopt;
  auto made = schedule::parse(text, options);
  if (made) return *made;
  failure = made.failure();
  return std::nullopt;
}

node_log::fields fields_of(const cron_record& r) {
  node_log::fields out{{"task", r.task}, {"occurrence", to_text(r.occurrence)}};
  if (r.miss == cron_miss::none) {
    out.emplace_back("token", std::to_string(r.token));
    out.emplace_back("trigger", to_string(r.trigger));
    if (!r.message.empty()) out.emplace_back("message", r.message);
  } else {
    out.emplace_back("until", to_text(r.until));
    out.emplace_back("count", std::to_string(r.count));
  }
  if (!r.who.empty()) out.emplace_back("who", r.who);
  return out;
}

std::string run_body(std::uint64_t token, cron_trigger trigger, const std::string& who, nlohmann::ordered_json more) {
  nlohmann::ordered_json body{{"token", token}, {"trigger", to_string(trigger)}, {"who", who}};
  body.update(more);
  return body.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace

/// What the actor tells, on its thread.
struct cron_host::sinks {
  node_log* log = nullptr;
  std::shared_ptr<event_sink> events;
  std::mutex mutex;
  std::function<void(const task_notice&)> function;

  void notice(const cron_notice& n) {
    if (n.failure)
      log->warn("cron", n.text, {{"task", n.task}});
    else
      log->info("cron", n.text, {{"task", n.task}});
    const std::lock_guard lock(mutex);
    if (function) function({n.task, n.failure, n.text});
  }
  void started(const cron_run& r) const {
    if (events) events->tell(event_topic::cron_started, r.task, run_body(r.token, r.trigger, r.who, {{"run", r.id}}));
  }
  void tell(const cron_record& r) const {
    if (!events) return;
    if (r.miss != cron_miss::none) {
      nlohmann::ordered_json body{{"reason", to_string(r.miss)},
                                  {"occurrence", to_text(r.occurrence)},
                                  {"until", to_text(r.until)},
                                  {"count", r.count}};
      events->tell(event_topic::cron_missed, r.task, body.dump());
      return;
    }
    const bool good = r.outcome == cron_outcome::finished;
    events->tell(good ? event_topic::cron_finished : event_topic::cron_failed, r.task,
                 run_body(r.token, r.trigger, r.who,
                          {{"outcome", to_string(r.outcome)},
                           {"message", r.message},
                           {"ms", std::chrono::duration_cast<std::chrono::milliseconds>(r.ended - r.started).count()}}));
  }
  void record(const cron_record& r) const {
    tell(r);
    switch (r.miss) {
      case cron_miss::none:
        return log->debug("cron", "ran: " + std::string(to_string(r.outcome)), fields_of(r));
      case cron_miss::skipped:
      case cron_miss::overlap:
        return log->info("cron", "missed: " + std::string(to_string(r.miss)), fields_of(r));
      case cron_miss::no_node:
      case cron_miss::lost:
        return log->warn("cron", "missed: " + std::string(to_string(r.miss)), fields_of(r));
    }
  }
};

cron_host::cron_host(cron_host_parts parts)
    : parts_(std::move(parts)), sinks_(std::make_shared<sinks>()), passive_({.node = {parts_.node, 0}}) {
  sinks_->log = parts_.log;
  sinks_->events = parts_.events;
}

cron_host::~cron_host() { stop(); }

// ---- what there is to do ----

expected<add_cron_task> cron_host::make(const std::string& name, const task_options& options, task_function function,
                                        bool built_in) const {
  if (name == "preview")
    return error{errc::invalid_argument, "task \"preview\": the API uses this name itself; take another one"};
  auto s = config::read_cron_settings(*parts_.configuration, name, seconds_of(*parts_.clock));
  if (!s) return about(name, s.failure());
  if (function && s->action != config::cron_action::none)
    return error{errc::invalid_argument, "task \"" + name + "\": it is a function" +
                                             (built_in ? " of this program" : "") + ", and [cron." + name +
                                             "] sets PUSH, EXEC or HTTP; remove one of them"};
  const auto section = "cron." + name;
  // [cron] ENABLED must not start what nobody asked for.
  if (built_in)
    s->enabled = s->enabled && parts_.configuration->find(section, "ENABLED", config::lookup::strict) != nullptr;
  add_cron_task out;
  out.task.name = name;
  out.task.description = parts_.configuration->find(section, "DESCRIPTION") ? s->description : options.description;
  if (out.task.description.empty()) out.task.description = s->description;
  std::optional<error> failure;
  const bool own = !s->schedule.empty();
  const auto zone = s->time_zone.empty() ? options.zone : s->time_zone;
  out.task.when =
      parsed(own ? s->schedule : options.schedule, {own ? s->dialect : options.dialect, zone, name}, failure);
  if (failure) return about(name, *failure);
  for (const auto& k : options.keys) out.task.keys.push_back(k.name);
  out.work.timeout = s->timeout;
  if (function) {
    auto settings = own_settings(s->own, options.keys);
    if (!settings) return about(name, settings.failure());
    out.work.function = call_of(std::move(function), std::move(*settings));
    out.work.bounded = built_in;
    out.action = built_in ? "built-in" : "C++ function";
  } else {
    auto made = make_cron_action(*s, {parts_.node, parts_.queue_of});
    if (!made) return about(name, made.failure());
    out.work.function = std::move(made->function);
    out.work.bounded = true;
    out.action = std::move(made->text);
  }
  out.task.settings = std::move(*s);
  return out;
}

expected<void> cron_host::register_built_in() {
  for (auto& t : maintenance_tasks({parts_.system, parts_.clock, parts_.queues})) {
    auto made = make(t.name, t.options, std::move(t.function), true);
    if (!made) return made.failure();
    cron_effects none;
    if (auto ok = passive_.add(made->task, parts_.clock->wall(), none); !ok) return ok;
    tasks_.push_back(std::move(*made));
  }
  return {};
}

expected<void> cron_host::register_sections() {
  for (const auto& name : config::cron_names(*parts_.configuration)) {
    if (std::any_of(tasks_.begin(), tasks_.end(), [&](const auto& t) { return t.task.name == name; })) continue;
    const auto s = config::read_cron_settings(*parts_.configuration, name, seconds_of(*parts_.clock));
    if (!s) return s.failure();
    if (s->action == config::cron_action::none) continue;  // of a function that the application may add
    auto made = make(name, {}, nullptr, false);
    if (!made) return made.failure();
    cron_effects none;
    if (auto ok = passive_.add(made->task, parts_.clock->wall(), none); !ok) return ok;
    tasks_.push_back(std::move(*made));
  }
  return {};
}

expected<void> cron_host::begin() {
  const std::lock_guard lock(mutex_);
  if (auto ok = register_built_in(); !ok) return ok;
  const auto built_in = tasks_.size();
  if (auto ok = register_sections(); !ok) return ok;
  const auto names = config::cron_names(*parts_.configuration);
  const bool any = tasks_.size() > built_in || std::any_of(tasks_.begin(), tasks_.end(), [&](const auto& t) {
                     return std::find(names.begin(), names.end(), t.task.name) != names.end();
                   });
  if (!any) return {};
  return activate();
}

std::vector<std::string> cron_host::without_function() const {
  const std::lock_guard lock(mutex_);
  auto names = config::cron_names(*parts_.configuration);
  std::erase_if(names, [&](const auto& n) {
    return std::any_of(tasks_.begin(), tasks_.end(), [&](const auto& t) { return t.task.name == n; });
  });
  return names;
}

// ---- life ----

expected<std::shared_ptr<cron_store>> cron_host::open_store() {
  const auto type = config::read_cron_store(*parts_.configuration);
  if (!type) return type.failure();
  const bool use_redis =
      *type == config::cron_store_type::redis || (*type == config::cron_store_type::automatic && !parts_.redis.empty());
  if (use_redis) {
    if (parts_.redis.empty())
      return error{errc::invalid_argument, "[cron] STORE = redis: no Redis is named; set CONN_STR in [redis]"};
    const auto address = config::parse_redis_address(parts_.redis);
    if (!address) return address.failure();
    auto client = std::make_shared<redis_client>(redis_cron_options(*address));
    // A Redis that does not answer now may do so later: then nothing runs until it does.
    if (const auto warnings = client->check(1); !warnings) {
      if (warnings.failure().code != errc::backend_failed) return warnings.failure();
      parts_.log->warn("cron", warnings.failure().text + "; no task runs until it answers");
    } else {
      for (const auto& w : *warnings) parts_.log->warn("redis", w);
    }
    shared_ = true;
    return std::shared_ptr<cron_store>(std::make_shared<redis_cron_store>(std::move(client)));
  }
  if (*type == config::cron_store_type::memory)
    return std::shared_ptr<cron_store>(std::make_shared<memory_cron_store>());
  auto opened = level_cron_store::in_folder({parts_.data_dir + "/cron", {}});
  if (!opened) return opened.failure();
  return std::shared_ptr<cron_store>(std::move(*opened));
}

expected<void> cron_host::activate() {
  if (stopped_) return {errc::queue_closed, "this node is stopping; ask another one"};
  if (actor_) return {};
  auto store = open_store();
  if (!store) return store.failure();
  const foreign_thread here;
  runs_ = std::make_shared<cron_threads>();
  store_ = parts_.system->spawn<caf::detached>(cron_store_behavior, std::move(*store), health_, parts_.clock);
  cron_parts p;
  p.options.node = {parts_.node, random_number()};
  p.options.shared_store = shared_;
  p.store = store_;
  p.runs = runs_;
  p.clock = parts_.clock;
  p.tasks = tasks_;
  p.notice = [s = sinks_](const cron_notice& n) { s->notice(n); };
  p.record = [s = sinks_](const cron_record& r) { s->record(r); };
  p.started = [s = sinks_](const cron_run& r) { s->started(r); };
  actor_ = parts_.system->spawn(cron_behavior, std::move(p));
  return {};
}

bool cron_host::active() const {
  const std::lock_guard lock(mutex_);
  return static_cast<bool>(actor_);
}

std::string cron_host::trouble_text() const {
  auto text = health_->text();
  return text.empty() ? text : "cron: " + text;
}

std::size_t cron_host::stop() {
  local_cron_actor actor;
  cron_store_actor store;
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    actor = std::exchange(actor_, nullptr);
    store = std::exchange(store_, nullptr);
  }
  if (!actor) return 0;
  const foreign_thread here;
  {
    caf::scoped_actor self{*parts_.system};
    self->request(actor, caf::timespan(stop_patience + patience), stop_cron{stop_patience})
        .receive([](ack) {}, [&](caf::error& e) { parts_.log->error("cron", from_caf(e).text); });
  }
  const auto left = runs_->close();
  caf::anon_send_exit(actor, caf::exit_reason::user_shutdown);
  caf::anon_send_exit(store, caf::exit_reason::user_shutdown);
  on_notice(nullptr);
  return left;
}

// ---- calls ----

template <class Reply, class Message>
expected<Reply> cron_host::ask(Message message, std::chrono::milliseconds longest) {
  local_cron_actor actor;
  {
    const std::lock_guard lock(mutex_);
    actor = actor_;
  }
  if (!actor) return error{errc::queue_closed, "this node is stopping; ask another one"};
  const foreign_thread here;
  caf::scoped_actor self{*parts_.system};
  std::optional<expected<Reply>> out;
  self->request(actor, caf::timespan(longest), std::move(message))
      .receive([&](Reply& r) { out.emplace(std::move(r)); }, [&](caf::error& e) { out.emplace(from_caf(e)); });
  return std::move(*out);
}

expected<void> cron_host::add(const std::string& name, task_options options, task_function function) {
  if (!function) return {errc::invalid_argument, "task \"" + name.substr(0, 80) + "\": it has no function"};
  std::optional<expected<add_cron_task>> made;
  {
    const std::lock_guard lock(mutex_);
    // The configuration goes with the node.
    if (stopped_) return {errc::queue_closed, "this node is stopping; ask another one"};
    made.emplace(make(name, options, std::move(function), false));
    if (!*made) return made->failure();
    cron_core tried = passive_;
    cron_effects none;
    if (auto ok = tried.add((*made)->task, parts_.clock->wall(), none); !ok) return ok;
    if (auto ok = activate(); !ok) return about(name, ok.failure());
    passive_ = std::move(tried);
    tasks_.push_back(**made);
  }
  const auto done = ask<ack>(std::move(**made), patience);
  if (!done) return done.failure();
  return {};
}

expected<std::vector<task_info>> cron_host::list() {
  {
    const std::lock_guard lock(mutex_);
    if (stopped_) return error{errc::queue_closed, "this node is stopping; ask another one"};
    if (!actor_) {
      std::vector<task_info> out;
      for (const auto& s : passive_.list(parts_.clock->wall())) {
        const auto at =
            std::find_if(tasks_.begin(), tasks_.end(), [&](const auto& t) { return t.task.name == s.name; });
        out.push_back(to_task_info(s, at == tasks_.end() ? std::string() : at->action));
      }
      return out;
    }
  }
  auto answer = ask<cron_list>(get_cron_list{}, patience);
  if (!answer) return answer.failure();
  return std::move(answer->tasks);
}

expected<task_info> cron_host::find(const std::string& task) {
  auto all = list();
  if (!all) return all.failure();
  std::vector<std::string_view> names;
  for (auto& t : *all) {
    if (t.name == task) return std::move(t);
    names.push_back(t.name);
  }
  const auto near = config::nearest(task, names);
  return error{errc::not_found, "task \"" + task.substr(0, 80) + "\": there is none of this name" +
                                    (near.empty() ? "" : "; did you mean " + std::string(near) + "?")};
}

expected<std::vector<task_event>> cron_host::history(const std::string& task) {
  if (auto there = find(task); !there) return there.failure();
  if (!active()) return std::vector<task_event>();
  auto answer = ask<cron_history>(get_cron_history{task}, patience);
  if (!answer) return answer.failure();
  return std::move(answer->events);
}

expected<void> cron_host::change(const std::string& task, cron_change what, const std::string& who) {
  if (auto there = find(task); !there) return there.failure();
  {
    const std::lock_guard lock(mutex_);
    if (auto ok = activate(); !ok) return ok;
  }
  const auto done = ask<ack>(change_cron{task, what, who}, patience);
  if (!done) return about(task, done.failure());
  return {};
}

expected<void> cron_host::run(const std::string& task, const std::string& who) {
  return change(task, cron_change::run, who);
}
expected<void> cron_host::skip_next(const std::string& task, const std::string& who) {
  return change(task, cron_change::skip_next, who);
}
expected<void> cron_host::pause(const std::string& task, const std::string& who) {
  return change(task, cron_change::pause, who);
}
expected<void> cron_host::resume(const std::string& task, const std::string& who) {
  return change(task, cron_change::resume, who);
}

void cron_host::on_notice(std::function<void(const task_notice&)> function) {
  const std::lock_guard lock(sinks_->mutex);
  sinks_->function = std::move(function);
}

config::problems check_tasks(const config::ini& from) {
  config::problems found;
  config::problems others;  // told by config::check
  for (const auto& s : config::read_cron(from, seconds_of(toolbox::real_clock::shared()), others)) {
    if (config::has_errors(others)) break;
    const auto made = make_cron_action(s, {});
    if (made) continue;
    const auto* key = s.action == config::cron_action::push   ? "PUSH"
                      : s.action == config::cron_action::exec ? "EXEC"
                                                              : "HTTP";
    const auto own = from.locate("cron." + s.name, key);
    config::report(
        found, {config::severity::error, own.what ? own.what->where : config::origin{}, "[cron." + s.name + "] " + key,
                made.failure().text, "if it holds ; or #, which begin a comment, put the value in backquotes"});
  }
  return found;
}

}  // namespace caravan
