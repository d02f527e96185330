// Facts about how Gitea reads such files, as data: testdata/config_cases.jsonl holds those that bind this folder.

#define CAF_SUITE config_cases
#include "config/check.hpp"
#include "config/environment.hpp"
#include "config/ini.hpp"
#include "config/read_cache.hpp"
#include "config/read_settings.hpp"
#include "config/values.hpp"

#include "caf/test/unit_test.hpp"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <set>

using namespace caravan;
using namespace caravan::config;
using nlohmann::json;

namespace {

namespace fs = std::filesystem;

constexpr auto kept_cases = CARAVAN_SOURCE_DIR "/config/testdata/config_cases.jsonl";
constexpr auto more_cases =
    CARAVAN_SOURCE_DIR "/../shared/cases/config_cases.jsonl";  // beside the source, where there are any
const std::set<std::string> areas = {"queue", "redis", "provider", "env", "deprecated", "cache"};
const fs::path app = "/srv/app data";

struct failed_case {
  std::string why;
};

void demand(bool holds, const std::string& why) {
  if (!holds) throw failed_case{why};
}

void demand_equal(const std::string& what, const json& is, const json& should) {
  demand(is == should, what + " is " + is.dump() + ", not " + should.dump());
}

std::string text_of(const json& value) {
  auto text = value.get<std::string>();
  if (text.starts_with("APP/")) text = (app / text.substr(4)).string();
  return text;
}

void run_queue(const json& c) {
  const auto in = parse_ini(c["ini"].get<std::string>(), "case.ini").content;
  const auto got = read_queue_settings(in, c["query"]["queue"].get<std::string>(), app);
  const auto& expect = c["expect"];
  if (expect.contains("error")) {
    demand(!got, "it was accepted");
    demand(got.failure().text.find(expect["error"].get<std::string>()) != std::string::npos, got.failure().text);
    return;
  }
  demand(got.has_value(), got ? "" : got.failure().text);
  for (const auto& [key, value] : expect.items()) {
    if (key == "name")
      demand_equal(key, got->name, value);
    else if (key == "type" || key == "effective_type")
      demand_equal(key, to_string(got->type), value);
    else if (key == "datadir")
      demand_equal(key, got->datadir, text_of(value));
    else if (key == "length")
      demand_equal(key, got->length, value);
    else if (key == "batch_length")
      demand_equal(key, got->batch_length, value);
    else if (key == "conn_str")
      demand_equal(key, got->conn_str, value);
    else if (key == "queue_full_name")
      demand_equal(key, got->queue_full_name, value);
    else if (key == "set_full_name")
      demand_equal(key, got->set_full_name, value);
    else if (key == "max_workers" && value == ">0")
      demand(got->max_workers && *got->max_workers > 0, "no workers");
    else if (key == "max_workers")
      demand_equal(key, got->max_workers.value_or(0), value);
    else
      demand(false, "nothing looks at \"" + key + "\"");
  }
}

void run_load(const json& c) {
  const auto in = parse_ini(c["ini"].get<std::string>(), "case.ini").content;
  const auto& expect = c["expect"];
  if (c["query"]["load"] == "cache") {
    const auto cache = read_cache_settings(in, "");
    demand(cache.has_value(), cache ? "" : cache.failure().text);
    return demand_equal("conn", cache->conn, expect["conn"]);
  }
  const auto got = read_settings(in);
  demand(expect.value("fatal", false), "nothing looks at this expectation");
  demand(!got, "it was accepted");
  for (const auto& mention : expect.value("message_mentions", json::array()))
    demand(got.failure().text.find(mention.get<std::string>()) != std::string::npos,
           got.failure().text + " does not mention " + mention.dump());
  demand(has_errors(check(in)), "check does not find it");
}

void run_provider(const json& c) {
  const auto in = parse_ini(c["ini"].get<std::string>(), "case.ini").content;
  const auto& q = c["query"];
  const auto how = q.value("strict", false) ? lookup::strict : lookup::inherited;
  const auto section = q["section"].get<std::string>(), key = q["key"].get<std::string>(),
             fallback = q.value("default", "");
  auto should = c["expect"]["value"].get<std::string>();
  auto is = in.get(section, key, fallback, how);
  if (q.value("as", "") == "duration") {
    is = format_duration(
        in.get_duration(section, key, parse_duration(fallback).value_or(std::chrono::nanoseconds(0)), how));
    should = format_duration(parse_duration(should).value());  // "5m" is "5m0s" elsewhere
  }
  demand_equal("value", is, should);
}

void run_decode(const json& c) {
  const auto& names = c["query"]["decode"];
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto got = decode_section_key(names[i].get<std::string>());
    demand(got.has_value(), names[i].dump() + " has no key");
    demand_equal(names[i].get<std::string>(), json::array({got->section, got->key}), c["expect"]["pairs"].at(i));
  }
}

