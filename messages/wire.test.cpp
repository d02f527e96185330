#define CAF_SUITE wire
#include "messages/caf_error.hpp"
#include "messages/cron_actor.hpp"
#include "messages/node_actor.hpp"
#include "messages/queue_actor.hpp"
#include "messages/type_ids.hpp"

#include <caf/all.hpp>
#include <caf/io/all.hpp>

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "caf/test/io_dsl.hpp"

using namespace caravan;
using namespace std::chrono_literals;

namespace {

using ms = std::chrono::milliseconds;

struct wire_config : caf::actor_system_config {
  wire_config() {
    register_messages(*this);
    load<caf::io::middleman>();
  }
};

// ---- values with something in every field, and how they are compared: as CAF sees them ----

record full_record(std::uint64_t id) {
  record r;
  r.id = {id};
  r.state = record_state::dead;
  r.payload = std::string("{\"text\":\"a\0b\xff\"}", 16);
  r.key = "key";
  r.digest = {~0ull, 7};
  r.pushed_at = wall_time{ms{1'700'000'000'123}};
  r.due = wall_time::max();
  r.priority = -5;
  r.attempts = std::numeric_limits<std::uint32_t>::max();
  r.max_attempts = 9;
  r.timeout = 1'500ms;
  r.retention = 24h;
  r.deadline = wall_time::min();
  r.order_by = "customer 7";
  r.idempotency_key = "once";
  r.last_error = "no luck";
  r.headers = {{"traceparent", "00-1-2-03"}, {"", ""}, {"empty", ""}};
  return r;
}

batch full_batch() {
  return {"mail", 77, 30s, std::make_shared<std::vector<record>>(std::vector{full_record(1), record{}, full_record(2)})};
}
batch_result full_rest() {
  return {{0, item_outcome::kind::failed, "no luck", 5s}, {7, item_outcome::kind::later, "", ms::max()}};
}
job_status full_job() { return {job_phase::purged, full_record(3), wall_time{ms{5}}}; }
queue_totals full_totals() { return {1, 2, 3, 4, 5, 6, 7, 8, 9}; }
queue_timings full_timings() {
  queue_timings t;
  t.wait.add(1s, 5);
  t.run.add(100h);
  t.rejected = 4;
  return t;
}
pool_status full_pool() { return {~0ull, "earth", "exec:sha256sum", 1, 2, 3, -4, "paused"}; }
queue_status full_queue() {
  return {"mail", queue_phase::stopping, wall_time{ms{1}}, "ann", {1, 2, 3, ~0ull, full_totals()}, 5, wall_time{ms{6}},
          "the disk is full", "mars", full_timings()};
}

struct fixture : test_coordinator_fixture<wire_config> {
  /// What arrives serializes to the same bytes; returned for a closer look.
  template <class T>
  T travelled(const T& x) {
    const auto bytes = serialize(x);
    T arrived;
    deserialize(bytes, arrived);
    CAF_CHECK(serialize(arrived) == bytes);
    return arrived;
  }
  /// As a node sends it: with its name, inside a message.
  template <class T>
  void as_message(const T& x) {
    const auto sent = caf::make_message(x);
    const auto bytes = serialize(sent);
    caf::message arrived;
    deserialize(bytes, arrived);
    CAF_REQUIRE(arrived.match_elements<T>());
    CAF_CHECK(serialize(arrived.get_as<T>(0)) == serialize(x));
  }
  template <class T>
  void both(const T& full) {
    for (const auto& x : {T{}, full}) {
      travelled(x);
      as_message(x);
    }
  }
};

// ---- the types that the interfaces name ----

template <class... Ts>
struct types {};

template <class... Is, class... Os, class F>
void each_of(caf::typed_mpi<caf::detail::type_list<Is...>, caf::output_tuple<Os...>>, F f) {
  const auto unless_void = [&](auto* p) {
    using type = std::remove_pointer_t<decltype(p)>;
    if constexpr (!std::is_void_v<type>) f(types<type>{});
  };
  (unless_void(static_cast<Is*>(nullptr)), ...);
  (unless_void(static_cast<Os*>(nullptr)), ...);
}
template <class... Sigs, class F>
void each_type(caf::typed_actor<Sigs...>*, F f) {
  (each_of(Sigs{}, f), ...);
}

}  // namespace

CAF_TEST_FIXTURE_SCOPE(wire_tests, fixture)

// ---- values ----

