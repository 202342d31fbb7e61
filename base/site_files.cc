#include "base/site_files.h"

#include <sys/auxv.h>
#include <sys/stat.h>

#include <algorithm>
#include <optional>
#include <set>

#include "base/env.h"
#include "base/format.h"
#include "base/split.h"
#include "base/whole_file.h"

namespace collctl::base {
namespace {

constexpr const char* kNamed = "NCCL_CONF_FILE";

struct Read {
  std::vector<SiteFile> files;
  std::vector<std::string> variables;
  std::optional<Error> named_failed;
};
Read& state() {
  static Read one;
  return one;
}

bool is_name(const std::string& name) {
  const auto part = [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  };
  return !name.empty() && (name[0] < '0' || name[0] > '9') && std::ranges::all_of(name, part);
}

// Reason why a file that all jobs share cannot set this variable; empty: it can.
std::string why_not_taken(const std::string& name) {
  for (const Knob& k : knobs()) {
    const bool mine = name == std::string("COLLCTL_") + k.name || name == k.nccl_name;
    if (!mine) continue;
    switch (k.id) {
      case KnobId::comm_id:
      case KnobId::token:
      case KnobId::rank:
      case KnobId::size:
      case KnobId::local_rank:
      case KnobId::local_size:
        return "belongs to one job";
      default:
        return "";
    }
  }
  if (name.starts_with("LD_") || name == "PATH" || name == "HOME" || name == kNamed)
    return "is not for such a file";
  return "";
}

Status take(const std::string& path, bool named) {
  struct stat s {};
  if (!named && ::stat(path.c_str(), &s) != 0) return {};  // none there for this user
  SiteFile file{.path = path};
  const auto text = read_trusted_file(path, kMostSiteBytes);
  if (!text) file.problems.push_back("not read: " + text.error().message);
  SiteText said = parse_site_text(text ? *text : "");
  for (std::string& problem : said.problems) file.problems.push_back(std::move(problem));
  for (const SiteLine& line : said.lines) {
    if (const std::string why = why_not_taken(line.name); !why.empty()) {
      file.problems.push_back(format("{} {}, it is not taken", line.name, why));
      continue;
    }
    if (!take_default(line.name, line.value, path, state().files.size())) continue;
    file.names.push_back(line.name);
    state().variables.push_back(line.name + "=" + line.value);
  }
  state().files.push_back(std::move(file));
  return text ? Status() : Status(text.error());
}

}  // namespace

SiteText parse_site_text(const std::string& text) {
  SiteText said;
  std::set<std::string> seen;
  size_t number = 0;
  for (const std::string_view each : lines_of(text)) {
    std::string line(each);
    ++number;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.empty() || line[0] == '#') continue;
    const size_t equals = line.find('=');
    const std::string name = line.substr(0, equals);
    const bool whole = line.size() <= kMostSiteLine && line.find('\0') == std::string::npos;
    if (!whole)
      said.problems.push_back(
          format("line {} is longer than {} bytes, or no text", number, kMostSiteLine));
    else if (equals == std::string::npos || !is_name(name))
      said.problems.push_back(format("line {} is not NAME=VALUE", number));
    else if (seen.insert(name).second)
      said.lines.push_back({name, line.substr(equals + 1)});
  }
  return said;
}

void read_site_files() {
  if (::getauxval(AT_SECURE) != 0) return;
  const std::string named = environment(kNamed).value_or("");
  const std::string home = environment("HOME").value_or("");
  if (!named.empty()) {
    Status taken = take(named, true);
    if (!taken.ok()) state().named_failed = std::move(taken.error().within(kNamed));
  } else if (!home.empty()) {
    (void)take(home + "/.nccl.conf", false);  // what is wrong stands with the file
  }
  (void)take("/etc/nccl.conf", false);
}

std::span<const SiteFile> site_files() {
  return state().files;
}

Status site_files_status() {
  if (state().named_failed) return *state().named_failed;
  return {};
}

std::vector<std::string> site_variables() {
  return state().variables;
}

}  // namespace collctl::base
