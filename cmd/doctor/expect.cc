#include "cmd/doctor/expect.h"

#include <algorithm>
#include <cstdlib>
#include <map>

#include "base/env.h"
#include "base/format.h"
#include "base/printable.h"
#include "base/split.h"
#include "base/whole_file.h"

namespace collctl::cmd {
namespace {

using launcher::HostFacts;

double rate_gbps(const base::RdmaPort& port) {
  return std::strtod(port.rate.c_str(), nullptr);
}

std::vector<const base::RdmaPort*> active_ports(const HostFacts& facts) {
  std::vector<const base::RdmaPort*> ports;
  for (const base::RdmaPort& port : facts.rdma)
    if (port.state == "ACTIVE") ports.push_back(&port);
  return ports;
}

// Interfaces that lead to other hosts, as far as the kernel says.
std::vector<const base::NetInterface*> outer_interfaces(const HostFacts& facts) {
  std::vector<const base::NetInterface*> list;
  for (const base::NetInterface& each : facts.interfaces)
    if (each.aside.empty()) list.push_back(&each);
  return list;
}

std::vector<std::string> found_of(const std::string& key, const HostFacts& facts) {
  std::vector<std::string> values;
  if (key == "gpus") return {std::to_string(facts.nvidia.gpus.size())};
  if (key == "rdma") return {std::to_string(active_ports(facts).size())};
  if (key == "driver") return {facts.nvidia.driver};
  if (key == "cpus") return {std::to_string(facts.cores)};
  if (key == "memory") return {std::to_string(facts.memory_bytes)};
  if (key == "firmware")
    for (const auto& device : facts.rdma_devices) values.push_back(device.firmware);
  if (key == "mtu")
    for (const base::NetInterface* each : outer_interfaces(facts))
      values.push_back(std::to_string(each->mtu));
  if (key == "speed") {
    for (const base::RdmaPort* port : active_ports(facts))
      values.push_back(format("{:g}", rate_gbps(*port)));
    if (!values.empty()) return values;
    for (const base::NetInterface* each : outer_interfaces(facts))
      if (each->speed_mbps > 0) values.push_back(format("{:g}", double(each->speed_mbps) / 1e3));
  }
  return values;
}

struct KeyKind {
  const char* name;
  enum Kind { count, at_least, bytes, pattern, floor } kind;
  const char* expected;  // of the value
  const char* remedy;
};
constexpr KeyKind kKeys[] = {
    {"gpus", KeyKind::count, "a number", "a GPU may have fallen off the bus: nvidia-smi, dmesg"},
    {"rdma", KeyKind::count, "a number", "look at the ports: ibstat; check cables and switch"},
    {"driver", KeyKind::pattern, "a version", "install that NVIDIA driver"},
    {"firmware", KeyKind::pattern, "a version", "flash the RDMA devices: mlxfwmanager"},
    {"mtu", KeyKind::count, "a number", "ip link set DEVICE mtu N, and in the network's set-up"},
    {"speed", KeyKind::at_least, "a number of Gb/s", "look at cable, transceiver and switch port"},
    {"cpus", KeyKind::at_least, "a number", "look at the affinity, cgroup and BIOS"},
    {"memory", KeyKind::bytes, "a size (512G)", "a module may have failed: dmidecode -t memory"},
    {"copy", KeyKind::floor, "a number of GB/s", ""},
    {"gpu_copy", KeyKind::floor, "a number of GB/s", ""},
    {"to_gpu", KeyKind::floor, "a number of GB/s", ""},
    {"from_gpu", KeyKind::floor, "a number of GB/s", ""},
};

const KeyKind* find_key(const std::string& name) {
  for (const KeyKind& key : kKeys)
    if (name == key.name) return &key;
  return nullptr;
}

bool is_number(const std::string& text) {
  return !text.empty() && text.size() <= 9 &&
         text.find_first_not_of("0123456789") == std::string::npos;
}

bool legal_value(const KeyKind& key, const std::string& value) {
  if (key.kind == KeyKind::bytes) return base::parse_bytes(value).ok();
  if (key.kind != KeyKind::pattern) return is_number(value);
  // A star only at the end.
  return !value.empty() && value.size() <= 100 && value.find('*') >= value.size() - 1;
}

bool meets(const KeyKind& key, const std::string& found, const std::string& wanted) {
  switch (key.kind) {
    case KeyKind::count:
      return found == wanted;
    case KeyKind::at_least:
      return std::strtod(found.c_str(), nullptr) >= std::strtod(wanted.c_str(), nullptr);
    case KeyKind::bytes: {
      // Firmware keeps a part of the modules' memory.
      const double least = double(*base::parse_bytes(wanted)) * 15 / 16;
      return std::strtod(found.c_str(), nullptr) >= least;
    }
    default:
      if (found.empty()) return false;
      return wanted.back() == '*' ? found.starts_with(wanted.substr(0, wanted.size() - 1))
                                  : found == wanted;
  }
}

std::string shown_value(const KeyKind& key, const std::string& value) {
  if (value.empty()) return "none";
  if (key.kind != KeyKind::bytes) return base::printable(value);
  return format("{:.4g}G", std::strtod(value.c_str(), nullptr) / double(1 << 30));
}

using InForce = std::map<std::string, const ExpectedValue*>;  // by key
InForce in_force(const Expectation& expect, const std::vector<std::string>& models, bool floors) {
  InForce found;
  const auto of_host = [&](const ExpectedValue& value) {
    return std::ranges::any_of(
        models, [&](const std::string& model) { return model.find(value.model) != model.npos; });
  };
  for (const bool of_models : {false, true})
    for (const ExpectedValue& value : expect.values)
      if ((find_key(value.key)->kind == KeyKind::floor) == floors &&
          value.model.empty() != of_models && (!of_models || of_host(value)))
        found[value.key] = &value;
  return found;
}

void judge_value(const Host& host, const HostFacts& facts, const std::string& file,
                 const ExpectedValue& value, std::vector<Finding>& findings) {
  const KeyKind& key = *find_key(value.key);
  const std::vector<std::string> found = found_of(value.key, facts);
  std::map<std::string, int> counts;
  bool good = !found.empty();
  for (const std::string& each : found) {
    ++counts[shown_value(key, each)];
    good = good && meets(key, each, value.value);
  }
  std::string seen;
  for (const auto& [text, count] : counts)
    seen +=
        format("{}{}{}", seen.empty() ? "" : ", ", count > 1 ? format("{}x ", count) : "", text);
  if (seen.empty()) seen = "none";
  Finding& finding = findings.emplace_back(host_finding("expect " + value.key, host));
  finding.measured = seen;
  finding.expected = value.value;
  finding.basis = format("{}:{}", file, value.line);
  if (good) return;
  const bool least = key.kind == KeyKind::at_least || key.kind == KeyKind::bytes;
  finding.fail(ErrorCode::failed,
               format("{} {}, {}{} {} expected ({}:{})", value.key, seen, least ? "at least " : "",
                      value.value, found.size() > 1 ? "each is" : "is", file, value.line),
               key.remedy);
}

}  // namespace

Result<Expectation> parse_expect(const std::string& file, const std::string& text) {
  Expectation found{.file = base::printable(file)};
  std::string model;
  size_t number = 0;
  for (const std::string_view whole : base::lines_of(text)) {
    const std::string line(whole.substr(0, whole.find('#')));
    ++number;
    for (size_t place = 0;;) {
      place = std::min(line.find_first_not_of(" \t\r", place), line.size());
      if (place == line.size()) break;
      const auto wrong = [&](const std::string& what) {
        return Error(
            ErrorCode::usage, format("{}:{}:{}: {}", found.file, number, place + 1, what),
            "words KEY=VALUE of gpus, rdma, driver, firmware, mtu, speed, cpus, memory, copy, "
            "gpu_copy, to_gpu, from_gpu; [MODEL] before those of one model of GPU");
      };
      if (line[place] == '[') {
        const size_t close = line.find(']', place);
        if (close == std::string::npos || close == place + 1 || close - place > 100)
          return wrong("expected [MODEL], a part of a GPU's name");
        model = base::printable(line.substr(place + 1, close - place - 1));
        place = close + 1;
        continue;
      }
      const size_t stop = std::min(line.find_first_of(" \t\r", place), line.size());
      const std::string word = line.substr(place, stop - place);
      const size_t equals = word.find('=');
      const std::string name = word.substr(0, equals);
      const KeyKind* const key = find_key(name);
      if (equals == std::string::npos || key == nullptr)
        return wrong(format("expected KEY=VALUE, not '{}'", base::printable(word.substr(0, 60))));
      const std::string value = word.substr(equals + 1);
      if (!legal_value(*key, value))
        return wrong(format("{}= expects {}, not '{}'", name, key->expected,
                            base::printable(value.substr(0, 60))));
      if (found.values.size() == kMostExpected)
        return wrong(format("more than {} values", kMostExpected));
      found.values.push_back({name, base::printable(value), model, number});
      place = stop;
    }
  }
  if (found.values.empty()) return Error(ErrorCode::usage, found.file + ": expects nothing");
  return found;
}

Result<Expectation> interpret_expect(const ParsedLine& line) {
  if (!line.has("expect")) return Expectation{};
  const std::string file = line.text("expect");
  COLL_ASSIGN(const std::string text, base::read_file(file, kMostExpectText));
  return parse_expect(file, text);
}

void add_expectations(const Host& host, const HostFacts& facts, const Expectation& expect,
                      std::vector<Finding>& findings) {
  for (const auto& [key, value] : in_force(expect, facts.nvidia.gpus, false))
    judge_value(host, facts, expect.file, *value, findings);
}

bool expects(const Expectation& expect, ExpectKind kind) {
  return std::ranges::any_of(expect.values, [&](const ExpectedValue& value) {
    return (find_key(value.key)->kind == KeyKind::floor) == (kind == ExpectKind::floor);
  });
}

std::map<std::string, const ExpectedValue*> floors_of(const Expectation& expect,
                                                      const std::vector<std::string>& models) {
  return in_force(expect, models, true);
}

}  // namespace collctl::cmd