CAF_TEST(a record survives with every field) {
  const auto full = full_record(5);
  const auto r = travelled(full);
  CAF_CHECK_EQUAL(r.id, full.id);
  CAF_CHECK(r.state == full.state);
  CAF_CHECK_EQUAL(r.payload, full.payload);
  CAF_CHECK_EQUAL(r.payload.size(), 16u);
  CAF_CHECK_EQUAL(r.key, full.key);
  CAF_CHECK(r.digest == full.digest);
  CAF_CHECK(r.pushed_at == full.pushed_at);
  CAF_CHECK(r.due == full.due);
  CAF_CHECK_EQUAL(r.priority, full.priority);
  CAF_CHECK_EQUAL(r.attempts, full.attempts);
  CAF_CHECK_EQUAL(r.max_attempts, full.max_attempts);
  CAF_CHECK(r.timeout == full.timeout);
  CAF_CHECK(r.retention == full.retention);
  CAF_CHECK(r.deadline == full.deadline);
  CAF_CHECK_EQUAL(r.order_by, full.order_by);
  CAF_CHECK_EQUAL(r.idempotency_key, full.idempotency_key);
  CAF_CHECK_EQUAL(r.last_error, full.last_error);
  CAF_CHECK(r.headers == full.headers);
}

CAF_TEST(everything that is registered survives with full and with empty fields) {
  both(item_id{~0ull});
  both(full_record(1));
  both(full_batch());
  both(item_outcome{3, item_outcome::kind::rejected, "never", 2s});
  both(std::vector<std::uint64_t>{1, 0, ~0ull});
  both(ack{});
  both(demand{~0ull, 2, 3, 4, true});
  both(report_batches{7, {batch_done{7, 8, {}, true, 1, 2}}, {9}, {10, 11}});
  both(batches_reported{true, {12}});
  both(batch_done{1, 2, full_rest(), true, 3, 4});
  both(renew_leases{1, {2, 3}});
  both(push_items{{full_record(1), record{}}});
  both(push_results{{{{1}, true, false}, {{2}, false, true}}});
  both(pause_queue{wall_time::max(), "ann"});
  both(resume_queue{});
  both(drain_queue{});
  both(flush_queue{-1ms});
  both(purge_queue{record_state::dead});
  both(purged_count{~0ull});
  both(change_jobs{record_state::delayed, job_change::remove, {"timeout", "key", wall_time{5ms}, -3, 100}, wall_time{7ms}, {8}, {9}, 10, true});
  both(jobs_changed{1, 2, 3, wall_time{4ms}, {5}, true});
  both(stop_calls{{1, ~0ull}});
  both(stop_queue{ms::max()});
  both(get_queue_status{});
  both(full_queue());
  both(find_job{{9}});
  both(change_job{{9}, job_change::remove});
  both(list_jobs{record_state::delayed, wall_time{ms{5}}, {6}, 7});
  both(full_job());
  both(job_list{{full_job(), job_status{}}});
  both(get_pool_status{});
  both(set_max_workers{-1});
  both(stop_pool{3s});
  both(full_pool());
}

CAF_TEST(words for people and counters keep their places) {
  const auto st = travelled(full_queue());
  CAF_CHECK_EQUAL(st.name, "mail");
  CAF_CHECK(st.phase == queue_phase::stopping);
  CAF_CHECK_EQUAL(st.paused_by, "ann");
  CAF_CHECK_EQUAL(st.counts.dead, ~0ull);
  CAF_CHECK_EQUAL(st.counts.totals.redelivered, 9u);
  CAF_CHECK_EQUAL(st.trouble, "the disk is full");
  const auto done = travelled(batch_done{1, 2, full_rest(), true, 3, 4});
  CAF_REQUIRE_EQUAL(done.rest.size(), 2u);
  CAF_CHECK(done.rest[1].what == item_outcome::kind::later);
  CAF_CHECK(done.rest[1].delay == ms::max());
  CAF_CHECK(done.handed_back);
  CAF_CHECK_EQUAL(travelled(full_pool()).max_workers, -4);
}

CAF_TEST(the items of a batch are shared at home and copied on the way) {
  const auto sent = full_batch();
  const auto copy = sent;
  CAF_CHECK_EQUAL(copy.items, sent.items);
  const auto before = serialize(sent);
  const auto arrived = travelled(sent);
  CAF_CHECK_NOT_EQUAL(arrived.items, sent.items);
  CAF_REQUIRE_EQUAL(arrived.items->size(), 3u);
  CAF_CHECK_EQUAL((*arrived.items)[2].payload, full_record(2).payload);
  CAF_CHECK(serialize(copy) == before);
}

