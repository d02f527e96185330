#include "actors/move/move_source_core.hpp"

#include <algorithm>

namespace caravan {

std::string_view to_string(move_source_core::step s) {
  using step = move_source_core::step;
  switch (s) {
    case step::preparing:
      return "prepare";
    case step::copying:
      return "copy";
    case step::freezing:
      return "freeze";
    case step::closing:
      return "rest";
    case step::offering:
      return "image";
    case step::deciding:
      return "decide";
    case step::telling:
      return "tell";
    case step::done:
      return "done";
    case step::aborted:
      return "aborted";
  }
  return "unknown";
}

void move_source_core::send(move_step s, time now, move_source_effects& fx) {
  s.queue = subject_.queue;
  s.move = subject_.move;
  s.epoch = subject_.epoch;
  s.from = subject_.from;
  s.type = subject_.type;
  s.unique = subject_.unique;
  s.seq = next_seq_++;
  sent_ = now;
  fx.send.push_back(s);
  unanswered_.push_back(std::move(s));
}

void move_source_core::begin(time now, move_source_effects& fx) {
  heard_ = now;
  move_step s;
  s.what = move_step::kind::prepare;
  send(std::move(s), now, fx);
}

void move_source_core::want_part(move_source_effects& fx) {
  if (reading_ || unanswered_.size() >= limits_.window) return;
  reading_ = true;
  fx.read = true;
}

void move_source_core::on_part(move_part part, time now, move_source_effects& fx) {
  reading_ = false;
  if (at_ != step::copying && at_ != step::closing && at_ != step::freezing) return;
  const bool complete = part.all_read && part.pending == 0;
  const bool empty = part.size() == 0;
  items_ += part.rows.size();
  if (part.all_read) ++rounds_;
  const bool near = part.all_read && part.pending <= limits_.freeze_at;
  const bool enough = part.all_read && rounds_ >= limits_.rounds;
  const auto pending = part.pending;
  if (!empty) {
    move_step s;
    s.what = move_step::kind::rows;
    s.rows = std::move(part.rows);
    s.changed = std::move(part.changed);
    s.gone = std::move(part.gone);
    s.keys = std::move(part.keys);
    send(std::move(s), now, fx);
  }
  if (at_ == step::copying && (near || enough)) {
    if (pending > limits_.freeze_most)
      return fail("its items change faster than they can be copied (" + std::to_string(pending) +
                      " changes behind); pause it or try again when it is quieter",
                  now, fx);
    at_ = step::freezing;
    frozen_at_ = now;
    frozen_ = true;
    fx.freeze = true;
    return;
  }
  // After the freeze nothing is noted any more: once everything is read, it is all there.
  if (at_ == step::closing && complete && empty) {
    at_ = step::offering;
    move_step s;
    s.what = move_step::kind::image;
    s.image = std::move(*image_);
    image_.reset();
    send(std::move(s), now, fx);
    return;
  }
  if (at_ != step::freezing) want_part(fx);
}

void move_source_core::on_frozen(queue_image image, time now, move_source_effects& fx) {
  if (at_ != step::freezing) return;
  at_ = step::closing;
  image_ = std::move(image);
  (void)now;
  want_part(fx);
}

void move_source_core::on_answer(const move_answer& a, time now, move_source_effects& fx) {
  if (a.move != subject_.move || at_ == step::done || at_ == step::aborted) return;
  if (!a.refused.empty()) return fail(a.refused, now, fx);
  heard_ = now;
  while (!unanswered_.empty() && unanswered_.front().seq <= a.seq) unanswered_.pop_front();
  switch (at_) {
    case step::preparing:
      if (!unanswered_.empty()) return;
      at_ = step::copying;
      want_part(fx);
      return;
    case step::copying:
    case step::closing:
      want_part(fx);
      return;
    case step::offering:
      if (!unanswered_.empty()) return;
      at_ = step::deciding;
      fx.decide = true;
      return;
    case step::telling:
      if (!unanswered_.empty()) return;
      at_ = step::done;
      fx.finished = true;
      return;
    default:
      return;
  }
}

void move_source_core::on_decided(decision d, time now, move_source_effects& fx) {
  if (at_ != step::deciding) return;
  asks_back_ = d == decision::unknown;
  switch (d) {
    case decision::written: {
      at_ = step::telling;
      decided_at_ = now;
      fx.hand_over = true;
      move_step s;
      s.what = move_step::kind::commit;
      send(std::move(s), now, fx);
      return;
    }
    case decision::not_written:
      at_ = step::offering;  // so that fail() undoes everything
      return fail("the decision could not be written down", now, fx);
    case decision::unknown:
      sent_ = now;
      return;  // asked again by on_tick
  }
}

void move_source_core::on_tick(time now, move_source_effects& fx) {
  if (at_ == step::done || at_ == step::aborted) return;
  if (at_ == step::deciding) {
    if (asks_back_ && now - sent_ >= limits_.again) {
      asks_back_ = false;
      fx.read_back = true;
    }
    return;
  }
  if (at_ == step::telling && now - decided_at_ >= limits_.tell_for) {
    at_ = step::done;
    fx.finished = true;
    return;
  }
  if (!decided()) {
    if (frozen_ && now - frozen_at_ >= limits_.frozen_most) return fail("the queue stood still for too long", now, fx);
    if (now - heard_ >= limits_.patience && !unanswered_.empty())
      return fail("node \"" + subject_.to + "\" does not answer", now, fx);
  }
  if (!unanswered_.empty() && now - sent_ >= limits_.again) {
    sent_ = now;
    fx.send.insert(fx.send.end(), unanswered_.begin(), unanswered_.end());
  }
}

void move_source_core::fail(const std::string& why, time now, move_source_effects& fx) {
  if (decided() || at_ == step::deciding || at_ == step::aborted) return;
  at_ = step::aborted;
  why_ = why;
  unanswered_.clear();
  image_.reset();
  move_step s;
  s.what = move_step::kind::abort;
  send(std::move(s), now, fx);  // once: if it is lost, the target asks
  unanswered_.clear();
  fx.freeze = false;
  fx.read = false;
  fx.thaw = std::exchange(frozen_, false);
  fx.finished = true;
}

std::optional<move_source_core::time> move_source_core::next_wake() const {
  if (at_ == step::done || at_ == step::aborted) return std::nullopt;
  if (at_ == step::deciding) {
    if (!asks_back_) return std::nullopt;
    return sent_ + limits_.again;
  }
  std::optional<time> wake;
  const auto at = [&](time t) {
    if (!wake || t < *wake) wake = t;
  };
  if (!unanswered_.empty()) at(sent_ + limits_.again);
  if (at_ == step::telling) at(decided_at_ + limits_.tell_for);
  if (!decided() && !unanswered_.empty()) at(heard_ + limits_.patience);
  if (!decided() && frozen_) at(frozen_at_ + limits_.frozen_most);
  return wake;
}

}  // namespace caravan
