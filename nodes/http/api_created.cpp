#include "nodes/http/api_created.hpp"

#include "config/read_settings.hpp"
#include "nodes/node_runtime.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

namespace caravan::http {

namespace {

std::string file_of(const node_runtime& node) { return node.settings().node.data_dir + "/created-queues"; }

bool outlives_the_node(const node_runtime& node, std::string_view queue) {
  const auto s = config::read_queue_settings(node.configuration(), queue, node.settings().node.data_dir);
  return s && (s->type == config::queue_type::level || s->type == config::queue_type::redis);
}

}  // namespace

void open_created(node_runtime& node) {
  if (!node.settings().node.auto_create) return;
  std::ifstream in(file_of(node));
  for (std::string name; std::getline(in, name);) {
    // A line that a crash cut off names nothing that was answered.
    if (!config::is_valid_name(name) || node.find(name) || !outlives_the_node(node, name)) continue;
    if (const auto opened = node.find_or_create(name); !opened)
      node.log().error("queue", opened.failure().text, {{"queue", name}});
  }
}

void remember_created(node_runtime& node, std::string_view queue) {
  if (!outlives_the_node(node, queue)) return;
  const auto path = file_of(node);
  const auto line = std::string(queue) + "\n";
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  const bool written =
      fd >= 0 && ::write(fd, line.data(), line.size()) == static_cast<ssize_t>(line.size()) && ::fsync(fd) == 0;
  const auto why = errno;
  if (fd >= 0) ::close(fd);
  if (!written)
    node.log().warn("queue",
                    path + " cannot be written: " + std::strerror(why) +
                        "; after a restart this queue shows only when it is pushed to",
                    {{"queue", std::string(queue)}});
}

}  // namespace caravan::http
