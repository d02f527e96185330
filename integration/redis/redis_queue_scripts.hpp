#pragma once

/// The transitions of a queue in Redis, one script each. Arguments and answers stand in front of each script in the
/// .cpp.

#include "integration/redis/redis_value.hpp"

namespace caravan::redis_queue_scripts {

/// The first number of every answer.
enum status : int { ok = 0, fenced = 1, full = 2, incoming = 3, held = 4 };

extern const redis_script append;
extern const redis_script append_plain;
extern const redis_script settle;
extern const redis_script adopt;
extern const redis_script erase;
extern const redis_script update;
extern const redis_script release;
extern const redis_script read;
extern const redis_script find;
extern const redis_script count;
extern const redis_script set_aside;

extern const redis_script acquire;
extern const redis_script absorb;
extern const redis_script renew;
extern const redis_script give_up;

}  // namespace caravan::redis_queue_scripts
