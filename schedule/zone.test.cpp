#define CAF_SUITE schedule_zone
#include "schedule/zone.hpp"
#include "schedule/civil.hpp"

#include "caf/test/unit_test.hpp"

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

using namespace caravan;
using namespace caravan::calendar;

namespace {

std::int64_t utc(int year, int month, int day, int hour = 0) {
  return days_from_civil(year, month, day) * seconds_per_day + hour * 3600;
}

zone_ptr find(const std::string& name) { return zone::find(name).value(); }

std::string refusal(const std::string& name) {
  const auto found = zone::find(name);
  return found ? "" : found.failure().text;
}

std::string bytes_of(const std::string& name) {
  std::ifstream in("/usr/share/zoneinfo/" + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

zone_ptr by_rule(const char* rule) { return zone::from_rule(rule, rule).value(); }

struct environment {
  environment(const char* key, const char* value) : key_(key) {
    if (const char* old = std::getenv(key)) old_ = old;
    setenv(key, value, 1);
  }
  ~environment() {
    if (old_)
      setenv(key_, old_->c_str(), 1);
    else
      unsetenv(key_);
  }
  const char* key_;
  std::optional<std::string> old_;
};

}  // namespace

CAF_TEST(rules of every kind are read) {
  CAF_CHECK_EQUAL(by_rule("UTC0")->at(0).offset, 0);
  CAF_CHECK_EQUAL(by_rule("<+0545>-5:45")->at(0).offset, 20'700);
  const auto berlin = by_rule("CET-1CEST,M3.5.0,M10.5.0/3");
  CAF_CHECK_EQUAL(berlin->at(utc(2050, 3, 27, 0)).end, utc(2050, 3, 27, 1));
  CAF_CHECK_EQUAL(berlin->at(utc(2050, 3, 27, 1)).offset, 7200);
  CAF_CHECK_EQUAL(berlin->at(utc(2050, 12, 31)).offset, 3600);
  const auto nuuk = by_rule("<-02>2<-01>,M3.5.0/-1,M10.5.0/0");
  CAF_CHECK_EQUAL(nuuk->at(utc(2050, 3, 27, 0)).end, utc(2050, 3, 27, 1));
  const auto dublin = by_rule("IST-1GMT0,M10.5.0,M3.5.0/1");
  CAF_CHECK_EQUAL(dublin->at(utc(2050, 7, 1)).offset, 3600);
  CAF_CHECK_EQUAL(dublin->at(utc(2050, 1, 1)).offset, 0);
  const auto south = by_rule("<+1030>-10:30<+11>-11,M10.1.0,M4.1.0");
  CAF_CHECK_EQUAL(south->at(utc(2050, 1, 1)).offset, 39'600);
  CAF_CHECK_EQUAL(south->at(utc(2050, 7, 1)).offset, 37'800);
  const auto julian = by_rule("AAA0BBB,J60/0,J300/0");
  CAF_CHECK_EQUAL(julian->at(utc(2048, 2, 29)).end, utc(2048, 3, 1));
  CAF_CHECK_EQUAL(julian->at(utc(2049, 2, 28)).offset, 0);
}

CAF_TEST(summer time for all of the year has no holes) {
  const auto all = by_rule("XXX3EDT4,0/0,J365/23");
  for (auto day = 0; day < 800; ++day)
    CAF_CHECK_EQUAL(all->at(utc(2050, 1, 1) + day * seconds_per_day).offset, -14'400);
}

CAF_TEST(texts that are no rule are refused) {
  for (const auto* text : {"", "UT0", "UTC", "UTC0x", "CET-1CEST", "CET-1CEST,M3.5.0", "CET-1CEST,M13.5.0,M10.5.0",
                           "CET-1CEST,M3.6.0,M10.5.0", "CET-1CEST,M3.5.7,M10.5.0", "CET-1CEST,J0,J1", "CET-1CEST,366,1",
                           "CET-1CEST,M3.5.0/168,M10.5.0", "CET-25", "<>0", "<CET-1", "CET-1CEST,M3.5.0,M10.5.0,"})
    CAF_CHECK(!zone::from_rule(text, "x"));
}

CAF_TEST(names cannot leave the folder) {
  for (const auto* name : {"/etc/passwd", "../zoneinfo/UTC", "Europe/../UTC", "Europe//Berlin", "Europe/", "tzdata.zi",
                           "Europe/Ber lin", "."})
    CAF_CHECK(refusal(name).find("no zone can have this name") != std::string::npos);
  const std::string zero("Europe/Berlin\0x", 15);
  CAF_CHECK(refusal(zero).find("no zone can have this name") != std::string::npos);
  CAF_CHECK(refusal("Europe").find("there is none of this name") != std::string::npos);
  CAF_CHECK(refusal("leapseconds").find("it is no time zone file") != std::string::npos ||
            refusal("leapseconds").find("there is none") != std::string::npos);
}

CAF_TEST(a machine without tzdata is told so and still knows UTC) {
  const environment nowhere("TZDIR", "/nonexistent/zoneinfo");
  CAF_CHECK(refusal("Asia/Tokyo").find("install the package tzdata, or set TZDIR") != std::string::npos);
  CAF_CHECK_EQUAL(find("UTC")->at(0).offset, 0);
}

CAF_TEST(the zone of the machine comes from TZ) {
  {
    const environment tz("TZ", ":Asia/Tokyo");
    CAF_CHECK_EQUAL(zone::machine().value()->name(), "Asia/Tokyo");
  }
  {
    const environment tz("TZ", "CET-1CEST,M3.5.0,M10.5.0/3");
    CAF_CHECK_EQUAL(zone::machine().value()->at(utc(2026, 7, 1)).offset, 7200);
  }
  {
    const environment tz("TZ", "");
    CAF_CHECK_EQUAL(zone::machine().value()->name(), "UTC");
  }
  {
    const environment tz("TZ", "Mars/Base");
    const auto none = zone::machine();
    CAF_REQUIRE(!none);
    CAF_CHECK(none.failure().text.find("environment variable TZ") != std::string::npos);
  }
  const environment tz("TZ", "Local");
  CAF_CHECK(!zone::find("Local"));
}

CAF_TEST(a damaged file is refused wherever it was cut or changed) {
  const auto whole = bytes_of("Europe/Berlin");
  CAF_REQUIRE(zone::parse(whole, "x"));
  for (std::size_t length = 0; length < whole.size(); ++length) CAF_CHECK(!zone::parse(whole.substr(0, length), "x"));
  for (std::size_t i = 0; i < whole.size(); ++i)
    for (const auto change : {'\x00', '\x7f', '\xff'}) {
      auto other = whole;
      other[i] = change;
      if (const auto read = zone::parse(other, "x"))
        for (const auto t : {utc(1850, 1, 1), utc(1990, 1, 1), utc(2030, 1, 1), utc(2500, 1, 1)}) {
          const auto here = (*read)->at(t);
          CAF_CHECK(here.begin <= t && t < here.end);
        }
    }
  auto old = whole;
  old[4] = '\0';
  CAF_CHECK(zone::parse(old, "x").failure().text.find("version 1") != std::string::npos);
}

CAF_TEST(segments of every zone follow each other) {
  std::size_t zones = 0;
  for (const auto& file : std::filesystem::recursive_directory_iterator("/usr/share/zoneinfo")) {
    const auto name = std::filesystem::relative(file.path(), "/usr/share/zoneinfo").string();
    if (!file.is_regular_file() || name.starts_with("right/") || name.find('.') != std::string::npos) continue;
    const auto z = zone::find(name);
    if (!z) continue;
    ++zones;
    auto t = utc(1800, 1, 1);
    while (t < utc(2150, 1, 1)) {
      const auto here = (*z)->at(t);
      if (!(here.begin <= t && t < here.end && (*z)->at(here.end - 1).offset == here.offset)) CAF_FAIL(name);
      t = here.end;
    }
  }
  CAF_MESSAGE(zones << " zones");
  CAF_CHECK(zones > 300);
}

CAF_TEST(many threads may look up zones at once) {
  std::atomic<int> right{0};
  {
    std::vector<std::jthread> threads;
    for (auto i = 0; i < 8; ++i)
      threads.emplace_back([&] {
        for (const auto* name : {"Europe/Rome", "Asia/Dhaka", "America/Lima", "Europe/Rome"})
          if (zone::find(name).value()->name() == name) ++right;
      });
  }
  CAF_CHECK_EQUAL(right.load(), 32);
  const auto same = find("Europe/Rome") == find("Europe/Rome");
  CAF_CHECK(same);
}
