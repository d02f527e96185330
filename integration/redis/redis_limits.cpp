#include "integration/redis/redis_limits.hpp"

#include "integration/redis/redis_connection.hpp"

#include <chrono>
#include <functional>

namespace caravan {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

namespace {

constexpr std::string_view items = "caravan:limits:{n}:items";
constexpr std::string_view line = "caravan:limits:{n}:line";

const redis_script store_one(
    "store_one", "redis.call('HSET', KEYS[1], ARGV[1], ARGV[2]) redis.call('ZADD', KEYS[2], 0, ARGV[1]) return 1");

}  // namespace

expected<redis_limits> measure_redis_limits(const redis_options& options, std::size_t n) {
  auto opened = redis_connection::open(options);
  if (!opened) return opened.failure();
  auto& c = **opened;
  const auto until = [] { return steady_clock::now() + 60s; };
  error failed;
  // `width` commands under way at once, of which each is `items_each` items.
  const auto measure = [&](std::size_t count, std::size_t width, std::size_t items_each,
                           const std::function<void(std::string&, std::size_t)>& encode) {
    if (auto gone = c.ask({"DEL", items, line}, until()); !gone) failed = gone.failure();
    const auto begun = steady_clock::now();
    std::size_t done = 0;
    for (std::string out; done < count && failed.text.empty();) {
      out.clear();
      for (std::size_t i = 0; i < width; ++i) encode(out, done + i * items_each);
      if (auto ok = c.send(out, until()); !ok) failed = ok.failure();
      for (std::size_t i = 0; i < width && failed.text.empty(); ++i) {
        const auto reply = c.receive(until());
        if (!reply)
          failed = reply.failure();
        else if (reply->is_error())
          failed = {errc::backend_failed, "redis " + c.peer() + ": " + reply->text};
      }
      done += width * items_each;
    }
    return static_cast<double>(done) / std::chrono::duration<double>(steady_clock::now() - begun).count();
  };
  if (auto loaded = c.ask({"SCRIPT", "LOAD", store_one.text()}, until()); !loaded) return loaded.failure();
  const std::string value(100, 'x');
  const auto script = [&](std::string& out, std::size_t i) {
    const auto id = std::to_string(1'000'000'000 + i);
    encode_command(out, {"EVALSHA", store_one.sha(), "2", items, line, id, value});
  };
  const auto hundred = [&](std::string& out, std::size_t from) {
    std::vector<std::string> ids;
    for (std::size_t i = 0; i < 100; ++i) ids.push_back(std::to_string(1'000'000'000 + from + i));
    std::vector<std::string_view> set{"HSET", items};
    std::vector<std::string_view> add{"ZADD", line};
    for (const auto& id : ids) {
      set.insert(set.end(), {id, value});
      add.insert(add.end(), {"0", id});
    }
    encode_command(out, set);
    encode_command(out, add);
  };
  redis_limits l;
  l.round_trip = measure(n / 10 + 1, 1, 1, [](std::string& out, std::size_t) { encode_command(out, {"PING"}); });
  l.script_one = measure(n / 10 + 1, 1, 1, script);
  l.script_pipelined = measure(n, 64, 1, script);
  // Two commands a hundred items: each counts for fifty.
  l.many_values = measure(n, 2, 50, [&](std::string& out, std::size_t from) {
    if (from % 100 == 0) hundred(out, from);
  });
  if (auto gone = c.ask({"DEL", items, line}, until()); !gone && failed.text.empty()) failed = gone.failure();
  if (!failed.text.empty()) return failed;
  return l;
}

}  // namespace caravan
