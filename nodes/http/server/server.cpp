#include "nodes/http/server/server.hpp"

#include <algorithm>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/ip/v6_only.hpp>

#include "nodes/http/server/engine.hpp"
#include "nodes/http/server/session.hpp"

namespace caravan::http {

namespace {

namespace asio = boost::asio;
using tcp = asio::ip::tcp;
using namespace std::chrono_literals;

constexpr std::size_t refused_at_once = 64;  // connections that may wait for their 503 at one time
constexpr auto accept_pause = 50ms;          // when there are no more file descriptors

std::string place(const options& o) {
  const auto bracket = o.address.find(':') != std::string::npos;
  return (bracket ? "[" + o.address + "]" : o.address) + ":" + std::to_string(o.port);
}

error listen_error(const options& o, const error_code& ec) {
  const auto text = "HTTP: cannot listen on " + place(o) + ": ";
  if (ec == asio::error::address_in_use)
    return {errc::conflict,
            text + "address in use; another program, perhaps another node, listens there: stop it or set another port"};
  if (ec == asio::error::access_denied)
    return {errc::forbidden, text + "permission denied; ports below 1024 need CAP_NET_BIND_SERVICE: set a higher port"};
  if (ec.value() == EADDRNOTAVAIL)
    return {errc::invalid_argument, text + "this machine does not have that address; 0.0.0.0 or :: mean all it has"};
  return {errc::backend_failed, text + ec.message()};
}

asio::ip::address read_address(std::string_view text, error_code& ec) {
  return asio::ip::make_address(text == "localhost" ? std::string{"127.0.0.1"} : std::string{text}, ec);
}

}  // namespace

bool is_loopback(std::string_view address) {
  error_code ec;
  const auto parsed = read_address(address, ec);
  return !ec && parsed.is_loopback();
}

// -- engine
// -------------------------------------------------------------------------------------------------------------

engine::engine(options o)
    : settings(std::move(o)),
      doors(settings),
      shortest_deadline(std::max<std::chrono::milliseconds>(
          1ms, std::min({settings.header_deadline, settings.body_deadline, settings.idle_deadline,
                         settings.write_deadline, settings.heartbeat}))) {}

expected<void> engine::listen() {
  error_code ec;
  const auto address = read_address(settings.address, ec);
  if (ec)
    return {errc::invalid_argument,
            "HTTP: \"" + settings.address + "\" is no IP address; use one of this machine, or localhost"};
  const tcp::endpoint where{address, settings.port};
  acceptor_.emplace(loops_.front()->io);
  acceptor_->open(where.protocol(), ec);
  if (!ec) acceptor_->set_option(tcp::acceptor::reuse_address{true}, ec);
  if (!ec) acceptor_->bind(where, ec);
  if (!ec) acceptor_->listen(asio::socket_base::max_listen_connections, ec);
  if (ec) {
    acceptor_.reset();
    return listen_error(settings, ec);
  }
  port = acceptor_->local_endpoint(ec).port();
  return {};
}

expected<void> engine::start() {
  const std::lock_guard guard{mutex_};
  if (running_ || stopping()) return {errc::conflict, "HTTP: the server was started before"};
  if (settings.tls_certificate.empty() != settings.tls_key.empty())
    return {errc::invalid_argument, "HTTP: TLS needs both a certificate and a key; one of them is not set"};
  if (!settings.tls_certificate.empty()) {
    auto tls = load_tls(settings.tls_certificate, settings.tls_key);
    if (!tls) return tls.failure();
    tls_ = std::move(*tls);
  }
  loops_.clear();
  for (unsigned i = 0; i < std::max(1u, settings.threads); ++i) loops_.push_back(std::make_shared<io_loop>());
  if (auto listening = listen(); !listening) return listening;
  if (settings.overload.enabled) entrance = std::make_shared<door>(loops_.front(), settings.overload);
  accept_again_.emplace(loops_.front()->io);
  pool_.start(settings.blocking_threads, settings.blocking_queue);
  accept();
  for (const auto& loop : loops_) {
    guards_.emplace_back(loop->io.get_executor());
    threads_.emplace_back([loop] { loop->io.run(); });
  }
  running_ = true;
  return {};
}

void engine::accept() {
  const auto loop = loops_[next_loop_++ % loops_.size()];
  acceptor_->async_accept(loop->io, [this, loop](error_code ec, tcp::socket socket) {
    if (stopping() || ec == asio::error::operation_aborted) return;
    if (!ec) {
      welcome(loop, std::move(socket));
      return accept();
    }
    if (ec == asio::error::connection_aborted) return accept();
    // Mostly out of file descriptors: trying at once would only burn the processor.
    report("HTTP: cannot accept: " + ec.message());
    accept_again_->expires_after(accept_pause);
    accept_again_->async_wait([this](error_code cancelled) {
      if (!cancelled && !stopping()) accept();
    });
  });
}

void engine::welcome(std::shared_ptr<io_loop> loop, tcp::socket socket) {
  error_code ec;
  const auto peer = socket.remote_endpoint(ec);
  if (ec) return;  // gone already
  const auto before = connections.fetch_add(1);
  if (before >= settings.max_connections + refused_at_once) {
    connections.fetch_sub(1);
    return;
  }
  const auto refused = before >= settings.max_connections;
  socket.set_option(tcp::no_delay{true}, ec);
  socket.set_option(asio::socket_base::keep_alive{true}, ec);
  auto remote = peer.address().is_v6() ? "[" + peer.address().to_string() + "]" : peer.address().to_string();
  remote.append(":").append(std::to_string(peer.port()));
  auto s = std::make_shared<session>(*this, loop, make_transport(std::move(socket), tls_), std::move(remote));
  asio::dispatch(loop->io, [loop, s = std::move(s), refused] {
    loop->sessions.emplace(s.get(), s);
    if (refused)
      s->start_refused();
    else
      s->start();
  });
}

void engine::gone(io_loop& loop, session& s) {
  loop.sessions.erase(&s);
  if (connections.fetch_sub(1) != 1 || !stopping()) return;
  const std::lock_guard guard{mutex_};
  emptied_.notify_all();
}

void engine::on_all_loops(const std::function<void(session&)>& what) {
  for (const auto& loop : loops_)
    (void)loop->post([loop = loop.get(), what] {
      std::vector<std::shared_ptr<session>> all;  // a session that ends takes itself out of the map
      for (const auto& entry : loop->sessions) all.push_back(entry.second);
      for (const auto& s : all) what(*s);
    });
}

void engine::stop(std::chrono::milliseconds grace) {
  {
    const std::lock_guard guard{mutex_};
    if (stopping_.exchange(true) || !running_) return;
  }
  (void)loops_.front()->post([this] {
    error_code ignored;
    acceptor_->close(ignored);
    accept_again_->cancel();
  });
  if (entrance) entrance->close();
  on_all_loops([](session& s) { s.stop_soon(); });
  {
    std::unique_lock lock{mutex_};
    const auto empty = [this] { return connections == 0; };
    if (!emptied_.wait_for(lock, grace, empty)) {
      on_all_loops([](session& s) { s.cut(); });
      emptied_.wait(lock, empty);
    }
  }
  pool_.stop();
  guards_.clear();
  for (auto& t : threads_) t.join();
  threads_.clear();
  acceptor_.reset();
  accept_again_.reset();
  for (const auto& loop : loops_) loop->close();
}

void engine::post_blocking(responder answer, std::function<void(responder)> work) {
  blocking_pool::task task = [this, answer, work = std::move(work)] {
    try {
      work(answer);
    } catch (const std::exception& e) {
      report(std::string{"HTTP: blocking work threw: "} + e.what());
      answer.reply(problem(500, "internal", "the node failed to handle this request; see its log"));
    } catch (...) {
      report("HTTP: blocking work threw something that is no std::exception");
      answer.reply(problem(500, "internal", "the node failed to handle this request; see its log"));
    }
  };
  if (pool_.post(task)) return;
  auto refusal = problem(503, "too_busy", "too many slow requests wait on this node: try again later");
  refusal.headers.push_back({"Retry-After", "1"});
  answer.reply(std::move(refusal));
}

void engine::log(const access_entry& line) const {
  if (settings.access_log) settings.access_log(line);
}

void engine::report(std::string_view text) const {
  if (settings.error_log) settings.error_log(text);
}

// -- server
// -------------------------------------------------------------------------------------------------------------

server::server(options settings) : engine_(std::make_unique<engine>(std::move(settings))) {}

server::~server() { stop(0ms); }

void server::route(std::string_view method, std::string_view pattern, role needed, handler h) {
  engine_->routes.add(method, pattern, needed, std::move(h));
}

const std::vector<route_entry>& server::routes() const noexcept { return engine_->routes.list(); }

expected<void> server::start() { return engine_->start(); }

std::uint16_t server::port() const noexcept { return engine_->port; }

void server::post_blocking(responder answer, std::function<void(responder)> work) {
  engine_->post_blocking(std::move(answer), std::move(work));
}

void server::stop(std::chrono::milliseconds grace) { engine_->stop(grace); }

std::size_t server::connections() const noexcept { return engine_->connections; }

std::optional<overload_statistics> server::overload() const {
  if (!engine_->entrance) return std::nullopt;
  return engine_->entrance->statistics();
}

}  // namespace caravan::http
