// Moves of one queue between two nodes that crash at every step, over a network that loses, delays and doubles
// messages, with disks that do not say whether they have written. At any time at most one of them may write; at the end
// exactly one does, and it has every row as it was changed last.
//
// CARAVAN_SEED: one run only, of that seed. CARAVAN_RUNS: how many (500).
#define CAF_SUITE move_simulation
#include "actors/move/move_source_core.hpp"
#include "actors/move/move_target_core.hpp"

#include <caf/test/unit_test.hpp>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <vector>

using namespace caravan;
using namespace std::chrono_literals;

namespace {

using time_point = move_source_core::time;
using rows = std::map<std::uint64_t, std::string>;

struct failure {
  std::string what;
};

struct note {
  int home = 0;
  std::uint64_t epoch = 1;
  std::uint64_t move = 0;
  move_note promised;
};

class world {
public:
  explicit world(std::uint64_t seed) : random_(seed) {
    for (int i = 0; i < 2; ++i) restart(nodes_[i], i);
    for (std::uint64_t id = 1; id <= 30; ++id) change(nodes_[0], id);
  }

  void run() {
    for (int i = 0; i < 3'000; ++i) {
      step(true);
      check();
    }
    // Nothing more goes wrong: it must come to rest.
    for (auto& n : nodes_)
      if (!n.up) restart(n, index(n));
    for (int i = 0; i < 200'000 && !at_rest(); ++i) {
      step(false);
      check();
    }
    if (!at_rest()) throw failure{"it does not come to rest"};
    int owners = 0;
    for (auto& n : nodes_) {
      if (!writes(n)) continue;
      ++owners;
      if (n.data != truth_) throw failure{"the owner's rows are not those that were acknowledged"};
    }
    if (owners != 1) throw failure{std::to_string(owners) + " owners at the end"};
  }

  std::size_t moved = 0, undone = 0, crashes = 0, asked = 0;

private:
  struct node {
    bool up = false;
    // On disk.
    note book;
    rows data;
    // In memory.
    bool serves = false;
    bool frozen = false;
    std::unique_ptr<move_source_core> source;
    move_source_effects sfx;
    std::unique_ptr<move_target_core> target;
    move_target_effects tfx;
    std::set<std::uint64_t> changed;
    bool watching = false;
    std::uint64_t cursor = 0;
    bool base_read = false;
    unsigned life = 0;
  };
  struct mail {
    time_point at;
    std::function<void()> arrive;
  };

  [[nodiscard]] int index(const node& n) const { return &n == &nodes_[0] ? 0 : 1; }
  static std::string name(int i) { return i == 0 ? "a" : "b"; }
  std::uint64_t dice(std::uint64_t n) { return random_() % n; }

  [[nodiscard]] bool writes(const node& n) const { return n.up && n.serves; }

  void check() {
    if (writes(nodes_[0]) && writes(nodes_[1])) throw failure{"two owners"};
    // One that is down, and would serve again when it is up, counts as well.
    const auto would = [&](const node& n) { return n.up ? n.serves : n.book.home == index(n); };
    if (would(nodes_[0]) && would(nodes_[1])) throw failure{"two owners after a restart"};
  }

  [[nodiscard]] bool at_rest() const {
    return mails_.empty() && !nodes_[0].source && !nodes_[1].source && nodes_[0].target->doubt().move == settled(0) &&
           nodes_[1].target->doubt().move == settled(1);
  }
  // The target of the last move keeps it as what it owns by.
  [[nodiscard]] std::uint64_t settled(int i) const {
    const auto& n = nodes_[i];
    return n.serves && !n.target->idle() && !n.target->promised() ? n.target->doubt().move : 0;
  }

