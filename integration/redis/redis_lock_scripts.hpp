#pragma once

/// The transitions of a lock in Redis, each in one script. The keys are described in docs/formats.md, "Locks in Redis".
///
///   lock     caravan:globallock:KEY         NODE:ID|TOKEN of the holder, with a time to live
///   line     caravan:globallock-line:KEY    sorted set of NODE:ID by the microsecond of its coming: who waits
///   node     caravan:globallock-node:NODE   there while the node lives and waits; also the channel that tells of its
///   turns counter  caravan:globallock-token       the last token of any key
///
/// Redis' own clock counts alone. The keys of nodes are made within the scripts, so a Redis cluster is no place for
/// them.

#include "integration/redis/redis_value.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

namespace caravan::redis_lock {

// Tokens are microseconds, or one more than the last: a Redis that forgot the counter, or a replica that never had its
// last value, gives higher ones all the same, as long as its clock is not behind by more than a failover lasts.
// hand_on drops those whose node is gone. The turn that it gives lasts `claim` ms; the node makes it longer.
inline constexpr char prelude[] = R"lua(
local function microseconds()
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2]
end
local function text(n) return string.format('%.0f', n) end
local function next_token(counter, now)
  local token = text(now)
  local last = tonumber(redis.call('SET', counter, token, 'PX', 604800000, 'GET') or 0) or 0
  if last >= now then
    token = text(last + 1)
    redis.call('SET', counter, token, 'PX', 604800000)
  end
  return token
end
local function token_of(held, value)
  if held and string.sub(held, 1, #value + 1) == value .. '|' then return string.sub(held, #value + 2) end
end
local function hand_on(lock, line, counter, key, claim, now)
  while true do
    local first = redis.call('ZRANGE', line, 0, 0)[1]
    if not first then return end
    redis.call('ZREM', line, first)
    local node = 'caravan:globallock-node:' .. (string.match(first, '^(.*):') or '')
    if redis.call('EXISTS', node) == 1 then
      local token = next_token(counter, now)
      redis.call('SET', lock, first .. '|' .. token, 'PX', claim)
      redis.call('PUBLISH', node, first .. ' ' .. token .. ' ' .. key)
      return first
    end
  end
end
)lua";

/// The prelude with a body behind it, at compile time: a script's text lives for ever.
template <std::size_t N>
constexpr auto with_prelude(const char (&body)[N]) {
  std::array<char, sizeof prelude + N - 1> text{};
  std::copy_n(prelude, sizeof prelude - 1, text.begin());
  std::copy_n(body, N, text.begin() + sizeof prelude - 1);
  return text;
}

/// KEYS: 1 lock  2 line  3 node  4 counter
/// ARGV: 1 key  2 value  3 time to live, ms  4 "1": wait  5 claim, ms  6 the node's time to live, ms  7 the line's, ms
///       8 microsecond of Redis after which this request is too old to be carried out, or 0
/// Returns {granted, now, token}, {queued, now, place, the lock's rest in ms}, {busy, now} or {too old, now}: 1, 2, 0,
/// -1. A request that was stuck in a socket must not lock for somebody who gave up long ago: hence 8.
inline constexpr auto take_text = with_prelude(R"lua(
local now = microseconds()
if ARGV[8] ~= '0' and now > tonumber(ARGV[8]) then return {-1, text(now)} end
if redis.call('EXISTS', KEYS[1], KEYS[2]) == 0 then
  local token = next_token(KEYS[4], now)
  redis.call('SET', KEYS[1], ARGV[2] .. '|' .. token, 'PX', ARGV[3])
  return {1, text(now), token}
end
local held = redis.call('GET', KEYS[1])
local mine = token_of(held, ARGV[2])
if mine then
  redis.call('PEXPIRE', KEYS[1], ARGV[3])
  return {1, text(now), mine}
end
if not held and redis.call('EXISTS', KEYS[2]) == 1 then
  held = hand_on(KEYS[1], KEYS[2], KEYS[4], ARGV[1], ARGV[5], now)
end
if not held then
  local token = next_token(KEYS[4], now)
  redis.call('SET', KEYS[1], ARGV[2] .. '|' .. token, 'PX', ARGV[3])
  return {1, text(now), token}
end
if ARGV[4] ~= '1' then return {0, text(now)} end
redis.call('SET', KEYS[3], '1', 'PX', ARGV[6])
local place = redis.call('ZSCORE', KEYS[2], ARGV[2])
if not place then
  local last = redis.call('ZRANGE', KEYS[2], -1, -1, 'WITHSCORES')[2]
  place = text(math.max(now, (tonumber(last or 0) or 0) + 1))
  redis.call('ZADD', KEYS[2], place, ARGV[2])
end
redis.call('PEXPIRE', KEYS[2], ARGV[7])
return {2, text(now), place, redis.call('PTTL', KEYS[1])}
)lua");

