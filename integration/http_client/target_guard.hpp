#pragma once

/// Whether the target of an HTTP handler may be called now. No network here.

#include "toolbox/breaker.hpp"
#include "toolbox/clock.hpp"
#include "toolbox/shedder.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <variant>

namespace caravan::http_client {

enum class target_change : std::uint8_t {
  opened,  ///< the breaker begins to refuse calls
  closed,  ///< it refuses none any more
  paused,  ///< the target asked not to be called for a while
};

struct guard_options {
  bool breaker = false;  ///< refuses a share of the calls while too few succeed
  bool shedder = false;  ///< refuses calls beyond what this machine gets done while its processors are busy
  /// What changes, with words and, for `paused`, how long. On the thread of a call, without a lock; must not throw.
  std::function<void(target_change, const std::string&, std::chrono::milliseconds)> on_change{};
  std::function<int()> load{};  ///< of the processors, 0 to 1000; empty: as the kernel says
  const toolbox::clock* clock = &toolbox::real_clock::shared();  ///< outlives the guard
  std::uint64_t seed = 0;                                        ///< of the breaker's draw; 0: a random one
};

/// A pause that a target asks for (429 or 503 with Retry-After) holds for all calls to it that begin later; it is
/// always obeyed. Thread safe.
class target_guard {
public:
  explicit target_guard(guard_options options);

  enum class reason : std::uint8_t { paused, breaker, shedder };
  struct refusal {
    reason why = reason::paused;
    std::string text;                    ///< for people
    std::chrono::milliseconds delay{0};  ///< not before
  };
  /// A call under way; one that says nothing was broken off and counts neither way for the shedder, and as good for the
  /// breaker: it tells nothing about the target.
  class call {
  public:
    call(call&&) = default;
    call& operator=(call&&) = delete;
    ~call();
    void succeeded();
    void failed();

  private:
    friend class target_guard;
    explicit call(target_guard& of) : of_(&of) {}
    target_guard* of_;
    std::optional<toolbox::breaker::ticket> ticket_{};
    std::optional<toolbox::shedder::pass> pass_{};
    bool told_ = false;
  };
  [[nodiscard]] std::variant<call, refusal> begin();

  /// `status` is that of the answer. Extends a pause, never shortens it.
  void pause(std::chrono::milliseconds length, int status);

  /// Why calls are refused now; empty: they are not.
  [[nodiscard]] std::string restraint() const;

private:
  [[nodiscard]] std::chrono::milliseconds pause_left() const;
  void tell(target_change what, const std::string& text, std::chrono::milliseconds length = {}) const;
  void set_open(bool open, const std::string& text);

  const guard_options options_;
  std::unique_ptr<toolbox::breaker> breaker_;
  std::unique_ptr<toolbox::shedder> shedder_;
  mutable std::mutex mutex_;
  toolbox::steady_time paused_until_{};
  int paused_by_ = 0;  ///< the status
  bool open_ = false;
};

/// How busy the processors of this machine are, 0 to 1000, as an average of about a second. 0 where the kernel does not
/// say. Reads /proc/stat at most four times a second. Thread safe.
[[nodiscard]] int processor_load();

}  // namespace caravan::http_client
