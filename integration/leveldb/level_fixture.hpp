#pragma once

// What the tests of this folder share.

#include "integration/leveldb/level_storage.hpp"
#include "integration/storage.hpp"
#include "tests/contract/crash_env.hpp"
#include "tests/contract/storage_contract.hpp"
#include "tests/support/temp_folder.hpp"
#include "tests/contract/tsan_leveldb.hpp"

#include "caf/test/unit_test.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <random>

namespace caravan::level_tests {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using testing_support::temp_folder;
using contract::item;
using contract::refs;
using until = unique_policy::until;

/// A folder, what is reported about it, and storages in it.
struct level_fixture {
  level_fixture() { clock.advance(std::chrono::hours{24 * 365 * 55}); }

  level_options options(const std::string& queue = "mail") {
    level_options o;
    o.datadir = datadir;
    o.queue_full_name = queue + "_queue";
    o.set_full_name = queue + "_queue_unique";
    o.sync = config::sync_mode::never;
    o.clock = &clock;
    o.report = [this](const damage_report& r) {
      const std::lock_guard lock{mutex};
      CAF_MESSAGE("report: [" << r.queue << "] " << r.what << " lost " << (r.lost ? std::to_string(*r.lost) : "?")
                              << ' ' << r.saved_to);
      reports.push_back(r);
    };
    o.sleep = [this](std::chrono::milliseconds t) { slept += t; };
    return o;
  }
  std::unique_ptr<level_storage> open(level_options o) {
    auto opened = open_level_storage(std::move(o));
    if (!opened) CAF_FAIL(opened.failure().text);
    return std::move(*opened);
  }
  std::unique_ptr<level_storage> open(const std::string& queue = "mail") { return open(options(queue)); }

  /// Payloads that do not compress, so that files have the size one expects.
  std::string noise(std::size_t size) {
    std::string text;
    while (text.size() < size) text.push_back(static_cast<char>(random()));
    return text;
  }
  item_id push(storage& store, record r) {
    auto results = store.append(std::span{&r, 1}, clock.wall());
    if (!results) CAF_FAIL(results.failure().text);
    return (*results)[0].id;
  }
  void push_many(storage& store, std::size_t count, std::size_t size = 200) {
    for (std::size_t i = 0; i < count; i += 100) {
      std::vector<record> records;
      for (std::size_t j = i; j < std::min(count, i + 100); ++j) records.push_back(item(noise(size)));
      store.append(records, clock.wall()).value();
    }
  }
  std::vector<record> all(storage& store, record_state state = record_state::waiting) {
    return store.read(state, {}, 1'000'000).value();
  }
  [[nodiscard]] std::vector<fs::path> files(const std::string& ending) const {
    std::vector<fs::path> found;
    for (const auto& e : fs::directory_iterator{datadir})
      if (e.path().extension() == ending || e.path().filename().string().rfind(ending, 0) == 0)
        found.push_back(e.path());
    std::sort(found.begin(), found.end());
    return found;
  }
  static void flip(const fs::path& file, double where) {
    std::fstream f{file, std::ios::in | std::ios::out | std::ios::binary};
    const auto at = static_cast<std::streamoff>(static_cast<double>(fs::file_size(file)) * where);
    f.seekg(at);
    char bytes[8];
    f.read(bytes, 8);
    for (auto& b : bytes) b = static_cast<char>(~b);
    f.seekp(at);
    f.write(bytes, 8);
  }
  [[nodiscard]] bool reported(const std::string& queue, const std::string& text) const {
    return std::any_of(reports.begin(), reports.end(), [&](const damage_report& r) {
      return r.queue == queue && r.what.find(text) != std::string::npos;
    });
  }
  [[nodiscard]] std::size_t lost(const std::string& queue) const {
    std::size_t sum = 0;
    for (const auto& r : reports)
      if (r.queue == queue) sum += r.lost.value_or(0);
    return sum;
  }

  temp_folder folder;
  std::string datadir = folder.path().string() + "/data";
  toolbox::manual_clock clock;
  std::mutex mutex;
  std::vector<damage_report> reports;
  std::chrono::milliseconds slept{0};
  std::mt19937 random{42};
};

}  // namespace caravan::level_tests
