// Our declarations of libibverbs against its header, where that is installed.
#include "base/drivers/verbs.h"
#include "tests/catch.h"

#ifdef COLLCTL_HAVE_VERBS_HEADER
#include <infiniband/verbs.h>

namespace verbs_header_tests {

using namespace collctl::base::drivers;

namespace {

// A field of ours, and where it lies in the library's structure.
struct Field {
  const char* name;
  size_t ours, theirs;
};
#define FIELD(ours, member, theirs, field) \
  { #ours "." #member " = " #theirs "." #field, offsetof(ours, member), offsetof(theirs, field) }
constexpr Field kFields[] = {
    FIELD(VerbsDeviceFacts, system_guid, ibv_device_attr, sys_image_guid),
    FIELD(VerbsDeviceFacts, max_qp, ibv_device_attr, max_qp),
    FIELD(VerbsDeviceFacts, max_qp_work, ibv_device_attr, max_qp_wr),
    FIELD(VerbsDeviceFacts, max_pieces, ibv_device_attr, max_sge),
    FIELD(VerbsDeviceFacts, max_cq_entries, ibv_device_attr, max_cqe),
    FIELD(VerbsDeviceFacts, max_reads_in, ibv_device_attr, max_qp_rd_atom),
    FIELD(VerbsDeviceFacts, max_reads_out, ibv_device_attr, max_qp_init_rd_atom),
    FIELD(VerbsDeviceFacts, max_keys, ibv_device_attr, max_pkeys),
    FIELD(VerbsDeviceFacts, ports, ibv_device_attr, phys_port_cnt),
    FIELD(VerbsPortFacts, active_mtu, ibv_port_attr, active_mtu),
    FIELD(VerbsPortFacts, gids, ibv_port_attr, gid_tbl_len),
    FIELD(VerbsPortFacts, max_message_bytes, ibv_port_attr, max_msg_sz),
    FIELD(VerbsPortFacts, keys, ibv_port_attr, pkey_tbl_len),
    FIELD(VerbsPortFacts, lid, ibv_port_attr, lid),
    FIELD(VerbsPortFacts, width, ibv_port_attr, active_width),
    FIELD(VerbsPortFacts, speed, ibv_port_attr, active_speed),
    FIELD(VerbsPortFacts, link_layer, ibv_port_attr, link_layer),
    FIELD(VerbsGidEntry, type, ibv_gid_entry, gid_type),
    FIELD(VerbsGidEntry, interface, ibv_gid_entry, ndev_ifindex),
    FIELD(VerbsMemory, lkey, ibv_mr, lkey),
    FIELD(VerbsMemory, rkey, ibv_mr, rkey),
    FIELD(VerbsChannel, fd, ibv_comp_channel, fd),
    FIELD(VerbsCq, channel, ibv_cq, channel),
    FIELD(VerbsCq, entries, ibv_cq, cqe),
    FIELD(VerbsQp, send_cq, ibv_qp, send_cq),
    FIELD(VerbsQp, number, ibv_qp, qp_num),
    FIELD(VerbsQp, type, ibv_qp, qp_type),
    FIELD(VerbsContext, poll_cq, ibv_context, ops.poll_cq),
    FIELD(VerbsContext, notify, ibv_context, ops.req_notify_cq),
    FIELD(VerbsContext, post_send, ibv_context, ops.post_send),
    FIELD(VerbsContext, post_recv, ibv_context, ops.post_recv),
    FIELD(VerbsContext, async_fd, ibv_context, async_fd),
    FIELD(VerbsContext, vectors, ibv_context, num_comp_vectors),
    FIELD(VerbsPiece, lkey, ibv_sge, lkey),
    FIELD(VerbsSendWork, operation, ibv_send_wr, opcode),
    FIELD(VerbsSendWork, flags, ibv_send_wr, send_flags),
    FIELD(VerbsSendWork, immediate, ibv_send_wr, imm_data),
    FIELD(VerbsSendWork, remote_address, ibv_send_wr, wr.rdma.remote_addr),
    FIELD(VerbsSendWork, remote_key, ibv_send_wr, wr.rdma.rkey),
    FIELD(VerbsRecvWork, piece_count, ibv_recv_wr, num_sge),
    FIELD(VerbsCompletion, status, ibv_wc, status),
    FIELD(VerbsCompletion, vendor_error, ibv_wc, vendor_err),
    FIELD(VerbsCompletion, bytes, ibv_wc, byte_len),
    FIELD(VerbsCompletion, immediate, ibv_wc, imm_data),
    FIELD(VerbsCompletion, qp, ibv_wc, qp_num),
    FIELD(VerbsQpWanted, sizes, ibv_qp_init_attr, cap),
    FIELD(VerbsQpWanted, type, ibv_qp_init_attr, qp_type),
    FIELD(VerbsRoute, gid_index, ibv_ah_attr, grh.sgid_index),
    FIELD(VerbsRoute, hop_limit, ibv_ah_attr, grh.hop_limit),
    FIELD(VerbsRoute, traffic_class, ibv_ah_attr, grh.traffic_class),
    FIELD(VerbsRoute, lid, ibv_ah_attr, dlid),
    FIELD(VerbsRoute, service_level, ibv_ah_attr, sl),
    FIELD(VerbsRoute, is_global, ibv_ah_attr, is_global),
    FIELD(VerbsRoute, port, ibv_ah_attr, port_num),
    FIELD(VerbsQpFacts, path_mtu, ibv_qp_attr, path_mtu),
    FIELD(VerbsQpFacts, receive_psn, ibv_qp_attr, rq_psn),
    FIELD(VerbsQpFacts, send_psn, ibv_qp_attr, sq_psn),
    FIELD(VerbsQpFacts, peer_qp, ibv_qp_attr, dest_qp_num),
    FIELD(VerbsQpFacts, access, ibv_qp_attr, qp_access_flags),
    FIELD(VerbsQpFacts, sizes, ibv_qp_attr, cap),
    FIELD(VerbsQpFacts, route, ibv_qp_attr, ah_attr),
    FIELD(VerbsQpFacts, key_index, ibv_qp_attr, pkey_index),
    FIELD(VerbsQpFacts, reads_out, ibv_qp_attr, max_rd_atomic),
    FIELD(VerbsQpFacts, reads_in, ibv_qp_attr, max_dest_rd_atomic),
    FIELD(VerbsQpFacts, rnr_timer, ibv_qp_attr, min_rnr_timer),
    FIELD(VerbsQpFacts, port, ibv_qp_attr, port_num),
    FIELD(VerbsQpFacts, timeout, ibv_qp_attr, timeout),
    FIELD(VerbsQpFacts, retries, ibv_qp_attr, retry_cnt),
    FIELD(VerbsQpFacts, rnr_retries, ibv_qp_attr, rnr_retry),
    FIELD(VerbsEvent, type, ibv_async_event, event_type),
};

// Structures of the library are as large as ours; what it fills in itself may be smaller.
#define SIZE(ours, theirs) \
  { #ours " = " #theirs, sizeof(ours), sizeof(theirs) }
constexpr Field kSizes[] = {
    SIZE(VerbsDeviceFacts, ibv_device_attr), SIZE(VerbsGid, ibv_gid),
    SIZE(VerbsGidEntry, ibv_gid_entry),      SIZE(VerbsMemory, ibv_mr),
    SIZE(VerbsChannel, ibv_comp_channel),    SIZE(VerbsPiece, ibv_sge),
    SIZE(VerbsSendWork, ibv_send_wr),        SIZE(VerbsRecvWork, ibv_recv_wr),
    SIZE(VerbsCompletion, ibv_wc),           SIZE(VerbsQpWanted, ibv_qp_init_attr),
    SIZE(VerbsRoute, ibv_ah_attr),           SIZE(VerbsQpFacts, ibv_qp_attr),
    SIZE(VerbsEvent, ibv_async_event),
};
static_assert(sizeof(VerbsPortFacts) >= sizeof(ibv_port_attr));

struct Constant {
  const char* name;
  int64_t ours, theirs;
};
#define CONSTANT(ours, theirs) \
  { #ours " = " #theirs, int64_t(ours), int64_t(theirs) }
constexpr Constant kConstants[] = {
    CONSTANT(kPortActive, IBV_PORT_ACTIVE),
    CONSTANT(kLinkInfiniBand, IBV_LINK_LAYER_INFINIBAND),
    CONSTANT(kLinkEthernet, IBV_LINK_LAYER_ETHERNET),
    CONSTANT(kGidIb, IBV_GID_TYPE_IB),
    CONSTANT(kGidRoceV1, IBV_GID_TYPE_ROCE_V1),
    CONSTANT(kGidRoceV2, IBV_GID_TYPE_ROCE_V2),
    CONSTANT(kOpWrite, IBV_WR_RDMA_WRITE),
    CONSTANT(kOpWriteWithImmediate, IBV_WR_RDMA_WRITE_WITH_IMM),
    CONSTANT(kOpRead, IBV_WR_RDMA_READ),
    CONSTANT(kSendSignaled, IBV_SEND_SIGNALED),
    CONSTANT(kSendInline, IBV_SEND_INLINE),
    CONSTANT(kWorkSuccess, IBV_WC_SUCCESS),
    CONSTANT(kWorkFlushed, IBV_WC_WR_FLUSH_ERR),
    CONSTANT(kWorkStatusCount, IBV_WC_TM_RNDV_INCOMPLETE + 1),
    CONSTANT(kDoneWrite, IBV_WC_RDMA_WRITE),
    CONSTANT(kDoneRead, IBV_WC_RDMA_READ),
    CONSTANT(kDoneRecvWithImmediate, IBV_WC_RECV_RDMA_WITH_IMM),
    CONSTANT(kReliableConnection, IBV_QPT_RC),
    CONSTANT(kQpInit, IBV_QPS_INIT),
    CONSTANT(kQpReadyToReceive, IBV_QPS_RTR),
    CONSTANT(kQpReadyToSend, IBV_QPS_RTS),
    CONSTANT(kQpError, IBV_QPS_ERR),
    CONSTANT(kQpState, IBV_QP_STATE),
    CONSTANT(kQpAccess, IBV_QP_ACCESS_FLAGS),
    CONSTANT(kQpKeyIndex, IBV_QP_PKEY_INDEX),
    CONSTANT(kQpPort, IBV_QP_PORT),
    CONSTANT(kQpRoute, IBV_QP_AV),
    CONSTANT(kQpPathMtu, IBV_QP_PATH_MTU),
    CONSTANT(kQpTimeout, IBV_QP_TIMEOUT),
    CONSTANT(kQpRetries, IBV_QP_RETRY_CNT),
    CONSTANT(kQpRnrRetries, IBV_QP_RNR_RETRY),
    CONSTANT(kQpReceivePsn, IBV_QP_RQ_PSN),
    CONSTANT(kQpReadsOut, IBV_QP_MAX_QP_RD_ATOMIC),
    CONSTANT(kQpRnrTimer, IBV_QP_MIN_RNR_TIMER),
    CONSTANT(kQpSendPsn, IBV_QP_SQ_PSN),
    CONSTANT(kQpReadsIn, IBV_QP_MAX_DEST_RD_ATOMIC),
    CONSTANT(kQpPeer, IBV_QP_DEST_QPN),
    CONSTANT(kLocalWrite, IBV_ACCESS_LOCAL_WRITE),
    CONSTANT(kRemoteWrite, IBV_ACCESS_REMOTE_WRITE),
    CONSTANT(kRemoteRead, IBV_ACCESS_REMOTE_READ),
    CONSTANT(kRelaxedOrdering, IBV_ACCESS_RELAXED_ORDERING),
    CONSTANT(kEventCqError, IBV_EVENT_CQ_ERR),
    CONSTANT(kEventQpFatal, IBV_EVENT_QP_FATAL),
    CONSTANT(kEventQpRequest, IBV_EVENT_QP_REQ_ERR),
    CONSTANT(kEventQpAccess, IBV_EVENT_QP_ACCESS_ERR),
    CONSTANT(kEventDeviceFatal, IBV_EVENT_DEVICE_FATAL),
    CONSTANT(kEventPortActive, IBV_EVENT_PORT_ACTIVE),
    CONSTANT(kEventPortError, IBV_EVENT_PORT_ERR),
    CONSTANT(kEventLid, IBV_EVENT_LID_CHANGE),
    CONSTANT(kEventKeys, IBV_EVENT_PKEY_CHANGE),
    CONSTANT(kEventManager, IBV_EVENT_SM_CHANGE),
    CONSTANT(kEventLastWork, IBV_EVENT_QP_LAST_WQE_REACHED),
    CONSTANT(kEventReregister, IBV_EVENT_CLIENT_REREGISTER),
    CONSTANT(kEventGids, IBV_EVENT_GID_CHANGE),
};

}  // namespace

// The functions, as far as their types can be told apart.
static_assert(
    std::is_same_v<decltype(&ibv_query_gid), int (*)(ibv_context*, uint8_t, int, ibv_gid*)>);
static_assert(std::is_same_v<decltype(&ibv_reg_dmabuf_mr),
                             ibv_mr* (*)(ibv_pd*, uint64_t, size_t, uint64_t, int, int)>);
static_assert(std::is_same_v<decltype(&ibv_reg_mr_iova2),
                             ibv_mr* (*)(ibv_pd*, void*, size_t, uint64_t, unsigned)>);
static_assert(std::is_same_v<decltype(&ibv_create_cq),
                             ibv_cq* (*)(ibv_context*, int, void*, ibv_comp_channel*, int)>);
static_assert(
    std::is_same_v<decltype(&_ibv_query_gid_ex),
                   int (*)(ibv_context*, uint32_t, uint32_t, ibv_gid_entry*, uint32_t, size_t)>);

TEST_CASE("our declarations of libibverbs are those of its header") {
  const auto compare = [](const auto& rows) {
    for (const auto& row : rows) {
      INFO(row.name);
      CHECK(row.ours == row.theirs);
    }
  };
  compare(kFields);
  compare(kSizes);
  compare(kConstants);
}

TEST_CASE("the verbs library of this machine has what NET/IB calls") {
  CHECK(verbs().missing == "");
  CHECK(verbs().transfer_missing == "");
}

}  // namespace verbs_header_tests

#endif
