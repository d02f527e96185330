#include "nodes/http/server/gate.hpp"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>

namespace caravan::http {

namespace {

std::array<unsigned char, 32> hash_of(std::string_view text) {
  std::array<unsigned char, 32> out{};
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), out.data());
  return out;
}

bool is_safe(std::string_view method) { return method == "GET" || method == "HEAD"; }

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

std::string_view cookie_value(std::string_view cookies, std::string_view name) {
  while (!cookies.empty()) {
    const auto end = std::min(cookies.find(';'), cookies.size());
    const auto pair = trimmed(cookies.substr(0, end));
    if (pair.size() > name.size() && pair.starts_with(name) && pair[name.size()] == '=')
      return pair.substr(name.size() + 1);
    cookies.remove_prefix(std::min(end + 1, cookies.size()));
  }
  return {};
}

std::string_view without_port(std::string_view host) {
  if (host.starts_with('[')) return host.substr(0, std::min(host.find(']'), host.size() - 1) + 1);
  return host.substr(0, host.find(':'));
}

}  // namespace

gate::gate(const options& settings) : cookie_(settings.token_cookie), hosts_(settings.allowed_hosts) {
  for (const auto& grant : settings.tokens) entries_.push_back({hash_of(grant.token), grant.granted});
}

role_set gate::look_up(std::string_view token) const {
  // Hashes have one length and all entries are always compared, so the time tells nothing about any token.
  const auto hash = hash_of(token);
  role_set found;
  for (const auto& e : entries_)
    if (CRYPTO_memcmp(e.hash.data(), hash.data(), hash.size()) == 0) found.add(e.granted);
  return found;
}

role_set gate::granted(std::string_view method, const fields& headers) const {
  role_set all;
  if (entries_.empty()) {
    all.add(role::admin);
    return all;
  }
  if (const auto given = headers.find_any_case("Authorization")) {
    constexpr std::string_view scheme = "Bearer ";
    if (given->size() < scheme.size() || !equal_any_case(given->substr(0, scheme.size()), scheme)) return {};
    return look_up(trimmed(given->substr(scheme.size())));
  }
  if (!cookie_.empty() && is_safe(method))
    if (const auto cookies = headers.find_any_case("Cookie"))
      if (const auto token = cookie_value(*cookies, cookie_); !token.empty()) return look_up(token);
  return {};
}

std::optional<response> gate::refusal(role needed, role_set granted, bool had_token) const {
  if (granted.allows(needed)) return std::nullopt;
  if (granted.empty())
    return problem({errc::unauthorized, had_token ? "the token is not known here: send another one"
                                                  : "send \"Authorization: Bearer TOKEN\" with a token of this node"});
  return problem({errc::forbidden, "this call needs a token with the role " + std::string{to_string(needed)}});
}

std::optional<response> gate::refuse_origin(std::string_view method, const fields& headers) const {
  if (!hosts_.empty()) {
    const auto host = without_port(headers.find_any_case("Host").value_or(""));
    if (std::none_of(hosts_.begin(), hosts_.end(), [host](const auto& h) { return equal_any_case(h, host); }))
      return problem(421, "misdirected", "this node does not answer to that host name");
  }
  // Browsers say where a call comes from. A page elsewhere could otherwise drive a node through its visitor's browser;
  // it cannot know a token, so calls that carry one are meant.
  if (!is_safe(method) && !has_token(headers) && headers.find_any_case("Sec-Fetch-Site").value_or("") == "cross-site")
    return problem({errc::forbidden, "a page of another site may not change anything here"});
  return std::nullopt;
}

}  // namespace caravan::http
