#pragma once

/// A tool that works in the background needs a thread while there is work, and should not keep one when there is none.
/// `on_demand_thread` is the seat of such a thread: it is filled on demand, emptied when the thread leaves, and filled
/// again later. The owner's mutex guards it.
///
///   void add(job j) {
///     const std::lock_guard guard{mutex_};
///     jobs_.push_back(std::move(j));
///     thread_.ensure([this] { work(); });
///   }
///   void work() { std::unique_lock lock{mutex_}; ...; thread_.leave(); }   // leave() last, under the lock
///   ~owner() { tell_it_to_end(); thread_.join(); }                          // without the lock
///
/// Threads: ensure and leave under the owner's mutex, join without it. Errors: ensure throws std::system_error if the
/// system has no thread left; the seat stays empty and the next ensure tries again.

#include <thread>
#include <utility>

namespace caravan::toolbox {

class on_demand_thread {
public:
  on_demand_thread() = default;
  on_demand_thread(const on_demand_thread&) = delete;
  on_demand_thread& operator=(const on_demand_thread&) = delete;

  template <class Body>
  void ensure(Body body) {
    if (seated_) return;
    // The one before has left: it holds no lock any more and is about to end, so this join is short.
    if (thread_.joinable()) thread_.join();
    thread_ = std::thread{std::move(body)};
    id_ = thread_.get_id();
    seated_ = true;
  }
  void leave() noexcept { seated_ = false; }
  [[nodiscard]] bool seated() const noexcept { return seated_; }
  /// True on the thread that sits here.
  [[nodiscard]] bool is_me() const noexcept { return seated_ && id_ == std::this_thread::get_id(); }
  void join() {
    if (thread_.joinable()) thread_.join();
  }

private:
  std::thread thread_;
  std::thread::id id_;  // a copy: join() changes the thread's own without the lock
  bool seated_ = false;
};

}  // namespace caravan::toolbox
