#pragma once

/// What nodes tell each other of themselves. Plain: no CAF here.

#include <cstdint>
#include <string>
#include <vector>

namespace caravan {

/// A queue as one node sees its own part in it.
struct home_claim {
  std::string queue;
  std::string type;  ///< channel or level
  bool unique = false;
  std::uint64_t epoch = 0;  ///< grows with each move; 0: its data are not here, but it may begin here if nobody has it
  std::uint64_t items = 0;  ///< in its storage, when the claim was made
};

/// A node tells this about once a second to every other, and is answered with the same of the other.
struct member_report {
  std::string name;
  std::string incarnation;  ///< different for each start
  std::uint32_t protocol = 0;
  std::string version;
  std::string address;       ///< for other nodes, HOST:PORT
  std::string http;          ///< for people, HOST:PORT; empty: none
  std::int64_t started = 0;  ///< ms since 1970
  bool cordoned = false;     ///< takes over no queue
  std::vector<home_claim> homes;
  std::vector<std::string> known;  ///< addresses of others that live
  std::string refused;             ///< in an answer: why the asker is no member; empty: it is
};

// By position, so append only.
template <class I>
typename I::result_type inspect(I& f, home_claim& x) {
  return f(x.queue, x.type, x.unique, x.epoch, x.items);
}
template <class I>
typename I::result_type inspect(I& f, member_report& x) {
  return f(x.name, x.incarnation, x.protocol, x.version, x.address, x.http, x.started, x.cordoned, x.homes, x.known,
           x.refused);
}

}  // namespace caravan
