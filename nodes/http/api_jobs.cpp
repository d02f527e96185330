#include "config/read_settings.hpp"
#include "config/values.hpp"
#include "nodes/http/api_created.hpp"
#include "nodes/http/api_json.hpp"
#include "nodes/http/api_parts.hpp"
#include "nodes/http/api_push.hpp"
#include "nodes/http/ask.hpp"
#include "nodes/node_runtime.hpp"

#include <limits>

namespace caravan::http {

using namespace std::chrono_literals;

namespace {

using queue_ptr = std::shared_ptr<hosted_queue>;

std::string id_text(const hosted_queue& q, item_id id) { return to_string(job_id{q.name(), id}); }

error about(const hosted_queue& q, const error& e) {
  if (e.text.find("\"" + q.name() + "\"") != std::string::npos || e.text.find(q.name() + ".") != std::string::npos)
    return e;
  return {e.code, "queue \"" + q.name() + "\": " + e.text};
}

// ---- push ----

response one_pushed(const hosted_queue& q, const pushed& p) {
  if (p.stored) return json_response(dump({{"id", id_text(q, p.id)}}), 201);
  if (p.repeated) return json_response(dump({{"id", id_text(q, p.id)}, {"repeated", true}}), 201);
  auto refused =
      problem(error{errc::already_in_queue, "queue \"" + q.name() + "\": an equal item waits already as job " +
                                                id_text(q, p.id) + "; there is nothing to do"});
  auto body = ordered_json::parse(refused.body);
  body["holder"] = id_text(q, p.id);
  refused.body = dump(body);
  return refused;
}

response many_pushed(const hosted_queue& q, const std::vector<pushed>& list) {
  auto jobs = ordered_json::array();
  std::size_t stored = 0;
  for (const auto& p : list) {
    if (p.stored) {
      ++stored;
      jobs.push_back({{"id", id_text(q, p.id)}, {"stored", true}});
    } else if (p.repeated) {
      jobs.push_back({{"id", id_text(q, p.id)}, {"stored", false}, {"repeated", true}});
    } else {
      jobs.push_back({{"stored", false}, {"error", to_string(errc::already_in_queue)}, {"holder", id_text(q, p.id)}});
    }
  }
  return json_response(dump({{"stored", stored}, {"jobs", std::move(jobs)}}), 201);
}

void reply_pushed(const hosted_queue& q, push_form form, const expected<std::vector<pushed>>& done,
                  const responder& answer) {
  if (!done)
    answer.reply(about(q, done.failure()));
  else if (form == push_form::single)
    answer.reply(one_pushed(q, done->front()));
  else
    answer.reply(many_pushed(q, *done));
}

void push_to(const api& a, const queue_ptr& q, const request& r, const responder& answer) {
  const auto now = a.node.clock().wall();
  const push_headers headers{r.header("Content-Type").value_or(""), r.header("Idempotency-Key").value_or(""),
                             r.header("traceparent").value_or("")};
  auto call = read_push(r.body, headers, q->settings().max_item_size, now);
  if (!call) {
    answer.reply(about(*q, call.failure()));
    return;
  }
  const auto form = call->form;
  if (call->items.empty()) {
    answer.reply(many_pushed(*q, {}));
    return;
  }
  const auto actor = q->actor();
  if (!actor) {
    // Its handler runs inside push and may take as long as it likes.
    a.web.post_blocking(answer, [q, form, items = std::move(call->items)](const responder& later) mutable {
      reply_pushed(*q, form, q->push(std::move(items)), later);
    });
    return;
  }
  push_items message;
  message.items.reserve(call->items.size());
  for (auto& d : call->items) message.items.push_back(to_record(std::move(d), now));
  ask(a.node.system(), actor, std::move(message), q->settings().push_timeout + ask_patience,
      [q, form, answer](expected<push_results> done) {
        if (!done) {
          auto e = done.failure();
          if (e.code == errc::timed_out)
            e.text += "; send it again with the same Idempotency-Key, which never stores it twice";
          reply_pushed(*q, form, e, answer);
          return;
        }
        std::vector<pushed> list;
        list.reserve(done->items.size());
        for (const auto& i : done->items) list.push_back({i.id, i.stored, i.repeated});
        reply_pushed(*q, form, list, answer);
      });
}

void push(const api& a, request r, const responder& answer) {
  const std::string name(r.param("queue"));
  if (const auto q = a.node.find(name)) {
    push_to(a, q, r, answer);
  } else if (!a.node.settings().node.auto_create || !config::is_valid_name(name)) {
    if (a.node.settings().node.auto_create)
      answer.reply(error{errc::invalid_argument,
                         "queue \"" + name.substr(0, 128) + "\": a name has 1 to 128 letters, digits, -, _ or ."});
    else
      answer.reply(no_such_queue(a.node, name));
  } else {
    // Opening a storage may wait for a disk, or 10 s for its lock.
    a.web.post_blocking(answer, [a, name, r = std::move(r)](const responder& later) {
      const auto made = a.node.find_or_create(name);
      if (!made) {
        later.reply(made.failure());
        return;
      }
      remember_created(a.node, name);
      push_to(a, *made, r, later);
    });
  }
}

// ---- jobs ----

ordered_json to_json(const hosted_queue& q, const job_status& st) {
  const auto j = to_job_info(st);
  ordered_json out{{"id", id_text(q, j.id)}, {"queue", q.name()}, {"state", j.state}};
  put_payload(out, j.payload);
  out["key"] = j.key;
  out["attempts"] = j.attempts;
  out["max_attempts"] = st.item.max_attempts ? st.item.max_attempts : q.settings().max_attempts;
  out["last_error"] = j.last_error;
  out["pushed_at"] = instant_or_null(j.pushed_at);
  out["due"] = instant_or_null(j.due);
  out["finished_at"] = instant_or_null(j.finished_at);
  auto headers = ordered_json::object();
  for (const auto& [name, value] : j.headers) headers[name] = value;
  out["headers"] = std::move(headers);
  return out;
}

/// One page of a list. The storage knows waiting, delayed and dead rows; what runs, and what was delayed and is due,
/// stands among them.
class listing : public std::enable_shared_from_this<listing> {
public:
  listing(api a, queue_ptr q, responder answer, job_phase wanted, std::size_t limit)
      : a_(a),
        q_(std::move(q)),
        answer_(std::move(answer)),
        wanted_(wanted),
        limit_(limit),
        now_(a.node.clock().wall()) {
    place_.limit = 100;
    if (wanted == job_phase::dead) place_.state = record_state::dead;
    if (wanted == job_phase::delayed) {
      place_.state = record_state::delayed;
      place_.after_due = now_;  // what is due already counts as waiting
      place_.after_id = {std::numeric_limits<std::uint64_t>::max()};
    }
  }

