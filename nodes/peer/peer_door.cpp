#include "nodes/peer/peer_door.hpp"

#include <fcntl.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <cstring>
#include <future>
#include <list>
#include <optional>
#include <thread>
#include <variant>

namespace caravan {

namespace asio = boost::asio;
using tcp = asio::ip::tcp;
using near_socket = asio::local::stream_protocol::socket;
using boost::system::error_code;
using namespace std::chrono_literals;

namespace {

constexpr auto accept_pause = 50ms;  // when there are no more file descriptors
constexpr auto report_pause = 1s;
constexpr std::size_t carried_at_once = 64u << 10;

bool is_loopback(const std::string& host) { return host == "localhost" || host == "::1" || host.starts_with("127."); }

std::string place(const std::string& host, std::uint16_t port) {
  return (host.find(':') != std::string::npos ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

/// Common name and DNS names of the other side's certificate.
std::vector<std::string> names_in_certificate(SSL* ssl) {
  std::vector<std::string> names;
  const std::unique_ptr<X509, void (*)(X509*)> x(SSL_get1_peer_certificate(ssl), X509_free);
  if (!x) return names;
  const auto add = [&](const ASN1_STRING* s) {
    std::string name(reinterpret_cast<const char*>(ASN1_STRING_get0_data(s)),
                     static_cast<std::size_t>(ASN1_STRING_length(s)));
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(std::move(name));
  };
  auto* subject = X509_get_subject_name(x.get());
  for (int i = -1; (i = X509_NAME_get_index_by_NID(subject, NID_commonName, i)) >= 0;)
    add(X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, i)));
  const std::unique_ptr<GENERAL_NAMES, void (*)(GENERAL_NAMES*)> others(
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(x.get(), NID_subject_alt_name, nullptr, nullptr)),
      GENERAL_NAMES_free);
  for (int i = 0; others && i < sk_GENERAL_NAME_num(others.get()); ++i) {
    const auto* n = sk_GENERAL_NAME_value(others.get(), i);
    if (n->type == GEN_DNS) add(n->d.dNSName);
  }
  return names;
}

/// Why a TLS handshake ended, in words that help the one who made the certificates.
std::string tls_trouble(SSL* ssl, const error_code& ec) {
  const auto verdict = SSL_get_verify_result(ssl);
  if (verdict != X509_V_OK)
    return std::string("its certificate does not pass: ") + X509_verify_cert_error_string(verdict);
  return "TLS handshake: " + ec.message();
}

/// Bytes to and from CAF's end of a socket pair, until either side ends.
class carrier : public std::enable_shared_from_this<carrier> {
public:
  carrier(asio::ssl::stream<tcp::socket> far, near_socket near, std::shared_ptr<asio::ssl::context> tls)
      : tls_(std::move(tls)), far_(std::move(far)), near_(std::move(near)) {}
  void start() {
    carry(far_, near_, inward_);
    carry(near_, far_, outward_);
  }

private:
  using part = std::array<char, carried_at_once>;
  template <class From, class To>
  void carry(From& from, To& to, part& bytes) {
    from.async_read_some(asio::buffer(bytes), [this, self = shared_from_this(), &from, &to, &bytes](error_code ec,
                                                                                                    std::size_t n) {
      if (ec) return end();
      asio::async_write(to, asio::buffer(bytes.data(), n), [this, self, &from, &to, &bytes](error_code e, std::size_t) {
        if (e) return end();
        carry(from, to, bytes);
      });
    });
  }
  void end() {
    error_code ignored;
    far_.lowest_layer().close(ignored);
    near_.close(ignored);
  }

  std::shared_ptr<asio::ssl::context> tls_;
  asio::ssl::stream<tcp::socket> far_;
  near_socket near_;
  part inward_{};
  part outward_{};
};

using greeted = std::function<void(expected<peer_door::passage>)>;

/// One connection, from its accept or connect to the end of the greeting. Calls `done` once, unless it is destroyed
/// before.
class greeter : public std::enable_shared_from_this<greeter> {
public:
  enum class side : std::uint8_t { door, caller };

  greeter(asio::io_context& io, std::shared_ptr<asio::ssl::context> tls, side s, const peer_rules& rules,
          std::string mine, greeted done)
      : io_(io),
        tls_(std::move(tls)),
        side_(s),
        rules_(rules),
        mine_(std::move(mine)),
        done_(std::move(done)),
        deadline_(io) {}

