#define CAF_SUITE config_ini
#include "config/ini.hpp"

#include "caf/test/unit_test.hpp"

#include <unistd.h>

#include <filesystem>
#include <fstream>

using namespace caravan;
using namespace caravan::config;
using namespace std::string_literals;
using namespace std::chrono_literals;

namespace {

/// The value of KEY in [a] after "[a]\n" + text, and no complaint at all.
std::string clean(std::string_view text, std::string_view key = "KEY") {
  const auto parsed = parse_ini("[a]\n" + std::string(text), "f.ini");
  CAF_CHECK_EQUAL(to_string(parsed.found), "");
  const auto* found = parsed.content.find("a", key);
  return found ? found->value : "(absent)";
}

std::string value(std::string_view text) {
  const auto parsed = parse_ini("[a]\n" + std::string(text), "f.ini");
  const auto* found = parsed.content.find("a", "KEY");
  return found ? found->value : "(absent)";
}

std::string complaints(std::string_view text) { return to_string(parse_ini(text, "f.ini").found); }

}  // namespace

CAF_TEST(a value is what stands behind the delimiter without blanks) {
  CAF_CHECK_EQUAL(clean("KEY = v"), "v");
  CAF_CHECK_EQUAL(clean("KEY=v"), "v");
  CAF_CHECK_EQUAL(clean("KEY: v"), "v");
  CAF_CHECK_EQUAL(clean("  \t KEY  =\t v  \t"), "v");
  CAF_CHECK_EQUAL(clean("KEY = a b  c"), "a b  c");
  CAF_CHECK_EQUAL(clean("KEY = a = b : c"), "a = b : c");
  CAF_CHECK_EQUAL(clean("KEY: a = b"), "a = b");
  CAF_CHECK_EQUAL(clean("KEY ="), "");
  CAF_CHECK_EQUAL(clean("KEY =    "), "");
  CAF_CHECK_EQUAL(clean("KEY = v\n"), "v");
  CAF_CHECK_EQUAL(clean("key = v", "KEY"), "(absent)");
  CAF_CHECK_EQUAL(clean("A B = v", "A B"), "v");
  CAF_CHECK_EQUAL(clean("- = v", "-"), "v");
}

CAF_TEST(comments start anywhere) {
  CAF_CHECK_EQUAL(clean("# KEY = v\n; KEY = w\n   # x"), "(absent)");
  CAF_CHECK_EQUAL(clean("KEY = a ; c"), "a");
  CAF_CHECK_EQUAL(clean("KEY = a # c"), "a");
  CAF_CHECK_EQUAL(clean("KEY = a;c"), "a");
  CAF_CHECK_EQUAL(clean("KEY = a#c;d"), "a");
  CAF_CHECK_EQUAL(clean("KEY = ; c"), "");
  CAF_CHECK_EQUAL(clean("KEY = \"a\" ; c"), "a");
  CAF_CHECK_EQUAL(clean("KEY = a \\; b"), "a \\");
}

CAF_TEST(a value cut inside quotes is cut and tells) {
  CAF_CHECK_EQUAL(value("KEY = \"a;b\""), "\"a");
  CAF_CHECK_EQUAL(value("KEY = 'p#w'"), "'p");
  CAF_CHECK_EQUAL(
      complaints("[a]\nKEY = \"a;b\"\n"),
      "f.ini:2: warning: [a] KEY: cut at the first ;, inside the quotes; write it in backquotes: KEY = `...`\n");
  CAF_CHECK_EQUAL(
      complaints("KEY = 'a#b'"),
      "f.ini:1: warning: [] KEY: cut at the first #, inside the quotes; write it in backquotes: KEY = `...`\n");
  CAF_CHECK_EQUAL(complaints("[a]\nKEY = don't ; b"), "");
}

