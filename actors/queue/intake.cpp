#include "actors/queue/intake.hpp"

#include <algorithm>
#include <iterator>
#include <new>

namespace caravan {

namespace {
// Bounds the memory and the time of one write; who comes later joins the next.
constexpr std::size_t group_at_most = 4'096;
}  // namespace

intake::intake(std::shared_ptr<storage> store, limits l, std::size_t outstanding, std::function<void()> wake,
               const toolbox::clock& clock)
  : store_(std::move(store)), limits_(std::move(l)), wake_(std::move(wake)), clock_(clock), outstanding_(outstanding) {}

expected<std::vector<append_result>> intake::push(std::span<record> records, when_full full) {
  if (records.empty()) return std::vector<append_result>{};
  for (auto& r : records) {
    if (r.payload.size() > limits_.max_item_size)
      return {errc::too_large, "queue \"" + limits_.queue + "\": an item of " + std::to_string(r.payload.size()) +
                                 " bytes exceeds MAX_ITEM_SIZE = " + std::to_string(limits_.max_item_size) +
                                 "; store the data elsewhere and push a reference, or raise MAX_ITEM_SIZE"};
    if (limits_.unique && !r.digest) r.digest = digest_of(r.key.empty() ? r.payload : r.key);
  }

  std::unique_lock lock(mutex_);
  if (auto ok = admit(lock, records.size(), full); !ok) return ok.failure();
  request mine{records};
  pending_.push_back(&mine);
  while (!mine.done) {
    if (writing_)
      written_.wait(lock);
    else
      write_group(lock);
  }
  wake_if_needed(lock);
  return std::move(mine.answer);
}

expected<std::size_t> intake::adopt() {
  adopt_wanted_ = false;  // what comes from now on wants another call
  std::unique_lock lock(mutex_);
  written_.wait(lock, [&] { return !writing_; });
  writing_ = true;
  lock.unlock();
  expected<std::size_t> n{std::size_t{0}};
  try {
    n = store_->adopt(group_at_most);
  } catch (const std::exception& e) {
    n = error{errc::backend_failed, "queue \"" + limits_.queue + "\": its storage threw: " + e.what()};
  }
  auto adopted = store_->take_adopted();
  lock.lock();
  announce_adopted(std::move(adopted));
  writing_ = false;
  written_.notify_all();
  wake_if_needed(lock);
  return n;
}

void intake::announce_adopted(std::vector<record>&& adopted) {
  outstanding_ += adopted.size();
  announced_.insert(announced_.end(), std::make_move_iterator(adopted.begin()), std::make_move_iterator(adopted.end()));
}

void intake::wake_if_needed(std::unique_lock<std::mutex>& lock) {
  const bool wake = !announced_.empty() && !woken_;
  if (wake) woken_ = true;
  lock.unlock();
  if (wake) wake_();
}

expected<void> intake::admit(std::unique_lock<std::mutex>& lock, std::size_t n, when_full full) {
  const auto closed = [&]() -> expected<void> { return closed_because_; };
  if (closed_) return closed();
  if (n > limits_.length)
    return {errc::too_large, "queue \"" + limits_.queue + "\": a push of " + std::to_string(n) +
                                " items can never fit, the limit is LENGTH = " + std::to_string(limits_.length) +
                                "; push fewer at a time or raise it in [queue." + limits_.queue + "]"};
  const auto fits = [&] { return closed_ || (!held_ && outstanding_ + n <= limits_.length); };
  if (!fits()) {
    const bool got = full == when_full::wait && room_changed_.wait_for(lock, limits_.push_timeout, fits);
    if (closed_) return closed();
    if (!got)
      return {errc::queue_full, "queue \"" + limits_.queue + "\": " + std::to_string(outstanding_) +
                                  " items waiting, the limit is LENGTH = " + std::to_string(limits_.length) +
                                  "; raise it in [queue." + limits_.queue + "] or add workers"};
  }
  outstanding_ += n;
  return {};
}

void intake::write_group(std::unique_lock<std::mutex>& lock) {
  writing_ = true;
  group_.clear();
  std::size_t size = 0;
  for (auto* r : pending_) {
    if (size > 0 && size + r->records.size() > group_at_most) break;
    size += r->records.size();
    group_.push_back(r);
  }
  pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(group_.size()));
  lock.unlock();
  write(group_);
  auto adopted = store_->take_adopted();
  lock.lock();
  announce_adopted(std::move(adopted));  // their ids are lower
  std::size_t refused = 0;
  for (auto* r : group_) {
    for (std::size_t i = 0; i < r->records.size(); ++i) {
      if (r->answer && (*r->answer)[i].what == append_result::kind::stored)
        announced_.push_back(std::move(r->records[i]));
      else
        ++refused;
    }
    r->done = true;
  }
  writing_ = false;
  if (refused > 0) {
    outstanding_ -= std::min(outstanding_, refused);
    room_changed_.notify_all();
  }
  written_.notify_all();  // those of this group are done, and one of the others writes next
}

