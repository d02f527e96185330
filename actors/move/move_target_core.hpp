#pragma once

/// The new owner's side of a move. No CAF, no I/O, no clock.

#include "messages/move_words.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace caravan {

/// What a node writes down about a move to it: a crash must not make it forget what it has promised.
struct move_note {
  std::uint64_t move = 0;  ///< 0: none
  std::uint64_t epoch = 0;
  std::string from;
};

struct move_target_effects {
  std::optional<std::uint64_t> wipe;  ///< forget what is in the storage; then on_done(seq). 0: nobody waits for it
  std::optional<move_step> apply;     ///< put rows; then on_done()
  std::optional<move_step> keep;      ///< the image: sync the storage, write `note` down; then on_done()
  move_note note;
  bool forget_note = false;  ///< nothing is promised any more
  bool activate = false;     ///< this node owns it: begin to serve, write that down; then on_active()
  bool ask = false;          ///< the source: what was decided about doubt()?
  std::optional<move_answer> answer;
};

/// Takes rows without showing them. Until it has answered the image it may forget everything; from then on it has
/// promised to take the queue if the source so decided, and asks when it does not hear.
class move_target_core {
public:
  using time = std::chrono::steady_clock::time_point;
  struct limits {
    std::chrono::milliseconds ask_after{500};    ///< of silence, when the image was taken; and again
    std::chrono::milliseconds patience{15'000};  ///< of silence before that; then the half import is thrown away
  };

  /// `known_epoch`: the highest one this node has heard of for the queue: a step of an older one is a late message.
  move_target_core(std::string node, std::uint64_t known_epoch, limits l)
      : node_(std::move(node)), known_epoch_(known_epoch), limits_(l) {}

  /// After a restart: what was written down.
  void resume(const move_note& note, time now, move_target_effects& fx);
  /// Another node owns the queue, or this one, under this epoch.
  void know(std::uint64_t epoch);

  void on_step(move_step s, time now, move_target_effects& fx);
  /// wipe, apply or keep is done, or why not.
  void on_done(std::uint64_t seq, const std::string& failed, time now, move_target_effects& fx);
  void on_active(const std::string& failed, time now, move_target_effects& fx);
  /// The source's answer to `ask`. `gone`: it has started anew and keeps nothing over that.
  void on_decision(std::uint64_t move, move_outcome outcome, time now, move_target_effects& fx);
  void on_tick(time now, move_target_effects& fx);

  [[nodiscard]] std::optional<time> next_wake() const;
  [[nodiscard]] const move_note& doubt() const { return current_; }
  [[nodiscard]] bool promised() const { return at_ == phase::promised || at_ == phase::activating; }
  [[nodiscard]] bool idle() const { return at_ == phase::idle; }

private:
  enum class phase : std::uint8_t { idle, receiving, promised, activating, owner };
  void say(std::uint64_t move, std::uint64_t seq, std::string refused, move_target_effects& fx);
  void drop(move_target_effects& fx);

  std::string node_;
  std::uint64_t known_epoch_;
  limits limits_;
  phase at_ = phase::idle;
  move_note current_;
  std::uint64_t last_move_ = 0;  ///< the highest one that was taken up or refused
  std::uint64_t applied_ = 0;
  std::uint64_t under_way_ = 0;  ///< the step that is being carried out; 0: none
  bool keeping_ = false;         ///< that is the image
  std::uint64_t commit_seq_ = 0;
  time heard_{};
};

}  // namespace caravan
