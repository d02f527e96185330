#pragma once

/// A cluster without Redis: nodes that joined by address tell each other of themselves.

#include "actors/cluster/member_table.hpp"
#include "nodes/mesh.hpp"

#include <caravan/error.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace caravan {

class node_log;

/// One thread asks all others about once a second, and at once when something changed. Thread safe.
class membership {
public:
  struct options {
    member_report me;                ///< but for the address
    std::vector<std::string> seeds;  ///< JOIN
    node_log* log = nullptr;         ///< outlives it
    /// What this node has of queues. From any thread; must not block.
    std::function<std::vector<home_claim>()> claims;
    /// Something about others changed. On the membership's thread, one at a time; may take a while. Not before start().
    std::function<void()> changed;
  };
  explicit membership(options o);
  /// No call comes after it.
  ~membership();
  membership(const membership&) = delete;
  membership& operator=(const membership&) = delete;

  /// For mesh::options::exchange.
  [[nodiscard]] member_report exchange(const member_report& theirs);

  /// Looks for the others by `way`, which outlives this, until all of JOIN were tried. conflict: a node of this name
  /// lives. not_supported: another protocol. That nobody answers is no error: they may come.
  expected<void> join(mesh& way, std::chrono::milliseconds patience);
  /// From now on by its own thread.
  void start();
  /// Tells the others that this node ends, and stops.
  void leave();

  /// This node's claims changed: the others are told soon.
  void tell();
  void cordon(bool on);
  [[nodiscard]] bool cordoned() const;
  void tell_http(std::string address);

  [[nodiscard]] member_table::home home_of(const std::string& queue) const;
  [[nodiscard]] bool first_candidate(const std::string& queue) const;
  /// This node and all others that are known, by name.
  [[nodiscard]] std::vector<member_table::member> members() const;
  /// not_found: nobody of that name lives.
  [[nodiscard]] expected<mesh_peer> peer(const std::string& name) const;
  /// A way to it. not_found; backend_failed. Does not block.
  [[nodiscard]] expected<node_actor> node(const std::string& name) const;
  /// What is wrong; empty: nothing.
  [[nodiscard]] std::string trouble_text() const;

private:
  class impl;
  std::unique_ptr<impl> impl_;
};

}  // namespace caravan
