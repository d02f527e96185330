#include "config/read_settings.hpp"
#include "nodes/http/api_json.hpp"
#include "nodes/http/api_parts.hpp"
#include "nodes/http/ask.hpp"
#include "nodes/node_runtime.hpp"

#include <array>
#include <atomic>
#include <limits>

namespace caravan::http {

using namespace std::chrono_literals;

namespace {

using queue_ptr = std::shared_ptr<hosted_queue>;

ordered_json to_json(const queue_info& i) {
  return {{"name", i.name},
          {"id", i.id},
          {"type", i.type},
          {"item_type", i.item_type},
          {"unique", i.unique},
          {"phase", i.phase},
          {"owner", i.owner},
          {"paused_by", i.paused_by},
          {"paused_until", instant_or_null(i.paused_until)},
          {"trouble", i.trouble},
          {"handler", i.handler},
          {"restraint", i.restraint},
          {"waiting", i.waiting},
          {"running", i.running},
          {"delayed", i.delayed},
          {"dead", i.dead},
          {"oldest_waiting", instant_or_null(i.oldest_waiting)},
          {"pushed", i.pushed},
          {"handled", i.handled},
          {"failed", i.failed},
          {"returned", i.returned},
          {"died", i.died},
          {"removed", i.removed},
          {"redelivered", i.redelivered},
          {"leases_lost", i.leases_lost},
          {"length", i.length},
          {"workers", i.workers},
          {"active", i.active},
          {"abandoned", i.abandoned},
          {"max_workers", i.max_workers}};
}

error about(const hosted_queue& q, const error& e) {
  if (e.text.find("\"" + q.name() + "\"") != std::string::npos) return e;
  return {e.code, "queue \"" + q.name() + "\": " + e.text};
}

void ask_info(const api& a, const queue_ptr& q, const std::function<void(expected<queue_info>)>& then) {
  const auto actor = q->actor();
  if (!actor) {
    then(q->info());  // a dummy queue: a few counters
    return;
  }
  auto& system = a.node.system();
  ask(system, actor, get_queue_status{}, ask_patience, [q, then, &system](expected<queue_status> st) {
    if (!st) return then(about(*q, st.failure()));
    const auto pool = q->pool();
    if (!pool) return then(to_queue_info(*q, *st, nullptr));
    ask(system, pool, get_pool_status{}, ask_patience, [q, then, st = std::move(*st)](expected<pool_status> p) {
      if (!p) return then(about(*q, p.failure()));
      then(to_queue_info(*q, st, &*p));
    });
  });
}

// Answers with all queues when the last one has answered; one that fails is listed with its trouble.
void list_queues(const api& a, const request& r, const responder& answer) {
  struct gathering {
    std::vector<queue_info> infos;
    std::atomic<std::size_t> missing;
  };
  const auto queues = a.node.all();
  if (queues.empty()) {
    answer.reply(json_response("{\"queues\":[]}"));
    return;
  }
  const auto all = std::make_shared<gathering>();
  const auto known = std::make_shared<const request>(r);
  all->infos.resize(queues.size());
  all->missing = queues.size();
  for (std::size_t n = 0; n < queues.size(); ++n) {
    ask_info(a, queues[n], [all, n, answer, known, q = queues[n]](expected<queue_info> i) {
      auto& mine = all->infos[n];
      if (i) {
        mine = std::move(*i);
      } else {
        mine.name = q->name();
        mine.id = q->id();
        mine.type = std::string(config::to_string(q->settings().type));
        mine.phase = "unknown";
        mine.trouble = i.failure().text;
      }
      if (--all->missing > 0) return;
      auto list = ordered_json::array();
      for (const auto& x : all->infos) list.push_back(to_json(x));
      answer.reply(unless_known(*known, json_response(dump({{"queues", std::move(list)}}))));
    });
  }
}

/// The body's object; an empty body is an empty object.
// The queue as it is now: what a change is answered with.
template <class T>
on_answer<T> then_show(const api& a, const queue_ptr& q, const responder& answer) {
  return [a, q, answer](expected<T> done) {
    if (!done) {
      answer.reply(about(*q, done.failure()));
      return;
    }
    ask_info(a, q, [answer](expected<queue_info> i) {
      if (i)
        answer.reply(json_response(dump(to_json(*i))));
      else
        answer.reply(i.failure());
    });
  };
}

/// For what a queue without an actor cannot do.
bool refuse_dummy(const queue_ptr& q, std::string_view done, const responder& answer) {
  if (q->actor()) return false;
  answer.reply(
      error{errc::not_supported,
            "queue \"" + q->name() +
                "\": is of TYPE = dummy, which keeps nothing and runs its handler inside push, and cannot be " +
                std::string(done)});
  return true;
}

void pause(const api& a, const queue_ptr& q, const request& r, const responder& answer) {
  if (refuse_dummy(q, "paused", answer)) return;
  const auto body = read_body(r.body);
  if (!body) return void(answer.reply(body.failure()));
  object_reader in(*body, "the pause");
  const auto until = in.instant("until");
  const auto length = in.duration("for");
  if (until && length) in.complain("has both \"until\" and \"for\"; give one");
  const auto now = a.node.clock().wall();
  pause_queue p;
  p.by = who(r);
  if (length) p.until = now + *length;
  if (until) p.until = std::chrono::floor<std::chrono::milliseconds>(*until);
  if ((until || length) && p.until <= now)
    in.complain("ends before it begins; give a later \"until\", or none to pause until resume");
  constexpr std::array<std::string_view, 2> known{"until", "for"};
  if (const auto ok = in.done(known); !ok) return void(answer.reply(ok.failure()));
  ask(a.node.system(), q->actor(), std::move(p), ask_patience, then_show<ack>(a, q, answer));
}

void resume(const api& a, const queue_ptr& q, const request&, const responder& answer) {
  if (refuse_dummy(q, "resumed", answer)) return;
  ask(a.node.system(), q->actor(), resume_queue{}, ask_patience, then_show<ack>(a, q, answer));
}

void drain(const api& a, const queue_ptr& q, const request&, const responder& answer) {
  if (refuse_dummy(q, "drained", answer)) return;
  ask(a.node.system(), q->actor(), drain_queue{}, ask_patience, then_show<ack>(a, q, answer));
}

void flush(const api& a, const queue_ptr& q, const request& r, const responder& answer) {
  if (refuse_dummy(q, "flushed", answer)) return;
  const auto body = read_body(r.body);
  if (!body) return void(answer.reply(body.failure()));
  object_reader in(*body, "the flush");
  const auto timeout = in.duration("timeout").value_or(30s);
  if (timeout > 24h) in.complain("\"timeout\" must be at most 24h");
  constexpr std::array<std::string_view, 1> known{"timeout"};
  if (const auto ok = in.done(known); !ok) return void(answer.reply(ok.failure()));
  answer.step_aside();  // it waits for handlers, and costs nothing meanwhile
  ask(a.node.system(), q->actor(), flush_queue{timeout}, timeout + ask_patience, then_show<ack>(a, q, answer));
}

void purge(const api& a, const queue_ptr& q, const request& r, const responder& answer) {
  if (refuse_dummy(q, "purged", answer)) return;
  const auto body = read_body(r.body);
  if (!body) return void(answer.reply(body.failure()));
  object_reader in(*body, "the purge");
  const auto state = in.text("state");
  purge_queue p;
  if (state == "delayed")
    p.state = record_state::delayed;
  else if (state == "dead")
    p.state = record_state::dead;
  else if (state == "done")
    p.state = record_state::done;
  else if (state != "waiting")
    in.complain("\"state\" must be \"waiting\", \"delayed\", \"dead\" or \"done\"");
  constexpr std::array<std::string_view, 1> known{"state"};
  if (const auto ok = in.done(known); !ok) return void(answer.reply(ok.failure()));
  ask(a.node.system(), q->actor(), p, ask_patience, [q, answer](expected<purged_count> n) {
    if (n)
      answer.reply(json_response(dump({{"purged", n->count}})));
    else
      answer.reply(about(*q, n.failure()));
  });
}

void scale(const api& a, const queue_ptr& q, const request& r, const responder& answer) {
  if (refuse_dummy(q, "scaled", answer)) return;
  const auto body = read_body(r.body);
  if (!body) return void(answer.reply(body.failure()));
  object_reader in(*body, "the scale");
  const auto most = in.whole_number("max_workers", std::numeric_limits<std::int32_t>::min(), 10'000);
  if (!most) in.complain("needs \"max_workers\", a whole number; 0 or less: no limit");
  constexpr std::array<std::string_view, 1> known{"max_workers"};
  if (const auto ok = in.done(known); !ok) return void(answer.reply(ok.failure()));
  const auto pool = q->pool();
  if (!pool) {
    answer.reply(error{errc::conflict,
                       "queue \"" + q->name() +
                           "\": has no handler on this node, so there are no workers to scale; set HANDLER in [queue." +
                           q->name() + "]"});
    return;
  }
  ask(a.node.system(), pool, set_max_workers{static_cast<std::int32_t>(*most)}, ask_patience,
      then_show<ack>(a, q, answer));
}

}  // namespace

void add_queue_routes(api a) {
  a.web.route("GET", "/v1/queues", role::read,
              [a](const request& r, const responder& answer) { list_queues(a, r, answer); });

  a.web.route("GET", "/v1/queues/{queue}", role::read,
              on_queue(a, [a](const queue_ptr& q, const request&, const responder& answer) {
                ask_info(a, q, [answer](expected<queue_info> i) {
                  if (i)
                    answer.reply(json_response(dump(to_json(*i))));
                  else
                    answer.reply(i.failure());
                });
              }));

  using action = void (*)(const api&, const queue_ptr&, const request&, const responder&);
  const auto add = [a](std::string_view verb, action act) {
    change_route(
        a, "POST", "/v1/queues/{queue}/" + std::string(verb), role::admin,
        on_queue(a, [a, act](const queue_ptr& q, const request& r, const responder& answer) { act(a, q, r, answer); }));
  };
  add("pause", pause);
  add("resume", resume);
  add("flush", flush);
  add("drain", drain);
  add("purge", purge);
  add("scale", scale);
}

}  // namespace caravan::http
