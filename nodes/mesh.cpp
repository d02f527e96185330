#include "nodes/mesh.hpp"

#include "messages/caf_error.hpp"
#include "messages/node_actor.hpp"
#include "nodes/foreign_thread.hpp"
#include "nodes/peer_middleman.hpp"

#include <caf/all.hpp>
#include <caf/io/all.hpp>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>

namespace caravan {

using namespace std::chrono_literals;

namespace {

constexpr auto probe_timeout = 500ms;
constexpr auto connect_timeout = 5s;  // a dial has 3 s of its own
constexpr auto ask_timeout = 2s;

struct node_state {
  static inline const char* name = "node";
  node_state() = default;
};

node_actor::behavior_type node_behavior(node_actor::stateful_pointer<node_state>, node_hello me,
                                        std::function<queue_actor(const std::string&)> own_queue) {
  return {
      [me](const node_hello&) { return me; },
      [own_queue](const find_queue& f) {
        return found_queue{caf::actor_cast<caf::strong_actor_ptr>(own_queue(f.name))};
      },
  };
}

/// Empty: somebody listens there.
std::string probe(const std::string& host, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int rc = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found); rc != 0)
    return ::gai_strerror(rc);
  std::string why = "no address";
  for (const auto* a = found; a && !why.empty(); a = a->ai_next) {
    const int fd = ::socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) continue;
    if (::connect(fd, a->ai_addr, a->ai_addrlen) == 0) {
      why.clear();
    } else if (errno == EINPROGRESS) {
      pollfd p{fd, POLLOUT, 0};
      int code = ETIMEDOUT;
      socklen_t size = sizeof code;
      if (::poll(&p, 1, static_cast<int>(std::chrono::milliseconds(probe_timeout).count())) == 1)
        ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &size);
      why = code == 0 ? "" : std::strerror(code);
    } else {
      why = std::strerror(errno);
    }
    ::close(fd);
  }
  ::freeaddrinfo(found);
  return why;
}

}  // namespace

namespace {

std::pair<std::string, std::uint16_t> split_address(const std::string& address) {
  const auto colon = address.rfind(':');
  if (colon == std::string::npos) return {address, 0};
  auto host = address.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  return {host, static_cast<std::uint16_t>(std::strtoul(address.c_str() + colon + 1, nullptr, 10))};
}

}  // namespace

std::string probe_address(const std::string& address) {
  const auto [host, port] = split_address(address);
  if (port == 0) return "the address has no port";
  return probe(host, port);
}

void prepare_mesh(caf::actor_system_config& config) {
  config.load<caf::io::middleman>();
  // Both, and on every node: one alone detects nothing, or cuts healthy links.
  config.set("middleman.heartbeat-interval", caf::timespan{1s});
  config.set("middleman.connection-timeout", caf::timespan{5s});
  config.set("middleman.app-identifiers", std::vector<std::string>{"caravan-" + std::to_string(cluster_protocol)});
}

class mesh::impl {
public:
  impl(caf::actor_system& system, options o) : system_(system), options_(std::move(o)) {
    const foreign_thread here;
    peer_door::options door;
    door.host = options_.host;
    door.port = options_.port;
    door.me = {options_.name, options_.incarnation, cluster_protocol};
    door.nodes = options_.nodes;
    door.tls = options_.tls;
    door.turned_away = options_.turned_away;
    links_ = std::make_unique<peer_middleman>(system_, std::move(door));
    port_ = links_->port();
    node_ = system_.spawn(node_behavior, node_hello{options_.name, options_.incarnation}, options_.own_queue);
    caf::scoped_actor self{system_};
    self->request(links_->actor(), connect_timeout, caf::publish_atom::value, port_,
                  caf::actor_cast<caf::strong_actor_ptr>(node_), system_.message_types(node_), options_.host, true)
        .receive([](std::uint16_t) {},
                 [&](caf::error& e) {
                   caf::anon_send_exit(node_, caf::exit_reason::user_shutdown);
                   throw exception({errc::conflict, "[cluster] ADDR = " + options_.host + ":" + std::to_string(port_) +
                                                        ": " + system_.render(e)});
                 });
    const bool v6 = options_.host.find(':') != std::string::npos;
    address_ = (v6 ? "[" + options_.host + "]" : options_.host) + ":" + std::to_string(port_);
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  }

  ~impl() {
    {
      const std::lock_guard lock(mutex_);
      thread_.request_stop();
    }
    wake_.notify_all();
    thread_.join();
    const foreign_thread here;
    caf::scoped_actor self{system_};
    self->request(links_->actor(), ask_timeout, caf::unpublish_atom::value, caf::actor_cast<caf::actor_addr>(node_),
                  port_)
        .receive([] {}, [](caf::error&) {});
    self->send_exit(node_, caf::exit_reason::user_shutdown);
    self->wait_for(node_);
    node_ = nullptr;
    links_.reset();
  }

