// PeerInfo: what every rank tells every other at start-up. Plain and of fixed size: it travels in
// one all-gather. Made by the runtime; transports read it to decide whether they can reach a peer.
#pragma once
#include <sys/socket.h>

#include <cstdint>

#include "base/peer_memory.h"

namespace collctl::transport {

enum class DeviceKind : uint8_t { cpu, cuda };

// Bits of PeerInfo::nets. Sockets work wherever there is an address, unless the user excludes
// them; the plugin's name as the network excludes both sockets and IB.
inline constexpr uint8_t kNetInfiniBand = 1, kNetRoce = 2, kNetNoSocket = 4, kNetPlugin = 8,
                         kNetOnlyPlugin = 16, kNetCollNet = 32;

struct PeerInfo {
  int32_t rank;
  int32_t pid;
  uint64_t host_hash;
  uint64_t process_hash;
  uint64_t network_namespace;
  uint64_t machine_hash;       // as it booted, whatever host it claims to be; 0: unknown
  uint64_t shm_device;         // st_dev of /dev/shm; 0: none
  uint64_t shm_free_bytes;     // of /dev/shm at start
  uint64_t device_memory;      // bytes; physical memory for CPU ranks
  uint64_t settings_hash;      // of the knobs that must agree on all ranks
  int64_t bus_id;              // PCI bus id of the GPU, -1 for CPU ranks
  int32_t compute_capability;  // 90 for sm_90; 0 for CPU ranks
  int32_t device;              // index of the GPU, or local index of the CPU rank
  DeviceKind kind;
  uint8_t gdr;
  uint8_t nets;  // that this rank has besides sockets
  uint8_t reserved;
  uint32_t net_address_length;
  sockaddr_storage
      net_address;  // where this rank's AuthListener for NET/Socket accepts; family 0: nowhere
  uint8_t device_uuid[16];  // of the GPU, or of its MIG instance; zero: unknown
  // The NVLink domain over several hosts whose GPUs map this one's memory; zero: none.
  uint8_t fabric_cluster[16];
  uint32_t fabric_clique;
  uint32_t memory_group;  // ranks of a host with one share a limit of memory; 0: there is none
  base::MemoryMark
      mark;         // for ranks of its host, which may read its memory; address 0: not asked for
  int32_t host_id;  // HostId: in the job's list, else by the order of ranks
  char host[256];   // its name, for people
  char version[32];
};
static_assert(sizeof(PeerInfo) == 576);

}  // namespace collctl::transport