  /// "w.", "d." or "x.", the due time where it counts, and the id.
  bool go_after(std::string_view cursor) {
    if (cursor.size() < 3 || cursor[1] != '.') return false;
    const auto last = cursor.rfind('.');
    const auto id = parse_item_id(cursor.substr(last + 1));
    if (!id) return false;
    place_.after_id = *id;
    const auto due = last > 1 ? config::parse_integer(cursor.substr(2, last - 2)) : std::nullopt;
    switch (cursor[0]) {
      case 'w':
        place_.state = record_state::waiting;
        return wanted_ == job_phase::waiting || wanted_ == job_phase::running;
      case 'x':
        place_.state = record_state::dead;
        return wanted_ == job_phase::dead;
      case 'd':
        if (!due || wanted_ == job_phase::dead) return false;
        place_.state = record_state::delayed;
        place_.after_due = wall_time{std::chrono::milliseconds{*due}};
        return true;
      default:
        return false;
    }
  }

  /// For running jobs, which stand at the head: asks how many there are, so as not to read all that waits behind them.
  void count_first() {
    ask(a_.node.system(), q_->actor(), get_queue_status{}, ask_patience,
        [me = shared_from_this()](expected<queue_status> st) {
          if (!st) return void(me->answer_.reply(about(*me->q_, st.failure())));
          me->expected_ = st->counts.running;
          if (me->expected_ == 0) return me->finish(false);
          me->step();
        });
  }

  void step() {
    if (answer_.client_left()) return;
    ask(a_.node.system(), q_->actor(), place_, ask_patience, [me = shared_from_this()](expected<job_list> page) {
      if (!page)
        me->answer_.reply(about(*me->q_, page.failure()));
      else
        me->take(*page);
    });
  }

private:
  static constexpr std::size_t most_bytes = 8u << 20;  ///< a page of large jobs is shorter

  void take(job_list& page) {
    for (auto& j : page.jobs) {
      if (place_.state == record_state::delayed && wanted_ != job_phase::delayed && j.item.due > now_)
        return finish(false);
      place_.after_due = j.item.due;
      place_.after_id = j.item.id;
      if (j.phase != wanted_) continue;
      bytes_ += j.item.payload.size();
      jobs_.push_back(to_json(*q_, j));
      if (jobs_.size() == limit_ || bytes_ >= most_bytes) return finish(true);
      if (jobs_.size() == expected_) return finish(false);
    }
    // An empty page may have held only items that were handled meanwhile: once more, without them.
    empty_pages_ = page.jobs.empty() ? empty_pages_ + 1 : 0;
    if (empty_pages_ < 2) return step();
    if (place_.state != record_state::waiting) return finish(false);
    place_.state = record_state::delayed;
    place_.after_due = wall_time::min();
    place_.after_id = {};
    empty_pages_ = 0;
    step();
  }

