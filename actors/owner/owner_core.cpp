#include "actors/owner/owner_core.hpp"

#include <algorithm>

namespace caravan {

using namespace std::chrono_literals;

namespace {
constexpr auto first_pause = 50ms;
constexpr auto longest_pause = 1s;
}  // namespace

owner_core::owner_core(duration lease, std::uint64_t seed) : lease_(lease), next_(time{}), random_(seed) {}

owner_core::action owner_core::due(time now) const {
  if (!next_ || now < *next_) return action::none;
  return owns() ? action::renew : action::acquire;
}

std::optional<owner_core::time> owner_core::next_wake() const { return next_; }

void owner_core::on_acquired(std::uint64_t epoch, time sent) {
  epoch_ = epoch;
  on_renewed(sent);
}

void owner_core::on_renewed(time sent) {
  certain_until_ = sent + lease_ - lease_ / 10;
  next_ = sent + lease_ / 3;
  failed_pause_ = {};
}

void owner_core::on_held(duration left, time now) {
  failed_pause_ = {};
  // A little later, each node another little: all wait for the same moment.
  const auto spread = std::max<duration>(lease_ / 20, 1ms).count();
  next_ = now + std::clamp<duration>(left, duration::zero(), lease_) +
          duration{std::uniform_int_distribution<duration::rep>(0, spread)(random_)} + 1ms;
}

void owner_core::on_fenced(time now) {
  epoch_ = 0;
  certain_until_ = {};
  failed_pause_ = {};
  next_ = now;
}

void owner_core::on_failed(time now) {
  failed_pause_ = std::clamp<duration>(failed_pause_ * 2, first_pause, longest_pause);
  next_ = now + failed_pause_;
}

void owner_core::on_chance(time now) {
  if (next_ && !owns()) next_ = std::min(*next_, now);
  // Also one that owns it makes sure: what failed may work again.
  if (next_ && owns() && failed_pause_ > duration::zero()) next_ = std::min(*next_, now);
}

void owner_core::on_given_up(duration pause, time now) {
  on_fenced(now);
  next_ = now + pause;
}

void owner_core::resign() {
  next_.reset();
  epoch_ = 0;
  certain_until_ = {};
}

}  // namespace caravan
