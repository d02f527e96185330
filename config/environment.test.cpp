#define CAF_SUITE config_environment
#include "config/environment.hpp"

#include "caf/test/unit_test.hpp"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

using namespace caravan::config;
using namespace std::string_literals;

namespace {

namespace fs = std::filesystem;

std::string decoded(std::string_view text) {
  const auto out = decode_section_key(text);
  return out ? "[" + out->section + "] " + out->key : "-";
}

std::string variable(std::string_view text) {
  const auto out = decode_variable(text);
  return out ? "[" + out->section + "] " + out->key + (out->from_file ? " file" : "") : "-";
}

struct scratch {
  fs::path dir = fs::temp_directory_path() / ("caravan_env_" + std::to_string(::getpid()));
  scratch() { fs::create_directories(dir); }
  ~scratch() { fs::remove_all(dir); }
  std::string file(const std::string& name, const std::string& content) {
    std::ofstream(dir / name, std::ios::binary) << content;
    return (dir / name).string();
  }
};

std::string complaints(ini in, const std::vector<std::string>& environment) {
  return to_string(apply_environment(in, environment).found);
}

}  // namespace

CAF_TEST(names decode to a section in lower case and a key as it is) {
  CAF_CHECK_EQUAL(decoded("SEC__KEY"), "[sec] KEY");
  CAF_CHECK_EQUAL(decoded("sec__key"), "[sec] key");
  CAF_CHECK_EQUAL(decoded("LOG_0x2E_CONSOLE__STDERR"), "[log.console] STDERR");
  CAF_CHECK_EQUAL(decoded("LOG_0X2e_CONSOLE__STDERR"), "[log.console] STDERR");
  CAF_CHECK_EQUAL(decoded("A.B__K"), "[a.b] K");
  CAF_CHECK_EQUAL(decoded("A_0x2E2D_B__K_0x20_L"), "[a.-b] K L");
  CAF_CHECK_EQUAL(decoded("A__K__L"), "[a] K__L");
  CAF_CHECK_EQUAL(decoded("A_B__K"), "[a_b] K");
  CAF_CHECK_EQUAL(decoded("__K"), "[] K");
  CAF_CHECK_EQUAL(decoded("A_0x2E___K"), "[a.] K");
  CAF_CHECK_EQUAL(decoded("A___0x2E_"), "[a] .");
}

CAF_TEST(escapes are found before separators) {
  CAF_CHECK_EQUAL(decoded("A__0x2E_B"), "-");
  CAF_CHECK_EQUAL(decoded("A__0x2E_B__K"), "[a_.b] K");
}

CAF_TEST(what is no escape stays as it is) {
  CAF_CHECK_EQUAL(decoded("A_0x2_B__K"), "[a_0x2_b] K");
  CAF_CHECK_EQUAL(decoded("A_0xZZ_B__K"), "[a_0xzz_b] K");
  CAF_CHECK_EQUAL(decoded("A_0x2E__K"), "-");  // the escape takes one _ of the separator
  CAF_CHECK_EQUAL(decoded("A__K_0x2E"), "[a] K_0x2E");
  CAF_CHECK_EQUAL(decoded("A__K_0x_"), "[a] K_0x_");
}

CAF_TEST(names without a key are none) {
  for (const auto* text : {"", "A", "A__", "A_B", "__", "_", "_0x2E_"}) CAF_CHECK_EQUAL(decoded(text), "-");
}

CAF_TEST(prefix and suffix) {
  CAF_CHECK_EQUAL(variable("SEC__KEY"), "-");
  CAF_CHECK_EQUAL(variable("CARAVAN__SEC__KEY"), "[sec] KEY");
  CAF_CHECK_EQUAL(variable("CARAVAN__SEC__KEY__FILE"), "[sec] KEY file");
  CAF_CHECK_EQUAL(variable("CARAVAN__LOG__FILE"), "[log] FILE");
  CAF_CHECK_EQUAL(variable("CARAVAN__LOG__FILE__FILE"), "[log] FILE file");
  CAF_CHECK_EQUAL(variable("CARAVAN__"), "-");
  CAF_CHECK_EQUAL(variable("CARAVAN_SEC__KEY"), "-");
}

CAF_TEST(an encoded name decodes to what it came from) {
  CAF_CHECK_EQUAL(encode_variable("queue.mail", "LENGTH"), "CARAVAN__QUEUE_0x2E_MAIL__LENGTH");
  CAF_CHECK_EQUAL(encode_variable("global_lock", "SERVICE_TYPE"), "CARAVAN__GLOBAL_LOCK__SERVICE_TYPE");
  for (const auto* section :
       {"a", "a.b", "a_b", "a__b", "_a", "a_", "a-b.c_d", "a_0x2e_b", "a b", "\xc3\xa4", "_0x", "a_0xb"})
    for (const auto* key : {"K", "k_l", "_K", "K_", "K__L", "A.B", "_0x41_", "FILE"}) {
      const auto out = decode_variable(encode_variable(section, key));
      CAF_REQUIRE(out);
      CAF_CHECK_EQUAL(out->section, section);
      CAF_CHECK_EQUAL(out->key, key);
      CAF_CHECK(!out->from_file);
    }
}