void run_names(const json& c) {
  const auto& q = c["query"];
  for (std::size_t i = 0; i < q["names"].size(); ++i) {
    const auto got = decode_variable(q["names"][i].get<std::string>(), q["prefix"].get<std::string>(),
                                     q["suffix"].get<std::string>());
    auto is = json{{"ok", got.has_value()}};
    if (got) is.update({{"section", got->section}, {"key", got->key}, {"file", got->from_file}});
    demand_equal(q["names"][i].get<std::string>(), is, c["expect"]["results"].at(i));
  }
}

void run_environment(const json& c) {
  auto in = parse_ini(c["ini"].get<std::string>(), "case.ini").content;
  const auto& q = c["query"];
  const auto file = fs::temp_directory_path() / ("caravan_case_" + std::to_string(::getpid()));
  for (std::size_t i = 0; i < q["env"].size(); ++i) {
    auto pair = q["env"][i].get<std::string>();
    const std::string mark = "<file with '";
    if (const auto at = pair.find(mark); at != std::string::npos) {
      std::ofstream(file) << pair.substr(at + mark.size(), pair.rfind("'>") - at - mark.size()) << '\n';
      pair = pair.substr(0, at) + file.string();
    }
    const auto result = apply_environment(in, {{pair}}, q["prefix"].get<std::string>());
    demand(result.found.empty(), to_string(result.found));
    demand_equal("changed", result.changed, c["expect"]["changed"].at(i));
  }
  fs::remove(file);
  demand_equal("value", in.get("sec", "key"), c["expect"]["value"]);
}

void run(const json& c) {
  const auto& q = c["query"];
  if (q.contains("queue")) return run_queue(c);
  if (q.contains("load")) return run_load(c);
  if (q.contains("section")) return run_provider(c);
  if (q.contains("decode")) return run_decode(c);
  if (q.contains("names")) return run_names(c);
  if (q.contains("env")) return run_environment(c);
  demand(false, "nothing runs such a case");
}

/// How many ran.
int run_file(const char* path) {
  std::ifstream file(path);
  if (!file) {
    std::cout << "skipped: no " << path << '\n';
    return 0;
  }
  auto count = 0;
  for (std::string line; std::getline(file, line);) {
    if (trim(line).empty()) continue;
    const auto c = json::parse(line);
    const auto id = c["id"].get<std::string>();
    if (!areas.contains(c["area"].get<std::string>())) {
      std::cout << id << " skipped: no settings of [" << c["area"].get<std::string>() << "] yet\n";
      continue;
    }
    std::string outcome = "ok";
    try {
      run(c);
    } catch (const failed_case& failed) {
      outcome = failed.why;
    }
    std::cout << id << ' ' << outcome << '\n';
    CAF_CHECK_EQUAL(id + " " + outcome, id + " ok");
    ++count;
  }
  return count;
}

}  // namespace

CAF_TEST(the kept cases hold) { CAF_CHECK_EQUAL(run_file(kept_cases), 30); }

CAF_TEST(further cases hold where there are any) { run_file(more_cases); }