  void start(tcp::socket socket, std::chrono::milliseconds limit) {
    wait_at_most(limit);
    begin(std::move(socket));
  }
  void connect(const std::string& host, std::uint16_t port, std::chrono::milliseconds limit) {
    wait_at_most(limit);
    auto resolver = std::make_shared<tcp::resolver>(io_);
    resolver->async_resolve(host, std::to_string(port),
                            [self = shared_from_this(), resolver](error_code ec, tcp::resolver::results_type found) {
                              if (self->over_) return;
                              if (ec) return self->fail({errc::backend_failed, ec.message()});
                              self->try_next(std::make_shared<tcp::resolver::results_type>(found), found.begin());
                            });
  }
  void drop(const std::string& why) { fail({errc::backend_failed, why}); }

private:
  /// Address after address, since the first may be of a kind that nobody listens on.
  void try_next(const std::shared_ptr<tcp::resolver::results_type>& all, tcp::resolver::results_type::iterator at) {
    if (at == all->end()) return fail({errc::backend_failed, last_.empty() ? "no address" : last_});
    trying_.emplace(io_);
    trying_->async_connect(at->endpoint(), [this, self = shared_from_this(), all, at](error_code ec) {
      if (over_) return;
      if (!ec) return begin(std::move(*trying_));
      last_ = ec.message();
      try_next(all, std::next(at));
    });
  }

  void wait_at_most(std::chrono::milliseconds limit) {
    deadline_.expires_after(limit);
    deadline_.async_wait([self = shared_from_this(), limit](error_code ec) {
      if (ec || self->over_) return;
      self->silent_ = self->line_.empty();
      self->fail({errc::backend_failed, "no greeting within " + std::to_string(limit.count()) + " ms"});
    });
  }

  void begin(tcp::socket socket) {
    error_code ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    ::fcntl(socket.native_handle(), F_SETFD, FD_CLOEXEC);
    if (!tls_) {
      plain_.emplace(std::move(socket));
      return talk();
    }
    secure_.emplace(std::move(socket), *tls_);
    secure_->async_handshake(side_ == side::door ? asio::ssl::stream_base::server : asio::ssl::stream_base::client,
                             [this, self = shared_from_this()](error_code ec) {
                               if (over_) return;
                               if (ec) {
                                 silent_ = SSL_in_before(secure_->native_handle()) != 0;
                                 return fail({errc::forbidden, tls_trouble(secure_->native_handle(), ec)});
                               }
                               talk();
                             });
  }
  void talk() {
    if (side_ == side::door) return read();
    write(mine_, [this] { read(); });
  }

  template <class F>
  void with_stream(F f) {
    if (secure_)
      f(*secure_);
    else
      f(*plain_);
  }

  void write(std::string text, std::function<void()> then) {
    out_ = std::move(text);
    with_stream([&](auto& stream) {
      asio::async_write(stream, asio::buffer(out_),
                        [this, self = shared_from_this(), then = std::move(then)](error_code ec, std::size_t) {
                          if (over_) return;
                          if (ec) return fail({errc::backend_failed, ec.message()});
                          then();
                        });
    });
  }

  /// Byte by byte: what follows the line is CAF's.
  void read() {
    with_stream([&](auto& stream) {
      stream.async_read_some(asio::buffer(&byte_, 1), [this, self = shared_from_this()](error_code ec, std::size_t n) {
        if (over_) return;
        if (ec) {
          silent_ = line_.empty();
          return fail({errc::backend_failed, "it hung up: " + ec.message()});
        }
        if (n == 0) return read();
        if (byte_ == '\n') return judge();
        line_ += byte_;
        if (line_.size() >= greeting_size || static_cast<unsigned char>(byte_) < ' ')
          return fail({errc::invalid_argument, "what came is no greeting of a Caravan node"});
        read();
      });
    });
  }

  void judge() {
    auto who = side_ == side::door ? parse_greeting(line_) : parse_answer(line_);
    if (!who) return refuse(who.failure());
    const auto names = secure_ ? names_in_certificate(secure_->native_handle()) : std::vector<std::string>{};
    if (const auto fine = check_peer(rules_, *who, names); !fine) return refuse(fine.failure());
    who_ = std::move(*who);
    if (side_ == side::caller) return pass();
    write(mine_, [this] { pass(); });
  }
  /// A node that is refused learns why; a stranger learns nothing.
  void refuse(const error& why) {
    if (side_ == side::caller || why.code == errc::invalid_argument) return fail(why);
    write(refusal_line(why.text), [this, why] { fail(why); });
  }

