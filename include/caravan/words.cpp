#include <caravan/error.hpp>
#include <caravan/item_id.hpp>

namespace caravan {

std::string_view to_string(errc code) noexcept {
  switch (code) {
    case errc::already_in_queue: return "already_in_queue";
    case errc::queue_full: return "queue_full";
    case errc::queue_closed: return "queue_closed";
    case errc::too_large: return "too_large";
    case errc::backend_failed: return "backend_failed";
    case errc::fenced: return "fenced";
    case errc::not_found: return "not_found";
    case errc::invalid_argument: return "invalid_argument";
    case errc::timed_out: return "timed_out";
    case errc::not_supported: return "not_supported";
    case errc::conflict: return "conflict";
    case errc::unauthorized: return "unauthorized";
    case errc::forbidden: return "forbidden";
  }
  return "unknown";
}

namespace {
constexpr std::string_view digits = "0123456789abcdefghjkmnpqrstvwxyz";
constexpr std::size_t id_length = 13;

int digit_value(char c) {
  if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  if (c == 'o') c = '0';
  if (c == 'i' || c == 'l') c = '1';
  const auto at = digits.find(c);
  return at == std::string_view::npos ? -1 : static_cast<int>(at);
}
}  // namespace

std::string to_string(item_id id) {
  std::string text(id_length, '0');
  for (std::size_t i = id_length; i-- > 0;) {
    text[i] = digits[id.value & 31];
    id.value >>= 5;
  }
  return text;
}

std::optional<item_id> parse_item_id(std::string_view text) {
  if (text.size() != id_length) return std::nullopt;
  // 13 digits hold 65 bits: the first may only be 0 to f.
  if (digit_value(text[0]) > 15) return std::nullopt;
  std::uint64_t value = 0;
  for (const char c : text) {
    const int digit = digit_value(c);
    if (digit < 0) return std::nullopt;
    value = value << 5 | static_cast<std::uint64_t>(digit);
  }
  if (value == 0) return std::nullopt;
  return item_id{value};
}

std::string to_string(const job_id& id) { return id.queue + "." + to_string(id.item); }

std::optional<job_id> parse_job_id(std::string_view text) {
  const auto dot = text.rfind('.');
  if (dot == std::string_view::npos || dot == 0) return std::nullopt;
  const auto item = parse_item_id(text.substr(dot + 1));
  if (!item) return std::nullopt;
  return job_id{std::string(text.substr(0, dot)), *item};
}

}  // namespace caravan
