#include "tests/unit/fake_verbs/side.h"

namespace fake_verbs_test {

Fabric::Fabric(const fake_verbs::Setup& setup) {
  REQUIRE(fake_verbs::set_up(setup) == "");
}

Fabric::~Fabric() {
  CHECK(fake_verbs::counts().text() == fake_verbs::Counts{}.text());
  if (misuse_expected) return;
  const auto misuse = fake_verbs::violations();
  CHECK(misuse == std::vector<std::string>{});
}

ibv_context* open_device(const std::string& name) {
  ibv_device** list = ibv_get_device_list(nullptr);
  ibv_context* context = nullptr;
  for (ibv_device** at = list; *at != nullptr; ++at)
    if (name == ibv_get_device_name(*at)) context = ibv_open_device(*at);
  ibv_free_device_list(list);
  return context;
}

Side::Side(const Options& o) : options(o), memory(o.bytes) {
  context = open_device(o.device);
  REQUIRE(context != nullptr);
  pd = ibv_alloc_pd(context);
  REQUIRE(pd != nullptr);
  if (o.channel) channel = ibv_create_comp_channel(context);
  cq = ibv_create_cq(context, o.queue_depth, this, channel, 0);
  REQUIRE(cq != nullptr);
  ibv_qp_init_attr init{};
  init.qp_context = this;
  init.send_cq = init.recv_cq = cq;
  init.cap = {o.send_depth, o.receive_depth, o.pieces, o.pieces, o.inline_bytes};
  init.qp_type = IBV_QPT_RC;
  init.sq_sig_all = o.all_signaled ? 1 : 0;
  qp = ibv_create_qp(pd, &init);
  REQUIRE(qp != nullptr);
  mr = ibv_reg_mr(pd, memory.data(), memory.size(), o.access);
  REQUIRE(mr != nullptr);
}

Side::~Side() {
  CHECK(ibv_destroy_qp(qp) == 0);
  CHECK(ibv_destroy_cq(cq) == 0);
  if (channel != nullptr) CHECK(ibv_destroy_comp_channel(channel) == 0);
  CHECK(ibv_dereg_mr(mr) == 0);
  CHECK(ibv_dealloc_pd(pd) == 0);
  CHECK(ibv_close_device(context) == 0);
}

Address Side::address() const {
  ibv_port_attr port{};
  REQUIRE(ibv_query_port(context, uint8_t(options.port), &port) == 0);
  Address out{};
  out.number = qp->qp_num;
  out.remote_key = mr->rkey;
  out.memory = reinterpret_cast<uint64_t>(memory.data());
  out.lid = port.lid;
  out.mtu = port.active_mtu;
  out.roce = port.link_layer == IBV_LINK_LAYER_ETHERNET;
  const int index = options.gid_index >= 0 ? options.gid_index : out.roce ? 3 : 0;
  REQUIRE(ibv_query_gid(context, uint8_t(options.port), index, &out.gid) == 0);
  return out;
}

ibv_qp_attr Side::init_attr() const {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = uint8_t(options.port);
  attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  return attr;
}

ibv_qp_attr Side::rtr_attr(const Address& peer) const {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = std::min(peer.mtu, address().mtu);
  attr.dest_qp_num = peer.number;
  attr.max_dest_rd_atomic = 1;
  attr.min_rnr_timer = 1;  // 10 us
  attr.ah_attr.port_num = uint8_t(options.port);
  attr.ah_attr.dlid = peer.lid;
  if (peer.roce || options.gid_index >= 0) {
    attr.ah_attr.is_global = 1;
    attr.ah_attr.grh.dgid = peer.gid;
    attr.ah_attr.grh.sgid_index = uint8_t(options.gid_index >= 0 ? options.gid_index : 3);
    attr.ah_attr.grh.hop_limit = 255;
  }
  return attr;
}

ibv_qp_attr Side::rts_attr() const {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTS;
  attr.timeout = 10;  // 4.2 ms
  attr.retry_cnt = 3;
  attr.rnr_retry = 3;
  attr.max_rd_atomic = 1;
  return attr;
}

int Side::connect(const Address& peer, const std::function<void(ibv_qp_attr&)>& change) {
  ibv_qp_attr steps[] = {init_attr(), rtr_attr(peer), rts_attr()};
  const int masks[] = {kInit, kRtr, kRts};
  for (int i = 0; i < 3; ++i) {
    if (change) change(steps[i]);
    if (const int error = ibv_modify_qp(qp, &steps[i], masks[i])) return error;
  }
  return 0;
}

ibv_sge Side::piece(size_t offset, size_t bytes) const {
  return {reinterpret_cast<uint64_t>(memory.data()) + offset, uint32_t(bytes), mr->lkey};
}

int Side::send(ibv_wr_opcode opcode, const Address& to, size_t offset, size_t bytes, uint64_t id,
               unsigned flags, uint32_t immediate) {
  ibv_sge sge = piece(offset, bytes);
  ibv_send_wr wr{}, *bad = nullptr;
  wr.wr_id = id;
  wr.opcode = opcode;
  wr.send_flags = flags;
  wr.sg_list = &sge;
  wr.num_sge = bytes > 0 ? 1 : 0;
  wr.imm_data = immediate;
  wr.wr.rdma.remote_addr = to.memory + offset;
  wr.wr.rdma.rkey = to.remote_key;
  return ibv_post_send(qp, &wr, &bad);
}

int Side::receive(uint64_t id, size_t offset, size_t bytes) {
  ibv_sge sge = piece(offset, bytes);
  ibv_recv_wr wr{}, *bad = nullptr;
  wr.wr_id = id;
  wr.sg_list = &sge;
  wr.num_sge = bytes > 0 ? 1 : 0;
  return ibv_post_recv(qp, &wr, &bad);
}

std::vector<ibv_wc> Side::poll(int count, int ms) {
  std::vector<ibv_wc> out;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(ms);
  while (int(out.size()) < count) {
    ibv_wc wc{};
    const int n = ibv_poll_cq(cq, 1, &wc);
    REQUIRE(n >= 0);
    if (n == 1)
      out.push_back(wc);
    else if (std::chrono::steady_clock::now() > deadline)
      break;
    else
      std::this_thread::yield();
  }
  return out;
}

ibv_wc Side::one(int ms) {
  const auto got = poll(1, ms);
  REQUIRE(got.size() == 1);
  return got[0];
}

bool Side::silent(int ms) {
  return poll(1, ms).empty();
}

Two::Two(const Options& a_options, const Options& b_options,
         const std::function<void(ibv_qp_attr&)>& change)
    : a(a_options), b(b_options) {
  REQUIRE(a.connect(b.address(), change) == 0);
  REQUIRE(b.connect(a.address(), change) == 0);
}

}  // namespace fake_verbs_test