CAF_TEST(quotes around a value are taken off) {
  CAF_CHECK_EQUAL(clean("KEY = \"a b\""), "a b");
  CAF_CHECK_EQUAL(clean("KEY = 'a b'"), "a b");
  CAF_CHECK_EQUAL(clean("KEY = \" a \""), " a ");
  CAF_CHECK_EQUAL(clean("KEY = \"\""), "");
  CAF_CHECK_EQUAL(clean("KEY = ''"), "");
  CAF_CHECK_EQUAL(clean("KEY = \"a'b\""), "a'b");
  CAF_CHECK_EQUAL(clean("KEY = \"a\"b\""), "\"a\"b\"");
  CAF_CHECK_EQUAL(clean("KEY = \"a"), "\"a");
  CAF_CHECK_EQUAL(clean("KEY = a\""), "a\"");
  CAF_CHECK_EQUAL(clean("KEY = \""), "\"");
  CAF_CHECK_EQUAL(clean("KEY = \"'a'\""), "'a'");
}

CAF_TEST(backquotes and triple quotes keep everything) {
  CAF_CHECK_EQUAL(clean("KEY = `a ; #b`"), "a ; #b");
  CAF_CHECK_EQUAL(clean("KEY = \"\"\"a ; #b\"\"\""), "a ; #b");
  CAF_CHECK_EQUAL(clean("KEY = ` a `"), " a ");
  CAF_CHECK_EQUAL(clean("KEY = ``"), "");
  CAF_CHECK_EQUAL(clean("KEY = \"\"\"\"\"\""), "");
  CAF_CHECK_EQUAL(clean("KEY = `a` ; c"), "a");
  CAF_CHECK_EQUAL(clean("KEY = `\"a\"`"), "\"a\"");
  CAF_CHECK_EQUAL(clean("KEY = x`a;b`"), "x`a");
}

CAF_TEST(kept values span lines and the line of the key is kept) {
  const auto parsed =
      parse_ini("[a]\nKEY = `one\n  two # no comment\nthree` ; c\nNEXT = \"\"\"\nx\n\"\"\"\nLAST = 1\n", "f.ini");
  CAF_CHECK_EQUAL(to_string(parsed.found), "");
  CAF_CHECK_EQUAL(parsed.content.get("a", "KEY"), "one\n  two # no comment\nthree");
  CAF_CHECK_EQUAL(parsed.content.get("a", "NEXT"), "\nx\n");
  CAF_CHECK_EQUAL(parsed.content.find("a", "KEY")->where.line, 2u);
  CAF_CHECK_EQUAL(parsed.content.find("a", "NEXT")->where.line, 5u);
  CAF_CHECK_EQUAL(parsed.content.find("a", "LAST")->where.line, 8u);
  CAF_CHECK_EQUAL(to_string(parsed.content.find("a", "LAST")->where), "f.ini:8");
}

CAF_TEST(a kept value ends at the last quote of its line and tells) {
  CAF_CHECK_EQUAL(value("KEY = `a` ; b`"), "a` ; b");
  CAF_CHECK_EQUAL(complaints("[a]\nKEY = `a` ; b`"),
                  "f.ini:2: warning: [a] KEY: the value goes on to the last ` of this line; move a comment that holds "
                  "one to a line "
                  "of its own\n");
  CAF_CHECK_EQUAL(
      complaints("[a]\nKEY = `a` b"),
      "f.ini:2: warning: [a] KEY: text behind the closing quote is ignored; remove it, or put # in front of it\n");
}

CAF_TEST(one forgotten quote does not hide what follows) {
  const auto parsed = parse_ini("[a]\nKEY = `a\nB = 1\nnonsense\n", "f.ini");
  CAF_CHECK_EQUAL(parsed.content.get("a", "B"), "1");
  CAF_CHECK(!parsed.content.find("a", "KEY"));
  CAF_CHECK_EQUAL(to_string(parsed.found),
                  "f.ini:2: error: [a] KEY: the closing ` is missing; close the value\n"
                  "f.ini:4: error: no \"=\" in this line; write KEY = value, or put # in front of a comment\n");
}

