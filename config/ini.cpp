#include "config/ini.hpp"

#include "config/values.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>

namespace caravan::config {

namespace {

constexpr std::string_view blanks = " \t\r\n\v\f";
constexpr std::uintmax_t most_file_bytes = 16u << 20;

bool starts_comment(std::string_view text) { return !text.empty() && (text[0] == '#' || text[0] == ';'); }

/// go-ini's rule: the quotes at both ends are the only ones of their kind.
bool is_quoted(std::string_view text, char quote) {
  return text.size() >= 2 && text[0] == quote && text.find(quote, 1) == text.size() - 1;
}

class parser {
public:
  parser(std::string_view text, std::string_view file) : text_(text), file_(file) {}

  parsed_ini run() {
    if (text_.starts_with("\xff\xfe") || text_.starts_with("\xfe\xff")) {
      line_ = 1;
      complain(severity::error, "this file is UTF-16", "save it as UTF-8");
      return std::move(result_);
    }
    if (text_.starts_with("\xef\xbb\xbf")) text_.remove_prefix(3);
    while (const auto line = next_line()) read_line(*line);
    return std::move(result_);
  }

private:
  std::optional<std::string_view> next_line() {
    if (at_ >= text_.size()) return std::nullopt;
    const auto end = std::min(text_.find('\n', at_), text_.size());
    auto line = text_.substr(at_, end - at_);
    at_ = end + 1;
    ++line_;
    // All of them: else a value over several lines would change when it is printed and read again.
    while (line.ends_with('\r')) line.remove_suffix(1);
    return line;
  }

  void read_line(std::string_view raw) {
    const auto line = trim(raw);
    if (line.empty() || starts_comment(line)) return;
    if (line.find('\0') != std::string_view::npos)
      return complain(severity::error, "a NUL byte in this line", "is this really a text file? Remove the byte");
    if (line[0] == '[') return read_header(line);
    // Not `line`: the blanks at the end belong to a quoted value over several lines.
    auto rest = raw.substr(raw.find_first_not_of(blanks));
    std::string key;
    if (!read_key(rest, key)) return;
    const auto first = line_;
    if (auto value = read_value(rest, key)) {
      auto& where = result_.content.open_section(section_, {std::string(file_), first, {}});
      if (const auto at = where.index.find(key); at != where.index.end()) {
        const auto& before = where.entries[at->second].where;
        warn_at(first, thing(key), "set before in line " + std::to_string(before.line) + ", this one counts",
                "remove one of them");
      }
      result_.content.set(section_, key, std::move(*value), {std::string(file_), first, {}});
    }
  }

  void read_header(std::string_view line) {
    const auto end = line.find(']');
    if (end == std::string_view::npos)
      return complain(severity::error, "a section without its \"]\"",
                      "write [NAME]; what follows was read as part of " + shown_section());
    const auto name = trim(line.substr(1, end - 1));
    if (name.empty()) return complain(severity::error, "a section without a name", "write [NAME]");
    const auto rest = trim(line.substr(end + 1));
    if (!rest.empty() && !starts_comment(rest))
      return complain(severity::error, "text behind the \"]\" of a section", "put it into a line of its own");
    section_ = name == "DEFAULT" ? std::string() : std::string(name);
    result_.content.open_section(section_, {std::string(file_), line_, {}});
  }

  /// Leaves in `rest` what stands behind the delimiter.
  bool read_key(std::string_view& rest, std::string& key) {
    std::string_view quote;
    for (const auto candidate : {std::string_view("\"\"\""), std::string_view("\""), std::string_view("`")})
      if (rest.starts_with(candidate)) {
        quote = candidate;
        break;
      }
    std::size_t end = 0;
    if (quote.empty()) {
      end = rest.find_first_of("=:");
      if (end == std::string_view::npos) return no_delimiter();
      key = trim(rest.substr(0, end));
    } else {
      const auto close = rest.find(quote, quote.size());
      if (close == std::string_view::npos) {
        complain(severity::error, "a key without its closing quote", "write KEY = value");
        return false;
      }
      key = trim(rest.substr(quote.size(), close - quote.size()));
      end = rest.find_first_not_of(blanks, close + quote.size());
      if (end == std::string_view::npos || (rest[end] != '=' && rest[end] != ':')) return no_delimiter();
    }
    if (key.empty()) {
      complain(severity::error, "no key in front of the \"" + std::string(1, rest[end]) + "\"", "write KEY = value");
      return false;
    }
    rest.remove_prefix(end + 1);
    return true;
  }

