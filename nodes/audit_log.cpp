#include "nodes/audit_log.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace caravan {

namespace {

using json = nlohmann::ordered_json;
using std::chrono::milliseconds;

std::string text_of(const audit_line& l) {
  const json row{{"n", l.number},      {"at_ms", std::chrono::floor<milliseconds>(l.at.time_since_epoch()).count()},
                 {"remote", l.remote}, {"roles", l.roles},
                 {"action", l.action}, {"status", l.status}};
  return row.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

bool read_line(const std::string& text, audit_line& into) {
  const auto row = json::parse(text, nullptr, false);
  if (!row.is_object()) return false;
  try {
    into.number = row.at("n");
    into.at = std::chrono::system_clock::time_point{milliseconds{row.at("at_ms").get<std::int64_t>()}};
    into.remote = row.at("remote");
    into.roles = row.at("roles");
    into.action = row.at("action");
    into.status = row.at("status");
  } catch (const json::exception&) {
    return false;  // a crash cut it off
  }
  return true;
}

}  // namespace

audit_log::audit_log(std::filesystem::path file, std::uintmax_t most_bytes)
    : file_(std::move(file)), most_bytes_(most_bytes) {
  read_back(file_.string() + ".1");
  read_back(file_);
  out_.open(file_, std::ios::app);
  std::error_code ec;
  bytes_ = std::filesystem::file_size(file_, ec);
  if (ec) bytes_ = 0;
  if (torn_) out_ << '\n' << std::flush;
}

void audit_log::read_back(const std::filesystem::path& file) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    torn_ = in.eof();  // no line break ends it
    audit_line l;
    if (!read_line(line, l)) continue;
    next_ = std::max(next_, l.number + 1);
    lines_.push_back(std::move(l));
    if (lines_.size() > remembered) lines_.pop_front();
  }
}

void audit_log::add(audit_line line) {
  const std::lock_guard lock(mutex_);
  line.number = next_++;
  write(line);
  lines_.push_back(std::move(line));
  if (lines_.size() > remembered) lines_.pop_front();
}

void audit_log::write(const audit_line& line) {
  const auto text = text_of(line);
  if (bytes_ + text.size() > most_bytes_) {
    out_.close();
    std::error_code ec;
    std::filesystem::rename(file_, file_.string() + ".1", ec);
    out_.open(file_, std::ios::trunc);
    bytes_ = 0;
  }
  out_.clear();
  out_ << text << std::flush;
  bytes_ += text.size();
}

std::vector<audit_line> audit_log::latest(std::size_t most) const {
  const std::lock_guard lock(mutex_);
  const auto n = std::min(most, lines_.size());
  return {lines_.rbegin(), lines_.rbegin() + static_cast<std::ptrdiff_t>(n)};
}

}  // namespace caravan
