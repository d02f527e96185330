#include "actors/lock/lock_shell.hpp"

#include "messages/caf_error.hpp"

#include <caf/all.hpp>

namespace caravan {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

namespace {

using lock_pointer = lock_manager_actor::stateful_pointer<lock_shell_state>;

constexpr milliseconds longest = std::chrono::hours{24 * 365};

/// Runs a function in the actor, as long as there is one.
struct way_back {
  caf::actor_addr actor;
  void operator()(std::function<void()> what) const {
    if (const auto strong = caf::actor_cast<caf::strong_actor_ptr>(actor))
      caf::anon_send(caf::actor_cast<lock_manager_actor>(strong), lock_call_done{std::move(what)});
  }
};

lock_granted to_message(const local_locks::grant& g) { return {g.id, g.token, std::min(g.remaining, longest)}; }

lock_user_status to_message(const lock_user& u) { return {u.node, u.owner, std::chrono::floor<milliseconds>(u.since)}; }

lock_status to_message(const lock_info& i) {
  lock_status s{i.key, to_message(i.holder), i.token, i.remaining.value_or(milliseconds{-1}), i.lease, i.waiting, {}};
  for (const auto& w : i.waiters) s.waiters.push_back(to_message(w));
  return s;
}

template <class T>
void answer(caf::typed_response_promise<T>& promise, expected<T> with) {
  if (with)
    promise.deliver(std::move(*with));
  else
    promise.deliver(to_caf(with.failure()));
}

/// `ask` may block: it runs on a thread of the door.
template <class T, class Ask>
caf::typed_response_promise<T> later(lock_pointer self, Ask ask) {
  auto promise = self->make_response_promise<T>();
  self->state.door->post(
      [back = way_back{self->address()}, door = self->state.door.get(), promise, ask = std::move(ask)] {
        back([promise, got = ask(*door)]() mutable { answer(promise, std::move(got)); });
      });
  return promise;
}

caf::typed_response_promise<lock_granted> acquire(lock_pointer self, const acquire_lock& m) {
  auto promise = self->make_response_promise<lock_granted>();
  if (m.lease <= 0ms || m.lease > longest || m.wait < 0ms) {
    // Nobody would notice that an asker is gone.
    promise.deliver(to_caf({errc::invalid_argument, "lock \"" + m.key +
                                                        "\": a lock that is asked for by message needs a lease "
                                                        "above 0 and a wait that is not negative"}));
    return promise;
  }
  lock_request r;
  r.key = m.key;
  r.label = m.label;
  r.lease = m.lease;
  r.wait = m.wait > 0ms;
  r.attended = false;
  if (r.wait) r.deadline = std::chrono::steady_clock::now() + std::min(m.wait, longest);
  const auto request = m.request;
  auto& asked = self->state.asked;
  asked[request] = 0;
  const auto id = self->state.door->acquire(std::move(r), [self, back = way_back{self->address()}, request, promise,
                                                           key = m.key](expected<local_locks::grant> got) {
    back([self, request, promise, key, got = std::move(got)]() mutable {
      if (self->state.asked.erase(request) == 0) {
        // Taken back while it was granted.
        if (got)
          self->state.door->post([door = self->state.door.get(), key, id = got->id] { (void)door->release(key, id); });
        promise.deliver(to_caf({errc::conflict, "lock \"" + key + "\": the waiting was ended"}));
        return;
      }
      answer(promise, got ? expected<lock_granted>(to_message(*got)) : expected<lock_granted>(got.failure()));
    });
  });
  if (const auto at = asked.find(request); at != asked.end()) at->second = id;
  return promise;
}

}  // namespace

lock_manager_actor::behavior_type lock_behavior(lock_pointer self, std::shared_ptr<local_locks> door) {
  self->state.door = std::move(door);
  return {[self](const acquire_lock& m) { return acquire(self, m); },
          [self](const cancel_lock& m) {
            const auto at = self->state.asked.find(m.request);
            if (at == self->state.asked.end()) return;
            const auto id = at->second;
            self->state.asked.erase(at);
            self->state.door->cancel(id);
          },
          [self](const release_lock& m) {
            return later<ack>(self, [m](local_locks& door) -> expected<ack> {
              if (!m.force) {
                const auto done = door.release(m.key, m.value);
                return done ? expected<ack>(ack{}) : expected<ack>(done.failure());
              }
              const auto was = door.force_release(m.key);
              if (!was) return was.failure();
              if (!*was) return {errc::not_found, "lock \"" + m.key + "\": nobody holds it"};
              return ack{};
            });
          },
          [self](const extend_lock& m) {
            return later<lock_granted>(self, [m](local_locks& door) -> expected<lock_granted> {
              const auto got = door.extend(m.key, m.value);
              if (!got) return got.failure();
              return to_message(*got);
            });
          },
          [self](const get_locks& m) {
            return later<lock_list>(self, [m](local_locks& door) -> expected<lock_list> {
              lock_list list;
              if (!m.key.empty()) {
                const auto one = door.find(m.key);
                if (!one) return one.failure();
                if (*one) list.locks.push_back(to_message(**one));
                return list;
              }
              const auto all = door.list(m.most);
              if (!all) return all.failure();
              for (const auto& i : *all) list.locks.push_back(to_message(i));
              return list;
            });
          },
          [](lock_call_done& done) { done.run(); }};
}

}  // namespace caravan
