#include "tests/fake_verbs/setup.h"

#include <arpa/inet.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <sstream>

namespace fake_verbs {
namespace {

const std::map<std::string, int> kSpeeds = {{"sdr", 1},  {"ddr", 2},  {"qdr", 4},  {"fdr", 16},
                                            {"edr", 32}, {"hdr", 64}, {"ndr", 128}};
const std::map<std::string, FaultKind> kFaultNames = {
    {"drop", FaultKind::kDrop},          {"ack_lost", FaultKind::kAckLost},
    {"delay", FaultKind::kDelay},        {"reorder", FaultKind::kReorder},
    {"corrupt", FaultKind::kCorrupt},    {"tear", FaultKind::kTear},
    {"revoke", FaultKind::kRevoke},      {"port_down", FaultKind::kPortDown},
    {"kill", FaultKind::kKill},          {"status", FaultKind::kStatus},
    {"bandwidth", FaultKind::kBandwidth}};

// "mtu=1024" -> 1024, when the word starts so and the rest is a number.
bool number_of(const std::string& word, const char* key, uint64_t& value) {
  const std::string start = std::string(key) + "=";
  if (word.rfind(start, 0) != 0) return false;
  char* end = nullptr;
  value = std::strtoull(word.c_str() + start.size(), &end, 0);
  return end != nullptr && *end == 0 && word.size() > start.size();
}

int mtu_code(uint64_t bytes) {
  for (int code = IBV_MTU_256; code <= IBV_MTU_4096; ++code)
    if (bytes == uint64_t(128) << code) return code;
  return 0;
}

void add_gid(Port& port, const uint8_t (&raw)[16], uint32_t type) {
  for (Gid& gid : port.gids)
    if (!gid.used) {
      std::memcpy(gid.raw, raw, 16);
      gid.type = type;
      gid.used = true;
      return;
    }
}

// IB: the default subnet and the port's GUID. RoCE, as drivers fill it: the link-local address as
// v1 and as v2, then the IPv4-mapped one as v1 and as v2.
void fill_gids(Port& port, uint64_t port_guid, uint32_t ip, bool v4) {
  uint8_t local[16] = {0xfe, 0x80};
  std::memcpy(local + 8, &port_guid, 8);
  if (port.link_layer == IBV_LINK_LAYER_INFINIBAND) return add_gid(port, local, 0);
  add_gid(port, local, 1);
  add_gid(port, local, 2);
  if (!v4) return;
  uint8_t mapped[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  const uint32_t network = htonl(ip);
  std::memcpy(mapped + 12, &network, 4);
  add_gid(port, mapped, 1);
  add_gid(port, mapped, 2);
}

struct Words {
  uint64_t ports = 1, mtu = 4096, rail = 0, pkey = 0xffff;
  uint64_t pairs = 1024, queues = 1024, depth = 16384, inlined = kMaxInline, message = kMaxMessage;
  uint64_t reads = kMaxReads, region = ~0ull;
  uint32_t ip;
  bool roce = false, down = false, v4 = true;
  int speed = 64;
};

std::string parse_word(const std::string& word, Words& words, Device& device) {
  const struct {
    const char* key;
    uint64_t* value;
  } numbers[] = {{"ports", &words.ports}, {"mtu", &words.mtu},        {"rail", &words.rail},
                 {"pkey", &words.pkey},   {"pairs", &words.pairs},    {"queues", &words.queues},
                 {"depth", &words.depth}, {"inline", &words.inlined}, {"message", &words.message},
                 {"reads", &words.reads}, {"region", &words.region}};
  for (const auto& number : numbers)
    if (number_of(word, number.key, *number.value)) return {};
  if (word.rfind("ip=", 0) == 0) {
    in_addr address{};
    if (inet_pton(AF_INET, word.c_str() + 3, &address) != 1) return "not an address: " + word;
    words.ip = ntohl(address.s_addr);
    return {};
  }
  if (word.rfind("speed=", 0) == 0 && kSpeeds.count(word.substr(6)) != 0) {
    words.speed = kSpeeds.at(word.substr(6));
    return {};
  }
  if (word == "ib" || word == "roce")
    words.roce = word == "roce";
  else if (word == "v6")
    words.v4 = false;
  else if (word == "down")
    words.down = true;
  else if (word == "noopen")
    device.opens = false;
  else if (word == "peermem")
    device.peermem = true;
  else if (word == "dmabuf")
    device.dmabuf = true;
  else
    return "unknown word: " + word;
  return {};
}

std::string check(const Words& words) {
  if (words.ports < 1 || words.ports > kPorts) return "1 to 4 ports";
  if (mtu_code(words.mtu) == 0) return "mtu is 256, 512, 1024, 2048 or 4096";
  if (words.pkey > 0xffff || words.pairs > kPairs || words.queues > kQueues ||
      words.depth > 65536 || words.inlined > kMaxInline || words.message > kMaxMessage ||
      words.reads < 1 || words.reads > kMaxReads)
    return "a number is too large";
  return {};
}

void fill_port(Device& device, int number, int index, const Words& words) {
  Port& port = device.port[index];
  port.up = !words.down;
  port.plugged = true;
  port.link_layer = words.roce ? IBV_LINK_LAYER_ETHERNET : IBV_LINK_LAYER_INFINIBAND;
  port.width = 2;  // 4 lanes
  port.speed = uint8_t(words.speed);
  port.max_mtu = IBV_MTU_4096;
  port.active_mtu = uint8_t(mtu_code(words.mtu));
  port.lid = words.roce ? 0 : uint16_t(1 + (device.host * kDevices + number) * kPorts + index);
  port.pkeys[0] = uint16_t(words.pkey);
  port.rail = uint32_t(words.rail);
  port.max_message = uint32_t(words.message);
  const uint64_t guid = htobe64(be64toh(device.guid) + 1 + uint64_t(index));
  fill_gids(port, guid, words.ip + uint32_t(index), words.v4);
}

}  // namespace

std::vector<std::string> split(const std::string& text, char by) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, by);)
    if (!part.empty()) parts.push_back(part);
  return parts;
}