void intake::write(std::span<request*> group) {
  const auto now = clock_.wall();
  const auto failed = [&](const char* why) -> error {
    return {errc::backend_failed, "queue \"" + limits_.queue + "\": the push failed: " + why};
  };
  // A throw must not leave the others waiting for ever.
  const auto append = [&](std::span<record> records) -> expected<std::vector<append_result>> {
    try {
      return store_->append(records, now);
    } catch (const std::exception& e) {
      return failed(e.what());
    } catch (...) {
      return failed("its storage threw something that is no std::exception");
    }
  };
  if (group.size() == 1) {
    group.front()->answer = append(group.front()->records);
    return;
  }
  try {
    // All memory that is needed, before anything is stored: what is stored must be answered and announced.
    joined_.clear();
    std::size_t total = 0;
    for (auto* r : group) {
      r->answer = std::vector<append_result>{};
      r->answer->reserve(r->records.size());
      total += r->records.size();
    }
    joined_.reserve(total);
  } catch (const std::bad_alloc&) {
    for (auto* r : group) r->answer = failed("out of memory");
    return;
  }
  for (auto* r : group)
    for (auto& x : r->records) joined_.push_back(std::move(x));
  const auto answer = append(joined_);
  std::size_t at = 0;
  for (auto* r : group) {
    if (!answer) r->answer = answer.failure();
    for (auto& x : r->records) {
      if (answer) r->answer->push_back((*answer)[at]);
      x = std::move(joined_[at++]);
    }
  }
}

void intake::take(std::vector<record>& into) {
  into.clear();
  const std::lock_guard lock(mutex_);
  woken_ = false;
  into.swap(announced_);
}

std::size_t intake::room() const {
  const std::lock_guard lock(mutex_);
  return limits_.length - std::min(limits_.length, outstanding_);
}

void intake::add_room(std::ptrdiff_t n) {
  if (n == 0) return;
  const std::lock_guard lock(mutex_);
  if (n > 0) {
    outstanding_ -= std::min(outstanding_, static_cast<std::size_t>(n));
    room_changed_.notify_all();
  } else {
    outstanding_ += static_cast<std::size_t>(-n);
  }
}

void intake::close(error why) {
  std::unique_lock lock(mutex_);
  closed_ = true;
  closed_because_ = std::move(why);
  room_changed_.notify_all();
  written_.wait(lock, [&] { return !writing_ && pending_.empty(); });
}

void intake::hold(bool held) {
  std::unique_lock lock(mutex_);
  held_ = held;
  if (held)
    written_.wait(lock, [&] { return !writing_ && pending_.empty(); });
  else
    room_changed_.notify_all();
}

void intake::open() {
  const std::lock_guard lock(mutex_);
  closed_ = false;
}

}  // namespace caravan
