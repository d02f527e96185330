#include "config/redis_address.hpp"

#include "config/values.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>

namespace caravan::config {

namespace {

constexpr std::uint16_t redis_port = 6379;
constexpr std::uint16_t sentinel_port = 26379;
constexpr unsigned most_db = 65'535;

struct scheme {
  std::string_view name;
  redis_kind kind;
  bool tls;
};

constexpr std::array schemes = {
    scheme{"redis", redis_kind::single, false},
    scheme{"rediss", redis_kind::single, true},
    scheme{"unix", redis_kind::unix_socket, false},
    scheme{"redis+socket", redis_kind::unix_socket, false},
    scheme{"redis-socket", redis_kind::unix_socket, false},
    scheme{"redis-sentinel", redis_kind::sentinel, false},
    scheme{"redis+sentinel", redis_kind::sentinel, false},
    scheme{"rediss-sentinel", redis_kind::sentinel, true},
    scheme{"rediss+sentinel", redis_kind::sentinel, true},
    scheme{"redis-cluster", redis_kind::cluster, false},
    scheme{"redis+cluster", redis_kind::cluster, false},
    scheme{"rediss-cluster", redis_kind::cluster, true},
    scheme{"rediss+cluster", redis_kind::cluster, true},
};

/// Options that clients know under these names. Anything else is more likely a slip than a wish.
constexpr std::array<std::string_view, 30> known_options = {
    "db",           "database",       "master_name",  "mastername",   "username",          "password",
    "timeout",      "dial_timeout",   "dialtimeout",  "read_timeout", "readtimeout",       "write_timeout",
    "writetimeout", "pool_size",      "poolsize",     "pool_timeout", "pooltimeout",       "idle_timeout",
    "idletimeout",  "min_idle_conns", "minidleconns", "max_retries",  "sentinel_username", "sentinel_password",
    "tls_ca_file",  "tlscafile",      "skip_verify",  "skipverify",   "insecure_skip_verify", "insecureskipverify"};

std::string lower(std::string_view text) {
  std::string out(text);
  for (auto& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

/// What cannot be read may hold a password anywhere.
std::string what_may_be_shown(std::string_view text) {
  const auto scheme_end = text.find("://");
  if (scheme_end == std::string_view::npos) return text.find_first_of("@:") == std::string_view::npos ? mask_secrets(text) : "***";
  const auto authority = scheme_end + 3;
  if (text.find_first_of(" \t") != std::string_view::npos) return std::string(text.substr(0, authority)) + "***";
  if (text.find('@') != std::string_view::npos) return mask_secrets(text);
  // Without an @ this is host:port, or user:password of which a # cut off the rest.
  const auto colon = text.find(':', authority);
  const auto end = std::min(text.find_first_of("/?,", authority), text.size());
  if (colon >= end || text.substr(colon + 1, end - colon - 1).find_first_not_of("0123456789") == std::string_view::npos) return mask_secrets(text);
  return std::string(text.substr(0, colon + 1)) + "***";
}

error refuse(std::string_view text, std::string cause) {
  if (cause.starts_with("a port is") && what_may_be_shown(text).ends_with("***"))
    cause += " (a # or ; begins a comment: a value that holds one stands in backquotes)";
  return {errc::invalid_argument, "invalid connection string \"" + what_may_be_shown(text) + "\": " + std::move(cause) +
                                      "; write for example redis://127.0.0.1:6379/0"};
}

std::vector<std::string_view> split(std::string_view text, char by) {
  std::vector<std::string_view> out;
  for (std::size_t from = 0; from <= text.size();) {
    const auto to = std::min(text.find(by, from), text.size());
    out.push_back(text.substr(from, to - from));
    from = to + 1;
  }
  return out;
}

std::optional<std::string> percent_decoded(std::string_view text) {
  const auto hex = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
  };
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    if (i + 2 >= text.size() || hex(text[i + 1]) < 0 || hex(text[i + 2]) < 0) return std::nullopt;
    out += static_cast<char>(hex(text[i + 1]) * 16 + hex(text[i + 2]));
    i += 2;
  }
  return out;
}

/// "" or why it is none.
std::string add_host(redis_address& to, std::string_view text, std::uint16_t default_port) {
  std::string_view host = text, port;
  if (text.starts_with('[')) {
    const auto end = text.find(']');
    if (end == std::string_view::npos) return "a host without its \"]\"";
    host = text.substr(1, end - 1);
    if (const auto rest = text.substr(end + 1); rest.starts_with(':'))
      port = rest.substr(1);
    else if (!rest.empty())
      return "text behind the \"]\" of a host";
  } else if (const auto colon = text.rfind(':'); colon != std::string_view::npos) {
    host = text.substr(0, colon);
    port = text.substr(colon + 1);
    if (host.find(':') != std::string_view::npos) return "an IPv6 address needs brackets: [::1]:6379";
    if (port.empty()) return "no port behind the \":\"";
  }
  for (const auto c : host)
    if (!std::isalnum(static_cast<unsigned char>(c)) && std::string_view("-._:%").find(c) == std::string_view::npos)
      return "a host name holds letters, digits, - . and _";
  auto number = std::optional<std::int64_t>(default_port);
  if (!port.empty()) number = parse_integer(port);
  if (!number || *number < 1 || *number > 65'535) return "a port is a number from 1 to 65535";
  to.hosts.emplace_back(host.empty() ? "127.0.0.1" : std::string(host), static_cast<std::uint16_t>(*number));
  return {};
}

std::string set_db(redis_address& to, std::string_view text) {
  const auto number = parse_integer(text);
  if (!number || *number < 0 || *number > most_db) return "the database is a number from 0 to 65535";
  to.db = static_cast<unsigned>(*number);
  return {};
}

std::string set_option(redis_address& to, std::string_view given, std::string value) {
  const auto name = lower(given);
  if (name == "db" || name == "database") return set_db(to, value);
  if (name == "master_name" || name == "mastername")
    to.master_name = std::move(value);
  else if (name == "username")
    to.username = std::move(value);
  else if (name == "password")
    to.password = std::move(value);
  else if (std::find(known_options.begin(), known_options.end(), name) == known_options.end()) {
    const auto near = nearest(name, known_options);
    // The name is shown only when it is nearly a known one: else it may be a piece of a password.
    return near.empty() ? "an unknown option"
                        : "unknown option \"" + name + "\", did you mean " + std::string(near) + "?";
  } else
    to.options.emplace_back(name, std::move(value));
  return {};
}

expected<redis_address> finish(std::string_view text, redis_address out) {
  if (out.kind == redis_kind::sentinel && out.master_name.empty())
    return refuse(text, "no name of the master; add ?master_name=NAME");
  if (out.kind == redis_kind::cluster && out.db != 0) return refuse(text, "a cluster has only database 0");
  return out;
}

expected<redis_address> parse_words(std::string_view text) {
  redis_address out;
  auto seen_host = false;
  auto is_unix = false;
  std::string_view hosts;
  for (auto word : split(text, ' ')) {
    word = trim(word);
    if (word.empty()) continue;
    const auto equals = word.find('=');
    if (equals == std::string_view::npos) return refuse(text, "neither an address with :// nor words like db=0");
    const auto name = lower(word.substr(0, equals));
    const auto value = word.substr(equals + 1);
    std::string why;
    if (name == "addrs" || name == "addr" || name == "host") {
      hosts = value;
      seen_host = true;
    } else if (name == "network") {
      is_unix = value == "unix";
      if (!is_unix && value != "tcp") why = "network is tcp or unix";
    } else {
      why = set_option(out, name, std::string(value));
    }
    if (!why.empty()) return refuse(text, why);
  }
  if (!seen_host) return refuse(text, "no addrs=HOST:PORT in it");
  if (is_unix) {
    out.kind = redis_kind::unix_socket;
    out.socket_path = hosts;
    if (!hosts.starts_with('/')) return refuse(text, "the path of the socket starts with /");
    return out;
  }
  if (!out.master_name.empty()) out.kind = redis_kind::sentinel;
  for (const auto host : split(hosts, ','))
    if (const auto why = add_host(out, host, out.kind == redis_kind::sentinel ? sentinel_port : redis_port);
        !why.empty())
      return refuse(text, why);
  if (out.kind == redis_kind::single && out.hosts.size() > 1) out.kind = redis_kind::cluster;
  return finish(text, std::move(out));
}

std::string read_credentials(redis_address& to, std::string_view text) {
  const auto colon = text.find(':');
  // redis://secret@host: one word is a password for redis-cli and a user for others. Ask for a clear one.
  if (colon == std::string_view::npos) return "write :PASSWORD@ or USER:PASSWORD@";
  const auto user = percent_decoded(text.substr(0, colon));
  const auto password = percent_decoded(text.substr(colon + 1));
  if (!user || !password) return "a % without two hex digits; write % itself as %25";
  to.username = *user;
  to.password = *password;
  return {};
}

std::string read_options(redis_address& to, std::string_view text) {
  for (const auto pair : split(text, '&')) {
    if (pair.empty()) continue;
    const auto equals = pair.find('=');
    const auto value = equals == std::string_view::npos ? std::string_view() : pair.substr(equals + 1);
    const auto decoded = percent_decoded(value);
    if (!decoded) return "a % without two hex digits; write % itself as %25";
    if (auto why = set_option(to, pair.substr(0, equals), *decoded); !why.empty()) return why;
  }
  return {};
}

std::string read_path(redis_address& to, std::string_view path) {
  while (path.ends_with('/')) path.remove_suffix(1);
  if (path.starts_with('/')) path.remove_prefix(1);
  if (path.empty()) return {};
  if (to.kind == redis_kind::sentinel) {
    const auto slash = path.find('/');
    const auto head = path.substr(0, slash);
    if (slash == std::string_view::npos && parse_integer(head)) return set_db(to, head);
    to.master_name = head;
    return slash == std::string_view::npos ? std::string() : set_db(to, path.substr(slash + 1));
  }
  return set_db(to, path);
}

}  // namespace

expected<redis_address> parse_redis_address(std::string_view text) {
  text = trim(text);
  if (text.empty()) return refuse(text, "it is empty");
  for (const auto c : text)
    if (static_cast<unsigned char>(c) < 0x20) return refuse(text, "a control character in it");
  const auto colon = text.find("://");
  if (colon == std::string_view::npos || text.substr(0, colon).find_first_of("= ") != std::string_view::npos)
    return parse_words(text);

  const auto name = lower(text.substr(0, colon));
  const auto known = std::find_if(schemes.begin(), schemes.end(), [&](const scheme& s) { return s.name == name; });
  if (known == schemes.end())
    return refuse(text, "unknown scheme; it is redis, rediss, unix, redis-sentinel or redis-cluster");
  redis_address out;
  out.kind = known->kind;
  out.tls = known->tls;
  auto rest = text.substr(colon + 3);
  if (rest.find(' ') != std::string_view::npos) return refuse(text, "a blank in it; write it as %20");
  std::string why;
  if (const auto hash = rest.find('#'); hash != std::string_view::npos)
    return refuse(text, "a # in it; write it as %23");
  if (const auto question = rest.find('?'); question != std::string_view::npos) {
    why = read_options(out, rest.substr(question + 1));
    if (!why.empty()) return refuse(text, why);
    rest = rest.substr(0, question);
  }
  if (const auto at = rest.rfind('@'); at != std::string_view::npos) {
    why = read_credentials(out, rest.substr(0, at));
    if (!why.empty()) return refuse(text, why);
    rest = rest.substr(at + 1);
  }
  const auto slash = std::min(rest.find('/'), rest.size());
  if (out.kind == redis_kind::unix_socket) {
    const auto path = percent_decoded(rest);
    if (slash != 0 || rest.size() < 2 || !path)
      return refuse(text, "the path of the socket starts with /: unix:///run/redis.sock");
    out.socket_path = *path;
    return out;
  }
  const auto default_port = out.kind == redis_kind::sentinel ? sentinel_port : redis_port;
  for (const auto host : split(rest.substr(0, slash), ',')) {
    why = add_host(out, host, default_port);
    if (!why.empty()) return refuse(text, why);
  }
  if (why = read_path(out, rest.substr(slash)); !why.empty()) return refuse(text, why);
  if (out.kind == redis_kind::single && out.hosts.size() > 1) out.kind = redis_kind::cluster;
  return finish(text, std::move(out));
}

expected<std::vector<redis_address>> parse_redis_addresses(std::string_view text) {
  constexpr std::string_view between = " ,";
  const auto begins = [](std::string_view rest) {
    const auto name = lower(rest.substr(0, std::min(rest.find("://"), rest.size())));
    return name.size() < rest.size() &&
           std::any_of(schemes.begin(), schemes.end(), [&](const scheme& s) { return s.name == name; });
  };
  std::vector<redis_address> out;
  text = trim(text);
  do {
    auto end = text.find_first_of(between);
    auto next = end;
    while (end != std::string_view::npos) {
      next = text.find_first_not_of(between, end);
      if (next == std::string_view::npos || begins(text.substr(next))) break;
      end = text.find_first_of(between, next);
    }
    auto one = parse_redis_address(text.substr(0, end));
    if (!one) return one.failure();
    for (const auto& other : out)
      if (storage_key(other) == storage_key(*one))
        return refuse(text.substr(0, end), "it is named twice; every server has one vote");
    out.push_back(std::move(*one));
    text = end == std::string_view::npos || next == std::string_view::npos ? std::string_view() : text.substr(next);
  } while (!text.empty());
  return out;
}

std::string storage_key(const redis_address& address) {
  if (address.kind == redis_kind::unix_socket) return "unix:" + address.socket_path + "/" + std::to_string(address.db);
  std::vector<std::string> hosts;
  for (const auto& [host, port] : address.hosts)
    hosts.push_back((lower(host) == "localhost" ? "127.0.0.1" : lower(host)) + ":" + std::to_string(port));
  std::sort(hosts.begin(), hosts.end());
  std::string out = address.master_name + "@";
  for (const auto& host : hosts) out += host + ",";
  return out + "/" + std::to_string(address.db);
}

std::string mask_secrets(std::string_view text) {
  constexpr std::string_view hidden = "***";
  std::string out(text);
  // What stands between "://" and the last @ of that word, behind its first ":". Without a ":" all of it: nobody knows
  // whether that is a user or a password.
  for (auto from = out.find("://"); from != std::string::npos; from = out.find("://", from)) {
    from += 3;
    const auto end = std::min(out.find_first_of(" \t\n\"'", from), out.size());
    const auto at = std::string_view(out).substr(0, end).rfind('@');
    if (at == std::string::npos || at < from) {
      // "://:" begins a password; without its @ it was cut off, as by a # that begins a comment.
      if (from < end && out[from] == ':') out.replace(from + 1, end - from - 1, hidden);
      continue;
    }
    const auto colon = out.find(':', from);
    const auto start = colon < at ? colon + 1 : from;
    if (start < at) {
      out.replace(start, at - start, hidden);
      from = start + hidden.size();
    }
  }
  for (const std::string_view name : {"password=", "passwd=", "pwd=", "token=", "secret=", "api_key=", "apikey="}) {
    auto folded = lower(out);
    for (auto from = folded.find(name); from != std::string::npos; from = folded.find(name, from)) {
      from += name.size();
      const auto end = std::min(out.find_first_of(" \t\n&\"'", from), out.size());
      out.replace(from, end - from, hidden);
      folded = lower(out);
    }
  }
  return out;
}

}  // namespace caravan::config
