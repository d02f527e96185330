#include <caravan/node.hpp>
#include <iostream>

struct mail { std::string to; int copies; };
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(mail, to, copies)

int main() {
  caravan::node node({.data_dir = "data", .quiet = true});
  auto mails = node.create_unique_queue<mail>("mail", [](std::vector<mail>& batch) {
    for (const auto& m : batch) std::cout << "sent " << m.copies << " to " << m.to << std::endl;
  });
  const auto id = mails.push({"ann@example.org", 2});
  std::cout << (id && mails.flush(std::chrono::seconds(10)) ? "done" : "failed") << std::endl;
}
