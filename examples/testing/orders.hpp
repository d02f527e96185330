#pragma once

/// A part of an application that works with queues: a paid order is confirmed by mail, and the customer is asked a week
/// later.

#include <caravan/queue.hpp>

#include <functional>
#include <string>

struct order {
  int number = 0;
  std::string mail;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(order, number, mail)

/// `Node` is caravan::node in the program and caravan::testing::node in its tests.
class orders {
public:
  using send_mail = std::function<void(const std::string& to, const std::string& text)>;

  template <class Node>
  orders(Node& node, send_mail send) : send_(std::move(send)) {
    questions_ = node.template create_unique_queue<order>("questions", [this](std::vector<order>& batch) {
      for (const auto& o : batch) send_(o.mail, "How was order " + std::to_string(o.number) + "?");
    });
    paid_ = node.template create_unique_queue<order>("paid", [this](std::vector<order>& batch, caravan::context& ctx) {
      for (std::size_t i = 0; i < batch.size(); ++i) {
        const auto& o = batch[i];
        try {
          send_(o.mail, "Order " + std::to_string(o.number) + " is paid");
        } catch (const std::exception& e) {
          ctx.fail(i, e.what());
          continue;
        }
        // The key keeps a repeat of this job from asking twice.
        (void)questions_.push(o, {.delay = std::chrono::hours(24 * 7), .key = std::to_string(o.number)});
      }
    });
  }

  caravan::expected<caravan::item_id> paid(const order& o) { return paid_.push(o, {.key = std::to_string(o.number)}); }

private:
  send_mail send_;
  caravan::queue<order> questions_;
  caravan::queue<order> paid_;
};
