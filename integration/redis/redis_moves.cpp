#include "integration/redis/redis_moves.hpp"

#include <charconv>

namespace caravan {

namespace {

constexpr std::string_view key = "caravan:moves";
constexpr char between = '\x1f';  // in no name

std::int64_t number(std::string_view text) {
  std::int64_t n = 0;
  std::from_chars(text.data(), text.data() + text.size(), n);
  return n;
}

}  // namespace

void note_move(redis_client& client, const queue_move& m) {
  std::string row = std::to_string(m.at);
  for (const auto& part : {m.queue, m.from, m.to, m.by, std::to_string(m.ms)}) row += between + part;
  if (!client.command({"LPUSH", key, row})) return;
  (void)client.command({"LTRIM", key, "0", "999"});
}

expected<std::vector<queue_move>> list_moves(redis_client& client, std::size_t most) {
  const auto answer = client.command({"LRANGE", key, "0", std::to_string(most == 0 ? 0 : most - 1)});
  if (!answer) return answer.failure();
  std::vector<queue_move> all;
  for (const auto& row : answer->items) {
    std::vector<std::string> parts(1);
    for (const char c : row.text)
      if (c == between)
        parts.emplace_back();
      else
        parts.back() += c;
    if (parts.size() < 6) continue;
    all.push_back({number(parts[0]), parts[1], parts[2], parts[3], parts[4], number(parts[5])});
  }
  return all;
}

}  // namespace caravan
