#pragma once

/// Collects things and hands them on when together they have a size, or as many as there are once an interval.
///
///   using texts = std::vector<std::string>;
///   toolbox::chunk_executor<std::string> upload{[&](texts parts) { send(parts); }, {.bytes = 4096}};
///   upload.add(text, text.size());
///   upload.wait();                               // all sent
///
/// A batch is handed on as soon as its sizes reach `bytes`; it exceeds that by less than the last thing added.
///
/// Threads, errors and the rest: as periodical_executor.hpp says. Defaults: 1 MiB, 1 s. Units: bytes, or whatever the
/// sizes given to add are.

#include <chrono>
#include <cstddef>
#include <functional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "toolbox/periodical_executor.hpp"

namespace caravan::toolbox {

struct chunk_options {
  std::size_t bytes = std::size_t{1} << 20;
  std::chrono::nanoseconds interval = std::chrono::seconds{1};
};

namespace detail {

template <class Task>
struct chunk_container {
  std::function<void(std::vector<Task>)> hand_on;
  std::size_t most;
  std::vector<Task> tasks;
  std::size_t size = 0;

  bool add(std::pair<Task, std::size_t> sized) {
    tasks.push_back(std::move(sized.first));
    size += sized.second;
    return size >= most;
  }
  std::vector<Task> remove_all() {
    size = 0;
    return std::exchange(tasks, {});
  }
  [[nodiscard]] bool is_empty(const std::vector<Task>& batch) const { return batch.empty(); }
  void execute(std::vector<Task> batch) { hand_on(std::move(batch)); }
};

}  // namespace detail

template <class Task>
class chunk_executor {
public:
  explicit chunk_executor(std::function<void(std::vector<Task>)> execute, chunk_options options = {},
                          const clock& time = real_clock::shared())
      : executor_(options.interval, {check(std::move(execute), options), options.bytes, {}, 0}, time) {}

  void add(Task task, std::size_t size) { executor_.add(std::pair<Task, std::size_t>{std::move(task), size}); }
  bool flush() { return executor_.flush(); }
  void wait() { executor_.wait(); }

private:
  static auto check(std::function<void(std::vector<Task>)> execute, const chunk_options& options) {
    if (!execute) throw std::invalid_argument("chunk_executor: a function is needed");
    if (options.bytes == 0) throw std::invalid_argument("chunk_executor: a chunk must have a size");
    return execute;
  }
  periodical_executor<detail::chunk_container<Task>> executor_;
};

}  // namespace caravan::toolbox
