#define CAF_SUITE http_runner
#include "integration/http_client/http_runner.hpp"

#include "integration/http_client/http_answer.hpp"
#include "integration/http_client/test_server.hpp"

#include "caf/test/unit_test.hpp"

#include <nlohmann/json.hpp>

#include <fcntl.h>
#include <sys/resource.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <latch>
#include <memory>

using namespace caravan;
using namespace caravan::test;
using namespace std::chrono_literals;
using kind = item_outcome::kind;
using clock_type = std::chrono::steady_clock;

namespace {

batch make_batch(std::vector<std::string> payloads) {
  std::vector<record> items;
  for (auto& payload : payloads) {
    record r;
    r.id = item_id{100 + items.size()};
    r.payload = std::move(payload);
    items.push_back(std::move(r));
  }
  return {"mail", 42, 30s, std::make_shared<const std::vector<record>>(std::move(items))};
}

batch_result run(const std::string& url, const batch& work = make_batch({"1", "2"}), const run_context& ctx = {},
                 http_options options = {}) {
  auto target = make_http_runner(url, std::move(options));
  return target.value()->run(work, ctx);
}

std::string shared_text(const batch_result& result, std::size_t size, kind what) {
  if (result.size() != size) return "wrong size " + std::to_string(result.size());
  for (std::size_t i = 0; i < size; ++i)
    if (result[i].index != i || result[i].what != what || result[i].text != result[0].text)
      return "mixed: " + result[i].text;
  return result[0].text;
}

bool contains(std::string_view text, std::string_view part) {
  const bool yes = text.find(part) != std::string_view::npos;
  if (!yes) CAF_MESSAGE("no \"" << std::string(part) << "\" in: " << std::string(text));
  return yes;
}

std::size_t open_descriptors() {
  std::size_t n = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++n;
  return n;
}

std::size_t resident_kib() {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("VmRSS:")) return std::stoul(line.substr(6));
  return 0;
}

std::uint16_t closed_port() {
  return test_server([](const request&) { return answer("200 OK"); }).port();
}

}  // namespace

CAF_TEST(a call carries the items and the facts in body and headers) {
  const test_server server([](const request&) { return answer("204 No Content"); });
  std::vector<record> items(1);
  items[0].id = item_id{100};
  items[0].payload = "{\"to\":\"a\"}";
  items[0].attempts = 2;
  items[0].headers = {{"traceparent", "00-abc-def-01"}};
  const batch work{"mail", 42, 30s, std::make_shared<const std::vector<record>>(items)};
  run_context ctx;
  ctx.node = "n1";
  ctx.deadline = clock_type::now() + 1min;
  http_options options;
  options.secret = "s3cret";
  CAF_CHECK(run(server.url("/hook?x=1"), work, ctx, options).empty());
  const auto all = server.requests();
  CAF_REQUIRE_EQUAL(all.size(), 1u);
  const auto& got = all[0];
  CAF_CHECK(got.head.starts_with("POST /hook?x=1 HTTP/1.1\r\n"));
  CAF_CHECK_EQUAL(got.header("Content-Type"), "application/json");
  CAF_CHECK_EQUAL(got.header("User-Agent").substr(0, 8), "caravan/");
  CAF_CHECK_EQUAL(got.header("X-Caravan-Queue"), "mail");
  CAF_CHECK_EQUAL(got.header("X-Caravan-Lease-Token"), "42");
  CAF_CHECK_EQUAL(got.header("Idempotency-Key"), "mail.42");
  CAF_CHECK_EQUAL(got.header("traceparent"), "00-abc-def-01");
  CAF_CHECK_EQUAL(got.header("Expect"), "(none)");
  const auto json = nlohmann::json::parse(got.body, nullptr, false);
  CAF_REQUIRE(!json.is_discarded());
  CAF_CHECK_EQUAL(json.at("queue").get<std::string>(), "mail");
  CAF_CHECK_EQUAL(json.at("token").get<std::string>(), "42");
  CAF_CHECK_EQUAL(json.at("node").get<std::string>(), "n1");
  CAF_CHECK_EQUAL(json.at("deadline").get<std::string>().size(), 24u);
  CAF_CHECK_EQUAL(json.at("items").size(), 1u);
  CAF_CHECK_EQUAL(json.at("items")[0].at("attempt").get<int>(), 3);
  CAF_CHECK_EQUAL(json.at("items")[0].at("payload").dump(), "{\"to\":\"a\"}");
  const auto signature = got.header("X-Caravan-Signature");
  const auto time = std::stoll(signature.substr(2));
  CAF_CHECK(std::abs(time - std::chrono::duration_cast<std::chrono::seconds>(
                                std::chrono::system_clock::now().time_since_epoch())
                                .count()) < 60);
  CAF_CHECK_EQUAL(signature, http_client::signature("s3cret", time, got.body));
}

