// Transceivers out of memories laid out as their standards say, and what kernels answer about
// priorities, whole and cut short.
#include "base/nic_module.h"

#include <linux/dcbnl.h>
#include <linux/ethtool_netlink.h>
#include <linux/netlink.h>

#include <algorithm>
#include <cerrno>
#include <map>

#include "base/netlink.h"
#include "tests/catch.h"

namespace nic_module_tests {

using namespace collctl::base;

namespace {

// By page, with the second address as page 256; a page that is not there cannot be read.
class Memory {
 public:
  void put(int page, size_t at, const std::string& bytes) {
    Bytes& to = pages_[page];
    to.resize(256);
    std::copy(bytes.begin(), bytes.end(), to.begin() + ptrdiff_t(at));
  }
  void word(int page, size_t at, int value) { put(page, at, {char(value >> 8), char(value)}); }
  ReadModule read() const {
    return [this](const ModulePart& part) -> Bytes {
      const auto page = pages_.find(part.sensors ? 256 : part.offset < 128 ? 0 : part.page);
      if (page == pages_.end()) return {};
      const auto at = page->second.begin() + part.offset;
      return {at, at + part.length};
    };
  }

 private:
  std::map<int, Bytes> pages_;
};

// The attributes of an answer.
Bytes attribute(uint16_t type, const Bytes& value) {
  ByteWriter out;
  out.put(uint16_t(4 + value.size())).put(type).put_rest(value);
  Bytes bytes = out.take();
  bytes.resize((bytes.size() + 3) / 4 * 4);
  return bytes;
}
Bytes joined(const Bytes& one, const Bytes& two) {
  Bytes both = one;
  both.insert(both.end(), two.begin(), two.end());
  return both;
}

}  // namespace

TEST_CASE("a QSFP28 says who made it, how warm it is and how much light it gets", "[nic_module]") {
  Memory memory;
  memory.put(0, 0, "\x11");
  memory.put(0, 148, "ACME            ");
  memory.put(0, 168, "QSFP-100G-SR4   ");
  memory.word(0, 22, 45 << 8 | 0x80);
  for (int lane = 0; lane < 4; ++lane) memory.word(0, 34 + size_t(2 * lane), 5000 + lane);
  memory.word(3, 128, 75 << 8);
  memory.word(3, 178, 398);
  for (int lane = 0; lane < 4; ++lane) memory.word(0, 50 + size_t(2 * lane), 9000 + lane);
  memory.word(3, 194, 1012);
  const auto module = nic_module(memory.read());
  REQUIRE(module);
  CHECK(module->type == "QSFP28");
  CHECK(module->vendor == "ACME");
  CHECK(module->part == "QSFP-100G-SR4");
  CHECK(module->temperature_C == 45.5);
  CHECK(module->most_C == 75);
  CHECK(module->least_uW == 39.8);
  CHECK(module->received_uW == std::vector<double>{500, 500.1, 500.2, 500.3});
  CHECK(module->sent_uW == std::vector<double>{900, 900.1, 900.2, 900.3});
  CHECK(module->least_sent_uW == 101.2);
  // A copper cable: one page, no sensors.
  memory.put(0, 2, "\x04");
  const auto copper = nic_module(memory.read());
  REQUIRE(copper);
  CHECK(copper->vendor == "ACME");
  CHECK_FALSE(copper->temperature_C);
  CHECK(copper->received_uW.empty());
}

TEST_CASE("an OSFP and an SFP have the same elsewhere", "[nic_module]") {
  Memory osfp;
  osfp.put(0, 0, "\x19");
  osfp.put(0, 129,
           std::string("A\x1b"
                       "B\xff             ",
                       16));
  osfp.word(0, 14, 0xff00);  // one degree below zero
  osfp.word(0x11, 186, 9000);
  osfp.word(0x11, 200, 8000);
  osfp.word(2, 194, 1000);
  osfp.word(0x11, 154, 7000);
  osfp.word(0x11, 168, 6000);
  const auto module = nic_module(osfp.read());
  REQUIRE(module);
  CHECK(module->type == "OSFP");
  CHECK(module->vendor == "A B");  // no terminal's control characters
  CHECK(module->temperature_C == -1);
  CHECK_FALSE(module->most_C);
  CHECK(module->received_uW.size() == 8);
  CHECK(module->received_uW[7] == 800);
  CHECK(module->least_uW == 100);
  CHECK(module->sent_uW == std::vector<double>{700, 0, 0, 0, 0, 0, 0, 600});
  CHECK_FALSE(module->least_sent_uW);
  osfp.word(2, 178, 2000);
  CHECK(nic_module(osfp.read())->least_sent_uW == 200);
  Memory sfp;
  sfp.put(0, 0, "\x03");
  sfp.put(0, 40, "SFP-25G         ");
  CHECK(nic_module(sfp.read())->received_uW.empty());
  sfp.put(0, 92, "\x68");
  sfp.word(256, 96, 30 << 8);
  sfp.word(256, 104, 4000);
  sfp.word(256, 34, 500);
  sfp.word(256, 102, 6000);
  sfp.word(256, 26, 1500);
  CHECK(nic_module(sfp.read())->part == "SFP-25G");
  CHECK(nic_module(sfp.read())->received_uW == std::vector<double>{400});
  CHECK(nic_module(sfp.read())->least_uW == 50);
  CHECK(nic_module(sfp.read())->sent_uW == std::vector<double>{600});
  CHECK(nic_module(sfp.read())->least_sent_uW == 150);
}

TEST_CASE("no module, one of an unknown kind, one that cannot be read on", "[nic_module]") {
  CHECK_FALSE(nic_module(Memory().read()));
  Memory odd;
  odd.put(0, 0, "\x77");
  REQUIRE(nic_module(odd.read()));
  CHECK(nic_module(odd.read())->type.empty());
  const auto broken =
      nic_module([](const ModulePart& part) { return part.length == 1 ? Bytes{0x11} : Bytes{}; });
  REQUIRE(broken);
  CHECK(broken->vendor.empty());
  ModuleMemory loopback("lo");  // the kernel's own answer
  CHECK(loopback.read({0, 0, 1}).empty());
  CHECK(loopback.error() != 0);
  ModuleMemory none("no-such-device0");
  CHECK_FALSE(nic_module([&](const ModulePart& part) { return none.read(part); }));
}

TEST_CASE("priorities with flow control, and by DSCP", "[nic_module]") {
  Bytes pfc(136, 0);
  pfc[0] = 8;
  pfc[1] = 0x08;
  const auto app = [](uint8_t selector, uint8_t priority, uint16_t protocol) {
    ByteWriter out;
    out.put(selector).put(priority).put(protocol);
    return attribute(DCB_ATTR_IEEE_APP, out.take());
  };
  const Bytes apps = joined(joined(app(5, 6, 48), app(5, 3, 26)), app(1, 3, 0x8915));
  const Bytes answer =
      attribute(DCB_ATTR_IEEE, joined(attribute(DCB_ATTR_IEEE_PFC, pfc),
                                      attribute(DCB_ATTR_IEEE_APP_TABLE | NLA_F_NESTED, apps)));
  const NicPriorities found = priorities_of_answer(answer);
  CHECK(found.pfc == "00010000");
  CHECK(found.dscp == "26:3 48:6");
  for (size_t length = 0; length < answer.size(); ++length) {
    const NicPriorities cut = priorities_of_answer(ByteView(answer).first(length));
    CHECK(cut.dscp.size() <= found.dscp.size());
  }
  CHECK(nic_priorities("lo").pfc.empty());
}

TEST_CASE("blocks that FEC corrected or could not: the first count is that of the port",
          "[nic_module]") {
  const auto counts = [](const std::vector<uint64_t>& list) {
    ByteWriter out;
    for (const uint64_t count : list) out.put(count);
    return out.take();
  };
  const Bytes stats =
      joined(joined(attribute(ETHTOOL_A_FEC_STAT_PAD, {}),
                    attribute(ETHTOOL_A_FEC_STAT_CORRECTED, counts({70, 30, 40}))),
             joined(attribute(ETHTOOL_A_FEC_STAT_UNCORR, counts({uint64_t{1} << 40})),
                    attribute(ETHTOOL_A_FEC_STAT_CORR_BITS, counts({99}))));
  const Bytes answer = joined(attribute(ETHTOOL_A_FEC_ACTIVE, {49, 0, 0, 0}),
                              attribute(ETHTOOL_A_FEC_STATS | NLA_F_NESTED, stats));
  const PortCounters wanted{{"fec_corrected", 70}, {"fec_uncorrected", uint64_t{1} << 40}};
  const auto same = [](const PortCounters& one, const PortCounters& two) {
    return std::ranges::equal(one, two, [](const auto& a, const auto& b) {
      return std::string(a.first) == b.first && a.second == b.second;
    });
  };
  CHECK(same(fec_of_answer(answer), wanted));
  for (size_t length = 0; length < answer.size(); ++length)
    CHECK(fec_of_answer(ByteView(answer).first(length)).empty());
  // A driver that counts nothing, or has not set a count, or sends half of one.
  for (const Bytes& odd : {Bytes{}, counts({~uint64_t{0}}), Bytes(7, 1)})
    CHECK(fec_of_answer(attribute(ETHTOOL_A_FEC_STATS, attribute(ETHTOOL_A_FEC_STAT_UNCORR, odd)))
              .empty());

  const auto group = [&](uint32_t id, uint16_t stat) {
    ByteWriter number;
    number.put(id);
    return attribute(ETHTOOL_A_STATS_GRP | NLA_F_NESTED,
                     joined(attribute(ETHTOOL_A_STATS_GRP_ID, number.take()),
                            attribute(ETHTOOL_A_STATS_GRP_STAT | NLA_F_NESTED,
                                      attribute(stat, counts({uint64_t(5 + id)})))));
  };
  const Bytes phy = joined(group(ETHTOOL_STATS_ETH_MAC, ETHTOOL_A_STATS_ETH_PHY_5_SYM_ERR),
                           joined(group(ETHTOOL_STATS_ETH_PHY, 7),
                                  group(ETHTOOL_STATS_ETH_PHY, ETHTOOL_A_STATS_ETH_PHY_5_SYM_ERR)));
  CHECK(same(symbols_of_answer(phy), {{"phy_symbol_errors", 5}}));
  for (size_t length = 0; length < phy.size(); ++length)
    CHECK(symbols_of_answer(ByteView(phy).first(length)).empty());
  for (const char* interface : {"lo", "no-such-device0"}) CHECK(port_counters(interface).empty());
}

TEST_CASE("what the kernel refuses is an error, and attributes that lie are not followed",
          "[nic_module]") {
  const uint8_t head[4] = {0xff, 0, 0, 0};
  NetlinkQuestion question(0x10, head);  // a command that generic netlink's control has not
  CHECK(question.ask(NETLINK_GENERIC).error != 0);
  int seen = 0;
  const uint8_t lies[] = {3, 0, 1, 0, 0xff, 0xff, 1, 0};
  walk_attributes(lies, [&](int, ByteView) { ++seen; });
  walk_attributes(ByteView(lies).subspan(4), [&](int, ByteView) { ++seen; });
  CHECK(seen == 0);
}

}  // namespace nic_module_tests
