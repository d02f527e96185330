#include "actors/cron/cron_store_actor.hpp"

#include "messages/caf_error.hpp"

#include <caf/all.hpp>

#include <exception>

namespace caravan {

namespace {

using pointer = cron_store_actor::stateful_pointer<cron_store_state>;

// A throw would end the actor, and with it every task.
template <class Answer, class Call>
caf::result<Answer> ask(pointer self, Call call) {
  const auto guarded = [&]() -> expected<Answer> {
    try {
      return call(*self->state.store, self->state.clock->wall());
    } catch (const std::exception& e) {
      return error{errc::backend_failed, std::string("the cron store threw: ") + e.what()};
    } catch (...) {
      return error{errc::backend_failed, "the cron store threw something that is no std::exception"};
    }
  };
  auto answer = guarded();
  if (!answer) {
    self->state.health->set(answer.failure().text);
    return to_caf(answer.failure());
  }
  self->state.health->clear();
  return std::move(*answer);
}

}  // namespace

cron_store_actor::behavior_type cron_store_behavior(pointer self, std::shared_ptr<cron_store> store,
                                                    std::shared_ptr<trouble> health, const toolbox::clock* clock) {
  self->state.store = std::move(store);
  self->state.health = std::move(health);
  self->state.clock = clock;
  return {
      [self](const cron_open& x) {
        return ask<cron_view>(self, [&](auto& s, auto now) { return s.open(x.task, x.first_cursor, now); });
      },
      [self](const cron_claim& x) {
        return ask<cron_answer>(self, [&](auto& s, auto now) { return s.claim(x, now); });
      },
      [self](const cron_renewal& x) {
        return ask<cron_view>(self, [&](auto& s, auto now) { return s.renew(x.task, x.token, x.lease, now); });
      },
      [self](const cron_end& x) { return ask<cron_ended>(self, [&](auto& s, auto now) { return s.finish(x, now); }); },
      [self](const cron_pause& x) {
        return ask<cron_view>(self,
                              [&](auto& s, auto now) { return s.set_paused(x.task, x.paused, x.who, x.cursor, now); });
      },
  };
}

}  // namespace caravan
