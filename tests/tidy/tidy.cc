// The tidy test: include directions between the layers and the bans of ARCHITECTURE.md, line by
// line over the tracked sources. Prints each offence as file:line and fails if there is one; a
// self-test first shows that it can fail.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace fs = std::filesystem;

namespace {

// What each folder may include, besides itself.
const std::map<std::string, std::set<std::string>> kMayInclude = {
    {"base", {}},
    {"topology", {"base"}},
    {"kernels", {"base"}},
    {"transport", {"base", "kernels", "topology"}},
    {"runtime", {"base", "topology", "kernels", "transport"}},
    {"launcher", {"base"}},
    {"cmd", {"base", "topology", "kernels", "transport", "runtime", "launcher"}},
};

struct Ban {
  const char* name;
  std::regex pattern;
  std::vector<std::string> allowed;  // path prefixes where it is fine
};

const std::vector<Ban>& bans() {
  static const std::vector<Ban> list = {
      {"getenv outside base/env", std::regex(R"(\bgetenv\s*\()"), {"base/env.cc"}},
      {"printing outside cmd",
       std::regex(
           R"(\b(printf|puts|fputs|fprintf|putchar)\s*\(|std::c(out|err)\b|#include <iostream>)"),
       {"cmd/"}},
      {"exit outside main",
       std::regex(R"((^|[^_\w.>])(exit|quick_exit|std::abort)\s*\(\s*[^)]*\)\s*;)"),
       {"cmd/main.cc"}},
      {"threadIdx outside kernels/cuda", std::regex(R"(\bthreadIdx\b)"), {"kernels/cuda/"}},
      {"CUDA headers outside kernels/cuda",
       std::regex(R"(#include <(cuda|cooperative_groups))"),
       {"kernels/cuda/"}},
      {"/proc or /sys outside base/host_facts and the topology readers",
       std::regex("\"/(proc|sys)/"),
       {"base/host_facts.", "base/process_facts.", "base/host_limits.", "base/host_devices.",
        "base/host_rdma.", "topology/detect/reader", "topology/detect/discover"}},
      {"blocking calls outside base/wait",
       std::regex(
           R"((^|[^_\w.>])(::)?(poll|select|epoll_wait|ppoll|usleep|nanosleep|sleep|sem_wait|waitpid\s*\(\s*-?1)\s*\()"
           R"(|sleep_for|sleep_until\(std|\.wait\(lock\))"),
       {"base/wait.cc", "base/wait.h"}},
      {"unfinished work", std::regex(R"(\b(TODO|FIXME|XXX)\b)"), {}},
  };
  return list;
}

std::string without_comment(const std::string& line) {
  const size_t at = line.find("//");
  // A "//" inside a string literal (a URL) is not a comment; good enough: count quotes before it.
  if (at == std::string::npos || std::count(line.begin(), line.begin() + long(at), '"') % 2 == 1)
    return line;
  return line.substr(0, at);
}

std::vector<std::string> offences(const std::string& path, const std::string& line) {
  std::vector<std::string> found;
  const std::string folder = path.substr(0, path.find('/'));
  static const std::regex include(R"re(^\s*#\s*include\s+"([a-z_]+)/)re");
  std::smatch m;
  if (std::regex_search(line, m, include)) {
    const auto& allowed = kMayInclude.at(folder);
    if (m[1] != folder && kMayInclude.count(m[1]) == 1 && allowed.count(m[1]) == 0)
      found.push_back("the layer " + folder + " may not include " + m[1].str());
    if (m[1] == "tests") found.push_back("product code may not include tests");
    if (folder == "launcher" && line.find("kernels/") != std::string::npos)
      found.push_back("the launcher knows nothing of collectives");
  }
  for (const Ban& ban : bans()) {
    const bool fine = std::any_of(ban.allowed.begin(), ban.allowed.end(),
                                  [&](const std::string& p) { return path.rfind(p, 0) == 0; });
    const bool marks = std::string(ban.name) == "unfinished work";
    if (!fine && std::regex_search(marks ? line : without_comment(line), ban.pattern))
      found.push_back(ban.name);
  }
  return found;
}

bool self_test() {
  const std::pair<const char*, const char*> bad[] = {
      {"base/x.cc", "#include \"runtime/plan/plan.h\""},
      {"launcher/x.cc", "#include \"kernels/block.h\""},
      {"kernels/x.h", "#include \"transport/peer.h\""},
      {"runtime/x.cc", "  auto* v = std::getenv(\"HOME\");"},
      {"runtime/x.cc", "  printf(\"x\");"},
      {"transport/x.cc", "  ::poll(&p, 1, -1);"},
      {"runtime/x.cc", "  std::this_thread::sleep_for(x);"},
      {"runtime/x.cc", "  exit(3);"},
      {"base/x.cc", "  open(\"/proc/self/stat\", 0);"},
      {"kernels/cpu/x.h", "int i = threadIdx.x;"}};
  for (const auto& [path, line] : bad)
    if (offences(path, line).empty()) {
      std::printf("tidy self-test: not caught in %s: %s\n", path, line);
      return false;
    }
  return offences("cmd/x.cc", "#include \"runtime/plan/plan.h\"").empty() &&
         offences("runtime/x.cc", "  // printf( in a comment").empty();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 || !self_test()) return 1;
  const fs::path root = argv[1];
  int files = 0, bad = 0;
  for (const auto& [folder, unused] : kMayInclude) {
    if (!fs::exists(root / folder)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      const std::string extension = entry.path().extension();
      if (extension != ".h" && extension != ".cc" && extension != ".cu" && extension != ".cuh")
        continue;
      ++files;
      const std::string path = fs::relative(entry.path(), root);
      std::ifstream in(entry.path());
      std::string line;
      for (int number = 1; std::getline(in, line); ++number)
        for (const std::string& what : offences(path, line)) {
          std::printf("%s:%d: %s\n    %s\n", path.c_str(), number, what.c_str(), line.c_str());
          ++bad;
        }
    }
  }
  std::printf("tidy: %d files, %d offences\n", files, bad);
  return bad == 0 && files > 20 ? 0 : 1;
}