CAF_TEST(a batch that is read into an object in use leaves the shared items alone) {
  const auto old = full_batch();
  auto target = old;
  deserialize(serialize(batch{"other", 1, 1s, std::make_shared<std::vector<record>>(1)}), target);
  CAF_CHECK_EQUAL(target.queue, "other");
  CAF_CHECK_EQUAL(target.items->size(), 1u);
  CAF_CHECK_EQUAL(old.items->size(), 3u);
}

CAF_TEST(a batch never arrives without its items) {
  const auto arrived = travelled(batch{});
  CAF_REQUIRE(arrived.items);
  CAF_CHECK(arrived.items->empty());
}

CAF_TEST(bytes that end too early are an error and no crash) {
  const auto refused = [&](auto x) {
    const auto bytes = serialize(x);
    for (std::size_t n = 0; n < bytes.size(); ++n) {
      decltype(x) target;
      caf::binary_deserializer source(sys, bytes.data(), n);
      if (!source(target)) return false;
    }
    return true;
  };
  CAF_CHECK(refused(full_batch()));
  CAF_CHECK(refused(batch_done{1, 2, full_rest(), true, 3, 4}));
  CAF_CHECK(refused(full_queue()));
  CAF_CHECK(refused(job_list{{full_job()}}));
}

CAF_TEST(enumerators of a newer node arrive as they are) {
  CAF_CHECK_EQUAL(static_cast<int>(travelled(purge_queue{static_cast<record_state>(200)}).state), 200);
  CAF_CHECK_EQUAL(to_string(travelled(job_status{static_cast<job_phase>(200), {}, {}}).phase), "unknown");
  CAF_CHECK_EQUAL(to_string(static_cast<queue_phase>(200)), "unknown");
}

// ---- errors ----

CAF_TEST(an error keeps its code and its text) {
  for (std::uint8_t code = 1; code <= static_cast<std::uint8_t>(errc::forbidden); ++code) {
    const error sent{static_cast<errc>(code), "queue \"mail\": text " + std::to_string(code)};
    CAF_CHECK(from_caf(to_caf(sent)) == sent);
    CAF_CHECK(from_caf(travelled(to_caf(sent))) == sent);
    const auto shown = sys.render(travelled(to_caf(sent)));
    CAF_CHECK(shown.find(std::string(to_string(sent.code))) != std::string::npos);
    CAF_CHECK(shown.find(sent.text) != std::string::npos);
  }
  const error silent{errc::fenced, ""};
  CAF_CHECK(from_caf(travelled(to_caf(silent))) == silent);
}

CAF_TEST(errors are equal when their codes are) {
  CAF_CHECK(to_caf({errc::queue_full, "a"}) == to_caf({errc::queue_full, "b"}));
  CAF_CHECK(to_caf({errc::queue_full, "a"}) != to_caf({errc::queue_closed, "a"}));
}

CAF_TEST(an error of a newer node is unknown and keeps its text) {
  const caf::error odd(std::uint8_t{250}, error_category(), caf::make_message(std::string("from the future")));
  const auto e = from_caf(travelled(odd));
  CAF_CHECK_EQUAL(static_cast<int>(e.code), 250);
  CAF_CHECK_EQUAL(to_string(e.code), "unknown");
  CAF_CHECK_EQUAL(e.text, "from the future");
  CAF_CHECK(!sys.render(odd).empty());
  const caf::error bare(std::uint8_t{250}, error_category());
  CAF_CHECK_EQUAL(from_caf(travelled(bare)).text, "unknown");
  CAF_CHECK(!sys.render(bare).empty());
  const caf::error other(std::uint8_t{3}, error_category(), caf::make_message(7, std::string("x")));
  CAF_CHECK(from_caf(travelled(other)).code == errc::queue_closed);
}

CAF_TEST(errors of the runtime become ours) {
  CAF_CHECK(from_caf(caf::sec::request_timeout).code == errc::timed_out);
  CAF_CHECK(from_caf(caf::sec::request_receiver_down).code == errc::queue_closed);
  CAF_CHECK(from_caf(caf::sec::cannot_connect_to_node).code == errc::queue_closed);
  CAF_CHECK(from_caf(caf::sec::runtime_error).code == errc::backend_failed);
  CAF_CHECK(from_caf(caf::exit_reason::kill).code != errc::timed_out);
  CAF_CHECK(!from_caf(caf::error{}).text.empty());
}

