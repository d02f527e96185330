#pragma once

/// The HTTP/1.1 server under the API, the dashboard and the event streams. Start here.
///
///   http::server web{{.port = 8080, .tokens = {{"s3cret", http::role::push}}}};
///   web.route("POST", "/v1/queues/{queue}/jobs", http::role::push, [](http::request r, http::responder answer) {
///     answer.reply(http::json_response("{}", 202));        // now, later, or from another thread
///   });
///   if (auto started = web.start(); !started) complain(started.failure().text);
///
/// Handlers run on an I/O thread, where one that blocks keeps hundreds of connections waiting: hand slow work to an
/// actor, or to post_blocking(). Requests of one connection are answered in their order, one at a time.

#include <atomic>
#include <caravan/error.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nodes/http/server/message.hpp"

namespace caravan::http {

class exchange;
class stream_handle;
class engine;

struct token_grant {
  std::string token;
  role granted = role::read;
};

struct access_entry {
  std::string_view method;  ///< empty when the request could not be read
  std::string_view path;    ///< never the query: people put secrets there
  int status = 0;
  std::chrono::microseconds took{0};  ///< from the whole request read to the last byte handed to the kernel
  std::uint64_t bytes = 0;            ///< sent, headers included
  std::string_view remote;
  role needed = role::anyone;  ///< by the route; anyone when there was none
  role_set granted{};          ///< what the caller may do
};

/// A route as it was registered.
struct route_entry {
  std::string method;
  std::string pattern;
  role needed = role::admin;
};

/// How much is worked on at once. What comes beyond waits in a line; a line whose oldest request waits longer than
/// `target_wait` all the time is overload, and requests are answered with 503 and Retry-After until it is short again.
///
/// Who goes first: what needs no token (health) passes without asking. Then come reads (GET, HEAD): an operator must see
/// what is going on. Then changes by work and admin: they bring jobs to an end. Last, and refused first, what needs the
/// role push: it brings the load in, and its callers can repeat it later.
///
/// A request holds its place until it is answered; a stream, or one that steps aside (responder::step_aside), gives it
/// back.
struct overload_options {
  bool enabled = false;
  std::size_t max_in_flight = 1;  ///< above zero
  std::size_t max_waiting = 0;    ///< beyond: the least important one that waits is refused at once
  std::chrono::milliseconds target_wait{250};  ///< above zero
};

/// Since the start, but for the first two and the last.
struct overload_statistics {
  std::size_t in_flight = 0;
  std::size_t waiting = 0;
  std::uint64_t admitted = 0;
  std::uint64_t refused_full = 0;  ///< no room in the line
  std::uint64_t refused_late = 0;  ///< waited too long
  bool overloaded = false;
};

struct options {
  std::string address = "127.0.0.1";   ///< an IP address or "localhost"
  std::uint16_t port = 0;              ///< 0: any free one, see server::port()
  unsigned threads = 1;                ///< I/O threads; a connection stays with one
  std::size_t max_connections = 4096;  ///< beyond: 503 and close
  std::size_t max_body = 8u << 20;     ///< beyond: 413
  std::size_t max_header = 16u << 10;  ///< request line and headers; beyond: 431

