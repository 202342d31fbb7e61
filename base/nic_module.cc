#include "base/nic_module.h"

#include <linux/dcbnl.h>
#include <linux/ethtool_netlink.h>
#include <linux/genetlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>

#include "base/format.h"
#include "base/netlink.h"

namespace collctl::base {
namespace {

constexpr uint8_t kFirstAddress = 0x50, kSensors = 0x51;  // on the module's bus
constexpr size_t kMostMappings = 64;

std::string text_in(const Bytes& bytes) {
  std::string text;
  for (const uint8_t c : bytes) text += c >= 0x20 && c < 0x7f ? char(c) : ' ';
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

std::optional<uint16_t> number_at(const Bytes& bytes, size_t at) {
  if (bytes.size() < at + 2) return std::nullopt;
  return uint16_t(bytes[at] << 8 | bytes[at + 1]);
}
std::optional<double> degrees_in(const Bytes& bytes) {
  const auto number = number_at(bytes, 0);
  return number ? std::optional(double(int16_t(*number)) / 256) : std::nullopt;
}
// Tenths of a microwatt; an alarm at nothing is none.
std::optional<double> light_in(const Bytes& bytes) {
  const auto number = number_at(bytes, 0);
  return number && *number > 0 ? std::optional(double(*number) / 10) : std::nullopt;
}

std::vector<double> lanes_in(const Bytes& bytes) {
  std::vector<double> lanes;
  for (size_t at = 0; at + 1 < bytes.size(); at += 2)
    lanes.push_back(double(*number_at(bytes, at)) / 10);
  return lanes;
}

// Places of what is read, by kind of module.
struct ModuleMap {
  ModulePart vendor, part, temperature, most, received, least, sent, least_sent;
};
constexpr ModuleMap kSfp{{0, 20, 16},       {0, 40, 16},      {0, 96, 2, true},  {0, 0, 2, true},
                         {0, 104, 2, true}, {0, 34, 2, true}, {0, 102, 2, true}, {0, 26, 2, true}};
constexpr ModuleMap kQsfp{{0, 148, 16}, {0, 168, 16}, {0, 22, 2}, {3, 128, 2},
                          {0, 34, 8},   {3, 178, 2},  {0, 50, 8}, {3, 194, 2}};
constexpr ModuleMap kCmis{{0, 129, 16},    {0, 148, 16}, {0, 14, 2},      {2, 128, 2},
                          {0x11, 186, 16}, {2, 194, 2},  {0x11, 154, 16}, {2, 178, 2}};
struct ModuleKind {
  uint8_t identifier;
  const char* type;
  const ModuleMap* map;
};
constexpr ModuleKind kKinds[] = {{0x03, "SFP", &kSfp},      {0x0c, "QSFP", &kQsfp},
                                 {0x0d, "QSFP+", &kQsfp},   {0x11, "QSFP28", &kQsfp},
                                 {0x18, "QSFP-DD", &kCmis}, {0x19, "OSFP", &kCmis},
                                 {0x1e, "QSFP", &kCmis}};

// Whether it has pages of sensors and thresholds; a plain copper cable has not.
bool has_sensors(const ModuleMap& map, const ReadModule& read) {
  if (&map == &kSfp) {
    const Bytes kind = read({0, 92, 1});  // of diagnostics
    return kind.size() == 1 && (kind[0] & 0x40) != 0;
  }
  const Bytes status = read({0, 2, 1});
  const int flat = &map == &kCmis ? 0x80 : 0x04;
  return status.size() == 1 && (status[0] & flat) == 0;
}

// The number of ethtool's family, which differs by kernel; 0: it has none.
uint16_t ethtool_family() {
  const genlmsghdr head{CTRL_CMD_GETFAMILY, 1, 0};
  NetlinkQuestion question(GENL_ID_CTRL, {reinterpret_cast<const uint8_t*>(&head), sizeof head});
  question.put(CTRL_ATTR_FAMILY_NAME, ETHTOOL_GENL_NAME);
  const auto answer = question.ask(NETLINK_GENERIC);
  uint16_t family = 0;
  if (answer.error != 0 || answer.payload.size() < sizeof head) return 0;
  walk_attributes(ByteView(answer.payload).subspan(sizeof head),
                  [&](int attribute, ByteView value) {
                    if (attribute == CTRL_ATTR_FAMILY_ID && value.size() == sizeof family)
                      std::memcpy(&family, value.data(), sizeof family);
                  });
  return family;
}

// An interface's driver, asked by ethtool: the attributes of its answer. `header`: the attribute
// that names the interface; `more`: those of the question besides.
NetlinkQuestion::Answer ask_driver(uint8_t command, uint16_t header, const std::string& interface,
                                   uint32_t flags,
                                   const std::function<void(NetlinkQuestion&)>& more) {
  static const uint16_t family = ethtool_family();
  if (family == 0) return {EOPNOTSUPP, {}};
  const genlmsghdr head{command, ETHTOOL_GENL_VERSION, 0};
  NetlinkQuestion question(family, {reinterpret_cast<const uint8_t*>(&head), sizeof head});
  question.begin_nest(header);
  question.put(ETHTOOL_A_HEADER_DEV_NAME, interface);
  if (flags != 0) question.put_number(ETHTOOL_A_HEADER_FLAGS, flags);
  question.end_nest();
  more(question);
  auto answer = question.ask(NETLINK_GENERIC);
  const size_t own = std::min(answer.payload.size(), sizeof head);
  answer.payload.erase(answer.payload.begin(), answer.payload.begin() + ptrdiff_t(own));
  return answer;
}

// The first of an array of counts is their sum; an empty one, and one that was not set, says
// nothing.
void add_count(const char* name, ByteView array, PortCounters& to) {
  uint64_t sum = 0;
  if (array.size() < sizeof sum) return;
  std::memcpy(&sum, array.data(), sizeof sum);
  if (sum != ~uint64_t{0}) to.emplace_back(name, sum);
}

}  // namespace

std::optional<NicModule> nic_module(const ReadModule& read) {
  const Bytes identifier = read({0, 0, 1});
  if (identifier.size() != 1) return std::nullopt;
  const auto kind = std::ranges::find(kKinds, identifier[0], &ModuleKind::identifier);
  if (kind == std::end(kKinds)) return NicModule{};
  NicModule module;
  module.type = kind->type;
  module.vendor = text_in(read(kind->map->vendor));
  module.part = text_in(read(kind->map->part));
  if (!has_sensors(*kind->map, read)) return module;
  module.temperature_C = degrees_in(read(kind->map->temperature));
  if (const auto most = degrees_in(read(kind->map->most)); most && *most > 0) module.most_C = most;
  module.least_uW = light_in(read(kind->map->least));
  module.received_uW = lanes_in(read(kind->map->received));
  module.least_sent_uW = light_in(read(kind->map->least_sent));
  module.sent_uW = lanes_in(read(kind->map->sent));
  return module;
}

Bytes ModuleMemory::read(const ModulePart& part) {
  Bytes data;
  const auto answer =
      ask_driver(ETHTOOL_MSG_MODULE_EEPROM_GET, ETHTOOL_A_MODULE_EEPROM_HEADER, interface_, 0,
                 [&](NetlinkQuestion& question) {
                   question.put_number(ETHTOOL_A_MODULE_EEPROM_OFFSET, uint32_t(part.offset));
                   question.put_number(ETHTOOL_A_MODULE_EEPROM_LENGTH, uint32_t(part.length));
                   question.put_number(ETHTOOL_A_MODULE_EEPROM_PAGE, part.page);
                   question.put_number(ETHTOOL_A_MODULE_EEPROM_BANK, uint8_t(0));
                   question.put_number(ETHTOOL_A_MODULE_EEPROM_I2C_ADDRESS,
                                       part.sensors ? kSensors : kFirstAddress);
                 });
  error_ = answer.error;
  walk_attributes(answer.payload, [&](int attribute, ByteView value) {
    if (attribute == ETHTOOL_A_MODULE_EEPROM_DATA && value.size() == part.length)
      data.assign(value.begin(), value.end());
  });
  return data;
}

PortCounters fec_of_answer(ByteView attributes) {
  PortCounters found;
  walk_attributes(attributes, [&](int outer, ByteView stats) {
    if (outer != ETHTOOL_A_FEC_STATS) return;
    walk_attributes(stats, [&](int inner, ByteView value) {
      if (inner == ETHTOOL_A_FEC_STAT_CORRECTED) add_count("fec_corrected", value, found);
      if (inner == ETHTOOL_A_FEC_STAT_UNCORR) add_count("fec_uncorrected", value, found);
    });
  });
  return found;
}

PortCounters symbols_of_answer(ByteView attributes) {
  PortCounters found;
  walk_attributes(attributes, [&](int outer, ByteView group) {
    if (outer != ETHTOOL_A_STATS_GRP) return;
    uint32_t id = ETHTOOL_STATS_ETH_MAC;  // until it says
    walk_attributes(group, [&](int inner, ByteView value) {
      if (inner == ETHTOOL_A_STATS_GRP_ID && value.size() == sizeof id)
        std::memcpy(&id, value.data(), sizeof id);
      if (inner != ETHTOOL_A_STATS_GRP_STAT || id != ETHTOOL_STATS_ETH_PHY) return;
      walk_attributes(value, [&](int stat, ByteView count) {
        if (stat == ETHTOOL_A_STATS_ETH_PHY_5_SYM_ERR) add_count("phy_symbol_errors", count, found);
      });
    });
  });
  return found;
}

PortCounters port_counters(const std::string& interface) {
  PortCounters found =
      fec_of_answer(ask_driver(ETHTOOL_MSG_FEC_GET, ETHTOOL_A_FEC_HEADER, interface,
                               ETHTOOL_FLAG_STATS, [](NetlinkQuestion&) {})
                        .payload);
  const auto symbols =
      symbols_of_answer(ask_driver(ETHTOOL_MSG_STATS_GET, ETHTOOL_A_STATS_HEADER, interface, 0,
                                   [](NetlinkQuestion& question) {
                                     question.begin_nest(ETHTOOL_A_STATS_GROUPS);
                                     question.put(ETHTOOL_A_BITSET_NOMASK, ByteView());
                                     question.put_number(ETHTOOL_A_BITSET_SIZE, uint32_t(1));
                                     question.put_number(ETHTOOL_A_BITSET_VALUE,
                                                         uint32_t(1) << ETHTOOL_STATS_ETH_PHY);
                                     question.end_nest();
                                   })
                            .payload);
  found.insert(found.end(), symbols.begin(), symbols.end());
  return found;
}

NicPriorities priorities_of_answer(ByteView attributes) {
  NicPriorities found;
  std::vector<std::pair<int, int>> by_dscp;
  walk_attributes(attributes, [&](int outer, ByteView ieee) {
    if (outer != DCB_ATTR_IEEE) return;
    walk_attributes(ieee, [&](int inner, ByteView value) {
      if (inner == DCB_ATTR_IEEE_PFC && value.size() > offsetof(ieee_pfc, pfc_en))
        for (int priority = 0; priority < 8; ++priority)
          found.pfc += (value[offsetof(ieee_pfc, pfc_en)] >> priority & 1) != 0 ? '1' : '0';
      if (inner != DCB_ATTR_IEEE_APP_TABLE) return;
      walk_attributes(value, [&](int entry, ByteView bytes) {
        dcb_app app{};
        if (entry != DCB_ATTR_IEEE_APP || bytes.size() < sizeof app) return;
        std::memcpy(&app, bytes.data(), sizeof app);
        if (app.selector == IEEE_8021QAZ_APP_SEL_DSCP && by_dscp.size() < kMostMappings)
          by_dscp.emplace_back(app.protocol, app.priority);
      });
    });
  });
  std::ranges::sort(by_dscp);
  for (const auto& [dscp, priority] : by_dscp)
    found.dscp += format("{}{}:{}", found.dscp.empty() ? "" : " ", dscp, priority);
  return found;
}

NicPriorities nic_priorities(const std::string& interface) {
  const dcbmsg head{AF_UNSPEC, DCB_CMD_IEEE_GET, 0};
  NetlinkQuestion question(RTM_GETDCB, {reinterpret_cast<const uint8_t*>(&head), sizeof head});
  question.put(DCB_ATTR_IFNAME, interface);
  const auto answer = question.ask(NETLINK_ROUTE);
  if (answer.error != 0 || answer.payload.size() < sizeof head) return {};
  return priorities_of_answer(ByteView(answer.payload).subspan(sizeof head));
}

}  // namespace collctl::base
