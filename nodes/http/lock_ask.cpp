#include "nodes/http/lock_ask.hpp"

#include "messages/caf_error.hpp"

#include <caf/actor_system.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include <memory>

namespace caravan::http {

using namespace std::chrono_literals;

namespace {

constexpr auto look = 250ms;
using look_atom = caf::atom_constant<caf::atom("look")>;

template <class Reply, class Message>
void ask_once(caf::actor_system& system, const lock_manager_actor& whom, Message what,
              std::chrono::milliseconds patience, on_answer<Reply> then) {
  if (!whom) return then({errc::queue_closed, "the locks of this node are closed"});
  system.spawn([whom, patience, then = std::move(then), what = std::move(what)](caf::event_based_actor* self) {
    // The manager answers whatever it took; one that is gone already is told at once.
    self->request(whom, patience, what)
        .then([self, then](Reply& r) { then(std::move(r)), self->quit(); },
              [self, then](caf::error& e) { then(from_caf(e)), self->quit(); });
  });
}

}  // namespace

void ask(caf::actor_system& system, const lock_manager_actor& whom, release_lock what,
         std::chrono::milliseconds patience, on_answer<ack> then) {
  ask_once<ack>(system, whom, std::move(what), patience, std::move(then));
}
void ask(caf::actor_system& system, const lock_manager_actor& whom, extend_lock what,
         std::chrono::milliseconds patience, on_answer<lock_granted> then) {
  ask_once<lock_granted>(system, whom, std::move(what), patience, std::move(then));
}
void ask(caf::actor_system& system, const lock_manager_actor& whom, get_locks what, std::chrono::milliseconds patience,
         on_answer<lock_list> then) {
  ask_once<lock_list>(system, whom, std::move(what), patience, std::move(then));
}

void ask_while(caf::actor_system& system, const lock_manager_actor& whom, acquire_lock what, std::function<bool()> left,
               on_answer<lock_granted> then) {
  if (!whom) return then({errc::queue_closed, "the locks of this node are closed"});
  system.spawn([whom, what = std::move(what), left = std::move(left),
                then = std::move(then)](caf::event_based_actor* self) -> caf::behavior {
    const auto done = std::make_shared<bool>(false);
    const auto tell = [self, done, then](expected<lock_granted> x) {
      if (!std::exchange(*done, true)) then(std::move(x));
      self->quit();
    };
    self->request(whom, what.wait + ask_patience, what)
        .then(
            [tell, self, left, whom, key = what.key](lock_granted& g) {
              if (left()) self->send(whom, release_lock{key, g.value, false});
              tell(std::move(g));
            },
            [tell](caf::error& e) { tell(from_caf(e)); });
    if (what.wait > 0ms) self->delayed_send(self, look, look_atom::value);
    return {[=](look_atom) {
      if (!left()) return self->delayed_send(self, look, look_atom::value);
      self->send(whom, cancel_lock{what.request});
      tell({errc::conflict, "the client left while it waited"});
    }};
  });
}

}  // namespace caravan::http
