#pragma once

/// What the HTTP side and the claim pool of a queue say to each other. Plain: no CAF here. It never leaves a process.

#include "messages/batch.hpp"
#include "messages/record.hpp"

#include <caravan/error.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace caravan {

/// Somebody outside wants jobs.
struct open_claim {
  std::uint64_t request = 0;           ///< names it for cancel_claim
  std::size_t most = 1;                ///< jobs
  std::chrono::milliseconds wait{0};   ///< for the first of them; 0: not at all
  std::chrono::milliseconds lease{0};  ///< without a sign of life; 0: as the queue is set
  std::string worker;                  ///< its name; empty: it gave none
  std::string from;                    ///< its address
};
/// It does not wait any longer.
struct cancel_claim {
  std::uint64_t request = 0;
};
/// Whatever claims of this worker wait are answered at once.
struct wake_worker {
  std::string worker;
};

struct claimed_job {
  record item;
  std::uint64_t token = 0;  ///< only grows within the queue
  wall_time deadline{};     ///< its TIMEOUT; none: wall_time{}
};
/// The answer to open_claim. Without jobs there is no lease.
struct claim_granted {
  std::string lease;  ///< names the claim; nobody else knows it
  std::chrono::milliseconds remaining{0};
  std::vector<claimed_job> jobs;
  std::chrono::milliseconds retry_after{0};  ///< above 0: throttled, nobody asked the queue
};

/// Another full lease from now on, for what is left of the claim.
struct extend_claim {
  std::string lease;
};
struct claim_extended {
  std::chrono::milliseconds remaining{0};
  std::vector<item_id> jobs;  ///< still held
  std::vector<item_id> lost;  ///< held no more, although nobody said what became of them
};

enum class job_outcome : std::uint8_t { handled, unhandled, failed, rejected, later };
/// What became of a job.
struct job_report {
  item_id id;
  job_outcome what = job_outcome::handled;
  std::string text;                    ///< why, for people
  std::chrono::milliseconds delay{0};  ///< later, and failed: when it comes again; 0: the queue decides
};
struct ack_claim {
  std::string lease;
  std::vector<job_report> jobs;
  bool rest = false;  ///< what is left and not named was handled
};
/// Hands back what is left of it.
struct release_claim {
  std::string lease;
};
struct job_acked {
  item_id id;
  job_outcome what = job_outcome::handled;  ///< as it was said first
  bool counted = false;                     ///< false: the job was not the claim's any more
};
struct claim_acked {
  std::vector<job_acked> jobs;
  std::size_t left = 0;  ///< jobs of the claim without an outcome
};

/// One worker, or one address that claims without a name.
struct claimer_status {
  std::string worker;
  std::string from;
  std::size_t waiting = 0;  ///< claims in line
  std::size_t jobs = 0;     ///< in hand
  wall_time last_seen{};
};
struct get_claimers {};
struct claimer_list {
  std::vector<claimer_status> claimers;
};

/// Takes no more claims and answers those in line. Answered with what is left in hand when nothing is, or after
/// `timeout`: then it is handed back.
struct close_claims {
  std::chrono::milliseconds timeout{0};
};
struct claims_closed {
  std::size_t handed_back = 0;
};

}  // namespace caravan
