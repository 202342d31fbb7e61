// Files that set variables, as NCCL reads them: the file that NCCL_CONF_FILE names, else
// ~/.nccl.conf, and then /etc/nccl.conf. Lines NAME=VALUE; # begins a comment line. The environment
// goes before the first file, that before the second. Any variable may be set (a network plugin
// reads its own), but what belongs to one job or says what is loaded. Threads: read_site_files()
// once, in main, before there are others; the rest any.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace collctl::base {

inline constexpr size_t kMostSiteBytes = 64 << 10, kMostSiteLine = 4096;

struct SiteLine {
  std::string name, value;
};
struct SiteText {
  std::vector<SiteLine> lines;
  std::vector<std::string> problems;  // of lines that set nothing: "line 3 is not NAME=VALUE"
};
// Contents of such a file; of a name that comes twice the first counts. Pure.
SiteText parse_site_text(const std::string& text);

struct SiteFile {
  std::string path = {};
  std::vector<std::string> names = {};     // that it has set, in its order
  std::vector<std::string> problems = {};  // the file itself, when it was not read, or lines
};

// Takes them into the environment, where a variable is not there yet. With more rights than its
// caller (set-uid) a process reads none.
void read_site_files();
// Those that are there, in their order.
std::span<const SiteFile> site_files();
// Error usage: NCCL_CONF_FILE names what cannot be used.
Status site_files_status();
// "NAME=VALUE" of all that came out of a file.
std::vector<std::string> site_variables();

}  // namespace collctl::base
