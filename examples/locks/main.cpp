// A file and an HTTP service, guarded by the fencing token of a lock. Run it alone, or several at once with a
// configuration that has [global_lock] SERVICE_TYPE = redis: locks_example caravan.ini

#include "guarded_file.hpp"
#include "guarded_service.hpp"

#include <caravan/caravan.hpp>

#include <chrono>
#include <iostream>
#include <thread>

int main(int argc, char** argv) {
  using namespace std::chrono_literals;
  caravan::node node({.config_file = argc > 1 ? argv[1] : "", .data_dir = "data"});
  auto locks = node.locks();
  guarded_file report("report.txt");
  guarded_service service;

  // The usual case: work, looking in between whether the lock is still there.
  const auto done = locks.lock_and_do("report", [&](caravan::lock_handle& held) {
    for (int page = 1; page <= 3 && !held.lost().stop_requested(); ++page)
      report.append(held.token(), "page " + std::to_string(page));
    std::cout << "file: written, service: " << guarded_put(service.port(), "/report", held.token()) << '\n';
  });
  if (!done) {
    std::cerr << done.failure().text << '\n';
    return 1;
  }

  // One that is held up. Its lease ends, another goes on, and what it does afterwards is refused.
  caravan::lock_options brief;
  brief.lease = 200ms;
  auto slow = locks.lock("report", brief).value();
  std::this_thread::sleep_for(300ms);
  auto next = locks.lock("report").value();
  report.append(next.token(), "page 4");
  guarded_put(service.port(), "/report", next.token());

  std::cout << "the slow one " << (slow.valid() ? "holds" : "knows that it lost")
            << "; file: " << (report.append(slow.token(), "page 4, once more") ? "written" : "refused")
            << ", service: " << guarded_put(service.port(), "/report", slow.token()) << '\n';
}
