// RDMA verbs: our own declarations of libibverbs' interface (rdma-core, IBVERBS_1.1, 64-bit; a test
// compares them with its header where that is installed). Loaded once. Functions that are inline in
// the library's header go through the context's table of operations (post_send and its kin, below).
// Threads: any. Calls return 0, or an errno; those that make something return null and set errno.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace collctl::base::drivers {

struct VerbsDevice;
struct VerbsDomain;  // ibv_pd

struct VerbsDeviceFacts {  // ibv_device_attr
  char firmware[64];
  uint64_t node_guid, system_guid;  // big endian
  uint64_t max_region_bytes, page_sizes;
  uint32_t vendor, part, hardware;
  int32_t max_qp, max_qp_work, capabilities, max_pieces, max_read_pieces, max_cq, max_cq_entries;
  int32_t max_regions, max_domains;
  int32_t max_reads_in, max_reads_ee, max_reads_all, max_reads_out;  // outstanding at once; of a QP
  int32_t more[16];
  uint16_t max_keys;
  uint8_t ack_delay, ports;
};
static_assert(sizeof(VerbsDeviceFacts) == 232 && offsetof(VerbsDeviceFacts, max_qp) == 108);

inline constexpr int32_t kPortActive = 4;
inline constexpr uint8_t kLinkInfiniBand = 1, kLinkEthernet = 2;  // 0 means InfiniBand as well

struct VerbsPortFacts {  // the part of ibv_port_attr that the library's own function fills in
  int32_t state;         // 4: active
  int32_t max_mtu, active_mtu, gids;  // MTUs as codes: 1 is 256 bytes, 5 is 4096
  uint32_t capabilities, max_message_bytes, bad_keys, key_violations;
  uint16_t keys, lid, manager_lid;
  uint8_t lid_mask, lanes_vl, manager_level, subnet_timeout, init_reply;
  uint8_t width, speed;  // codes of the InfiniBand standard
  uint8_t physical_state, link_layer, flags;
  uint16_t capabilities2;
  uint32_t later[8];  // newer libraries add to the end
};

// Mb/s of a port by the InfiniBand standard's codes (rdma-core, ibv_port_attr); 0: unknown.
int64_t port_mbps(const VerbsPortFacts& port);

struct VerbsGid {
  uint8_t raw[16];
  bool operator==(const VerbsGid&) const = default;
};
inline constexpr uint32_t kGidIb = 0, kGidRoceV1 = 1, kGidRoceV2 = 2;
struct VerbsGidEntry {  // ibv_gid_entry
  VerbsGid gid;
  uint32_t index, port, type, interface;
};
static_assert(sizeof(VerbsGidEntry) == 32);

struct VerbsContext;
struct VerbsSendWork;
struct VerbsRecvWork;
struct VerbsCompletion;

struct VerbsMemory {  // ibv_mr
  VerbsContext* context;
  VerbsDomain* domain;
  void* address;
  size_t bytes;
  uint32_t handle, lkey, rkey;
};
struct VerbsChannel {  // ibv_comp_channel
  VerbsContext* context;
  int32_t fd, references;
};
struct VerbsCq {  // the head of ibv_cq
  VerbsContext* context;
  VerbsChannel* channel;
  void* user;
  uint32_t handle;
  int32_t entries;
};
struct VerbsQp {  // the head of ibv_qp
  VerbsContext* context;
  void* user;
  VerbsDomain* domain;
  VerbsCq *send_cq, *recv_cq;
  void* shared_queue;
  uint32_t handle, number;
  int32_t state, type;
};

struct VerbsContext {  // the head of ibv_context
  VerbsDevice* device;
  void* before_poll[11];  // operations that the library exports as functions, or that we do not use
  int (*poll_cq)(VerbsCq*, int, VerbsCompletion*);
  int (*notify)(VerbsCq*, int solicited_only);
  void* before_post[12];
  int (*post_send)(VerbsQp*, VerbsSendWork*, VerbsSendWork** bad);
  int (*post_recv)(VerbsQp*, VerbsRecvWork*, VerbsRecvWork** bad);
  void* after_post[5];
  int32_t command_fd, async_fd, vectors;
};
static_assert(offsetof(VerbsContext, poll_cq) == 96 && offsetof(VerbsContext, post_send) == 208 &&
              offsetof(VerbsContext, async_fd) == 268);

