#include "config/read_settings.hpp"
#include "config/values.hpp"
#include "messages/record_more.hpp"
#include "nodes/http/api_created.hpp"
#include "nodes/http/api_json.hpp"
#include "nodes/http/api_parts.hpp"
#include "nodes/http/api_push.hpp"
#include "nodes/http/ask.hpp"
#include "nodes/node_runtime.hpp"

#include <array>
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
  for (const auto& d : call->items) {
    if (const auto ok = check_options(d.options, q->name()); !ok) {
      answer.reply(ok.failure());
      return;
    }
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
  const auto more = more_of(st.item);
  auto errors = ordered_json::array();
  for (const auto& e : more.errors)
    errors.push_back({{"attempt", e.attempt}, {"at", instant_or_null(system_time{e.at.time_since_epoch()})}, {"text", e.text}});
  out["errors"] = std::move(errors);
  out["priority"] = j.priority;
  out["order_by"] = j.order_by;
  out["retry"] = more.retry.empty() ? config::to_string(q.settings().retry) : more.retry;
  out["cancel_asked"] = more.cancelled && st.phase != job_phase::cancelled;
  if (!j.result.empty()) {
    const auto result = parse_json(j.result);
    out["result"] = result ? ordered_json(*result) : ordered_json(j.result);
  }
  out["deadline"] = instant_or_null(j.deadline);
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
    place_.state = record_state::ranked;  // the first of the lines
    if (wanted == job_phase::dead) place_.state = record_state::dead;
    if (wanted == job_phase::handled) place_.state = record_state::done;
    if (wanted == job_phase::delayed) {
      place_.state = record_state::delayed;
      place_.after_sort = now_;  // what is due already counts as waiting
      place_.after_id = {std::numeric_limits<std::uint64_t>::max()};
    }
  }

  /// A letter for the state, the sort value where it counts, and the id.
  bool go_after(std::string_view cursor) {
    if (cursor.size() < 3 || cursor[1] != '.') return false;
    const auto last = cursor.rfind('.');
    const auto id = parse_item_id(cursor.substr(last + 1));
    if (!id) return false;
    place_.after_id = *id;
    const auto sort = last > 1 ? config::parse_integer(cursor.substr(2, last - 2)) : std::nullopt;
    const auto at = letters.find(cursor[0]);
    if (at == letters.npos) return false;
    place_.state = static_cast<record_state>(at);
    if (is_sorted(place_.state) != sort.has_value()) return false;
    if (sort) place_.after_sort = wall_time{std::chrono::milliseconds{*sort}};
    if (wanted_ == job_phase::dead) return place_.state == record_state::dead;
    if (wanted_ == job_phase::handled) return place_.state == record_state::done;
    if (place_.state == record_state::delayed) return true;
    return wanted_ != job_phase::delayed && is_in_line(place_.state);
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
  static constexpr std::string_view letters = "wdxrfhk";  ///< of the states, by number
  static constexpr std::size_t most_bytes = 8u << 20;  ///< a page of large jobs is shorter

  void take(job_list& page) {
    for (auto& j : page.jobs) {
      if (place_.state == record_state::delayed && wanted_ != job_phase::delayed && j.item.due > now_)
        return finish(false);
      place_.after_sort = sort_of(j.item);
      place_.after_id = j.item.id;
      const bool ended = wanted_ == job_phase::handled && j.phase == job_phase::cancelled;
      if (j.phase != wanted_ && !ended) continue;
      bytes_ += j.item.payload.size();
      jobs_.push_back(to_json(*q_, j));
      if (jobs_.size() == limit_ || bytes_ >= most_bytes) return finish(true);
      if (jobs_.size() == expected_) return finish(false);
    }
    // An empty page may have held only items that were handled meanwhile: once more, without them.
    empty_pages_ = page.jobs.empty() ? empty_pages_ + 1 : 0;
    if (empty_pages_ < 2) return step();
    // The lines one after another, then what was delayed and is due.
    switch (place_.state) {
      case record_state::ranked: place_.state = record_state::waiting; break;
      case record_state::waiting: place_.state = record_state::keyed; break;
      case record_state::keyed: place_.state = record_state::delayed; break;
      default: return finish(false);
    }
    place_.after_sort = wall_time::min();
    place_.after_id = {};
    empty_pages_ = 0;
    step();
  }

  void finish(bool more) {
    ordered_json body{{"jobs", std::move(jobs_)}, {"next", nullptr}};
    if (more) {
      std::string next{letters[static_cast<std::size_t>(place_.state)], '.'};
      if (is_sorted(place_.state)) next += std::to_string(place_.after_sort.time_since_epoch().count()) + ".";
      body["next"] = next + to_string(place_.after_id);
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
  if (state == "done") wanted = job_phase::handled;
  if (!wanted) return bad("?state= must be waiting, delayed, running, dead or done");
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

std::string_view name_of(job_change what) {
  switch (what) {
    case job_change::retry: return "retry";
    case job_change::remove: return "delete";
    case job_change::cancel: break;
  }
  return "cancel";
}

/// All jobs of a state that match, one part after another, so that nobody waits behind a million of them.
class bulk : public std::enable_shared_from_this<bulk> {
public:
  bulk(api a, queue_ptr q, responder answer, change_jobs what) : a_(a), q_(std::move(q)), answer_(std::move(answer)), next_(std::move(what)) {}

  void step() {
    ask(a_.node.system(), q_->actor(), next_, ask_patience, [me = shared_from_this()](expected<jobs_changed> part) {
      if (!part) return void(me->answer_.reply(about(*me->q_, part.failure())));
      me->seen_ += part->seen;
      me->matched_ += part->matched;
      me->changed_ += part->changed;
      me->next_.after_sort = part->after_sort;
      me->next_.after_id = part->after_id;
      if (part->more && me->seen_ < most_rows && !me->answer_.client_left()) return me->step();
      me->finish(part->more);
    });
  }

private:
  static constexpr std::uint64_t most_rows = 20'000;  ///< of one request; the answer says where to go on

  void finish(bool more) {
    ordered_json body{{"seen", seen_}, {"matched", matched_}, {"changed", changed_}, {"next", nullptr}};
    if (more) body["next"] = std::to_string(next_.after_sort.time_since_epoch().count()) + "." + to_string(next_.after_id);
    answer_.reply(json_response(dump(body)));
  }

  api a_;
  queue_ptr q_;
  responder answer_;
  change_jobs next_;
  std::uint64_t seen_ = 0;
  std::uint64_t matched_ = 0;
  std::uint64_t changed_ = 0;
};

void change_all(const api& a, const queue_ptr& q, job_change what, const request& r, const responder& answer) {
  const auto body = read_body(r.body);
  if (!body) return void(answer.reply(body.failure()));
  object_reader in(*body, "the request");
  change_jobs c;
  c.what = what;
  const auto state = in.text("state").value_or("dead");
  if (state == "delayed")
    c.state = record_state::delayed;
  else if (state == "done")
    c.state = record_state::done;
  else if (state != "dead")
    in.complain("\"state\" must be \"dead\", \"delayed\" or \"done\"");
  c.filter.error = in.text("error").value_or("");
  c.filter.key = in.text("key").value_or("");
  if (const auto age = in.duration("older_than")) c.filter.pushed_before = a.node.clock().wall() - *age;
  if (const auto p = in.whole_number("priority", -100, 100))
    c.filter.priority_least = c.filter.priority_most = static_cast<std::int32_t>(*p);
  if (const auto* dry = in.any("dry_run"); dry && !dry->is_null()) {
    if (!dry->is_boolean())
      in.complain("\"dry_run\" must be true or false");
    else
      c.count_only = dry->get<bool>();
  }
  if (const auto after = in.text("after")) {
    const auto dot = after->rfind('.');
    const auto sort = config::parse_integer(std::string_view(*after).substr(0, dot));
    const auto id = dot == std::string::npos ? std::nullopt : parse_item_id(std::string_view(*after).substr(dot + 1));
    if (!sort || !id)
      in.complain("\"after\" must be the \"next\" of an earlier answer");
    else
      c.after_sort = wall_time{std::chrono::milliseconds{*sort}}, c.after_id = *id;
  }
  constexpr std::array<std::string_view, 7> known{"state", "error", "key", "older_than", "priority", "dry_run", "after"};
  if (const auto ok = in.done(known); !ok) return void(answer.reply(ok.failure()));
  if (!q->actor()) return void(answer.reply(error{errc::not_supported, "queue \"" + q->name() + "\": a dummy queue keeps nothing"}));
  // What was there when it was asked.
  c.through = first_id_at(a.node.clock().wall());
  std::make_shared<bulk>(a, q, answer, std::move(c))->step();
}

void change(const api& a, const queue_ptr& q, item_id id, job_change what, const responder& answer) {
  ask(a.node.system(), q->actor(), change_job{id, what}, ask_patience, [q, id, what, answer](expected<ack> done) {
    if (done)
      answer.reply(
          json_response(dump({{"id", id_text(*q, id)}, {"done", name_of(what)}})));
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
  change_route(a, "POST", "/v1/jobs/{id}/cancel", role::admin,
               on_job(a, [](const api& x, const queue_ptr& q, item_id id, const responder& answer) {
                 change(x, q, id, job_change::cancel, answer);
               }));
  for (const auto what : {job_change::retry, job_change::remove})
    change_route(a, "POST", "/v1/queues/{queue}/jobs/" + std::string(name_of(what)), role::admin,
                 on_queue(a, [a, what](const queue_ptr& q, const request& r, const responder& answer) {
                   change_all(a, q, what, r, answer);
                 }));
  change_route(a, "DELETE", "/v1/jobs/{id}", role::admin,
               on_job(a, [](const api& x, const queue_ptr& q, item_id id, const responder& answer) {
                 change(x, q, id, job_change::remove, answer);
               }));
}

}  // namespace caravan::http
