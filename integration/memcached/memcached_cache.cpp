#include "integration/memcached/memcached_cache.hpp"

#include <caravan/cache.hpp>

#include <libmemcached/memcached.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <ctime>
#include <limits>
#include <new>
#include <random>

namespace caravan {

namespace {

using std::chrono::seconds;

constexpr seconds longest_relative{60 * 60 * 24 * 30};
// The first date that memcached does not take for a relative time; long past.
constexpr std::time_t already_over = longest_relative.count() + 1;

std::time_t expiration(std::chrono::milliseconds ttl) {
  if (ttl == ttl.zero()) return 0;
  const auto whole = std::chrono::ceil<seconds>(ttl);
  if (whole <= longest_relative) return whole.count();
  // memcached keeps 31 bits of a date.
  const auto now = std::time(nullptr);
  return whole.count() > std::numeric_limits<std::int32_t>::max() - now ? 0 : now + whole.count();
}

std::uint32_t fresh_generation() {
  std::random_device random;
  return random() | 1u;  // never 0, which is what a value without flags has
}

/// Answers rather than troubles.
bool is_answer(int code) {
  return code == MEMCACHED_SUCCESS || code == MEMCACHED_NOTFOUND || code == MEMCACHED_NOTSTORED ||
         code == MEMCACHED_DATA_EXISTS || code == MEMCACHED_E2BIG;
}
/// The server may well be there: it is worth a new connection.
bool is_broken_connection(int code) {
  return code == MEMCACHED_WRITE_FAILURE || code == MEMCACHED_READ_FAILURE || code == MEMCACHED_UNKNOWN_READ_FAILURE ||
         code == MEMCACHED_CONNECTION_FAILURE || code == MEMCACHED_ERRNO || code == MEMCACHED_PARTIAL_READ ||
         code == MEMCACHED_PROTOCOL_ERROR || code == MEMCACHED_CLIENT_ERROR || code == MEMCACHED_ERROR ||
         code == MEMCACHED_SOME_ERRORS || code == MEMCACHED_FAILURE;
}

/// libmemcached's own words: "(0x55d0c0) CONNECTION FAILURE, reason,  host: h:1 -> src/file.cc:12", of which the ends
/// tell nobody anything.
std::string in_short(std::string_view text) {
  if (text.starts_with("(0x")) text.remove_prefix(std::min(text.find(") ") + 2, text.size()));
  return std::string(text.substr(0, text.find(" -> ")));
}

bool is_visible(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x21 && c <= 0x7e; });
}

}  // namespace

struct memcached_cache::found {
  std::optional<std::uint32_t> generation;
  std::optional<std::string> value;  ///< only if it is of this generation
  std::uint64_t cas = 0;
};

void memcached_cache::closer::operator()(memcached_st* handle) const { memcached_free(handle); }

memcached_cache::memcached_cache(memcached_options options)
    : options_(std::move(options)),
      generation_key_(options_.prefix + ":generation"),
      handles_(std::max<std::size_t>(1, options_.max_connections), [this] { return open(); },
               {.max_age = std::chrono::minutes{10}}) {
  if (options_.hosts.empty())
    throw exception({errc::invalid_argument, "memcache: no server is named; set HOST in [cache]"});
  if (options_.prefix.empty() || options_.prefix.size() > 180 || !is_visible(options_.prefix))
    throw exception({errc::invalid_argument,
                     "memcache: the prefix of the keys must be 1 to 180 visible ASCII characters; shorten the name"});
  for (const auto& host : options_.hosts) name_ += (name_.empty() ? "memcache at " : ", ") + to_string(host);

  const auto mc = open();
  groups_.resize(options_.hosts.size());
  auto missing = groups_.size();
  for (int i = 0; missing > 0; ++i) {
    const auto text = std::to_string(i);
    auto& group = groups_[memcached_generate_hash(mc.get(), text.data(), text.size())];
    if (group.empty()) {
      group = text;
      --missing;
    }
  }
}

memcached_cache::~memcached_cache() = default;