struct VerbsPiece {  // ibv_sge
  uint64_t address;
  uint32_t bytes, lkey;
};
inline constexpr int32_t kOpWrite = 0, kOpWriteWithImmediate = 1, kOpRead = 4;
inline constexpr uint32_t kSendSignaled = 2, kSendInline = 8;
struct VerbsSendWork {  // ibv_send_wr, as RDMA operations use it
  uint64_t id;
  VerbsSendWork* next;
  VerbsPiece* pieces;
  int32_t piece_count, operation;
  uint32_t flags;
  uint32_t immediate;  // big endian
  uint64_t remote_address;
  uint32_t remote_key;
  uint8_t unused[76];
};
static_assert(sizeof(VerbsSendWork) == 128 && offsetof(VerbsSendWork, remote_address) == 40);
struct VerbsRecvWork {  // ibv_recv_wr
  uint64_t id;
  VerbsRecvWork* next;
  VerbsPiece* pieces;
  int32_t piece_count;
};

inline constexpr int32_t kWorkSuccess = 0, kWorkFlushed = 5, kWorkStatusCount = 24;
inline constexpr int32_t kDoneWrite = 1, kDoneRead = 2, kDoneRecvWithImmediate = 129;
struct VerbsCompletion {  // ibv_wc
  uint64_t id;
  int32_t status, operation;
  uint32_t vendor_error, bytes;
  uint32_t immediate;  // big endian
  uint32_t qp, source_qp, flags;
  uint16_t key_index, lid;
  uint8_t service_level, path_bits;
};
static_assert(sizeof(VerbsCompletion) == 48);

struct VerbsQueueSizes {  // ibv_qp_cap
  uint32_t send_work, recv_work, send_pieces, recv_pieces, inline_bytes;
};
inline constexpr int32_t kReliableConnection = 2;
struct VerbsQpWanted {  // ibv_qp_init_attr
  void* user;
  VerbsCq *send_cq, *recv_cq;
  void* shared_queue;
  VerbsQueueSizes sizes;
  int32_t type, signal_all;
};
static_assert(sizeof(VerbsQpWanted) == 64);

struct VerbsRoute {  // ibv_ah_attr
  VerbsGid gid;
  uint32_t flow_label;
  uint8_t gid_index, hop_limit, traffic_class;
  uint16_t lid;
  uint8_t service_level, path_bits, rate, is_global, port;
};
static_assert(sizeof(VerbsRoute) == 32 && offsetof(VerbsRoute, lid) == 24);

inline constexpr int32_t kQpInit = 1, kQpReadyToReceive = 2, kQpReadyToSend = 3, kQpError = 6;
struct VerbsQpFacts {  // ibv_qp_attr
  int32_t state, current, path_mtu, migration;
  uint32_t qkey, receive_psn, send_psn, peer_qp, access;
  VerbsQueueSizes sizes;
  alignas(8) VerbsRoute route, other_route;
  uint16_t key_index, other_key_index;
  uint8_t notify_drained, draining, reads_out, reads_in, rnr_timer, port, timeout, retries,
      rnr_retries, other_port, other_timeout;
  uint32_t rate_limit;
};
static_assert(sizeof(VerbsQpFacts) == 144 && offsetof(VerbsQpFacts, route) == 56 &&
              offsetof(VerbsQpFacts, rate_limit) == 136);
