#include "actors/event/event_function.hpp"

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace caravan {

// Shared with the thread, which may outlive the rest when the function itself ends its subscription.
struct event_function::work {
  std::function<void(const event&)> function;
  std::function<void(const std::string&)> complain;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<event_ptr> batch;
  bool closed = false;
  std::shared_ptr<event_door> door;
  event_subscriber_id id = 0;
  std::uint64_t thrown = 0;  ///< the thread's own
  std::thread thread;

  void run() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [&] { return closed || !batch.empty(); });
      if (closed) return;
      auto some = std::exchange(batch, {});
      lock.unlock();
      for (const auto& e : some) {
        call(e->what);
        const std::lock_guard look(mutex);
        if (closed) return;
      }
      door->ready(id);
      lock.lock();
    }
  }

  void call(const event& e) {
    std::string what = "something that is no std::exception";
    try {
      return function(e);
    } catch (const std::exception& x) {
      what = x.what();
    } catch (...) {
    }
    // Told seldom: it may throw each time.
    ++thrown;
    if ((thrown & (thrown - 1)) != 0) return;
    complain("a subscriber's function threw for an event \"" + e.topic + "\": " + what + " (" + std::to_string(thrown) +
             (thrown == 1 ? " time)" : " times so far)"));
  }
};

event_function::event_function(std::shared_ptr<event_door> door, std::function<void(const event&)> function,
                               std::function<void(const std::string&)> complain)
    : work_(std::make_shared<work>()) {
  work_->door = std::move(door);
  work_->function = std::move(function);
  work_->complain = std::move(complain);
  work_->thread = std::thread([w = work_] { w->run(); });
}

event_function::~event_function() { close(); }

void event_function::begin(event_subscriber_id id) {
  const std::lock_guard lock(work_->mutex);
  work_->id = id;
}

event_receiver::next event_function::take(const std::string&, event_core::handed some) {
  {
    const std::lock_guard lock(work_->mutex);
    if (work_->closed) return next::gone;
    if (some.events.empty()) return next::ready;
    work_->batch = std::move(some.events);
  }
  work_->changed.notify_one();
  return next::will_tell;
}

void event_function::close() {
  std::thread thread;
  {
    const std::lock_guard lock(work_->mutex);
    work_->closed = true;
    thread.swap(work_->thread);
  }
  work_->changed.notify_one();
  if (!thread.joinable()) return;
  if (thread.get_id() == std::this_thread::get_id())
    thread.detach();
  else
    thread.join();
}

}  // namespace caravan