CAF_TEST(sections come again and the last key counts) {
  const auto parsed = parse_ini("[a]\nX = 1\nY = 1\n[b]\nX = 2\n[a]\nX = 3\n", "f.ini");
  CAF_CHECK_EQUAL(parsed.content.get("a", "X"), "3");
  CAF_CHECK_EQUAL(parsed.content.get("a", "Y"), "1");
  CAF_CHECK_EQUAL(parsed.content.sections().size(), 3u);
  CAF_CHECK_EQUAL(parsed.content.find("a", "X")->where.line, 7u);
  CAF_CHECK_EQUAL(to_string(parsed.found),
                  "f.ini:7: warning: [a] X: set before in line 2, this one counts; remove one of them\n");
}

CAF_TEST(headers) {
  CAF_CHECK_EQUAL(parse_ini("[ a b ] ; c\nX = 1", "f").content.get("a b", "X"), "1");
  CAF_CHECK_EQUAL(parse_ini("  [a]#c\nX = 1", "f").content.get("a", "X"), "1");
  CAF_CHECK_EQUAL(parse_ini("X = 1\n[DEFAULT]\nY = 2\n", "f").content.get("", "Y"), "2");
  CAF_CHECK(!parse_ini("[A]\nX = 1", "f").content.find("a", "X"));
  CAF_CHECK_EQUAL(
      complaints("[a\nX = 1"),
      "f.ini:1: error: a section without its \"]\"; write [NAME]; what follows was read as part of no section\n");
  CAF_CHECK_EQUAL(complaints("[b]\n[a"),
                  "f.ini:2: error: a section without its \"]\"; write [NAME]; what follows was read as part of [b]\n");
  CAF_CHECK_EQUAL(complaints("[ ]"), "f.ini:1: error: a section without a name; write [NAME]\n");
  CAF_CHECK_EQUAL(complaints("[a] x"),
                  "f.ini:1: error: text behind the \"]\" of a section; put it into a line of its own\n");
}

CAF_TEST(keys in quotes) {
  CAF_CHECK_EQUAL(clean("\"K=1\" = v", "K=1"), "v");
  CAF_CHECK_EQUAL(clean("`K:1`=v", "K:1"), "v");
  CAF_CHECK_EQUAL(clean("\"\"\"K\"1\"\"\" : v", "K\"1"), "v");
  CAF_CHECK_EQUAL(complaints("\"K = v"), "f.ini:1: error: a key without its closing quote; write KEY = value\n");
  CAF_CHECK_EQUAL(complaints("\"K\" x = v"),
                  "f.ini:1: error: no \"=\" in this line; write KEY = value, or put # in front of a comment\n");
  CAF_CHECK_EQUAL(complaints("\"K\""),
                  "f.ini:1: error: no \"=\" in this line; write KEY = value, or put # in front of a comment\n");
  CAF_CHECK_EQUAL(complaints("\" \" = v"), "f.ini:1: error: no key in front of the \"=\"; write KEY = value\n");
}

CAF_TEST(every bad line is told at once with its number) {
  CAF_CHECK_EQUAL(complaints("[a]\nnot a pair\n= v\n: v\n[x\nOK = 1\n\nagain"),
                  "f.ini:2: error: no \"=\" in this line; write KEY = value, or put # in front of a comment\n"
                  "f.ini:3: error: no key in front of the \"=\"; write KEY = value\n"
                  "f.ini:4: error: no key in front of the \":\"; write KEY = value\n"
                  "f.ini:5: error: a section without its \"]\"; write [NAME]; what follows was read as part of [a]\n"
                  "f.ini:8: error: no \"=\" in this line; write KEY = value, or put # in front of a comment\n");
}

