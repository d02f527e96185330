#include "integration/redis/redis_connection.hpp"

#include <hiredis/hiredis.h>

#include <algorithm>
#include <charconv>
#include <vector>

namespace caravan {

namespace {

using namespace std::chrono_literals;

constexpr std::size_t buffer_size = 64 << 10;

// hiredis's reader builds our values: a task's object is a redis_value, a child lives in its parent's items.
redis_value* place(const redisReadTask* task) {
  if (!task->parent) return new redis_value;
  return &static_cast<redis_value*>(task->parent->obj)->items[static_cast<std::size_t>(task->idx)];
}
void* create_string(const redisReadTask* task, char* bytes, std::size_t n) {
  auto* v = place(task);
  v->what = task->type == REDIS_REPLY_ERROR    ? redis_value::kind::error
            : task->type == REDIS_REPLY_STATUS ? redis_value::kind::status
                                               : redis_value::kind::text;
  v->text.assign(bytes, n);
  return v;
}
void* create_array(const redisReadTask* task, int n) {
  auto* v = place(task);
  v->what = redis_value::kind::array;
  v->items.resize(static_cast<std::size_t>(std::max(n, 0)));
  return v;
}
void* create_integer(const redisReadTask* task, long long n) {
  auto* v = place(task);
  v->what = redis_value::kind::integer;
  v->number = n;
  return v;
}
void* create_nil(const redisReadTask* task) { return place(task); }
void free_object(void* v) { delete static_cast<redis_value*>(v); }

redisReplyObjectFunctions value_functions{create_string, create_array, create_integer, create_nil, free_object};

void append_number(std::string& to, std::size_t n) {
  char digits[24];
  const auto end = std::to_chars(digits, digits + sizeof digits, n).ptr;
  to.append(digits, static_cast<std::size_t>(end - digits));
}

std::string option(const config::redis_address& a, std::initializer_list<std::string_view> names) {
  for (const auto& [name, value] : a.options)
    if (std::find(names.begin(), names.end(), name) != names.end()) return value;
  return {};
}

redis_endpoint endpoint(const config::redis_address& a, const std::string& host, std::uint16_t port) {
  redis_endpoint e;
  e.host = host;
  e.port = port;
  e.tls = a.tls;
  e.ca_file = option(a, {"tls_ca_file", "tlscafile"});
  const auto skip = option(a, {"skip_verify", "skipverify", "insecure_skip_verify", "insecureskipverify"});
  e.verify = skip.empty() || skip == "false" || skip == "0";
  return e;
}

// The server's own words; a password is never in them, what a client sent is cut off where AUTH might quote it.
error refused_by(const std::string& peer, const std::string& what, const redis_value& reply) {
  return {errc::backend_failed, "redis " + peer + ": " + what + " was refused: " + reply.text};
}

}  // namespace

void encode_command(std::string& to, std::span<const std::string_view> words) {
  to += '*';
  append_number(to, words.size());
  to += "\r\n";
  for (const auto w : words) {
    to += '$';
    append_number(to, w.size());
    to += "\r\n";
    to += w;
    to += "\r\n";
  }
}
void encode_command(std::string& to, std::initializer_list<std::string_view> words) {
  encode_command(to, std::span(words.begin(), words.size()));
}

void redis_connection::reader_deleter::operator()(redisReader* r) const noexcept { redisReaderFree(r); }

redis_connection::redis_connection(std::unique_ptr<redis_transport> transport, std::string peer)
    : transport_(std::move(transport)),
      peer_(std::move(peer)),
      reader_(redisReaderCreateWithFunctions(&value_functions)),
      buffer_(new char[buffer_size]) {
  if (!reader_) throw std::bad_alloc();
}
redis_connection::~redis_connection() = default;

expected<void> redis_connection::send(std::string_view encoded, redis_deadline until) {
  auto ok = transport_->send(encoded, until);
  if (!ok) return {ok.failure().code, "redis " + peer_ + ": " + ok.failure().text};
  return ok;
}

expected<void> redis_connection::parse() {
  void* reply = nullptr;
  if (redisReaderGetReply(reader_.get(), &reply) != REDIS_OK)
    return {errc::backend_failed, "redis " + peer_ + ": it does not speak Redis: " + std::string(reader_->errstr)};
  next_.reset(static_cast<redis_value*>(reply));
  return {};
}

expected<redis_value> redis_connection::receive(redis_deadline until) {
  while (!next_) {
    const auto n = transport_->receive(buffer_.get(), buffer_size, until);
    if (!n) return {n.failure().code, "redis " + peer_ + ": " + n.failure().text};
    redisReaderFeed(reader_.get(), buffer_.get(), *n);
    if (auto ok = parse(); !ok) return ok.failure();
  }
  auto value = std::move(*next_);
  next_.reset();
  if (auto ok = parse(); !ok) return ok.failure();
  return value;
}

expected<redis_value> redis_connection::ask(std::initializer_list<std::string_view> words, redis_deadline until) {
  std::string encoded;
  encode_command(encoded, words);
  if (auto ok = send(encoded, until); !ok) return ok.failure();
  return receive(until);
}

expected<std::unique_ptr<redis_connection>> redis_connection::open_one(const redis_options& options,
                                                                       const redis_endpoint& to, bool is_sentinel,
                                                                       bool* refused) {
  const auto until = std::chrono::steady_clock::now() + options.connect_timeout;
  auto transport = connect_redis(to, until);
  if (!transport) return {errc::backend_failed, "redis " + to.text() + ": cannot connect: " + transport.failure().text};
  std::unique_ptr<redis_connection> made(new redis_connection(std::move(*transport), to.text()));
  const auto& a = options.address;
  const auto user = is_sentinel ? option(a, {"sentinel_username"}) : a.username;
  const auto password = is_sentinel ? option(a, {"sentinel_password"}) : a.password;
  if (!password.empty()) {
    const auto reply = user.empty() ? made->ask({"AUTH", password}, until) : made->ask({"AUTH", user, password}, until);
    if (!reply) return reply.failure();
    if (reply->is_error() && !reply->text.starts_with("LOADING")) {
      if (refused) *refused = true;
      return refused_by(to.text(), "the password", *reply);
    }
  }
  if (is_sentinel) return made;
  if (a.db != 0) {
    const auto reply = made->ask({"SELECT", std::to_string(a.db)}, until);
    if (!reply) return reply.failure();
    if (reply->is_error()) {
      if (refused) *refused = !reply->text.starts_with("LOADING");
      return refused_by(to.text(), "database " + std::to_string(a.db), *reply);
    }
  }
  const auto named = made->ask({"CLIENT", "SETNAME", options.client_name}, until);
  if (!named) return named.failure();
  if (named->is_error() && named->text.starts_with("NOAUTH")) {
    if (refused) *refused = true;
    return {errc::backend_failed, "redis " + to.text() + ": it wants a password: write it into the connection string"};
  }
  // A replica would answer READONLY to everything; better to look for the master at once.
  const auto role = made->ask({"ROLE"}, until);
  if (!role) return role.failure();
  if (role->is_error() && role->text.starts_with("LOADING"))
    return {errc::backend_failed, "redis " + to.text() + ": still loading its data"};
  if (role->has(1) && role->items[0].text != "master")
    return {errc::backend_failed, "redis " + to.text() + ": is a replica, not a master"};
  return made;
}

expected<std::unique_ptr<redis_connection>> redis_connection::open(const redis_options& options, bool* refused) {
  const auto& a = options.address;
  switch (a.kind) {
    case config::redis_kind::cluster:
      if (refused) *refused = true;
      return {errc::not_supported,
              "redis: a Redis cluster is not supported; name one server, or its sentinels with redis-sentinel://"};
    case config::redis_kind::unix_socket: {
      redis_endpoint to;
      to.socket_path = a.socket_path;
      return open_one(options, to, false, refused);
    }
    case config::redis_kind::single: {
      error why{errc::backend_failed, "redis: the address names no host"};
      for (const auto& [host, port] : a.hosts) {
        auto made = open_one(options, endpoint(a, host, port), false, refused);
        if (made) return made;
        why = made.failure();
      }
      return why;
    }
    case config::redis_kind::sentinel:
      break;
  }
  error why{errc::backend_failed, "redis: the address names no sentinel"};
  for (const auto& [host, port] : a.hosts) {
    const auto at = endpoint(a, host, port);
    auto sentinel = open_one(options, at, true, refused);
    if (!sentinel) {
      why = sentinel.failure();
      continue;
    }
    const auto reply = (*sentinel)->ask({"SENTINEL", "get-master-addr-by-name", a.master_name},
                                        std::chrono::steady_clock::now() + options.connect_timeout);
    if (!reply) {
      why = reply.failure();
    } else if (reply->is_error()) {
      why = refused_by(at.text(), "the question for the master", *reply);
    } else if (!reply->has(2)) {
      why = {errc::backend_failed, "redis sentinel " + at.text() + ": knows no master \"" + a.master_name + "\""};
    } else {
      std::uint16_t master_port = 0;
      const auto& text = reply->items[1].text;
      std::from_chars(text.data(), text.data() + text.size(), master_port);
      auto master = open_one(options, endpoint(a, reply->items[0].text, master_port), false, refused);
      if (master) return master;
      why = master.failure();  // perhaps this sentinel has not heard of the failover yet
    }
  }
  return why;
}

}  // namespace caravan
