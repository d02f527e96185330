#pragma once

/// What every cache adapter must do, alone and below a read-through cache. Each adapter's own .test.cpp calls
/// check_cache_contract. The names of cases that stand in a list of scenarios begin with their id.

#include "integration/cache/read_through_cache.hpp"
#include "tests/support/eventually.hpp"

#include <caravan/cache.hpp>

#include "caf/test/unit_test.hpp"

#include <atomic>
#include <chrono>
#include <functional>
#include <iostream>
#include <latch>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace caravan::contract {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

/// One kind of adapter.
struct cache_engine {
  std::string name;
  /// An empty cache of its own in the same engine; two of them share nothing.
  std::function<std::unique_ptr<cache_adapter>()> make;
  /// Moves the time of all that were made. Empty: the engine has a clock of its own, and `time_left` tells what it has
  /// noted: below zero is for ever.
  std::function<void(milliseconds)> pass;
  std::function<milliseconds(cache_adapter&, const std::string& key)> time_left;
};

inline std::optional<std::string> got(cache_adapter& c, std::string_view key) { return c.get(key).value(); }

// -- the adapter alone ------------------------------------------------------------------------------------------------

inline void what_was_put_is_there(const cache_engine& engine) {
  const auto c = engine.make();
  CAF_CHECK(c->ping().has_value());
  CAF_CHECK(!got(*c, "key"));
  CAF_CHECK(!c->exists("key").value());
  CAF_CHECK(c->put("key", "value", 0s).has_value());
  CAF_CHECK(got(*c, "key") == "value");
  CAF_CHECK(c->exists("key").value());
  CAF_CHECK(c->put("key", "", 1h).has_value());
  CAF_CHECK(got(*c, "key") == "");
  CAF_CHECK(c->exists("key").value());
  CAF_CHECK(c->remove("key").value());
  CAF_CHECK(!c->remove("key").value());
  CAF_CHECK(!got(*c, "key"));
}

inline void get_and_delete(const cache_engine& engine) {
  const auto c = engine.make();
  CAF_CHECK(c->put("key", "value", 0s).has_value());
  CAF_CHECK(c->take("key").value() == "value");
  CAF_CHECK(!c->take("key").value());
  CAF_CHECK(!c->exists("key").value());
  CAF_CHECK(c->put("key", "again", 1h).has_value());
  CAF_CHECK(got(*c, "key") == "again");
}

inline void of_many_who_take_one_gets_it(const cache_engine& engine) {
  const auto c = engine.make();
  for (int round = 0; round < 20; ++round) {
    CAF_CHECK(c->put("key", "value", 1h).has_value());
    std::atomic<int> winners{0};
    std::latch start{4};
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back([&] {
        start.arrive_and_wait();
        winners += c->take("key").value().has_value();
      });
    threads.clear();
    CAF_CHECK_EQUAL(winners.load(), 1);
  }
}

inline void expiry_border(const cache_engine& engine) {
  const auto c = engine.make();
  if (!engine.pass) {
    CAF_CHECK(c->put("key", "value", 10s).has_value());
    CAF_CHECK(c->exists("key").value());
    const auto left = engine.time_left(*c, "key");
    CAF_CHECK(left > 8s && left <= 10s);
    CAF_CHECK(c->put("short", "value", 1s).has_value());
    CAF_CHECK(testing_support::eventually([&] { return !c->exists("short").value(); }));
    CAF_CHECK(!got(*c, "short"));
    CAF_CHECK(got(*c, "key") == "value");
    return;
  }
  CAF_CHECK(c->put("key", "value", 10s).has_value());
  CAF_CHECK(c->put("other", "value", 10s).has_value());
  engine.pass(9s);
  CAF_CHECK(c->exists("key").value());
  CAF_CHECK(got(*c, "key") == "value");
  engine.pass(1s);
  CAF_CHECK(!c->exists("key").value());
  CAF_CHECK(!got(*c, "key"));
  CAF_CHECK(!c->take("other").value());
  CAF_CHECK(!c->remove("other").value());
}

inline void zero_is_for_ever(const cache_engine& engine) {
  const auto c = engine.make();
  CAF_CHECK(c->put("key", "value", 1s).has_value());
  if (engine.pass)
    engine.pass(2s);
  else
    CAF_CHECK(testing_support::eventually([&] { return !c->exists("key").value(); }));
  CAF_CHECK(c->put("key", "renewed", 0s).has_value());
  if (engine.pass)
    engine.pass(std::chrono::hours{24 * 3650});
  else
    CAF_CHECK(engine.time_left(*c, "key") < 0s);
  CAF_CHECK(got(*c, "key") == "renewed");
}

