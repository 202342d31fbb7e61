// RDMA verbs, as far as the topology needs them: our own declarations of libibverbs' interface
// (rdma-core, IBVERBS_1.1; a test compares them with its header where that is installed). Loaded
// once. Threads: any.
#pragma once
#include <cstdint>
#include <string>

namespace collctl::base::drivers {

struct VerbsDevice;
struct VerbsContext;

struct VerbsDeviceFacts {  // ibv_device_attr
  char firmware[64];
  uint64_t node_guid, system_guid;  // big endian
  uint64_t max_region_bytes, page_sizes;
  uint32_t vendor, part, hardware;
  int32_t max_qp;
  int32_t more[28];
  uint16_t max_keys;
  uint8_t ack_delay, ports;
};
static_assert(sizeof(VerbsDeviceFacts) == 232);

struct VerbsPortFacts {  // the part of ibv_port_attr that the library's own function fills in
  int32_t state;         // 4: active
  int32_t max_mtu, active_mtu, gids;
  uint32_t capabilities, max_message_bytes, bad_keys, key_violations;
  uint16_t keys, lid, manager_lid;
  uint8_t lid_mask, lanes_vl, manager_level, subnet_timeout, init_reply;
  uint8_t width, speed;  // codes of the InfiniBand standard
  uint8_t physical_state, link_layer, flags;
  uint16_t capabilities2;
  uint32_t later[8];  // newer libraries add to the end
};

struct Verbs {
  VerbsDevice** (*device_list)(int*) = nullptr;
  void (*free_list)(VerbsDevice**) = nullptr;
  const char* (*name)(VerbsDevice*) = nullptr;
  VerbsContext* (*open)(VerbsDevice*) = nullptr;
  int (*close)(VerbsContext*) = nullptr;
  int (*device_facts)(VerbsContext*, VerbsDeviceFacts*) = nullptr;
  int (*port_facts)(VerbsContext*, uint8_t, VerbsPortFacts*) = nullptr;
  std::string missing;  // why the table cannot be used; empty when it can
};
const Verbs& verbs();

}  // namespace collctl::base::drivers