  void send(std::function<void()> arrive) {
    if (faults_ && dice(25) == 0) return;
    const auto once = [&] {
      mails_.push_back({now_ + std::chrono::milliseconds(1 + dice(faults_ && dice(20) == 0 ? 3'000 : 20)), arrive});
    };
    once();
    if (faults_ && dice(12) == 0) once();
  }

  void change(node& n, std::uint64_t id) {
    if (dice(3) == 0) {
      n.data.erase(id);
      truth_.erase(id);
    } else {
      n.data[id] = truth_[id] = std::to_string(++versions_);
    }
    if (n.watching) n.changed.insert(id);
  }

  void restart(node& n, int i) {
    ++n.life;
    n.up = true;
    n.source.reset();
    n.sfx = {};
    n.tfx = {};
    n.frozen = n.watching = n.base_read = false;
    n.changed.clear();
    n.serves = n.book.home == i;
    n.target = std::make_unique<move_target_core>(name(i), n.book.epoch, move_target_core::limits{});
    if (n.book.promised.move != 0) {
      n.target->resume(n.book.promised, now_, n.tfx);
      perform_target(n);
    }
  }

  void crash(node& n) {
    ++crashes;
    n.up = n.serves = false;
    n.source.reset();
  }

  void begin_move(node& n) {
    move_source_core::subject s;
    s.queue = "mail";
    s.from = name(index(n));
    s.to = name(1 - index(n));
    s.move = ++last_move_;
    s.epoch = n.book.epoch + 1;
    move_source_core::limits l;
    l.window = 2;
    l.freeze_at = 3;
    l.rounds = 5;
    n.source = std::make_unique<move_source_core>(s, l);
    n.sfx = {};
    n.changed.clear();
    n.watching = true;
    n.cursor = 0;
    n.base_read = false;
    n.source->begin(now_, n.sfx);
    perform_source(n);
  }

  move_part read(node& n) {
    move_part p;
    const auto row = [&](std::uint64_t id) {
      record r;
      r.id = item_id{id};
      r.payload = n.data.at(id);
      return r;
    };
    if (!n.base_read) {
      for (auto it = n.data.upper_bound(n.cursor); it != n.data.end() && p.rows.size() < 5; ++it) {
        n.cursor = it->first;
        if (!n.changed.contains(it->first)) p.rows.push_back(row(it->first));
      }
      n.base_read = n.data.upper_bound(n.cursor) == n.data.end();
      return p;
    }
    for (int i = 0; i < 4 && !n.changed.empty(); ++i) {
      const auto id = *n.changed.begin();
      n.changed.erase(n.changed.begin());
      if (n.data.contains(id))
        p.changed.push_back(row(id));
      else
        p.gone.push_back(item_id{id});
    }
    p.all_read = true;
    p.pending = n.changed.size();
    return p;
  }

  void perform_source(node& n) {
    auto& fx = n.sfx;
    const auto life = n.life;
    const auto me = index(n);
    while (n.up && n.life == life && n.source) {
      if (faults_ && dice(300) == 0) return crash(n);
      if (!fx.send.empty()) {
        for (auto& s : std::exchange(fx.send, {})) send([this, s, to = 1 - me] { arrive(nodes_[to], s); });
      } else if (std::exchange(fx.freeze, false)) {
        n.frozen = true;
        n.source->on_frozen({}, now_, fx);
      } else if (std::exchange(fx.thaw, false)) {
        n.frozen = false;
      } else if (std::exchange(fx.decide, false)) {
        decide(n);
      } else if (std::exchange(fx.read_back, false)) {
        read_back(n);
      } else if (std::exchange(fx.hand_over, false)) {
        n.serves = n.frozen = n.watching = false;
        n.target->know(n.book.epoch);
      } else if (std::exchange(fx.read, false)) {
        n.source->on_part(read(n), now_, fx);
      } else if (std::exchange(fx.finished, false)) {
        n.source->at() == move_source_core::step::done ? ++moved : ++undone;
        n.source.reset();
        n.watching = false;
      } else {
        return;
      }
    }
  }

  void write_decision(node& n) {
    const auto& s = n.source->what();
    n.book = {1 - index(n), s.epoch, s.move, {}};
  }

  void decide(node& n) {
    using enum move_source_core::decision;
    const auto luck = faults_ ? dice(6) : 0;
    if (luck < 4) {
      write_decision(n);
      n.source->on_decided(written, now_, n.sfx);
    } else if (luck == 4) {
      if (dice(2) == 0) write_decision(n);
      n.source->on_decided(unknown, now_, n.sfx);
    } else {
      n.source->on_decided(not_written, now_, n.sfx);
    }
  }

  void read_back(node& n) {
    using enum move_source_core::decision;
    if (faults_ && dice(3) == 0) return n.source->on_decided(unknown, now_, n.sfx);
    n.source->on_decided(n.book.move == n.source->what().move ? written : not_written, now_, n.sfx);
  }

  void arrive(node& n, const move_step& s) {
    if (!n.up) return;
    n.target->on_step(s, now_, n.tfx);
    perform_target(n, s.from == "a" ? 0 : 1);
  }

  void perform_target(node& n, int source = -1) {
    auto& fx = n.tfx;
    const auto me = index(n);
    for (;;) {
      if (faults_ && dice(300) == 0) return crash(n);
      if (std::exchange(fx.forget_note, false)) {
        n.book.promised = {};
      } else if (const auto seq = std::exchange(fx.wipe, std::nullopt)) {
        if (n.serves) throw failure{"the owner's rows are wiped"};
        n.data.clear();
        n.target->on_done(*seq, {}, now_, fx);
      } else if (const auto s = std::exchange(fx.apply, std::nullopt)) {
        if (n.serves) throw failure{"rows come to the owner"};
        for (const auto* list : {&s->rows, &s->changed})
          for (const auto& r : *list) n.data[r.id.value] = r.payload;
        for (const auto id : s->gone) n.data.erase(id.value);
        n.target->on_done(s->seq, faults_ && dice(40) == 0 ? "no room" : "", now_, fx);
      } else if (const auto k = std::exchange(fx.keep, std::nullopt)) {
        n.book.promised = fx.note;
        n.target->on_done(k->seq, {}, now_, fx);
      } else if (std::exchange(fx.activate, false)) {
        if (faults_ && dice(8) == 0) {
          n.target->on_active("the disk refuses", now_, fx);
        } else {
          n.book = {me, n.target->doubt().epoch, n.book.move, {}};
          n.serves = true;
          n.target->on_active({}, now_, fx);
        }
      } else if (std::exchange(fx.ask, false)) {
        ++asked;
        const auto move = n.target->doubt().move;
        send([this, me, move] {
          const auto& from = nodes_[1 - me];
          if (!from.up) return;
          auto outcome = from.book.move == move ? move_outcome::committed : move_outcome::aborted;
          // What the disk says counts when the source has read it itself.
          if (from.source && from.source->what().move == move && from.serves) outcome = move_outcome::pending;
          send([this, me, move, outcome] {
            if (!nodes_[me].up) return;
            nodes_[me].target->on_decision(move, outcome, now_, nodes_[me].tfx);
            perform_target(nodes_[me]);
          });
        });
      } else if (auto a = std::exchange(fx.answer, std::nullopt)) {
        if (source < 0) continue;
        send([this, source, a = *a] {
          auto& n2 = nodes_[source];
          if (!n2.up || !n2.source) return;
          n2.source->on_answer(a, now_, n2.sfx);
          perform_source(n2);
        });
      } else {
        return;
      }
    }
  }

  void step(bool faults) {
    faults_ = faults;
    // The next thing that is due, or a short while.
    auto next = now_ + 50ms;
    for (const auto& m : mails_) next = std::min(next, std::max(m.at, now_));
    now_ = next;
    std::vector<mail> due;
    std::erase_if(mails_, [&](const mail& m) {
      if (m.at > now_) return false;
      due.push_back(m);
      return true;
    });
    std::shuffle(due.begin(), due.end(), random_);
    for (const auto& m : due) m.arrive();
    for (auto& n : nodes_) {
      if (!n.up) {
        if (dice(20) == 0) restart(n, index(n));
        continue;
      }
      if (faults && dice(1'500) == 0) {
        crash(n);
        continue;
      }
      n.target->on_tick(now_, n.tfx);
      perform_target(n);
      if (!n.up) continue;
      if (n.source) {
        n.source->on_tick(now_, n.sfx);
        perform_source(n);
      }
      if (!n.up) continue;
      if (n.serves && !n.frozen && faults && dice(3) == 0) change(n, 1 + dice(40));
      if (faults && n.serves && !n.source && dice(30) == 0) begin_move(n);
    }
  }

  std::mt19937_64 random_;
  time_point now_{1h};
  bool faults_ = false;
  node nodes_[2];
  std::vector<mail> mails_;
  rows truth_;
  std::uint64_t versions_ = 0;
  std::uint64_t last_move_ = 0;
};

std::uint64_t number(const char* variable, std::uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text && *text ? std::strtoull(text, nullptr, 10) : otherwise;
}

}  // namespace

CAF_TEST(whatever happens exactly one node owns the queue and nothing is lost) {
  const auto only = number("CARAVAN_SEED", 0);
  const auto runs = only ? 1 : number("CARAVAN_RUNS", 500);
  std::size_t moved = 0, undone = 0, crashes = 0, asked = 0;
  for (std::uint64_t i = 0; i < runs; ++i) {
    const auto seed = only ? only : i + 1;
    world w(seed);
    try {
      w.run();
    } catch (const failure& f) {
      CAF_FAIL("CARAVAN_SEED=" << seed << ": " << f.what);
    }
    moved += w.moved;
    undone += w.undone;
    crashes += w.crashes;
    asked += w.asked;
  }
  CAF_MESSAGE(runs << " runs: " << moved << " moves, " << undone << " undone, " << crashes << " crashes, " << asked
                   << " questions");
  CAF_CHECK(only != 0 || moved > runs / 2);
  CAF_CHECK(only != 0 || undone > runs / 2);
}
