#define CAF_SUITE record_codec
#include "integration/record_codec.hpp"

#include "integration/storage.hpp"
#include "tests/contract/storage_contract.hpp"

#include "caf/test/unit_test.hpp"

using namespace caravan;
using namespace std::chrono_literals;

namespace {

record full_record() {
  record r;
  r.id = item_id{(std::uint64_t{9} << 40) + 3};
  r.payload = std::string("\0pay\xff", 5);
  r.key = "k";
  r.digest = digest_of(r.key);
  r.pushed_at = wall_time{1'600'000'000s};
  r.due = wall_time{1'600'000'500s};
  r.priority = INT32_MIN;
  r.attempts = 1;
  r.max_attempts = UINT32_MAX;
  r.timeout = 1500ms;
  r.retention = 24h;
  r.deadline = wall_time{-1ms};
  r.order_by = "o";
  r.idempotency_key = "i";
  r.last_error = std::string(200, 'e');
  r.headers = {{"a", "b"}, {"", ""}};
  r.hold = key_hold::time;
  r.hold_for = 5min;
  r.more = std::string("\1\2x", 3);
  return r;
}

std::string encoded(const record& r) {
  std::string bytes;
  encode_record(r, bytes);
  return bytes;
}

std::string hex(const std::string& bytes) {
  std::string text;
  for (const unsigned char c : bytes) {
    text += "0123456789abcdef"[c >> 4];
    text += "0123456789abcdef"[c & 15];
  }
  return text;
}

}  // namespace

CAF_TEST(every field survives and extreme times do) {
  auto r = full_record();
  for (const auto pushed : {r.pushed_at, wall_time::min(), wall_time::max()}) {
    r.pushed_at = pushed;
    record back;
    CAF_REQUIRE(decode_record(r.id, encoded(r), back) == decode_result::ok);
    CAF_CHECK(contract::same(r, back));
    key_digest digest;
    key_hold hold{};
    CAF_REQUIRE(decode_digest(r.id, encoded(r), digest, hold) == decode_result::ok);
    CAF_CHECK(digest == r.digest);
    CAF_CHECK(hold == r.hold);
  }
}

CAF_TEST(absent fields cost nothing) {
  record r;
  r.id = first_id_at(wall_time{1'700'000'000s});
  r.pushed_at = wall_time{1'700'000'000s};
  r.payload = std::string(100, 'x');
  CAF_CHECK_EQUAL(encoded(r).size(), 108u);
}

CAF_TEST(the bytes of version 1 stay as they are) {
  // Written by the first release. If this fails, stored queues can not be read any more: see record_codec.hpp.
  record r;
  r.id = item_id{(std::uint64_t{1000} << 22) + 1};
  r.pushed_at = wall_time{1'577'836'801'000ms};
  r.payload = "{}";
  r.attempts = 3;
  r.key = "k";
  CAF_MESSAGE(hex(encoded(r)));
  CAF_CHECK_EQUAL(hex(encoded(r)), "015c227eb308100003016b7b7d");
}

CAF_TEST(the bytes of version 2 stay as they are) {
  record r;
  r.id = item_id{(std::uint64_t{1000} << 22) + 1};
  r.pushed_at = wall_time{1'577'836'801'000ms};
  r.payload = "{}";
  r.hold = key_hold::time;
  r.hold_for = 100ms;
  r.more = "ab";
  CAF_MESSAGE(hex(encoded(r)));
  CAF_CHECK_EQUAL(hex(encoded(r)), "026146f3d600600003c8010261627b7d");
  record back;
  CAF_REQUIRE(decode_record(r.id, encoded(r), back) == decode_result::ok);
  CAF_CHECK(contract::same(r, back));
  // A version that no record of its kind could have.
  auto older = encoded(r);
  older[0] = 1;
  CAF_CHECK(decode_record(r.id, older, back) == decode_result::damaged);
}

CAF_TEST(a flipped bit or a cut is found wherever it is) {
  const auto r = full_record();
  const auto good = encoded(r);
  for (std::size_t i = 0; i < good.size(); ++i) {
    record out;
    auto bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 4);
    CAF_REQUIRE(decode_record(r.id, bad, out) != decode_result::ok);
    record cut;
    CAF_REQUIRE(decode_record(r.id, good.substr(0, i), cut) == decode_result::damaged);
  }
  record out;
  CAF_CHECK(decode_record(item_id{r.id.value + 1}, good, out) == decode_result::damaged);
}

CAF_TEST(a later version is not called damage) {
  const auto r = full_record();
  auto later = encoded(r);
  later[0] = 3;
  record out;
  CAF_CHECK(decode_record(r.id, later, out) == decode_result::newer);
}
