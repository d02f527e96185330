#define CAF_SUITE worker_pool_shell
#include "actors/worker_pool/worker_pool_shell.hpp"

#include "tests/support/eventually.hpp"

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <string>
#include <vector>

#include "tests/support/shell_fixture.hpp"

using namespace caravan;
using namespace std::chrono_literals;

// The machine gives no more threads when a test says so.
namespace {
std::atomic<int> threads_refused{0};
}
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*), void* argument) {
  if (threads_refused.load() > 0) {
    --threads_refused;
    return EAGAIN;
  }
  using function = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto real = reinterpret_cast<function>(dlsym(RTLD_NEXT, "pthread_create"));
  return real(thread, attributes, run, argument);
}

namespace {

using ms = std::chrono::milliseconds;
using testing_support::eventually;

/// Its calls end when the test lets them, so that they report only while the test waits: the virtual scheduler is not
/// thread safe.
class stub_runner final : public runner {
public:
  batch_result run(const batch& work, const run_context& ctx) override {
    std::unique_lock lock(mutex_);
    tokens_.push_back(ctx.stop);
    ++started_;
    ended_.wait(lock, [&] { return to_end_ > 0; });
    --to_end_;
    if (throws_) throw std::runtime_error("no luck");
    return work.items->size() == rest_.size() ? rest_ : batch_result{};
  }
  std::string describe() const override { return "stub"; }

  void end(std::size_t n) {
    const std::lock_guard lock(mutex_);
    to_end_ += n;
    ended_.notify_all();
  }
  void answer_with(batch_result rest) {
    const std::lock_guard lock(mutex_);
    rest_ = std::move(rest);
  }
  void throw_from_now_on() {
    const std::lock_guard lock(mutex_);
    throws_ = true;
  }
  [[nodiscard]] bool began(std::size_t n) {
    return eventually([&] {
      const std::lock_guard lock(mutex_);
      return started_ >= n;
    });
  }
  [[nodiscard]] std::size_t asked_to_stop() {
    const std::lock_guard lock(mutex_);
    std::size_t n = 0;
    for (const auto& t : tokens_)
      if (t.stop_requested()) ++n;
    return n;
  }

private:
  std::mutex mutex_;
  std::condition_variable ended_;
  std::vector<std::stop_token> tokens_;
  std::size_t started_ = 0;
  std::size_t to_end_ = 0;
  batch_result rest_;
  bool throws_ = false;
};

struct fake_queue_state {
  static inline const char* name = "fake_queue";
  bool silent = false;
  bool refuses = false;
  std::vector<attach_pool> attached;
  std::vector<caf::typed_response_promise<ack>> unanswered;
  std::vector<demand> demands;
  std::vector<batch_done> done;
  std::vector<renew_leases> renewals;
  fake_queue_state() = default;
};
using fake_queue_pointer = queue_actor::stateful_pointer<fake_queue_state>;

queue_actor::behavior_type fake_queue(fake_queue_pointer self) {
  const auto unexpected = [](auto&&...) { return caf::make_error(caf::sec::unexpected_message); };
  return {[self](items_stored) {  // the sign to answer late
            for (auto& p : std::exchange(self->state.unanswered, {})) p.deliver(ack{});
          },
          [](queue_tick) {},
          [self](attach_pool& a) -> caf::result<ack> {
            auto& s = self->state;
            s.attached.push_back(std::move(a));
            if (s.refuses) return to_caf({errc::queue_closed, "the queue is closed"});
            if (!s.silent) return ack{};
            s.unanswered.push_back(self->make_response_promise<ack>());
            return s.unanswered.back();
          },
          [self](const demand& d) { self->state.demands.push_back(d); },
          [self](batch_done& d) { self->state.done.push_back(std::move(d)); },
          [self](const renew_leases& r) { self->state.renewals.push_back(r); },
          [=](push_items&) -> caf::result<push_results> { return unexpected(); },
          [=](const pause_queue&) -> caf::result<ack> { return unexpected(); },
          [=](resume_queue) -> caf::result<ack> { return unexpected(); },
          [=](drain_queue) -> caf::result<ack> { return unexpected(); },
          [=](const flush_queue&) -> caf::result<ack> { return unexpected(); },
          [=](const purge_queue&) -> caf::result<purged_count> { return unexpected(); },
          [=](const stop_queue&) -> caf::result<queue_status> { return unexpected(); },
          [=](get_queue_status) -> caf::result<queue_status> { return unexpected(); },
          [=](const find_job&) -> caf::result<job_status> { return unexpected(); },
          [=](const list_jobs&) -> caf::result<job_list> { return unexpected(); },
          [=](const change_job&) -> caf::result<ack> { return unexpected(); },
          [=](const move_queue&) -> caf::result<ack> { return unexpected(); },
          [=](const report_batches&) -> caf::result<batches_reported> { return unexpected(); },
          [=](const find_key&) -> caf::result<found_key> { return unexpected(); },
          [=](const change_jobs&) -> caf::result<jobs_changed> { return unexpected(); }};
}

struct fixture : test::shell_fixture {
  std::shared_ptr<stub_runner> handler = std::make_shared<stub_runner>();
  std::shared_ptr<std::atomic<std::size_t>> dropped = std::make_shared<std::atomic<std::size_t>>(0);
  worker_pool_core::limits limits;
  pool_kind kind = pool_kind::local;
  queue_actor queue;
  worker_pool_actor pool;
  std::vector<std::string> logged;

