#include "config/read_limit.hpp"

#include "config/read_settings.hpp"
#include "config/reader.hpp"
#include "config/registry.hpp"

namespace caravan::config {

std::vector<std::string> limit_names(const ini& from) {
  constexpr std::string_view prefix = "limit.";
  std::vector<std::string> out;
  for (const auto& s : from.sections())
    if (s.name.starts_with(prefix) && s.name.size() > prefix.size()) out.push_back(s.name.substr(prefix.size()));
  return out;
}

limit_settings read_limit_settings(const ini& from, std::string_view name, problems& found) {
  const auto section = "limit." + std::string(name);
  if (!is_valid_name(name)) {
    const auto* there = from.find_section(section);
    report(found, {severity::error, there ? there->where : origin{}, "limit " + shown(name),
                   "this is no name for a limit", "use up to 128 letters, digits, - _ and ."});
  }
  reader in(from, section, found);
  limit_settings out;
  out.name = name;
  out.kind = static_cast<limit_kind>(in.choice("KIND"));
  out.rate = static_cast<std::uint64_t>(in.number("RATE").value_or(0));
  out.per = in.duration("PER");
  const auto burst = static_cast<std::uint64_t>(in.number("BURST").value_or(0));
  out.burst = burst > 0 ? burst : out.rate;
  out.store = static_cast<limit_store>(in.choice("STORE"));
  out.down = static_cast<when_down>(in.choice("WHEN_DOWN"));
  if (out.rate == 0 && out.kind == limit_kind::period)
    in.complain("RATE", "a limit of KIND = period that permits nothing is none", "set RATE to 1 or more");
  else if (out.burst == 0)
    in.complain("RATE", "0 gives BURST once and never more, so BURST is needed", "set BURST, or RATE to 1 or more");
  if (out.store != limit_store::redis) return out;
  out.conn = from.get("redis", "CONN_STR");
  if (out.conn.empty()) in.complain("STORE", "no Redis is named", "set CONN_STR in [redis]");
  return out;
}

}  // namespace caravan::config
