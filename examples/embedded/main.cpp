#include <caravan/caravan.hpp>

#include <iostream>

int main() {
  caravan::node node({.data_dir = "data"});
  auto mails = node.create_unique_queue<std::string>("mail", [](std::vector<std::string>& batch) {
    for (const auto& to : batch) std::cout << "mail to " << to << std::endl;
  });
  mails.push("ann@example.org").value();
  mails.flush(std::chrono::seconds(5)).value();
}
