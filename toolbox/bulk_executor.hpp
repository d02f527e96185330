#pragma once

/// Collects things and hands them on so many at a time, or as many as there are once an interval.
///
///   toolbox::bulk_executor<row> rows{[&](std::vector<row> batch) { database.insert(batch); }, {.tasks = 100}};
///   rows.add(row{...});
///   rows.wait();                                 // all inserted
///
/// Threads, errors and the rest: as periodical_executor.hpp says. Defaults: 1000 tasks, 1 s.

#include <chrono>
#include <cstddef>
#include <functional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "toolbox/periodical_executor.hpp"

namespace caravan::toolbox {

struct bulk_options {
  std::size_t tasks = 1000;
  std::chrono::nanoseconds interval = std::chrono::seconds{1};
};

namespace detail {

template <class Task>
struct bulk_container {
  std::function<void(std::vector<Task>)> hand_on;
  std::size_t most;
  std::vector<Task> tasks;

  bool add(Task task) {
    tasks.push_back(std::move(task));
    return tasks.size() >= most;
  }
  std::vector<Task> remove_all() { return std::exchange(tasks, {}); }
  [[nodiscard]] bool is_empty(const std::vector<Task>& batch) const { return batch.empty(); }
  void execute(std::vector<Task> batch) { hand_on(std::move(batch)); }
};

}  // namespace detail

template <class Task>
class bulk_executor {
public:
  explicit bulk_executor(std::function<void(std::vector<Task>)> execute, bulk_options options = {},
                         const clock& time = real_clock::shared())
      : executor_(options.interval, {check(std::move(execute), options), options.tasks, {}}, time) {}

  void add(Task task) { executor_.add(std::move(task)); }
  bool flush() { return executor_.flush(); }
  void wait() { executor_.wait(); }

private:
  static auto check(std::function<void(std::vector<Task>)> execute, const bulk_options& options) {
    if (!execute) throw std::invalid_argument("bulk_executor: a function is needed");
    if (options.tasks == 0) throw std::invalid_argument("bulk_executor: a batch holds at least one task");
    return execute;
  }
  periodical_executor<detail::bulk_container<Task>> executor_;
};

}  // namespace caravan::toolbox