CAF_TEST(without a secret there is no signature and many items have no trace) {
  const test_server server([](const request&) { return answer("200 OK", "fine"); });
  auto items = *make_batch({"1", "2"}).items;
  items[0].headers = {{"traceparent", "00-abc-def-01"}};
  CAF_CHECK(
      run(server.url(), {"a\r\nX-Forged: 1", 42, 30s, std::make_shared<const std::vector<record>>(items)}).empty());
  const auto all = server.requests();
  CAF_CHECK_EQUAL(all[0].header("X-Caravan-Signature"), "(none)");
  CAF_CHECK_EQUAL(all[0].header("traceparent"), "(none)");
  CAF_CHECK_EQUAL(all[0].header("X-Forged"), "(none)");
  CAF_CHECK_EQUAL(all[0].header("X-Caravan-Queue"), "a%0D%0AX-Forged:%201");
}

CAF_TEST(answers decide) {
  canned next;
  const test_server server([&](const request&) { return next.get(); });
  const auto outcome = [&](reply said) {
    next.set(std::move(said));
    return run(server.url());  // a target of its own: one that asks for a pause is not called again
  };
  for (const auto* status : {"200 OK", "201 Created", "202 Accepted", "204 No Content"})
    CAF_CHECK(outcome(answer(status)).empty());
  const auto some = outcome(answer("207 Multi-Status", "{\"unhandled\":[\"mail." + to_string(item_id{101}) + "\"]}"));
  CAF_CHECK(some.size() == 1 && some[0].index == 1 && some[0].what == kind::unhandled);
  CAF_CHECK(contains(shared_text(outcome(answer("207 Multi-Status", "oops")), 2, kind::failed), "not JSON"));
  for (const auto* status : {"409 Conflict", "410 Gone"})
    CAF_CHECK(contains(shared_text(outcome(answer(status, "no such user")), 2, kind::rejected), "no such user"));
  for (const auto* status : {"429 Too Many Requests", "503 Service Unavailable"}) {
    const auto plain = outcome(answer(status));
    CAF_CHECK(contains(shared_text(plain, 2, kind::later), "answered "));
    CAF_CHECK(plain[0].delay == 0ms);
    const auto seconds = outcome(answer(status, "", "Retry-After: 7\r\n"));
    CAF_CHECK(contains(shared_text(seconds, 2, kind::later), "answered "));
    CAF_CHECK(seconds[1].delay == 7s);
    const auto date = outcome(answer(status, "", "retry-after: Fri, 31 Dec 9999 23:59:59 GMT\r\n"));
    CAF_CHECK(contains(shared_text(date, 2, kind::later), "answered "));
    CAF_CHECK(date[1].delay == 24h);
  }
  for (const auto* status : {"400 Bad Request", "401 Unauthorized", "404 Not Found", "413 Too Large",
                             "422 Unprocessable", "500 Internal Server Error", "502 Bad Gateway"}) {
    const auto text = shared_text(outcome(answer(status, "the body")), 2, kind::failed);
    CAF_CHECK_EQUAL(text, "POST " + server.url() + " answered " + std::string(status).substr(0, 3) + ": the body");
  }
  CAF_CHECK(outcome(answer("500 Oops", "", "Retry-After: 3\r\n"))[0].delay == 3s);
}

