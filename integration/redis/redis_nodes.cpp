#include "integration/redis/redis_nodes.hpp"

#include <algorithm>
#include <charconv>

namespace caravan {

namespace {

const std::string nodes_key[] = {"caravan:nodes"};

// ARGV: name, incarnation, what it tells, ms. Rows are "UNTIL INCARNATION REST", by Redis' clock.
const redis_script announce_script("announce", R"lua(
local t = redis.call('TIME')
local now = tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f', now + tonumber(ARGV[4])) .. ' ' .. ARGV[2] .. ' ' .. ARGV[3])
local all = redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  local ends = tonumber(string.match(all[i + 1], '^(%d+)'))
  if not ends or ends + 86400000 < now then redis.call('HDEL', KEYS[1], all[i]) end
end
return {0}
)lua");

// Answer: now in ms, name, row, ...
const redis_script list_script("list_nodes", R"lua(
local t = redis.call('TIME')
local out = redis.call('HGETALL', KEYS[1])
table.insert(out, 1, string.format('%.0f', tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)))
return out
)lua");

const redis_script withdraw_script("withdraw", R"lua(
local row = redis.call('HGET', KEYS[1], ARGV[1])
if row and string.match(row, '^%d+ (%S+)') == ARGV[2] then redis.call('HDEL', KEYS[1], ARGV[1]) end
return {0}
)lua");

std::int64_t number(std::string_view text) {
  std::int64_t n = 0;
  std::from_chars(text.data(), text.data() + text.size(), n);
  return n;
}

std::string_view word(std::string_view& rest) {
  const auto end = std::min(rest.find(' '), rest.size());
  const auto w = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return w;
}

}  // namespace

expected<void> redis_nodes::announce(const node_entry& me, std::chrono::milliseconds lasting) {
  const auto told = me.address + " " + (me.http.empty() ? "-" : me.http) + " " + me.version + " " +
                    std::to_string(me.started) + (me.cordoned ? " 1" : " 0");
  const auto ms = std::to_string(lasting.count());
  const std::string_view args[] = {me.name, me.incarnation, told, ms};
  const auto answer = client_.eval(announce_script, nodes_key, args);
  if (!answer) return answer.failure();
  return {};
}

expected<std::vector<node_entry>> redis_nodes::list() {
  const auto answer = client_.eval(list_script, nodes_key, {});
  if (!answer) return answer.failure();
  std::vector<node_entry> all;
  if (!answer->has(1)) return all;
  const auto now = number(answer->items[0].text);
  for (std::size_t i = 1; i + 1 < answer->items.size(); i += 2) {
    std::string_view row = answer->items[i + 1].text;
    node_entry e;
    e.name = answer->items[i].text;
    const auto until = number(word(row));
    e.incarnation = word(row);
    e.address = word(row);
    e.http = word(row);
    if (e.http == "-") e.http.clear();
    e.version = word(row);
    e.started = number(word(row));
    e.cordoned = word(row) == "1";
    e.alive = now < until;
    if (!e.alive) e.silent = std::chrono::milliseconds(now - until);
    all.push_back(std::move(e));
  }
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return all;
}

expected<void> redis_nodes::withdraw(const node_entry& me) {
  const std::string_view args[] = {me.name, me.incarnation};
  const auto answer = client_.eval(withdraw_script, nodes_key, args);
  if (!answer) return answer.failure();
  return {};
}

}  // namespace caravan