  void finish(bool more) {
    ordered_json body{{"jobs", std::move(jobs_)}, {"next", nullptr}};
    if (more) {
      const auto id = to_string(place_.after_id);
      switch (place_.state) {
        case record_state::waiting:
          body["next"] = "w." + id;
          break;
        case record_state::dead:
          body["next"] = "x." + id;
          break;
        case record_state::delayed:
          body["next"] = "d." + std::to_string(place_.after_due.time_since_epoch().count()) + "." + id;
          break;
      }
    }
    answer_.reply(json_response(dump(body)));
  }

  api a_;
  queue_ptr q_;
  responder answer_;
  job_phase wanted_;
  std::size_t limit_;
  wall_time now_;
  list_jobs place_;
  int empty_pages_ = 0;
  std::size_t bytes_ = 0;                                           ///< of payloads so far
  std::size_t expected_ = std::numeric_limits<std::size_t>::max();  ///< there are no more than these
  ordered_json jobs_ = ordered_json::array();
};

void list(const api& a, const queue_ptr& q, const request& r, const responder& answer) {
  const auto bad = [&](std::string text) { answer.reply(error{errc::invalid_argument, std::move(text)}); };
  const auto state = r.query_value("state").value_or("waiting");
  std::optional<job_phase> wanted;
  for (const auto p : {job_phase::waiting, job_phase::delayed, job_phase::running, job_phase::dead})
    if (to_string(p) == state) wanted = p;
  if (!wanted) return bad("?state= must be waiting, delayed, running or dead");
  const auto limit = config::parse_integer(r.query_value("limit").value_or("100"));
  if (!limit || *limit < 1 || *limit > 1000) return bad("?limit= must be a whole number from 1 to 1000");
  for (const auto& f : r.query.list())
    if (f.name != "state" && f.name != "limit" && f.name != "after")
      return bad("there is no query \"" + f.name + "\"; there are state, limit, after");
  if (!q->actor()) {
    answer.reply(json_response("{\"jobs\":[],\"next\":null}"));  // a dummy queue keeps nothing
    return;
  }
  const auto page = std::make_shared<listing>(a, q, answer, *wanted, static_cast<std::size_t>(*limit));
  const auto after = r.query_value("after");
  if (after && !page->go_after(*after))
    return bad("?after= must be the \"next\" of an earlier answer for the same state");
  if (*wanted == job_phase::running && !after)
    page->count_first();
  else
    page->step();
}

/// Finds the queue of the job that the path names.
using job_handler = void (*)(const api&, const queue_ptr&, item_id, const responder&);
handler on_job(api a, job_handler h) {
  return [a, h](const request& r, const responder& answer) {
    const auto text = r.param("id");
    const auto id = parse_job_id(text);
    if (!id) {
      answer.reply(error{errc::invalid_argument, "\"" + std::string(text.substr(0, 200)) +
                                                     "\" is no job's id; it looks like mail.01hq3k5v2x8rt"});
      return;
    }
    const auto q = a.node.find(id->queue);
    if (!q)
      answer.reply(no_such_queue(a.node, id->queue));
    else if (!q->actor())
      answer.reply(error{errc::not_found, "job " + to_string(*id) + ": a dummy queue keeps nothing"});
    else
      h(a, q, id->item, answer);
  };
}

void show(const api& a, const queue_ptr& q, item_id id, const responder& answer) {
  ask(a.node.system(), q->actor(), find_job{id}, ask_patience, [q, answer](expected<job_status> st) {
    if (st)
      answer.reply(json_response(dump(to_json(*q, *st))));
    else
      answer.reply(about(*q, st.failure()));
  });
}

void change(const api& a, const queue_ptr& q, item_id id, job_change what, const responder& answer) {
  ask(a.node.system(), q->actor(), change_job{id, what}, ask_patience, [q, id, what, answer](expected<ack> done) {
    if (done)
      answer.reply(
          json_response(dump({{"id", id_text(*q, id)}, {"done", what == job_change::retry ? "retry" : "delete"}})));
    else
      answer.reply(about(*q, done.failure()));
  });
}

}  // namespace

void add_job_routes(api a) {
  change_route(a, "POST", "/v1/queues/{queue}/jobs", role::push,
               [a](request r, const responder& answer) { push(a, std::move(r), answer); });
  a.web.route(
      "GET", "/v1/queues/{queue}/jobs", role::read,
      on_queue(a, [a](const queue_ptr& q, const request& r, const responder& answer) { list(a, q, r, answer); }));
  a.web.route("GET", "/v1/jobs/{id}", role::read, on_job(a, show));
  change_route(a, "POST", "/v1/jobs/{id}/retry", role::admin,
               on_job(a, [](const api& x, const queue_ptr& q, item_id id, const responder& answer) {
                 change(x, q, id, job_change::retry, answer);
               }));
  change_route(a, "DELETE", "/v1/jobs/{id}", role::admin,
               on_job(a, [](const api& x, const queue_ptr& q, item_id id, const responder& answer) {
                 change(x, q, id, job_change::remove, answer);
               }));
}

}  // namespace caravan::http
