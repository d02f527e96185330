#include "actors/move/move_target_core.hpp"

#include <algorithm>

namespace caravan {

void move_target_core::say(std::uint64_t move, std::uint64_t seq, std::string refused, move_target_effects& fx) {
  fx.answer = move_answer{move, seq, std::move(refused)};
}

void move_target_core::drop(move_target_effects& fx) {
  at_ = phase::idle;
  current_ = {};
  applied_ = under_way_ = commit_seq_ = 0;
  keeping_ = false;
  fx.wipe = 0;
  fx.forget_note = true;
}

void move_target_core::know(std::uint64_t epoch) {
  known_epoch_ = std::max(known_epoch_, epoch);
  if (at_ != phase::owner || epoch <= current_.epoch) return;
  at_ = phase::idle;  // it has gone on to another node since
  current_ = {};
}

void move_target_core::resume(const move_note& note, time now, move_target_effects& fx) {
  current_ = note;
  last_move_ = std::max(last_move_, note.move);
  at_ = phase::promised;
  heard_ = now;
  fx.ask = true;
}

void move_target_core::on_step(move_step s, time now, move_target_effects& fx) {
  const bool mine = at_ != phase::idle && s.move == current_.move;
  if (mine) heard_ = now;
  using kind = move_step::kind;
  if (s.what == kind::prepare) {
    if (mine) return applied_ >= s.seq ? say(s.move, applied_, {}, fx) : void();
    if (at_ == phase::owner || s.epoch <= known_epoch_ || s.move <= last_move_)
      return say(s.move, 0, "node \"" + node_ + "\": knows of a later owner of queue \"" + s.queue + "\"", fx);
    // Whoever begins a new move is the owner: an earlier one of the same epoch came to nothing.
    if (at_ == phase::activating)
      return say(s.move, 0, "node \"" + node_ + "\": is about to own queue \"" + s.queue + "\"", fx);
    last_move_ = s.move;
    current_ = {s.move, s.epoch, s.from};
    at_ = phase::receiving;
    applied_ = 0;
    keeping_ = false;
    commit_seq_ = 0;
    under_way_ = s.seq;
    heard_ = now;
    fx.wipe = s.seq;
    fx.forget_note = true;
    return;
  }
  if (!mine) {
    if (s.what == kind::abort) return say(s.move, s.seq, {}, fx);
    if (s.what == kind::commit) return;  // it is asked for, or was answered
    return say(s.move, 0, "node \"" + node_ + "\": has forgotten this move of queue \"" + s.queue + "\"", fx);
  }
  if (s.what == kind::abort) {
    if (at_ == phase::owner || at_ == phase::activating) return;
    drop(fx);
    return say(s.move, s.seq, {}, fx);
  }
  if (s.what == kind::commit) {
    if (at_ == phase::owner) return say(s.move, s.seq, {}, fx);
    if (at_ == phase::activating) {
      commit_seq_ = s.seq;
      return;
    }
    if (at_ != phase::promised) return;
    commit_seq_ = s.seq;
    at_ = phase::activating;
    fx.activate = true;
    return;
  }
  if (at_ != phase::receiving || s.seq <= applied_) return say(s.move, applied_, {}, fx);
  if (under_way_ != 0 || s.seq != applied_ + 1) return;  // it comes again
  under_way_ = s.seq;
  if (s.what == kind::image) {
    keeping_ = true;
    fx.note = current_;
    fx.keep = std::move(s);
  } else {
    fx.apply = std::move(s);
  }
}

void move_target_core::on_done(std::uint64_t seq, const std::string& failed, time now, move_target_effects& fx) {
  if (at_ != phase::receiving || seq == 0 || seq != under_way_) return;
  under_way_ = 0;
  heard_ = now;
  const auto move = current_.move;
  if (!failed.empty()) {
    drop(fx);
    return say(move, 0, failed, fx);
  }
  applied_ = seq;
  if (keeping_) at_ = phase::promised;
  say(move, seq, {}, fx);
}

void move_target_core::on_active(const std::string& failed, time now, move_target_effects& fx) {
  if (at_ != phase::activating) return;
  heard_ = now;
  if (!failed.empty()) {
    at_ = phase::promised;  // it is owed; tried again with the next commit or answer
    return;
  }
  at_ = phase::owner;
  known_epoch_ = std::max(known_epoch_, current_.epoch);
  if (commit_seq_ != 0) say(current_.move, commit_seq_, {}, fx);
}

void move_target_core::on_decision(std::uint64_t move, move_outcome outcome, time now, move_target_effects& fx) {
  if (at_ != phase::promised || move != current_.move) return;
  heard_ = now;
  switch (outcome) {
    case move_outcome::pending:
      return;
    case move_outcome::aborted:
      drop(fx);
      return;
    case move_outcome::committed:
      at_ = phase::activating;
      fx.activate = true;
      return;
  }
}

void move_target_core::on_tick(time now, move_target_effects& fx) {
  if (at_ == phase::receiving && under_way_ == 0 && now - heard_ >= limits_.patience) drop(fx);
  if (at_ == phase::promised && now - heard_ >= limits_.ask_after) {
    heard_ = now;
    fx.ask = true;
  }
}

std::optional<move_target_core::time> move_target_core::next_wake() const {
  if (at_ == phase::receiving) return heard_ + limits_.patience;
  if (at_ == phase::promised) return heard_ + limits_.ask_after;
  return std::nullopt;
}

}  // namespace caravan
