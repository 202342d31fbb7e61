#include "topology/bandwidth.h"

#include <array>

#include "base/format.h"

namespace collctl::topology {
namespace {

// A lane in 100 Mb/s after encoding, as NCCL counts: 8 GT/s x 128/130, and less for headers.
// Source: NCCL 2.30 (topo.cc, speeds by kernel string); PCI Express base specification for GT/s.
struct PciRate {
  const char* gigatransfers;
  int generation;
  double lane;
};
constexpr std::array<PciRate, 6> kPciRates = {
    {{"2.5", 1, 15}, {"5", 2, 30}, {"8", 3, 60}, {"16", 4, 120}, {"32", 5, 240}, {"64", 6, 480}}};
constexpr const PciRate& kAssumedRate = kPciRates[2];  // NCCL 2.30: an unknown string is gen3
constexpr int kAssumedWidth = 16;                      // NCCL 2.30: width 0 or missing is x16

const PciRate* find_rate(const std::string& speed) {
  for (const PciRate& rate : kPciRates) {
    const std::string plain = rate.gigatransfers;
    const std::string whole = plain.find('.') == plain.npos ? plain + ".0" : plain;
    // Kernels before 5.x write "16 GT/s", later ones "16.0 GT/s PCIe".
    for (const std::string& number : {plain, whole})
      if (speed == number + " GT/s" || speed == number + " GT/s PCIe") return &rate;
  }
  return nullptr;
}

// NVLink by generation of the GPU. Source: NCCL 2.30 (topo.h), measured there: the wire rates of
// 20, 25, 25, 14, 25 and 50 GB/s less protocol.
struct NvlinkRow {
  int sm_from, sm_to;
  double gbps;
};
constexpr NvlinkRow kNvlink[] = {
    {60, 69, 18},      // P100 (NVLink 1)
    {70, 79, 20},      // V100 (2)
    {86, 86, 12},      // RTX A6000, A40 (bridge)
    {80, 89, 20},      // A100 (3), and the rest of 8.x
    {90, 99, 20.6},    // H100, H200 (4)
    {100, 9999, 40.1}  // B200, B300 (5)
};
constexpr double kOtherNvlink = 20;  // NCCL 2.30: anything older

// xGMI. Source: RCCL (topo.h): VEGA_XGMI_WIDTH, MI200_XGMI_WIDTH, GFX94X_XGMI_WIDTH.
struct XgmiRow {
  const char* prefix;  // of gcn, with "gfx" taken off
  double gbps;
};
constexpr XgmiRow kXgmi[] = {{"910", 36}, {"90a", 36}, {"94", 48}, {"95", 48}};
constexpr double kOtherXgmi = 24;  // MI50, MI60, MI100

// CPU to CPU. Source: NCCL 2.30 (topo.h, ncclTopoGetInterCpuBw).
struct IntelRow {
  int model_from;
  double gbps;
};
constexpr IntelRow kIntel[] = {
    {0xCF, 40},  // Emerald Rapids and newer: UPI 2.0, four links
    {0x8F, 22},  // Sapphire Rapids
    {0x55, 10},  // Skylake, Cascade Lake, Ice Lake
    {0, 6},      // QPI
};
// Channels x 8 bytes x transfers a second, from the makers' specifications of the largest models.
struct MemoryRow {
  const char* vendor;
  int family, model_from, model_to;
  double gbps;
};
constexpr MemoryRow kMemory[] = {
    {"GenuineIntel", 6, 0x55, 0x55, 128.0},     // Skylake, Cascade Lake: 6 x DDR4-2666
    {"GenuineIntel", 6, 0x6A, 0x6C, 204.8},     // Ice Lake: 8 x DDR4-3200
    {"GenuineIntel", 6, 0x8F, 0x8F, 307.2},     // Sapphire Rapids: 8 x DDR5-4800
    {"GenuineIntel", 6, 0xCF, 0xCF, 358.4},     // Emerald Rapids: 8 x DDR5-5600
    {"GenuineIntel", 6, 0xAD, 0xAE, 614.4},     // Granite Rapids: 12 x DDR5-6400
    {"AuthenticAMD", 0x17, 0x00, 0x0F, 170.6},  // Naples: 8 x DDR4-2666
    {"AuthenticAMD", 0x17, 0x30, 0x3F, 204.8},  // Rome: 8 x DDR4-3200
    {"AuthenticAMD", 0x19, 0x00, 0x0F, 204.8},  // Milan: 8 x DDR4-3200
    {"AuthenticAMD", 0x19, 0x10, 0x1F, 460.8},  // Genoa: 12 x DDR5-4800
    {"AuthenticAMD", 0x19, 0xA0, 0xAF, 460.8},  // Bergamo: 12 x DDR5-4800
    {"AuthenticAMD", 0x1A, 0x00, 0x1F, 576.0},  // Turin: 12 x DDR5-6000
};
constexpr double kAmdGBps = 16;    // any pair of NUMA nodes, of one socket or two
constexpr double kPowerGBps = 32;  // POWER9 X bus
constexpr double kArmGBps = 6;
constexpr double kZhaoxinGBps = 6;
constexpr double kYongfengGBps = 9;  // Zhaoxin family 7, model 0x5B

}  // namespace

int pci_generation(const std::string& speed) {
  const PciRate* rate = find_rate(speed);
  return rate != nullptr ? rate->generation : 0;
}

Bandwidth pci_bandwidth(const std::optional<std::string>& speed, const std::optional<int>& width) {
  Bandwidth found;
  const PciRate* rate = speed ? find_rate(*speed) : nullptr;
  int lanes = width.value_or(0);
  const bool no_width = lanes <= 0 || lanes > 32;  // 255 is the kernel's "unknown"
  if (rate == nullptr)
    found.assumed = format("{}; gen3{} is assumed",
                           speed && !speed->empty()
                               ? format("the unknown link speed '{}'", speed->substr(0, 40))
                               : "no link speed",
                           no_width ? " x16" : "");
  else if (no_width)
    found.assumed = "no link width; x16 is assumed";
  if (rate == nullptr) rate = &kAssumedRate;
  if (no_width) lanes = kAssumedWidth;
  found.gbps = lanes * rate->lane / 80;
  return found;
}

Bandwidth net_bandwidth(const std::optional<int64_t>& mbps) {
  if (mbps && *mbps > 0) return {double(*mbps) / 8000, ""};
  return {1.25, "no speed; 10 Gb/s is assumed"};  // NCCL 2.30
}

double nvlink_bandwidth(int sm) {
  for (const NvlinkRow& row : kNvlink)
    if (sm >= row.sm_from && sm <= row.sm_to) return row.gbps;
  return kOtherNvlink;
}

double xgmi_bandwidth(const std::string& gcn) {
  const std::string number = gcn.rfind("gfx", 0) == 0 ? gcn.substr(3) : gcn;
  for (const XgmiRow& row : kXgmi)
    if (number.rfind(row.prefix, 0) == 0) return row.gbps;
  return kOtherXgmi;
}

double memory_bandwidth(const std::string& vendor, int family, int model) {
  for (const MemoryRow& row : kMemory)
    if (vendor == row.vendor && family == row.family && model >= row.model_from &&
        model <= row.model_to)
      return row.gbps;
  return 0;
}

Bandwidth cpu_bandwidth(const std::string& arch, const std::string& vendor, int family, int model) {
  if (arch == "ppc64" || arch == "ppc64le") return {kPowerGBps, ""};
  if (arch == "arm64" || arch == "aarch64") return {kArmGBps, ""};
  if (vendor == "AuthenticAMD") return {kAmdGBps, ""};
  if (vendor == "GenuineIntel") {
    if (family != 6) return {kIntel[3].gbps, ""};
    for (const IntelRow& row : kIntel)
      if (model >= row.model_from) return {row.gbps, ""};
  }
  if (vendor == "CentaurHauls" || vendor == "  Shanghai  ")
    return {family == 7 && model == 0x5B ? kYongfengGBps : kZhaoxinGBps, ""};
  return {kLocalGBps, "unknown CPU vendor; links between NUMA nodes count as unlimited"};
}

}  // namespace collctl::topology