std::string parse_device(const std::string& text, int host, int number, Device& device) {
  const std::vector<std::string> words = split(text, ':');
  if (words.empty() || text[0] == ':' || words[0].size() >= sizeof device.name)
    return "a device needs a name: " + text;
  std::strcpy(device.name, words[0].c_str());
  device.host = host;
  device.opens = true;
  device.guid = htobe64(0x02c9030000000000ull + uint64_t(host * kDevices + number) * 16);
  Words said;
  said.ip = uint32_t(10) << 24 | uint32_t(host) << 16 | uint32_t(number) << 8 | 1;
  for (size_t i = 1; i < words.size(); ++i)
    if (const std::string wrong = parse_word(words[i], said, device); !wrong.empty())
      return device.name + (": " + wrong);
  if (const std::string wrong = check(said); !wrong.empty()) return device.name + (": " + wrong);
  device.ports = int(said.ports);
  device.max_pairs = int(said.pairs);
  device.max_queues = int(said.queues);
  device.max_depth = device.max_entries = int(said.depth);
  device.max_inline = uint32_t(said.inlined);
  device.max_reads = int(said.reads);
  device.max_region = said.region;
  for (int i = 0; i < device.ports; ++i) fill_port(device, number, i, said);
  return {};
}

std::string parse_fault(const std::string& text, Fault& fault) {
  const size_t colon = text.find(':');
  const auto kind = kFaultNames.find(text.substr(0, colon));
  if (kind == kFaultNames.end()) return "unknown fault: " + text;
  fault.kind = kind->second;
  if (colon == std::string::npos) return {};
  for (const std::string& word : split(text.substr(colon + 1), ',')) {
    uint64_t value = 0;
    if (word.rfind("opcode=", 0) == 0)
      fault.opcode = word.substr(7);
    else if (word.rfind("device=", 0) == 0)
      fault.device = word.substr(7);
    else if (number_of(word, "host", value))
      fault.host = int(value);
    else if (number_of(word, "port", value))
      fault.port = int(value);
    else if (number_of(word, "after", value))
      fault.after = uint32_t(value);
    else if (number_of(word, "times", value))
      fault.times = uint32_t(value);
    else if (number_of(word, "min_bytes", value))
      fault.min_bytes = value;
    else if (number_of(word, "max_bytes", value))
      fault.max_bytes = value;
    else if (number_of(word, "us", value))
      fault.us = value;
    else if (number_of(word, "value", value))
      fault.value = value;
    else
      return "unknown word of a fault: " + word;
  }
  return {};
}

Setup setup_of_environment() {
  const auto text = [](const char* name, const char* otherwise) {
    const char* value = std::getenv(name);
    return std::string(value != nullptr ? value : otherwise);
  };
  Setup setup;
  setup.world = text("FAKE_VERBS_WORLD", "");
  setup.host = std::atoi(text("FAKE_VERBS_HOST", "0").c_str());
  setup.devices = text("FAKE_VERBS_DEVICES", setup.devices.c_str());
  setup.time_scale = std::atof(text("FAKE_VERBS_TIME_SCALE", "1").c_str());
  setup.faults = text("FAKE_VERBS_FAULTS", "");
  setup.late = text("FAKE_VERBS_LATE", "0") == "1";
  setup.staged = text("FAKE_VERBS_STAGED", "0") == "1";
  setup.hold_us = uint32_t(std::atoi(text("FAKE_VERBS_HOLD_US", "5000").c_str()));
  return setup;
}

}  // namespace fake_verbs
