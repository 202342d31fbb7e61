// The tidy test: include directions between the folders (folders.txt) and the bans of
// ARCHITECTURE.md, line by line over the sources; over all comments and documents, that sentences
// name their subject first (sentences.h). Prints each offence as file:line and fails if there is
// one; a self-test first shows that it can fail.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/tidy/sentences.h"

namespace fs = std::filesystem;

namespace {

// folders.txt: of each folder, what it may include besides itself.
std::map<std::string, std::set<std::string>> folders;

// Rows stand below what they name; what those may include is theirs, too. False: a row names one
// that is no row above it.
bool read_folders(std::istream& in) {
  folders.clear();
  std::string line;
  while (std::getline(in, line)) {
    const size_t colon = line.find(':');
    if (line.empty() || line[0] == '#' || colon == std::string::npos) continue;
    std::set<std::string> may;
    std::istringstream lower(line.substr(colon + 1));
    for (std::string name; lower >> name;) {
      const auto row = folders.find(name);
      if (row == folders.end()) {
        std::printf("folders.txt: %s\n    %s is no row above this one\n", line.c_str(),
                    name.c_str());
        return false;
      }
      may.insert(name);
      may.insert(row->second.begin(), row->second.end());
    }
    folders[line.substr(0, colon)] = may;
  }
  return folders.size() > 20;
}

// The row that a source belongs to: the longest that it lies in; empty: none.
std::string folder_of(const std::string& path) {
  for (size_t at = path.rfind('/'); at != std::string::npos && at > 0; at = path.rfind('/', at - 1))
    if (folders.contains(path.substr(0, at))) return path.substr(0, at);
  return "";
}

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
        "base/host_rdma.", "base/host_counters.", "base/host_half_open.", "base/host_state.",
        "base/host_memory.", "topology/detect/reader", "topology/detect/discover"}},
      {"blocking calls outside base/wait",
       std::regex(
           R"((^|[^_\w.>])(::)?(poll|select|epoll_wait|ppoll|usleep|nanosleep|sleep|sem_wait|waitpid\s*\(\s*-?1)\s*\()"
           R"(|sleep_for|sleep_until\(std|\.wait\(lock\))"),
       {"base/wait.cc", "base/wait.h"}},
      {"a decision by an error's wording (Error::cause says what it is)",
       std::regex(R"((\.|->)(message|chain\(\))\.(r?find|starts_with|ends_with|compare|contains)\()"
                  R"(|(\.|->)message [!=]=)"),
       {"base/result.cc", "cmd/document/sections.cc", "cmd/verify/schedule_trace.cc"}},
      {"a host told by its name (base/host.h: it is a place; what users typed is marked // as "
       "typed)",
       std::regex(
           R"re((host|spec)\w*(\(\))?(\.|->)name [!=]=|[!=]= [\w.>()-]*(host|spec)\w*(\(\))?(\.|->)name\b)re"
           R"re(|\b(e|error|\w+_error)(\(\))?(\.|->)host [!=]=|[!=]= (e|error)(\(\))?(\.|->)host\b)re"
           R"re(|host_name\(\) [!=]=|[!=]= [\w:]*host_name\(\)|own_name [!=]=)re"
           R"re(|(map|set)<(std::pair<)?std::string\b[^;(]*\b(hosts?_?|by_host)\b)re"
           R"re(|host\w*(\.|->)name\.(r?find|starts_with|ends_with|compare)\()re"),
       {"launcher/hosts/"}},
      {"unfinished work", std::regex(R"(\b(TODO|FIXME|XXX)\b)"), {}},
  };
  return list;
}

std::string without_comment(const std::string& line) {
  return line.substr(0, tidy::comment_at(line));
}

