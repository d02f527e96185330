#include "actors/worker_pool/worker_threads.hpp"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <list>
#include <mutex>
#include <stop_token>
#include <thread>

namespace caravan {

namespace {

struct running_slot {
  running_call call;
  std::stop_source stop;
  bool abandoned = false;
};

}  // namespace

batch_result run_guarded(runner& handler, const batch& work, const run_context& ctx) {
  const auto failed = [&](const std::string& what) {
    return whole_batch(work.items->size(), item_outcome::kind::failed, what);
  };
  try {
    return handler.run(work, ctx);
  } catch (const std::bad_alloc&) {
    return failed("the handler ran out of memory");
  } catch (const std::exception& e) {
    return failed(std::string("the handler threw: ") + e.what());
  } catch (...) {
    return failed("the handler threw something that is no std::exception");
  }
}

struct worker_threads::shared {
  // Set while this thread reports: the report may drop the last handle of the pool, and so close it from in here.
  static inline thread_local const shared* reporting_to = nullptr;

  std::shared_ptr<runner> handler;
  std::chrono::milliseconds timeout;
  std::string node;
  on_ended ended;

  mutable std::mutex mutex;
  std::condition_variable work_came;
  std::condition_variable thread_left;
  std::deque<batch> shelf;
  std::list<running_slot> running;
  std::vector<std::uint64_t> stop_early;  ///< batches on the shelf whose calls are to begin with their stop asked
  std::size_t threads = 0;
  std::size_t retiring = 0;
  std::size_t reporting = 0;
  bool closed = false;

  // The thread owns a reference, so a handler that outlives the pool still has its ground.
  static void work_loop(const std::shared_ptr<shared>& self) {
    std::unique_lock lock(self->mutex);
    for (;;) {
      self->work_came.wait(lock, [&] { return self->closed || self->retiring > 0 || !self->shelf.empty(); });
      if (self->shelf.empty()) {
        if (self->closed) break;
        if (self->retiring > 0) {
          --self->retiring;
          break;
        }
        continue;
      }
      if (self->closed) break;
      if (!self->run_one(lock)) return;  // abandoned: it was counted out already
    }
    --self->threads;
    self->thread_left.notify_all();
  }

  bool run_one(std::unique_lock<std::mutex>& lock) {
    const batch work = std::move(shelf.front());
    shelf.pop_front();
    const auto begun = std::chrono::steady_clock::now();
    const auto slot = running.insert(running.end(), running_slot{{work.token, begun}, {}, false});
    if (std::erase(stop_early, work.token) > 0) slot->stop.request_stop();  // nobody listens yet
    run_context ctx{slot->stop.get_token(), std::chrono::steady_clock::time_point::max(), node};
    auto limit = timeout;
    for (const auto& r : *work.items)
      if (r.timeout.count() > 0) limit = limit.count() > 0 ? std::min(limit, r.timeout) : r.timeout;
    if (work.limit.count() > 0) limit = limit.count() > 0 ? std::min(limit, work.limit) : work.limit;
    if (limit.count() > 0) ctx.deadline = begun + limit;
    lock.unlock();
    auto rest = run_guarded(*handler, work, ctx);
    const auto took = std::chrono::steady_clock::now() - begun;
    lock.lock();
    const bool abandoned = slot->abandoned;
    running.erase(slot);
    if (abandoned) return false;
    if (!closed) {
      ++reporting;
      lock.unlock();
      reporting_to = this;
      ended({work.token, std::move(rest), took});
      reporting_to = nullptr;
      lock.lock();
      --reporting;
      thread_left.notify_all();
    }
    return true;
  }
};

worker_threads::worker_threads(std::shared_ptr<runner> handler, std::chrono::milliseconds timeout, std::string node,
                               on_ended ended)
  : shared_(std::make_shared<shared>()) {
  shared_->handler = std::move(handler);
  shared_->timeout = timeout;
  shared_->node = std::move(node);
  shared_->ended = std::move(ended);
}

worker_threads::~worker_threads() { close({}); }

bool worker_threads::start(std::size_t n) {
  for (; n > 0; --n) {
    {
      const std::lock_guard lock(shared_->mutex);
      if (shared_->closed) return true;
      ++shared_->threads;
    }
    try {
      std::thread([self = shared_] { shared::work_loop(self); }).detach();
    } catch (const std::exception&) {  // no thread, or no memory for its start
      const std::lock_guard lock(shared_->mutex);
      --shared_->threads;
      return false;
    }
  }
  return true;
}

void worker_threads::retire(std::size_t n) {
  const std::lock_guard lock(shared_->mutex);
  shared_->retiring += n;
  for (; n > 0; --n) shared_->work_came.notify_one();
}

void worker_threads::run(batch work) {
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->shelf.push_back(std::move(work));
  }
  shared_->work_came.notify_one();
}

std::vector<batch> worker_threads::take_unstarted() {
  const std::lock_guard lock(shared_->mutex);
  std::vector<batch> rest(std::make_move_iterator(shared_->shelf.begin()), std::make_move_iterator(shared_->shelf.end()));
  shared_->shelf.clear();
  shared_->stop_early.clear();
  return rest;
}

void worker_threads::ask_stop(std::uint64_t token) {
  std::stop_source stop(std::nostopstate);
  {
    const std::lock_guard lock(shared_->mutex);
    for (auto& slot : shared_->running)
      if (slot.call.token == token) stop = slot.stop;
    for (const auto& work : shared_->shelf)
      if (work.token == token) shared_->stop_early.push_back(token);
  }
  stop.request_stop();  // runs the handler's own callbacks: not under our lock
}

void worker_threads::abandon(std::uint64_t token) {
  const std::lock_guard lock(shared_->mutex);
  for (auto& slot : shared_->running) {
    if (slot.call.token != token || slot.abandoned) continue;
    slot.abandoned = true;
    --shared_->threads;
  }
}

std::vector<running_call> worker_threads::running() const {
  const std::lock_guard lock(shared_->mutex);
  std::vector<running_call> calls;
  calls.reserve(shared_->running.size());
  for (const auto& slot : shared_->running)
    if (!slot.abandoned) calls.push_back(slot.call);
  return calls;
}

std::size_t worker_threads::close(std::chrono::milliseconds patience) {
  std::unique_lock lock(shared_->mutex);
  shared_->closed = true;
  shared_->shelf.clear();
  shared_->work_came.notify_all();
  const std::size_t own = shared::reporting_to == shared_.get() ? 1 : 0;
  shared_->thread_left.wait_for(lock, patience, [&] { return shared_->threads <= own; });
  // Reports that are under way call into the pool's actor: it must still be there.
  shared_->thread_left.wait(lock, [&] { return shared_->reporting <= own; });
  const auto left = shared_->threads - std::min(shared_->threads, own);
  std::vector<std::stop_source> alone;
  for (auto& slot : shared_->running) alone.push_back(slot.stop);
  lock.unlock();
  for (auto& stop : alone) stop.request_stop();  // runs the handler's own callbacks: not under our lock
  return left;
}

}  // namespace caravan
