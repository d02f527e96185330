#include "integration/process/command_line.hpp"

namespace caravan::process {

namespace {
error refuse(const std::string& why) { return {errc::invalid_argument, "exec: " + why}; }
}  // namespace

expected<std::vector<std::string>> split_command(std::string_view command) {
  std::vector<std::string> words;
  std::string word;
  bool in_word = false;  // '' is a word too, though an empty one
  if (command.find('\0') != std::string_view::npos) return refuse("the command holds a NUL byte");
  for (std::size_t i = 0; i < command.size(); ++i) {
    const char c = command[i];
    switch (c) {
      case ' ':
      case '\t':
      case '\n':
      case '\r':
        if (in_word) words.push_back(std::move(word));
        word.clear();
        in_word = false;
        break;
      case '\'': {
        const auto end = command.find('\'', i + 1);
        if (end == std::string_view::npos)
          return refuse("the quote ' at character " + std::to_string(i + 1) + " of the command is not closed");
        word += command.substr(i + 1, end - i - 1);
        in_word = true;
        i = end;
        break;
      }
      case '"': {
        const auto start = i++;
        for (; i < command.size() && command[i] != '"'; ++i) {
          const bool escapes = command[i] == '\\' && i + 1 < command.size() &&
                               std::string_view("\"\\$`").find(command[i + 1]) != std::string_view::npos;
          if (escapes) ++i;
          word += command[i];
        }
        if (i >= command.size())
          return refuse("the quote \" at character " + std::to_string(start + 1) + " of the command is not closed");
        in_word = true;
        break;
      }
      case '\\':
        if (++i == command.size()) return refuse("the command ends with a backslash that escapes nothing");
        word += command[i];
        in_word = true;
        break;
      case '|':
      case '&':
      case ';':
      case '<':
      case '>':
      case '$':
      case '`':
        return refuse(std::string("the command holds an unquoted ") + c +
                      " but is run without a shell; quote it, or use exec:sh -c '...'");
      default:
        word += c;
        in_word = true;
    }
  }
  if (in_word) words.push_back(std::move(word));
  if (words.empty() || words.front().empty())
    return refuse("the command is empty; write HANDLER = exec:PROGRAM [ARGUMENTS]");
  return words;
}

}  // namespace caravan::process
