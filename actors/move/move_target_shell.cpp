#include "actors/move/move_target_shell.hpp"

#include "messages/caf_error.hpp"

#include <caf/all.hpp>

#include <algorithm>

namespace caravan {

using namespace std::chrono_literals;

namespace {

using pointer = move_taker_actor::stateful_pointer<move_target_state>;

constexpr auto ask_timeout = 2s;

void perform(pointer self, std::optional<move_answer>& answer);

std::string text_of(const expected<void>& done) { return done ? std::string() : done.failure().text; }

void step(pointer self, std::string_view what) {
  if (self->state.parts.at_step) self->state.parts.at_step(what);
}

void perform_alone(pointer self) {
  std::optional<move_answer> nobody;
  perform(self, nobody);
}

void ask(pointer self) {
  auto& s = self->state;
  const auto note = s.core->doubt();
  const auto decided = [self, move = note.move](move_outcome outcome) {
    self->state.core->on_decision(move, outcome, self->clock().now(), self->state.fx);
    perform_alone(self);
  };
  if (s.parts.source_is_gone(note.from)) return decided(move_outcome::committed);
  const auto source = s.parts.find_source(note.from);
  if (!source) return;  // asked again
  self->request(source, ask_timeout, ask_move{s.parts.queue, note.move})
      .then([decided](const move_decision& d) { decided(d.outcome); }, [](const caf::error&) {});
}

void perform(pointer self, std::optional<move_answer>& answer) {
  auto& s = self->state;
  const auto now = [self] { return self->clock().now(); };
  for (bool more = true; more;) {
    more = false;
    if (std::exchange(s.fx.forget_note, false)) s.parts.forget_note();
    if (const auto seq = std::exchange(s.fx.wipe, std::nullopt)) {
      if (*seq == 0) {
        s.parts.discard();
      } else {
        step(self, "prepare");
        move_step about;
        about.epoch = s.core->doubt().epoch;
        about.from = s.core->doubt().from;
        s.core->on_done(*seq, text_of(s.parts.wipe(about)), now(), s.fx);
      }
      more = true;
    }
    if (auto what = std::exchange(s.fx.apply, std::nullopt)) {
      step(self, "rows");
      s.core->on_done(what->seq, text_of(s.parts.apply(*what)), now(), s.fx);
      more = true;
    }
    if (auto what = std::exchange(s.fx.keep, std::nullopt)) {
      step(self, "image");
      const auto seq = what->seq;
      s.core->on_done(seq, text_of(s.parts.keep({std::move(*what), std::exchange(s.pools, {})}, s.fx.note)), now(),
                      s.fx);
      step(self, "promised");
      more = true;
    }
    if (std::exchange(s.fx.activate, false)) {
      step(self, "activate");
      const auto& it = s.core->doubt();
      s.core->on_active(text_of(s.parts.activate(it.move, it.epoch)), now(), s.fx);
      step(self, "active");
      more = true;
    }
    if (std::exchange(s.fx.ask, false)) ask(self);
  }
  if (s.fx.answer) answer = std::exchange(s.fx.answer, std::nullopt);
  const auto wake = s.core->next_wake();
  if (wake && s.ticks.want(*wake))
    self->delayed_send(self, std::max(*wake - now(), std::chrono::steady_clock::duration{0}), move_target_tick{});
}

}  // namespace

move_taker_actor::behavior_type move_target_behavior(pointer self, move_target_parts parts) {
  auto& s = self->state;
  s.parts = std::move(parts);
  s.core = std::make_unique<move_target_core>(s.parts.node, s.parts.known_epoch, s.parts.limits);
  if (s.parts.note.move != 0) s.core->resume(s.parts.note, self->clock().now(), s.fx);
  perform_alone(self);
  return {
      [self](move_message& m) -> caf::result<move_reply> {
        auto& st = self->state;
        auto promise = self->make_response_promise<move_reply>();
        if (m.step.what == move_step::kind::image) st.pools = std::move(m.pools);
        std::optional<move_answer> answer;
        st.core->on_step(std::move(m.step), self->clock().now(), st.fx);
        perform(self, answer);
        // A late or doubled step has no answer: nobody waits for it any more.
        if (answer)
          promise.deliver(move_reply{*answer, st.core->promised() ? st.parts.front() : nullptr});
        else
          promise.deliver(to_caf({errc::conflict, "a late step of a move"}));
        return promise;
      },
      [self](know_epoch k) { self->state.core->know(k.epoch); },
      [self](move_target_tick) {
        auto& st = self->state;
        if (!st.ticks.came(self->clock().now())) return;
        st.core->on_tick(self->clock().now(), st.fx);
        perform_alone(self);
      },
  };
}

}  // namespace caravan