  void pass() {
    peer_door::passage p;
    p.who = who_;
    error_code ec;
    if (plain_) {
      p.fd = plain_->release(ec);
      if (ec) return fail({errc::backend_failed, ec.message()});
    } else {
      int pair[2];
      if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0)
        return fail({errc::backend_failed, std::string("no socket pair: ") + std::strerror(errno)});
      p.fd = pair[0];
      near_socket near(io_);
      near.assign(asio::local::stream_protocol(), pair[1], ec);
      std::make_shared<carrier>(std::move(*secure_), std::move(near), tls_)->start();
    }
    ::fcntl(p.fd, F_SETFL, ::fcntl(p.fd, F_GETFL) | O_NONBLOCK);
    end(std::move(p));
  }
  void fail(error why) {
    error_code ignored;
    if (trying_) trying_->close(ignored);
    if (plain_) plain_->close(ignored);
    if (secure_) secure_->lowest_layer().close(ignored);
    if (silent_) why.text.clear();
    end(std::move(why));
  }
  void end(expected<peer_door::passage> answer) {
    if (over_) return;
    over_ = true;
    deadline_.cancel();
    const auto done = std::move(done_);
    done(std::move(answer));
  }

  asio::io_context& io_;
  std::shared_ptr<asio::ssl::context> tls_;
  const side side_;
  const peer_rules& rules_;
  const std::string mine_;
  greeted done_;
  asio::steady_timer deadline_;
  std::optional<tcp::socket> trying_;
  std::string last_;
  std::optional<tcp::socket> plain_;
  std::optional<asio::ssl::stream<tcp::socket>> secure_;
  char byte_ = 0;
  std::string line_;
  std::string out_;
  peer_greeting who_;
  bool over_ = false;
  bool silent_ = false;  ///< it came and went without a word, as a probe does: nothing to report at a door
};

