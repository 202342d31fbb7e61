// NVLink that spans hosts, as one GPU is in it: memory of the GPUs of such a domain is passed
// between their hosts by name (fabric handle) and mapped as on one host. Plain values; made when a
// Device is opened, read where teams are formed.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace collctl::transport {

// The name of memory for other hosts (CUmemFabricHandle): opaque.
struct FabricName {
  uint8_t bytes[64];
};

// GPUs reach each other's memory where both are equal. `cluster` is never all zero.
struct FabricPlace {
  std::array<uint8_t, 16> cluster{};
  uint32_t clique = 0;
  bool operator==(const FabricPlace&) const = default;
};

class Device;
struct FoundFabric {
  std::optional<FabricPlace> place;
  std::string why_not;  // where there is none
};
// Whether memory of this GPU can be shared with other hosts: the driver says so, memory with such a
// name can be made, and NVML knows the domain. The device's context is the calling thread's.
FoundFabric find_fabric(const Device& device);

}  // namespace collctl::transport
