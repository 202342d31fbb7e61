// One machine (or several joined by NVLink) as plain values, in the vocabulary of NCCL's
// topology files: what was read or detected, not what follows from it. Attributes that were missing
// stay missing (the graph fills them in and says so); unknown ones are kept, so that a file
// survives reading and writing. Made by xml (and later by detection), read by graph. Threads:
// values.
#pragma once
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace collctl::topology {

// Where an element stood in its file; 0 when it was not read from one. Equal for all: a machine
// does not change when its file is laid out differently.
struct Place {
  int line = 0, column = 0;
  bool operator==(const Place&) const { return true; }
};

// Domain, bus, device and function as one number, as NCCL counts: 0000:0f:00.0 is 0xF000.
struct BusId {
  int64_t value = 0;
  auto operator<=>(const BusId&) const = default;
  // The card without its function: ports of one card are one NIC.
  BusId card() const { return {value & ~int64_t{0xf}}; }
};
// "0000:0f:00.0" (a domain of up to 8 hexadecimal digits); empty when it is none.
std::optional<BusId> parse_bus_id(const std::string& text);
std::string bus_id_text(BusId id);
// The target that the driver gives an NVLink whose other end a virtual machine cannot see.
inline constexpr BusId kInvisibleTarget{0xfffffffLL << 20 | 0xffLL << 12 | 0xffLL << 4};

// An attribute or element (as its own text) that this program does not know.
struct Unknown {
  std::string name, value;
  bool operator==(const Unknown&) const = default;
};
using Unknowns = std::vector<Unknown>;

enum class FabricKind : uint8_t { nvlink, xgmi };

// Links of one kind between a GPU and one neighbour.
struct FabricLink {
  FabricKind kind = FabricKind::nvlink;
  BusId target;
  int count = 1;
  std::optional<uint32_t> target_class;  // PCI class of the neighbour, e.g. 0x068000 a switch
  Unknowns unknown;
  Place at;
  bool operator==(const FabricLink&) const = default;
};

// NVLink-C2C between a GPU and its CPU.
struct C2cLink {
  int count = 1;
  int64_t mbytes_per_s = 0;  // of each
  Unknowns unknown;
  Place at;
  bool operator==(const C2cLink&) const = default;
};

struct Gpu {
  std::optional<int> dev;   // NVML index
  std::optional<int> rank;  // of the rank that uses it
  std::optional<int> sm;    // compute capability x 10; AMD files use the number of compute units
  std::optional<bool> gdr;  // a NIC can access its memory
  std::optional<std::string> gcn, arch;  // AMD: architecture ("908", "gfx942"), encoded features
  std::vector<FabricLink> links;
  std::vector<C2cLink> c2c;
  // Not of NCCL's vocabulary: what the driver calls it ("NVIDIA H200"), how many NVLinks it
  // has, working or not, and whether this GPU was not read but assumed (--assume).
  std::optional<std::string> name;
  std::optional<int> links_able;
  std::optional<bool> assumed;
  // Neither: GPUs whose memory the driver does not let it read and write.
  std::vector<BusId> no_p2p;
  Unknowns unknown, unknown_elements;
  Place at;
  bool operator==(const Gpu&) const = default;
};

// One network device (a port, or several merged by the plugin).
struct Net {
  std::string name;
  std::optional<int> dev;             // the plugin's index
  std::optional<int64_t> speed_mbps;  // 10^6 bits per second
  std::optional<int> port;
  std::optional<uint64_t> guid;
  std::optional<int64_t> max_connections;
  std::optional<double> latency_us;
  std::optional<bool> gdr, coll, gin;
  Unknowns unknown;
  Place at;
  bool operator==(const Net&) const = default;
};

struct Nic {
  std::vector<Net> nets;
  // Not of NCCL's vocabulary: ports that detection found without a link ("mlx5_1:2 mlx5_1:3").
  std::optional<std::string> ports_down;
  Unknowns unknown, unknown_elements;
  Place at;
  bool operator==(const Nic&) const = default;
};

// The possible and the current state of a PCI link, as the kernel words it. Only detection knows;
// no part of NCCL's vocabulary, written as attributes of our own.
struct PciLinkState {
  std::optional<std::string>
      speed_now;                 // lower than possible on an idle device: no fault by itself
  std::optional<int> width_now;  // lanes; does not change with load
  std::optional<std::string> speed_able;  // of the device, whatever its slot can do
  std::optional<int> width_able;
  bool operator==(const PciLinkState&) const = default;
};

// A PCI device or switch (its upstream port). Speed and width are those of its own uplink: the
// lower of both ends.
struct Pci {
  BusId bus_id;
  std::optional<uint32_t> device_class;  // 24 bits, e.g. 0x060400
  std::optional<uint32_t> vendor, device, subsystem_vendor, subsystem_device;  // 16 bits each
  std::optional<std::string> link_speed;  // as the kernel words it: "16.0 GT/s PCIe", "", "Unknown"
  std::optional<int> link_width;          // lanes; 0 and 255: unknown
  PciLinkState state;
  std::optional<Gpu> gpu;
  std::vector<Nic> nics;
  std::vector<Pci> children;
  std::vector<BusId> peers;  // <pcilink>: switches that are joined to this one
  Unknowns unknown, unknown_elements;
  Place at;
  bool operator==(const Pci&) const = default;
};

// A NUMA node.
struct Cpu {
  std::optional<int> numa;              // -1: the system does not say
  std::optional<std::string> affinity;  // words of hexadecimal digits, highest first
  std::optional<std::string> arch, vendor;
  std::optional<int> family, model;
  std::optional<uint64_t> host_hash;  // equal for the CPUs of one host
  std::vector<Pci> children;
  std::vector<Nic> nics;  // without a PCI device: virtual interfaces
  Unknowns unknown, unknown_elements;
  Place at;
  bool operator==(const Cpu&) const = default;
};

struct System {
  int version = 1;  // 1: NVIDIA's vocabulary, 2: AMD's
  std::vector<Cpu> cpus;
  Unknowns unknown, unknown_elements;
  Place at;
  bool operator==(const System&) const = default;
};

enum class Severity : uint8_t { note, warning };
// Something that the user should know: a default that was assumed, a value that cannot be right.
struct Finding {
  Severity severity = Severity::note;
  std::string what;    // one sentence without a full stop
  std::string where;   // file:line, a device, or empty
  std::string remedy;  // may be empty
  bool operator==(const Finding&) const = default;
};
const char* severity_name(Severity severity);

// Files and graphs beyond these are refused: no real machine is near them.
inline constexpr size_t kMaxFileBytes = size_t{16} << 20;
inline constexpr int kMaxDepth = 64;
inline constexpr int kMaxElements = 65536;
inline constexpr size_t kMaxAttributeBytes = 4096;
inline constexpr size_t kMaxFindings = 200;  // the last one then says how many more there are

}  // namespace collctl::topology