// ---- what is registered ----

CAF_TEST(every type of the interfaces is registered unless it never leaves its process) {
  std::size_t seen = 0;
  const auto check = [&]<class T>(types<T>) {
    ++seen;
    if constexpr (!caf::is_allowed_unsafe_message_type<T>::value) {
      const auto name = sys.types().portable_name(caf::type_nr<T>::value, &typeid(T));
      CAF_MESSAGE(typeid(T).name() << " is " << name);
      CAF_CHECK_EQUAL(name.substr(0, 8), "caravan.");
      const auto made = sys.types().make_value(name);
      CAF_CHECK(made && made->matches(caf::type_nr<T>::value, &typeid(T)));
    }
  };
  each_type(static_cast<queue_actor*>(nullptr), check);
  each_type(static_cast<worker_pool_actor*>(nullptr), check);
  each_type(static_cast<node_actor*>(nullptr), check);
  each_type(static_cast<cron_actor*>(nullptr), check);
  CAF_CHECK_GREATER(seen, 30u);
}

CAF_TEST(what is said about tasks survives with every field) {
  const task_run_info run{7, "earth", "ann", "manual", wall_time{ms{1}}, wall_time{ms{2}}, wall_time{ms{3}}, "error", "no luck"};
  const task_info info{"backup",  "Backs up", "@daily", "UTC", "PUSH q",  true, true, "bob",
                       wall_time{ms{4}}, run, run, "running", 9,     ~0ull, {{"overlap", 3}}};
  const task_event event{"backup", "lost", wall_time{ms{5}}, wall_time{ms{6}}, 7,  8,
                         "queued", "mars", "cy",             wall_time{ms{9}}, wall_time{ms{10}}, "gone"};
  both(run);
  both(info);
  both(event);
  both(cron_list{{info, task_info{}}});
  both(cron_history{{event}});
  both(get_cron_list{});
  both(get_cron_history{"backup"});
  both(change_cron{"backup", cron_change::resume, "dee"});
  both(stop_cron{ms{11}});
  const auto arrived = travelled(info);
  CAF_CHECK_EQUAL(arrived.paused_by, "bob");
  CAF_CHECK_EQUAL(arrived.last.message, "no luck");
  CAF_CHECK(arrived.missed == info.missed);
  CAF_CHECK(arrived.next == info.next);
}

CAF_TEST(the names on the wire never change) {
  for (const auto* name :
       {"item_id", "record", "batch", "item_outcome", "u64vec", "ack", "demand", "batch_done", "renew_leases", "attach_pool",
        "push_items", "push_results", "pause_queue", "resume_queue", "drain_queue", "flush_queue", "purge_queue",
        "purged_count", "stop_queue", "get_queue_status", "queue_status", "find_job", "change_job", "list_jobs", "job_status",
        "job_list", "get_pool_status", "set_max_workers", "stop_pool", "pool_status", "change_jobs", "jobs_changed", "stop_calls", "node_hello", "find_queue", "found_queue", "move_queue",
        "task_run_info", "task_info", "task_event", "get_cron_list", "cron_list", "get_cron_history", "cron_history",
        "change_cron", "stop_cron", "event", "event_filter", "event_batch", "subscribe_events", "event_wishes", "get_recent_events",
        "numbered_event", "event_list", "get_event_status", "event_topic_count", "event_status", "find_events", "found_events",
        "report_batches", "batches_reported"}) {
    const auto full = std::string("caravan.") + name;
    CAF_CHECK_EQUAL(full + (sys.types().make_value(full) ? "" : " is missing"), full);
  }
}

CAF_TEST(the bytes of a record never change) {
  record r;
  r.id = {0x0102};
  r.payload = "p";
  r.headers = {{"h", "v"}};
  std::string hex;
  for (const char c : serialize(r)) {  // by position: what comes new goes to the end
    constexpr char digits[] = "0123456789abcdef";
    const auto byte = static_cast<unsigned char>(c);
    hex += digits[byte >> 4];
    hex += digits[byte & 15];
  }
  const auto none_between = std::string(144, '0');
  CAF_CHECK_EQUAL(hex, "0000000000000102" "00" "0170" + none_between + "01" "0168" "0176" + std::string(20, '0'));
}