CAF_TEST(redirections are not followed) {
  const test_server other([](const request&) { return answer("200 OK"); });
  const test_server server(
      [&](const request&) { return answer("307 Temporary Redirect", "", "Location: " + other.url() + "\r\n"); });
  CAF_CHECK(contains(shared_text(run(server.url()), 2, kind::failed), "answered 307: a redirection"));
  CAF_CHECK_EQUAL(other.requests().size(), 0u);
}

CAF_TEST(a connection is used again) {
  const test_server server([](const request&) { return answer("200 OK", "ok"); });
  const auto target = make_http_runner(server.url());
  for (int i = 0; i < 20; ++i) CAF_CHECK(target.value()->run(make_batch({"1"}), {}).empty());
  CAF_CHECK_EQUAL(server.connections(), 1u);
}

CAF_TEST(a kept connection that the server closed is no failure) {
  const test_server server([](const request&) {
    auto said = answer("200 OK", "ok");
    said.what = reply::then::close;
    return said;
  });
  const auto target = make_http_runner(server.url());
  for (int i = 0; i < 20; ++i) CAF_CHECK(target.value()->run(make_batch({"1"}), {}).empty());
  CAF_CHECK_EQUAL(server.requests().size(), 20u);
}

CAF_TEST(a slow server ends at the deadline) {
  // Once without an answer, once within the body.
  for (const auto* bytes : {"", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"}) {
    const test_server server([&](const request&) { return reply{bytes, reply::then::hold}; });
    run_context ctx;
    const auto start = clock_type::now();
    ctx.deadline = start + 300ms;
    CAF_CHECK(
        contains(shared_text(run(server.url(), make_batch({"1", "2"}), ctx), 2, kind::failed), "timed out after "));
    const auto took = clock_type::now() - start;
    CAF_CHECK(took >= 290ms && took < 20s);
  }
}

CAF_TEST(a stop ends a call at once and hands all back) {
  const test_server server([](const request&) { return reply{"", reply::then::hold}; });
  const auto target = make_http_runner(server.url());
  for (std::size_t round = 1; round <= 10; ++round) {
    std::stop_source stop;
    run_context ctx;
    ctx.stop = stop.get_token();
    ctx.deadline = clock_type::now() + 1h;
    std::atomic<clock_type::time_point> asked{};
    std::jthread asker([&] {
      server.wait_for(round);
      asked = clock_type::now();
      stop.request_stop();
    });
    CAF_CHECK_EQUAL(shared_text(target.value()->run(make_batch({"1", "2"}), ctx), 2, kind::unhandled), "");
    CAF_CHECK(clock_type::now() - asked.load() < 20s);  // unwoken it would sleep for a minute
  }
}

CAF_TEST(a stop at the deadline counts as the deadline) {
  const test_server server([](const request&) { return reply{"", reply::then::hold}; });
  std::stop_source stop;
  run_context ctx;
  ctx.stop = stop.get_token();
  ctx.deadline = clock_type::now() + 300ms;
  std::jthread asker([&] {
    std::this_thread::sleep_until(ctx.deadline);
    stop.request_stop();
  });
  CAF_CHECK(contains(shared_text(run(server.url(), make_batch({"1"}), ctx), 1, kind::failed), "timed out"));
}

CAF_TEST(a call that comes too late is not sent) {
  const test_server server([](const request&) { return answer("200 OK"); });
  std::stop_source stop;
  stop.request_stop();
  run_context stopped;
  stopped.stop = stop.get_token();
  CAF_CHECK_EQUAL(shared_text(run(server.url(), make_batch({"1"}), stopped), 1, kind::unhandled), "");
  run_context late;
  late.deadline = clock_type::now() - 1s;
  CAF_CHECK(contains(shared_text(run(server.url(), make_batch({"1"}), late), 1, kind::failed), "time was over"));
  CAF_CHECK(run(server.url(), make_batch({})).empty());
  CAF_CHECK_EQUAL(server.connections(), 0u);
}

CAF_TEST(a refused connection fails and names the masked address) {
  const auto port = std::to_string(closed_port());
  const auto text = shared_text(run("http://joe:s3cret@127.0.0.1:" + port + "/p?key=s3cret"), 2, kind::failed);
  CAF_CHECK(contains(text, "POST http://***@127.0.0.1:" + port + "/p?... got no answer: "));
  CAF_CHECK(text.find("s3cret") == std::string::npos && text.find("joe") == std::string::npos);
}

CAF_TEST(credentials of the URL go into the authorization) {
  const test_server server([](const request&) { return answer("200 OK"); });
  CAF_CHECK(run("http://joe:pw@127.0.0.1:" + std::to_string(server.port()) + "/").empty());
  const auto all = server.requests();
  CAF_CHECK_EQUAL(all[0].header("Authorization"), "Basic am9lOnB3");
}

CAF_TEST(an answer that breaks off fails) {
  canned next;
  const test_server server([&](const request&) { return next.get(); });
  const auto outcome = [&](const std::string& bytes) {
    next.set({bytes, reply::then::close});
    return shared_text(run(server.url()), 2, kind::failed);
  };
  CAF_CHECK(contains(outcome("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"),
                     "answered 200, but the answer broke off"));
  CAF_CHECK(contains(outcome("HTTP/1.1 409 Conflict\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"),
                     "answered 409, but the answer broke off"));
  CAF_CHECK(contains(outcome(""), "got no answer"));
  CAF_CHECK(contains(outcome("SSH-2.0-OpenSSH_9.2\r\n"), "got no answer"));
}

CAF_TEST(an endless answer is cut) {
  const auto big = std::string(10'000'000, 'x');
  canned next;
  const test_server server([&](const request&) { return next.get(); });
  http_options options;
  options.body_limit = 100'000;
  const auto target = make_http_runner(server.url(), options);
  const auto outcome = [&](const std::string& line) {
    next.set(answer(line, big));
    return target.value()->run(make_batch({"1"}), {});
  };
  (void)outcome("200 OK");
  const auto before = resident_kib();
  CAF_CHECK(outcome("200 OK").empty());
  CAF_CHECK(shared_text(outcome("500 Oops"), 1, kind::failed).size() < 700);
  CAF_CHECK(
      contains(shared_text(outcome("207 Multi-Status"), 1, kind::failed), "longer than the limit of 100000 bytes"));
  CAF_CHECK(contains(shared_text(outcome("410 Gone"), 1, kind::rejected), "answered 410: xxx"));
#ifdef __SANITIZE_ADDRESS__
  (void)before;  // freed memory stays in its quarantine
#else
  CAF_CHECK(resident_kib() < before + 60'000);  // the server's own copies are in it
#endif
}

CAF_TEST(a big batch arrives whole and without a pause) {
  const test_server server([](const request&) { return answer("200 OK"); });
  std::vector<std::string> payloads(20, std::string(1 << 20, 'x'));
  CAF_CHECK(run(server.url(), make_batch(std::move(payloads))).empty());
  const auto all = server.requests();
  CAF_CHECK(all[0].body.size() > 20u << 20);
  CAF_CHECK(all[0].body.ends_with("}]}"));
}

CAF_TEST(a server that answers before it has read the body fails the batch) {
  struct sigaction old {};
  struct sigaction fatal {};
  fatal.sa_handler = SIG_DFL;
  ::sigaction(SIGPIPE, &fatal, &old);
  const test_server server(
      [](const request&) {
        auto said = answer("413 Too Large", "no");
        said.what = reply::then::close;
        return said;
      },
      false);
  const auto work = make_batch({std::string(4 << 20, 'x')});
  // The reset that follows may overtake the answer: the text is one or the other.
  for (int i = 0; i < 5; ++i) CAF_CHECK(contains(shared_text(run(server.url(), work), 1, kind::failed), "POST "));
  ::sigaction(SIGPIPE, &old, nullptr);
}

CAF_TEST(eight calls run at once) {
  constexpr int callers = 8;
  std::latch all_there(callers);
  const test_server server([&](const request&) {
    all_there.arrive_and_wait();  // comes back only if the calls do not wait for one another
    return answer("207 Multi-Status", "{\"unhandled\":[\"" + to_string(item_id{101}) + "\"]}");
  });
  const auto target = make_http_runner(server.url());
  std::atomic<int> good{0};
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < callers; ++i)
      threads.emplace_back([&] {
        const auto result = target.value()->run(make_batch({"1", "2"}), {});
        if (result.size() == 1 && result[0].index == 1) ++good;
      });
  }
  CAF_CHECK_EQUAL(good.load(), callers);
  CAF_CHECK_EQUAL(server.connections(), 8u);
}