  bool no_delimiter() {
    // The line itself is not shown: it may be the second half of a secret.
    complain(severity::error, "no \"=\" in this line", "write KEY = value, or put # in front of a comment");
    return false;
  }

  std::optional<std::string> read_value(std::string_view rest, const std::string& key) {
    const auto start = rest.find_first_not_of(blanks);
    if (start == std::string_view::npos) return std::string();
    const auto raw = rest.substr(start);
    if (raw.starts_with("\"\"\"")) return read_kept(raw.substr(3), "\"\"\"", key);
    if (raw.starts_with("`")) return read_kept(raw.substr(1), "`", key);

    auto value = trim(raw);
    if (const auto cut = value.find_first_of("#;"); cut != std::string_view::npos) {
      const auto mark = value[cut];
      value = trim(value.substr(0, cut));
      if (!value.empty() && (value[0] == '"' || value[0] == '\'') && !is_quoted(value, value[0]))
        warn_at(line_, thing(key), std::string("cut at the first ") + mark + ", inside the quotes",
                "write it in backquotes: " + key + " = `...`");
    }
    if (is_quoted(value, '"') || is_quoted(value, '\'')) value = value.substr(1, value.size() - 2);
    return std::string(value);
  }

  /// A value in quotes that keep everything. `rest` is the line behind the opening quote.
  std::optional<std::string> read_kept(std::string_view rest, std::string_view quote, const std::string& key) {
    const auto opened = line_;
    const auto resume = at_;
    std::string value;
    for (auto line = rest;;) {
      if (line.find('\0') != std::string_view::npos) {
        complain(severity::error, "a NUL byte in this line", "is this really a text file? Remove the byte");
        return std::nullopt;
      }
      if (const auto close = line.rfind(quote); close != std::string_view::npos) {
        value += line.substr(0, close);
        const auto behind = trim(line.substr(close + quote.size()));
        if (!behind.empty() && !starts_comment(behind))
          warn_at(line_, thing(key), "text behind the closing quote is ignored", "remove it, or put # in front of it");
        if (value.find(quote) != std::string::npos)
          warn_at(line_, thing(key), "the value goes on to the last " + std::string(quote) + " of this line",
                  "move a comment that holds one to a line of its own");
        return value;
      }
      value += line;
      value += '\n';
      const auto next = next_line();
      if (!next) break;
      line = *next;
    }
    // What follows is read as usual, so that one forgotten quote does not hide the other mistakes.
    line_ = opened;
    at_ = resume;
    result_.found.push_back({severity::error,
                             {std::string(file_), opened, {}},
                             thing(key),
                             "the closing " + std::string(quote) + " is missing",
                             "close the value"});
    return std::nullopt;
  }

  [[nodiscard]] std::string thing(const std::string& key) const { return "[" + section_ + "] " + key; }
  [[nodiscard]] std::string shown_section() const { return section_.empty() ? "no section" : "[" + section_ + "]"; }

  void complain(severity level, std::string cause, std::string remedy) {
    result_.found.push_back({level, {std::string(file_), line_, {}}, {}, std::move(cause), std::move(remedy)});
  }
  void warn_at(std::size_t line, std::string what, std::string cause, std::string remedy) {
    result_.found.push_back(
        {severity::warning, {std::string(file_), line, {}}, std::move(what), std::move(cause), std::move(remedy)});
  }