std::vector<std::string> offences(const std::string& path, const std::string& line) {
  std::vector<std::string> found;
  const std::string folder = folder_of(path);
  if (folder.empty()) found.push_back("lies in no folder of folders.txt");
  static const std::regex include(R"re(^\s*#\s*include\s+"([^"]+)")re");
  std::smatch m;
  if (!folder.empty() && std::regex_search(line, m, include)) {
    const std::string other = folder_of(m[1]);
    if (!other.empty() && other != folder && !folders.at(folder).contains(other))
      found.push_back(folder + " may not include " + other);
    if (m[1].str().starts_with("tests/")) found.push_back("product code may not include tests");
  }
  for (const Ban& ban : bans()) {
    const bool fine = std::any_of(ban.allowed.begin(), ban.allowed.end(),
                                  [&](const std::string& p) { return path.rfind(p, 0) == 0; });
    const bool marks = std::string(ban.name) == "unfinished work";
    if (line.ends_with("  // as typed") && std::string(ban.name).starts_with("a host told"))
      continue;
    if (!fine && std::regex_search(marks ? line : without_comment(line), ban.pattern))
      found.push_back(ban.name);
  }
  return found;
}

// Two types of one name in one namespace are undefined behaviour that no compiler notices across
// files: the linker keeps one destructor for both. Not seen: types within types, specialisations.
class TypeNames {
 public:
  void begin_file() { spaces_.clear(), after_template_ = false; }
  // Empty; otherwise where the type that this line defines was defined before.
  std::string defined_before(const std::string& where, const std::string& line) {
    static const std::regex space(R"(^(inline )?namespace\s*([\w:]*)\s*\{)");
    static const std::regex type(
        R"(^(struct|class) (alignas\([^)]*\) )?(\w+)( final)?( :[^;]*)?\s*\{)");
    std::smatch m;
    const bool after_template = std::exchange(after_template_, line.starts_with("template <"));
    if (std::regex_search(line, m, space)) {
      spaces_.push_back(m[2]);
    } else if (line.starts_with("}  // namespace") && !spaces_.empty()) {
      spaces_.pop_back();
    } else if (!after_template && std::regex_search(line, m, type) &&
               std::find(spaces_.begin(), spaces_.end(), "") == spaces_.end()) {
      std::string name = m[3];
      for (auto it = spaces_.rbegin(); it != spaces_.rend(); ++it) name = *it + "::" + name;
      const auto [row, first] = seen_.emplace(name, where);
      if (!first) return row->second;
    }
    return "";
  }

 private:
  std::vector<std::string> spaces_;  // around the line; empty: without a name
  bool after_template_ = false;
  std::map<std::string, std::string> seen_;
};

bool sees_second_type() {
  TypeNames names;
  const char* const lines[] = {"namespace a {", "class T {",  "}  // namespace a",
                               "namespace {",   "struct T {", "}  // namespace",
                               "namespace a {"};
  for (const char* line : lines)
    if (!names.defined_before("first", line).empty()) return false;
  return names.defined_before("second", "struct T : U {") == "first";
}

// Offences in comments of these folders, and in documents there and beside them.
int late_subjects(const fs::path& root, const std::set<std::string>& in) {
  tidy::SubjectsFirst comments("comments"), documents("documents");
  const auto read = [&](const fs::path& file) {
    static const std::set<std::string> sources{".h", ".cc", ".cu", ".cuh", ".inc"};
    const std::string path = fs::relative(file, root), kind = file.extension();
    std::ifstream text(file);
    if (kind == ".md") documents.add(path, tidy::sentences_of_document(text));
    if (sources.contains(kind)) comments.add(path, tidy::sentences_of_code(text));
  };
  for (const auto& entry : fs::directory_iterator(root))
    if (entry.is_regular_file()) read(entry.path());
  for (const std::string& folder : in)
    for (const auto& entry : fs::recursive_directory_iterator(root / folder))
      if (entry.is_regular_file()) read(entry.path());
  return comments.report() + documents.report();
}

bool self_test() {
  if (!tidy::sees_late_subjects()) {
    std::printf("tidy self-test: sentences that name their subject late are not seen\n");
    return false;
  }
  if (!sees_second_type()) {
    std::printf("tidy self-test: a type defined twice is not seen\n");
    return false;
  }
  const std::pair<const char*, const char*> bad[] = {
      {"base/x.cc", "#include \"runtime/plan/plan.h\""},
      {"runtime/plan/x.cc", "#include \"runtime/window/user_window.h\""},
      {"runtime/new/x.cc", "int x;"},
      {"launcher/local/x.cc", "#include \"kernels/block.h\""},
      {"kernels/x.h", "#include \"transport/peer.h\""},
      {"runtime/plan/x.cc", "  auto* v = std::getenv(\"HOME\");"},
      {"runtime/plan/x.cc", "  printf(\"x\");"},
      {"transport/x.cc", "  ::poll(&p, 1, -1);"},
      {"runtime/plan/x.cc", "  std::this_thread::sleep_for(x);"},
      {"runtime/plan/x.cc", "  exit(3);"},
      {"base/x.cc", "  open(\"/proc/self/stat\", 0);"},
      {"cmd/job/x.cc", "  if (e->message.find(kWord) != std::string::npos) return;"},
      {"runtime/plan/x.cc", "  return error.chain().ends_with(text);"},
      {"launcher/local/x.cc", "  return e.message == other.message;"},
      {"cmd/job/x.cc", "  if (a.host.name == b.host.name) return;"},
      {"cmd/judge/x.cc", "  return finding.at.host.name != link.spec().name;"},
      {"cmd/check/x.cc", "  if (culprit.host.name.starts_with(name)) return;"},
      {"cmd/check/x.h", "  std::map<std::string, Counters> hosts_;"},
      {"launcher/remote/x.cc", "  const bool own = e.host == name;"},
      {"launcher/remote/x.cc", "  if (name == base::host_name()) return;"},
      {"kernels/cpu/x.h", "int i = threadIdx.x;"}};
  for (const auto& [path, line] : bad)
    if (offences(path, line).empty()) {
      std::printf("tidy self-test: not caught in %s: %s\n", path, line);
      return false;
    }
  return offences("cmd/x.cc", "  if (a.host == b.host) return;").empty() &&
         offences("cmd/x.cc", "  if (spec.name == word) return;  // as typed").empty() &&
         offences("cmd/x.cc", "#include \"runtime/plan/plan.h\"").empty() &&
         offences("runtime/plan/x.cc", "  // printf( in a comment").empty();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 1;
  const fs::path root = argv[1];
  std::ifstream table(root / "folders.txt");
  if (!read_folders(table) || !self_test()) return 1;
  int files = 0, bad = 0;
  TypeNames types;
  std::set<std::string> layers;
  for (const auto& [folder, unused] : folders) layers.insert(folder.substr(0, folder.find('/')));
  for (const std::string& folder : layers) {
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      const std::string extension = entry.path().extension();
      if (extension != ".h" && extension != ".cc" && extension != ".cu" && extension != ".cuh")
        continue;
      ++files;
      const std::string path = fs::relative(entry.path(), root);
      std::ifstream in(entry.path());
      std::string line;
      types.begin_file();
      for (int number = 1; std::getline(in, line); ++number) {
        const std::string where = path + ":" + std::to_string(number);
        std::vector<std::string> found = offences(path, line);
        const std::string before = types.defined_before(where, line);
        if (!before.empty())
          found.push_back("a type of this name is defined in " + before + ", too");
        for (const std::string& what : found)
          std::printf("%s: %s\n    %s\n", where.c_str(), what.c_str(), line.c_str());
        bad += int(found.size());
      }
    }
  }
  layers.insert({"docs", "tests"});
  bad += late_subjects(root, layers);
  std::printf("tidy: %d files, %d offences\n", files, bad);
  return bad == 0 && files > 20 ? 0 : 1;
}
