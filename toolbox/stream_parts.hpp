#pragma once

/// What stream.hpp is made of: where the values of a pipe come from, on the thread that asks or on others.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "toolbox/channel.hpp"
#include "toolbox/run_safe.hpp"

namespace caravan::toolbox::detail {

/// The type of a pipe's step is hidden here: `concat` joins pipes that were built differently.
template <class T>
class source {
public:
  virtual ~source() = default;
  virtual std::optional<T> next() = 0;
};

template <class T, class Pull>
class pulled final : public source<T> {
public:
  explicit pulled(Pull pull) : pull_(std::move(pull)) {}
  std::optional<T> next() override { return pull_(); }

private:
  Pull pull_;
};

/// Values that a thread writes into a channel.
template <class T>
class generated final : public source<T> {
public:
  template <class Body>
  static std::unique_ptr<source<T>> start_later(Body body, std::size_t ahead) {
    auto made = std::make_unique<generated>(ahead);
    // std::function copies; the body may be movable only.
    made->body_ = [shared = std::make_shared<Body>(std::move(body))](channel<T>& out) { (*shared)(out); };
    return made;
  }
  template <class Body>
  static std::unique_ptr<source<T>> start_now(Body body, std::size_t ahead) {
    auto made = std::make_unique<generated>(ahead);
    made->start([shared = std::make_shared<Body>(std::move(body))](channel<T>& out) { (*shared)(out); });
    return made;
  }

  explicit generated(std::size_t ahead) : values_(ahead) {}
  ~generated() override { values_.abandon(); }  // the thread, a member, is joined after this

  std::optional<T> next() override {
    if (body_) start(std::exchange(body_, nullptr));
    return values_.pop();
  }

private:
  void start(std::function<void(channel<T>&)> body) {
    thread_ = std::jthread{[this, body = std::move(body)] {
      try {
        body(values_);
        values_.close();
      } catch (...) {
        values_.fail(std::current_exception());
      }
    }};
  }

  channel<T> values_;
  std::function<void(channel<T>&)> body_;
  std::jthread thread_;
};

/// Several threads that take values from the pipe before, one at a time, and write what they make of them.
template <class U, class In, class Work>
class worked final : public source<U> {
public:
  static std::unique_ptr<source<U>> start_later(In in, Work work, int workers) {
    return std::make_unique<worked>(std::move(in), std::move(work), static_cast<std::size_t>(workers));
  }

  worked(In in, Work work, std::size_t workers)
      : in_(std::move(in)), work_(std::move(work)), workers_(workers), values_(std::min<std::size_t>(workers, 64)) {}
  ~worked() override {
    values_.abandon();
    for (;;) {
      std::vector<std::jthread> batch;
      {
        const std::lock_guard guard{mutex_};
        stopped_ = true;
        batch.swap(threads_);
      }
      if (batch.empty()) return;
    }
  }

  std::optional<U> next() override {
    if (!std::exchange(begun_, true)) add_worker();
    return values_.pop();
  }

private:
  void add_worker() {
    const std::lock_guard guard{mutex_};
    if (stopped_ || started_ == workers_) return;
    ++running_;  // first: a thread that ends at once must not find itself the last one
    try {
      threads_.emplace_back([this] { run(); });
    } catch (...) {
      --running_;
      throw;
    }
    ++started_;
  }
  void run() {
    auto emit = [this](U value) { return values_.push(std::move(value)); };
    try {
      while (auto value = take()) {
        add_worker();  // somebody has to wait for the next one while this one is worked on
        run_safe([&] { work_(std::move(*value), emit); });
      }
    } catch (...) {
      const std::lock_guard guard{mutex_};
      error_ = std::current_exception();
    }
    // The last one to end says how it ended, after the values of all.
    if (--running_ == 0) {
      const std::lock_guard guard{mutex_};
      values_.fail(error_);
    }
  }
  auto take() {
    const std::lock_guard one_at_a_time{in_mutex_};
    if (ended_) return decltype(in_.next()){};
    try {
      auto value = in_.next();
      ended_ = !value || stopped_;
      return value;
    } catch (...) {
      ended_ = true;
      throw;
    }
  }

  std::mutex in_mutex_;
  In in_;
  bool ended_ = false;
  Work work_;
  const std::size_t workers_;
  channel<U> values_;
  std::mutex mutex_;
  std::exception_ptr error_;
  std::size_t started_ = 0;
  std::atomic<std::size_t> running_{0};
  std::atomic<bool> stopped_{false};
  bool begun_ = false;
  std::vector<std::jthread> threads_;
};

}  // namespace caravan::toolbox::detail
