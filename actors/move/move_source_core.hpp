#pragma once

/// The old owner's side of a move. No CAF, no I/O, no clock.

#include "messages/move_words.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

namespace caravan {

/// A part of the queue's rows, read from its storage for the target.
struct move_part {
  std::vector<record> rows;
  std::vector<record> changed;
  std::vector<item_id> gone;
  std::vector<kept_key> keys;
  bool all_read = false;    ///< every row was read once
  std::size_t pending = 0;  ///< changes that were noted and not read yet
  [[nodiscard]] std::size_t size() const { return rows.size() + changed.size() + gone.size() + keys.size(); }
};

struct move_source_effects {
  std::vector<move_step> send;
  bool read = false;       ///< the next part; answered by on_part()
  bool freeze = false;     ///< hold messages, freeze the queue; answered by on_frozen()
  bool thaw = false;       ///< go on as before
  bool decide = false;     ///< write down that the target owns it; answered by on_decided()
  bool read_back = false;  ///< what was written down? Answered by on_decided()
  bool hand_over = false;  ///< the target owns it: forward everything
  bool finished = false;   ///< see outcome()
};

/// The source's record of its decision is the truth: before it is written any failure leaves the source the owner,
/// after it the target is, whatever happens to the source. Copies while the queue works, then freezes it for the rest.
/// Memory: at most `window` steps that are not acknowledged.
class move_source_core {
public:
  using time = std::chrono::steady_clock::time_point;
  enum class step : std::uint8_t { preparing, copying, freezing, closing, offering, deciding, telling, done, aborted };
  enum class decision : std::uint8_t { written, not_written, unknown };

  struct limits {
    std::size_t window = 4;         ///< steps on their way
    std::size_t freeze_at = 2'000;  ///< changes left when the queue may be frozen
    std::size_t rounds = 20;        ///< parts without getting there; then it is frozen if `freeze_most` allows
    std::size_t freeze_most = 20'000;
    std::chrono::milliseconds again{1'000};        ///< an unanswered step is sent again
    std::chrono::milliseconds patience{10'000};    ///< before the decision: without any answer
    std::chrono::milliseconds frozen_most{2'000};  ///< before the decision: the queue stands still
    std::chrono::milliseconds tell_for{60'000};    ///< after it: until the target knows; then it has to ask
  };
  struct subject {
    std::string queue;
    std::string from;
    std::string to;
    std::uint64_t move = 0;
    std::uint64_t epoch = 0;  ///< of the new owner
    std::string type;
    bool unique = false;
  };

  move_source_core(subject s, limits l) : subject_(std::move(s)), limits_(l) {}

  void begin(time now, move_source_effects& fx);
  void on_part(move_part part, time now, move_source_effects& fx);
  void on_frozen(queue_image image, time now, move_source_effects& fx);
  void on_answer(const move_answer& a, time now, move_source_effects& fx);
  void on_decided(decision d, time now, move_source_effects& fx);
  void on_tick(time now, move_source_effects& fx);
  /// It cannot go on. Before the decision the move ends; after it this says nothing.
  void fail(const std::string& why, time now, move_source_effects& fx);

  [[nodiscard]] std::optional<time> next_wake() const;
  [[nodiscard]] step at() const { return at_; }
  /// Of aborted: why.
  [[nodiscard]] const std::string& why() const { return why_; }
  [[nodiscard]] std::uint64_t items() const { return items_; }
  [[nodiscard]] const subject& what() const { return subject_; }

private:
  [[nodiscard]] bool decided() const { return at_ == step::telling || at_ == step::done; }
  void send(move_step s, time now, move_source_effects& fx);
  void want_part(move_source_effects& fx);

  subject subject_;
  limits limits_;
  step at_ = step::preparing;
  std::string why_;
  std::uint64_t next_seq_ = 1;
  std::deque<move_step> unanswered_;
  bool reading_ = false;
  bool frozen_ = false;
  bool asks_back_ = false;  ///< what was written down is not known
  std::size_t rounds_ = 0;
  std::uint64_t items_ = 0;
  std::optional<queue_image> image_;
  time heard_{};
  time sent_{};
  time frozen_at_{};
  time decided_at_{};
};

[[nodiscard]] std::string_view to_string(move_source_core::step s);

}  // namespace caravan