  std::string_view text_;
  std::string_view file_;
  std::size_t at_ = 0;
  std::size_t line_ = 0;
  std::string section_;
  parsed_ini result_;
};

bool is_plain_key(std::string_view key) {
  // Beyond ASCII: at the start of a text it could be taken for a byte order mark.
  return key.find_first_of("=:\r") == std::string_view::npos && static_cast<unsigned char>(key[0]) < 0x80 &&
         std::string_view("[#;\"`").find(key[0]) == std::string_view::npos;
}

std::string key_text(const std::string& key) {
  if (is_plain_key(key)) return key;
  for (const auto* quote : {"\"", "`"})
    if (key.find(quote) == std::string::npos) return quote + key + quote;
  // The blank keeps a " at the end of the key from being taken for a part of the closing quote.
  return "\"\"\"" + key + " \"\"\"";
}

std::optional<std::string> value_text(const std::string& value) {
  if (value.empty()) return "";
  const auto one_line = value.find('\n') == std::string::npos;
  if (one_line && trim(value) == value && value.find_first_of("#;`\"'") == std::string::npos) return value;
  if (one_line) return "`" + value + "`";  // read up to the last ` of the line, so those inside do no harm
  const auto last_line = value.rfind('\n');
  for (const std::string quote : {"`", "\"\"\""})
    if (const auto at = value.find(quote); at == std::string::npos || at > last_line)
      if (value.find("\r\n") == std::string::npos) return quote + value + quote;
  return std::nullopt;
}

}  // namespace

ini::ini() { open_section("", {}); }

section& ini::open_section(std::string_view name, origin where) {
  auto at = index_.find(name);
  if (at == index_.end()) {
    at = index_.emplace(std::string(name), sections_.size()).first;
    sections_.push_back({std::string(name), std::move(where), {}, {}});
  }
  return sections_[at->second];
}

bool ini::set(std::string_view name, std::string_view key, std::string value, origin where) {
  auto& to = open_section(name, where);
  const auto at = to.index.find(key);
  if (at == to.index.end()) {
    to.index.emplace(std::string(key), to.entries.size());
    to.entries.push_back({std::string(key), std::move(value), std::move(where)});
    return true;
  }
  auto& there = to.entries[at->second];
  const auto changed = there.value != value;
  there.value = std::move(value);
  there.where = std::move(where);
  return changed;
}

const section* ini::find_section(std::string_view name) const {
  const auto at = index_.find(name);
  return at == index_.end() ? nullptr : &sections_[at->second];
}

const entry* ini::find(std::string_view name, std::string_view key, lookup how) const {
  for (;;) {
    if (const auto* here = find_section(name))
      if (const auto at = here->index.find(key); at != here->index.end()) return &here->entries[at->second];
    const auto dot = name.rfind('.');
    if (how == lookup::strict || dot == std::string_view::npos) return nullptr;
    name = name.substr(0, dot);
  }
}

located ini::locate(std::string_view name, std::string_view key) const {
  for (;;) {
    if (const auto* found = find(name, key, lookup::strict); found && !found->value.empty())
      return {found, find_section(name)->name};
    const auto dot = name.rfind('.');
    if (dot == std::string_view::npos) return {};
    name = name.substr(0, dot);
  }
}

std::string ini::get(std::string_view name, std::string_view key, std::string_view fallback, lookup how) const {
  const auto* found = find(name, key, how);
  return std::string(found && !found->value.empty() ? std::string_view(found->value) : fallback);
}

std::chrono::nanoseconds ini::get_duration(std::string_view name, std::string_view key,
                                           std::chrono::nanoseconds fallback, lookup how) const {
  const auto* found = find(name, key, how);
  return found ? parse_duration(found->value).value_or(fallback) : fallback;
}

parsed_ini parse_ini(std::string_view text, std::string_view file) { return parser(text, file).run(); }

expected<parsed_ini> read_ini_file(const std::filesystem::path& path) {
  const auto name = path.string();
  std::error_code failed;
  const auto status = std::filesystem::status(path, failed);
  if (!std::filesystem::exists(status))
    return {errc::not_found, "configuration file \"" + name + "\": there is no such file; name it with --config"};
  if (std::filesystem::is_directory(status))
    return {errc::invalid_argument, "configuration file \"" + name + "\": this is a directory; name the file in it"};
  std::ifstream in(path, std::ios::binary);
  std::string text;
  // Read in pieces, not by its size: it may be a pipe, which has none.
  for (char piece[65536]; in.read(piece, sizeof piece) || in.gcount() > 0;) {
    text.append(piece, static_cast<std::size_t>(in.gcount()));
    if (text.size() > most_file_bytes)
      return {errc::too_large, "configuration file \"" + name + "\": over 16 MiB; is it the right file?"};
  }
  if (!in.eof())
    return {errc::invalid_argument, "configuration file \"" + name + "\": it cannot be read; check its permissions"};
  return parse_ini(text, name);
}

std::string to_text(const ini& content) {
  std::string out;
  for (const auto& s : content.sections()) {
    if (!s.name.empty()) out += (out.empty() ? "[" : "\n[") + s.name + "]\n";
    for (const auto& e : s.entries) {
      if (const auto value = value_text(e.value))
        out += key_text(e.key) + " =" + (value->empty() ? "" : " ") + *value + "\n";
      else
        out += "; " + e.key + ": no INI text can hold this value\n";
    }
  }
  return out;
}

bool same_content(const ini& a, const ini& b) {
  return std::equal(a.sections().begin(), a.sections().end(), b.sections().begin(), b.sections().end(),
                    [](const section& x, const section& y) {
                      return x.name == y.name && std::equal(x.entries.begin(), x.entries.end(), y.entries.begin(),
                                                            y.entries.end(), [](const entry& l, const entry& r) {
                                                              return l.key == r.key && l.value == r.value;
                                                            });
                    });
}

}  // namespace caravan::config
