#include "actors/queue/queue_events.hpp"

#include "messages/record_more.hpp"

#include <nlohmann/json.hpp>

#include <utility>

namespace caravan {

namespace {

using json = nlohmann::ordered_json;

std::string text_of(const json& body) { return body.dump(-1, ' ', false, json::error_handler_t::replace); }

event_topic topic_of(queue_phase p) {
  switch (p) {
    case queue_phase::running:
      return event_topic::queue_resumed;
    case queue_phase::paused:
      return event_topic::queue_paused;
    case queue_phase::draining:
      return event_topic::queue_draining;
    case queue_phase::stopping:
    case queue_phase::stopped:
    case queue_phase::standby:
      break;
  }
  return event_topic::queue_stopped;
}

}  // namespace

void queue_events::pushed(const std::vector<record>& items) const {
  if (!wants(event_topic::job_pushed)) return;
  for (const auto& r : items)
    to_->tell(event_topic::job_pushed, queue_, text_of({{"job", to_string(job_id{queue_, r.id})}}));
}

void queue_events::handled(const queue_effects& fx) const {
  if (!wants(event_topic::job_handled)) return;
  const auto tell = [&](item_id id) {
    to_->tell(event_topic::job_handled, queue_, text_of({{"job", to_string(job_id{queue_, id})}}));
  };
  for (const auto& r : fx.erase)
    if (r.state != record_state::done) tell(r.id);  // one of those was kept, and its time is over
  for (const auto& m : fx.move)
    if (m.to.state == record_state::done && !more_of(m.to).cancelled) tell(m.to.id);
}

void queue_events::decided(const queue_effects& fx, const queue_core& core, const std::string& paused_by) {
  if (!to_) return;
  if (!fx.move.empty()) {
    const auto failed = core.counts().totals.failed;
    const bool some_failed = failed != failed_ && wants(event_topic::job_failed);
    failed_ = failed;
    for (const auto& m : fx.move) {
      const bool dead = m.to.state == record_state::dead;
      if (!dead && !(some_failed && (m.to.state == record_state::delayed || m.to.state == record_state::keyed))) continue;
      json body{{"job", to_string(job_id{queue_, m.to.id})}, {"attempts", m.to.attempts}, {"error", m.to.last_error}};
      if (!dead) body["due_ms"] = m.to.due.time_since_epoch().count();
      to_->tell(dead ? event_topic::job_dead : event_topic::job_failed, queue_, text_of(body));
    }
  }
  const auto phase = core.phase();
  if (phase == phase_ || phase == queue_phase::standby) return;
  const auto before = std::exchange(phase_, phase);
  // Else its node stops, or another one takes it over: nothing ends for the queue.
  if (phase == queue_phase::stopping || (phase == queue_phase::stopped && before != queue_phase::draining)) return;
  json body = json::object();
  if (phase == queue_phase::paused) {
    body["by"] = paused_by;
    const auto until = core.paused_until().time_since_epoch().count();
    body["until_ms"] = until == 0 ? json(nullptr) : json(until);
  }
  to_->tell(topic_of(phase), queue_, text_of(body));
}

void queue_events::purged(record_state state, std::uint64_t count) const {
  if (wants(event_topic::queue_purged))
    to_->tell(event_topic::queue_purged, queue_, text_of({{"state", std::string(name_of(state))}, {"count", count}}));
}

void queue_events::changed(item_id job, bool retried) const {
  const auto t = retried ? event_topic::job_retried : event_topic::job_deleted;
  if (wants(t)) to_->tell(t, queue_, text_of({{"job", to_string(job_id{queue_, job})}}));
}

void queue_events::trouble(const std::string& text) const {
  const auto t = text.empty() ? event_topic::queue_recovered : event_topic::queue_trouble;
  if (wants(t)) to_->tell(t, queue_, text.empty() ? "{}" : text_of({{"text", text}}));
}

}  // namespace caravan
