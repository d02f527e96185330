#include "config/ini.hpp"
#include "config/read_settings.hpp"
#include "nodes/function_runner.hpp"
#include "testing/test_queue.hpp"

#include <caravan/testing.hpp>

#include <algorithm>

namespace caravan::testing {

using namespace std::chrono_literals;

namespace {
constexpr std::size_t most_calls_at_once = 100'000;
}

struct node::impl {
  explicit impl(node_options o) : options(std::move(o)) {
    auto parsed = config::parse_ini(options.config_text, "config_text");
    config::problems found = parsed.found;
    ini = std::move(parsed.content);
    (void)config::read_settings(ini, found);
    for (const auto& p : found)
      if (p.level == config::severity::error) throw exception({errc::invalid_argument, config::to_string(found)});
    around.clock.shift_wall(std::chrono::floor<std::chrono::milliseconds>(options.start) - around.clock.wall());
    around.wait = [this](std::chrono::milliseconds by, const std::function<bool()>& done) { wait(by, done); };
    around.crash = [this] {
      for (const auto& q : queues) q->restart();
    };
  }

  test_queue& find(std::string_view name) {
    for (const auto& q : queues)
      if (q->name() == name) return *q;
    throw exception({errc::not_found, "there is no queue \"" + std::string(name) + "\" in this test; create it first"});
  }

  std::size_t run() {
    std::size_t calls = 0;
    for (bool more = true; more;) {
      more = false;
      for (std::size_t i = 0; i < queues.size(); ++i) {  // a handler may open another
        if (!queues[i]->step()) continue;
        more = true;
        if (++calls > most_calls_at_once)
          throw exception({errc::conflict, "queue \"" + queues[i]->name() +
                                               "\": " + std::to_string(most_calls_at_once) +
                                               " handler calls and no end at one instant; some item is handed back or "
                                               "pushed again without a delay for ever"});
      }
    }
    return calls;
  }

  std::size_t wait(std::chrono::milliseconds by, const std::function<bool()>& done) {
    const auto end = around.clock.now() + by;
    std::size_t calls = run();
    while (!done() && around.clock.now() < end) {
      auto next = end;
      for (const auto& q : queues)
        if (const auto wake = q->next_wake()) next = std::min(next, *wake);
      // Wall-clock times are whole milliseconds: what is due within this one is due at its end.
      const auto step = std::chrono::ceil<std::chrono::milliseconds>(next - around.clock.now());
      around.clock.advance(std::clamp<std::chrono::nanoseconds>(step, 1ms, end - around.clock.now()));
      calls += run();
    }
    return calls;
  }

  const node_options options;
  config::ini ini;
  surroundings around;
  std::vector<std::shared_ptr<test_queue>> queues;
};

node::node(node_options options) : impl_(std::make_unique<impl>(std::move(options))) {}
node::~node() = default;

std::shared_ptr<queue_port> node::create(const std::string& name, uniqueness unique, raw_handler handler) {
  auto& w = *impl_;
  std::shared_ptr<runner> runner = handler ? make_function_runner(std::move(handler)) : nullptr;
  auto settings = config::read_queue_settings(w.ini, name, "/").value();
  if (unique != uniqueness::as_configured) settings.unique = unique == uniqueness::unique;
  for (const auto& q : w.queues) {
    if (q->name() != name) continue;
    if (q->settings().unique != settings.unique)
      throw exception({errc::conflict, "queue \"" + name + "\": is open already, with the other uniqueness"});
    if (runner) q->attach(std::move(runner), {}).value();
    return q;
  }
  const auto id = w.queues.size() + 1;
  w.queues.push_back(
      std::make_shared<test_queue>(std::move(settings), id, std::move(runner), w.options.seed + id, w.around));
  return w.queues.back();
}

std::shared_ptr<queue_port> node::find_queue(std::string_view name) const {
  for (const auto& q : impl_->queues)
    if (q->name() == name) return q;
  return nullptr;
}

std::chrono::system_clock::time_point node::now() const { return impl_->around.clock.wall(); }
std::size_t node::run() { return impl_->around.in_handler ? 0 : impl_->run(); }
bool node::run_one(std::string_view queue) { return !impl_->around.in_handler && impl_->find(queue).step(); }

std::size_t node::advance(std::chrono::milliseconds by) {
  if (by < 0ms) throw exception({errc::invalid_argument, "advance: time does not go back"});
  if (!impl_->around.in_handler) return impl_->wait(by, [] { return false; });
  impl_->around.clock.advance(by);
  return 0;
}

void node::fail_pushes(std::string_view queue, std::size_t n) { impl_->find(queue).faults().failing_appends = n; }
void node::lose_push_answers(std::string_view queue, std::size_t n) { impl_->find(queue).faults().losing_appends = n; }
void node::lose_handler_answers(std::string_view queue, std::size_t n) { impl_->find(queue).lost_answers = n; }
void node::crash_after_handlers(std::string_view queue, std::size_t n) { impl_->find(queue).crashing_calls = n; }
void node::cut_off(std::string_view queue, bool away) { impl_->find(queue).faults().away = away; }
void node::crash() {
  if (impl_->around.in_handler)
    throw exception({errc::conflict, "crash: not within a handler; ask for crash_after_handlers before"});
  impl_->around.crash();
}

}  // namespace caravan::testing
