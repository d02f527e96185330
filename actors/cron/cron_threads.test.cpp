#define CAF_SUITE cron_threads
#include "actors/cron/cron_threads.hpp"

#include <condition_variable>
#include <latch>
#include <map>
#include <mutex>
#include <stdexcept>

#include "caf/test/unit_test.hpp"

using namespace caravan;
using namespace std::chrono_literals;

namespace {

cron_run run_of(const std::string& task, std::uint64_t token) {
  return {task, token, task + "#" + std::to_string(token), cron_trigger::schedule, {}, {}};
}

/// What came back, by token.
class answers {
public:
  cron_runs::on_ended taker() {
    return [this](const std::string&, std::uint64_t token, cron_result&& r) {
      const std::lock_guard lock(mutex_);
      got_[token] = std::move(r);
      came_.notify_all();
    };
  }
  cron_result wait(std::uint64_t token) {
    std::unique_lock lock(mutex_);
    came_.wait(lock, [&] { return got_.contains(token); });
    return got_[token];
  }
  std::size_t size() {
    const std::lock_guard lock(mutex_);
    return got_.size();
  }

private:
  std::mutex mutex_;
  std::condition_variable came_;
  std::map<std::uint64_t, cron_result> got_;
};

/// Ends when it is asked to.
cron_result until_stopped(const cron_run&, const cron_call& call) {
  std::mutex mutex;
  std::condition_variable_any asked;
  std::unique_lock lock(mutex);
  asked.wait(lock, call.stop, [] { return false; });
  return {cron_outcome::error, "was asked"};
}

}  // namespace

CAF_TEST(what a function answers or throws is told) {
  answers got;
  cron_threads threads;
  CAF_CHECK(threads.start(run_of("a", 1), {[](auto&, auto&) {
                            return cron_result{cron_outcome::finished, "well"};
                          }},
                          got.taker()));
  CAF_CHECK(threads.start(run_of("b", 2), {[](auto&, auto&) -> cron_result { throw std::runtime_error("no luck"); }},
                          got.taker()));
  CAF_CHECK(threads.start(run_of("c", 3), {[](auto&, auto&) -> cron_result { throw 42; }}, got.taker()));
  CAF_CHECK_EQUAL(got.wait(1).message, "well");
  CAF_CHECK_EQUAL(got.wait(2).message, "it threw: no luck");
  CAF_CHECK(got.wait(3).outcome == cron_outcome::error);
}

CAF_TEST(a timeout trips the stop token and what is answered then has failed) {
  answers got;
  cron_threads threads;
  CAF_CHECK(threads.start(run_of("a", 1), {until_stopped, 20ms}, got.taker()));
  const auto r = got.wait(1);
  CAF_CHECK(r.outcome == cron_outcome::error);
  CAF_CHECK_EQUAL(r.message, "timed out after 20 ms: was asked");
  // The watch ended with it, and begins anew.
  CAF_CHECK(threads.start(run_of("a", 2), {until_stopped, 20ms}, got.taker()));
  CAF_CHECK(got.wait(2).outcome == cron_outcome::error);
}

CAF_TEST(only the run that is meant is asked to stop and it counts as cancelled) {
  answers got;
  cron_threads threads;
  CAF_CHECK(threads.start(run_of("a", 1), {until_stopped}, got.taker()));
  CAF_CHECK(threads.start(run_of("a", 2), {until_stopped}, got.taker()));
  threads.ask_stop("b", 1);
  threads.ask_stop("a", 2);
  CAF_CHECK(got.wait(2).outcome == cron_outcome::cancelled);
  CAF_CHECK_EQUAL(got.size(), 1u);
  threads.ask_stop("a", 1);
  CAF_CHECK(got.wait(1).outcome == cron_outcome::cancelled);
}

CAF_TEST(the end waits for what is bounded and leaves the others alone) {
  answers got;
  auto threads = std::make_unique<cron_threads>();
  auto gate = std::make_shared<std::latch>(1);
  auto gone = std::make_shared<std::latch>(1);
  std::atomic<bool> bounded_ended{false};
  CAF_CHECK(threads->start(run_of("stubborn", 1), {[gate, gone](auto&, auto&) {
                             gate->wait();
                             gone->count_down();
                             return cron_result{};
                           }},
                           got.taker()));
  CAF_CHECK(threads->start(run_of("bounded", 2),
                           {[&](const cron_run& r, const cron_call& c) {
                              auto out = until_stopped(r, c);
                              bounded_ended = true;
                              return out;
                            },
                            0ms, true},
                           got.taker()));
  CAF_CHECK_EQUAL(threads->close(), 1u);
  CAF_CHECK(bounded_ended);
  CAF_CHECK(!threads->start(run_of("late", 3), {until_stopped}, got.taker()));
  threads.reset();
  gate->count_down();
  gone->wait();
  CAF_CHECK_EQUAL(got.size(), 0u);
}
