#include "nodes/home_book.hpp"

#include <nlohmann/json.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace caravan {

namespace {

using json = nlohmann::ordered_json;

constexpr int format = 1;  // on disk: raise it when an old program could misread a note
constexpr std::size_t moves_kept = 1'000;

std::string to_text(const home_note& n) {
  return json{{"format", format},
              {"node", n.node},
              {"epoch", n.epoch},
              {"move", n.move},
              {"promised", {{"move", n.promised.move}, {"epoch", n.promised.epoch}, {"from", n.promised.from}}}}
             .dump(1) +
         "\n";
}

bool write_synced(const std::string& path, const std::string& text, std::string& why) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) {
    why = std::strerror(errno);
    return false;
  }
  bool ok = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) && ::fsync(fd) == 0;
  if (!ok) why = std::strerror(errno);
  ::close(fd);
  return ok;
}

bool sync_folder(const std::string& path, std::string& why) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool ok = fd >= 0 && ::fsync(fd) == 0;
  if (!ok) why = std::strerror(errno);
  if (fd >= 0) ::close(fd);
  return ok;
}

}  // namespace

expected<home_note> home_book::get(const std::string& queue) const {
  const std::lock_guard lock(mutex_);
  if (const auto it = in_memory_.find(queue); it != in_memory_.end()) return it->second;
  if (folder_.empty()) return home_note{};
  const auto path = path_of(queue);
  std::ifstream in(path);
  if (!in) {
    if (!std::filesystem::exists(path)) return home_note{};
    return error{errc::backend_failed,
                 "queue \"" + queue + "\": " + path + ": cannot be read: " + std::strerror(errno)};
  }
  std::ostringstream text;
  text << in.rdbuf();
  const auto j = json::parse(text.str(), nullptr, false);
  if (!j.is_object() || j.value("format", 0) != format)
    return error{errc::backend_failed, "queue \"" + queue + "\": " + path +
                                           ": is no note of this version about its home; if its data are on this node, "
                                           "remove the file and start again"};
  home_note n;
  n.node = j.value("node", "");
  n.epoch = j.value("epoch", std::uint64_t{0});
  n.move = j.value("move", std::uint64_t{0});
  const auto p = j.value("promised", json::object());
  n.promised = {p.value("move", std::uint64_t{0}), p.value("epoch", std::uint64_t{0}), p.value("from", "")};
  return n;
}

expected<void> home_book::put(const std::string& queue, const home_note& note, bool durable) {
  const std::lock_guard lock(mutex_);
  if (!durable || folder_.empty()) {
    in_memory_[queue] = note;
    return {};
  }
  std::error_code ec;
  std::filesystem::create_directories(folder_, ec);
  const auto path = path_of(queue);
  std::string why = ec ? ec.message() : "";
  if (!ec && write_synced(path + ".new", to_text(note), why)) {
    if (::rename((path + ".new").c_str(), path.c_str()) == 0) {
      if (sync_folder(folder_, why)) return {};
    } else {
      why = std::strerror(errno);
    }
  }
  return error{errc::backend_failed,
               "queue \"" + queue + "\": " + path + ": cannot be written: " + why + "; see to that disk"};
}

move_log::move_log(std::string path) : path_(std::move(path)) {
  if (path_.empty()) return;
  std::ifstream in(path_);
  for (std::string line; std::getline(in, line);) {
    const auto j = json::parse(line, nullptr, false);
    if (!j.is_object()) continue;  // the last line of a crash
    kept_move m;
    m.at = j.value("at", std::int64_t{0});
    m.queue = j.value("queue", "");
    m.from = j.value("from", "");
    m.to = j.value("to", "");
    m.by = j.value("by", "");
    m.moved = j.value("moved", false);
    m.why = j.value("why", "");
    m.items = j.value("items", std::uint64_t{0});
    m.ms = j.value("ms", std::int64_t{0});
    m.frozen_ms = j.value("frozen_ms", std::int64_t{0});
    m.buffered = j.value("buffered", std::uint64_t{0});
    moves_.push_back(std::move(m));
  }
  if (moves_.size() <= moves_kept) return;
  moves_.erase(moves_.begin(), moves_.end() - static_cast<std::ptrdiff_t>(moves_kept));
}

void move_log::add(kept_move m) {
  const std::lock_guard lock(mutex_);
  if (!path_.empty()) {
    std::ofstream out(path_, std::ios::app);
    out << json{{"at", m.at}, {"queue", m.queue},         {"from", m.from},        {"to", m.to},
                {"by", m.by}, {"moved", m.moved},         {"why", m.why},          {"items", m.items},
                {"ms", m.ms}, {"frozen_ms", m.frozen_ms}, {"buffered", m.buffered}}
               .dump(-1, ' ', false, json::error_handler_t::replace)
        << "\n";
  }
  moves_.push_back(std::move(m));
  if (moves_.size() > moves_kept) moves_.erase(moves_.begin());
}

std::vector<kept_move> move_log::last() const {
  const std::lock_guard lock(mutex_);
  return {moves_.rbegin(), moves_.rend()};
}

}  // namespace caravan
