#include "actors/event/event_pattern.hpp"

#include <algorithm>
#include <string>

namespace caravan {

namespace {

constexpr std::size_t longest = 128;

std::string_view first_word(std::string_view& rest) {
  const auto dot = rest.find('.');
  const auto word = rest.substr(0, dot);
  rest = dot == std::string_view::npos ? std::string_view{} : rest.substr(dot + 1);
  return word;
}

bool is_plain(std::string_view word) {
  return !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  });
}

// Each word by `good(word, is_last)`.
template <class Good>
bool all_words(std::string_view text, Good good) {
  if (text.empty() || text.size() > longest || text.back() == '.') return false;
  while (!text.empty()) {
    const auto word = first_word(text);
    if (!good(word, text.empty())) return false;
  }
  return true;
}

}  // namespace

expected<void> check_topic(std::string_view topic) {
  if (all_words(topic, [](std::string_view word, bool) { return is_plain(word); })) return {};
  return {errc::invalid_argument, "\"" + std::string(topic.substr(0, longest)) +
                                      "\" is no topic: it needs 1 to 128 letters, digits, - and _, in words with dots "
                                      "between, as in app.order.placed"};
}

expected<void> check_pattern(std::string_view pattern) {
  if (all_words(pattern, [](std::string_view word, bool last) {
        return is_plain(word) || word == "*" || (last && word == "#");
      }))
    return {};
  return {errc::invalid_argument, "\"" + std::string(pattern.substr(0, longest)) +
                                      "\" is no pattern of topics: write a topic, with * for one word and # at the end "
                                      "for any number of them, as in queue.* or app.#"};
}

bool matches(std::string_view pattern, std::string_view topic) {
  while (!pattern.empty()) {
    const auto wanted = first_word(pattern);
    if (wanted == "#") return true;
    if (topic.empty()) return false;
    const auto word = first_word(topic);
    if (wanted != "*" && wanted != word) return false;
  }
  return topic.empty();
}

}  // namespace caravan
