#include "actors/store/store_actor.hpp"

#include "messages/caf_error.hpp"

#include <caf/all.hpp>

namespace caravan {

using namespace std::chrono_literals;

namespace {

using store_pointer = store_actor::stateful_pointer<store_state>;

expected<void> carry_out(storage& store, const store_changes& c) {
  if (!c.move.empty())
    if (auto ok = store.update(c.move); !ok) return ok;
  if (!c.erase.empty())
    if (auto ok = store.erase(c.erase, c.low_water); !ok) return ok;
  if (!c.release.empty())
    if (auto ok = store.release(c.release); !ok) return ok;
  for (const auto state : c.clear)
    if (auto ok = store.clear(state); !ok) return ok.failure();
  return {};
}

// Everything that waits, in order, until one fails.
void work_off(store_pointer self) {
  auto& s = self->state;
  std::size_t done = 0;
  for (auto& [changes, promise] : s.waiting) {
    auto ok = carry_out(*s.store, changes);
    if (!ok && ok.failure().code != errc::backend_failed) {
      // Fenced or closed: no later try can succeed.
      promise.deliver(to_caf(ok.failure()));
    } else if (!ok) {
      s.health->set(ok.failure().text);
      if (!s.retrying) {
        s.retrying = true;
        self->delayed_send(self, 1s, store_retry{});
      }
      break;
    } else {
      promise.deliver(ack{});
    }
    ++done;
  }
  s.waiting.erase(s.waiting.begin(), s.waiting.begin() + static_cast<std::ptrdiff_t>(done));
  if (done > 0 && s.waiting.empty() && s.retrying) s.health->clear();
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
      const bool first = self->state.waiting.empty();
      self->state.waiting.emplace_back(std::move(changes), promise);
      if (first) work_off(self);
      return promise;
    },
    [self](const store_load& l) -> caf::result<store_records> {
      auto records = self->state.store->read(l.state, l.after, l.max);
      if (!records) {
        self->state.health->set(records.failure().text);
        return to_caf(records.failure());
      }
      return store_records{std::move(*records)};
    },
    [self](const store_find& f) -> caf::result<store_records> {
      auto found = self->state.store->find(f.id);
      if (!found) return to_caf(found.failure());
      store_records answer;
      if (*found) answer.records.push_back(std::move(**found));
      return answer;
    },
    [self](push_items& p) -> caf::result<push_results> {
      const auto answer = self->state.door->push(p.items, intake::when_full::refuse);
      if (!answer) {
        if (answer.failure().code == errc::backend_failed) self->state.health->set(answer.failure().text);
        return to_caf(answer.failure());
      }
      push_results results;
      results.items.reserve(answer->size());
      for (const auto& a : *answer)
        results.items.push_back({a.id, a.what == append_result::kind::stored, a.what == append_result::kind::repeated});
      return results;
    },
    [self](store_retry) {
      self->state.retrying = false;
      work_off(self);
      if (self->state.waiting.empty()) self->state.health->clear();
    },
  };
}

}  // namespace caravan
