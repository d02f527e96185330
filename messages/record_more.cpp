#include "messages/record_more.hpp"

#include <charconv>

namespace caravan {

namespace {

// A part: tag, length (4 bytes, little-endian), bytes.
enum tag : char { retry = 1, failed = 2, cancelled = 3, result = 4, finished = 5 };

void put(std::string& out, tag t, std::string_view bytes) {
  out.push_back(t);
  for (unsigned shift = 0; shift < 32; shift += 8) out.push_back(static_cast<char>(bytes.size() >> shift));
  out.append(bytes);
}

/// Takes a number and the blank behind it off the front.
std::int64_t take_number(std::string_view& in) {
  std::int64_t n = 0;
  const auto [end, failure] = std::from_chars(in.data(), in.data() + in.size(), n);
  in.remove_prefix(static_cast<std::size_t>(end - in.data()));
  if (in.starts_with(' ')) in.remove_prefix(1);
  return failure == std::errc{} ? n : 0;
}

wall_time from_number(std::int64_t n) { return wall_time{std::chrono::milliseconds{n}}; }
std::string to_number(wall_time t) { return std::to_string(t.time_since_epoch().count()); }

}  // namespace

void record_more::add_error(past_error e) {
  if (e.text.size() > error_text_most) e.text.resize(error_text_most);
  errors.push_back(std::move(e));
  if (errors.size() > errors_kept) errors.erase(errors.begin());
}

record_more more_of(const record& r) {
  record_more more;
  std::string_view in = r.more;
  constexpr std::size_t head = 5;
  while (in.size() >= head) {
    const auto t = in[0];
    std::size_t size = 0;
    for (std::size_t i = 0; i < 4; ++i) size |= std::size_t{static_cast<unsigned char>(in[1 + i])} << (8 * i);
    in.remove_prefix(head);
    if (size > in.size()) break;
    auto bytes = in.substr(0, size);
    in.remove_prefix(size);
    switch (t) {
      case retry: more.retry = bytes; break;
      case failed: {
        past_error e;
        e.at = from_number(take_number(bytes));
        e.attempt = static_cast<std::uint32_t>(take_number(bytes));
        e.text = bytes;
        more.errors.push_back(std::move(e));
        break;
      }
      case cancelled: more.cancelled = true; break;
      case result: more.result = bytes; break;
      case finished: more.finished_at = from_number(take_number(bytes)); break;
      default: break;
    }
  }
  return more;
}

void set_more(record& r, const record_more& more) {
  r.more.clear();
  if (!more.retry.empty()) put(r.more, retry, more.retry);
  for (const auto& e : more.errors) put(r.more, failed, to_number(e.at) + ' ' + std::to_string(e.attempt) + ' ' + e.text);
  if (more.cancelled) put(r.more, cancelled, {});
  if (!more.result.empty()) put(r.more, result, more.result);
  if (more.finished_at != wall_time{}) put(r.more, finished, to_number(more.finished_at));
}

}  // namespace caravan
