#define CAF_SUITE config_registry
#include "config/registry.hpp"

#include "config/values.hpp"

#include "caf/test/unit_test.hpp"

#include <set>

using namespace caravan::config;

namespace {

std::optional<std::int64_t> number_in(value_type type, std::string_view text) {
  if (type == value_type::integer) return parse_integer(text);
  if (type == value_type::bytes) return parse_bytes(text);
  if (const auto length = parse_duration(text)) return length->count();
  return std::nullopt;
}

}  // namespace

CAF_TEST(each key is there once and in a known section) {
  std::set<std::string> seen;
  for (const auto& k : all_keys()) {
    const auto name = std::string(k.section) + "." + std::string(k.key);
    CAF_CHECK(seen.insert(name).second);
    CAF_REQUIRE(find_section_spec(k.section));
    CAF_CHECK_EQUAL(find_section_spec(k.section)->name, k.section);
    CAF_CHECK(find_key_spec(k.section, k.key) == &k);
    CAF_CHECK(!k.text.empty() && !k.text.ends_with('.'));
    for (const auto c : k.key) CAF_CHECK((c >= 'A' && c <= 'Z') || c == '_');
  }
}

CAF_TEST(defaults and bounds are values of their type) {
  for (const auto& k : all_keys()) {
    const auto value = default_value(k);
    switch (k.type) {
      case value_type::boolean:
        CAF_CHECK(parse_boolean(value));
        break;
      case value_type::integer:
      case value_type::bytes:
      case value_type::duration: {
        const auto number = number_in(k.type, value);
        CAF_REQUIRE(number);
        if (k.bounds.empty()) break;
        const auto bounds = range(k);
        CAF_REQUIRE(bounds);
        CAF_CHECK(bounds->least <= *number && *number <= bounds->most);
        break;
      }
      case value_type::choice: {
        const auto all = choices(k);
        CAF_CHECK(std::find(all.begin(), all.end(), value) != all.end());
        break;
      }
      default:
        break;
    }
  }
}

CAF_TEST(children share the keys of their family and others have none) {
  CAF_CHECK(find_section_spec("queue.mail") == find_section_spec("queue"));
  CAF_CHECK(find_section_spec("queue.a.b") == find_section_spec("queue"));
  CAF_CHECK(find_section_spec("cron.x"));
  for (const auto* name : {"queue.", "queues", "Queue", "http.x", "", "que", "queue_mail"})
    CAF_CHECK(!find_section_spec(name));
  CAF_CHECK(find_key_spec("queue.mail", "LENGTH"));
  CAF_CHECK(!find_key_spec("queue.mail", "length"));
  CAF_CHECK(!find_key_spec("http", "LENGTH"));
  CAF_CHECK_EQUAL(places(*find_section_spec("queue.mail")), "[queue] and [queue.NAME]");
  CAF_CHECK_EQUAL(places(*find_section_spec("http")), "[http]");
}

CAF_TEST(defaults that depend on the machine) {
  CAF_CHECK(!default_value(*find_key_spec("node", "NAME")).empty());
  const auto workers = parse_integer(default_value(*find_key_spec("queue", "MAX_WORKERS")));
  CAF_REQUIRE(workers);
  CAF_CHECK(*workers >= 1 && *workers <= 10);
}
