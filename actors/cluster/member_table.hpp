#pragma once

/// Who belongs to a cluster without Redis, and where the home of each queue is. No CAF, no I/O, no clock.

#include "messages/member_words.hpp"

#include <caravan/error.hpp>

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace caravan {

/// Not thread safe.
class member_table {
public:
  using time = std::chrono::steady_clock::time_point;

  struct member {
    member_report last;  ///< what it told last
    time heard{};
    bool alive = false;
  };
  /// Where a queue's data are, as far as this node knows.
  struct home {
    std::string node;  ///< empty: nobody has it
    std::uint64_t epoch = 0;
    bool alive = false;
    std::string rival;  ///< another node with data that claims it as well; empty: none
  };

  /// `seeds`: addresses of JOIN. A member that was not heard of for `silence` is gone.
  member_table(member_report me, std::vector<std::string> seeds, std::chrono::milliseconds silence);

  /// What this node tells. Its own claims, and whether it is cordoned, are set by tell().
  [[nodiscard]] member_report report() const;
  void tell(std::vector<home_claim> mine) { me_.homes = std::move(mine); }
  void cordon(bool on) { me_.cordoned = on; }
  void tell_http(std::string address) { me_.http = std::move(address); }

  /// Another node told of itself. not_supported: it speaks another protocol. conflict: it has the name of this node, or
  /// of another one that lives. Nothing changes then.
  expected<void> on_report(const member_report& r, time now);
  /// It could not be reached, or said that it ends. An older start than the one that is known is nothing.
  void on_gone(const std::string& name, const std::string& incarnation);
  /// Members whose time is over are gone. True when one is.
  bool on_tick(time now);

  /// Addresses to be asked now: of members that live, always; of others when their pause is over.
  [[nodiscard]] std::vector<std::string> due(time now) const;
  void on_answer(const std::string& address);
  void on_failure(const std::string& address, time now);

  /// By name; those that are gone too, and not this node.
  [[nodiscard]] const std::map<std::string, member>& members() const { return members_; }
  [[nodiscard]] const member_report& me() const { return me_; }
  /// Those that live, this one included.
  [[nodiscard]] std::vector<std::string> alive() const;

  /// The claim of the highest epoch counts, then one with items, then the one of the node that started first.
  [[nodiscard]] home home_of(const std::string& queue) const;
  /// Whether this node is the one to begin a queue whose data are nowhere: of all that would, the one that started
  /// first and is not cordoned.
  [[nodiscard]] bool first_candidate(const std::string& queue) const;

private:
  struct contact {
    time next{};
    unsigned failures = 0;
  };
  void meet(const std::string& address);

  member_report me_;
  std::chrono::milliseconds silence_;
  std::map<std::string, member> members_;
  std::map<std::string, contact> contacts_;  ///< by address; not this node's
};

}  // namespace caravan