CAF_TEST(the connections of a busy time are closed when they have grown old) {
  constexpr int callers = 4;
  std::latch all_there(callers);
  std::atomic<int> arrived{0};
  const test_server server([&](const request&) {
    if (arrived++ < callers) all_there.arrive_and_wait();
    return answer("200 OK");
  });
  http_options options;
  options.max_idle = 200ms;
  const auto target = make_http_runner(server.url(), options);
  std::atomic<int> good{0};
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < callers; ++i)
      threads.emplace_back([&] {
        if (target.value()->run(make_batch({"1"}), {}).empty()) ++good;
      });
  }
  CAF_CHECK_EQUAL(good.load(), callers);
  CAF_CHECK_EQUAL(server.connections(), 4u);
  std::this_thread::sleep_for(250ms);
  CAF_CHECK(target.value()->run(make_batch({"1"}), {}).empty());
  const auto end = clock_type::now() + 20s;
  while (server.open_connections() > 1 && clock_type::now() < end) std::this_thread::sleep_for(2ms);
  CAF_CHECK_EQUAL(server.open_connections(), 1u);
  options.max_idle = 0ms;
  CAF_CHECK(!make_http_runner(server.url(), options));
}

CAF_TEST(a thousand calls leave no descriptor behind) {
  const test_server server([](const request&) { return answer("200 OK", "ok"); });
  const auto refused = "http://127.0.0.1:" + std::to_string(closed_port()) + "/";
  const auto target = make_http_runner(server.url());
  const auto nobody = make_http_runner(refused);
  (void)target.value()->run(make_batch({"1"}), {});
  (void)nobody.value()->run(make_batch({"1"}), {});
  const auto before = open_descriptors();
  for (int i = 0; i < 1000; ++i) {
    if (!target.value()->run(make_batch({"1"}), {}).empty()) CAF_FAIL("call " << i << " failed");
    if (nobody.value()->run(make_batch({"1"}), {}).empty()) CAF_FAIL("call " << i << " went well");
  }
  CAF_CHECK_EQUAL(open_descriptors(), before);
  for (int i = 0; i < 20; ++i) CAF_CHECK(run(server.url()).empty());
  // The server is in this process too and closes its ends in its own time.
  const auto end = clock_type::now() + 20s;
  while (open_descriptors() > before && clock_type::now() < end) std::this_thread::sleep_for(2ms);
  CAF_CHECK_EQUAL(open_descriptors(), before);
}

