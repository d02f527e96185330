// The tests of orders.hpp, without a framework: a week of an application's life in a millisecond.
#include "orders.hpp"

#include <caravan/testing.hpp>

#include <cstdlib>
#include <iostream>

using namespace std::chrono_literals;

namespace {

void check(bool holds, const char* what) {
  if (holds) return;
  std::cerr << "does not hold: " << what << std::endl;
  std::exit(1);
}

void a_customer_is_asked_a_week_later() {
  caravan::testing::node node;
  std::vector<std::string> mails;
  orders shop(node, [&](const std::string&, const std::string& text) { mails.push_back(text); });
  shop.paid({17, "ann@example.org"}).value();
  node.run();
  check(mails == std::vector<std::string>{"Order 17 is paid"}, "the order is confirmed at once");
  node.advance(24h * 7 - 1s);
  check(mails.size() == 1, "nobody is asked before a week has passed");
  node.advance(1s);
  check(mails.size() == 2 && mails[1] == "How was order 17?", "the customer is asked after a week");
}

void mail_that_fails_is_tried_again() {
  caravan::testing::node node;
  int refused = 3;
  int sent = 0;
  orders shop(node, [&](const std::string&, const std::string&) {
    if (refused-- > 0) throw std::runtime_error("the mail server is busy");
    ++sent;
  });
  shop.paid({17, "ann@example.org"}).value();
  node.advance(10min);
  check(sent == 1, "the fourth attempt sends it");
}

void a_crash_asks_nobody_twice() {
  caravan::testing::node node;
  std::vector<std::string> mails;
  orders shop(node, [&](const std::string&, const std::string& text) { mails.push_back(text); });
  node.crash_after_handlers("paid", 1);  // the mail went out, and then the machine died
  shop.paid({17, "ann@example.org"}).value();
  node.advance(24h * 8);
  check(mails.size() == 3, "the confirmation went out twice, the question once");
}

}  // namespace

int main() {
  a_customer_is_asked_a_week_later();
  mail_that_fails_is_tried_again();
  a_crash_asks_nobody_twice();
  std::cout << "all hold" << std::endl;
}
