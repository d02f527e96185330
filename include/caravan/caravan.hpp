#pragma once

/// Everything an application needs.

#include <caravan/cache.hpp>
#include <caravan/client.hpp>
#include <caravan/context.hpp>
#include <caravan/cron.hpp>
#include <caravan/error.hpp>
#include <caravan/events.hpp>
#include <caravan/item_id.hpp>
#include <caravan/limit.hpp>
#include <caravan/locks.hpp>
#include <caravan/node.hpp>
#include <caravan/queue.hpp>
#include <caravan/worker.hpp>
