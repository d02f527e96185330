#include "integration/redis/redis_client.hpp"
#include "integration/redis/redis_connection.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <mutex>
#include <set>
#include <system_error>
#include <thread>

namespace caravan {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

class redis_subscriber::impl {
public:
  impl(redis_options o, std::vector<std::string> channels, events e)
      : options_(std::move(o)),
        on_(std::move(e)),
        wanted_(channels.begin(), channels.end()),
        wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (wake_ < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
    thread_ = std::jthread([this](std::stop_token stop) { run(stop); });
  }
  ~impl() {
    thread_.request_stop();
    knock();
    thread_.join();
    ::close(wake_);
  }

  void change(const std::string& channel, bool listen) {
    {
      const std::lock_guard lock(mutex_);
      if (listen)
        wanted_.insert(channel);
      else
        wanted_.erase(channel);
    }
    knock();
  }

private:
  void knock() {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto n = ::write(wake_, &one, sizeof one);
  }

  // False: woken by a knock or the time is up; true: the socket has something.
  bool wait(int fd, int timeout_ms) {
    pollfd both[2] = {{wake_, POLLIN, 0}, {fd, POLLIN, 0}};
    ::poll(both, fd < 0 ? 1 : 2, timeout_ms);
    if (both[0].revents != 0) {
      std::uint64_t count = 0;
      [[maybe_unused]] const auto n = ::read(wake_, &count, sizeof count);
    }
    return fd >= 0 && both[1].revents != 0;
  }

  void run(const std::stop_token& stop) {
    bool told = false;
    auto pause = 20ms;
    while (!stop.stop_requested()) {
      auto made = redis_connection::open(options_);
      error why;
      if (made) {
        pause = 20ms;
        told = false;
        why = listen(stop, **made);
        if (stop.stop_requested()) return;
      } else {
        why = made.failure();
      }
      if (!std::exchange(told, true) && on_.lost) on_.lost(why);
      wait(-1, static_cast<int>(pause.count()));
      pause = std::min(pause * 2, 1000ms);
    }
  }

  // Until the connection breaks or the subscriber ends.
  error listen(const std::stop_token& stop, redis_connection& c) {
    std::set<std::string> have;
    std::size_t unconfirmed = 0;
    bool announced = false;
    while (!stop.stop_requested()) {
      std::string commands;
      {
        const std::lock_guard lock(mutex_);
        for (const auto& w : wanted_)
          if (have.insert(w).second) {
            encode_command(commands, {"SUBSCRIBE", w});
            ++unconfirmed;
          }
        for (auto it = have.begin(); it != have.end();)
          if (wanted_.contains(*it)) {
            ++it;
          } else {
            encode_command(commands, {"UNSUBSCRIBE", *it});
            it = have.erase(it);
          }
      }
      if (!commands.empty()) {
        announced = false;
        if (auto ok = c.send(commands, steady_clock::now() + options_.command_timeout); !ok) return ok.failure();
      }
      if (unconfirmed == 0 && !announced) {
        announced = true;
        if (on_.listening) on_.listening();
      }
      // Without a channel, or with all confirmed, it may be silent for ever; keepalive finds a peer that is gone.
      if (!c.holds_reply() &&
          !wait(c.fd(), unconfirmed > 0 ? static_cast<int>(options_.command_timeout.count()) : -1)) {
        if (unconfirmed > 0 && commands.empty())
          return {errc::backend_failed, "redis " + c.peer() + ": no answer to SUBSCRIBE"};
        continue;
      }
      auto reply = c.receive(steady_clock::now() + options_.command_timeout);
      if (!reply) return reply.failure();
      if (reply->is_error()) return {errc::backend_failed, "redis " + c.peer() + ": " + reply->text};
      if (!reply->has(3)) continue;
      auto& items = reply->items;
      if (items[0].text == "message")
        on_.message(items[1].text, std::move(items[2].text));
      else if (items[0].text == "subscribe" && unconfirmed > 0)
        --unconfirmed;
    }
    return {};
  }

  const redis_options options_;
  const events on_;
  std::mutex mutex_;
  std::set<std::string> wanted_;
  const int wake_;
  std::jthread thread_;
};

redis_subscriber::redis_subscriber(redis_options options, std::vector<std::string> channels, events on)
    : impl_(std::make_unique<impl>(std::move(options), std::move(channels), std::move(on))) {}
redis_subscriber::~redis_subscriber() = default;
void redis_subscriber::add(const std::string& channel) { impl_->change(channel, true); }
void redis_subscriber::remove(const std::string& channel) { impl_->change(channel, false); }

}  // namespace caravan