CAF_TEST(a machine without descriptors means later) {
  const auto target = make_http_runner("http://127.0.0.1:" + std::to_string(closed_port()) + "/");
  std::vector<int> taken;
  rlimit old{};
  ::getrlimit(RLIMIT_NOFILE, &old);
  auto low = old;
  low.rlim_cur = open_descriptors() + 8;
  ::setrlimit(RLIMIT_NOFILE, &low);
  for (int fd; (fd = ::open("/dev/null", O_CLOEXEC)) >= 0;) taken.push_back(fd);
  std::vector<kind> kinds;
  while (!taken.empty() && (kinds.empty() || kinds.back() == kind::later)) {
    kinds.push_back(target.value()->run(make_batch({"1"}), {}).at(0).what);
    ::close(taken.back());
    taken.pop_back();
  }
  for (const int fd : taken) ::close(fd);
  ::setrlimit(RLIMIT_NOFILE, &old);
  CAF_CHECK(kinds.size() >= 4);             // no wake-up twice (it takes two), then no socket
  CAF_CHECK(kinds.back() == kind::failed);  // refused at last
}

CAF_TEST(addresses that cannot be called are refused) {
  const std::string cases[] = {"",          "http://",         "ftp://h/",    "file:///etc/passwd",
                               "h/p",       "http://h:99999/", "http://h h/", std::string("http://h/\0x", 11),
                               "gopher://x"};
  for (const auto& url : cases) {
    const auto target = make_http_runner(url);
    CAF_CHECK(!target && target.failure().code == errc::invalid_argument);
  }
  const auto bad = make_http_runner("http://joe:s3cret@h:x/");
  CAF_REQUIRE(!bad);
  CAF_CHECK(bad.failure().text.find("s3cret") == std::string::npos);
}

