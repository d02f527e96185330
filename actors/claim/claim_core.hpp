#pragma once

#include "actors/claim/pick_door.hpp"
#include "messages/claim_words.hpp"
#include "messages/queue_words.hpp"

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

namespace caravan {

/// What a claim pool's shell has to do after an event. The core adds to it; the shell carries it out and empties it.
struct claim_effects {
  struct granted {
    std::uint64_t request = 0;
    expected<claim_granted> answer;
  };
  struct acked {
    std::uint64_t request = 0;
    expected<claim_acked> answer;
  };
  struct extended {
    std::uint64_t request = 0;
    expected<claim_extended> answer;
  };
  struct report {
    std::uint64_t number = 0;  ///< to be handed back with the queue's answer
    report_batches what;
  };
  std::vector<granted> grants;
  std::vector<acked> acks;
  std::vector<extended> extensions;
  std::optional<demand> more;   ///< for the queue, before the reports
  std::vector<report> reports;  ///< for the queue
  bool attach = false;          ///< offer the pool to the queue, again
  std::optional<claims_closed> closed;
};

/// Decides who outside gets which jobs of one queue, and for how long. A job is a batch of its own for the queue, with
/// a lease and a token of its own; a claim is a lease over several of them. The queue is asked for jobs only while
/// somebody waits for them. No CAF, no I/O, no clock. Not thread safe.
///
/// What an acknowledgement is answered with is what the queue said: a job that was not the claim's any more is told so.
class claim_core {
public:
  using time_point = std::chrono::steady_clock::time_point;
  struct instant {
    time_point steady;
    wall_time wall;
  };
  struct limits {
    std::string queue;
    std::chrono::milliseconds lease{30'000};  ///< of a claim that names none
    std::chrono::milliseconds timeout{0};     ///< of a job that names none; 0: none
    std::uint32_t claim_rate = 0;             ///< claims a second of one worker; 0: no limit
    std::uint32_t claim_burst = 1;
    std::size_t remembered = 4'096;         ///< claims that are over, for repeated acknowledgements
    std::chrono::milliseconds look{1'000};  ///< how often a remote queue is asked whether it knows the pool
  };

  /// `random` names the leases: nobody may guess one.
  claim_core(pool_id id, limits l, std::function<std::uint64_t()> random);

  /// The queue knows the pool (again). A `remote` queue forgets a pool that is silent.
  void on_attached(pool_kind kind, instant now, claim_effects& fx);
  void on_attach_failed(const error& why, instant now, claim_effects& fx);
  /// The queue is gone, or is another one now.
  void on_detached(instant now, claim_effects& fx);
  void on_batch(batch work, instant now, claim_effects& fx);
  /// A job under this token was cancelled: whoever has it learns it with his next word, and the queue need not wait for that.
  void on_stop(std::uint64_t token, instant now, claim_effects& fx);
  void on_reported(std::uint64_t number, const expected<batches_reported>& answer, instant now, claim_effects& fx);

  void on_claim(open_claim c, instant now, claim_effects& fx);
  void on_cancel(std::uint64_t request, instant now, claim_effects& fx);
  void on_wake(const std::string& worker, instant now, claim_effects& fx);
  void on_extend(std::uint64_t request, const extend_claim& e, instant now, claim_effects& fx);
  void on_ack(std::uint64_t request, const ack_claim& a, instant now, claim_effects& fx);
  void on_release(std::uint64_t request, const release_claim& r, instant now, claim_effects& fx);
  /// fx.closed when nothing is in hand, at `deadline` at the latest.
  void on_close(time_point deadline, instant now, claim_effects& fx);
  void on_tick(instant now, claim_effects& fx);

  /// When on_tick wants to be called next; nothing: not before another event.
  [[nodiscard]] std::optional<time_point> next_wake() const;
  [[nodiscard]] std::vector<claimer_status> claimers() const;
  [[nodiscard]] std::size_t in_hand() const { return by_token_.size(); }
  [[nodiscard]] std::size_t waiting() const { return line_.size(); }

private:
  enum class stage : std::uint8_t {
    held,  ///< somebody outside has it
    told,  ///< what became of it is on its way to the queue
    over,  ///< the queue knows
    lost,  ///< its lease ran out or was refused; a late word may still count
  };
  struct job {
    item_id id;
    std::uint64_t token = 0;
    stage where = stage::held;
    job_report said;                     ///< told, over
    bool counted = false;                ///< over
    std::string why;                     ///< lost: for people
    std::optional<time_point> deadline;  ///< held: of its TIMEOUT
    std::chrono::milliseconds timeout{0};
  };
  struct claim {
    std::string worker, from;
    std::chrono::milliseconds lease{0};
    time_point ends;
    wall_time last_seen{};
    std::vector<job> jobs;
    std::optional<time_point> wakes;  ///< its entry in wakes_
    bool over = false;                ///< nothing is held; its name is in over_
  };
  struct waiting_claim {
    open_claim what;
    time_point since;
    time_point until;
    std::uint64_t before = 0;  ///< the number of the first report after it
    bool asked = false;        ///< the queue has answered since it came: what there was is there
  };
  /// What waits for the queue's answer to a report.
  struct under_way {
    enum class kind : std::uint8_t { look, ack, extend } what = kind::look;
    std::uint64_t number = 0;  ///< of the report; claims of a lower one were in line when it was sent
    std::uint64_t request = 0;
    std::string lease;
    struct told_job {
      std::size_t index = 0;  ///< in the claim
      stage before = stage::held;
    };
    std::vector<told_job> told;
    std::vector<item_id> about;  ///< ack: in the order of the call
  };

  using claims = std::unordered_map<std::string, claim>;

  [[nodiscard]] static const std::string& key_of(const open_claim& c) { return c.worker.empty() ? c.from : c.worker; }
  [[nodiscard]] error lost_lease(const std::string& lease, const std::string& why) const;
  [[nodiscard]] bool needs_queue() const { return !line_.empty() || !by_token_.empty(); }
  void settle(instant now, claim_effects& fx);
  void attach(claim_effects& fx);
  void want(claim_effects& fx);
  void send_report(under_way&& u, report_batches&& what, claim_effects& fx);
  void look(claim_effects& fx);
  void serve(instant now, claim_effects& fx);
  void grant(waiting_claim&& w, instant now, claim_effects& fx);
  void answer_waiting(instant now, claim_effects& fx);
  void hand_back(std::uint64_t token, std::size_t items);
  void end_leases(instant now);
  void lose(job& j, std::string why);
  void plan(claims::value_type& c);
  void check_over(claims::value_type& c);
  [[nodiscard]] expected<claim_acked> answer_of(const claims::value_type& c, const std::vector<item_id>& about) const;
  void tell(std::uint64_t request, claims::value_type& c, const std::vector<job_report>& said, bool handed_back,
            instant now, claim_effects& fx);
  void close_now(claim_effects& fx);

  pool_id id_;
  limits limits_;
  std::function<std::uint64_t()> random_;
  pick_door door_;
  bool attached_ = false;
  bool attaching_ = false;
  pool_kind kind_ = pool_kind::local;
  std::optional<error> trouble_;  ///< why the queue could not be asked last
  std::optional<time_point> attach_again_;
  bool demand_anew_ = false;
  std::size_t credits_ = 0;  ///< batches that the queue may send
  std::deque<waiting_claim> line_;
  std::deque<batch> arrived_;  ///< jobs that nobody has been given yet
  bool looking_ = false;
  claims claims_;
  std::unordered_map<std::uint64_t, std::string> by_token_;  ///< held or told: the claim's name
  std::set<std::pair<time_point, std::string>> wakes_;
  std::deque<std::string> over_;  ///< claims that are over, the oldest first
  std::map<std::uint64_t, under_way> reports_;
  std::uint64_t next_report_ = 1;
  report_batches to_tell_;  ///< what needs no answer to anybody
  std::optional<time_point> look_at_;
  std::optional<time_point> renew_at_;
  std::chrono::milliseconds queue_lease_{30'000};
  std::optional<time_point> close_at_;
  bool closing_ = false;
  bool closed_ = false;
};

}  // namespace caravan
