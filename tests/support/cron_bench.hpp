#pragma once

/// One core and a store that answers at once, on a clock that the test moves.

#include "actors/cron/cron_core.hpp"
#include "integration/memory/memory_cron_store.hpp"

#include <memory>
#include <string>
#include <vector>

namespace caravan {

inline cron_task task_of(const std::string& name, const std::string& text, const std::string& zone = "UTC") {
  cron_task out;
  out.name = name;
  out.description = "Does " + name;
  if (!text.empty()) out.when = schedule::parse(text, {.zone = zone}).value();
  out.settings.name = name;
  out.settings.schedule = text;
  return out;
}

class cron_bench {
  // First, since its result is deduced.
  template <class F>
  auto with(F&& f) {
    cron_effects fx;
    auto out = f(fx);
    carry_out(fx);
    return out;
  }

public:
  explicit cron_bench(cron_time start, std::shared_ptr<cron_store> store = std::make_shared<memory_cron_store>(),
                      cron_core::options options = {.node = {"one", 1}})
      : now(start), core(std::move(options)), store_(std::move(store)) {}

  expected<void> add(cron_task task) {
    return with([&](cron_effects& fx) { return core.add(std::move(task), now, fx); });
  }
  void start() {
    with([&](cron_effects& fx) {
      core.start(now, fx);
      return 0;
    });
  }
  /// Moves the clock to each time the core wants to wake at. Runs end at once unless `hold`.
  void run_until(cron_time end) {
    while (now < end) {
      const auto wake = std::min(std::max(core.next_wake(now), now + std::chrono::milliseconds(1)), end);
      jump(wake);
    }
  }
  /// As if the clock were set, or the process had slept.
  void jump(cron_time to) {
    now = to;
    with([&](cron_effects& fx) {
      core.on_tick(now, fx);
      return 0;
    });
  }
  void end(std::uint64_t token, cron_outcome outcome = cron_outcome::finished, const std::string& message = {}) {
    for (const auto& run : started)
      if (run.token == token)
        with([&](cron_effects& fx) {
          core.on_run_ended(run.task, token, outcome, message, now, fx);
          return 0;
        });
  }
  void stop(std::chrono::milliseconds timeout) {
    with([&](cron_effects& fx) {
      core.stop(now + timeout, now, fx);
      return 0;
    });
  }
  expected<std::uint64_t> run_now(const std::string& task, const std::string& who) {
    return with([&](cron_effects& fx) { return core.run_now(task, who, now, fx); });
  }
  expected<std::uint64_t> skip_next(const std::string& task, const std::string& who) {
    return with([&](cron_effects& fx) { return core.skip_next(task, who, now, fx); });
  }
  expected<std::uint64_t> set_paused(const std::string& task, bool paused, const std::string& who) {
    return with([&](cron_effects& fx) { return core.set_paused(task, paused, who, now, fx); });
  }
  [[nodiscard]] cron_status status(const std::string& task) const {
    for (auto& s : core.list(now))
      if (s.name == task) return s;
    return {};
  }
  /// "12:00:00 12:05:00": the occurrences that began, in order.
  [[nodiscard]] std::string times() const {
    std::string out;
    for (const auto& run : started) out += (out.empty() ? "" : " ") + clock(run.occurrence);
    return out;
  }
  /// "no_node 3 12:00:00-12:10:00".
  [[nodiscard]] std::string misses() const {
    std::string out;
    for (const auto& r : records)
      if (r.miss != cron_miss::none)
        out += (out.empty() ? "" : ", ") + std::string(to_string(r.miss)) + " " + std::to_string(r.count) + " " +
               clock(r.occurrence) + (r.count > 1 ? "-" + clock(r.until) : "");
    return out;
  }
  static std::string clock(cron_instant at) {
    static const auto utc = schedule::parse("* * * * *", {.zone = "UTC"}).value();
    return utc.format(at).substr(11, 8);
  }

  cron_time now;
  cron_core core;
  bool hold = false;          ///< runs go on until `end`
  bool broken = false;        ///< every call of the store fails, and is not done
  bool answers_lost = false;  ///< every call is done, and its answer is lost
  std::vector<cron_run> started;
  std::vector<cron_run> cancelled;
  std::vector<cron_record> records;
  std::vector<cron_notice> notices;
  std::vector<cron_reply> replies;
  bool stopped = false;
  std::size_t calls = 0;

private:
  template <class Answer, class Call>
  expected<Answer> ask(Call&& call) {
    ++calls;
    if (broken) return error{errc::backend_failed, "the store is down"};
    expected<Answer> out = call();
    if (answers_lost) return error{errc::timed_out, "no answer"};
    return out;
  }

  void carry_out(cron_effects& fx) {
    stopped = stopped || fx.stopped;
    const auto take = [](auto& to, auto& from) { to.insert(to.end(), from.begin(), from.end()); };
    take(records, fx.records);
    take(notices, fx.notices);
    take(replies, fx.replies);
    take(cancelled, fx.cancel);
    take(started, fx.start);
    cron_effects more;
    for (const auto& x : fx.open)
      core.on_opened(x.task, ask<cron_view>([&] { return store_->open(x.task, x.first_cursor, now); }), now, more);
    for (const auto& x : fx.claims)
      core.on_claimed(x.task, ask<cron_answer>([&] { return store_->claim(x, now); }), now, more);
    for (const auto& x : fx.renew)
      core.on_renewed(x.task, ask<cron_view>([&] { return store_->renew(x.task, x.token, x.lease, now); }), now, more);
    for (const auto& x : fx.finish)
      core.on_finished(x.task, ask<cron_ended>([&] { return store_->finish(x, now); }), now, more);
    for (const auto& x : fx.pause)
      core.on_paused(x.task, ask<cron_view>([&] { return store_->set_paused(x.task, x.paused, x.who, x.cursor, now); }),
                     now, more);
    if (!hold)
      for (const auto& x : fx.start) core.on_run_ended(x.task, x.token, cron_outcome::finished, "", now, more);
    if (more.stopped || !more.open.empty() || !more.claims.empty() || !more.renew.empty() || !more.finish.empty() ||
        !more.pause.empty() || !more.start.empty() || !more.cancel.empty() || !more.records.empty() ||
        !more.notices.empty() || !more.replies.empty())
      carry_out(more);
  }

  std::shared_ptr<cron_store> store_;
};

}  // namespace caravan
