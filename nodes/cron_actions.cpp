#include "nodes/cron_actions.hpp"

#include "integration/http_client/http_runner.hpp"
#include "integration/process/exec_runner.hpp"
#include "nodes/http/api_json.hpp"

#include <condition_variable>
#include <mutex>

namespace caravan {

using namespace std::chrono_literals;

namespace {

constexpr auto first_pause = 500ms;
constexpr int push_attempts = 5;

std::vector<std::pair<std::string, std::string>> facts_of(const cron_run& run) {
  return {{"TASK", run.task},
          {"RUN_ID", run.id},
          {"RUN_TOKEN", std::to_string(run.token)},
          {"OCCURRENCE", to_text(run.occurrence)}};
}

/// False: stopped.
bool wait(const std::stop_token& stop, std::chrono::milliseconds time) {
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  never.wait_for(lock, stop, time, [] { return false; });
  return !stop.stop_requested();
}

// A failure may mean that the item was stored: the key of the run makes a repeat harmless.
cron_result push(const config::cron_settings& s, const cron_action_parts& parts, const cron_run& run,
                 const cron_call& call) {
  item_draft draft;
  draft.payload = s.payload;
  draft.options.idempotency_key = run.id;
  draft.options.headers = {{"caravan-run-id", run.id}, {"caravan-run-token", std::to_string(run.token)}};
  auto pause = first_pause;
  for (int attempt = 1;; ++attempt, pause *= 2) {
    auto queue = parts.queue_of(s.queue);
    const auto id = queue ? (*queue)->push_one(draft) : expected<item_id>(queue.failure());
    if (id) return {cron_outcome::finished, "pushed " + to_string(job_id{s.queue, *id})};
    const auto& why = id.failure();
    // Of a unique queue: what is to be done waits already.
    if (why.code == errc::already_in_queue) return {cron_outcome::finished, "an equal item waits already"};
    const bool may_help = why.code == errc::backend_failed || why.code == errc::timed_out ||
                          why.code == errc::queue_full || why.code == errc::fenced;
    if (!may_help || attempt == push_attempts || !wait(call.stop, pause)) return {cron_outcome::error, why.text};
  }
}

cron_result handle(runner& how, const config::cron_settings& s, const cron_action_parts& parts, const cron_run& run,
                   const cron_call& call) {
  record item;
  item.id = {run.token};
  item.payload = http::dump({{"task", run.task},
                             {"run", run.id},
                             {"token", run.token},
                             {"occurrence", to_text(run.occurrence)},
                             {"trigger", to_string(run.trigger)},
                             {"who", run.who}});
  batch work;
  work.queue = "cron." + s.name;
  work.token = run.token;
  work.items = std::make_shared<const std::vector<record>>(1, std::move(item));
  const auto rest = how.run(work, {call.stop, call.deadline, parts.node, facts_of(run)});
  if (rest.empty()) return {};
  const auto& o = rest.front();
  switch (o.what) {
    case item_outcome::kind::handled: return {};
    case item_outcome::kind::unhandled:
      return {call.stop.stop_requested() ? cron_outcome::cancelled : cron_outcome::error,
              call.stop.stop_requested() ? "it was asked to stop" : "it says that it did nothing"};
    case item_outcome::kind::failed:
    case item_outcome::kind::rejected:
    case item_outcome::kind::later:
      break;
  }
  return {cron_outcome::error, o.text};
}

/// HANDLER is what such texts call a queue's.
error renamed(error e, const std::string& key) {
  for (std::size_t at = 0; (at = e.text.find("HANDLER", at)) != std::string::npos; at += key.size())
    e.text.replace(at, 7, key);
  return e;
}

expected<cron_action> made_of(expected<std::unique_ptr<runner>> made, const std::string& key,
                              const config::cron_settings& s, cron_action_parts parts) {
  if (!made) return renamed(made.failure(), key);
  std::shared_ptr<runner> how(std::move(*made));
  const auto text = how->describe();
  return cron_action{[how, key, s, parts = std::move(parts)](const cron_run& run, const cron_call& call) {
                       auto out = handle(*how, s, parts, run, call);
                       out.message = renamed({errc::invalid_argument, std::move(out.message)}, key).text;
                       return out;
                     },
                     text};
}

}  // namespace

std::string to_text(cron_instant at) {
  static const auto utc = schedule::parse("@every 1s", {.zone = "UTC"}).value();
  return utc.format(at);
}

expected<cron_action> make_cron_action(const config::cron_settings& s, cron_action_parts parts) {
  switch (s.action) {
    case config::cron_action::push: {
      const auto item = http::parse_json(s.payload);
      if (!item)
        return error{errc::invalid_argument, "[cron." + s.name + "] PUSH: the item is no JSON: " + item.failure().text +
                                                 "; write for example PUSH = " + s.queue + " {\"to\": \"all\"}"};
      auto canonical = s;
      canonical.payload = item->dump();
      return cron_action{[canonical, parts = std::move(parts)](const cron_run& run, const cron_call& call) {
                           return push(canonical, parts, run, call);
                         },
                         "PUSH " + s.queue};
    }
    case config::cron_action::exec:
      return made_of(make_exec_runner(s.target, {}), "EXEC", s, std::move(parts));
    case config::cron_action::http:
      return made_of(make_http_runner(s.target, {}), "HTTP", s, std::move(parts));
    case config::cron_action::none:
      break;
  }
  return cron_action{};
}

}  // namespace caravan
