#define CAF_SUITE command_line
#include "integration/process/command_line.hpp"

#include "caf/test/unit_test.hpp"

using caravan::process::split_command;
using words = std::vector<std::string>;

namespace {

words split(std::string_view command) {
  const auto result = split_command(command);
  return result ? *result : words{"refused: " + result.failure().text};
}

bool is_refused(std::string_view command, std::string_view part) {
  const auto result = split_command(command);
  return !result && result.failure().code == caravan::errc::invalid_argument &&
         result.failure().text.find(part) != std::string::npos;
}

}  // namespace

CAF_TEST(blanks separate words) {
  CAF_CHECK_EQUAL(split("sha256sum"), (words{"sha256sum"}));
  CAF_CHECK_EQUAL(split("  a \t b\n\nc  "), (words{"a", "b", "c"}));
}

CAF_TEST(quotes join and may be empty) {
  CAF_CHECK_EQUAL(split("sh -c 'exit 3; # \"x\" \\n'"), (words{"sh", "-c", "exit 3; # \"x\" \\n"}));
  CAF_CHECK_EQUAL(split("a '' \"\" b"), (words{"a", "", "", "b"}));
  CAF_CHECK_EQUAL(split("a'b c'\"d e\"f"), (words{"ab cd ef"}));
}

CAF_TEST(a backslash escapes as in a shell) {
  CAF_CHECK_EQUAL(split("a\\ b \\' \\\" \\\\ \\| \\$"), (words{"a b", "'", "\"", "\\", "|", "$"}));
  CAF_CHECK_EQUAL(split("p \"\\\" \\\\ \\$ \\` \\n 'x'\""), (words{"p", "\" \\ $ ` \\n 'x'"}));
  CAF_CHECK_EQUAL(split("p '\\'"), (words{"p", "\\"}));
}

CAF_TEST(nothing is expanded) {
  CAF_CHECK_EQUAL(split("p *.txt ~ \"$HOME `x`\" a=b #c"), (words{"p", "*.txt", "~", "$HOME `x`", "a=b", "#c"}));
}

CAF_TEST(what cannot be meant is refused) {
  CAF_CHECK(is_refused("", "empty"));
  CAF_CHECK(is_refused(" \t", "empty"));
  CAF_CHECK(is_refused("'' a", "empty"));
  CAF_CHECK(is_refused("a 'b", "quote ' at character 3"));
  CAF_CHECK(is_refused("a \"b", "quote \" at character 3"));
  CAF_CHECK(is_refused("a \"b\\\"", "not closed"));
  CAF_CHECK(is_refused("a \\", "backslash"));
  CAF_CHECK(is_refused(std::string_view("a\0b", 3), "NUL"));
  for (const auto* command : {"a | b", "a && b", "a; b", "a > f", "a < f", "a $HOME", "a `b`"})
    CAF_CHECK(is_refused(command, "exec:sh -c"));
}
