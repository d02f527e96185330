#include "actors/cron/cron_threads.hpp"

#include <condition_variable>
#include <list>
#include <mutex>
#include <system_error>
#include <thread>

namespace caravan {

using std::chrono::steady_clock;

namespace {

struct slot {
  std::string task;
  std::uint64_t token = 0;
  bool bounded = false;
  std::stop_source stop;
  steady_clock::time_point deadline = steady_clock::time_point::max();
  bool timed_out = false;
};

cron_result guarded(const cron_function& function, const cron_run& run, const cron_call& call) {
  try {
    return function(run, call);
  } catch (const std::exception& e) {
    return {cron_outcome::error, std::string("it threw: ") + e.what()};
  } catch (...) {
    return {cron_outcome::error, "it threw something that is no std::exception"};
  }
}

std::string seconds_text(std::chrono::milliseconds t) {
  return t.count() % 1000 == 0 ? std::to_string(t.count() / 1000) + " s" : std::to_string(t.count()) + " ms";
}

}  // namespace

struct cron_threads::shared {
  std::mutex mutex;
  std::condition_variable changed;
  std::list<slot> slots;
  std::size_t reporting = 0;
  bool closed = false;
  bool watching = false;

  // Trips stop tokens at their timeouts; there while some run has one.
  static void watch(const std::shared_ptr<shared>& self) {
    std::unique_lock lock(self->mutex);
    for (;;) {
      auto next = steady_clock::time_point::max();
      std::list<std::stop_source> due;
      for (auto& s : self->slots) {
        if (s.timed_out) continue;
        if (s.deadline <= steady_clock::now()) {
          s.timed_out = true;
          due.push_back(s.stop);
        } else {
          next = std::min(next, s.deadline);
        }
      }
      if (!due.empty()) {
        lock.unlock();  // callbacks of the token may take their time
        for (auto& source : due) source.request_stop();
        lock.lock();
        continue;
      }
      if (next == steady_clock::time_point::max()) break;
      self->changed.wait_until(lock, next);
    }
    self->watching = false;
    self->changed.notify_all();
  }

  static void carry_out(const std::shared_ptr<shared>& self, std::list<slot>::iterator mine, const cron_run& run,
                        const cron_work& work, const on_ended& ended) {
    const cron_call call{mine->stop.get_token(), mine->deadline};
    auto result = guarded(work.function, run, call);
    std::unique_lock lock(self->mutex);
    if (mine->timed_out || steady_clock::now() >= mine->deadline)
      result = {cron_outcome::error, "timed out after " + seconds_text(work.timeout) +
                                         (result.message.empty() ? "" : ": " + result.message)};
    else if (mine->stop.stop_requested() && result.outcome == cron_outcome::error)
      result.outcome = cron_outcome::cancelled;
    if (!self->closed) {
      ++self->reporting;
      lock.unlock();
      ended(run.task, run.token, std::move(result));
      lock.lock();
      --self->reporting;
    }
    self->slots.erase(mine);
    self->changed.notify_all();
  }
};

cron_threads::cron_threads() : shared_(std::make_shared<shared>()) {}
cron_threads::~cron_threads() { close(); }

bool cron_threads::start(const cron_run& run, const cron_work& work, on_ended ended) {
  const std::lock_guard lock(shared_->mutex);
  if (shared_->closed) return false;
  auto mine = shared_->slots.insert(shared_->slots.end(), slot{run.task, run.token, work.bounded, {}, {}, false});
  mine->deadline = work.timeout.count() > 0 ? steady_clock::now() + work.timeout : steady_clock::time_point::max();
  try {
    if (work.timeout.count() > 0 && !shared_->watching) {
      std::thread([self = shared_] { shared::watch(self); }).detach();
      shared_->watching = true;
    }
    std::thread([self = shared_, mine, run, work, ended = std::move(ended)] {
      shared::carry_out(self, mine, run, work, ended);
    }).detach();
  } catch (const std::system_error&) {
    shared_->slots.erase(mine);
    return false;
  }
  shared_->changed.notify_all();
  return true;
}

void cron_threads::ask_stop(const std::string& task, std::uint64_t token) {
  std::stop_source source{std::nostopstate};
  {
    const std::lock_guard lock(shared_->mutex);
    for (auto& s : shared_->slots)
      if (s.task == task && s.token == token) source = s.stop;
  }
  if (source.stop_possible()) source.request_stop();
}

std::size_t cron_threads::close() {
  std::list<std::stop_source> all;
  std::unique_lock lock(shared_->mutex);
  shared_->closed = true;
  for (auto& s : shared_->slots) all.push_back(s.stop);
  lock.unlock();
  for (auto& s : all) s.request_stop();
  lock.lock();
  shared_->changed.wait(lock, [this] {
    for (const auto& s : shared_->slots)
      if (s.bounded) return false;
    return shared_->reporting == 0;
  });
  // Nobody needs the watch any more: what is left was asked to stop.
  for (auto& s : shared_->slots) s.deadline = steady_clock::time_point::max();
  shared_->changed.notify_all();
  return shared_->slots.size();
}

}  // namespace caravan
