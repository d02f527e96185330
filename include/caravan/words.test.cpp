#define CAF_SUITE words
#include <caravan/error.hpp>
#include <caravan/item_id.hpp>

#include "caf/test/unit_test.hpp"

using namespace caravan;

CAF_TEST(an id survives its text and sorts as its text does) {
  const item_id values[] = {{1}, {31}, {32}, {1ull << 40}, {~0ull >> 1}, {~0ull}};
  std::string last;
  for (const auto id : values) {
    const auto text = to_string(id);
    CAF_CHECK_EQUAL(text.size(), 13u);
    CAF_CHECK(last < text);
    last = text;
    const auto back = parse_item_id(text);
    CAF_REQUIRE(back);
    CAF_CHECK_EQUAL(back->value, id.value);
  }
}

CAF_TEST(texts that are no id are refused) {
  for (const auto* text : {"", "1", "000000000000", "00000000000000", "0000000000000", "g000000000000", "00000000000u0",
                           "0000000 00001", "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80"})
    CAF_CHECK(!parse_item_id(text));
}

CAF_TEST(look-alikes and upper case are read as meant) {
  const auto plain = parse_item_id("0000000001a01");
  const auto sloppy = parse_item_id("0OoO00000IAoL");
  CAF_REQUIRE(plain && sloppy);
  CAF_CHECK_EQUAL(plain->value, sloppy->value);
}

CAF_TEST(the last dot of a job id separates) {
  const auto id = parse_job_id("a.b." + to_string(item_id{77}));
  CAF_REQUIRE(id);
  CAF_CHECK_EQUAL(id->queue, "a.b");
  CAF_CHECK_EQUAL(id->item.value, 77u);
  CAF_CHECK(!parse_job_id("." + to_string(item_id{77})));
  CAF_CHECK(!parse_job_id(to_string(item_id{77})));
}

CAF_TEST(an expected holds a value or an error) {
  const expected<int> good = 3;
  const expected<int> bad{errc::queue_full, "full"};
  CAF_CHECK_EQUAL(*good, 3);
  CAF_CHECK(!bad);
  CAF_CHECK_EQUAL(bad.value_or(7), 7);
  CAF_CHECK_EQUAL(to_string(bad.failure().code), "queue_full");
  bool thrown = false;
  try {
    (void)bad.value();
  } catch (const caravan::exception& e) {
    thrown = e.why().code == errc::queue_full;
  }
  CAF_CHECK(thrown);
}
