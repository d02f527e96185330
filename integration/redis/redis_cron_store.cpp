#include "integration/redis/redis_cron_store.hpp"

#include <array>
#include <charconv>

namespace caravan {

namespace {

const redis_script read_script{"cron read", R"(-- A task's row, and what time it is.
-- KEYS: 1 the row
local now = redis.call('TIME')
return {redis.call('GET', KEYS[1]), now[1], now[2]})"};

const redis_script replace_script{"cron replace", R"(-- Writes a row that nobody has changed since it was read.
-- KEYS: 1 the row; ARGV: 1 its new bytes, 2 '1' if there was one, 3 its old bytes
local row = redis.call('GET', KEYS[1])
if row == ARGV[1] then return 1 end -- a repeat: its first answer was lost
if ARGV[2] == '1' then
  if row ~= ARGV[3] then return 0 end
elseif row then
  return 0
end
redis.call('SET', KEYS[1], ARGV[1])
return 1)"};

std::optional<std::int64_t> number_of(const redis_value& v) {
  std::int64_t out = 0;
  const auto* end = v.text.data() + v.text.size();
  const auto [at, failed] = std::from_chars(v.text.data(), end, out);
  return v.is_text() && failed == std::errc{} && at == end ? std::optional(out) : std::nullopt;
}

}  // namespace

redis_options redis_cron_options(config::redis_address address) {
  redis_options out;
  out.address = std::move(address);
  out.client_name = "caravan-cron";
  out.connect_timeout = std::chrono::milliseconds{500};
  out.command_timeout = out.give_up_after = std::chrono::milliseconds{1000};
  out.max_connections = 2;
  return out;
}

error redis_cron_store::odd(const std::string& task) const {
  return {errc::backend_failed, "redis " + client_->where() + ": " + key_of(task) +
                                    " answered what it never should; see who else writes there"};
}

expected<redis_cron_store::found> redis_cron_store::read(const std::string& task) {
  const std::array keys{key_of(task)};
  auto answer = client_->eval(read_script, keys, {});
  if (!answer) return answer.failure();
  if (!answer->has(3)) return odd(task);
  auto& row = answer->items[0];
  const auto seconds = number_of(answer->items[1]), micros = number_of(answer->items[2]);
  if (!seconds || !micros || !(row.is_nil() || row.is_text())) return odd(task);
  found out;
  if (row.is_text()) out.bytes = std::move(row.text);
  out.now = cron_time(std::chrono::milliseconds(*seconds * 1000 + *micros / 1000));
  return out;
}

expected<bool> redis_cron_store::replace(const std::string& task, const std::optional<std::string>& was,
                                         const std::string& bytes) {
  const std::array keys{key_of(task)};
  const std::string none;
  const std::array<std::string_view, 3> args{bytes, was ? "1" : "0", was ? *was : none};
  const auto answer = client_->eval(replace_script, keys, args);
  if (!answer) return answer.failure();
  if (!answer->is_integer()) return odd(task);
  return answer->number == 1;
}

}  // namespace caravan
