#pragma once

/// The rules of cron_store as plain functions over a row, and a store made of them: an engine that can read a value and
/// replace it if it is unchanged needs no more.

#include "integration/cron_store.hpp"

#include <vector>

namespace caravan {

/// What a node was answered, so that its repeat gets the same, whatever others did meanwhile.
struct cron_recent {
  cron_node node;
  std::uint64_t request = 0;
  cron_verdict verdict = cron_verdict::taken;
  cron_instant from{};
  cron_instant to{};
  std::optional<cron_running> lost;
  std::optional<cron_instant> dropped;

  friend bool operator==(const cron_recent&, const cron_recent&) = default;
};

/// As it is stored; docs/formats.md describes it.
struct cron_row {
  cron_state state;
  std::uint64_t token = 0;  ///< of the last run that was granted
  std::vector<cron_recent>
      recent;  ///< the last claim of each node that changed something; the oldest first, 16 at most

  friend bool operator==(const cron_row&, const cron_row&) = default;
};

[[nodiscard]] std::string encode(const cron_row& row);
/// Nothing for damaged bytes and for those of a newer version.
[[nodiscard]] std::optional<cron_row> decode_cron_row(std::string_view bytes);

/// `store_clock`: `now` is the store's own.
[[nodiscard]] cron_answer apply_claim(cron_row& row, const cron_claim& claim, cron_time now, bool store_clock);
void apply_renew(cron_row& row, std::uint64_t token, std::chrono::milliseconds lease, cron_time now);
[[nodiscard]] cron_ended apply_finish(cron_row& row, const cron_end& end, cron_time now);
void apply_pause(cron_row& row, bool paused, const std::string& who, cron_instant cursor);

/// An engine derives from it and writes read and replace.
class cron_row_store : public cron_store {
public:
  expected<cron_view> open(const std::string& task, cron_instant first_cursor, cron_time now) final;
  expected<cron_answer> claim(const cron_claim& claim, cron_time now) final;
  expected<cron_view> renew(const std::string& task, std::uint64_t token, std::chrono::milliseconds lease,
                            cron_time now) final;
  expected<cron_ended> finish(const cron_end& end, cron_time now) final;
  expected<cron_view> set_paused(const std::string& task, bool paused, const std::string& who, cron_instant cursor,
                                 cron_time now) final;

protected:
  struct found {
    std::optional<std::string> bytes;  ///< none: there is no row
    std::optional<cron_time> now;      ///< the engine's clock, if all nodes share it
  };
  virtual expected<found> read(const std::string& task) = 0;
  /// Durable when it returns. False, and nothing is written, when the row is not `was` any more.
  virtual expected<bool> replace(const std::string& task, const std::optional<std::string>& was,
                                 const std::string& bytes) = 0;

private:
  template <class Answer, class Change>
  expected<Answer> change(const std::string& task, cron_time now, Change&& apply);
};

}  // namespace caravan
