#include "nodes/membership.hpp"

#include "nodes/foreign_thread.hpp"
#include "nodes/log.hpp"

#include <caf/all.hpp>

#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

namespace caravan {

using namespace std::chrono_literals;

namespace {
constexpr auto interval = 1s;
constexpr auto answer_timeout = 2s;
constexpr auto silence = 5s;
}  // namespace

class membership::impl {
public:
  explicit impl(options o) : options_(std::move(o)), table_(options_.me, options_.seeds, silence) {}

  ~impl() { leave(); }

  member_report exchange(const member_report& theirs) {
    const auto claims = options_.claims();
    bool news = false;
    member_report mine;
    {
      const std::lock_guard lock(mutex_);
      table_.tell(claims);
      mine = table_.report();
      if (leaving_) mine.refused = "node \"" + mine.name + "\": is about to end";
      const auto before = seen(theirs.name);
      if (theirs.refused.empty()) {
        if (const auto ok = table_.on_report(theirs, now()); !ok) mine.refused = ok.failure().text;
      } else {
        table_.on_gone(theirs.name, theirs.incarnation);  // it told that it ends
      }
      news = before != seen(theirs.name);
      if (news) news_ = true;
      // A way to its last start leads nowhere, and would be waited for.
      if (before.substr(0, before.find_first_of("+-")) != theirs.incarnation) ways_.erase(theirs.address);
    }
    if (news) wake_.notify_all();
    return mine;
  }

  expected<void> join(mesh& way, std::chrono::milliseconds patience) {
    way_ = &way;
    const auto end = now() + patience;
    {
      const std::lock_guard lock(mutex_);
      auto me = options_.me;
      me.address = way.address();
      table_ = member_table(me, options_.seeds, silence);
    }
    for (;;) {
      const auto asked = ask_all();
      if (!asked.refused.empty()) return error{asked.code, asked.refused};
      if (asked.failed == 0 || asked.answered > 0) return {};
      if (now() >= end) {
        options_.log->warn("cluster", "no address of JOIN answers (" + asked.why + "); this node begins alone, with queues of its own, and goes on asking");
        return {};
      }
      std::this_thread::sleep_for(50ms);
    }
  }

  void start() {
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  }

  void leave() {
    {
      const std::lock_guard lock(mutex_);
      if (std::exchange(leaving_, true)) return;
    }
    if (thread_.joinable()) {
      thread_.request_stop();
      wake_.notify_all();
      thread_.join();
    }
    const foreign_thread here;
    std::map<std::string, node_actor> ways;
    member_report last;
    {
      const std::lock_guard lock(mutex_);
      ways.swap(ways_);
      last = table_.report();
    }
    last.refused = "it ends";
    for (const auto& [address, node] : ways) caf::anon_send(node, last);
  }

  void tell() {
    {
      const std::lock_guard lock(mutex_);
      news_ = true;
    }
    wake_.notify_all();
  }

  template <class Call>
  auto with_table(Call call) const {
    const std::lock_guard lock(mutex_);
    return call(table_);
  }
  template <class Call>
  void change(Call call) {
    {
      const std::lock_guard lock(mutex_);
      call(table_);
    }
    tell();
  }

  expected<node_actor> node(const std::string& name) const {
    const std::lock_guard lock(mutex_);
    const auto it = table_.members().find(name);
    if (it == table_.members().end() || !it->second.alive) return no_such_node(name);
    const auto way = ways_.find(it->second.last.address);
    if (way == ways_.end())
      return error{errc::backend_failed,
                   "node \"" + name + "\" at " + it->second.last.address + ": there is no way to it now"};
    return way->second;
  }

  [[nodiscard]] error no_such_node(const std::string& name) const {
    std::string names;
    for (const auto& n : table_.alive()) names += (names.empty() ? "" : ", ") + n;
    return {errc::not_found, "node \"" + name + "\": is not there; those that live: " + names};
  }

  mutable std::mutex mutex_;
  std::string trouble_;

private:
  struct result {
    std::string why;  ///< the last failure
    std::size_t answered = 0;
    std::size_t failed = 0;
    std::string refused;
    errc code = errc::conflict;
  };

  static member_table::time now() { return std::chrono::steady_clock::now(); }

  // What makes a difference to others here. Under mutex_.
  std::string seen(const std::string& name) const {
    const auto it = table_.members().find(name);
    if (it == table_.members().end()) return {};
    const auto& m = it->second;
    std::string text = m.last.incarnation + (m.alive ? "+" : "-") + (m.last.cordoned ? "c" : "");
    for (const auto& c : m.last.homes) text += " " + c.queue + ":" + std::to_string(c.epoch) + (c.items > 0 ? "*" : "");
    return text;
  }

  // On one thread at a time. All are asked at once, so that one that is frozen costs its time once.
  result ask_all() {
    const foreign_thread here;
    const auto claims = options_.claims();
    std::vector<std::string> due;
    member_report mine;
    {
      const std::lock_guard lock(mutex_);
      table_.tell(claims);
      due = table_.due(now());
      mine = table_.report();
    }
    const auto asked_at = now();
    result all;
    struct asked {
      std::string address;
      node_actor node;
    };
    std::vector<asked> ready;
    for (const auto& address : due) {
      node_actor node;
      {
        const std::lock_guard lock(mutex_);
        if (const auto it = ways_.find(address); it != ways_.end()) node = it->second;
      }
      if (!node) {
        auto fresh = way_->connect(address);
        if (!fresh) {
          ++all.failed;
          all.why = fresh.failure().text;
          lost(address, asked_at, fresh.failure());
          continue;
        }
        node = *fresh;
      }
      ready.push_back({address, node});
    }
    if (ready.empty()) return all;
    caf::scoped_actor self{ready.front().node.home_system()};
    using reply = decltype(self->request(ready.front().node, caf::duration{answer_timeout}, mine));
    std::vector<reply> replies;
    for (const auto& a : ready) replies.push_back(self->request(a.node, caf::duration{answer_timeout}, mine));
    for (std::size_t i = 0; i < ready.size(); ++i) {
      const auto& a = ready[i];
      replies[i].receive(
          [&](const member_report& theirs) {
            ++all.answered;
            const auto ok = heard(a.address, a.node, theirs);
            if (!ok) {
              all.refused = ok.failure().text;
              all.code = ok.failure().code;
            }
          },
          [&](caf::error& e) {
            ++all.failed;
            lost(a.address, asked_at, {errc::backend_failed, a.address + ": does not answer: " + caf::to_string(e)});
          });
    }
    return all;
  }

