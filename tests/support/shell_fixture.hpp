#pragma once

/// What the tests of actors share: virtual time on both clocks, requests whose answers can be looked at while they are
/// still missing, and a worker pool that only keeps what it gets.
///
/// consume_messages(), never run(): that would fire every timer there is.

#include "messages/caf_error.hpp"
#include "messages/queue_actor.hpp"
#include "messages/type_ids.hpp"
#include "toolbox/clock.hpp"

#include <caf/all.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "caf/test/dsl.hpp"

namespace caravan::test {

struct wire_config : caf::actor_system_config {
  wire_config() { register_messages(*this); }
};

/// Both clocks follow CAF's virtual one. The wall clock may be set, as an operator would.
class virtual_clock final : public toolbox::clock {
public:
  explicit virtual_clock(const caf::actor_clock& clock) : clock_(clock), start_(clock.now()) {}
  [[nodiscard]] toolbox::steady_time now() const override { return clock_.now(); }
  [[nodiscard]] toolbox::wall_time wall() const override {
    return wall_start_ + std::chrono::floor<std::chrono::milliseconds>(clock_.now() - start_);
  }
  void shift_wall(std::chrono::milliseconds by) { wall_start_ += by; }

private:
  const caf::actor_clock& clock_;
  const toolbox::steady_time start_;
  toolbox::wall_time wall_start_{std::chrono::sys_days{std::chrono::year{2024} / 5 / 1}};
};

/// Of a request. Empty until it is answered.
template <class T>
struct answer {
  std::optional<T> value;
  std::optional<error> failure;

  explicit operator bool() const { return value || failure; }
  /// The code of a failure; nothing: no answer, or a value.
  [[nodiscard]] std::optional<errc> code() const { return failure ? std::optional{failure->code} : std::nullopt; }
};

struct fake_pool_state {
  static inline const char* name = "fake_pool";
  std::vector<batch> got;
  std::function<void(const batch&)> on_batch;
  std::vector<std::uint64_t> asked_to_stop;
  fake_pool_state() = default;
};
using fake_pool_pointer = worker_pool_actor::stateful_pointer<fake_pool_state>;

inline worker_pool_actor::behavior_type fake_pool(fake_pool_pointer self, std::function<void(const batch&)> on_batch) {
  self->state.on_batch = std::move(on_batch);
  return {[self](batch& work) {
            if (self->state.on_batch) self->state.on_batch(work);
            self->state.got.push_back(std::move(work));
          },
          [](call_ended&) {},
          [](pool_tick) {},
          [](attach_again) {},
          [](set_max_workers) { return ack{}; },
          [](get_pool_status) { return pool_status{}; },
          [](stop_pool) { return pool_status{}; },
          [self](const stop_calls& stop) {
            for (const auto token : stop.tokens) self->state.asked_to_stop.push_back(token);
          }};
}

class shell_fixture : public test_coordinator_fixture<wire_config> {
public:
  /// Sends a request; the answer appears in what is returned, once messages were consumed.
  template <class Answer, class Handle, class Message>
  std::shared_ptr<answer<Answer>> send_request(const Handle& to, Message message) {
    auto slot = std::make_shared<answer<Answer>>();
    sys.spawn([slot, to, message = std::move(message)](caf::event_based_actor* client) {
      client->request(to, caf::infinite, message)
        .then([slot](Answer& a) { slot->value = std::move(a); }, [slot](caf::error& e) { slot->failure = from_caf(e); });
    });
    return slot;
  }
  /// As above, and lets everything happen that needs no time.
  template <class Answer, class Handle, class Message>
  std::shared_ptr<answer<Answer>> ask(const Handle& to, Message message) {
    auto slot = send_request<Answer>(to, std::move(message));
    consume_messages();
    return slot;
  }
  /// The answer itself, where the request cannot fail.
  template <class Answer, class Handle, class Message>
  Answer must(const Handle& to, Message message) {
    const auto a = ask<Answer>(to, std::move(message));
    CAF_REQUIRE(a->value);
    return std::move(*a->value);
  }
  /// Moves time on in steps of at most `step`, so that a timer that is set anew fires again.
  void pass(std::chrono::nanoseconds time, std::chrono::nanoseconds step = std::chrono::milliseconds{100}) {
    consume_messages();
    for (; time.count() > 0; time -= step) {
      advance_time(std::min(time, step));
      consume_messages();
    }
  }
  template <class Message, class Handle>
  void tell(const Handle& to, Message message) {
    caf::anon_send(to, std::move(message));
    consume_messages();
  }
  /// Timers that are set.
  [[nodiscard]] std::size_t timers() { return sched.clock().schedule().size(); }

  worker_pool_actor spawn_fake_pool(std::function<void(const batch&)> on_batch = {}) {
    auto pool = sys.spawn(fake_pool, std::move(on_batch));
    consume_messages();
    return pool;
  }
  std::vector<batch>& batches_of(const worker_pool_actor& pool) {
    return deref<std::remove_pointer_t<fake_pool_pointer>>(pool).state.got;
  }
  template <class Handle>
  void kill(Handle& actor) {
    if (!actor) return;
    caf::anon_send_exit(actor, caf::exit_reason::user_shutdown);
    consume_messages();
    actor = nullptr;
  }
};

}  // namespace caravan::test