CAF_TEST(nothing continues a line) {
  CAF_CHECK_EQUAL(clean("KEY = C:\\dir\\\nB = 2"), "C:\\dir\\");
  CAF_CHECK_EQUAL(clean("KEY = 1\n   B = 2", "B"), "2");
}

CAF_TEST(byte order marks and line ends of other systems) {
  CAF_CHECK_EQUAL(parse_ini("\xef\xbb\xbf[a]\r\nKEY = v\r\n", "f").content.get("a", "KEY"), "v");
  CAF_CHECK_EQUAL(clean("KEY = `x\r\ny`\r\nB = 2\r\n"), "x\ny");
  CAF_CHECK_EQUAL(clean("\r\n\r\nKEY = v\r"), "v");
  CAF_CHECK_EQUAL(complaints("\xff\xfe[\0a\0"s), "f.ini:1: error: this file is UTF-16; save it as UTF-8\n");
  CAF_CHECK_EQUAL(complaints("\xfe\xff\0[\0a"s), "f.ini:1: error: this file is UTF-16; save it as UTF-8\n");
}

CAF_TEST(NUL bytes are refused) {
  const auto text = "f.ini:2: error: a NUL byte in this line; is this really a text file? Remove the byte\n";
  CAF_CHECK_EQUAL(complaints("[a]\nKE\0Y = 1\nB = 2"s), text);
  CAF_CHECK_EQUAL(complaints("[a]\n[b\0]\n"s), text);
  CAF_CHECK_EQUAL(complaints("A = `x\n\0`\n"s), text);
  CAF_CHECK_EQUAL(complaints("[a]\n# com\0ment\n"s), "");
}

CAF_TEST(long lines and empty texts are fine) {
  const std::string longest(1'000'000, 'x');
  CAF_CHECK_EQUAL(clean("KEY = " + longest), longest);
  for (const auto* text : {"", "\n", "\n\n", " ", "\xef\xbb\xbf", "\r"}) {
    const auto parsed = parse_ini(text, "f");
    CAF_CHECK(parsed.found.empty());
    CAF_CHECK_EQUAL(parsed.content.sections().size(), 1u);
  }
}

CAF_TEST(children see the keys of their parents and strict look ups do not ) {
  const auto in = parse_ini("[q]\nA = 1\nB = 2\nE = 3\n[q.x]\nB = 4\nE =\n[q.x.y]\nC = 5\n", "f").content;
  CAF_CHECK_EQUAL(in.get("q.x", "A"), "1");
  CAF_CHECK_EQUAL(in.get("q.x", "B"), "4");
  CAF_CHECK_EQUAL(in.get("q.x.y", "A"), "1");
  CAF_CHECK_EQUAL(in.get("q.x.y", "B"), "4");
  CAF_CHECK_EQUAL(in.get("q.none.at.all", "A"), "1");
  CAF_CHECK_EQUAL(in.get("q.x", "A", "def", lookup::strict), "def");
  CAF_CHECK_EQUAL(in.get("q.x", "E", "def"), "def");
  CAF_CHECK_EQUAL(in.locate("q.x.y", "E").what->value, "3");
  CAF_CHECK_EQUAL(in.locate("q.x.y", "E").section, "q");
  CAF_CHECK(!in.locate("q.x", "NONE").what);
  CAF_CHECK(!in.find("x", "A"));
  CAF_CHECK(!in.find("qq.x", "A"));
  CAF_CHECK(!in.find("q.x", "a"));
}

CAF_TEST(a generic duration takes its default for any other text) {
  const auto in = parse_ini("[a]\nT = 90\nU = soon\nE =\n", "f").content;
  CAF_CHECK(in.get_duration("a", "T", 5min) == 90s);
  CAF_CHECK(in.get_duration("a", "U", 5min) == 5min);
  CAF_CHECK(in.get_duration("a", "E", 5min) == 5min);
  CAF_CHECK(in.get_duration("a", "NONE", 5min) == 5min);
  CAF_CHECK(in.get_duration("a.b", "T", 5min, lookup::strict) == 5min);
}

