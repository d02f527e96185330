#include "actors/store/store_actor.hpp"

#include "messages/caf_error.hpp"

#include <caf/all.hpp>

#include <exception>

namespace caravan {

using namespace std::chrono_literals;

namespace {

using store_pointer = store_actor::stateful_pointer<store_state>;

// A throw would end the actor, and with it the queue's memory of what is to be written.
template <class Call>
auto guarded(Call call) -> decltype(call()) {
  try {
    return call();
  } catch (const std::exception& e) {
    return error{errc::backend_failed, std::string("the storage threw: ") + e.what()};
  } catch (...) {
    return error{errc::backend_failed, "the storage threw something that is no std::exception"};
  }
}

expected<void> carry_out(storage& store, const store_changes& c) {
  if (!c.move.empty())
    if (auto ok = store.update(c.move); !ok) return ok;
  if (!c.erase.empty())
    if (auto ok = store.erase(c.erase, c.low_water); !ok) return ok;
  if (!c.release.empty())
    if (auto ok = store.release(c.release); !ok) return ok;
  for (const auto state : c.clear)
    if (auto ok = store.clear(state, c.clear_through); !ok) return ok.failure();
  return {};
}

void set_sick(store_pointer self, const std::string& text) {
  self->state.sick = true;
  self->state.health->set(text);
}

void set_well(store_pointer self) {
  if (std::exchange(self->state.sick, false)) self->state.health->clear();
}

// Everything that waits, in order, until one fails.
void work_off(store_pointer self) {
  auto& s = self->state;
  while (!s.waiting.empty() && s.waiting.front()()) s.waiting.pop_front();
  if (s.waiting.empty() || s.retrying) return;
  s.retrying = true;
  self->delayed_send(self, 1s, store_retry{});
}

void in_order(store_pointer self, std::function<bool()> step) {
  auto& s = self->state;
  s.waiting.push_back(std::move(step));
  if (s.waiting.size() == 1) work_off(self);
}

}  // namespace

store_actor::behavior_type store_behavior(store_pointer self, std::shared_ptr<storage> store, std::shared_ptr<intake> door,
                                          std::shared_ptr<trouble> health) {
  self->state.store = std::move(store);
  self->state.door = std::move(door);
  self->state.health = std::move(health);
  return {
    [self](store_changes& changes) -> caf::result<ack> {
      auto promise = self->make_response_promise<ack>();
      in_order(self, [self, promise, changes = std::move(changes)]() mutable {
        auto& s = self->state;
        const auto ok = guarded([&] { return carry_out(*s.store, changes); });
        if (!ok && ok.failure().code == errc::backend_failed) {
          set_sick(self, ok.failure().text);
          return false;
        }
        if (ok) {
          set_well(self);
          promise.deliver(ack{});
        } else {
          promise.deliver(to_caf(ok.failure()));  // fenced or closed: no later try can succeed
        }
        return true;
      });
      return promise;
    },
    [self](const store_load& l) -> caf::result<store_records> {
      auto promise = self->make_response_promise<store_records>();
      in_order(self, [self, promise, l]() mutable {
        auto& s = self->state;
        auto records = guarded([&] { return s.store->read(l.state, l.after, l.max); });
        if (records) {
          set_well(self);
          promise.deliver(store_records{std::move(*records)});
        } else {
          set_sick(self, records.failure().text);
          promise.deliver(to_caf(records.failure()));
        }
        return true;
      });
      return promise;
    },
    [self](const store_find& f) -> caf::result<store_records> {
      auto promise = self->make_response_promise<store_records>();
      in_order(self, [self, promise, f]() mutable {
        auto found = guarded([&] { return self->state.store->find(f.id); });
        if (!found) {
          promise.deliver(to_caf(found.failure()));
          return true;
        }
        store_records answer;
        if (*found) answer.records.push_back(std::move(**found));
        promise.deliver(std::move(answer));
        return true;
      });
      return promise;
    },
    [self](push_items& p) -> caf::result<push_results> {
      const auto answer = self->state.door->push(p.items, intake::when_full::refuse);
      if (!answer) {
        if (answer.failure().code == errc::backend_failed) set_sick(self, answer.failure().text);
        return to_caf(answer.failure());
      }
      if (self->state.waiting.empty()) set_well(self);  // else there is something that still fails
      push_results results;
      results.items.reserve(answer->size());
      for (const auto& a : *answer)
        results.items.push_back({a.id, a.what == append_result::kind::stored, a.what == append_result::kind::repeated});
      return results;
    },
    [self](adopt_pushes) {
      const auto n = self->state.door->adopt();
      if (!n && n.failure().code == errc::backend_failed) set_sick(self, n.failure().text);
      if (n && *n > 0) self->send(self, adopt_pushes{});  // there may be more; others take their turn first
    },
    [self](store_look) -> caf::result<store_counts> {
      const auto ok = self->state.door->adopt();
      if (!ok) {
        if (ok.failure().code == errc::backend_failed) set_sick(self, ok.failure().text);
        return to_caf(ok.failure());
      }
      set_well(self);
      return store_counts{self->state.store->count()};
    },
    [self](store_retry) {
      self->state.retrying = false;
      work_off(self);
    },
  };
}

}  // namespace caravan