CAF_TEST_FIXTURE_SCOPE_END()

// ---- between two nodes ----

namespace {

struct net_fixture : point_to_point_fixture<test_coordinator_fixture<wire_config>> {
  net_fixture() { prepare_connection(earth, mars, "earth", 8080); }
  // Not run(): it would let requests time out.
  void pump() {
    while (earth.consume_messages() + mars.consume_messages() + earth.handle_io_events() + mars.handle_io_events() > 0) {
    }
  }
};

worker_pool_actor::behavior_type strict_pool(worker_pool_actor::pointer) {
  return {[](const batch&) {},
          [](const call_ended&) {},
          [](pool_tick) {},
          [](attach_again) {},
          [](const set_max_workers& m) -> caf::result<ack> {
            if (m.most < 0) return to_caf({errc::invalid_argument, "fewer than none"});
            return ack{};
          },
          [](get_pool_status) -> caf::result<pool_status> { return full_pool(); },
          [](const stop_pool&) -> caf::result<pool_status> { return to_caf({static_cast<errc>(99), "from the future"}); },
          [](const stop_calls&) {}};
}


}  // namespace

CAF_TEST_FIXTURE_SCOPE(net_tests, net_fixture)

CAF_TEST(requests and answers and errors travel between nodes) {
  auto pool = earth.sys.spawn(strict_pool);
  pump();
  run();
  CAF_REQUIRE_EQUAL(earth.publish(pool, 8080), 8080u);
  const auto far = mars.remote_actor<worker_pool_actor>("earth", 8080);
  pool_status st;
  std::vector<error> errors;
  bool acknowledged = false;
  mars.sys.spawn([&, far](caf::event_based_actor* client) {
    const auto failed = [&](caf::error& e) { errors.push_back(from_caf(e)); };
    client->send(far, full_batch());
    client->request(far, caf::infinite, get_pool_status{}).then([&](pool_status& s) { st = s; }, failed);
    client->request(far, caf::infinite, set_max_workers{3}).then([&](ack) { acknowledged = true; }, failed);
    client->request(far, caf::infinite, set_max_workers{-3}).then([&](ack) {}, failed);
    client->request(far, caf::infinite, stop_pool{1s}).then([&](pool_status&) {}, failed);
  });
  pump();
  CAF_CHECK_EQUAL(st.handler, "exec:sha256sum");
  CAF_CHECK(acknowledged);
  CAF_REQUIRE_EQUAL(errors.size(), 2u);
  CAF_CHECK(errors[0] == (error{errc::invalid_argument, "fewer than none"}));
  CAF_CHECK_EQUAL(errors[1].text, "from the future");
  caf::anon_send_exit(pool, caf::exit_reason::user_shutdown);
  pump();
}

CAF_TEST(a handle inside a message reaches the actor it names) {
  auto pool = mars.sys.spawn(strict_pool);
  attach_pool seen;
  std::string answered;
  auto queue = earth.sys.spawn([&](caf::event_based_actor* self) -> caf::behavior {
    return {[&seen, self](attach_pool& a) -> caf::result<ack> {
              seen = a;
              self->send(caf::actor_cast<caf::actor>(a.handle), get_pool_status{});
              return ack{};
            },
            [&answered](const pool_status& s) { answered = s.handler; }};
  });
  run();
  CAF_REQUIRE_EQUAL(earth.publish(queue, 8080), 8080u);
  const auto far = mars.remote_actor("earth", 8080);
  bool attached = false;
  mars.sys.spawn([&, far](caf::event_based_actor* client) {
    client->request(far, caf::infinite, attach_pool{4, pool_kind::remote, caf::actor_cast<caf::strong_actor_ptr>(pool)})
      .then([&](ack) { attached = true; }, [](caf::error& e) { CAF_FAIL(from_caf(e).text); });
  });
  pump();
  CAF_CHECK(attached);
  CAF_CHECK_EQUAL(seen.pool, 4u);
  CAF_CHECK(seen.kind == pool_kind::remote);
  CAF_REQUIRE(seen.handle);
  CAF_CHECK_EQUAL(seen.handle->node(), mars.sys.node());
  CAF_CHECK_EQUAL(answered, "exec:sha256sum");
  seen = {};
  caf::anon_send_exit(pool, caf::exit_reason::user_shutdown);
  caf::anon_send_exit(queue, caf::exit_reason::user_shutdown);
  pump();
}

CAF_TEST_FIXTURE_SCOPE_END()
