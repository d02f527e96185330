#define CAF_SUITE http_tls
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <cstdio>
#include <filesystem>
#include <memory>

#include "caf/test/unit_test.hpp"
#include "nodes/http/server/server.hpp"
#include "nodes/http/server/testing.hpp"

using namespace caravan;
using namespace caravan::http;
using namespace caravan::http::testing;

namespace {

/// A key and a certificate that it signed itself, in a folder that goes away with this.
struct certificate_files {
  certificate_files() {
    std::string name = (std::filesystem::temp_directory_path() / "caravan-tls-XXXXXX").string();
    folder = ::mkdtemp(name.data());
    const std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)> pair{EVP_EC_gen("P-256"), EVP_PKEY_free};
    const std::unique_ptr<X509, void (*)(X509*)> x{X509_new(), X509_free};
    X509_gmtime_adj(X509_getm_notBefore(x.get()), -60);
    X509_gmtime_adj(X509_getm_notAfter(x.get()), 3600);
    X509_set_pubkey(x.get(), pair.get());
    X509_sign(x.get(), pair.get(), EVP_sha256());
    const std::unique_ptr<FILE, int (*)(FILE*)> key_file{std::fopen(key().c_str(), "w"), std::fclose};
    PEM_write_PrivateKey(key_file.get(), pair.get(), nullptr, nullptr, 0, nullptr, nullptr);
    const std::unique_ptr<FILE, int (*)(FILE*)> certificate_file{std::fopen(certificate().c_str(), "w"), std::fclose};
    PEM_write_X509(certificate_file.get(), x.get());
  }
  ~certificate_files() {
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
  }
  [[nodiscard]] std::string key() const { return folder + "/key.pem"; }
  [[nodiscard]] std::string certificate() const { return folder + "/certificate.pem"; }

  std::string folder;
};

class tls_client {
public:
  explicit tls_client(std::uint16_t port) : socket_(port) {
    SSL_set_fd(ssl_.get(), socket_.fd());
    connected_ = SSL_connect(ssl_.get()) == 1;
  }
  [[nodiscard]] bool connected() const { return connected_; }
  bool send(std::string_view text) { return SSL_write(ssl_.get(), text.data(), static_cast<int>(text.size())) > 0; }
  /// Until `mark` or the end.
  std::string read_until(std::string_view mark) {
    std::string text;
    char part[16384];
    while (mark.empty() || text.find(mark) == std::string::npos) {
      const auto n = SSL_read(ssl_.get(), part, sizeof part);
      if (n <= 0) break;
      text.append(part, static_cast<std::size_t>(n));
    }
    return text;
  }

private:
  client socket_;
  std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> context_{SSL_CTX_new(TLS_client_method()), SSL_CTX_free};
  std::unique_ptr<SSL, void (*)(SSL*)> ssl_{SSL_new(context_.get()), SSL_free};
  bool connected_ = false;
};

options with(const certificate_files& files) {
  options o;
  o.tls_certificate = files.certificate();
  o.tls_key = files.key();
  o.header_deadline = 2s;
  return o;
}

void add_routes(server& s) {
  s.route("GET", "/large", role::read,
          [](request, responder a) { a.reply(text_response(std::string(3u << 20, 'x'))); });
  s.route("POST", "/size", role::push,
          [](request r, responder a) { a.reply(text_response("size " + std::to_string(r.body.size()) + ".")); });
}

}  // namespace

CAF_TEST(requests streams and large bodies go over TLS) {
  const certificate_files files;
  server s{with(files)};
  add_routes(s);
  std::atomic<bool> closed{false};
  event_stream events;
  s.route("GET", "/events", role::read, [&](request, responder a) {
    events = a.stream();
    events.on_close([&] { closed = true; });
    events.send("hello stream");
  });
  const auto started = s.start();
  CAF_REQUIRE(started);
  {
    tls_client c{s.port()};
    CAF_REQUIRE(c.connected());
    c.send(post("/size", std::string(2u << 20, 'b')));
    CAF_CHECK(c.read_until(".").find("size 2097152.") != std::string::npos);
    c.send(get("/large", "Connection: close\r\n"));
    const auto large = c.read_until("");
    CAF_CHECK(large.size() > (3u << 20));
  }
  {
    tls_client c{s.port()};
    c.send(get("/events"));
    CAF_CHECK(c.read_until("hello stream").find("hello stream") != std::string::npos);
  }
  CAF_CHECK(eventually([&] { return closed.load(); }));
  CAF_CHECK(eventually([&] { return s.connections() == 0; }));
}

CAF_TEST(clients that speak no TLS or nothing at all are closed) {
  const certificate_files files;
  auto o = with(files);
  o.header_deadline = 100ms;
  server s{o};
  add_routes(s);
  CAF_REQUIRE(s.start());
  client plain{s.port()};
  plain.send(get("/large"));
  CAF_CHECK(plain.read_to_end().find("HTTP") == std::string::npos);
  CAF_CHECK(plain.ended());
  client silent{s.port()};
  silent.read_to_end();
  CAF_CHECK(silent.ended());
  CAF_CHECK(eventually([&] { return s.connections() == 0; }));
}

CAF_TEST(stop ends TLS connections) {
  const certificate_files files;
  server s{with(files)};
  add_routes(s);
  CAF_REQUIRE(s.start());
  tls_client idle{s.port()};
  idle.send(post("/size", "1"));
  idle.read_until(".");
  client silent{s.port()};
  CAF_REQUIRE(eventually([&] { return s.connections() == 2; }));
  const auto began = std::chrono::steady_clock::now();
  s.stop(60s);
  CAF_CHECK(std::chrono::steady_clock::now() - began < 20s);
  CAF_CHECK_EQUAL(s.connections(), 0u);
}
