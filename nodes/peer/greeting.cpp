#include "nodes/peer/greeting.hpp"

#include <algorithm>
#include <charconv>

namespace caravan {

namespace {

constexpr std::string_view magic = "caravan-node";
constexpr std::string_view refused = "caravan-refused ";
constexpr std::size_t longest_word = 200;

bool plain(char c) { return c > ' ' && c != 0x7f; }

std::string word(std::string_view text) {
  std::string out(text.substr(0, longest_word));
  for (auto& c : out)
    if (!plain(c)) c = '_';
  return out.empty() ? "_" : out;
}

/// Takes what stands before the next blank; empty when there is none.
std::string_view next(std::string_view& rest) {
  const auto blank = rest.find(' ');
  const auto found = rest.substr(0, blank);
  rest = blank == std::string_view::npos ? std::string_view{} : rest.substr(blank + 1);
  return found;
}

std::string joined(const std::vector<std::string>& names) {
  std::string out;
  for (const auto& n : names) out += (out.empty() ? "" : ", ") + n;
  return out;
}

}  // namespace

std::string greeting_line(const peer_greeting& g) {
  return std::string(magic) + ' ' + std::to_string(g.protocol) + ' ' + word(g.name) + ' ' + word(g.incarnation) + '\n';
}

expected<peer_greeting> parse_greeting(std::string_view line) {
  const error no_greeting{errc::invalid_argument, "what came is no greeting of a Caravan node"};
  auto rest = line;
  peer_greeting g;
  if (line.size() >= greeting_size || next(rest) != magic) return no_greeting;
  const auto number = next(rest);
  const auto parsed = std::from_chars(number.data(), number.data() + number.size(), g.protocol);
  if (number.empty() || parsed.ec != std::errc() || parsed.ptr != number.data() + number.size()) return no_greeting;
  g.name = next(rest);
  g.incarnation = next(rest);
  const auto good = [](const std::string& w) {
    return !w.empty() && w.size() <= longest_word && std::all_of(w.begin(), w.end(), plain);
  };
  // A later version may say more behind these.
  if (!good(g.name) || !good(g.incarnation)) return no_greeting;
  return g;
}

std::string refusal_line(std::string_view why) {
  std::string text(why.substr(0, greeting_size - refused.size() - 2));
  for (auto& c : text)
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  return std::string(refused) + text + '\n';
}

expected<peer_greeting> parse_answer(std::string_view line) {
  if (line.starts_with(refused)) return error{errc::forbidden, "refused: " + std::string(line.substr(refused.size()))};
  return parse_greeting(line);
}

expected<void> check_peer(const peer_rules& rules, const peer_greeting& g,
                          const std::vector<std::string>& in_certificate) {
  if (g.protocol != rules.protocol)
    return error{errc::not_supported, "node \"" + g.name + "\" speaks protocol " + std::to_string(g.protocol) +
                                          ", this node " + std::to_string(rules.protocol) +
                                          "; run the same version on both"};
  if (!rules.nodes.empty() && std::find(rules.nodes.begin(), rules.nodes.end(), g.name) == rules.nodes.end())
    return error{errc::forbidden, "node \"" + g.name + "\" is not among [cluster] NODES; add it there if it may join"};
  if (rules.certificates && std::find(in_certificate.begin(), in_certificate.end(), g.name) == in_certificate.end())
    return error{errc::forbidden, "the certificate of node \"" + g.name + "\" is made out to " +
                                      (in_certificate.empty() ? "nobody" : joined(in_certificate)) +
                                      "; its common name or a DNS name must be the node's NAME"};
  return {};
}

}  // namespace caravan