inline void a_negative_ttl_removes(const cache_engine& engine) {
  const auto c = engine.make();
  CAF_CHECK(c->put("key", "stale", 0s).has_value());
  CAF_CHECK(c->put("key", "value", -1s).has_value());
  CAF_CHECK(!c->exists("key").value());
  CAF_CHECK(c->put("never there", "value", -1ms).has_value());
  CAF_CHECK(!c->exists("never there").value());
}

inline void overwriting_replaces_the_expiry(const cache_engine& engine) {
  const auto c = engine.make();
  for (const auto first : {0s, 5s})
    for (const auto second : {20s, 0s}) {
      CAF_CHECK(c->put("key", "old", first).has_value());
      CAF_CHECK(c->put("key", "new", second).has_value());
      if (engine.pass) {
        engine.pass(10s);
        CAF_CHECK(got(*c, "key") == "new");
        engine.pass(10s);
        CAF_CHECK(c->exists("key").value() == (second == 0s));
      } else {
        const auto left = engine.time_left(*c, "key");
        CAF_CHECK(second == 0s ? left < 0s : left > 18s && left <= 20s);
      }
    }
}

inline void times_beyond_thirty_days_are_no_dates(const cache_engine& engine) {
  const auto c = engine.make();
  for (const auto days : {29, 30, 31, 365}) {
    const auto ttl = std::chrono::hours{24 * days};
    CAF_CHECK(c->put("key", "value", ttl).has_value());
    CAF_CHECK(got(*c, "key") == "value");
    if (engine.pass) continue;
    const auto left = engine.time_left(*c, "key");
    CAF_CHECK(left > ttl - 3s && left <= ttl + 1s);
  }
  // More than any engine can count.
  CAF_CHECK(c->put("key", "value", milliseconds::max()).has_value());
  CAF_CHECK(got(*c, "key") == "value");
}

inline void keys_and_values_are_any_bytes(const cache_engine& engine) {
  const auto c = engine.make();
  std::string all;
  for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
  const std::vector<std::string> keys{
      "",         " ", "a b", "a\nb",  all,     std::string(250, 'k'), std::string(251, 'k'), std::string(5000, 'k'),
      "\xc3\xa4", "*", "[a]", "h?llo", "key\\", "set x 0 0 1\r\n"};
  for (std::size_t i = 0; i < keys.size(); ++i) CAF_CHECK(c->put(keys[i], all + std::to_string(i), 1h).has_value());
  for (std::size_t i = 0; i < keys.size(); ++i) CAF_CHECK(got(*c, keys[i]) == all + std::to_string(i));
  // What a key that does not fit is replaced by is no way to reach it.
  CAF_CHECK(!got(*c, "h-" + std::string(64, '0')));
  for (const auto& key : keys) CAF_CHECK(c->remove(key).value());
}

inline void clear_removes_all_of_one_cache_alone(const cache_engine& engine) {
  const auto mine = engine.make();
  const auto other = engine.make();
  for (int i = 0; i < 300; ++i) CAF_CHECK(mine->put("key" + std::to_string(i), "value", 1h).has_value());
  CAF_CHECK(other->put("key1", "theirs", 1h).has_value());
  CAF_CHECK(mine->clear().has_value());
  for (int i = 0; i < 300; ++i) CAF_CHECK(!got(*mine, "key" + std::to_string(i)));
  CAF_CHECK(!mine->exists("key1").value());
  CAF_CHECK(!mine->take("key2").value());
  CAF_CHECK(!mine->remove("key3").value());
  CAF_CHECK(got(*other, "key1") == "theirs");
  CAF_CHECK(mine->put("key1", "new", 1h).has_value());
  CAF_CHECK(got(*mine, "key1") == "new");
  CAF_CHECK(mine->clear().has_value());
  CAF_CHECK(mine->clear().has_value());
  CAF_CHECK(!got(*mine, "key1"));
}

inline void usage_counts_what_is_there(const cache_engine& engine) {
  const auto c = engine.make();
  for (int i = 0; i < 5; ++i) CAF_CHECK(c->put(std::to_string(i), "12345", 10s).has_value());
  CAF_CHECK(c->put("1", "1234567", 10s).has_value());
  CAF_CHECK(c->remove("2").value());
  const auto usage = c->usage().value();
  if (usage.entries) CAF_CHECK_EQUAL(*usage.entries, 4u);
  if (usage.bytes) CAF_CHECK_EQUAL(*usage.bytes, 4u * 6 + 2);
}

// -- read through -----------------------------------------------------------------------------------------------------

/// A loader whose answers are set one by one, and that counts.
struct script {
  expected<std::string> next{errc::backend_failed, "not told"};
  int runs = 0;
  auto loader() {
    return [this] {
      ++runs;
      return next;
    };
  }
};

