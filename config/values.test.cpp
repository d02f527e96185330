#define CAF_SUITE config_values
#include "config/values.hpp"

#include "caf/test/unit_test.hpp"

#include <array>
#include <limits>

using namespace caravan::config;
using namespace std::chrono_literals;

CAF_TEST(durations are Go texts or bare seconds) {
  struct {
    const char* text;
    std::chrono::nanoseconds value;
  } const good[] = {
      {"0", 0s},
      {"90", 90s},
      {"1.5", 1500ms},
      {"500ms", 500ms},
      {"1h30m", 90min},
      {"1h30m10s", 5410s},
      {"1.5s", 1500ms},
      {".5s", 500ms},
      {"1.s", 1s},
      {"-2m", -2min},
      {"+3s", 3s},
      {" 7s ", 7s},
      {"10us", 10us},
      {"10\xc2\xb5s", 10us},
      {"10\xce\xbcs", 10us},
      {"3ns", 3ns},
      {"0.5ns", 0ns},
      {"1m1m", 2min},
      {"2562047h", 2562047h},
      {"0h0m0s", 0s},
      {"1m30.25s", 90250ms},
      {"9223372036.854775807s", 9223372036854775807ns},
  };
  for (const auto& x : good) {
    const auto value = parse_duration(x.text);
    CAF_REQUIRE(value);
    CAF_CHECK_EQUAL(value->count(), x.value.count());
  }
}

CAF_TEST(other texts are no durations) {
  for (const auto* text : {"",
                           " ",
                           "soon",
                           "-",
                           "+",
                           ".",
                           "s",
                           "ms",
                           "1d",
                           "1w",
                           "1h30",
                           "1 h",
                           "1h 30m",
                           "1..5s",
                           "--1s",
                           "1e3s",
                           "2562048h",
                           "9223372036.854775808s",
                           "99999999999999999999",
                           "1S",
                           "1H",
                           "\xc2\xb5s",
                           "5m!"})
    CAF_CHECK(!parse_duration(text));
}

CAF_TEST(durations are printed as Go prints them) {
  CAF_CHECK_EQUAL(format_duration(0s), "0s");
  CAF_CHECK_EQUAL(format_duration(90s), "1m30s");
  CAF_CHECK_EQUAL(format_duration(1s), "1s");
  CAF_CHECK_EQUAL(format_duration(500ms), "500ms");
  CAF_CHECK_EQUAL(format_duration(1500ms), "1.5s");
  CAF_CHECK_EQUAL(format_duration(60min), "1h");
  CAF_CHECK_EQUAL(format_duration(61min), "1h1m");
  CAF_CHECK_EQUAL(format_duration(1ns), "1ns");
  CAF_CHECK_EQUAL(format_duration(1050ns), "1.05\xc2\xb5s");
  CAF_CHECK_EQUAL(format_duration(-90s), "-1m30s");
  CAF_CHECK_EQUAL(format_duration(1000000001ns), "1.000000001s");
  for (const auto value : {std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::min() + 1})
    CAF_CHECK_EQUAL(parse_duration(format_duration(std::chrono::nanoseconds(value)))->count(), value);
  CAF_CHECK(!format_duration(std::chrono::nanoseconds::min()).empty());
}

CAF_TEST(numbers have nothing around them) {
  CAF_CHECK(parse_integer("0") == 0);
  CAF_CHECK(parse_integer(" -12 ") == -12);
  CAF_CHECK(parse_integer("+7") == 7);
  CAF_CHECK(parse_integer("9223372036854775807") == std::numeric_limits<std::int64_t>::max());
  for (const auto* text : {"", "x", "1x", "1.0", "+-1", "+ 1", "0x10", "1_000", "9223372036854775808", "1 2"})
    CAF_CHECK(!parse_integer(text));
}

CAF_TEST(sizes take units) {
  struct {
    const char* text;
    std::int64_t value;
  } const good[] = {{"0", 0},          {"4096", 4096}, {"4096B", 4096},        {"1k", 1024},
                    {"1K", 1024},      {"1KB", 1000},  {"1KiB", 1024},         {"8 MiB", 8 << 20},
                    {"8mib", 8 << 20}, {"1.5k", 1536}, {"2GB", 2'000'000'000}, {"1TiB", std::int64_t{1} << 40},
                    {"-1", -1},        {"-2k", -2048}};
  for (const auto& x : good) {
    const auto value = parse_bytes(x.text);
    CAF_REQUIRE(value);
    CAF_CHECK_EQUAL(*value, x.value);
  }
  for (const auto* text : {"", "k", "1.5", "1.5B", "1 XB", "1kk", "1kib1", "99999999999T", "ten"})
    CAF_CHECK(!parse_bytes(text));
  CAF_CHECK_EQUAL(format_bytes(8 << 20), "8MiB");
  CAF_CHECK_EQUAL(format_bytes(1000), "1000");
  CAF_CHECK_EQUAL(format_bytes(0), "0");
}

CAF_TEST(yes and no come in many words) {
  for (const auto* text : {"true", "TRUE", "yes", "Yes", "on", "y", "t", "1", " true "})
    CAF_CHECK(parse_boolean(text).value_or(false));
  for (const auto* text : {"false", "no", "OFF", "n", "f", "0"}) CAF_CHECK(!parse_boolean(text).value_or(true));
  for (const auto* text : {"", "2", "ja", "tru", "enabled"}) CAF_CHECK(!parse_boolean(text));
}

CAF_TEST(the nearest word is found and a far one is not ) {
  constexpr std::array<std::string_view, 4> words = {"LENGTH", "BATCH_LENGTH", "TYPE", "MAX_WORKERS"};
  CAF_CHECK_EQUAL(nearest("LENGHT", words), "LENGTH");
  CAF_CHECK_EQUAL(nearest("length", words), "LENGTH");
  CAF_CHECK_EQUAL(nearest("TYP", words), "TYPE");
  CAF_CHECK_EQUAL(nearest("MAX_WORKER", words), "MAX_WORKERS");
  CAF_CHECK_EQUAL(nearest("BATCHLENGTH", words), "BATCH_LENGTH");
  CAF_CHECK_EQUAL(nearest("max", words), "MAX_WORKERS");
  CAF_CHECK_EQUAL(nearest("COLOUR", words), "");
  constexpr std::array<std::string_view, 2> two = {"READ_TOKEN", "READ_TIMEOUT_LONG"};
  CAF_CHECK_EQUAL(nearest("read", two), "");
  CAF_CHECK_EQUAL(nearest("", words), "");
  CAF_CHECK_EQUAL(nearest(std::string(5000, 'x'), words), "");
  CAF_CHECK_EQUAL(edit_distance("", "abc"), 3u);
  CAF_CHECK_EQUAL(edit_distance("abc", ""), 3u);
  CAF_CHECK_EQUAL(edit_distance("ab", "ba"), 1u);
  CAF_CHECK_EQUAL(edit_distance("kitten", "sitting"), 3u);
}
