#define CAF_SUITE record_more
#include "messages/record_more.hpp"

#include "caf/test/unit_test.hpp"

using namespace caravan;
using namespace std::chrono_literals;

CAF_TEST(what few jobs have survives and nothing costs nothing) {
  record r;
  set_more(r, {});
  CAF_CHECK(r.more.empty());
  record_more m;
  m.retry = "linear 30s";
  m.add_error({wall_time{5s}, 1, "it broke"});
  m.add_error({wall_time{-1ms}, 2, ""});
  m.cancelled = true;
  m.result = std::string("{\"a\":1}\0x", 9);
  m.finished_at = wall_time{7s};
  set_more(r, m);
  CAF_CHECK(more_of(r) == m);
  // Cut anywhere it is read as far as it goes.
  const auto whole = r.more;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    r.more = whole.substr(0, i);
    const auto cut = more_of(r);
    CAF_CHECK(cut.errors.size() <= 2);
  }
  // A part that a later version wrote.
  r.more = std::string("\x63\x02\0\0\0xy", 7) + whole;
  CAF_CHECK(more_of(r) == m);
}

CAF_TEST(only the last errors are kept) {
  record_more m;
  for (std::uint32_t i = 1; i <= 9; ++i) m.add_error({wall_time{}, i, std::string(5'000, 'x')});
  CAF_REQUIRE_EQUAL(m.errors.size(), record_more::errors_kept);
  CAF_CHECK_EQUAL(m.errors.front().attempt, 5u);
  CAF_CHECK_EQUAL(m.errors.back().attempt, 9u);
  CAF_CHECK_EQUAL(m.errors.back().text.size(), record_more::error_text_most);
}