memcached_cache::handle memcached_cache::open() const {
  handle mc{memcached_create(nullptr)};
  if (!mc) throw std::bad_alloc();
  const auto set = [&](memcached_behavior_t what, std::int64_t value) {
    memcached_behavior_set(mc.get(), what, static_cast<std::uint64_t>(value));
  };
  set(MEMCACHED_BEHAVIOR_NO_BLOCK, 1);  // else only the connecting has a time limit
  set(MEMCACHED_BEHAVIOR_TCP_NODELAY, 1);
  set(MEMCACHED_BEHAVIOR_TCP_KEEPALIVE, 1);
  set(MEMCACHED_BEHAVIOR_SUPPORT_CAS, 1);
  set(MEMCACHED_BEHAVIOR_CONNECT_TIMEOUT, options_.connect_timeout.count());
  set(MEMCACHED_BEHAVIOR_POLL_TIMEOUT, options_.answer_timeout.count());
  set(MEMCACHED_BEHAVIOR_RETRY_TIMEOUT, std::max<std::int64_t>(1, options_.retry_after.count() / 1000));
  // The order of the hosts must not matter, and one more of them move few keys.
  set(MEMCACHED_BEHAVIOR_DISTRIBUTION, MEMCACHED_DISTRIBUTION_CONSISTENT_KETAMA);
  for (const auto& host : options_.hosts) {
    const auto done = host.port == 0 ? memcached_server_add_unix_socket(mc.get(), host.host.c_str())
                                     : memcached_server_add(mc.get(), host.host.c_str(), host.port);
    if (done != MEMCACHED_SUCCESS)
      throw exception({errc::invalid_argument, "memcache: " + to_string(host) + " cannot be used as a server: " +
                                                   memcached_strerror(mc.get(), done) + "; correct HOST in [cache]"});
  }
  return mc;
}

/// `act` answers a memcached_return_t. A connection that broke is tried anew once.
template <class Act>
int memcached_cache::with_handle(Act act, std::string& why) {
  for (int tried = 0;; ++tried) {
    auto lease = handles_.get();
    const int code = act(lease->get());
    if (is_answer(code)) return code;
    const auto* text = memcached_last_error_message(lease->get());
    why = in_short(text != nullptr ? text : memcached_strerror(lease->get(), static_cast<memcached_return_t>(code)));
    if (!is_broken_connection(code)) return code;
    if (tried > 0) return code;  // this handle knows the server as failed and does not ask it for a while
    lease.discard();
  }
}

std::string memcached_cache::full_key(std::string_view key) const { return safe_cache_key(options_.prefix, key); }

error memcached_cache::failed(int code, const std::string& why) const {
  if (code == MEMCACHED_E2BIG)
    return {errc::too_large, "cache " + name_ +
                                 ": the value is larger than the server takes (1 MiB by default); keep it elsewhere, "
                                 "or start memcached with a larger -I"};
  return {errc::backend_failed, "cache " + name_ + ": " + why + "; look whether it runs and HOST in [cache] is right"};
}

/// The value of a key and the generation, in one request to the key's server.
int memcached_cache::look(memcached_st* mc, const std::string& key, found& out) const {
  out = {};
  const std::array keys{generation_key_.data(), key.data()};
  const std::array lengths{generation_key_.size(), key.size()};
  if (const auto sent = memcached_mget_by_key(mc, key.data(), key.size(), keys.data(), lengths.data(), keys.size());
      sent != MEMCACHED_SUCCESS)
    return sent;
  std::uint32_t flags = 0;
  std::optional<std::string> value;
  memcached_result_st result;
  memcached_result_create(mc, &result);
  memcached_return_t code = MEMCACHED_SUCCESS;
  while (memcached_fetch_result(mc, &result, &code) != nullptr) {
    const std::string_view name{memcached_result_key_value(&result), memcached_result_key_length(&result)};
    const std::string_view bytes{memcached_result_value(&result), memcached_result_length(&result)};
    if (name == generation_key_) {
      std::uint32_t number = 0;
      if (std::from_chars(bytes.data(), bytes.data() + bytes.size(), number).ec == std::errc{}) out.generation = number;
    } else {
      value = bytes;
      flags = memcached_result_flags(&result);
      out.cas = memcached_result_cas(&result);
    }
  }
  memcached_result_free(&result);
  if (code != MEMCACHED_END && code != MEMCACHED_NOTFOUND && code != MEMCACHED_SUCCESS) return code;
  if (value && out.generation == flags) out.value = std::move(value);
  return MEMCACHED_SUCCESS;
}

/// The generation on the server of `group`; begins one where there is none, so that what was lost with the old one
/// stays unseen.
int memcached_cache::generation(memcached_st* mc, const std::string& group, std::uint32_t& out) const {
  for (int tried = 0; tried < 3; ++tried) {
    std::size_t length = 0;
    std::uint32_t flags = 0;
    memcached_return_t code = MEMCACHED_SUCCESS;
    char* text = memcached_get_by_key(mc, group.data(), group.size(), generation_key_.data(), generation_key_.size(),
                                      &length, &flags, &code);
    if (code == MEMCACHED_SUCCESS) {
      const bool good = text != nullptr && std::from_chars(text, text + length, out).ec == std::errc{};
      std::free(text);
      if (good) return code;
    } else if (code != MEMCACHED_NOTFOUND) {
      return code;
    }
    out = fresh_generation();
    const auto fresh = std::to_string(out);
    const auto added = memcached_add_by_key(mc, group.data(), group.size(), generation_key_.data(),
                                            generation_key_.size(), fresh.data(), fresh.size(), 0, 0);
    if (added == MEMCACHED_SUCCESS) return added;
    if (added != MEMCACHED_NOTSTORED) return added;  // somebody else was first: ask again
  }
  return MEMCACHED_FAILURE;
}

