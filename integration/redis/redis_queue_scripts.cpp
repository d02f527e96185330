#include "integration/redis/redis_queue_scripts.hpp"

namespace caravan::redis_queue_scripts {

// What the scripts share. KEYS are those of redis_queue_keys.
//
// Rows that the owner stored lie in `waiting` and `delayed`. What other nodes push lies in `incoming` until the owner
// adopts it: so nothing appears in line that the owner's memory does not know of, and ids are in line in the order in
// which the owner heard of them.
//
// An id is 13 digits of base 32 and sorts as text. Numbers of Lua are exact to 53 bits only, so a new id is made of its
// two parts, milliseconds and counter.
#define CARAVAN_PRELUDE                                                                                                \
  "local meta, items, waiting, delayed, dead, incoming, incoming_due, unique, unique_times, idem, idem_times, owner, " \
  "damaged, news, ranked, done, held, keyed = unpack(KEYS)\n"

// By the digit of a state.
#define CARAVAN_PLACES                                                                                  \
  "local places = {['0'] = waiting, ['1'] = delayed, ['2'] = dead, ['3'] = ranked, ['4'] = done, "      \
  "['5'] = held, ['6'] = keyed}\n"

// What stands in front of an incoming row: "STATE:SORT", or the due time alone as earlier versions wrote it.
#define CARAVAN_PLACE_OF                                              \
  "local function place_of(text)\n"                                   \
  "  if not text then return '0', 0 end\n"                            \
  "  local state, sort = string.match(text, '^(%d):(.*)$')\n"         \
  "  return state or '1', sort or text\n"                             \
  "end\n"

#define CARAVAN_COUNTS                                                                                    \
  "local function counts(...)\n"                                                                          \
  "  local m = redis.call('HMGET', meta, 'ms', 'seq')\n"                                                  \
  "  local t = redis.call('TIME')\n"  \
  "  return {0, redis.call('ZCARD', waiting), redis.call('ZCARD', delayed), redis.call('ZCARD', dead),\n" \
  "          tonumber(t[1]) * 1000000 + tonumber(t[2]), m[1] or '0', m[2] or '0',\n"                      \
  "          redis.call('ZCARD', ranked), redis.call('ZCARD', done), redis.call('ZCARD', held),\n"         \
  "          redis.call('ZCARD', keyed), ...}\n"                                                           \
  "end\n"

#define CARAVAN_FENCE "if redis.call('HGET', meta, 'epoch') ~= ARGV[1] then return {1} end\n"

// unpack() of a long list overflows Lua's stack.
#define CARAVAN_BULK                                                                            \
  "local function bulk(command, key, list, step)\n"                                             \
  "  local out = {}\n"                                                                          \
  "  for from = 1, #list, step or 1000 do\n"                                                    \
  "    local to = math.min(from + (step or 1000) - 1, #list)\n"                                 \
  "    local part = redis.call(command, key, unpack(list, from, to))\n"                         \
  "    if type(part) == 'table' then for i = 1, #part do out[from + i - 1] = part[i] end end\n" \
  "  end\n"                                                                                     \
  "  return out\n"                                                                              \
  "end\n"

// Frees the unique keys that still belong to these ids; `all`: those with a lifetime too.
#define CARAVAN_FREE                                                                                \
  "local function free(digests, ids, all)\n"                                                        \
  "  if #digests == 0 then return end\n"                                                            \
  "  local keys = bulk('HMGET', unique, digests)\n"                                                 \
  "  local gone, timed = {}, {}\n"                                                                  \
  "  for i = 1, #digests do\n"                                                                      \
  "    local k = keys[i]\n"                                                                         \
  "    if k and string.sub(k, 1, 13) == ids[i] and (all or #k == 13) then\n"                        \
  "      gone[#gone + 1] = digests[i]\n"                                                            \
  "      if #k > 13 then timed[#timed + 1] = digests[i] end\n"                                      \
  "    end\n"                                                                                       \
  "  end\n"                                                                                         \
  "  bulk('HDEL', unique, gone)\n"                                                                  \
  "  bulk('ZREM', unique_times, timed)\n"                                                           \
  "end\n"

// next_id(): above the last one (ms, seq), and not before the call's first ms. Its first 12 digits seldom change and
// are kept.
#define CARAVAN_NEXT_ID                                                                                 \
  "local ms, seq, head = tonumber(m[2] or '0'), tonumber(m[3] or '0'), m[5]\n"                          \
  "local digits = '0123456789abcdefghjkmnpqrstvwxyz'\n"                                                 \
  "local function encode(value, length)\n"                                                              \
  "  local out = ''\n"                                                                                  \
  "  for _ = 1, length do\n"                                                                            \
  "    local d = value % 32\n"                                                                          \
  "    out = string.sub(digits, d + 1, d + 1) .. out\n"                                                 \
  "    value = (value - d) / 32\n"                                                                      \
  "  end\n"                                                                                             \
  "  return out\n"                                                                                      \
  "end\n"                                                                                               \
  "local first_ms = tonumber(ARGV[3])\n"                                                                \
  "local function next_id()\n"                                                                          \
  "  if first_ms > ms then\n"                                                                           \
  "    ms, seq, head = first_ms, 0, nil\n"                                                              \
  "  else\n"                                                                                            \
  "    seq = seq + 1\n"                                                                                 \
  "    if seq >= 4194304 then ms, seq, head = ms + 1, 0, nil end\n"                                     \
  "  end\n"                                                                                             \
  "  local low = seq % 32\n"                                                                            \
  "  if low == 0 or not head then\n"                                                                    \
  "    head = encode(math.floor(ms / 8), 8) .. encode((ms % 8) * 4 + math.floor(seq / 1048576), 1) .. " \
  "encode(math.floor(seq / 32) % 32768, 3)\n"                                                           \
  "  end\n"                                                                                             \
  "  return head .. string.sub(digits, low + 1, low + 1)\n"                                             \
  "end\n"

// ARGV: epoch (0: not the owner), client, first ms of a new id, now in ms, idempotency window ms, LENGTH (0: not checked),
// id through which incoming rows were seen, form, number of the client's call, then a record: its body, and in the form
// "full" also digest, "STATE:SORT" unless it is waiting, digest of its idempotency key, lifetime in ms of its unique key,
// each may be empty. Answer: counts and the ids' text: "A" and the first id when all were stored, else
// "M" and for each a letter and an id. Or {3, id, body, ...}: rows that the owner has to adopt first; nothing was
// stored. Or {2, items there}.
const redis_script append("append", CARAVAN_PRELUDE CARAVAN_PLACES CARAVAN_PLACE_OF CARAVAN_COUNTS CARAVAN_BULK R"lua(
local epoch, window = ARGV[1], tonumber(ARGV[5])
local now, length, full = tonumber(ARGV[4]), tonumber(ARGV[6]), ARGV[8] == 'full'
local m = redis.call('HMGET', meta, 'epoch', 'ms', 'seq', 'caller', 'head', 'call', 'answer')
local client, number = ARGV[2], ARGV[9]
-- The last call of the owner is kept beside its other numbers, that of any other node by itself and for a while.
local seen_key = epoch == '0' and string.sub(meta, 1, -5) .. 'call:' .. client
local whose, last, answered = m[4], m[6], m[7]
if seen_key then
  local seen = redis.call('GET', seen_key)
  whose = seen and client
  if seen then last, answered = string.match(seen, '^(%d+)|(.*)$') end
elseif m[1] ~= epoch then return {1} end
if whose == client and last then
  if last == number then return counts(answered) end
  -- From a connection that was given up long ago: its caller does not wait any more.
  if tonumber(last) > tonumber(number) then return counts('X') end
end
if not seen_key and redis.call('EXISTS', incoming) == 1 then
  if ARGV[7] ~= '' then
    local adopted = redis.call('ZRANGEBYLEX', incoming, '-', '[' .. ARGV[7])
    bulk('ZREM', incoming, adopted)
    bulk('HDEL', incoming_due, adopted)
  end
  if redis.call('EXISTS', incoming) == 1 then return {3} end
end
local step = full and 5 or 1
local n = (#ARGV - 9) / step
if length > 0 then
  local there = redis.call('ZCARD', waiting) + redis.call('ZCARD', delayed) + redis.call('ZCARD', incoming) +
    redis.call('ZCARD', ranked) + redis.call('ZCARD', keyed) + redis.call('ZCARD', held)
  if there + n > length then return {2, there} end
end

local known, holders = {}, {}
if full then
  local function expire(times, values)
    local gone = redis.call('ZRANGEBYSCORE', times, '-inf', now, 'LIMIT', 0, 2 * n + 16)
    if #gone == 0 then return end
    bulk('ZREM', times, gone)
    bulk('HDEL', values, gone)
  end
  local function look_up(offset, key)
    local asked, at = {}, {}
    for i = 1, n do
      local d = ARGV[9 + (i - 1) * 5 + offset]
      if d ~= '' then
        asked[#asked + 1] = d
        at[#at + 1] = d
      end
    end
    local found = {}
    if #asked == 0 then return found end
    local values = bulk('HMGET', key, asked)
    for i = 1, #at do
      local v = values[i]
      if v then
        local ends = tonumber(string.sub(v, 15))
        if not ends or ends > now then found[at[i]] = string.sub(v, 1, 13) end
      end
    end
    return found
  end
  if window > 0 then
    expire(idem_times, idem)
    known = look_up(4, idem)
  end
  expire(unique_times, unique)
  holders = look_up(2, unique)
end

)lua" CARAVAN_NEXT_ID R"lua(
local bodies, line, rows, later, keys, key_times, calls, call_times, letters = {}, {}, {}, {}, {}, {}, {}, {}, {}
local first_id, stored = nil, 0
local expires = now + window
for i = 1, n do
  local at = 9 + (i - 1) * step
  local letter, id = 'S', nil
  local digest, place, key, lifetime = '', '', '', ''
  if full then
    digest, place, key, lifetime = ARGV[at + 2], ARGV[at + 3], ARGV[at + 4], ARGV[at + 5]
    if key ~= '' and window > 0 and known[key] then letter, id = 'R', known[key]
    elseif digest ~= '' and holders[digest] then letter, id = 'A', holders[digest] end
  end
  if letter == 'S' then
    id = next_id()
    first_id = first_id or id
    stored = stored + 1
    bodies[#bodies + 1] = id
    bodies[#bodies + 1] = ARGV[at + 1]
    if place ~= '' and epoch ~= '0' then
      local state, sort = place_of(place)
      local list = rows[state] or {}
      rows[state] = list
      list[#list + 1] = sort
      list[#list + 1] = id
    else
      line[#line + 1] = 0
      line[#line + 1] = id
      if place ~= '' then
        later[#later + 1] = id
        later[#later + 1] = place
      end
    end
    if digest ~= '' then
      holders[digest] = id
      keys[#keys + 1] = digest
      if lifetime ~= '' then
        local ends = now + tonumber(lifetime)
        keys[#keys + 1] = id .. ':' .. string.format('%.0f', ends)
        key_times[#key_times + 1] = string.format('%.0f', ends)
        key_times[#key_times + 1] = digest
      else
        keys[#keys + 1] = id
      end
    end
    if key ~= '' and window > 0 then
      known[key] = id
      local ends = string.format('%.0f', expires)
      calls[#calls + 1] = key
      calls[#calls + 1] = id .. ':' .. ends
      call_times[#call_times + 1] = ends
      call_times[#call_times + 1] = key
    end
  end
  if full then letters[i] = letter .. id end
end

if stored > 0 then
  bulk('HSET', items, bodies)
  if epoch ~= '0' then
    bulk('ZADD', waiting, line)
    for state, list in pairs(rows) do bulk('ZADD', places[state], list) end
  else
    bulk('ZADD', incoming, line)
    bulk('HSET', incoming_due, later)
    redis.call('PUBLISH', news, 'push')
  end
  bulk('HSET', unique, keys)
  bulk('ZADD', unique_times, key_times)
  bulk('HSET', idem, calls)
  bulk('ZADD', idem_times, call_times)
  local over = #calls > 0 and redis.call('ZCARD', idem_times) - 1000000 or 0
  if over > 0 then
    local oldest = redis.call('ZRANGE', idem_times, 0, over - 1)
    bulk('ZREM', idem_times, oldest)
    bulk('HDEL', idem, oldest)
  end
end
local text = stored == n and ('A' .. (first_id or '')) or ('M' .. table.concat(letters))
local t = redis.call('TIME')
local version = tonumber(t[1]) * 1000000 + tonumber(t[2])
local last_ms = string.format('%.0f', ms)
if seen_key then
  redis.call('HSET', meta, 'ms', last_ms, 'seq', seq, 'head', head or '')
  redis.call('SET', seen_key, number .. '|' .. text, 'PX', 600000)
else
  redis.call('HSET', meta, 'ms', last_ms, 'seq', seq, 'head', head or '', 'caller', client, 'call', number, 'answer', text)
end
return {0, redis.call('ZCARD', waiting), redis.call('ZCARD', delayed), redis.call('ZCARD', dead), version, last_ms, tostring(seq),
  redis.call('ZCARD', ranked), redis.call('ZCARD', done), redis.call('ZCARD', held), redis.call('ZCARD', keyed), text}
)lua");

// The same for the owner of a queue, for records that wait and have no keys of any kind: short, since it is what most
// pushes are. ARGV: epoch, client, first ms of a new id, number of the client's call, then bodies. Answer as above, but
// all counts but that of waiting rows are -1.
const redis_script append_plain("append_plain", CARAVAN_PRELUDE R"lua(
local m = redis.call('HMGET', meta, 'epoch', 'ms', 'seq', 'caller', 'head', 'call', 'answer')
if m[1] ~= ARGV[1] then return {1} end
local number = ARGV[4]
local t = redis.call('TIME')
local version = tonumber(t[1]) * 1000000 + tonumber(t[2])
if m[4] == ARGV[2] then
  local answered = m[6] == number and m[7] or tonumber(m[6]) > tonumber(number) and 'X'
  if answered then return {0, redis.call('ZCARD', waiting), -1, -1, version, m[2] or '0', m[3] or '0', -1, -1, -1, -1, answered} end
end
if redis.call('EXISTS', incoming) == 1 then return {3} end
)lua" CARAVAN_NEXT_ID R"lua(
local n = #ARGV - 4
local text
if n == 1 then
  local id = next_id()
  redis.call('HSET', items, id, ARGV[5])
  redis.call('ZADD', waiting, 0, id)
  text = 'A' .. id
else
  local bodies, line = {}, {}
  for i = 1, n do
    local id = next_id()
    local at = 2 * i
    bodies[at - 1], bodies[at] = id, ARGV[4 + i]
    line[at - 1], line[at] = 0, id
  end
  for from = 1, 2 * n, 2000 do
    local to = math.min(from + 1999, 2 * n)
    redis.call('HSET', items, unpack(bodies, from, to))
    redis.call('ZADD', waiting, unpack(line, from, to))
  end
  text = 'A' .. bodies[1]
end
local last_ms = string.format('%.0f', ms)
redis.call('HSET', meta, 'ms', last_ms, 'seq', seq, 'head', head, 'caller', ARGV[2], 'call', number, 'answer', text)
return {0, redis.call('ZCARD', waiting), -1, -1, version, last_ms, tostring(seq), -1, -1, -1, -1, text}
)lua");

// What became of an append whose answer never came; if it did not run, it never will. ARGV: epoch, client, number.
// Answer: counts, the ids' text or "X".
const redis_script settle("settle", CARAVAN_PRELUDE CARAVAN_COUNTS CARAVAN_FENCE R"lua(
local m = redis.call('HMGET', meta, 'caller', 'call', 'answer')
if m[1] == ARGV[2] and m[2] == ARGV[3] then return counts(m[3]) end
redis.call('HSET', meta, 'caller', ARGV[2], 'call', ARGV[3], 'answer', 'X')
return counts('X')
)lua");

// ARGV: epoch, id through which incoming rows were seen already, how many. Answer: counts, then id, body, state of each. The rows stay in `incoming` until the next call says that they were seen: an answer may get lost.
const redis_script adopt("adopt", CARAVAN_PRELUDE CARAVAN_PLACES CARAVAN_PLACE_OF CARAVAN_COUNTS CARAVAN_BULK CARAVAN_FENCE R"lua(
if ARGV[2] ~= '' then
  local seen = redis.call('ZRANGEBYLEX', incoming, '-', '[' .. ARGV[2])
  bulk('ZREM', incoming, seen)
  bulk('HDEL', incoming_due, seen)
end
local ids = redis.call('ZRANGE', incoming, 0, tonumber(ARGV[3]) - 1)
if #ids == 0 then return counts() end
local dues = bulk('HMGET', incoming_due, ids)
local bodies = bulk('HMGET', items, ids)
local rows, out = {}, {}
for i = 1, #ids do
  local state, sort = place_of(dues[i])
  local list = rows[state] or {}
  rows[state] = list
  list[#list + 1] = sort
  list[#list + 1] = ids[i]
  out[#out + 1] = ids[i]
  out[#out + 1] = bodies[i] or ''
  out[#out + 1] = state
end
for state, list in pairs(rows) do bulk('ZADD', places[state], list) end
local answer = counts()
for i = 1, #out do answer[11 + i] = out[i] end
return answer
)lua");

// ARGV: epoch, forget ("1": keys with a lifetime are freed too), then for each: state, id, digest or "". Answer: counts.
const redis_script erase("erase", CARAVAN_PRELUDE CARAVAN_PLACES CARAVAN_COUNTS CARAVAN_BULK CARAVAN_FREE CARAVAN_FENCE R"lua(
local by_state, digest_of = {}, {}
for i = 3, #ARGV, 3 do
  local list = by_state[ARGV[i]] or {}
  by_state[ARGV[i]] = list
  list[#list + 1] = ARGV[i + 1]
  if ARGV[i + 2] ~= '' then digest_of[ARGV[i + 1]] = ARGV[i + 2] end
end
for state, list in pairs(by_state) do
  local scores = bulk('ZMSCORE', places[state], list)
  local there, digests, ids, once = {}, {}, {}, {}
  for i = 1, #list do
    local id = list[i]
    if scores[i] and not once[id] then
      once[id] = true
      there[#there + 1] = id
      if digest_of[id] then
        digests[#digests + 1] = digest_of[id]
        ids[#ids + 1] = id
      end
    end
  end
  if #there > 0 then
    bulk('ZREM', places[state], there)
    bulk('HDEL', items, there)
    if redis.call('EXISTS', incoming) == 1 then
      bulk('ZREM', incoming, there)
      bulk('HDEL', incoming_due, there)
    end
    free(digests, ids, ARGV[2] == '1')
  end
end
return counts()
)lua");

// ARGV: epoch, then for each: old state, id, old digest or "", new state, new sort value, new digest or "", what becomes
// of the key (free | end | take | leave), body.
const redis_script update("update", CARAVAN_PRELUDE CARAVAN_PLACES CARAVAN_COUNTS CARAVAN_BULK CARAVAN_FREE CARAVAN_FENCE R"lua(
local has_incoming = redis.call('EXISTS', incoming) == 1
for i = 2, #ARGV, 8 do
  local from, id, digest, to, sort, new_digest, key = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4], ARGV[i + 5], ARGV[i + 6]
  if redis.call('ZREM', places[from], id) == 1 then
    redis.call('ZADD', places[to], sort, id)
    redis.call('HSET', items, id, ARGV[i + 7])
    if has_incoming then
      redis.call('ZREM', incoming, id)
      redis.call('HDEL', incoming_due, id)
    end
    if key == 'take' then
      if new_digest ~= '' then redis.call('HSETNX', unique, new_digest, id) end
    elseif key ~= 'leave' and digest ~= '' then
      free({digest}, {id}, key == 'free')
    end
  end
end
return counts()
)lua");

// ARGV: epoch, then for each: id, digest.
const redis_script release("release", CARAVAN_PRELUDE CARAVAN_COUNTS CARAVAN_BULK CARAVAN_FREE CARAVAN_FENCE R"lua(
local digests, ids = {}, {}
for i = 2, #ARGV, 2 do
  ids[#ids + 1] = ARGV[i]
  digests[#digests + 1] = ARGV[i + 1]
end
free(digests, ids, true)
return counts()
)lua");

// ARGV: state, id after which, sort value after which or "", how many, "ids" or "bodies". Answer: {0, id, body, ...}
const redis_script read("read", CARAVAN_PRELUDE CARAVAN_PLACES CARAVAN_BULK R"lua(
local state, after, sort, most = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local ids = {}
local place = places[state]
if state ~= '0' and state ~= '2' then
  -- The place in line of (sort, id): behind all smaller ones, and behind those of the same value with a lower id.
  local from = 0
  if sort ~= '' then
    local rank = redis.call('ZSCORE', place, after) == sort and redis.call('ZRANK', place, after)
    if rank then
      from = rank + 1
    else
      from = redis.call('ZCOUNT', place, '-inf', '(' .. sort)
      local same = redis.call('ZCOUNT', place, sort, sort)
      -- Those of one value lie in the order of their ids: a binary search among them.
      local low, high = 0, same
      while low < high do
        local middle = math.floor((low + high) / 2)
        if redis.call('ZRANGE', place, from + middle, from + middle)[1] <= after then low = middle + 1 else high = middle end
      end
      from = from + low
    end
  end
  ids = redis.call('ZRANGE', place, from, from + most - 1)
else
  ids = redis.call('ZRANGEBYLEX', place, '(' .. after, '+', 'LIMIT', 0, most)
end
local out = {0}
if #ids == 0 then return out end
if ARGV[5] == 'ids' then
  for i = 1, #ids do out[i + 1] = ids[i] end
  return out
end
local bodies = bulk('HMGET', items, ids)
for i = 1, #ids do
  out[2 * i] = ids[i]
  out[2 * i + 1] = bodies[i] or ''
end
return out
)lua");

// ARGV: id. Answer: {0} or {0, state, body}
const redis_script find("find", CARAVAN_PRELUDE CARAVAN_PLACES CARAVAN_PLACE_OF R"lua(
local body = redis.call('HGET', items, ARGV[1])
if not body then return {0} end
for state, place in pairs(places) do
  if redis.call('ZSCORE', place, ARGV[1]) then return {0, state, body} end
end
if redis.call('ZSCORE', incoming, ARGV[1]) then
  local state = place_of(redis.call('HGET', incoming_due, ARGV[1]))
  return {0, state, body}
end
return {0}
)lua");

// For those who only look: what waits for adoption is waiting for them. Answer: counts.
const redis_script count("count", CARAVAN_PRELUDE CARAVAN_PLACE_OF CARAVAN_COUNTS R"lua(
local c = counts()
local later = redis.call('HLEN', incoming_due)
c[2] = c[2] + redis.call('ZCARD', incoming) - later
if later == 0 then return c end
-- Where each state's count is.
local at = {['1'] = 3, ['3'] = 8, ['5'] = 10, ['6'] = 11}
if later > 1000 then  -- too many to look at each, and few but the delayed ones ever wait here
  c[3] = c[3] + later
  return c
end
for _, text in ipairs(redis.call('HVALS', incoming_due)) do
  local i = at[place_of(text)] or 3
  c[i] = c[i] + 1
end
return c
)lua");

// ARGV: epoch, state, then ids whose bodies cannot be read.
const redis_script set_aside("set_aside", CARAVAN_PRELUDE CARAVAN_PLACES CARAVAN_COUNTS CARAVAN_FENCE R"lua(
for i = 3, #ARGV do
  if redis.call('ZREM', places[ARGV[2]], ARGV[i]) == 1 then
    redis.call('HSET', damaged, ARGV[i], redis.call('HGET', items, ARGV[i]) or '')
    redis.call('HDEL', items, ARGV[i])
  end
end
return counts()
)lua");

// ARGV: node (what others see; its first word is its name), lease ms, "1": Redis was away, so the last owner is to have its turn first. Answer: {0, epoch} or {4, who holds it, ms left}.
// A queue that was moved by hand stays where it was moved to, as long as that node is alive.
// The epoch grows with Redis' clock too: a Redis that lost its data must not give out an old one again.
const redis_script acquire("acquire", CARAVAN_PRELUDE R"lua(
local held = redis.call('GET', owner)
if held then
  local epoch, who = string.match(held, '^(%d+) (.*)$')
  if who ~= ARGV[1] then return {4, who or held, redis.call('PTTL', owner)} end
  if epoch == redis.call('HGET', meta, 'epoch') then
    redis.call('PEXPIRE', owner, ARGV[2])
    return {0, epoch}
  end
end
if ARGV[3] == '1' and redis.call('HEXISTS', meta, 'epoch') == 1 then return {4, '', 2000} end
local time = redis.call('TIME')
local ms = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local pin = redis.call('HGET', meta, 'pin')
if pin and pin ~= string.match(ARGV[1], '^(%S+)') then
  local row = redis.call('HGET', 'caravan:nodes', pin)
  local ends = row and tonumber(string.match(row, '^(%d+)'))
  if ends and ends > ms then return {4, pin, 500} end
end
local epoch = string.format('%.0f', math.max(tonumber(redis.call('HGET', meta, 'epoch') or '0') + 1, ms))
redis.call('HSET', meta, 'epoch', epoch, 'format', '1')
redis.call('HDEL', meta, 'caller', 'call', 'answer')  -- of the last owner; its calls are fenced from now on
redis.call('SET', owner, epoch .. ' ' .. ARGV[1], 'PX', ARGV[2])
redis.call('PUBLISH', news, 'owned ' .. ARGV[1])
return {0, epoch}
)lua");

// What came while nobody looked goes in line, before the new owner counts. ARGV: epoch, how many.
// Answer: counts, how many incoming rows are left.
const redis_script absorb("absorb", CARAVAN_PRELUDE CARAVAN_PLACES CARAVAN_PLACE_OF CARAVAN_COUNTS CARAVAN_BULK CARAVAN_FENCE R"lua(
local ids = redis.call('ZRANGE', incoming, 0, tonumber(ARGV[2]) - 1)
if #ids == 0 then return counts(0) end
local dues = bulk('HMGET', incoming_due, ids)
local rows = {}
for i = 1, #ids do
  local state, sort = place_of(dues[i])
  local list = rows[state] or {}
  rows[state] = list
  list[#list + 1] = sort
  list[#list + 1] = ids[i]
end
for state, list in pairs(rows) do bulk('ZADD', places[state], list) end
bulk('ZREM', incoming, ids)
bulk('HDEL', incoming_due, ids)
return counts(redis.call('ZCARD', incoming))
)lua");

// ARGV: epoch, node, lease ms. Answer: {0, incoming rows} or {1}. Also after the lease ran out, if nobody took over.
const redis_script renew("renew", CARAVAN_PRELUDE CARAVAN_FENCE R"lua(
redis.call('SET', owner, ARGV[1] .. ' ' .. ARGV[2], 'PX', ARGV[3])
return {0, redis.call('ZCARD', incoming)}
)lua");

// ARGV: epoch, the node that is to have it or "". Others are told that the place is free.
const redis_script give_up("give_up", CARAVAN_PRELUDE CARAVAN_FENCE R"lua(
redis.call('DEL', owner)
if ARGV[2] ~= '' then redis.call('HSET', meta, 'pin', ARGV[2]) end
redis.call('PUBLISH', news, 'free' .. (ARGV[2] ~= '' and ' ' .. ARGV[2] or ''))
return {0}
)lua");

}  // namespace caravan::redis_queue_scripts
