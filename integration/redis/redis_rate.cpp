#include "integration/redis/redis_rate.hpp"

#include <array>
#include <utility>

namespace caravan {

namespace {

const redis_script tokens_script{"limit tokens", R"(-- Takes tokens out of a bucket that fills evenly.
-- KEYS: 1 the bucket: tokens, and when it held them (microseconds)
-- ARGV: 1 rate for each PER, 2 PER in milliseconds, 3 burst, 4 how many
local t = redis.call('TIME')
local now = tonumber(t[1]) * 1000000 + tonumber(t[2])
local rate = tonumber(ARGV[1]) / (tonumber(ARGV[2]) * 1000)
local burst = tonumber(ARGV[3])
local n = tonumber(ARGV[4])
local state = redis.call('HMGET', KEYS[1], 'tokens', 'at')
local tokens = burst
if state[1] and state[2] then
  -- A clock that was set back fills nothing; it fills again from there.
  local passed = math.max(0, now - tonumber(state[2]))
  tokens = math.min(burst, tonumber(state[1]) + passed * rate)
end
local permitted = 0
if tokens >= n then
  tokens = tokens - n
  permitted = 1
end
redis.call('HSET', KEYS[1], 'tokens', string.format('%.17g', tokens), 'at', string.format('%.0f', now))
if rate > 0 then
  local full = math.min(math.ceil((burst - tokens) / rate / 1000), 1000000000000)
  redis.call('PEXPIRE', KEYS[1], string.format('%.0f', math.max(1, full)))
else
  redis.call('PERSIST', KEYS[1])
end
return permitted)"};

const redis_script period_script{"limit period", R"(-- Counts takes until a period is over, which begins with the first.
-- KEYS: 1 the count, and when its period ends (milliseconds)
-- ARGV: 1 quota, 2 period in milliseconds, 3 how many
local t = redis.call('TIME')
local now = tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
local quota = tonumber(ARGV[1])
local period = tonumber(ARGV[2])
local n = tonumber(ARGV[3])
local state = redis.call('HMGET', KEYS[1], 'count', 'ends')
local count = tonumber(state[1] or '0')
local ends = tonumber(state[2] or '0')
if now >= ends then
  count = 0
  ends = now + period
elseif ends - now > period then
  ends = now + period -- the clock was set back: no end lies further away than a new one would
end
local permitted = 0
if count + n <= quota then
  count = count + n
  permitted = 1
end
redis.call('HSET', KEYS[1], 'count', string.format('%.0f', count), 'ends', string.format('%.0f', ends))
redis.call('PEXPIRE', KEYS[1], string.format('%.0f', ends - now))
return permitted)"};

}  // namespace

redis_options redis_rate_options(config::redis_address address) {
  return impatient_redis_options(std::move(address), "caravan-limit");
}

redis_rate::redis_rate(std::shared_ptr<redis_client> client, std::string prefix)
    : client_(std::move(client)), prefix_(std::move(prefix) + ":") {}

std::string redis_rate::name() const { return "redis at " + client_->where(); }

expected<bool> redis_rate::take(std::string_view key, const rate_rule& rule, std::uint64_t n) {
  const auto rate = std::to_string(rule.rate), per = std::to_string(rule.per.count());
  const auto burst = std::to_string(rule.burst), many = std::to_string(n);
  const bool period = rule.how == rate_rule::kind::period;
  // The kinds keep different things, so a limit that changes its kind begins anew.
  const std::array keys{prefix_ + (period ? "p:" : "t:") + std::string(key)};
  const std::array<std::string_view, 4> for_tokens{rate, per, burst, many};
  const std::array<std::string_view, 3> for_period{rate, per, many};
  const auto said =
      period ? client_->eval(period_script, keys, for_period) : client_->eval(tokens_script, keys, for_tokens);
  if (!said) return said.failure();
  if (!said->is_integer())
    return {errc::backend_failed,
            "limit in " + name() + ": an odd reply; look whether this is a Redis of version 6 or later"};
  return said->number == 1;
}

expected<void> redis_rate::reset(std::string_view key) {
  const auto text = std::string(key);
  const auto gone = client_->command({"DEL", prefix_ + "p:" + text, prefix_ + "t:" + text});
  if (!gone) return gone.failure();
  return {};
}

}  // namespace caravan