struct opened {
  explicit opened(const cache_engine& engine, milliseconds item_ttl = 1h) {
    auto made = engine.make();
    adapter = made.get();
    cache = string_cache{std::make_shared<read_through_cache>(std::move(made), read_through_options{item_ttl})};
  }
  cache_adapter* adapter;
  string_cache cache;
};

inline void self_test(const cache_engine& engine) {
  CAF_CHECK(!string_cache{}.self_test());
  // By a clock that stands still between its calls the machine does not count; a slow one is said to be slow.
  struct stepping final : toolbox::clock {
    explicit stepping(std::chrono::nanoseconds by) : step(by) {}
    mutable toolbox::steady_time at{1h};
    std::chrono::nanoseconds step;
    toolbox::steady_time now() const override { return at += step; }
    toolbox::wall_time wall() const override { return {}; }
  };
  for (const auto step : {1ms, 30ms, 31ms}) {
    const stepping time{step};
    read_through_cache cache{engine.make(), {1h, 1s, &time}};
    const auto result = cache.self_test().value();
    CAF_CHECK(result.took == step);
    CAF_CHECK_EQUAL(result.slow, step > 30ms);
  }
}

inline void a_loader_error_is_not_stored(const cache_engine& engine) {
  opened o{engine};
  script s;
  s.next = {errc::not_found, "no such user"};
  const auto failed = o.cache.get_string("key", s.loader());
  CAF_CHECK(!failed && failed.failure().code == errc::not_found && failed.failure().text == "no such user");
  s.next = std::string{};
  CAF_CHECK(o.cache.get_string("key", s.loader()).value() == "");
  s.next = std::string{"some data"};
  CAF_CHECK(o.cache.get_string("key", s.loader()).value() == "");
  CAF_CHECK_EQUAL(s.runs, 2);
}

inline void a_cached_value_wins(const cache_engine& engine) {
  opened o{engine};
  script s;
  (void)o.cache.remove("key");
  s.next = std::string{"some data"};
  CAF_CHECK(o.cache.get_string("key", s.loader()).value() == "some data");
  s.next = {errc::backend_failed, "down"};
  CAF_CHECK(o.cache.get_string("key", s.loader()).value() == "some data");
}

inline void the_same_with_numbers(const cache_engine& engine) {
  opened o{engine};
  const auto ask = [&](expected<std::int64_t> answer) { return o.cache.get_int64("key", [&] { return answer; }); };
  CAF_CHECK(!ask({errc::backend_failed, "down"}));
  CAF_CHECK(ask(0).value() == 0);
  CAF_CHECK(ask(100).value() == 0);
  CAF_CHECK(o.cache.remove("key").value());
  CAF_CHECK(ask(100).value() == 100);
  CAF_CHECK(ask({errc::backend_failed, "down"}).value() == 100);
  for (const auto extreme : {std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()}) {
    (void)o.cache.remove("key");
    CAF_CHECK(ask(extreme).value() == extreme);
    CAF_CHECK(ask(1).value() == extreme);
  }
  // What is no number is loaded anew.
  for (const auto* text : {"", "abc", "12x", "99999999999999999999", " 1"}) {
    CAF_CHECK(o.cache.put("key", text, 1h).has_value());
    CAF_CHECK(ask(7).value() == 7);
    CAF_CHECK(ask(8).value() == 7);
  }
}

inline void without_item_ttl_nothing_is_kept(const cache_engine& engine, milliseconds item_ttl) {
  opened o{engine, item_ttl};
  script s;
  s.next = std::string{"x"};
  CAF_CHECK(o.cache.get_string("key", s.loader()).value() == "x");
  CAF_CHECK(o.cache.get_string("key", s.loader()).value() == "x");
  CAF_CHECK_EQUAL(s.runs, 2);
  CAF_CHECK(!o.cache.exists("key").value());
  CAF_CHECK(o.cache.put("key", "direct", 600s).has_value());
  CAF_CHECK(o.cache.get("key").value() == "direct");
}

inline void json_goes_round(const cache_engine& engine) {
  opened o{engine};
  const nlohmann::json value{{"a", 1}};
  CAF_CHECK(o.cache.put_json("key", value, 1h).has_value());
  const auto found = o.cache.get_json<nlohmann::json>("key");
  CAF_CHECK(found.exists && found.value == value && !found.failure);
  const auto wrong = o.cache.get_json<int>("key");
  CAF_CHECK(wrong.exists && !wrong.value && wrong.failure);
  CAF_CHECK(!o.cache.put_json("key", std::string("\xff"), 1h));
  CAF_CHECK(o.cache.get_json<nlohmann::json>("key").value == value);
}

inline void json_missing_and_empty(const cache_engine& engine) {
  opened o{engine};
  CAF_CHECK(o.cache.put("empty", "", 1h).has_value());
  for (const auto* key : {"missing", "empty"}) {
    const auto found = o.cache.get_json<int>(key);
    CAF_CHECK(!found.exists && !found.value && !found.failure);
  }
}

