#include "testing/faulty_storage.hpp"

namespace caravan::testing {

void faulty_storage::mend() {
  failing_appends = 0;
  losing_appends = 0;
  away = false;
  unanswered_.clear();
}

error faulty_storage::unreachable() const {
  return {errc::backend_failed, "queue \"" + queue_ + "\": its storage cannot be reached, as the test has asked for"};
}

expected<std::vector<append_result>> faulty_storage::append(std::span<record> records, wall_time now) {
  if (away) return unreachable();
  if (failing_appends > 0) {
    --failing_appends;
    return error{errc::backend_failed, "queue \"" + queue_ + "\": the push failed, as the test has asked for"};
  }
  auto answer = real_->append(records, now);
  if (!answer || losing_appends == 0) return answer;
  --losing_appends;
  for (std::size_t i = 0; i < records.size(); ++i)
    if ((*answer)[i].what == append_result::kind::stored) unanswered_.push_back(records[i]);
  for (auto& r : records) r.id = {};  // who got no answer has no id either
  return error{errc::timed_out,
               "queue \"" + queue_ +
                   "\": the answer of the push is lost, as the test has asked for; whether it was stored is unknown"};
}

expected<std::size_t> faulty_storage::adopt(std::size_t) { return unanswered_.size(); }

expected<std::vector<record>> faulty_storage::read(record_state state, read_cursor after, std::size_t max) {
  if (away) return unreachable();
  return real_->read(state, after, max);
}
expected<std::optional<record>> faulty_storage::find(item_id id) {
  if (away) return unreachable();
  return real_->find(id);
}
expected<void> faulty_storage::erase(std::span<const record_ref> refs, item_id low_water) {
  if (away) return unreachable();
  return real_->erase(refs, low_water);
}
expected<void> faulty_storage::update(std::span<const record_move> moves) {
  if (away) return unreachable();
  return real_->update(moves);
}
expected<void> faulty_storage::release(std::span<const record_ref> refs) {
  if (away) return unreachable();
  return real_->release(refs);
}
expected<std::optional<item_id>> faulty_storage::key_owner(const key_digest& digest) {
  if (away) return unreachable();
  return real_->key_owner(digest);
}
expected<std::size_t> faulty_storage::clear(record_state state, item_id through) {
  if (away) return unreachable();
  return real_->clear(state, through);
}

}  // namespace caravan::testing
