#include "messages/job_phases.hpp"

#include "messages/record_more.hpp"

#include <utility>

namespace caravan {

job_phase phase_of(const record& r, wall_time now) {
  switch (r.state) {
    case record_state::waiting:
    case record_state::ranked: return job_phase::waiting;
    case record_state::delayed:
    case record_state::keyed: return r.due > now ? job_phase::delayed : job_phase::waiting;
    case record_state::held: return job_phase::delayed;
    case record_state::dead: return job_phase::dead;
    case record_state::done: break;
  }
  return more_of(r).cancelled ? job_phase::cancelled : job_phase::handled;
}

job_phase phase_of(finished_item::kind how) {
  switch (how) {
    case finished_item::kind::handled: return job_phase::handled;
    case finished_item::kind::removed: return job_phase::removed;
    case finished_item::kind::purged: return job_phase::purged;
    case finished_item::kind::cancelled: break;
  }
  return job_phase::cancelled;
}

job_status status_of(record&& row, bool running, wall_time now) {
  job_status st;
  const bool ended = row.state == record_state::dead || row.state == record_state::done;
  st.phase = running && !ended ? job_phase::running : phase_of(row, now);
  if (row.state == record_state::done) st.finished_at = more_of(row).finished_at;
  st.item = std::move(row);
  return st;
}

job_status status_of(const finished_item& ended) {
  job_status st;
  st.item.id = ended.id;
  st.item.attempts = ended.attempts;
  st.finished_at = ended.at;
  st.phase = phase_of(ended.what);
  return st;
}

error no_such_job(const std::string& queue, item_id id) {
  return {errc::not_found, "job " + to_string(job_id{queue, id}) +
                             ": is not here; it was handled or removed a while ago, or never existed"};
}

}  // namespace caravan