CAF_TEST(printed text reads back as the same) {
  ini in;
  const char* values[] = {"",          "plain",  "a b", " a ",    "a;b",  "#",   "`",
                          "a`b;c",     "\"q\"",  "'q'", "\"\"\"", "x\ny", "\n",  "`\nx",
                          "\"\"\"\n`", "x\n`y`", "a\r", "\r",     "=",    "[a]", "a\n\"\"\"x`y"};
  auto i = 0;
  for (const auto* v : values) in.set("a", "K" + std::to_string(i++), v, {});
  for (const auto* k : {"\xef\xbb\xbf", "a=b", "a:b", "[x", "#x", ";x", "\"x", "`x", "x\"`y", "\"`"})
    in.set("odd keys", k, "v", {});
  in.set("", "OUTSIDE", "1", {});
  in.open_section("empty", {});
  const auto text = to_text(in);
  const auto back = parse_ini(text, "printed");
  CAF_CHECK(!has_errors(back.found));
  CAF_CHECK(same_content(in, back.content));
  CAF_CHECK_EQUAL(to_text(back.content), text);
}

CAF_TEST(a value that no text can hold becomes a comment) {
  ini in;
  in.set("a", "K", "`\n\"\"\"\n", {});
  in.set("a", "L", "x\r\ny", {});
  CAF_CHECK_EQUAL(to_text(in), "[a]\n; K: no INI text can hold this value\n; L: no INI text can hold this value\n");
}

CAF_TEST(setting tells whether anything changed) {
  ini in;
  CAF_CHECK(in.set("a", "K", "1", {}));
  CAF_CHECK(!in.set("a", "K", "1", {"f", 3, {}}));
  CAF_CHECK_EQUAL(in.find("a", "K")->where.line, 3u);
  CAF_CHECK(in.set("a", "K", "2", {}));
  CAF_CHECK(in.set("b", "K", "", {}));
  CAF_CHECK(!same_content(in, ini()));
}

CAF_TEST(files that cannot be read say why) {
  namespace fs = std::filesystem;
  const auto dir = fs::temp_directory_path() / ("caravan_ini_" + std::to_string(::getpid()));
  fs::create_directories(dir);
  const auto none = read_ini_file(dir / "none.ini");
  CAF_REQUIRE(!none);
  CAF_CHECK(none.failure().code == errc::not_found);
  CAF_CHECK_EQUAL(none.failure().text, "configuration file \"" + (dir / "none.ini").string() +
                                           "\": there is no such file; name it with --config");
  const auto directory = read_ini_file(dir);
  CAF_REQUIRE(!directory);
  CAF_CHECK_EQUAL(directory.failure().text,
                  "configuration file \"" + dir.string() + "\": this is a directory; name the file in it");
  std::ofstream(dir / "big.ini") << std::string((16u << 20) + 1, '#');
  const auto big = read_ini_file(dir / "big.ini");
  CAF_REQUIRE(!big);
  CAF_CHECK(big.failure().code == errc::too_large);
  std::ofstream(dir / "good.ini") << "[a]\nK = 1";
  const auto good = read_ini_file(dir / "good.ini");
  CAF_REQUIRE(good);
  CAF_CHECK_EQUAL(to_string(good->content.find("a", "K")->where), (dir / "good.ini").string() + ":2");
  if (::geteuid() != 0) {  // root reads everything
    fs::permissions(dir / "good.ini", fs::perms::none);
    const auto secret = read_ini_file(dir / "good.ini");
    CAF_REQUIRE(!secret);
    CAF_CHECK_EQUAL(secret.failure().text, "configuration file \"" + (dir / "good.ini").string() +
                                               "\": it cannot be read; check its permissions");
  }
  fs::remove_all(dir);
}