  expected<void> heard(const std::string& address, const node_actor& node, const member_report& theirs) {
    std::string came;
    expected<void> ok;
    {
      const std::lock_guard lock(mutex_);
      const auto before = seen(theirs.name);
      const bool was_alive = before.find('+') != std::string::npos;
      const bool itself = theirs.incarnation == table_.me().incarnation;
      table_.on_answer(address);
      ok = table_.on_report(theirs, now());
      if (ok && !theirs.refused.empty()) {
        // It is about to end, or does not want this node.
        if (theirs.refused.find("about to end") == std::string::npos) ok = error{errc::conflict, theirs.refused};
        table_.on_gone(theirs.name, theirs.incarnation);
      }
      if (ok && !itself) ways_[address] = node;
      if (before != seen(theirs.name)) {
        news_ = true;
        if (!was_alive && ok && !itself) came = theirs.name;
      }
      trouble_ = ok ? "" : ok.failure().text;
    }
    if (!came.empty()) options_.log->info("cluster", "node \"" + came + "\" is there", {{"address", address}});
    return ok;
  }

  void lost(const std::string& address, member_table::time asked_at, const error& why) {
    std::string gone;
    {
      const std::lock_guard lock(mutex_);
      ways_.erase(address);
      table_.on_failure(address, now());
      for (const auto& [name, m] : table_.members()) {
        if (!m.alive || m.last.address != address || m.heard > asked_at) continue;
        gone = name;
        news_ = true;
      }
      if (!gone.empty()) table_.on_gone(gone, table_.members().at(gone).last.incarnation);
    }
    if (!gone.empty()) options_.log->warn("cluster", "node \"" + gone + "\" is gone: " + why.text);
  }

  void run(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      const auto asked = ask_all();
      if (!asked.refused.empty() && asked.refused != told_) options_.log->error("cluster", asked.refused);
      told_ = asked.refused;
      bool changed = false;
      {
        const std::lock_guard lock(mutex_);
        if (table_.on_tick(now())) news_ = true;
        changed = std::exchange(news_, false);
      }
      // Now and then without news: some wait for time to pass.
      if (const auto at = std::chrono::steady_clock::now(); changed || std::exchange(first_, false) || at - told_at_ >= 2 * interval) {
        told_at_ = at;
        options_.changed();
      }
      std::unique_lock lock(mutex_);
      wake_.wait_for(lock, interval, [&] { return news_ || stop.stop_requested(); });
    }
  }

  const options options_;
  mesh* way_ = nullptr;
  member_table table_;
  std::map<std::string, node_actor> ways_;  ///< by address
  std::condition_variable wake_;
  bool news_ = false;
  bool leaving_ = false;
  bool first_ = true;  ///< only the thread
  std::chrono::steady_clock::time_point told_at_;  ///< likewise
  std::string told_;   ///< likewise
  std::jthread thread_;
};

membership::membership(options o) : impl_(std::make_unique<impl>(std::move(o))) {}
membership::~membership() = default;
member_report membership::exchange(const member_report& theirs) { return impl_->exchange(theirs); }
expected<void> membership::join(mesh& way, std::chrono::milliseconds patience) { return impl_->join(way, patience); }
void membership::start() { impl_->start(); }
void membership::leave() { impl_->leave(); }
void membership::tell() { impl_->tell(); }
void membership::cordon(bool on) {
  impl_->change([&](member_table& t) { t.cordon(on); });
}
bool membership::cordoned() const {
  return impl_->with_table([](const member_table& t) { return t.me().cordoned; });
}
void membership::tell_http(std::string address) {
  impl_->change([&](member_table& t) { t.tell_http(std::move(address)); });
}
member_table::home membership::home_of(const std::string& queue) const {
  return impl_->with_table([&](const member_table& t) { return t.home_of(queue); });
}
bool membership::first_candidate(const std::string& queue) const {
  return impl_->with_table([&](const member_table& t) { return t.first_candidate(queue); });
}
std::vector<member_table::member> membership::members() const {
  return impl_->with_table([](const member_table& t) {
    std::vector<member_table::member> all{{t.me(), {}, true}};
    for (const auto& [name, m] : t.members()) all.push_back(m);
    std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.last.name < b.last.name; });
    return all;
  });
}
expected<mesh_peer> membership::peer(const std::string& name) const {
  return impl_->with_table([&](const member_table& t) -> expected<mesh_peer> {
    const auto it = t.members().find(name);
    if (it == t.members().end() || !it->second.alive) return impl_->no_such_node(name);
    return mesh_peer{name, it->second.last.incarnation, it->second.last.address};
  });
}
expected<node_actor> membership::node(const std::string& name) const { return impl_->node(name); }
std::string membership::trouble_text() const {
  const std::lock_guard lock(impl_->mutex_);
  return impl_->trouble_;
}

}  // namespace caravan
