// Common names of the devices and processors.
#include <bit>

#include "base/format.h"
#include "topology/detect/inspect.h"

namespace collctl::topology {
namespace {

// Names by vendor and device. Source: the PCI ID database (pci-ids.ucw.cz).
struct DeviceName {
  uint32_t vendor, device;
  const char* name;
};
constexpr DeviceName kDevices[] = {{0x10de, 0x15f9, "P100"},
                                   {0x10de, 0x1db1, "V100"},
                                   {0x10de, 0x1db4, "V100 PCIe"},
                                   {0x10de, 0x1db5, "V100"},
                                   {0x10de, 0x1db6, "V100 PCIe"},
                                   {0x10de, 0x1eb8, "T4"},
                                   {0x10de, 0x1fb1, "T600"},
                                   {0x10de, 0x20b0, "A100"},
                                   {0x10de, 0x20b2, "A100"},
                                   {0x10de, 0x20b5, "A100 PCIe"},
                                   {0x10de, 0x20f1, "A100 PCIe"},
                                   {0x10de, 0x2204, "RTX 3090"},
                                   {0x10de, 0x2230, "RTX A6000"},
                                   {0x10de, 0x2235, "A40"},
                                   {0x10de, 0x2237, "A10G"},
                                   {0x10de, 0x2324, "H800"},
                                   {0x10de, 0x2330, "H100"},
                                   {0x10de, 0x2331, "H100 PCIe"},
                                   {0x10de, 0x2335, "H200"},
                                   {0x10de, 0x2684, "RTX 4090"},
                                   {0x10de, 0x26b9, "L40S"},
                                   {0x10de, 0x26ba, "L20"},
                                   {0x10de, 0x27b8, "L4"},
                                   {0x10de, 0x2901, "B200"},
                                   {0x1002, 0x66a1, "MI50/60"},
                                   {0x1002, 0x738c, "MI100"},
                                   {0x1002, 0x7408, "MI250X"},
                                   {0x1002, 0x740c, "MI250"},
                                   {0x1002, 0x740f, "MI210"},
                                   {0x1002, 0x74a0, "MI300A"},
                                   {0x1002, 0x74a1, "MI300X"},
                                   {0x15b3, 0x1013, "ConnectX-4"},
                                   {0x15b3, 0x1015, "ConnectX-4 Lx"},
                                   {0x15b3, 0x1017, "ConnectX-5"},
                                   {0x15b3, 0x1019, "ConnectX-5 Ex"},
                                   {0x15b3, 0x101b, "ConnectX-6"},
                                   {0x15b3, 0x101c, "ConnectX-6 VF"},
                                   {0x15b3, 0x101d, "ConnectX-6 Dx"},
                                   {0x15b3, 0x101e, "ConnectX VF"},
                                   {0x15b3, 0x101f, "ConnectX-6 Lx"},
                                   {0x15b3, 0x1021, "ConnectX-7"},
                                   {0x15b3, 0x1023, "ConnectX-8"},
                                   {0x15b3, 0xa2d6, "BlueField-2"},
                                   {0x15b3, 0xa2dc, "BlueField-3"},
                                   {0x14e4, 0x16d8, "BCM57416"},
                                   {0x1d0f, 0xefa0, "EFA"},
                                   {0x1d0f, 0xefa1, "EFA"},
                                   {0x1d0f, 0xefa2, "EFA"},
                                   {0x1d0f, 0xec20, "ENA"},
                                   {0x17db, 0x0501, "Slingshot"},
                                   {0x1af4, 0x1000, "virtio"},
                                   {0x1af4, 0x1041, "virtio"},
                                   {0x8086, 0x1563, "X550"},
                                   {0x8086, 0x1572, "X710"},
                                   {0x8086, 0x1592, "E810"}};

// Processors by family and model. Intel's models are single numbers; of AMD's the low four bits are
// variants of one design. AMD's families stand here as the kernel counts them; NCCL's files
// write 15 plus 16 times the extended family. Sources: the makers' processor references.
struct ProcessorName {
  int family, model;
  const char* name;
};
constexpr ProcessorName kIntelNames[] = {
    {6, 0x3F, "Haswell"},        {6, 0x4F, "Broadwell"},     {6, 0x55, "Skylake/Cascade Lake"},
    {6, 0x6A, "Ice Lake"},       {6, 0x6C, "Ice Lake"},      {6, 0x8F, "Sapphire Rapids"},
    {6, 0xAD, "Granite Rapids"}, {6, 0xAF, "Sierra Forest"}, {6, 0xCF, "Emerald Rapids"}};
constexpr ProcessorName kAmdNames[] = {
    {23, 0x00, "EPYC Naples"},  {23, 0x30, "EPYC Rome"},   {25, 0x00, "EPYC Milan"},
    {25, 0x10, "EPYC Genoa"},   {25, 0x30, "EPYC Trento"}, {25, 0x90, "Instinct MI300A"},
    {25, 0xA0, "EPYC Bergamo"}, {26, 0x00, "EPYC Turin"},  {26, 0x10, "EPYC Turin Dense"}};

template <size_t N>
const char* find_name(const ProcessorName (&rows)[N], int family, int model) {
  for (const ProcessorName& row : rows)
    if (row.family == family && row.model == model) return row.name;
  return nullptr;
}

int amd_family(int family) {
  return family > 0x2f ? 15 + (family >> 4) : family;
}

}  // namespace

std::string pci_device_name(const Pci& pci) {
  for (const DeviceName& row : kDevices)
    if (pci.vendor == row.vendor && pci.device == row.device) return row.name;
  return "";
}

std::string processor_name(const Cpu& cpu) {
  const std::string vendor = cpu.vendor.value_or("");
  std::string arch = cpu.arch.value_or("");
  const int family = cpu.family.value_or(0), model = cpu.model.value_or(0);
  const char* name = nullptr;
  std::string maker = vendor;
  if (vendor == "GenuineIntel") {
    maker = "Intel";
    name = find_name(kIntelNames, family, model);
  } else if (vendor == "AuthenticAMD") {
    maker = "AMD";
    name = find_name(kAmdNames, amd_family(family), model & ~0xf);
  } else if (vendor == "CentaurHauls" || vendor == "  Shanghai  ") {
    maker = "Zhaoxin";
  } else if (arch == "arm64" || arch == "aarch64") {
    maker = vendor.empty() || vendor == "ARM" ? "ARM" : vendor;
  } else if (arch.starts_with("ppc64")) {
    maker = "POWER";
  }
  if (name != nullptr) return maker + " " + name;
  if (maker.empty()) return arch;
  return cpu.model ? format("{} family {} model {}", maker, family, model) : maker;
}

int processor_threads(const Cpu& cpu) {
  int count = 0;
  for (const char c : cpu.affinity.value_or("")) {
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : 0;
    count += std::popcount(unsigned(digit));
  }
  return count;
}

}  // namespace collctl::topology
