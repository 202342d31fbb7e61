// libFuzzer target: the bytes choose a machine, which is written as a topology file: well-formed,
// most of its values plausible, so that what comes behind the XML parser is reached (any bytes as
// a file: fuzz_topology). A machine that is taken must survive a write and a read, and all that
// follows must come to an end: graph, paths, decisions, channels, and channels as a file.
#include "tests/fuzz/follow.h"
#include "tests/fuzz/fuzz.h"
#include "topology/xml/graph_xml.h"
#include "topology/xml/xml.h"

using namespace collctl;
using namespace collctl::topology;

namespace {

constexpr int kMostElements = 24;
constexpr size_t kMostEndpoints = 8;

struct Value {
  const char* name;
  std::vector<const char*> texts;
};

// Each element's attributes, and what stands in it.
struct Kind {
  const char* name;
  std::vector<Value> values;
  std::vector<size_t> inside;
};

const std::vector<const char*> kBusIds{"0000:01:00.0",    "0000:02:00.0", "0000:03:00.0",
                                       "0000:04:00.0",    "0000:05:00.0", "0000:06:00.0",
                                       "fffffff:ffff:ff", "ffff:ff:1f.7"};
const std::vector<const char*> kSmall{"0", "1", "2", "3", "7", "-1", "65535", "1048577"};

enum : size_t { kSystem, kCpu, kPci, kGpu, kNic, kNet, kNvlink, kC2c, kPcilink, kOdd };
const Kind kKinds[] = {
    {"system", {{"version", {"1", "1", "1", "2", "3"}}}, {kCpu, kCpu, kCpu, kOdd}},
    {"cpu",
     {{"numaid", kSmall},
      {"host_hash", {"0x1", "0x2", "0xffffffffffffffff"}},
      {"affinity", {"ffffffff,ffffffff", "0000000f", "x"}},
      {"arch", {"x86_64", "arm64", "ppc64"}},
      {"vendor", {"GenuineIntel", "AuthenticAMD", "IBM"}},
      {"familyid", {"6", "143", "175"}},
      {"modelid", {"85", "143", "49"}}},
     {kPci, kPci, kPci, kNic, kOdd}},
    {"pci",
     {{"busid", kBusIds},
      {"class", {"0x060400", "0x030200", "0x020700", "0x020000"}},
      {"vendor", {"0x10de", "0x15b3", "0x1000", "0x104c"}},
      {"device", {"0x1af1", "0x2330", "0xc010"}},
      {"link_speed", {"16.0 GT/s PCIe", "32.0 GT/s PCIe", "2.5 GT/s PCIe", "", "x"}},
      {"link_width", {"16", "8", "1", "0", "255"}},
      {"link_speed_now", {"2.5 GT/s PCIe", "16.0 GT/s PCIe"}}},
     {kPci, kPci, kGpu, kGpu, kNic, kPcilink, kOdd}},
    {"gpu",
     {{"dev", kSmall},
      {"rank", kSmall},
      {"sm", {"80", "90", "100", "0"}},
      {"gdr", {"0", "1", "2"}}},
     {kNvlink, kNvlink, kC2c, kOdd}},
    {"nic", {}, {kNet, kNet, kOdd}},
    {"net",
     {{"name", {"mlx5_0", "mlx5_1", "eth0", ""}},
      {"dev", kSmall},
      {"speed", {"100000", "400000", "10000", "0", "-1"}},
      {"port", kSmall},
      {"guid", {"0x1", "0x2", "0xffffffffffffffff"}},
      {"latency", {"0.0", "1.5", "nan", "1e9"}},
      {"maxconn", {"262144", "1", "0"}},
      {"gdr", {"0", "1"}},
      {"coll", {"0", "1"}}},
     {}},
    {"nvlink",
     {{"target", kBusIds},
      {"count", {"1", "2", "4", "18", "0", "1025"}},
      {"tclass", {"0x030200", "0x068000", "0x068001"}}},
     {}},
    {"c2c", {{"bw", {"300", "0", "1e300"}}, {"count", {"1", "2"}}, {"tclass", {"0x000000"}}}, {}},
    {"pcilink", {{"target", kBusIds}}, {}},
    {"odd", {{"thing", {"&lt;", "&#65;", "\xff"}}}, {kOdd}}};

class Writer {
 public:
  explicit Writer(ByteView choices) : choices_(choices) {}
  std::string text() {
    element(kSystem, 0);
    return std::move(text_);
  }

 private:
  size_t pick(size_t below) {
    if (choices_.empty() || below == 0) return 0;
    const size_t chosen = choices_[0] % below;
    choices_ = choices_.subspan(1);
    return chosen;
  }

  void element(size_t which, int depth) {
    const Kind& kind = kKinds[which];
    text_ += '<';
    text_ += kind.name;
    for (const Value& value : kind.values) {
      // One of sixteen is not there, and of another the bytes are its value.
      const size_t way = pick(16);
      if (way == 15) continue;
      text_ += ' ';
      text_ += value.name;
      text_ += "=\"";
      if (way == 14)
        text_ += std::to_string(int(pick(256)) - 128);
      else
        text_ += value.texts[pick(value.texts.size())];
      text_ += '"';
    }
    text_ += '>';
    const size_t children = kind.inside.empty() || depth > 8 ? 0 : pick(5);
    for (size_t i = 0; i < children && ++elements_ < kMostElements; ++i)
      element(kind.inside[pick(kind.inside.size())], depth + 1);
    text_ += "</";
    text_ += kind.name;
    text_ += '>';
  }

  ByteView choices_;
  std::string text_;
  int elements_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto document = read_xml(Writer({data, size}).text(), "input");
  if (!document.ok()) return 0;
  const auto again = read_xml(write_xml(document->system), "written");
  fuzz::must(again.ok() && again->system == document->system);
  follow(document->system, kMostEndpoints);
  return 0;
}