/// KEYS: the locks   ARGV: value and time to live in ms of each
/// Returns the token of each that is still its own, else 0.
inline constexpr auto renew_text = with_prelude(R"lua(
local answer = {}
for i, lock in ipairs(KEYS) do
  answer[i] = token_of(redis.call('GET', lock), ARGV[2 * i - 1]) or '0'
  if answer[i] ~= '0' then redis.call('PEXPIRE', lock, ARGV[2 * i]) end
end
return answer
)lua");

/// KEYS: 1 counter, then the locks   ARGV: 1 raise, keep or put, then value, token and time to live in ms of each
/// Returns 1 for each that is its own, as redis_locks::hold says. Neither a token nor the counter ever gets lower.
inline constexpr auto hold_text = with_prelude(R"lua(
local answer = {}
local last = tonumber(redis.call('GET', KEYS[1]) or 0) or 0
for i = 2, #KEYS do
  local lock, value, token, life = KEYS[i], ARGV[3 * i - 4], ARGV[3 * i - 3], ARGV[3 * i - 2]
  local held = redis.pcall('GET', lock)
  local mine = type(held) == 'string' and tonumber(token_of(held, value) or nil)
  local lower = not mine or mine < tonumber(token)
  answer[i - 1] = 0
  if mine and (ARGV[1] ~= 'raise' or mine <= tonumber(token)) or held == false and ARGV[1] == 'put' then
    answer[i - 1] = 1
    if lower then redis.call('SET', lock, value .. '|' .. token, 'PX', life) else redis.call('PEXPIRE', lock, life) end
    if tonumber(token) > last then
      last = tonumber(token)
      redis.call('SET', KEYS[1], token, 'PX', 604800000)
    end
  end
end
return answer
)lua");

/// KEYS: 1 lock  2 line  3 counter   ARGV: 1 key  2 value  3 claim, ms
/// Returns 1 when it was its own.
inline constexpr auto release_text = with_prelude(R"lua(
local waited = redis.call('EXISTS', KEYS[2]) == 1
if waited then redis.call('ZREM', KEYS[2], ARGV[2]) end
if not token_of(redis.call('GET', KEYS[1]), ARGV[2]) then return 0 end
if not (waited and hand_on(KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[3], microseconds())) then
  redis.call('DEL', KEYS[1])
end
return 1
)lua");

/// KEYS: 1 node  2 counter, then lock and line of each ticket
/// ARGV: 1 claim, ms  2 the node's time to live, ms  3 the line's, ms, then key, value and place of each ticket
/// Returns for each its token, or the rest of the lock in ms as a negative number.
/// All take their places before any key is given away: after a loss of all data the first one to be seen is not the
/// first one in line.
inline constexpr auto beat_text = with_prelude(R"lua(
redis.call('SET', KEYS[1], '1', 'PX', ARGV[2])
local answer = {}
local n = (#KEYS - 2) / 2
for i = 1, n do
  local value = ARGV[3 * i + 2]
  answer[i] = token_of(redis.call('GET', KEYS[2 * i + 1]), value)
  if not answer[i] then
    redis.call('ZADD', KEYS[2 * i + 2], 'NX', ARGV[3 * i + 3], value)
    redis.call('PEXPIRE', KEYS[2 * i + 2], ARGV[3])
  end
end
for i = 1, n do
  if not answer[i] then
    local lock = KEYS[2 * i + 1]
    if redis.call('EXISTS', lock) == 0 then
      hand_on(lock, KEYS[2 * i + 2], KEYS[2], ARGV[3 * i + 1], ARGV[1], microseconds())
    end
    answer[i] = token_of(redis.call('GET', lock), ARGV[3 * i + 2]) or text(-math.max(redis.call('PTTL', lock), 1))
  end
end
return answer
)lua");

/// KEYS: 1 lock  2 line  3 counter   ARGV: 1 key  2 claim, ms
/// Returns 1 when somebody held it.
inline constexpr auto force_text = with_prelude(R"lua(
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
if not hand_on(KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2], microseconds()) then redis.call('DEL', KEYS[1]) end
return 1
)lua");

/// KEYS: lock and line of each   ARGV: 1 most waiters shown
/// Returns for each: the lock's value or '', its rest in ms, how many wait, and the first of them.
inline constexpr auto show_text = with_prelude(R"lua(
local answer = {}
for i = 1, #KEYS / 2 do
  local held = redis.call('TYPE', KEYS[2 * i - 1]).ok == 'string' and redis.call('GET', KEYS[2 * i - 1]) or ''
  answer[i] = {held, redis.call('PTTL', KEYS[2 * i - 1]), redis.call('ZCARD', KEYS[2 * i]),
               redis.call('ZRANGE', KEYS[2 * i], 0, ARGV[1] - 1)}
end
return answer
)lua");

}  // namespace caravan::redis_lock
