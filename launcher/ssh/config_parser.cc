// The parser for OpenSSH's client configuration, for machines without ssh.
#include <algorithm>
#include <sstream>

#include "base/format.h"
#include "launcher/ssh/config.h"
#include "launcher/ssh/config_values.h"

namespace collctl::launcher {
namespace {

constexpr int kDeepest = 8;         // Includes in Includes
constexpr int kMostLines = 100000;  // of all files together

struct ConfigParser {
  const ConfigPlace& place;
  const ConfigFiles& files;
  RawConfig& raw;
  int lines = 0;
  bool beyond = false;

  Status file(const std::string& path, bool user_file, bool applies, int depth);
  Status include(const std::string& patterns, const std::string& where, bool user_file,
                 bool applies, int depth);
};

Error mistake(const std::string& where, const std::string& what) {
  return Error(ErrorCode::usage, where + ": " + what, "correct the SSH configuration");
}

std::string trimmed(const std::string& text) {
  const size_t first = text.find_first_not_of(" \t\r\f");
  if (first == std::string::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\f") - first + 1);
}

// "Keyword value", "Keyword=value"; false for blank lines and comments.
bool cut(const std::string& line, std::string& keyword, std::string& value) {
  const std::string text = trimmed(line);
  if (text.empty() || text[0] == '#') return false;
  const size_t end = text.find_first_of(" \t=");
  keyword.clear();
  for (const char c : text.substr(0, end))
    keyword += char(std::tolower(static_cast<unsigned char>(c)));
  value.clear();
  if (end == std::string::npos) return true;
  size_t at = text.find_first_not_of(" \t", end);
  if (at != std::string::npos && text[at] == '=') at = text.find_first_not_of(" \t", at + 1);
  if (at != std::string::npos) value = text.substr(at);
  return true;
}

// One of the patterns must match, and none of the negated ones.
bool host_applies(const std::string& patterns, const std::string& name) {
  bool found = false;
  std::istringstream words(patterns);
  std::string word;
  while (words >> word) {
    word.erase(std::remove(word.begin(), word.end(), '"'), word.end());
    if (word[0] == '!') {
      if (matches_pattern(std::string_view(word).substr(1), name)) return false;
    } else if (matches_pattern(word, name)) {
      found = true;
    }
  }
  return found;
}

bool match_all(const std::string& value) {
  std::string lower;
  for (const char c : trimmed(value)) lower += char(std::tolower(static_cast<unsigned char>(c)));
  return lower == "all";
}

// Settings that change which values hold, and tokens that expand_path() does not know.
bool only_ssh_knows(const std::string& keyword, const std::string& value) {
  if (keyword.rfind("canonical", 0) == 0 || keyword == "tag" || keyword == "pkcs11provider" ||
      keyword == "securitykeyprovider" || keyword == "knownhostscommand")
    return true;
  if (keyword == "proxycommand") return false;  // not ours to expand
  if (value.find("${") != std::string::npos) return true;
  for (size_t at = value.find('%'); at != std::string::npos && at + 1 < value.size();
       at = value.find('%', at + 2))
    if (std::string_view("%dhnprui").find(value[at + 1]) == std::string_view::npos) return true;
  return false;
}

Status ConfigParser::include(const std::string& patterns, const std::string& where, bool user_file,
                             bool applies, int depth) {
  if (depth >= kDeepest) return mistake(where, "Include nested too deep");
  std::istringstream words(patterns);
  std::string word;
  while (words >> word) {
    word.erase(std::remove(word.begin(), word.end(), '"'), word.end());
    std::string pattern = expand_path(word, place, ResolvedHost{});
    if (pattern.empty()) continue;
    if (pattern[0] != '/') pattern = (user_file ? place.home + "/.ssh/" : "/etc/ssh/") + pattern;
    for (const std::string& path : files.glob(pattern))
      COLL_TRY(file(path, user_file, applies, depth + 1));
  }
  return {};
}

Status ConfigParser::file(const std::string& path, bool user_file, bool applies, int depth) {
  const auto text = files.read(path);
  if (!text) return {};
  const bool outer = applies;  // an Include inside a Host block counts only there
  std::istringstream stream(*text);
  std::string line, keyword, value;
  for (int number = 1; std::getline(stream, line); ++number) {
    const std::string where = format("{}:{}", path, number);
    if (++lines > kMostLines) return mistake(where, "the configuration is too long");
    if (!cut(line, keyword, value)) continue;
    if (value.empty()) return mistake(where, "'" + keyword + "' has no value");
    if (keyword == "host") {
      applies = outer && host_applies(value, place.name);
    } else if (keyword == "match") {
      applies = outer && match_all(value);
      if (!match_all(value)) beyond = true;
    } else if (keyword == "include") {
      COLL_TRY(include(value, where, user_file, applies, depth));
    } else if (applies) {
      int port = 0;
      if (keyword == "port" && !parse_port(value, port))
        return mistake(where, "'" + value + "' is not a port: expected 1 to 65535");
      if (only_ssh_knows(keyword, value)) beyond = true;
      raw.take(keyword, value);
    }
  }
  return {};
}

}  // namespace

Result<ResolvedHost> resolve_config(const ConfigPlace& place, const ConfigFiles& files) {
  RawConfig raw;
  // As with OpenSSH what the command line says comes first.
  if (!files.user.empty()) raw.take("user", files.user);
  if (files.port != 0) raw.take("port", std::to_string(files.port));
  ConfigParser parser{place, files, raw};
  for (const std::string& path : files.files)
    COLL_TRY(parser.file(path, path.rfind("/etc/", 0) != 0, true, 0));
  ResolvedHost host = raw.finish(place);
  host.beyond_parser = parser.beyond;
  return host;
}

}  // namespace collctl::launcher
