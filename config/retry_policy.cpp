#include "config/retry_policy.hpp"

#include "config/values.hpp"

#include <algorithm>
#include <optional>

namespace caravan::config {

using std::chrono::milliseconds;

namespace {

constexpr auto longest = std::chrono::hours{24 * 365};
constexpr std::size_t list_most = 100;

// A whole number of milliseconds, 0 to a year.
std::optional<milliseconds> pause_of(std::string_view text) {
  const auto d = parse_duration(text);
  if (!d || *d < milliseconds{0} || *d > longest || *d % milliseconds{1} != milliseconds{0}) return std::nullopt;
  return std::chrono::duration_cast<milliseconds>(*d);
}

std::string short_text(milliseconds t) {
  const auto ms = t.count();
  if (ms % 3'600'000 == 0 && ms > 0) return std::to_string(ms / 3'600'000) + "h";
  if (ms % 60'000 == 0 && ms > 0) return std::to_string(ms / 60'000) + "m";
  if (ms % 1'000 == 0) return std::to_string(ms / 1'000) + "s";
  return std::to_string(ms) + "ms";
}

std::string_view trimmed(std::string_view s) {
  while (!s.empty() && s.front() == ' ') s.remove_prefix(1);
  while (!s.empty() && s.back() == ' ') s.remove_suffix(1);
  return s;
}

}  // namespace

milliseconds retry_policy::pause_after(std::uint32_t failures) const {
  const auto n = std::max<std::uint32_t>(failures, 1);
  switch (what) {
    case kind::exponential: {
      auto pause = first;
      for (std::uint32_t i = 1; i < n && pause < most && pause > milliseconds{0}; ++i) pause *= 2;
      return std::min(pause, most);
    }
    case kind::linear: return first > most / n ? most : first * n;
    case kind::list: break;
  }
  return list.empty() ? most : list[std::min<std::size_t>(n, list.size()) - 1];
}

expected<retry_policy> parse_retry_policy(std::string_view text) {
  const auto wrong = [&](std::string cause) -> error {
    return {errc::invalid_argument, "\"" + std::string(text) + "\" is no way to retry: " + std::move(cause) +
                                        "; write for example exponential 1s..1h, linear 30s or list 1s,5s,1m"};
  };
  const auto in = trimmed(text);
  const auto blank = in.find(' ');
  const auto word = in.substr(0, blank);
  const auto rest = blank == in.npos ? std::string_view{} : trimmed(in.substr(blank));
  retry_policy out;
  if (word == "list") {
    out.what = retry_policy::kind::list;
    for (auto left = rest; !left.empty() || out.list.empty();) {
      const auto comma = left.find(',');
      const auto pause = pause_of(trimmed(left.substr(0, comma)));
      if (!pause) return wrong("a list has durations up to a year with commas between them");
      out.list.push_back(*pause);
      if (out.list.size() > list_most) return wrong("a list has at most 100 durations");
      if (comma == left.npos) break;
      left.remove_prefix(comma + 1);
      if (left.empty()) return wrong("nothing follows the last comma");
    }
    out.first = out.list.front();
    out.most = *std::max_element(out.list.begin(), out.list.end());
    return out;
  }
  if (word == "exponential") {
    out.what = retry_policy::kind::exponential;
  } else if (word == "linear") {
    out.what = retry_policy::kind::linear;
  } else {
    return wrong("it begins with none of exponential, linear, list");
  }
  const auto dots = rest.find("..");
  const auto first = pause_of(trimmed(rest.substr(0, dots)));
  const auto most = dots == rest.npos ? std::optional{std::max(out.most, first.value_or(out.most))}
                                      : pause_of(trimmed(rest.substr(dots + 2)));
  if (!first || !most) return wrong("behind \"" + std::string(word) + "\" stands a duration up to a year, or two with .. between");
  if (*most < *first) return wrong("the longest pause is shorter than the first");
  out.first = *first;
  out.most = *most;
  return out;
}

std::string to_string(const retry_policy& p) {
  switch (p.what) {
    case retry_policy::kind::exponential: return "exponential " + short_text(p.first) + ".." + short_text(p.most);
    case retry_policy::kind::linear: return "linear " + short_text(p.first) + ".." + short_text(p.most);
    case retry_policy::kind::list: break;
  }
  std::string out = "list ";
  for (std::size_t i = 0; i < p.list.size(); ++i) out += (i > 0 ? "," : "") + short_text(p.list[i]);
  return out;
}

expected<rate> parse_rate(std::string_view text) {
  auto in = trimmed(text);
  if (in.empty()) return rate{};
  const auto wrong = [&] {
    return error{errc::invalid_argument, "\"" + std::string(text) +
                                             "\" is no rate; write for example 100/s, 1/10s or 100/s burst 500"};
  };
  rate out;
  if (const auto at = in.find(" burst "); at != in.npos) {
    const auto burst = parse_integer(trimmed(in.substr(at + 7)));
    if (!burst || *burst < 1 || *burst > 1'000'000'000) return wrong();
    out.burst = static_cast<std::uint32_t>(*burst);
    in = trimmed(in.substr(0, at));
  }
  const auto slash = in.find('/');
  if (slash == in.npos) return wrong();
  const auto count = parse_integer(trimmed(in.substr(0, slash)));
  const auto unit = trimmed(in.substr(slash + 1));
  // "/s" is "/1s".
  const bool bare = !unit.empty() && (unit.front() < '0' || unit.front() > '9');
  const auto per = pause_of(bare ? "1" + std::string(unit) : std::string(unit));
  if (!count || *count < 1 || *count > 1'000'000'000 || !per || per->count() < 1) return wrong();
  out.count = static_cast<std::uint32_t>(*count);
  out.per = *per;
  return out;
}

}  // namespace caravan::config
