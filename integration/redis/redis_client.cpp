#include "integration/redis/redis_client.hpp"

#include "integration/redis/redis_connection.hpp"
#include "toolbox/backoff.hpp"
#include "toolbox/pool.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>

namespace caravan {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

namespace {

/// The server is there but cannot serve this connection: another may do better, soon.
bool is_passing(const redis_value& v) {
  if (!v.is_error()) return false;
  for (const auto* word : {"LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "UNBLOCKED", "NOREPLICAS"})
    if (v.text.starts_with(word)) return true;
  return false;
}

std::string remedy_for(std::string_view text) {
  if (text.starts_with("OOM")) return "; its memory is full: raise its maxmemory, or let workers catch up";
  if (text.starts_with("WRONGTYPE") || text.find("WRONGTYPE") != std::string_view::npos)
    return "; another program uses a key that begins with caravan: remove it there, or use another database";
  if (text.starts_with("MISCONF")) return "; it cannot write to its disk: see its log";
  if (text.starts_with("NOPERM")) return "; its ACL forbids that to this user: allow ~caravan:* and +@all";
  return {};
}

std::string place_of(const config::redis_address& a) {
  if (a.kind == config::redis_kind::unix_socket) return "unix:" + a.socket_path + "/" + std::to_string(a.db);
  std::string out;
  for (const auto& [host, port] : a.hosts) out += (out.empty() ? "" : ",") + host + ":" + std::to_string(port);
  if (!a.master_name.empty()) out += "/" + a.master_name;
  return out + "/" + std::to_string(a.db);
}

}  // namespace

redis_options impatient_redis_options(config::redis_address address, std::string client_name) {
  redis_options out;
  out.address = std::move(address);
  out.client_name = std::move(client_name);
  out.connect_timeout = out.command_timeout = out.give_up_after = 500ms;
  return out;
}

class redis_client::impl {
public:
  explicit impl(redis_options o)
      : options(std::move(o)),
        where(place_of(options.address)),
        pool(std::max<std::size_t>(options.max_connections, 1), [this] { return open(); },
             {.max_age = options.max_age}) {}

  using link = std::unique_ptr<redis_connection>;

  // One command over connections until it has an answer that is no passing trouble, or time is up.
  expected<redis_value> call(std::string_view encoded, const std::function<std::string()>& on_noscript) {
    const auto give_up = steady_clock::now() + options.give_up_after;
    auto pause = 20ms;
    std::string full;  // EVAL with the text, once the server said that it does not know it
    for (;;) {
      error why;
      bool stale = false;
      {
        auto lease = take(give_up);
        if (!lease) {
          why = lease.failure();
          if (why.code != errc::backend_failed) return why;
        } else {
          auto& c = **lease;
          stale = std::exchange(c->used, true);
          const auto until = steady_clock::now() + options.command_timeout;
          auto sent = c->send(full.empty() ? encoded : std::string_view(full), until);
          auto reply = sent ? c->receive(until) : expected<redis_value>(sent.failure());
          if (!reply) {
            why = reply.failure();
            stale = stale && why.code != errc::timed_out;  // one that lay idle may be long gone: that says nothing
            if (stale) ++generation;                       // and neither are its brothers
            lease->discard();
          } else if (is_passing(*reply)) {
            why = {errc::backend_failed, "redis " + c->peer() + ": " + reply->text};
            stale = false;
            ++generation;  // after a failover all of them lead to the old master
            lease->discard();
          } else if (reply->is_error() && full.empty() && on_noscript && reply->text.starts_with("NOSCRIPT")) {
            full = on_noscript();
            continue;
          } else if (reply->is_error()) {
            return {errc::backend_failed, "redis " + c->peer() + ": " + reply->text + remedy_for(reply->text)};
          } else {
            return reply;
          }
        }
      }
      if (why.code == errc::timed_out) why.code = errc::backend_failed;
      if (stale) continue;
      if (steady_clock::now() + pause >= give_up) return why;
      if (!rest(pause)) return closed_error();
      pause = std::min(pause * 2, 320ms);
    }
  }

  /// Any code but backend_failed: another try cannot help.
  expected<toolbox::pool<link>::lease> take(steady_clock::time_point until) {
    for (;;) {
      try {
        auto got = pool.get(std::max<std::chrono::nanoseconds>(until - steady_clock::now(), 1ms));
        if (closed) return closed_error();
        if (!got)
          return {errc::backend_failed,
                  "redis " + where + ": all " + std::to_string(options.max_connections) + " connections are busy"};
        auto lease = std::move(*got);
        if ((*lease)->generation == generation) return lease;
        lease.discard();
      } catch (const exception& e) {
        return e.why();  // as open() classed it
      }
    }
  }

  link open() {
    const auto now_generation = generation.load();
    bool refused = false;
    auto made = redis_connection::open(options, &refused);
    if (!made) throw exception({refused ? errc::unauthorized : errc::backend_failed, made.failure().text});
    (*made)->generation = now_generation;
    return std::move(*made);
  }

  /// False: closed meanwhile.
  bool rest(std::chrono::milliseconds how_long) {
    std::unique_lock lock(mutex);
    closing.wait_for(lock, how_long, [&] { return closed.load(); });
    return !closed;
  }

  [[nodiscard]] error closed_error() const {
    return {errc::queue_closed, "redis " + where + ": this client is closed"};
  }

  const redis_options options;
  const std::string where;
  std::atomic<std::uint64_t> generation{0};
  std::atomic<bool> closed{false};
  std::mutex mutex;
  std::condition_variable closing;
  toolbox::pool<link> pool;
};

redis_client::redis_client(redis_options options) : impl_(std::make_unique<impl>(std::move(options))) {}
redis_client::~redis_client() { close(); }

expected<redis_value> redis_client::command(std::span<const std::string_view> words) {
  std::string encoded;
  encode_command(encoded, words);
  return impl_->call(encoded, nullptr);
}
expected<redis_value> redis_client::command(std::initializer_list<std::string_view> words) {
  return command(std::span(words.begin(), words.size()));
}

expected<redis_value> redis_client::eval(const redis_script& script, std::span<const std::string> keys,
                                         std::span<const std::string_view> args) {
  const auto encode = [&](std::string_view verb, std::string_view which) {
    const auto count = std::to_string(keys.size());
    std::size_t size = 128 + which.size();
    for (const auto& k : keys) size += k.size() + 16;
    for (const auto& a : args) size += a.size() + 16;
    std::string encoded;
    encoded.reserve(size);
    std::vector<std::string_view> words{verb, which, count};
    words.reserve(3 + keys.size() + args.size());
    words.insert(words.end(), keys.begin(), keys.end());
    words.insert(words.end(), args.begin(), args.end());
    encode_command(encoded, words);
    return encoded;
  };
  auto reply = impl_->call(encode("EVALSHA", script.sha()), [&] { return encode("EVAL", script.text()); });
  if (!reply) return {reply.failure().code, reply.failure().text + " (script " + script.name() + ")"};
  return reply;
}

expected<std::vector<std::string>> redis_client::check(int attempts, const std::function<void(const error&)>& on_wait) {
  error why;
  for (int i = 0; i < attempts; ++i) {
    if (i > 0 && on_wait) on_wait(why);
    if (i > 0 && !impl_->rest(1s)) return impl_->closed_error();
    bool refused = false;
    auto made = redis_connection::open(impl_->options, &refused);
    if (!made) {
      why = made.failure();
      if (refused) return why;
      continue;
    }
    auto& c = **made;
    const auto until = steady_clock::now() + impl_->options.command_timeout;
    const auto info = c.ask({"INFO"}, until);
    if (!info) {
      why = info.failure();
      continue;
    }
    const auto field = [&](std::string_view name) -> std::string {
      const auto at = info->text.find("\n" + std::string(name) + ":");
      if (at == std::string::npos) return {};
      const auto from = at + name.size() + 2;
      return info->text.substr(from, info->text.find('\r', from) - from);
    };
    if (const auto version = field("redis_version"); !version.empty() && std::atoi(version.c_str()) < 6)
      return error{errc::not_supported, "redis " + c.peer() + ": is version " + version + "; 6 or later is needed"};
    if (field("cluster_enabled") == "1")
      return error{errc::not_supported, "redis " + c.peer() + ": is a node of a Redis cluster, which is not supported"};
    std::vector<std::string> warnings;
    if (const auto policy = field("maxmemory_policy"); !policy.empty() && policy != "noeviction")
      warnings.push_back(
          "redis " + c.peer() + ": maxmemory-policy is " + policy +
          ": when its memory is full it drops data, jobs that were acknowledged among them; set noeviction");
    if (field("aof_enabled") == "0")
      warnings.push_back("redis " + c.peer() +
                         ": appendonly is off: after a crash of Redis everything since its last snapshot is lost; "
                         "set appendonly yes");
    return warnings;
  }
  return {why.code, why.text + " (tried " + std::to_string(attempts) + " times)"};
}

void redis_client::close() {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->closed = true;
  }
  impl_->closing.notify_all();
  impl_->pool.close();
}

std::string redis_client::where() const { return impl_->where; }
const redis_options& redis_client::options() const noexcept { return impl_->options; }

}  // namespace caravan