inline void a_cached_error(const cache_engine& engine) {
  opened o{engine};
  CAF_CHECK(o.cache.put_json("key", error{errc::not_found, "boom"}, 1h).has_value());
  CAF_CHECK(o.cache.get("key").value() == "<CACHED-ERROR>:boom");
  const auto found = o.cache.get_json<int>("key");
  CAF_CHECK(found.exists && !found.value);
  CAF_REQUIRE(found.failure);
  CAF_CHECK_EQUAL(found.failure->text, "cached error: boom");
}

inline void concurrent_loads_run_once(const cache_engine& engine) {
  opened o{engine};
  testing_support::gate open;
  std::atomic<int> runs{0}, good{0};
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 8; ++i)
      threads.emplace_back([&] {
        const auto value = o.cache.get_string("key", [&]() -> expected<std::string> {
          ++runs;
          open.wait();
          return std::string{"loaded"};
        });
        good += value && *value == "loaded";
      });
    CAF_CHECK(testing_support::eventually([&] { return runs == 1; }));
    open.open();
  }
  CAF_CHECK_EQUAL(runs.load(), 1);
  CAF_CHECK_EQUAL(good.load(), 8);
}

inline void a_remove_during_a_slow_load_wins(const cache_engine& engine) {
  const std::vector<std::function<void(string_cache&)>> changes{
      [](string_cache& c) { CAF_CHECK(c.remove("key").has_value()); },
      [](string_cache& c) { CAF_CHECK(c.take("key").has_value()); },
      [](string_cache& c) { CAF_CHECK(c.clear().has_value()); },
      [](string_cache& c) { CAF_CHECK(c.put("key", "put", 1h).has_value()); }};
  for (std::size_t i = 0; i < changes.size(); ++i) {
    opened o{engine};
    testing_support::gate begun, go_on;
    std::atomic<bool> got_its_own{false};
    std::jthread slow{[&] {
      const auto value = o.cache.get_string("key", [&]() -> expected<std::string> {
        begun.open();
        go_on.wait();
        return std::string{"old"};
      });
      got_its_own = value && *value == "old";
    }};
    begun.wait();
    changes[i](o.cache);
    // Who comes now does not wait for the load that knows nothing of the change.
    const auto fresh = o.cache.get_string("key", [] { return std::string{"new"}; });
    const std::string wanted = i == 3 ? "put" : "new";
    CAF_CHECK(fresh && *fresh == wanted);
    go_on.open();
    slow.join();
    CAF_CHECK(got_its_own.load());
    CAF_CHECK(o.cache.get("key").value() == wanted);
    CAF_CHECK(o.cache.statistics().value().outdated_loads == 1u);
  }
}

/// Everything above, for one adapter.
inline void check_cache_contract(const cache_engine& engine) {
  using check = std::function<void(const cache_engine&)>;
  const std::vector<std::pair<const char*, check>> all{
      {"CACHE-001 one contract", what_was_put_is_there},
      {"CACHE-004 get and delete", get_and_delete},
      {"of many who take one gets it", of_many_who_take_one_gets_it},
      {"CACHE-005 expiry border", expiry_border},
      {"CACHE-006 ttl 0 never expires", zero_is_for_ever},
      {"CACHE-007 negative ttl removes", a_negative_ttl_removes},
      {"overwriting replaces the expiry", overwriting_replaces_the_expiry},
      {"times beyond thirty days are no dates", times_beyond_thirty_days_are_no_dates},
      {"keys and values are any bytes", keys_and_values_are_any_bytes},
      {"clear removes all of one cache alone", clear_removes_all_of_one_cache_alone},
      {"usage counts what is there", usage_counts_what_is_there},
      {"CACHE-012 self test", self_test},
      {"CACHE-013 loader error is not stored", a_loader_error_is_not_stored},
      {"CACHE-014 cached value wins", a_cached_value_wins},
      {"CACHE-015 the same with numbers", the_same_with_numbers},
      {"CACHE-016 negative item ttl", [](const cache_engine& e) { without_item_ttl_nothing_is_kept(e, -1s); }},
      {"CACHE-017 item ttl 0", [](const cache_engine& e) { without_item_ttl_nothing_is_kept(e, 0s); }},
      {"CACHE-018 json round trip", json_goes_round},
      {"CACHE-019 json missing and empty", json_missing_and_empty},
      {"CACHE-021 cached error", a_cached_error},
      {"concurrent loads run once", concurrent_loads_run_once},
      {"a remove during a slow load wins", a_remove_during_a_slow_load_wins},
  };
  for (const auto& [name, run] : all) {
    std::cout << name << ": " << engine.name << '\n';
    run(engine);
  }
}

}  // namespace caravan::contract
