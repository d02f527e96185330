#include "nodes/limit_host.hpp"

#include "config/redis_address.hpp"
#include "config/values.hpp"
#include "integration/memory/memory_rate.hpp"
#include "integration/redis/redis_rate.hpp"

#include <algorithm>
#include <utility>

namespace caravan {

namespace {

constexpr std::size_t longest_key = 1024;
constexpr std::size_t most_busy_keys = 1000;
constexpr std::chrono::seconds rest{1};  // of a store that did not answer

std::uint64_t most_at_once(const rate_rule& r) { return r.how == rate_rule::kind::period ? r.rate : r.burst; }

}  // namespace

hosted_limit::hosted_limit(config::limit_settings s, std::shared_ptr<rate_limiter> store,
                           std::function<void(const std::string&)> alarm, const toolbox::clock& time)
    : settings_(std::move(s)),
      store_(std::move(store)),
      local_(settings_.down == config::when_down::local ? std::make_unique<memory_rate>(time) : nullptr),
      alarm_(std::move(alarm)),
      time_(time),
      rule_{settings_.kind == config::limit_kind::period ? rate_rule::kind::period : rate_rule::kind::tokens,
            settings_.rate, settings_.per, settings_.burst},
      busy_(most_busy_keys) {}

expected<void> hosted_limit::check(std::string_view key) const {
  if (key.size() > longest_key)
    return {errc::invalid_argument, "limit \"" + settings_.name + "\": a key of " + std::to_string(key.size()) +
                                        " bytes; at most " + std::to_string(longest_key) + " are possible"};
  return {};
}

expected<bool> hosted_limit::take(std::string_view key, std::uint64_t n) {
  if (const auto ok = check(key); !ok) return ok.failure();
  const auto now_rule = rule();
  if (n == 0 || n > most_at_once(now_rule))
    return {errc::invalid_argument, "limit \"" + settings_.name + "\": " + std::to_string(n) +
                                        " can never be taken at once; take 1 to " +
                                        std::to_string(most_at_once(now_rule)) +
                                        (now_rule.how == rate_rule::kind::period ? " (RATE)" : " (BURST)")};
  const auto answer = may_ask() ? ask(key, now_rule, n) : expected<bool>(error{errc::backend_failed, "it rests"});
  const bool permitted = answer ? *answer : while_down(key, now_rule, n);
  const std::lock_guard guard{mutex_};
  (permitted ? numbers_.taken : numbers_.refused) += n;
  if (!answer) ++numbers_.failures;
  busy_.count(key, permitted, n);
  return permitted;
}

expected<bool> hosted_limit::ask(std::string_view key, const rate_rule& rule, std::uint64_t n) {
  auto answer = store_->take(key, rule, n);
  note(answer);
  return answer;
}

// One that did not answer is asked by one caller a second: the others need not wait for it in vain.
bool hosted_limit::may_ask() {
  const std::lock_guard guard{mutex_};
  if (!numbers_.down) return true;
  if (time_.now() < rests_until_) return false;
  rests_until_ = time_.now() + rest;
  return true;
}

void hosted_limit::note(const expected<bool>& answer) {
  bool news = false;
  {
    const std::lock_guard guard{mutex_};
    news = std::exchange(numbers_.down, !answer) == answer.has_value();
    if (!answer) rests_until_ = time_.now() + rest;
  }
  if (!news || !alarm_) return;
  if (answer) return alarm_("");
  alarm_(answer.failure().text);
}

bool hosted_limit::while_down(std::string_view key, const rate_rule& rule, std::uint64_t n) {
  switch (settings_.down) {
    case config::when_down::open:
      return true;
    case config::when_down::local:
      return local_->take(key, rule, n).value();
    case config::when_down::closed:
      break;
  }
  return false;
}

expected<void> hosted_limit::reset(std::string_view key) {
  if (const auto ok = check(key); !ok) return ok;
  if (local_) (void)local_->reset(key);
  return store_->reset(key);
}

rate_rule hosted_limit::rule() const {
  const std::lock_guard guard{mutex_};
  return rule_;
}

expected<void> hosted_limit::set_rule(rate_rule rule) {
  const auto no = [&](const char* why) {
    return error{errc::invalid_argument, "limit \"" + settings_.name + "\": " + why};
  };
  if (rule.per < std::chrono::milliseconds{1}) return no("PER must be at least 1ms");
  if (rule.how == rate_rule::kind::period && rule.rate == 0) return no("RATE must be 1 or more for KIND = period");
  if (rule.how == rate_rule::kind::tokens && rule.burst == 0) return no("BURST must be 1 or more");
  const std::lock_guard guard{mutex_};
  rule_ = rule;
  return {};
}

hosted_limit::numbers hosted_limit::statistics() const {
  const std::lock_guard guard{mutex_};
  return numbers_;
}

std::vector<busy_keys::usage> hosted_limit::top(std::size_t n) const {
  const std::lock_guard guard{mutex_};
  return busy_.top(n);
}

limit_host::limit_host(parts p) {
  std::map<std::string, std::shared_ptr<redis_client>> clients;
  for (auto& s : p.limits) {
    std::shared_ptr<rate_limiter> store;
    if (s.store == config::limit_store::redis) {
      auto& client = clients[s.conn];
      if (!client)
        client = std::make_shared<redis_client>(redis_rate_options(config::parse_redis_address(s.conn).value()));
      store = std::make_shared<redis_rate>(client, "caravan:limit." + s.name);
    } else {
      store = std::make_shared<memory_rate>(*p.time);
    }
    auto alarm = [log = p.log, name = s.name, down = s.down, tell = p.on_trouble](const std::string& text) {
      constexpr const char* meanwhile[] = {"permits nothing", "permits everything",
                                           "permits what this node alone counts"};
      if (text.empty())
        log->info("limit", "its Redis answers again", {{"limit", name}});
      else
        log->error("limit", text + "; until it answers, the limit " + meanwhile[static_cast<std::size_t>(down)],
                   {{"limit", name}});
      if (tell) tell(name, text);
    };
    all_.push_back(std::make_shared<hosted_limit>(std::move(s), std::move(store), std::move(alarm), *p.time));
  }
}

expected<std::shared_ptr<hosted_limit>> limit_host::find(std::string_view name) const {
  std::vector<std::string_view> names;
  for (const auto& l : all_) {
    if (l->settings().name == name) return l;
    names.push_back(l->settings().name);
  }
  const auto near = config::nearest(name, names);
  return {errc::not_found, "there is no limit \"" + std::string(name.substr(0, 128)) + "\" on this node" +
                               (near.empty() ? "; add [limit.NAME] to its configuration"
                                             : "; did you mean \"" + std::string(near) + "\"?")};
}

}  // namespace caravan
