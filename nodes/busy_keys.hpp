#pragma once

/// Which keys are used most, in bounded memory.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace caravan {

/// Counts of at most `most_keys` keys. When there is a new one and no room, all counts are halved until one that was
/// seldom used is gone: so counts fade, and who is busy now stays. Not thread safe.
class busy_keys {
public:
  struct usage {
    std::string key;
    std::uint64_t taken = 0;
    std::uint64_t refused = 0;
  };

  explicit busy_keys(std::size_t most_keys) : most_(std::max<std::size_t>(1, most_keys)) {}

  void count(std::string_view key, bool permitted, std::uint64_t n) {
    auto it = counts_.find(std::string(key));
    if (it == counts_.end()) {
      while (counts_.size() >= most_) fade();
      it = counts_.emplace(key, both{}).first;
    }
    (permitted ? it->second.taken : it->second.refused) += n;
  }

  /// The busiest first; of equal ones by key.
  [[nodiscard]] std::vector<usage> top(std::size_t n) const {
    std::vector<usage> all;
    for (const auto& [key, c] : counts_) all.push_back({key, c.taken, c.refused});
    n = std::min(n, all.size());
    std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(n), all.end(),
                      [](const usage& a, const usage& b) {
                        const auto x = a.taken + a.refused, y = b.taken + b.refused;
                        return x != y ? x > y : a.key < b.key;
                      });
    all.resize(n);
    return all;
  }
  [[nodiscard]] std::size_t size() const noexcept { return counts_.size(); }

private:
  struct both {
    std::uint64_t taken = 0;
    std::uint64_t refused = 0;
  };
  void fade() {
    for (auto& [key, c] : counts_) c = {c.taken / 2, c.refused / 2};
    std::erase_if(counts_, [](const auto& entry) { return entry.second.taken + entry.second.refused == 0; });
  }

  const std::size_t most_;
  std::unordered_map<std::string, both> counts_;
};

}  // namespace caravan
