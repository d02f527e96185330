// What must hold for any bytes that are given as a configuration. The entry is libFuzzer's; ini_fuzz.test.cpp calls the
// same one, so that every test run covers some of it without clang.

#include "config/check.hpp"
#include "config/environment.hpp"
#include "config/ini.hpp"
#include "config/read_settings.hpp"
#include "config/redis_address.hpp"
#include "config/show.hpp"
#include "config/values.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

using namespace caravan::config;

namespace {

std::string_view input;  // of this run, for the message

void demand(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "violated: %s, by\n", what);
  for (const auto c : input)
    std::fprintf(stderr, c >= 0x20 && c < 0x7f && c != '\\' ? "%c" : "\\x%02x", static_cast<unsigned char>(c));
  std::fputc('\n', stderr);
  std::abort();
}

void text_properties(std::string_view text) {
  const auto lines = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')) + 1;
  const auto parsed = parse_ini(text, "fuzz.ini");
  for (const auto& x : parsed.found) {
    demand(x.where.line >= 1 && x.where.line <= lines, "every mistake has a line of the text");
    demand(x.where.file == "fuzz.ini", "every mistake has its file");
    demand(!x.cause.empty() && !x.remedy.empty(), "every mistake has a cause and a remedy");
  }
  for (const auto& s : parsed.content.sections())
    for (const auto& e : s.entries) {
      demand(e.where.line >= 1 && e.where.line <= lines, "every key has a line of the text");
      demand(parsed.content.find(s.name, e.key) == &e, "every key is found where it stands");
    }

  const auto printed = to_text(parsed.content);
  const auto back = parse_ini(printed, "printed.ini");
  demand(!has_errors(back.found), "the printed form has no mistakes");
  demand(same_content(parsed.content, back.content), "the printed form means the same");
  demand(to_text(back.content) == printed, "the printed form of the printed form is the same");
}

void settings_properties(std::string_view text) {
  const auto parsed = parse_ini(text, "fuzz.ini");
  problems found;
  const auto all = read_settings(parsed.content, found);
  for (const auto& q : all.queues) {
    demand(q.length >= 1 && q.batch_length >= 1, "lengths are at least 1");
    demand(q.lease.count() >= 100 && q.sync_interval.count() >= 1, "times are within their bounds");
    demand(!q.datadir.empty() && q.datadir.front() == '/', "directories are absolute");
  }
  const auto checked = check(parsed);
  demand(has_errors(checked) || (!has_errors(found) && !has_errors(parsed.found)),
         "check finds what a start would find");
  const auto shown = to_text(show(parsed.content));
  demand(!has_errors(parse_ini(shown, "shown.ini").found), "what is shown can be read");
}

void value_properties(std::string_view text) {
  if (const auto value = parse_duration(text))
    demand(parse_duration(format_duration(*value)) == *value, "a duration survives its text");
  if (const auto value = parse_bytes(text))
    demand(parse_bytes(format_bytes(*value)) == *value, "a size survives its text");
  (void)parse_integer(text);
  (void)parse_boolean(text);
  const auto masked = mask_secrets(text);
  demand(mask_secrets(masked) == masked, "what is masked stays as it is");
  if (const auto address = parse_redis_address(text)) {
    demand(!address->hosts.empty() || !address->socket_path.empty(), "an address leads somewhere");
    demand(!storage_key(*address).empty(), "an address names a storage");
  }
  (void)explain(text);
  ini in;
  const std::string variable = "CARAVAN__" + std::string(text.substr(0, text.find('\0')));
  // Not those that name a file: the fuzzer shall not read around.
  if (const auto name = decode_variable(std::string_view(variable).substr(0, variable.find('=')));
      !name || !name->from_file)
    (void)apply_environment(in, {{variable}});
  demand(!has_errors(parse_ini(to_text(in), "environment").found), "what the environment set can be printed");
  const auto half = text.size() / 2;
  const auto encoded = encode_variable("a." + std::string(text.substr(0, half)), "K" + std::string(text.substr(half)));
  const auto decoded = decode_variable(encoded, environment_prefix, "");
  demand(decoded && decoded->key == "K" + std::string(text.substr(half)), "a name survives its variable");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  input = text;
  text_properties(text);
  if (size % 4 == 0) settings_properties(text);  // not always: it takes ten times as long as the rest
  if (size <= 200) value_properties(text);
  return 0;
}
