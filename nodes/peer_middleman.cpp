#include "nodes/peer_middleman.hpp"

#include "nodes/foreign_thread.hpp"

#include <caf/all.hpp>
#include <caf/io/all.hpp>
#include <caf/io/basp_broker.hpp>
#include <caf/io/middleman_actor_impl.hpp>
#include <caf/io/network/acceptor_impl.hpp>
#include <caf/io/network/default_multiplexer.hpp>

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <mutex>

namespace caravan {

using namespace std::chrono_literals;

namespace {

constexpr auto dial_timeout = 3s;

/// Where the door's thread leaves descriptors for CAF's. Both hold it, so the reading end never sees an end of file,
/// which would keep CAF's thread busy.
class hand_over {
public:
  hand_over() {
    if (::socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends_) != 0)
      throw exception({errc::backend_failed, std::string("no socket pair: ") + std::strerror(errno)});
  }
  ~hand_over() {
    while (const int left = take()) {
      if (left < 0) break;
      ::close(left);
    }
    ::close(ends_[0]);
    ::close(ends_[1]);
  }
  hand_over(const hand_over&) = delete;
  hand_over& operator=(const hand_over&) = delete;

  /// Takes `fd`; closes it when hundreds wait already.
  void give(int fd) const {
    if (::send(ends_[1], &fd, sizeof fd, MSG_DONTWAIT | MSG_NOSIGNAL) != sizeof fd) ::close(fd);
  }
  [[nodiscard]] int take() const {
    int fd = -1;
    return ::recv(ends_[0], &fd, sizeof fd, MSG_DONTWAIT) == sizeof fd ? fd : -1;
  }
  /// For CAF, which closes what it watches.
  [[nodiscard]] int watched() const { return ::dup(ends_[0]); }

private:
  int ends_[2];
};

struct handed {
  std::shared_ptr<hand_over> from;
  bool try_accept(caf::io::network::native_socket& result, caf::io::network::native_socket) const {
    result = from->take();
    return result >= 0;
  }
};

/// Stands where CAF would listen.
class passed_nodes final : public caf::io::doorman {
public:
  passed_nodes(caf::io::network::default_multiplexer& mx, int fd, std::shared_ptr<hand_over> from, std::string host,
               std::uint16_t port)
      : doorman(caf::io::network::accept_hdl_from_socket(fd)),
        acceptor_(mx, fd, handed{std::move(from)}),
        host_(std::move(host)),
        port_(port) {}

  bool new_connection() override {
    if (detached()) return false;
    auto& backend = acceptor_.backend();
    auto connection = backend.new_scribe(acceptor_.accepted_socket());
    const auto handle = connection->hdl();
    parent()->add_scribe(std::move(connection));
    return doorman::new_connection(&backend, handle);
  }
  void graceful_shutdown() override {
    acceptor_.graceful_shutdown();
    detach(&acceptor_.backend(), false);
  }
  void launch() override { acceptor_.start(this); }
  std::string addr() const override { return host_; }
  std::uint16_t port() const override { return port_; }
  void add_to_loop() override { acceptor_.activate(this); }
  void remove_from_loop() override { acceptor_.passivate(); }

private:
  caf::io::network::acceptor_impl<handed> acceptor_;
  const std::string host_;
  const std::uint16_t port_;
};

}  // namespace

struct peer_middleman::shared {
  std::shared_ptr<hand_over> arrivals = std::make_shared<hand_over>();
  std::string host;
  std::unique_ptr<peer_door> door;
  std::mutex mutex;
  std::map<std::pair<std::string, std::uint16_t>, std::string> troubles;

  class manager;
};

/// CAF's own, with other connections. Detached: a dial blocks, for dial_timeout at most.
class peer_middleman::shared::manager final : public caf::io::middleman_actor_impl {
public:
  manager(caf::actor_config& config, caf::actor broker, std::shared_ptr<shared> links)
      : middleman_actor_impl(config, std::move(broker)), links_(std::move(links)) {}

protected:
  caf::expected<caf::io::scribe_ptr> connect(const std::string& host, std::uint16_t port) override {
    auto got = links_->door->dial(host, port, dial_timeout);
    {
      const std::lock_guard lock(links_->mutex);
      if (got)
        links_->troubles.erase({host, port});
      else
        links_->troubles[{host, port}] = got.failure().text;
    }
    if (!got) return caf::make_error(caf::sec::cannot_connect_to_node);
    return backend().new_scribe(got->fd);
  }
  caf::expected<caf::io::doorman_ptr> open(std::uint16_t port, const char*, bool) override {
    auto& mx = dynamic_cast<caf::io::network::default_multiplexer&>(backend());
    const int fd = links_->arrivals->watched();
    if (fd < 0) return caf::make_error(caf::sec::cannot_open_port);
    return caf::io::doorman_ptr(caf::make_counted<passed_nodes>(mx, fd, links_->arrivals, links_->host, port).get());
  }

private:
  caf::io::network::multiplexer& backend() { return system().middleman().backend(); }

  std::shared_ptr<shared> links_;
};

peer_middleman::peer_middleman(caf::actor_system& system, peer_door::options o) : shared_(std::make_shared<shared>()) {
  shared_->host = o.host;
  o.passed = [arrivals = shared_->arrivals](int fd, const peer_greeting&) { arrivals->give(fd); };
  shared_->door = std::make_unique<peer_door>(std::move(o));
  const foreign_thread here;
  actor_ = system.spawn<shared::manager, caf::detached + caf::hidden>(
      system.middleman().named_broker<caf::io::basp_broker>(caf::atom("BASP")), shared_);
}

peer_middleman::~peer_middleman() {
  const foreign_thread here;
  caf::scoped_actor self{actor_.home_system()};
  self->send_exit(actor_, caf::exit_reason::kill);  // it heeds no other
  self->wait_for(actor_);
  actor_ = nullptr;
  shared_->door.reset();
}

const caf::io::middleman_actor& peer_middleman::actor() const noexcept { return actor_; }
std::uint16_t peer_middleman::port() const noexcept { return shared_->door->port(); }
std::string peer_middleman::trouble(const std::string& host, std::uint16_t port) const {
  const std::lock_guard lock(shared_->mutex);
  const auto it = shared_->troubles.find({host, port});
  return it == shared_->troubles.end() ? "" : it->second;
}

}  // namespace caravan
