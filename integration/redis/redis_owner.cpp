#include "integration/redis/redis_owner.hpp"

#include "integration/redis/redis_queue_keys.hpp"
#include "integration/redis/redis_queue_scripts.hpp"

#include <charconv>

namespace caravan {

namespace scripts = redis_queue_scripts;

redis_owner::redis_owner(redis_client& client, const std::string& queue_full_name, std::string node)
    : client_(client), queue_(queue_full_name), node_(std::move(node)), channel_(redis_queue_keys(queue_, {}).news()) {}

const std::string& redis_owner::channel() const { return channel_; }

expected<redis_owner::claim> redis_owner::acquire(std::chrono::milliseconds lease) {
  const redis_queue_keys keys(queue_, {});
  const auto ms = std::to_string(lease.count());
  const std::string_view args[] = {node_, ms};
  const auto answer = client_.eval(scripts::acquire, keys.all, args);
  if (!answer) return answer.failure();
  claim c;
  if (answer->has(3) && answer->items[0].number == scripts::held) {
    c.holder = answer->items[1].text;
    c.left = std::chrono::milliseconds{std::max<std::int64_t>(answer->items[2].number, 0)};
    return c;
  }
  if (answer->has(2)) {
    const auto& text = answer->items[1].text;
    std::from_chars(text.data(), text.data() + text.size(), c.epoch);
  }
  if (c.epoch == 0)
    return {errc::backend_failed, "redis " + client_.where() + ": the script acquire answered what it never should"};
  return c;
}

expected<std::size_t> redis_owner::renew(std::uint64_t epoch, std::chrono::milliseconds lease) {
  const redis_queue_keys keys(queue_, {});
  const auto e = std::to_string(epoch);
  const auto ms = std::to_string(lease.count());
  const std::string_view args[] = {e, node_, ms};
  const auto answer = client_.eval(scripts::renew, keys.all, args);
  if (!answer) return answer.failure();
  if (!answer->has(2)) return {errc::fenced, "queue " + queue_ + ": another node owns it now"};
  return static_cast<std::size_t>(answer->items[1].number);
}

expected<void> redis_owner::give_up(std::uint64_t epoch, std::string_view to) {
  const redis_queue_keys keys(queue_, {});
  const auto e = std::to_string(epoch);
  const std::string_view args[] = {e, to};
  const auto answer = client_.eval(scripts::give_up, keys.all, args);
  if (!answer) return answer.failure();
  return {};
}

}  // namespace caravan
