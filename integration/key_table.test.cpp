#define CAF_SUITE key_table
#include "integration/key_table.hpp"

#include "caf/test/unit_test.hpp"

#include <map>
#include <random>
#include <set>

using namespace caravan;
using namespace std::chrono_literals;

namespace {
const wall_time t0{1'000'000s};
key_digest digest(int n) { return digest_of(std::to_string(n)); }
}  // namespace

CAF_TEST(a digest is never empty and tells texts apart) {
  CAF_CHECK(digest_of(""));
  CAF_CHECK(digest_of("a") != digest_of("b"));
  CAF_CHECK(digest_of("a") == digest_of("a"));
}

CAF_TEST(ids begin with the milliseconds since 2020) {
  const wall_time epoch = std::chrono::sys_days{std::chrono::year{2020} / 1 / 1};
  CAF_CHECK_EQUAL(first_id_at(epoch + 5ms).value, std::uint64_t{5} << 22);
  CAF_CHECK_EQUAL(first_id_at(epoch).value, 1u);
  CAF_CHECK_EQUAL(first_id_at(wall_time::min()).value, 1u);
  CAF_CHECK(first_id_at(wall_time::max()).value > first_id_at(epoch + 24h).value);
}

CAF_TEST(a table agrees with a map under random use) {
  key_table table;
  std::map<int, std::pair<std::uint64_t, wall_time>> model;
  std::mt19937 random{7};
  auto now = t0;
  for (std::uint64_t step = 1; step < 60'000; ++step) {
    now += std::chrono::milliseconds{random() % 3};
    const int n = static_cast<int>(random() % 900);
    const auto known = model.find(n);
    const bool held = known != model.end() && known->second.second > now;
    switch (random() % 3) {
      case 0: {
        const auto expires = random() % 2 ? key_table::never : now + std::chrono::milliseconds{random() % 2000};
        const bool taken = table.claim(digest(n), item_id{step}, now, expires);
        if (taken == held) CAF_FAIL("claim of " << n << " in step " << step);
        if (taken) model[n] = {step, expires};
        break;
      }
      case 1:
        if (held) {
          if (table.release(digest(n), item_id{known->second.first + 1})) CAF_FAIL("freed by a stranger");
          if (!table.release(digest(n), item_id{known->second.first})) CAF_FAIL("not freed by its owner");
          model.erase(known);
        }
        break;
      default:
        table.expire(now, 4, nullptr);
    }
    const auto owner = table.owner(digest(n), now);
    const auto after = model.find(n);
    const bool expected_held = after != model.end() && after->second.second > now;
    if (owner.has_value() != expected_held) CAF_FAIL("owner of " << n << " in step " << step);
    if (owner && owner->value != after->second.first) CAF_FAIL("wrong owner in step " << step);
  }
}

CAF_TEST(expired keys leave in the order of their expiry and a few at a time) {
  key_table table;
  for (int i = 0; i < 100; ++i) table.put(digest(i), item_id{1}, t0 + std::chrono::seconds{100 - i});
  std::vector<key_digest> gone;
  table.expire(t0 + 10s, 4, &gone);
  CAF_CHECK(gone == (std::vector{digest(99), digest(98), digest(97), digest(96)}));
  table.expire(t0 + 10s, 1000, &gone);
  CAF_CHECK_EQUAL(gone.size(), 10u);
  CAF_CHECK_EQUAL(table.size(), 90u);
}

CAF_TEST(expiring keys are bounded) {
  key_table table{1000};
  for (int i = 0; i < 5000; ++i) {
    table.put(digest(i), item_id{1}, t0 + 1h + std::chrono::milliseconds{i});
    table.expire(t0, 2, nullptr);
  }
  CAF_CHECK_EQUAL(table.size(), 1000u);
  CAF_CHECK(!table.owner(digest(3999), t0));
  CAF_CHECK(table.owner(digest(4000), t0));
}

CAF_TEST(a key that expires is not the key that was taken anew) {
  key_table table;
  table.put(digest(1), item_id{1}, t0 + 1s);
  CAF_CHECK(table.release(digest(1), item_id{1}));
  CAF_CHECK(table.claim(digest(1), item_id{2}, t0, t0 + 1h));
  table.expire(t0 + 1min, 100, nullptr);
  CAF_CHECK(table.owner(digest(1), t0 + 1min) == item_id{2});
}
