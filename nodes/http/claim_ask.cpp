#include "nodes/http/claim_ask.hpp"

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
void ask_once(caf::actor_system& system, const claim_pool_actor& whom, Message what, std::chrono::milliseconds patience,
              on_answer<Reply> then) {
  system.spawn([whom, patience, then = std::move(then), what = std::move(what)](caf::event_based_actor* self) {
    // The pool answers whatever it took; one that is gone already is told at once.
    self->request(whom, patience, what)
        .then([self, then](Reply& r) { then(std::move(r)), self->quit(); },
              [self, then](caf::error& e) { then(from_caf(e)), self->quit(); });
  });
}

}  // namespace

#define CARAVAN_ASK(message_type, reply_type)                                          \
  void ask(caf::actor_system& system, const claim_pool_actor& whom, message_type what, \
           std::chrono::milliseconds patience, on_answer<reply_type> then) {           \
    ask_once<reply_type>(system, whom, std::move(what), patience, std::move(then));    \
  }
CARAVAN_ASK(extend_claim, claim_extended)
CARAVAN_ASK(ack_claim, claim_acked)
CARAVAN_ASK(release_claim, claim_acked)
CARAVAN_ASK(get_claimers, claimer_list)
#undef CARAVAN_ASK

void ask_while(caf::actor_system& system, const claim_pool_actor& whom, open_claim what, std::function<bool()> left,
               on_answer<claim_granted> then) {
  system.spawn([whom, what = std::move(what), left = std::move(left),
                then = std::move(then)](caf::event_based_actor* self) -> caf::behavior {
    const auto done = std::make_shared<bool>(false);
    const auto tell = [self, done, then](expected<claim_granted> x) {
      if (!std::exchange(*done, true)) then(std::move(x));
      self->quit();
    };
    self->request(whom, what.wait + ask_patience, what)
        .then(
            [tell, self, left, whom](claim_granted& g) {
              if (!g.jobs.empty() && left()) self->send(whom, release_claim{g.lease});
              tell(std::move(g));
            },
            [tell](caf::error& e) { tell(from_caf(e)); });
    if (what.wait > 0ms) self->delayed_send(self, look, look_atom::value);
    const auto gone = std::make_shared<bool>(false);
    return {[=](look_atom) {
      if (*done || *gone) return;
      if (!left()) return self->delayed_send(self, look, look_atom::value);
      // The pool answers, either without jobs or with some that were under way: those go back, see above.
      *gone = true;
      self->send(whom, cancel_claim{what.request});
    }};
  });
}

}  // namespace caravan::http