  void find(mesh_peer peer, std::string queue, std::chrono::milliseconds delay,
            std::function<void(expected<queue_actor>)> answer) {
    {
      const std::lock_guard lock(mutex_);
      jobs_.emplace(std::chrono::steady_clock::now() + delay,
                    job{std::move(peer), std::move(queue), std::move(answer)});
    }
    wake_.notify_all();
  }

  [[nodiscard]] const std::string& address() const { return address_; }

private:
  struct job {
    mesh_peer peer;
    std::string queue;
    std::function<void(expected<queue_actor>)> answer;
  };

  void run(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      job j;
      {
        std::unique_lock lock(mutex_);
        if (jobs_.empty())
          wake_.wait(lock);
        else
          wake_.wait_until(lock, jobs_.begin()->first);
        if (stop.stop_requested()) return;
        if (jobs_.empty() || std::chrono::steady_clock::now() < jobs_.begin()->first) continue;
        j = std::move(jobs_.begin()->second);
        jobs_.erase(jobs_.begin());
      }
      const foreign_thread here;
      j.answer(look(j));
    }
  }

  error about(const mesh_peer& p, errc code, const std::string& text) const {
    return {code, "node \"" + p.name + "\" at " + p.address + ": " + text};
  }

  expected<queue_actor> look(const job& j) {
    const auto& p = j.peer;
    const auto [host, port] = split_address(p.address);
    if (port == 0) return about(p, errc::invalid_argument, "the address has no port");
    if (auto why = probe(host, port); !why.empty()) return about(p, errc::backend_failed, "cannot be reached: " + why);
    caf::scoped_actor self{system_};
    expected<node_actor> node{errc::backend_failed, ""};
    self->request(links_->actor(), connect_timeout, caf::connect_atom::value, host, port)
        .receive(
            [&](const caf::node_id&, caf::strong_actor_ptr& who, const std::set<std::string>& interfaces) {
              if (!who || !system_.assignable(interfaces, system_.message_types<node_actor>()))
                node = about(p, errc::not_supported, "it is no node of this version");
              else
                node = caf::actor_cast<node_actor>(who);
            },
            [&](caf::error& e) {
              const auto why = links_->trouble(host, port);
              node = about(p, errc::backend_failed, "cannot connect: " + (why.empty() ? system_.render(e) : why));
            });
    if (!node) return node.failure();
    expected<void> known{errc::backend_failed, ""};
    self->request(*node, ask_timeout, node_hello{options_.name, options_.incarnation})
        .receive(
            [&](const node_hello& it) {
              if (it.protocol != cluster_protocol)
                known = about(p, errc::not_supported,
                              "it speaks protocol " + std::to_string(it.protocol) + ", this node " +
                                  std::to_string(cluster_protocol));
              else if (it.incarnation != p.incarnation)
                known = about(p, errc::conflict,
                              "node \"" + it.name + "\" answers there, another start of it or another node");
              else
                known = {};
            },
            [&](caf::error& e) { known = about(p, errc::backend_failed, "does not answer: " + system_.render(e)); });
    if (!known) return known.failure();
    expected<queue_actor> found{errc::backend_failed, ""};
    self->request(*node, ask_timeout, find_queue{j.queue})
        .receive(
            [&](const found_queue& f) {
              if (f.queue)
                found = caf::actor_cast<queue_actor>(f.queue);
              else
                found = about(p, errc::not_found, "does not own queue \"" + j.queue + "\"");
            },
            [&](caf::error& e) { found = about(p, errc::backend_failed, "does not answer: " + system_.render(e)); });
    return found;
  }

  caf::actor_system& system_;
  const options options_;
  std::unique_ptr<peer_middleman> links_;
  node_actor node_;
  std::uint16_t port_ = 0;
  std::string address_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::multimap<std::chrono::steady_clock::time_point, job> jobs_;  ///< by when
  std::jthread thread_;
};

mesh::mesh(caf::actor_system& system, options o) : impl_(std::make_unique<impl>(system, std::move(o))) {}
mesh::~mesh() = default;
const std::string& mesh::address() const noexcept { return impl_->address(); }
void mesh::find(mesh_peer peer, std::string queue, std::chrono::milliseconds delay,
                std::function<void(expected<queue_actor>)> answer) {
  impl_->find(std::move(peer), std::move(queue), delay, std::move(answer));
}

}  // namespace caravan