  std::chrono::milliseconds header_deadline{10'000};  ///< from the first byte to the end of the headers, TLS included
  std::chrono::milliseconds body_deadline{30'000};    ///< for the whole body
  std::chrono::milliseconds idle_deadline{75'000};    ///< between two requests
  std::chrono::milliseconds write_deadline{30'000};   ///< for every 64 KiB that a reader takes
  std::chrono::milliseconds linger{1'000};            ///< how long a closed side is drained, so that the answer arrives
  std::chrono::milliseconds heartbeat{15'000};        ///< comment line on a quiet event stream
  std::size_t stream_messages = 64;                   ///< waiting for a slow client; beyond: the client is dropped
  std::size_t stream_bytes = 4u << 20;                ///< the same, in bytes; one message alone may be larger

  overload_options overload{};

  unsigned blocking_threads = 4;
  std::size_t blocking_queue = 256;  ///< tasks that wait for a blocking thread; beyond: 503

  /// Empty: everybody may do everything, which the caller must refuse on an address that is not loopback.
  std::vector<token_grant> tokens{};
  /// EventSource cannot send headers: this cookie holds a token too, for GET and HEAD only, as a foreign page could
  /// ride on it otherwise. Empty: off.
  std::string token_cookie{};
  /// Names that the Host header may hold (without port). Empty: any. Set it on loopback without tokens: it stops a
  /// foreign page that points its own name at 127.0.0.1.
  std::vector<std::string> allowed_hosts{};

  std::string tls_certificate{};  ///< PEM file, the whole chain; both or none
  std::string tls_key{};          ///< PEM file

  std::function<void(const access_entry&)> access_log{};   ///< called on I/O threads; must not block or throw
  std::function<void(std::string_view text)> error_log{};  ///< the same
};

/// An answer that takes as long as it lasts. Copies share one stream; it ends with the last of them. Thread safe.
class event_stream {
public:
  event_stream() = default;
  /// False when the stream has ended: the client left, was too slow, close() was called or the server stops.
  bool send(std::string message) const;
  /// Ends the stream after what was sent before.
  void close() const;
  [[nodiscard]] bool closed() const;
  /// Messages not yet handed to the kernel; a producer with much to say waits for it to fall.
  [[nodiscard]] std::size_t waiting() const;
  /// Called once, on an I/O thread or at once when it has ended already. One callback only: a second replaces the
  /// first.
  void on_close(std::function<void()> callback) const;

private:
  friend class responder;
  explicit event_stream(std::shared_ptr<stream_handle> handle) : handle_(std::move(handle)) {}
  std::shared_ptr<stream_handle> handle_;
};

/// The right to answer one request, once. Copies share it; when the last copy goes unused the client gets a 500 instead
/// of waiting for ever. Thread safe; may outlive the server.
class responder {
public:
  responder() = default;
  /// False when it was answered before; the first answer stands.
  bool reply(response answer) const;
  bool reply(const error& cause) const { return reply(problem(cause)); }
  /// Answers 200 and keeps the connection for messages. An ended stream when it was answered before, or for HEAD.
  [[nodiscard]] event_stream stream(std::string content_type = "text/event-stream") const;
  /// For an answer that waits for something to happen, not for work: gives its place at the door back
  /// (options::overload).
  void step_aside() const;
  /// The client closed its side: nobody will read the answer. Ask before handing out work.
  [[nodiscard]] bool client_left() const;

private:
  friend class engine;
  friend class session;
  explicit responder(std::shared_ptr<exchange> e) : exchange_(std::move(e)) {}
  std::shared_ptr<exchange> exchange_;
};

using handler = std::function<void(request, responder)>;

class server {
public:
  explicit server(options settings);
  /// Stops without grace.
  ~server();
  server(const server&) = delete;
  server& operator=(const server&) = delete;

  /// Before start(). "{name}" takes one path segment, decoded, so an encoded '/' is part of it; a last "{name...}"
  /// takes the rest. A literal segment wins over a name. GET serves HEAD. Throws caravan::exception for a bad pattern.
  void route(std::string_view method, std::string_view pattern, role needed, handler h);

  /// All of them, in the order in which they were added.
  [[nodiscard]] const std::vector<route_entry>& routes() const noexcept;

  /// Refuses with conflict (address in use), invalid_argument (address, TLS files), forbidden (low port).
  expected<void> start();
  /// The port bound; 0 before start().
  [[nodiscard]] std::uint16_t port() const noexcept;

  /// Runs `work` on a thread that may block. When too many wait, answers 503 and drops the work.
  void post_blocking(responder answer, std::function<void(responder)> work);

  /// Accepts no more, ends streams, closes idle connections, lets running requests finish until `grace` is over and
  /// cuts the rest; then joins all threads, and so waits for blocking work that already runs. Safe to call twice; not
  /// from a handler.
  void stop(std::chrono::milliseconds grace = std::chrono::seconds{10});

  [[nodiscard]] std::size_t connections() const noexcept;
  /// Nothing: overload control is off.
  [[nodiscard]] std::optional<overload_statistics> overload() const;

private:
  std::unique_ptr<engine> engine_;
};

/// Whether only this machine can reach the address; "0.0.0.0" and names other than "localhost" are not loopback.
[[nodiscard]] bool is_loopback(std::string_view address);

}  // namespace caravan::http