  fixture() {
    sched.clock().current_time = std::chrono::steady_clock::now() - 6s;
    queue = sys.spawn(fake_queue);
    consume_messages();
  }
  ~fixture() override {
    threads_refused = 0;
    kill(pool);
    kill(queue);
    handler->end(1'000);
  }

  fake_queue_state& asked() { return deref<std::remove_pointer_t<fake_queue_pointer>>(queue).state; }
  void start(std::optional<unsigned> most) {
    limits.max_workers = most;
    pool_parts parts;
    parts.id = 5;
    parts.kind = kind;
    parts.node = "earth";
    parts.limits = limits;
    parts.handler = handler;
    parts.queue = queue;
    parts.log = [this](std::string_view, const std::string& text) { logged.push_back(text); };
    pool = sys.spawn(worker_pool_behavior, std::move(parts));
    consume_messages();
    if (asked_nothing_yet()) return;
    pass(5s);  // CAF keeps the timer of a request that was answered
    // Workers note the real time at which a call begins.
    sched.clock().current_time = std::chrono::steady_clock::now();
  }
  bool asked_nothing_yet() { return !queue_lives || asked().demands.empty(); }
  bool queue_lives = true;
  /// A batch that tells when the last reference to it is gone: its worker has reported by then.
  void send_batch(std::uint64_t token, std::size_t size = 1, ms timeout = {}) {
    batch work{"mail", token, 30s, nullptr};
    auto items = new std::vector<record>(size);
    for (auto& r : *items) r.timeout = timeout;
    work.items = std::shared_ptr<const std::vector<record>>(items, [d = dropped](const std::vector<record>* p) {
      delete p;
      ++*d;
    });
    caf::anon_send(pool, std::move(work));
    consume_messages();
  }
  /// Lets n calls end and waits for their reports.
  void end_calls(std::size_t n) {
    const auto before = dropped->load();
    for (std::size_t i = 1; i <= n; ++i) {
      handler->end(1);
      CAF_REQUIRE(eventually([&] { return dropped->load() >= before + i; }));
    }
    consume_messages();
  }
  pool_status status() { return must<pool_status>(pool, get_pool_status{}); }
};

}  // namespace

CAF_TEST_FIXTURE_SCOPE(worker_pool_shell_tests, fixture)

CAF_TEST(a pool attaches and asks for a batch for each worker) {
  kind = pool_kind::remote;
  start(3);
  CAF_REQUIRE_EQUAL(asked().attached.size(), 1u);
  CAF_CHECK_EQUAL(asked().attached[0].pool, 5u);
  CAF_CHECK(asked().attached[0].kind == pool_kind::remote);
  CAF_CHECK(asked().attached[0].handle == caf::actor_cast<caf::strong_actor_ptr>(pool));
  CAF_REQUIRE_EQUAL(asked().demands.size(), 1u);
  CAF_CHECK_EQUAL(asked().demands[0].pool, 5u);
  CAF_CHECK_EQUAL(asked().demands[0].idle, 3u);
  CAF_CHECK_EQUAL(asked().demands[0].prefetch, 0u);
  const auto st = status();
  CAF_CHECK_EQUAL(st.node, "earth");
  CAF_CHECK_EQUAL(st.handler, "stub");
  CAF_CHECK_EQUAL(st.workers, 0u);
  CAF_CHECK_EQUAL(st.max_workers, 3);
  CAF_CHECK_EQUAL(timers(), 0u);
}

CAF_TEST(a pool attaches again when its queue does not answer) {
  asked().silent = true;
  start(2);
  pass(4'900ms);
  CAF_CHECK_EQUAL(asked().attached.size(), 1u);
  pass(10s);
  CAF_CHECK_EQUAL(asked().attached.size(), 3u);
  CAF_CHECK(asked().demands.empty());
  asked().silent = false;
  pass(5s);
  CAF_CHECK_EQUAL(asked().attached.size(), 4u);
  CAF_REQUIRE_EQUAL(asked().demands.size(), 1u);
  CAF_CHECK_EQUAL(asked().demands[0].idle, 2u);
  tell(queue, items_stored{});
  pass(20s);
  CAF_CHECK_EQUAL(asked().attached.size(), 4u);
  CAF_CHECK_EQUAL(asked().demands.size(), 1u);
  CAF_CHECK_EQUAL(logged.size(), 3u);
}

CAF_TEST(a pool does not insist when its queue refuses it or is gone) {
  asked().refuses = true;
  start(1);
  pass(20s);
  CAF_CHECK_EQUAL(asked().attached.size(), 1u);
  CAF_REQUIRE_EQUAL(logged.size(), 1u);
  CAF_CHECK(logged[0].find("the queue is closed") != std::string::npos);
  kill(pool);
  const auto gone = queue;
  kill(queue);
  queue = gone;
  queue_lives = false;
  start(1);
  pass(20s);
  CAF_CHECK_EQUAL(logged.size(), 2u);
  CAF_CHECK_EQUAL(timers(), 0u);
}

CAF_TEST(a batch is run and its answer carries the next demand) {
  start(1);
  send_batch(7, 2);
  CAF_REQUIRE(handler->began(1));
  CAF_CHECK_EQUAL(status().active, 1u);
  CAF_CHECK_EQUAL(status().workers, 1u);
  CAF_CHECK(asked().done.empty());
  end_calls(1);
  CAF_REQUIRE_EQUAL(asked().done.size(), 1u);
  const auto& done = asked().done[0];
  CAF_CHECK_EQUAL(done.pool, 5u);
  CAF_CHECK_EQUAL(done.token, 7u);
  CAF_CHECK(done.rest.empty());
  CAF_CHECK(!done.handed_back);
  CAF_CHECK_EQUAL(done.idle, 1u);
  CAF_CHECK_EQUAL(status().active, 0u);
  CAF_CHECK_EQUAL(status().workers, 1u);
  CAF_CHECK_EQUAL(timers(), 0u);
}

CAF_TEST(outcomes reach the queue) {
  start(1);
  handler->answer_with({{0, item_outcome::kind::later, "not now", 3s}, {1, item_outcome::kind::rejected, "never", {}}});
  send_batch(1, 2);
  CAF_REQUIRE(handler->began(1));
  end_calls(1);
  CAF_REQUIRE_EQUAL(asked().done.size(), 1u);
  CAF_REQUIRE_EQUAL(asked().done[0].rest.size(), 2u);
  CAF_CHECK(asked().done[0].rest[0].what == item_outcome::kind::later);
  CAF_CHECK_EQUAL(asked().done[0].rest[0].delay, ms{3'000});
  CAF_CHECK_EQUAL(asked().done[0].rest[1].text, "never");
}

CAF_TEST(a handler that throws has failed its items) {
  start(1);
  handler->throw_from_now_on();
  send_batch(1, 2);
  CAF_REQUIRE(handler->began(1));
  end_calls(1);
  CAF_REQUIRE_EQUAL(asked().done[0].rest.size(), 2u);
  CAF_CHECK_EQUAL(asked().done[0].rest[1].text, "the handler threw: no luck");
}

CAF_TEST(batches run beside each other and idle workers end) {
  limits.worker_idle = 1s;
  start(3);
  for (const std::uint64_t token : {1u, 2u, 3u}) send_batch(token);
  CAF_REQUIRE(handler->began(3));
  CAF_CHECK_EQUAL(status().active, 3u);
  CAF_CHECK_EQUAL(status().workers, 3u);
  end_calls(3);
  CAF_CHECK_EQUAL(asked().done.size(), 3u);
  CAF_CHECK_EQUAL(status().workers, 3u);
  pass(1s);
  CAF_CHECK_EQUAL(status().workers, 1u);
  CAF_CHECK_EQUAL(timers(), 0u);
  send_batch(4);
  CAF_REQUIRE(handler->began(4));
  end_calls(1);
  CAF_CHECK_EQUAL(asked().done.size(), 4u);
}

CAF_TEST(a call past its TIMEOUT is asked to stop and has failed) {
  limits.timeout = 10s;
  start(1);
  send_batch(1);
  CAF_REQUIRE(handler->began(1));
  pass(9'900ms);
  CAF_CHECK_EQUAL(handler->asked_to_stop(), 0u);
  pass(1s);
  CAF_CHECK_EQUAL(handler->asked_to_stop(), 1u);
  CAF_CHECK(asked().done.empty());
  end_calls(1);
  CAF_REQUIRE_EQUAL(asked().done.size(), 1u);
  CAF_REQUIRE_EQUAL(asked().done[0].rest.size(), 1u);
  CAF_CHECK(asked().done[0].rest[0].what == item_outcome::kind::failed);
  CAF_CHECK(asked().done[0].rest[0].text.find("TIMEOUT = 10000 ms") != std::string::npos);
  CAF_CHECK_EQUAL(asked().done[0].idle, 1u);
}

CAF_TEST(the shortest timeout of a batch counts) {
  limits.timeout = 10s;
  start(1);
  send_batch(1, 2, 1s);
  CAF_REQUIRE(handler->began(1));
  pass(2s);
  CAF_CHECK_EQUAL(handler->asked_to_stop(), 1u);
  end_calls(1);
}

CAF_TEST(a handler that does not stop loses its worker and another takes its place) {
  limits.timeout = 10s;
  limits.grace = 3s;
  start(1);
  send_batch(1, 2);
  CAF_REQUIRE(handler->began(1));
  pass(11s);
  CAF_CHECK(asked().done.empty());
  pass(3s);
  CAF_REQUIRE_EQUAL(asked().done.size(), 1u);
  CAF_CHECK_EQUAL(asked().done[0].rest.size(), 2u);
  CAF_CHECK_EQUAL(asked().done[0].idle, 1u);
  CAF_CHECK_EQUAL(status().abandoned, 1u);
  CAF_CHECK_EQUAL(status().active, 0u);
  CAF_REQUIRE_EQUAL(logged.size(), 1u);
  CAF_CHECK(logged[0].find("does not stop when asked") != std::string::npos);
  send_batch(2);
  CAF_REQUIRE(handler->began(2));
  CAF_CHECK_EQUAL(status().workers, 1u);
  CAF_CHECK_EQUAL(asked().done.size(), 1u);
  handler->end(2);
  CAF_REQUIRE(eventually([&] { return dropped->load() == 2; }));
  consume_messages();
  CAF_CHECK_EQUAL(asked().done.size(), 2u);
}

CAF_TEST(more workers ask for more and none means no limit) {
  start(1);
  CAF_CHECK(ask<ack>(pool, set_max_workers{4})->value);
  CAF_REQUIRE_EQUAL(asked().demands.size(), 2u);
  CAF_CHECK_EQUAL(asked().demands[1].idle, 3u);
  CAF_CHECK_EQUAL(status().max_workers, 4);
  CAF_CHECK(ask<ack>(pool, set_max_workers{-1})->value);
  CAF_CHECK_EQUAL(status().max_workers, 0);
  CAF_REQUIRE_EQUAL(asked().demands.size(), 3u);
  CAF_CHECK_GREATER(asked().demands[2].idle, 0u);
  CAF_CHECK(ask<ack>(pool, set_max_workers{1})->value);
  CAF_CHECK_EQUAL(asked().demands.size(), 3u);
}

CAF_TEST(fewer workers end what is idle at once) {
  limits.worker_idle = 1h;
  start(3);
  for (const std::uint64_t token : {1u, 2u, 3u}) send_batch(token);
  CAF_REQUIRE(handler->began(3));
  end_calls(2);
  CAF_CHECK(ask<ack>(pool, set_max_workers{1})->value);
  CAF_CHECK_EQUAL(status().workers, 1u);
  CAF_CHECK_EQUAL(status().active, 1u);
  end_calls(1);
  CAF_CHECK_EQUAL(status().workers, 1u);
}

CAF_TEST(an idle pool stops at once and hands back what still comes) {
  start(2);
  const auto stopped = ask<pool_status>(pool, stop_pool{5s});
  CAF_REQUIRE(stopped->value);
  CAF_CHECK_EQUAL(stopped->value->active, 0u);
  send_batch(9, 2);
  CAF_REQUIRE_EQUAL(asked().done.size(), 1u);
  CAF_CHECK(asked().done[0].handed_back);
  CAF_CHECK_EQUAL(asked().done[0].rest.size(), 2u);
  CAF_CHECK_EQUAL(asked().done[0].idle, 0u);
  CAF_CHECK(ask<pool_status>(pool, stop_pool{5s})->value);
  CAF_CHECK_EQUAL(timers(), 0u);
}

CAF_TEST(a pool that stops waits for its calls and hands back what no worker has) {
  start(1);
  send_batch(1);
  CAF_REQUIRE(handler->began(1));
  send_batch(2);
  const auto stopped = ask<pool_status>(pool, stop_pool{5s});
  CAF_CHECK(!*stopped);
  CAF_REQUIRE_EQUAL(asked().done.size(), 1u);
  CAF_CHECK_EQUAL(asked().done[0].token, 2u);
  CAF_CHECK(asked().done[0].handed_back);
  end_calls(1);
  CAF_REQUIRE_EQUAL(asked().done.size(), 2u);
  CAF_CHECK(!asked().done[1].handed_back);
  CAF_CHECK(asked().done[1].rest.empty());
  CAF_CHECK_EQUAL(asked().done[1].idle, 0u);
  CAF_CHECK(stopped->value);
  CAF_CHECK_EQUAL(handler->asked_to_stop(), 0u);
}

CAF_TEST(a pool that stops asks its calls at the deadline and then gives up) {
  start(1);
  send_batch(1);
  CAF_REQUIRE(handler->began(1));
  const auto stopped = ask<pool_status>(pool, stop_pool{2s});
  pass(1'900ms);
  CAF_CHECK_EQUAL(handler->asked_to_stop(), 0u);
  pass(100ms);
  CAF_CHECK_EQUAL(handler->asked_to_stop(), 1u);
  CAF_CHECK(!*stopped);
  pass(300ms);
  CAF_REQUIRE(stopped->value);
  CAF_CHECK_EQUAL(stopped->value->active, 1u);
  CAF_CHECK_EQUAL(timers(), 0u);
}

CAF_TEST(a stop with the longest timeout there is waits) {
  start(1);
  send_batch(1);
  CAF_REQUIRE(handler->began(1));
  const auto stopped = ask<pool_status>(pool, stop_pool{ms::max()});
  pass(1h, 10min);
  CAF_CHECK(!*stopped);
  CAF_CHECK_EQUAL(handler->asked_to_stop(), 0u);
  end_calls(1);
  CAF_CHECK(stopped->value);
}

CAF_TEST(workers that could not start are tried again every second and none is forgotten) {
  start(3);
  threads_refused = 4;
  send_batch(1);  // no thread
  send_batch(2);  // neither
  CAF_CHECK_EQUAL(threads_refused.load(), 2);
  CAF_CHECK_EQUAL(logged.size(), 2u);
  CAF_CHECK(logged[0].find("no more threads") != std::string::npos);
  pass(2s);
  CAF_CHECK_EQUAL(threads_refused.load(), 0);
  pass(1s);
  CAF_REQUIRE(handler->began(2));
  CAF_CHECK_EQUAL(status().workers, 2u);
  end_calls(2);
  CAF_CHECK_EQUAL(asked().done.size(), 2u);
}

CAF_TEST(a tick that nobody waits for changes nothing) {
  limits.timeout = 10s;
  start(1);
  send_batch(1);
  CAF_REQUIRE(handler->began(1));
  const auto before = timers();
  for (int i = 0; i < 3; ++i) tell(pool, pool_tick{});
  CAF_CHECK_EQUAL(timers(), before);
  end_calls(1);
}

CAF_TEST(timers do not pile up behind a far one) {
  limits.timeout = 1h;
  limits.worker_idle = 100ms;
  start(2);
  std::size_t most = 0;
  for (std::uint64_t i = 0; i < 50; ++i) {
    send_batch(2 * i + 1);
    send_batch(2 * i + 2);
    CAF_REQUIRE(handler->began(2 * i + 2));
    end_calls(2);
    pass(100ms);
    CAF_REQUIRE_EQUAL(status().workers, 1u);
    most = std::max(most, timers());
  }
  CAF_CHECK_LESS_OR_EQUAL(most, 3u);
}

CAF_TEST(a pool that is killed leaves its calls alone) {
  start(1);
  send_batch(1);
  CAF_REQUIRE(handler->began(1));
  kill(pool);
  CAF_CHECK_EQUAL(handler->asked_to_stop(), 1u);
  handler->end(1);
  CAF_CHECK(eventually([&] { return dropped->load() == 1; }));
  consume_messages();
  CAF_CHECK(asked().done.empty());
}

CAF_TEST(a remote pool renews its leases at a third while a call runs) {
  kind = pool_kind::remote;
  start(1);
  send_batch(7);  // its lease lasts 30 s
  CAF_REQUIRE(handler->began(1));
  pass(29s);
  CAF_REQUIRE_EQUAL(asked().renewals.size(), 2u);
  CAF_CHECK(asked().renewals[0].tokens == std::vector<std::uint64_t>{7});
  CAF_CHECK_EQUAL(asked().renewals[0].pool, 5u);
  end_calls(1);
  const auto before = asked().renewals.size();
  pass(30s);
  CAF_CHECK_EQUAL(asked().renewals.size(), before);
  CAF_CHECK_EQUAL(timers(), 0u);
}

CAF_TEST_FIXTURE_SCOPE_END()
