#include "nodes/http/server/door.hpp"

#include "nodes/http/server/session.hpp"

namespace caravan::http {

namespace {

using toolbox::admission;
using toolbox::priority;

const toolbox::clock& the_clock() { return toolbox::real_clock::shared(); }

toolbox::codel_options core_options(const overload_options& o) {
  toolbox::codel_options out;
  out.max_in_flight = o.max_in_flight;
  out.max_waiting = o.max_waiting;
  out.target = o.target_wait;
  return out;
}

}  // namespace

door::door(std::shared_ptr<io_loop> loop, const overload_options& o)
    : core_(core_options(o)), loop_(std::move(loop)), timer_(loop_->io) {}

door::decision door::arrive(priority level, waiter w) {
  const std::lock_guard guard{mutex_};
  const auto verdicts = core_.arrive(level, the_clock().now());
  const auto mine = verdicts.front();
  // While the server stops nobody is made to wait for a place that may never be free.
  if (closed_ && mine.what == admission::wait) {
    (void)core_.give_up(mine.who, the_clock().now());
    return {admission::refused, mine.who};
  }
  if (mine.what == admission::wait) waiting_.emplace(mine.who, std::move(w));
  tell({verdicts.begin() + 1, verdicts.end()});
  return {mine.what, mine.who};
}

void door::give_up(ticket number) {
  const std::lock_guard guard{mutex_};
  if (waiting_.erase(number) > 0) (void)core_.give_up(number, the_clock().now());
}

void door::leave() {
  const std::lock_guard guard{mutex_};
  tell(core_.leave(the_clock().now()));
}

void door::close() {
  const std::lock_guard guard{mutex_};
  closed_ = true;
  std::vector<toolbox::codel_core::verdict> all;
  for (const auto& [number, w] : waiting_) {
    (void)core_.give_up(number, the_clock().now());
    all.push_back({number, admission::refused});
  }
  tell(all);
  (void)loop_->post([me = shared_from_this()] { me->timer_.cancel(); });
}

overload_statistics door::statistics() const {
  const std::lock_guard guard{mutex_};
  const auto s = core_.statistics();
  return {s.in_flight, s.waiting, s.admitted, s.refused_full, s.refused_late, core_.overloaded()};
}

void door::tell(const std::vector<toolbox::codel_core::verdict>& all) {
  for (const auto& v : all) {
    auto found = waiting_.extract(v.who);
    if (!found) continue;
    auto& w = found.mapped();
    if (v.what == admission::go) {
      // The place travels with the message, so that it is free again also when the session is gone meanwhile.
      (void)w.loop->post(
          [who = std::move(w.who), request = w.request, p = std::make_shared<place>(shared_from_this())] {
            if (const auto s = who.lock()) s->admitted(request, p);
          });
    } else {
      (void)w.loop->post([who = std::move(w.who), request = w.request] {
        if (const auto s = who.lock()) s->turned_away(request);
      });
    }
  }
  set_timer();
}

void door::set_timer() {
  const auto due = closed_ ? std::nullopt : core_.next_tick();
  // One that goes off too early looks and sets itself anew.
  if (!due || (alarm_ && *alarm_ <= *due)) return;
  alarm_ = due;
  (void)loop_->post([weak = weak_from_this(), at = *due] {
    const auto me = weak.lock();
    if (!me) return;
    me->timer_.expires_at(at);
    me->timer_.async_wait([weak](boost::system::error_code ec) {
      const auto still = weak.lock();
      if (!ec && still) still->on_timer();
    });
  });
}

void door::on_timer() {
  const std::lock_guard guard{mutex_};
  alarm_.reset();
  tell(core_.tick(the_clock().now()));
}

}  // namespace caravan::http
