#include "integration/http_client/target_guard.hpp"

#include "integration/process/handler_json.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <utility>

namespace caravan::http_client {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

namespace {

constexpr milliseconds refused_delay = 1s;  ///< the breaker lets one call pass each second

std::string percent(double share) { return std::to_string(std::lround(share * 100)) + " %"; }

}  // namespace

target_guard::target_guard(guard_options options) : options_(std::move(options)) {
  if (options_.breaker) {
    toolbox::breaker_options o;
    o.seed = options_.seed;
    breaker_ = std::make_unique<toolbox::breaker>(o, *options_.clock);
  }
  if (options_.shedder)
    shedder_ = std::make_unique<toolbox::shedder>(toolbox::shedder_options{},
                                                  options_.load ? options_.load : processor_load, *options_.clock);
}

target_guard::call::~call() {
  if (!told_ && ticket_) ticket_->accept(true);
}

void target_guard::call::succeeded() {
  told_ = true;
  if (pass_) pass_->succeed();
  if (!ticket_) return;
  ticket_->accept(true);
  if (of_->breaker_->refused_share() <= 0) of_->set_open(false, "calls succeed again");
}

void target_guard::call::failed() {
  told_ = true;
  if (pass_) pass_->fail();
  if (ticket_) ticket_->accept(false);
}

std::variant<target_guard::call, target_guard::refusal> target_guard::begin() {
  if (const auto left = pause_left(); left > 0ms) return refusal{reason::paused, restraint(), left};
  call c(*this);
  // The shedder first: what it refuses says nothing about the target.
  if (shedder_) {
    auto pass = shedder_->allow();
    if (!pass) {
      c.told_ = true;
      return refusal{reason::shedder, "not sent: this machine has more to do than it can (SHEDDER)", refused_delay};
    }
    c.pass_.emplace(std::move(*pass));
  }
  if (breaker_) {
    auto ticket = breaker_->allow();
    if (!ticket) {
      c.told_ = true;
      const auto text = "not sent: most calls of the last 10 s failed (BREAKER)";
      set_open(true, "most calls of the last 10 s failed: " + percent(breaker_->refused_share()) + " are not sent");
      return refusal{reason::breaker, text, refused_delay};
    }
    c.ticket_.emplace(std::move(*ticket));
  }
  return c;
}

void target_guard::pause(milliseconds length, int status) {
  if (length <= 0ms) return;
  bool is_new = false;
  {
    const std::lock_guard lock(mutex_);
    const auto now = options_.clock->now();
    const auto until = now + length;
    if (until <= paused_until_) return;
    is_new = paused_until_ <= now;
    paused_until_ = until;
    paused_by_ = status;
  }
  if (is_new) tell(target_change::paused, "it answered " + std::to_string(status), length);
}

milliseconds target_guard::pause_left() const {
  const std::lock_guard lock(mutex_);
  return std::max<milliseconds>(std::chrono::ceil<milliseconds>(paused_until_ - options_.clock->now()), 0ms);
}

std::string target_guard::restraint() const {
  if (const auto left = pause_left(); left > 0ms) {
    const std::lock_guard lock(mutex_);
    return "paused for another " + handlers::to_text(left) + ": it answered " + std::to_string(paused_by_) +
           " with Retry-After";
  }
  if (!breaker_) return {};
  const auto share = breaker_->refused_share();
  return share <= 0 ? "" : "the breaker is open: " + percent(share) + " of the calls are not sent";
}

void target_guard::tell(target_change what, const std::string& text, milliseconds length) const {
  if (options_.on_change) options_.on_change(what, text, length);
}

void target_guard::set_open(bool open, const std::string& text) {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(open_, open) == open) return;
  }
  tell(open ? target_change::opened : target_change::closed, text);
}

int processor_load() {
  static std::mutex mutex;
  static std::chrono::steady_clock::time_point read_at{};
  static std::array<std::uint64_t, 2> before{};  // busy, all
  static double load = 0;
  const std::lock_guard lock(mutex);
  const auto now = std::chrono::steady_clock::now();
  if (now - read_at < 250ms) return static_cast<int>(load);
  read_at = now;
  std::ifstream in("/proc/stat");
  std::string word;
  // user nice system idle iowait irq softirq steal
  std::array<std::uint64_t, 8> ticks{};
  if (!(in >> word) || word != "cpu") return static_cast<int>(load);
  for (auto& t : ticks)
    if (!(in >> t)) return static_cast<int>(load);
  std::uint64_t all = 0;
  for (const auto t : ticks) all += t;
  const std::array<std::uint64_t, 2> there{all - ticks[3] - ticks[4], all};
  const auto last = std::exchange(before, there);
  if (last[1] == 0 || there[1] <= last[1] || there[0] < last[0]) return static_cast<int>(load);
  const auto part = 1000.0 * static_cast<double>(there[0] - last[0]) / static_cast<double>(there[1] - last[1]);
  load += (part - load) / 4;
  return static_cast<int>(load);
}

}  // namespace caravan::http_client
