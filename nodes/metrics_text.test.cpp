#define CAF_SUITE metrics_text
#include "nodes/metrics_text.hpp"

#include "caf/test/unit_test.hpp"

using namespace caravan;
using namespace std::chrono_literals;

namespace {

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

CAF_TEST(families and labels) {
  metrics_text m;
  m.gauge("up", "Whether it is up");
  m.add({}, std::uint64_t{1});
  m.counter("jobs_total", "Jobs");
  m.add({{"queue", "mail"}, {"result", "done"}}, std::uint64_t{18446744073709551615u});
  m.add({{"queue", "a\"b\\c\nd"}}, 0.25);
  const auto text = m.take();
  CAF_CHECK_EQUAL(text,
                  "# HELP up Whether it is up\n# TYPE up gauge\nup 1\n"
                  "# HELP jobs_total Jobs\n# TYPE jobs_total counter\n"
                  "jobs_total{queue=\"mail\",result=\"done\"} 18446744073709551615\n"
                  "jobs_total{queue=\"a\\\"b\\\\c\\nd\"} 0.25\n");
}

CAF_TEST(a histogram counts up to each step) {
  time_histogram h;
  h.add(1ms);  // inclusive
  h.add(2ms, 3);
  h.add(-5s);  // a clock that was set back
  h.add(100h);
  metrics_text m;
  m.histogram("t_seconds", "Time");
  m.add({{"queue", "q"}}, h);
  const auto text = m.take();
  CAF_CHECK(holds(text, "t_seconds_bucket{queue=\"q\",le=\"0.001\"} 2\n"));
  CAF_CHECK(holds(text, "t_seconds_bucket{queue=\"q\",le=\"0.0025\"} 5\n"));
  CAF_CHECK(holds(text, "t_seconds_bucket{queue=\"q\",le=\"3600\"} 5\n"));
  CAF_CHECK(holds(text, "t_seconds_bucket{queue=\"q\",le=\"+Inf\"} 6\n"));
  CAF_CHECK(holds(text, "t_seconds_sum{queue=\"q\"} 360000.007\n"));
  CAF_CHECK(holds(text, "t_seconds_count{queue=\"q\"} 6\n"));
}

CAF_TEST(a family is bounded and long values are cut between letters) {
  metrics_text m;
  m.gauge("x", "X");
  for (std::size_t i = 0; i < metrics_text::most_series + 7; ++i) m.add({{"n", std::to_string(i)}}, std::uint64_t{1});
  CAF_CHECK_EQUAL(m.left_out(), 7u);
  m.gauge("y", "Y");
  std::string long_name(199, 'a');
  long_name += "\xC3\xA4";  // its first byte would be the last that fits
  m.add({{"n", long_name}}, std::uint64_t{1});
  const auto text = m.take();
  CAF_CHECK(holds(text, "y{n=\"" + std::string(199, 'a') + "\"} 1\n"));
}
