#pragma once

#include <cstddef>
#include <random>
#include <string>
#include <vector>

namespace caravan::fuzz {

/// `text` with a few changes: `pieces` that mean something there, bytes lost, altered and doubled, parts of `others`.
inline std::string changed(std::string text, const std::vector<std::string>& pieces,
                           const std::vector<std::string>& others, std::mt19937& chance) {
  const auto below = [&](std::size_t n) { return n == 0 ? 0 : static_cast<std::size_t>(chance() % n); };
  for (auto n = 1 + below(8); n > 0; --n) {
    const auto at = below(text.size() + 1);
    switch (below(6)) {
      case 0:
        text.insert(at, pieces[below(pieces.size())]);
        break;
      case 1:
        text.erase(at, 1 + below(20));
        break;
      case 2:
        if (at < text.size()) text[at] = static_cast<char>(chance() & 0xff);
        break;
      case 3:
        text.insert(at, text.substr(below(text.size() + 1), below(60)));
        break;
      case 4:
        text.resize(at);
        break;
      default: {
        const auto& other = others[below(others.size())];
        text.insert(at, other.substr(below(other.size() + 1), below(80)));
      }
    }
  }
  return text;
}

}  // namespace caravan::fuzz
