#include "base/processors.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>

#include "base/fd.h"
#include "base/format.h"
#include "base/split.h"

namespace collctl::base {
namespace {

// Beyond it a file is cut: what is looked for in long ones (cpuinfo) stands at their beginning.
constexpr size_t kMostProcText = size_t{64} << 10;
const std::string kSystem = "sys/devices/system/";

int number_in(const FileRead& read, const std::string& path, int otherwise) {
  const auto text = read(path);
  if (!text || text->empty()) return otherwise;
  char* end = nullptr;
  const long value = std::strtol(text->c_str(), &end, 10);
  return end != text->c_str() && value >= 0 && value < (1 << 24) ? int(value) : otherwise;
}

// "32768K", "4M"
uint64_t cache_size(const std::string& text) {
  char* end = nullptr;
  const uint64_t value = std::strtoull(text.c_str(), &end, 10);
  if (value > (uint64_t{1} << 40)) return 0;
  return *end == 'K' ? value << 10 : *end == 'M' ? value << 20 : value;
}

// The value behind "name<blanks>:" in lines of that form; the first one counts.
std::string field_of(const std::string& text, const std::string& name) {
  for (const std::string_view line : lines_of(text)) {
    const size_t colon = line.find(':');
    if (colon == line.npos || !line.starts_with(name)) continue;
    if (line.find_first_not_of(" \t", name.size()) != colon) continue;
    const size_t from = line.find_first_not_of(" \t", colon + 1);
    return std::string(from == line.npos ? "" : line.substr(from, 128));
  }
  return {};
}

ProcessorModel read_model(const FileRead& read) {
  ProcessorModel model;
  const std::string text = read("proc/cpuinfo").value_or("");
  model.vendor = field_of(text, "vendor_id");
  model.name = field_of(text, "model name");
  model.family = std::atoi(field_of(text, "cpu family").c_str());
  model.model = std::atoi(field_of(text, "model").c_str());
  if (model.vendor.empty() && !field_of(text, "CPU implementer").empty()) {  // Arm
    model.vendor = "ARM";
    model.family = int(std::strtol(field_of(text, "CPU implementer").c_str(), nullptr, 16));
    model.model = int(std::strtol(field_of(text, "CPU part").c_str(), nullptr, 16));
  }
  if (model.name.empty()) model.name = field_of(text, "cpu");  // Power
  return model;
}

// The last-level cache of a processor: who shares it, and its size.
struct LastCache {
  std::vector<int> sharers;
  uint64_t bytes = 0;
};
LastCache last_cache(const FileRead& read, int id) {
  LastCache found;
  int highest = 1;  // those of level 1 are a core's own
  for (int index = 0; index < 10; ++index) {
    const std::string folder = format("{}cpu/cpu{}/cache/index{}/", kSystem, id, index);
    const int level = number_in(read, folder + "level", 0);
    if (level == 0) break;
    if (level <= highest) continue;
    highest = level;
    found.sharers = parse_number_list(read(folder + "shared_cpu_list").value_or(""));
    found.bytes = cache_size(read(folder + "size").value_or(""));
  }
  if (found.sharers.empty()) found.sharers = {id};
  return found;
}

NumaDomain read_node(const FileRead& read, int id) {
  NumaDomain node;
  const std::string folder = format("{}node/node{}/", kSystem, id);
  node.id = id;
  node.processors = parse_number_list(read(folder + "cpulist").value_or(""));
  const std::string distances = read(folder + "distance").value_or("");
  for (const char* at = distances.c_str(); node.distances.size() < size_t(kMaxNumaNodes);) {
    char* end = nullptr;
    const long value = std::strtol(at, &end, 10);
    if (end == at) break;
    node.distances.push_back(int(std::clamp(value, 0L, 255L)));
    at = end;
  }
  const std::string memory = read(folder + "meminfo").value_or("");
  if (const size_t at = memory.find("MemTotal:"); at != std::string::npos)
    node.memory_bytes = std::strtoull(memory.c_str() + at + 9, nullptr, 10) << 10;
  node.memory_gbps =
      number_in(read, folder + "access0/initiators/read_bandwidth", 0) / 1e3;  // MB/s
  return node;
}

std::vector<NumaDomain> read_nodes(const FileRead& read, const std::vector<int>& all) {
  std::vector<NumaDomain> nodes;
  for (const int id : parse_number_list(read(kSystem + "node/online").value_or(""), kMaxNumaNodes))
    nodes.push_back(read_node(read, id));
  if (nodes.empty()) nodes.push_back({.id = 0, .processors = all, .distances = {10}});
  return nodes;
}

}  // namespace

FileRead read_below(const std::string& root) {
  return [root](const std::string& path) -> std::optional<std::string> {
    const Fd file(::open((root + "/" + path).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (file.get() < 0) return std::nullopt;
    std::string text(kMostProcText, 0);
    size_t have = 0;
    ssize_t n = 0;
    while (have < text.size() && (n = ::read(file.get(), &text[have], text.size() - have)) > 0)
      have += size_t(n);
    if (n < 0) return std::nullopt;  // some attributes exist but cannot be read
    text.resize(have);
    return text;
  };
}

std::vector<int> parse_number_list(const std::string& text, int most) {
  std::set<int> numbers;
  const char* at = text.c_str();
  while (*at >= '0' && *at <= '9') {
    char* end = nullptr;
    const long first = std::strtol(at, &end, 10);
    long last = first;
    if (*end == '-') last = std::strtol(end + 1, &end, 10);
    for (long i = first; i <= last && i < most; ++i) numbers.insert(int(i));
    at = *end == ',' ? end + 1 : end;
  }
  return {numbers.begin(), numbers.end()};
}

const Processor* Processors::find(int id) const {
  const auto found = std::lower_bound(online.begin(), online.end(), id,
                                      [](const Processor& p, int wanted) { return p.id < wanted; });
  return found != online.end() && found->id == id ? &*found : nullptr;
}

Processors read_processors(const FileRead& read) {
  Processors made;
  const auto ids = parse_number_list(read(kSystem + "cpu/online").value_or(""));
  made.model = read_model(read);
  made.nodes = read_nodes(read, ids);
  std::map<int, Processor> known;
  for (const int id : ids) known[id] = {.id = id, .core = -1, .cache_domain = -1};
  for (size_t n = 0; n < made.nodes.size(); ++n)
    for (const int id : made.nodes[n].processors)
      if (const auto at = known.find(id); at != known.end()) at->second.numa = int(n);
  // Facts that all sharers of a core or a cache have alike are read once: a server has hundreds.
  std::set<int> packages;
  for (auto& [id, processor] : known) {
    const std::string folder = format("{}cpu/cpu{}/topology/", kSystem, id);
    if (processor.core < 0) {
      processor.core = id;
      ++made.cores;
      for (const int other : parse_number_list(read(folder + "thread_siblings_list").value_or("")))
        if (const auto at = known.find(other); at != known.end()) at->second.core = id;
    }
    if (processor.cache_domain < 0) {
      const int package = number_in(read, folder + "physical_package_id", 0);
      const LastCache cache = last_cache(read, id);
      packages.insert(package);
      processor.cache_domain = id;
      processor.package = package;
      made.cache_bytes = std::max(made.cache_bytes, cache.bytes);
      for (const int other : cache.sharers)
        if (const auto at = known.find(other); at != known.end()) {
          at->second.cache_domain = id;
          at->second.package = package;
        }
    }
    made.online.push_back(processor);
  }
  made.packages = int(packages.size());
  return made;
}

const Processors& host_processors() {
  static const Processors found = read_processors(read_below("/"));
  return found;
}

}  // namespace collctl::base