CAF_TEST(variables go over the file and bring new keys) {
  auto in = parse_ini("[queue.mail]\nLENGTH = 1\n", "f.ini").content;
  const std::vector<std::string> env = {"HOME=/root", "CARAVAN__QUEUE_0x2E_MAIL__LENGTH=5", "CARAVAN__NODE__NAME=n = 1",
                                        "CARAVAN", "CARAVAN__HTTP__ADDR="};
  auto result = apply_environment(in, env);
  CAF_CHECK(result.changed);
  CAF_CHECK(result.found.empty());
  CAF_CHECK_EQUAL(in.get("queue.mail", "LENGTH"), "5");
  CAF_CHECK_EQUAL(in.get("node", "NAME"), "n = 1");
  CAF_CHECK(in.find("http", "ADDR"));
  CAF_CHECK_EQUAL(to_string(in.find("queue.mail", "LENGTH")->where),
                  "environment variable CARAVAN__QUEUE_0x2E_MAIL__LENGTH");
  CAF_CHECK(!apply_environment(in, env).changed);
}

CAF_TEST(a section with capitals is met by a variable) {
  auto in = parse_ini("[queue.Mail]\nA = 1\n[queue.TWO]\n[queue.Two]\n", "f").content;
  const std::vector<std::string> env = {"CARAVAN__QUEUE_0x2E_MAIL__A=2", "CARAVAN__QUEUE_0x2E_TWO__A=3"};
  apply_environment(in, env);
  CAF_CHECK_EQUAL(in.get("queue.Mail", "A"), "2");
  CAF_CHECK_EQUAL(in.get("queue.two", "A"), "3");  // nobody knows which of the two was meant
  CAF_CHECK(!in.find("queue.TWO", "A"));
}

CAF_TEST(values come from files without their last line break) {
  scratch tmp;
  for (const auto& [content, value] : {std::pair("secret"s, "secret"s),
                                       {"secret\n", "secret"},
                                       {"secret\r\n", "secret"},
                                       {"secret\n\n", "secret\n"},
                                       {"", ""},
                                       {" x ", " x "}}) {
    ini in;
    in.set("http", "ADMIN_TOKEN", "old", {});
    const std::vector<std::string> env = {"CARAVAN__HTTP__ADMIN_TOKEN__FILE=" + tmp.file("v", content)};
    CAF_CHECK(apply_environment(in, env).changed);
    CAF_CHECK_EQUAL(in.find("http", "ADMIN_TOKEN")->value, value);
    CAF_CHECK_EQUAL(in.find("http", "ADMIN_TOKEN")->where.variable, "CARAVAN__HTTP__ADMIN_TOKEN__FILE");
  }
}

CAF_TEST(every mistake in the environment is told) {
  scratch tmp;
  CAF_CHECK_EQUAL(
      complaints({}, {"CARAVAN__HTTP=1", "CARAVAN__X__="}),
      "environment variable CARAVAN__HTTP: warning: its name holds no section and key; write CARAVAN__SECTION__KEY\n"
      "environment variable CARAVAN__X__: warning: its name holds no section and key; write CARAVAN__SECTION__KEY\n");
  CAF_CHECK_EQUAL(
      complaints({}, {"CARAVAN__A__K__FILE=/no/such/file"}),
      "environment variable CARAVAN__A__K__FILE: error: [a] K: the file \"/no/such/file\" cannot be read; name a "
      "readable file with the value\n");
  CAF_CHECK_EQUAL(complaints({}, {"CARAVAN__A__K__FILE=" + tmp.dir.string()}),
                  "environment variable CARAVAN__A__K__FILE: error: [a] K: the file \"" + tmp.dir.string() +
                      "\" cannot be read; name a readable file with the value\n");
  const auto big = tmp.file("big", std::string((1u << 20) + 1, 'x'));
  CAF_CHECK_EQUAL(complaints({}, {"CARAVAN__A__K__FILE=" + big}),
                  "environment variable CARAVAN__A__K__FILE: error: [a] K: the file \"" + big +
                      "\" is over 1 MiB; name a readable file with the value\n");
  CAF_CHECK_EQUAL(complaints({}, {"CARAVAN__A__K__FILE=" + tmp.file("nul", "a\0b"s)}),
                  "environment variable CARAVAN__A__K__FILE: error: [a] K: a NUL byte in the value; remove it\n");
  CAF_CHECK_EQUAL(
      complaints({}, {"CARAVAN__A__K__FILE=" + tmp.file("v", "1"), "CARAVAN__A__K=2"}),
      "environment variable CARAVAN__A__K__FILE: error: [a] K: set both directly and by __FILE; unset one of them\n");
  for (const auto* name : {"CARAVAN__A__K_0x0A_", "CARAVAN__A_0x5D___K", "CARAVAN__A_0x20___K", "CARAVAN__A___0x20_K"})
    CAF_CHECK_EQUAL(complaints({}, {std::string(name) + "=2"}),
                    "environment variable " + std::string(name) +
                        ": error: its name decodes to what no file could hold; write . as _0x2E_ and nothing else\n");
}

CAF_TEST(the environment of this process is seen) {
  ::setenv("CARAVAN__TEST__KEY", "v", 1);
  const auto all = process_environment();
  CAF_CHECK(std::find(all.begin(), all.end(), "CARAVAN__TEST__KEY=v") != all.end());
}