expected<void> memcached_cache::ping() {
  std::string why;
  const auto code = with_handle(
      [&](memcached_st* mc) {
        std::uint32_t unused = 0;
        for (const auto& group : groups_)
          if (const auto answer = generation(mc, group, unused); answer != MEMCACHED_SUCCESS) return answer;
        return static_cast<int>(MEMCACHED_SUCCESS);
      },
      why);
  if (code != MEMCACHED_SUCCESS) return failed(code, why);
  return {};
}

expected<std::optional<std::string>> memcached_cache::get(std::string_view key) {
  const auto full = full_key(key);
  found there;
  std::string why;
  const auto code = with_handle([&](memcached_st* mc) { return look(mc, full, there); }, why);
  if (code != MEMCACHED_SUCCESS) return failed(code, why);
  return std::move(there.value);
}

expected<bool> memcached_cache::exists(std::string_view key) {
  const auto value = get(key);
  if (!value) return value.failure();
  return value->has_value();
}

expected<void> memcached_cache::put(std::string_view key, std::string_view value, std::chrono::milliseconds ttl) {
  if (ttl < ttl.zero()) {
    const auto removed = remove(key);
    return removed ? expected<void>() : expected<void>(removed.failure());
  }
  const auto full = full_key(key);
  std::string why;
  const auto code = with_handle(
      [&](memcached_st* mc) -> int {
        std::uint32_t now = 0;
        if (const auto asked = generation(mc, full, now); asked != MEMCACHED_SUCCESS) return asked;
        return memcached_set(mc, full.data(), full.size(), value.data(), value.size(), expiration(ttl), now);
      },
      why);
  if (code != MEMCACHED_SUCCESS) return failed(code, why);
  return {};
}

expected<bool> memcached_cache::remove(std::string_view key) {
  const auto full = full_key(key);
  bool was_there = false;
  std::string why;
  const auto code = with_handle(
      [&](memcached_st* mc) -> int {
        found there;
        if (const auto looked = look(mc, full, there); looked != MEMCACHED_SUCCESS) return looked;
        if (!there.value) return MEMCACHED_SUCCESS;
        const auto deleted = memcached_delete(mc, full.data(), full.size(), 0);
        was_there = deleted == MEMCACHED_SUCCESS;
        return deleted;
      },
      why);
  if (code != MEMCACHED_SUCCESS && code != MEMCACHED_NOTFOUND) return failed(code, why);
  return was_there;
}

expected<std::optional<std::string>> memcached_cache::take(std::string_view key) {
  const auto full = full_key(key);
  std::optional<std::string> taken;
  std::string why;
  const auto code = with_handle(
      [&](memcached_st* mc) -> int {
        // It is overwritten by something that is over at once, on condition that it still is what was read.
        for (;;) {
          found there;
          if (const auto looked = look(mc, full, there); looked != MEMCACHED_SUCCESS) return looked;
          if (!there.value) return MEMCACHED_SUCCESS;
          const auto swapped = memcached_cas(mc, full.data(), full.size(), "", 0, already_over, 0, there.cas);
          if (swapped == MEMCACHED_SUCCESS) taken = std::move(there.value);
          if (swapped != MEMCACHED_DATA_EXISTS) return swapped;
        }
      },
      why);
  if (code != MEMCACHED_SUCCESS && code != MEMCACHED_NOTFOUND) return failed(code, why);
  return taken;
}

expected<void> memcached_cache::clear() {
  const auto fresh = std::to_string(fresh_generation());
  std::string why;
  const auto code = with_handle(
      [&](memcached_st* mc) -> int {
        for (const auto& group : groups_)
          if (const auto done = memcached_set_by_key(mc, group.data(), group.size(), generation_key_.data(),
                                                     generation_key_.size(), fresh.data(), fresh.size(), 0, 0);
              done != MEMCACHED_SUCCESS)
            return done;
        return MEMCACHED_SUCCESS;
      },
      why);
  if (code != MEMCACHED_SUCCESS) return failed(code, why);
  return {};
}

}  // namespace caravan
