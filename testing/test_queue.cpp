#include "testing/test_queue.hpp"

#include "actors/worker_pool/worker_pool_core.hpp"
#include "actors/worker_pool/worker_threads.hpp"
#include "integration/memory/memory_storage.hpp"
#include "messages/job_phases.hpp"
#include "nodes/actor_queue.hpp"

#include <algorithm>

namespace caravan::testing {

using namespace std::chrono_literals;

test_queue::test_queue(config::queue_settings settings, std::uint64_t id, std::shared_ptr<runner> handler,
                       std::uint64_t seed, surroundings& around)
    : settings_(std::move(settings)), id_(id), handler_(std::move(handler)), seed_(seed), around_(around) {
  memory_options o;
  o.queue_full_name = settings_.queue_full_name;
  o.unique = policy_of(settings_);
  o.idempotency_window = settings_.idempotency_window;
  o.clock = &around_.clock;
  store_ = std::make_shared<faulty_storage>(open_memory_storage(std::move(o)), settings_.name);
  start();
}

void test_queue::start() {
  const auto counts = store_->count();
  door_ = std::make_unique<intake>(
      store_,
      intake::limits{settings_.name, settings_.length, settings_.max_item_size, settings_.push_timeout,
                     settings_.unique},
      counts.waiting + counts.delayed + counts.ranked + counts.keyed + counts.held, [] {}, around_.clock);
  core_ = std::make_unique<queue_core>(settings_, counts, next_token_, seed_);
  core_->hold_back(true);
  fx_ = {};
  core_->on_start(now(), fx_);
  perform();
  if (handler_) attach_worker();
}

void test_queue::restart() {
  store_->mend();
  lost_answers = 0;
  crashing_calls = 0;
  ready_.clear();
  flushed_.clear();
  start();
}

void test_queue::attach_worker() {
  ++worker_;
  core_->on_attach(worker_, pool_kind::remote, now(), fx_);
  core_->on_demand({worker_, 1, 0}, now(), fx_);
  perform();
}

expected<void> test_queue::attach(std::shared_ptr<runner> handler, const std::string&) {
  if (handler_) return {errc::conflict, "queue \"" + name() + "\": has a handler already"};
  handler_ = std::move(handler);
  attach_worker();
  return {};
}

void test_queue::take() {
  (void)door_->adopt();
  door_->take(taken_);
  if (!taken_.empty()) core_->on_appended(taken_, now(), fx_);
}

/// Writes what was decided, in the order of the storekeeper. False: there was nothing.
bool test_queue::write() {
  auto fx = std::exchange(fx_, {});
  for (auto& out : fx.send) {
    next_token_ = std::max(next_token_, out.work.token + 1);
    ready_.push_back(std::move(out.work));
  }
  // The storage fails only while it is away, and then nothing is handed out that could be decided about.
  if (!fx.release.empty()) (void)store_->release(fx.release);
  if (!fx.move.empty()) (void)store_->update(fx.move);
  if (!fx.erase.empty()) (void)store_->erase(fx.erase, fx.low_water);
  if (!fx.move.empty() && !fx.release.empty()) (void)store_->release(fx.release);  // once more, as queue_shell does
  for (const auto state : fx.clear) (void)store_->clear(state, fx.clear_through);
  if (fx.room != 0) door_->add_room(fx.room);
  for (auto& f : fx.flushes) flushed_.insert_or_assign(f.flush, f.answer);
  if (fx.stopped) door_->close({errc::queue_closed, "queue \"" + name() + "\": is stopped"});
  for (const auto& l : fx.loads) {
    auto found = store_->read(l.state, l.after, l.max);
    if (found)
      core_->on_loaded(l.generation, l.state, std::move(*found), now(), fx_);
    else
      core_->on_load_failed(l.generation, now(), fx_);
  }
  return !fx.loads.empty();
}

void test_queue::perform() {
  while (write()) {
  }
}

bool test_queue::step() {
  core_->hold_back(store_->away);
  take();
  core_->on_tick(now(), fx_);
  perform();
  core_->hold_back(true);  // questions hand nothing out
  if (ready_.empty()) return false;
  const auto work = std::move(ready_.front());
  ready_.pop_front();
  call(work);
  return true;
}

void test_queue::call(const batch& work) {
  const auto begun = around_.clock.now();
  auto limit = settings_.timeout;
  for (const auto& r : *work.items)
    if (r.timeout > 0ms) limit = limit > 0ms ? std::min(limit, r.timeout) : r.timeout;
  std::stop_source stop;
  run_context ctx;
  ctx.stop = stop.get_token();
  if (limit > 0ms) ctx.deadline = begun + limit;
  ctx.node = "test";
  around_.in_handler = true;
  auto rest = run_guarded(*handler_, work, ctx);
  around_.in_handler = false;
  if (limit > 0ms && around_.clock.now() > ctx.deadline)
    rest = whole_batch(work.items->size(), item_outcome::kind::failed,
                       timeout_text(limit));
  if (crashing_calls > 0) {
    --crashing_calls;
    const auto more = crashing_calls;
    around_.crash();
    crashing_calls = more;
    return;
  }
  if (lost_answers > 0) {
    --lost_answers;
    return attach_worker();
  }
  take();
  core_->on_done({worker_, work.token, std::move(rest), false, 1, 0}, now(), fx_);
  perform();
}

std::optional<toolbox::steady_time> test_queue::next_wake() {
  core_->hold_back(store_->away);
  const auto wake = core_->next_wake(now());
  core_->hold_back(true);
  return wake;
}

std::string test_queue::trouble_text() const { return store_->away ? unreachable().text : std::string(); }

error test_queue::unreachable() const {
  return {errc::backend_failed, "queue \"" + name() + "\": its storage cannot be reached, as the test has asked for"};
}

expected<item_id> test_queue::push_one(item_draft draft) {
  if (auto ok = check_options(draft.options, name()); !ok) return ok.failure();
  auto r = to_record(std::move(draft), around_.clock.wall());
  return to_one_answer(name(), door_->push({&r, 1}, intake::when_full::refuse));
}

expected<std::vector<pushed>> test_queue::push(std::vector<item_draft> drafts) {
  for (const auto& d : drafts)
    if (auto ok = check_options(d.options, name()); !ok) return ok.failure();
  auto records = to_records(std::move(drafts), around_.clock.wall());
  return to_answers(door_->push(records, intake::when_full::refuse));
}

expected<bool> test_queue::has(const std::string& payload, const std::string& key) {
  const auto owner = store_->key_owner(digest_of(key.empty() ? payload : key));
  if (!owner) return owner.failure();
  return owner->has_value();
}

expected<queue_info> test_queue::info() {
  take();
  perform();
  queue_status st;
  st.name = name();
  st.phase = core_->phase();
  st.paused_until = core_->paused_until();
  st.counts = core_->counts();
  st.pools = handler_ ? 1 : 0;
  st.oldest_waiting = core_->oldest_waiting();
  st.trouble = trouble_text();
  st.owner = "test";
  pool_status p;
  p.node = "test";
  if (!handler_) return to_queue_info(*this, st, nullptr);
  p.handler = handler_->describe();
  p.workers = 1;
  p.active = around_.in_handler ? 1 : 0;
  p.max_workers = 1;
  return to_queue_info(*this, st, &p);
}

expected<void> test_queue::flush(std::chrono::milliseconds timeout) {
  if (around_.in_handler) return {errc::conflict, "queue \"" + name() + "\": a handler cannot wait for its own end"};
  take();
  if (timeout < 0ms) {
    core_->purge(record_state::waiting, now(), fx_);
    perform();
    return {};
  }
  const auto id = next_flush_++;
  core_->flush(id, now().steady + timeout, now(), fx_);
  perform();
  around_.wait(timeout, [&] { return flushed_.contains(id); });
  const auto found = flushed_.extract(id);
  if (found.empty()) return {errc::timed_out, "queue \"" + name() + "\": not empty yet"};
  return found.mapped();
}

expected<void> test_queue::pause(std::chrono::system_clock::time_point until) {
  const auto ok = core_->pause(std::chrono::floor<std::chrono::milliseconds>(until), now(), fx_);
  perform();
  return ok;
}
expected<void> test_queue::resume() {
  const auto ok = core_->resume(now(), fx_);
  if (ok) door_->open();
  perform();
  return ok;
}
expected<void> test_queue::drain() {
  door_->close({errc::queue_closed, "queue \"" + name() + "\": is draining and takes no more items"});
  take();
  const auto ok = core_->drain(now(), fx_);
  perform();
  return ok;
}

expected<std::size_t> test_queue::purge(std::string_view state) {
  const auto which = parse_state(state);
  if (!which) return which.failure();
  take();
  const auto n = core_->purge(*which, now(), fx_);
  perform();
  return n;
}

expected<void> test_queue::set_max_workers(int) {
  if (!handler_)
    return {errc::conflict,
            "queue \"" + name() + "\": has no handler on this node, so there are no workers to scale; set HANDLER"};
  return {};  // here handlers run one after another
}

expected<job_info> test_queue::find(item_id id) {
  take();
  perform();
  auto found = store_->find(id);
  if (!found) return found.failure();
  const bool kept = *found && (*found)->state == record_state::done;
  if (const auto f = core_->find_finished(id); f && !kept) return to_job_info(status_of(*f));
  if (!*found) return no_such_job(name(), id);
  return to_job_info(status_of(std::move(**found), core_->is_running(id), around_.clock.wall()));
}

expected<void> test_queue::cancel(item_id id) {
  take();
  auto found = store_->find(id);
  if (!found) return found.failure();
  if (!*found || core_->find_finished(id)) return no_such_job(name(), id);
  const auto ok = core_->cancel(std::move(**found), now(), fx_);
  perform();
  return ok;
}

}  // namespace caravan::testing