std::shared_ptr<asio::ssl::context> load(const peer_tls& files) {
  auto tls = std::make_shared<asio::ssl::context>(asio::ssl::context::tls);
  const auto refuse = [](const char* key, const std::string& file, const error_code& ec) {
    throw exception(
        {errc::invalid_argument, std::string("[cluster] ") + key + " = " + file + ": " + ec.message() +
                                     "; it must be a readable PEM file, and key and certificate must match"});
  };
  error_code ec;
  if (tls->use_certificate_chain_file(files.certificate, ec); ec) refuse("TLS_CERT", files.certificate, ec);
  if (tls->use_private_key_file(files.key, asio::ssl::context::pem, ec); ec) refuse("TLS_KEY", files.key, ec);
  if (tls->load_verify_file(files.ca, ec); ec) refuse("TLS_CA", files.ca, ec);
  tls->set_verify_mode(asio::ssl::verify_peer | asio::ssl::verify_fail_if_no_peer_cert, ec);
  SSL_CTX_set_min_proto_version(tls->native_handle(), TLS1_2_VERSION);
  // A session that is taken up again would not show its certificate anew.
  SSL_CTX_set_session_cache_mode(tls->native_handle(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_options(tls->native_handle(), SSL_OP_NO_TICKET);
  return tls;
}

}  // namespace

class peer_door::impl {
public:
  explicit impl(options o)
      : options_(std::move(o)),
        rules_{options_.me.protocol, options_.nodes, options_.tls.on()},
        acceptor_(io_),
        again_(io_),
        mine_(greeting_line(options_.me)) {
    if (!is_loopback(options_.host) && !options_.tls.on())
      throw exception(
          {errc::invalid_argument,
           "[cluster] ADDR = " + options_.host + ": beyond loopback nodes need TLS; set TLS_CERT, TLS_KEY and TLS_CA"});
    if (options_.tls.on()) tls_ = load(options_.tls);
    error_code ec;
    const auto at =
        tcp::resolver(io_).resolve(options_.host, std::to_string(options_.port), tcp::resolver::passive, ec);
    if (!ec) {
      const tcp::endpoint where = at.begin()->endpoint();
      acceptor_.open(where.protocol(), ec);
      if (!ec) acceptor_.set_option(tcp::acceptor::reuse_address(true), ec);
      if (!ec) acceptor_.bind(where, ec);
      if (!ec) acceptor_.listen(asio::socket_base::max_listen_connections, ec);
      if (!ec) port_ = acceptor_.local_endpoint(ec).port();
    }
    if (ec)
      throw exception({errc::conflict, "[cluster] ADDR = " + place(options_.host, options_.port) +
                                           ": cannot listen there: " + ec.message() +
                                           "; name an address of this machine and a free port, or port 0"});
    ::fcntl(acceptor_.native_handle(), F_SETFD, FD_CLOEXEC);
    accept();
    thread_ = std::thread([this] { io_.run(); });
  }

  ~impl() {
    io_.stop();
    thread_.join();
  }

  expected<passage> dial(const std::string& host, std::uint16_t port, std::chrono::milliseconds timeout) {
    // Outlives this call when the thread ends first: then nobody answers, and the promise breaks.
    auto promise = std::make_shared<std::promise<expected<passage>>>();
    auto answer = promise->get_future();
    asio::post(io_, [this, host, port, timeout, promise = std::move(promise)] {
      std::make_shared<greeter>(io_, tls_, greeter::side::caller, rules_, mine_, [promise](expected<passage> got) {
        if (!got && got.failure().text.empty())
          got = error{got.failure().code, "no node answers there, or it hung up at once"};
        promise->set_value(std::move(got));
      })->connect(host, port, timeout);
    });
    // The deadline inside is the one that counts; this is for a door that is being closed.
    if (answer.wait_for(timeout + 1s) != std::future_status::ready)
      return error{errc::backend_failed, "the door is being closed"};
    try {
      return answer.get();
    } catch (const std::future_error&) {
      return error{errc::backend_failed, "the door is being closed"};
    }
  }

  [[nodiscard]] std::uint16_t port() const { return port_; }

  std::size_t strangers() {
    std::promise<std::size_t> n;
    asio::post(io_, [&] { n.set_value(strangers_.size()); });
    return n.get_future().get();
  }

private:
  void accept() {
    acceptor_.async_accept([this](error_code ec, tcp::socket socket) {
      if (!ec) {
        welcome(std::move(socket));
        return accept();
      }
      if (ec == asio::error::connection_aborted) return accept();
      // Mostly out of file descriptors: trying at once would only burn the processor.
      report("cannot accept: " + ec.message());
      again_.expires_after(accept_pause);
      again_.async_wait([this](error_code e) {
        if (!e) accept();
      });
    });
  }

  void welcome(tcp::socket socket) {
    error_code ignored;
    const auto from = socket.remote_endpoint(ignored);
    const auto address = place(from.address().to_string(), from.port());
    const auto at = strangers_.insert(strangers_.end(), nullptr);
    *at = std::make_shared<greeter>(io_, tls_, greeter::side::door, rules_, mine_,
                                    [this, at, address](expected<passage> got) {
                                      const auto keep = *at;  // it is calling
                                      strangers_.erase(at);
                                      if (got) return options_.passed(got->fd, got->who);
                                      if (!got.failure().text.empty()) report(address + ": " + got.failure().text);
                                    });
    const auto guest = *at;
    guest->start(std::move(socket), options_.deadline);
    if (strangers_.size() > options_.most_strangers) {
      const auto oldest = strangers_.front();
      oldest->drop("too many strangers at once");
    }
  }

  void report(const std::string& text) {
    const auto now = std::chrono::steady_clock::now();
    if (reported_ != std::chrono::steady_clock::time_point{} && now - reported_ < report_pause) {
      ++unreported_;
      return;
    }
    reported_ = now;
    const auto more = std::exchange(unreported_, 0);
    if (options_.turned_away)
      options_.turned_away("turned away: " + text + (more ? " (and " + std::to_string(more) + " before)" : ""));
  }

  asio::io_context io_{1};
  const options options_;
  const peer_rules rules_;
  std::shared_ptr<asio::ssl::context> tls_;
  tcp::acceptor acceptor_;
  asio::steady_timer again_;
  const std::string mine_;
  std::list<std::shared_ptr<greeter>> strangers_;
  std::uint16_t port_ = 0;
  std::chrono::steady_clock::time_point reported_;
  std::size_t unreported_ = 0;
  std::thread thread_;
};

peer_door::peer_door(options o) : impl_(std::make_unique<impl>(std::move(o))) {}
peer_door::~peer_door() = default;
std::uint16_t peer_door::port() const noexcept { return impl_->port(); }
expected<peer_door::passage> peer_door::dial(const std::string& host, std::uint16_t port,
                                             std::chrono::milliseconds timeout) {
  return impl_->dial(host, port, timeout);
}
std::size_t peer_door::strangers() const { return impl_->strangers(); }

}  // namespace caravan
