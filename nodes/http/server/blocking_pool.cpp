#include "nodes/http/server/blocking_pool.hpp"

namespace caravan::http {

void blocking_pool::start(unsigned threads, std::size_t max_waiting) {
  const std::lock_guard guard{mutex_};
  max_waiting_ = max_waiting;
  running_ = true;
  for (unsigned i = 0; i < threads; ++i) threads_.emplace_back([this] { run(); });
}

bool blocking_pool::post(task& work) {
  {
    const std::lock_guard guard{mutex_};
    if (!running_ || waiting_.size() >= max_waiting_) return false;
    waiting_.push_back(std::move(work));
  }
  changed_.notify_one();
  return true;
}

void blocking_pool::stop() {
  std::deque<task> dropped;  // destroyed outside the lock: a dropped responder answers from its destructor
  std::vector<std::thread> threads;
  {
    const std::lock_guard guard{mutex_};
    running_ = false;
    dropped.swap(waiting_);
    threads.swap(threads_);
  }
  changed_.notify_all();
  for (auto& t : threads) t.join();
}

void blocking_pool::run() {
  for (;;) {
    task work;
    {
      std::unique_lock lock{mutex_};
      changed_.wait(lock, [this] { return !running_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      work = std::move(waiting_.front());
      waiting_.pop_front();
    }
    work();
  }
}

}  // namespace caravan::http