// Which of its fields a change of state uses (ibv_qp_attr_mask).
inline constexpr int kQpState = 1, kQpAccess = 1 << 3, kQpKeyIndex = 1 << 4, kQpPort = 1 << 5,
                     kQpRoute = 1 << 7, kQpPathMtu = 1 << 8, kQpTimeout = 1 << 9,
                     kQpRetries = 1 << 10, kQpRnrRetries = 1 << 11, kQpReceivePsn = 1 << 12,
                     kQpReadsOut = 1 << 13, kQpRnrTimer = 1 << 15, kQpSendPsn = 1 << 16,
                     kQpReadsIn = 1 << 17, kQpPeer = 1 << 20;

inline constexpr int kLocalWrite = 1, kRemoteWrite = 2, kRemoteRead = 4,
                     kRelaxedOrdering = 1 << 20;  // access to memory

struct VerbsEvent {  // ibv_async_event
  union {
    VerbsQp* qp;
    VerbsCq* cq;
    int32_t port;
  };
  int32_t type;
};
static_assert(sizeof(VerbsEvent) == 16);
inline constexpr int32_t kEventCqError = 0, kEventQpFatal = 1, kEventQpRequest = 2,
                         kEventQpAccess = 3, kEventDeviceFatal = 8, kEventPortActive = 9,
                         kEventPortError = 10, kEventLid = 11, kEventKeys = 12, kEventManager = 13,
                         kEventLastWork = 16, kEventReregister = 17, kEventGids = 18;

struct Verbs {
  // Functions for the topology.
  VerbsDevice** (*device_list)(int*) = nullptr;
  void (*free_list)(VerbsDevice**) = nullptr;
  const char* (*name)(VerbsDevice*) = nullptr;
  VerbsContext* (*open)(VerbsDevice*) = nullptr;
  int (*close)(VerbsContext*) = nullptr;
  int (*device_facts)(VerbsContext*, VerbsDeviceFacts*) = nullptr;
  int (*port_facts)(VerbsContext*, uint8_t, VerbsPortFacts*) = nullptr;
  std::string missing;  // why the functions above cannot be used; empty when they can

  // Functions that NET/IB needs as well; usable when `transfer_missing` is empty.
  int (*fork_init)() = nullptr;
  int (*query_gid)(VerbsContext*, uint8_t port, int index, VerbsGid*) = nullptr;
  VerbsDomain* (*alloc_domain)(VerbsContext*) = nullptr;
  int (*free_domain)(VerbsDomain*) = nullptr;
  VerbsMemory* (*register_memory)(VerbsDomain*, void*, size_t, int access) = nullptr;
  int (*deregister)(VerbsMemory*) = nullptr;
  VerbsChannel* (*make_channel)(VerbsContext*) = nullptr;
  int (*destroy_channel)(VerbsChannel*) = nullptr;
  VerbsCq* (*make_cq)(VerbsContext*, int entries, void* user, VerbsChannel*, int vector) = nullptr;
  int (*destroy_cq)(VerbsCq*) = nullptr;
  int (*get_cq_event)(VerbsChannel*, VerbsCq**, void** user) = nullptr;
  void (*ack_cq_events)(VerbsCq*, unsigned) = nullptr;
  VerbsQp* (*make_qp)(VerbsDomain*, VerbsQpWanted*) = nullptr;
  int (*modify_qp)(VerbsQp*, VerbsQpFacts*, int mask) = nullptr;
  int (*destroy_qp)(VerbsQp*) = nullptr;
  int (*get_event)(VerbsContext*, VerbsEvent*) = nullptr;
  void (*ack_event)(VerbsEvent*) = nullptr;
  std::string transfer_missing;

  // Null in older libraries.
  int (*query_gid_entry)(VerbsContext*, uint32_t port, uint32_t index, VerbsGidEntry*,
                         uint32_t flags, size_t entry_bytes) = nullptr;
  VerbsMemory* (*register_memory_at)(VerbsDomain*, void*, size_t, uint64_t iova,
                                     unsigned access) = nullptr;
  VerbsMemory* (*register_dmabuf)(VerbsDomain*, uint64_t offset, size_t, uint64_t iova, int fd,
                                  int access) = nullptr;
};
const Verbs& verbs();

}  // namespace collctl::base::drivers