CAF_TEST(the description holds no secret) {
  CAF_CHECK_EQUAL((*make_http_runner("https://joe:s3cret@example.org/a/b?token=s3cret#f"))->describe(),
                  "https://***@example.org/a/b?...");
  CAF_CHECK_EQUAL((*make_http_runner("HTTP://example.org:8080/a"))->describe(), "http://example.org:8080/a");
}

CAF_TEST(a target that asks for a pause is not called before it is over) {
  std::atomic<int> calls{0};
  const test_server server([&](const request&) {
    return ++calls == 1 ? answer("429 Too Many Requests", "slow down", "Retry-After: 3600\r\n")
                        : answer("204 No Content");
  });
  const auto made = make_http_runner(server.url());
  const auto& target = *made;
  CAF_CHECK(contains(shared_text(target->run(make_batch({"1"}), {}), 1, kind::later), "answered 429"));
  CAF_CHECK(contains(target->restraint(), "it answered 429 with Retry-After"));
  // A worker stays with it for a second before it says that it comes later.
  const auto begun = clock_type::now();
  const auto refused = target->run(make_batch({"1", "2"}), {});
  CAF_CHECK(clock_type::now() - begun >= 900ms);
  CAF_CHECK(contains(shared_text(refused, 2, kind::later), "paused for another"));
  CAF_CHECK(refused[0].delay > 59min);
  std::stop_source stop;
  stop.request_stop();
  run_context stopped;
  stopped.stop = stop.get_token();
  shared_text(target->run(make_batch({"1"}), stopped), 1, kind::unhandled);
  run_context hurried;
  hurried.deadline = clock_type::now() + 50ms;
  shared_text(target->run(make_batch({"1"}), hurried), 1, kind::later);  // no attempt is counted for what was not sent
  CAF_CHECK_EQUAL(calls.load(), 1);
}

CAF_TEST(a short pause is waited for) {
  std::atomic<int> calls{0};
  const test_server server([&](const request&) {
    return ++calls == 1 ? answer("503 Service Unavailable", {}, "Retry-After: 1\r\n") : answer("204 No Content");
  });
  const auto made = make_http_runner(server.url());
  const auto& target = *made;
  const auto begun = clock_type::now();
  CAF_CHECK_EQUAL(target->run(make_batch({"1"}), {}).size(), 1u);
  CAF_CHECK(target->run(make_batch({"1"}), {}).empty());
  CAF_CHECK(clock_type::now() - begun >= 1s);
  CAF_CHECK_EQUAL(calls.load(), 2);
  CAF_CHECK(target->restraint().empty());
}

CAF_TEST(a breaker spares a target that fails and what is not sent comes later) {
  std::atomic<int> calls{0};
  std::atomic<int> opened{0};
  const test_server server([&](const request&) {
    ++calls;
    return answer("500 Internal Server Error");
  });
  http_options o;
  o.guard.breaker = true;
  o.guard.seed = 1;
  o.guard.on_change = [&](http_client::target_change what, const std::string&, std::chrono::milliseconds) {
    if (what == http_client::target_change::opened) ++opened;
  };
  const auto made = make_http_runner(server.url(), o);
  const auto& target = *made;
  int failed = 0;
  int later = 0;
  while (later == 0 && failed < 1'000) {
    const auto result = target->run(make_batch({"1"}), {});
    CAF_REQUIRE_EQUAL(result.size(), 1u);
    ++(result[0].what == kind::later ? later : failed);
  }
  CAF_CHECK_EQUAL(later, 1);
  CAF_CHECK_EQUAL(calls.load(), failed);
  CAF_CHECK_EQUAL(opened.load(), 1);
  CAF_CHECK(contains(target->restraint(), "the breaker is open"));
}
