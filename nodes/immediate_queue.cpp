#include "nodes/queue_host.hpp"

#include <atomic>

namespace caravan {

namespace {

class immediate_queue final : public hosted_queue {
public:
  explicit immediate_queue(host_parts parts) : parts_(std::move(parts)) {}

  [[nodiscard]] const std::string& name() const override { return parts_.settings.name; }
  [[nodiscard]] std::uint64_t id() const override { return parts_.id; }
  [[nodiscard]] const config::queue_settings& settings() const override { return parts_.settings; }
  [[nodiscard]] std::string item_type() const override { return parts_.item_type; }
  [[nodiscard]] queue_actor actor() const override { return {}; }
  [[nodiscard]] worker_pool_actor pool() const override { return {}; }
  [[nodiscard]] std::string trouble_text() const override { return {}; }
  expected<void> attach(std::shared_ptr<runner>, const std::string&) override {
    return {errc::conflict, "queue \"" + name() + "\": is a dummy queue that was opened already; give its handler when it is made"};
  }
  std::size_t stop() override {
    stopped_ = true;
    return 0;
  }

  expected<item_id> push_one(item_draft draft) override {
    std::vector<item_draft> one;
    one.push_back(std::move(draft));
    auto done = push(std::move(one));
    if (!done) return done.failure();
    return done->front().id;
  }

  // What a handler does not handle is gone: there is no place to keep it. The caller learns of it.
  expected<std::vector<pushed>> push(std::vector<item_draft> drafts) override {
    if (stopped_) return {errc::queue_closed, "queue \"" + name() + "\": is stopped"};
    const auto now = parts_.clock->wall();
    auto items = std::make_shared<std::vector<record>>();
    std::vector<pushed> results;
    for (auto& d : drafts) {
      if (auto ok = check_options(d.options, name()); !ok) return ok.failure();
      items->push_back(to_record(std::move(d), now));
      if (items->back().due > now)
        return {errc::not_supported, "queue \"" + name() + "\": is of TYPE = dummy and runs its handler inside push, so it cannot delay an item; use channel or level"};
      if (items->back().payload.size() > parts_.settings.max_item_size)
        return {errc::too_large, "queue \"" + name() + "\": an item exceeds MAX_ITEM_SIZE = " + std::to_string(parts_.settings.max_item_size)};
      items->back().id = next_id(now);
      results.push_back({items->back().id, true, false});
    }
    pushed_ += items->size();
    if (!parts_.handler) return results;
    batch_result rest;
    try {
      rest = parts_.handler->run({name(), ++token_, {}, items, {}}, {{}, std::chrono::steady_clock::time_point::max(), parts_.node});
    } catch (const std::exception& e) {
      rest = whole_batch(items->size(), item_outcome::kind::failed, e.what());
    } catch (...) {
      rest = whole_batch(items->size(), item_outcome::kind::failed, "the handler threw something that is no std::exception");
    }
    handled_ += items->size() - std::min(rest.size(), items->size());
    if (rest.empty()) return results;
    failed_ += rest.size();
    const auto& first = rest.front();
    return {errc::conflict, "queue \"" + name() + "\": the handler did not handle " + std::to_string(rest.size()) + " of " +
                              std::to_string(items->size()) + " items" + (first.text.empty() ? "" : ": " + first.text)};
  }

  expected<bool> has(const std::string&, const std::string&) override { return false; }

  expected<queue_info> info() override {
    queue_info i;
    i.name = name();
    i.type = "dummy";
    i.item_type = parts_.item_type;
    i.phase = stopped_ ? "stopped" : "running";
    i.id = parts_.id;
    i.length = parts_.settings.length;
    i.pushed = pushed_;
    i.handled = handled_;
    i.failed = failed_;
    if (parts_.handler) i.handler = parts_.handler->describe();
    return i;
  }

  expected<void> flush(std::chrono::milliseconds) override { return {}; }
  expected<void> pause(std::chrono::system_clock::time_point) override { return unsupported("paused"); }
  expected<void> resume() override { return {}; }
  expected<void> drain() override { return stopped_ = true, expected<void>{}; }
  expected<std::size_t> purge(std::string_view) override { return std::size_t{0}; }
  expected<void> set_max_workers(int) override { return unsupported("scaled"); }
  expected<job_info> find(item_id item) override {
    return {errc::not_found, "job " + to_string(job_id{name(), item}) + ": a dummy queue keeps nothing"};
  }
  expected<void> cancel(item_id item) override { return find(item).failure(); }

private:
  expected<void> unsupported(const std::string& what) const {
    return {errc::not_supported, "queue \"" + name() + "\": is of TYPE = dummy, which runs its handler inside push and cannot be " + what};
  }

  item_id next_id(wall_time now) {
    auto last = last_id_.load();
    std::uint64_t next = 0;
    do next = std::max(last + 1, first_id_at(now).value);
    while (!last_id_.compare_exchange_weak(last, next));
    return {next};
  }

  host_parts parts_;
  std::atomic<std::uint64_t> last_id_{0};
  std::atomic<std::uint64_t> token_{0};
  std::atomic<std::uint64_t> pushed_{0};
  std::atomic<std::uint64_t> handled_{0};
  std::atomic<std::uint64_t> failed_{0};
  std::atomic<bool> stopped_{false};
};

}  // namespace

std::shared_ptr<hosted_queue> make_immediate_queue(host_parts parts) {
  return std::make_shared<immediate_queue>(std::move(parts));
}

}  // namespace caravan
