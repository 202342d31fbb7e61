// The cost of NET/IB beside a minimal loop of write-with-immediate over the same library (the
// fabric of tests/fake_verbs), in one process, by one thread that drives both ends in turn, so that
// neither scheduling nor sleeping is measured. Per message: the loop posts a write with immediate,
// polls it at the receiver, posts the next receive, and polls the sender's completion; the
// transport publishes a step, moves both ends until it has come, and frees it. No data is written
// or read by the blocks. One message at a time, and eight in flight; goal: 1.5 times the loop at 8
// B, 1.1 times at 1 MiB. Clear-to-send costs a message a quarter of a post, which the loop has
// not. Runs alternate; the best of each counts. That channels overlap and that no copy is made
// shows in tests/unit/transport/test_ib_posts.cc.
#include <infiniband/verbs.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>

#include "base/clock.h"
#include "tests/unit/transport/block.h"

using namespace collctl;
using namespace collctl::test;

namespace {

constexpr int kRuns = 61;
constexpr uint32_t kSlots = 8;

struct RawEnd {
  explicit RawEnd(uint32_t bytes) : size(size_t(bytes) * kSlots) {
    // Pages as the transport's slots have them, each touched.
    void* at = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    COLL_CHECK(at != MAP_FAILED);
    pages = base::Mapping(at, size);
    memory = static_cast<uint8_t*>(at);
    std::memset(memory, 1, size);
    ibv_device** list = ibv_get_device_list(nullptr);
    COLL_CHECK(list != nullptr && list[0] != nullptr);
    context = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    COLL_CHECK(context != nullptr);
    domain = ibv_alloc_pd(context);
    queue = ibv_create_cq(context, 64, nullptr, nullptr, 0);
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = queue;
    init.cap = {16, 16, 1, 1, 0};
    init.qp_type = IBV_QPT_RC;
    pair = ibv_create_qp(domain, &init);
    region = ibv_reg_mr(domain, memory, size, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    COLL_CHECK(pair != nullptr && region != nullptr);
  }
  ~RawEnd() {
    ibv_destroy_qp(pair);
    ibv_destroy_cq(queue);
    ibv_dereg_mr(region);
    ibv_dealloc_pd(domain);
    ibv_close_device(context);
  }
  void connect(const RawEnd& peer) {
    ibv_port_attr port{};
    COLL_CHECK(ibv_query_port(peer.context, 1, &port) == 0);
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
    COLL_CHECK(
        ibv_modify_qp(pair, &attr,
                      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0);
    attr = {};
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = port.active_mtu;
    attr.dest_qp_num = peer.pair->qp_num;
    attr.min_rnr_timer = 12;
    attr.ah_attr.dlid = port.lid;
    attr.ah_attr.port_num = 1;
    COLL_CHECK(ibv_modify_qp(pair, &attr,
                             IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                 IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                                 IBV_QP_MIN_RNR_TIMER) == 0);
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 18;
    attr.retry_cnt = attr.rnr_retry = 7;
    COLL_CHECK(ibv_modify_qp(pair, &attr,
                             IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                 IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0);
  }
  void post_receive() {
    ibv_recv_wr wr{}, *bad = nullptr;
    COLL_CHECK(ibv_post_recv(pair, &wr, &bad) == 0);
  }
  void wait_one() {
    ibv_wc wc{};
    int got = 0;
    while ((got = ibv_poll_cq(queue, 1, &wc)) == 0) {
    }
    COLL_CHECK(got == 1 && wc.status == IBV_WC_SUCCESS);
  }
  size_t size;
  base::Mapping pages;
  uint8_t* memory = nullptr;
  ibv_context* context = nullptr;
  ibv_pd* domain = nullptr;
  ibv_cq* queue = nullptr;
  ibv_qp* pair = nullptr;
  ibv_mr* region = nullptr;
};

class RawLoop {
 public:
  explicit RawLoop(uint32_t bytes) : bytes_(bytes), sender_(bytes), receiver_(bytes) {
    sender_.connect(receiver_);
    receiver_.connect(sender_);
    for (uint32_t i = 0; i < kSlots; ++i) receiver_.post_receive();
  }
  void send() {
    const uint64_t offset = uint64_t(next_++ % kSlots) * bytes_;
    ibv_sge sge{reinterpret_cast<uint64_t>(sender_.memory) + offset, bytes_, sender_.region->lkey};
    ibv_send_wr wr{}, *bad = nullptr;
    wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.wr.rdma.remote_addr = reinterpret_cast<uint64_t>(receiver_.memory) + offset;
    wr.wr.rdma.rkey = receiver_.region->rkey;
    COLL_CHECK(ibv_post_send(sender_.pair, &wr, &bad) == 0);
  }
  void take() {
    receiver_.wait_one();
    receiver_.post_receive();
    sender_.wait_one();
  }

 private:
  uint32_t bytes_, next_ = 0;
  RawEnd sender_, receiver_;
};

// Both ends of a link, wired by the rig but driven here alone: no engine has them.
class TransportLoop {
 public:
  TransportLoop(const RowSetting& setting, uint32_t bytes) : bytes_(bytes), rig_(setting) {
    rig_.set_geometry({std::max(bytes, 4096u), kSlots}, {0, 0});
    sender_end_ = std::move(rig_.row->open(rig_.sender_spec, rig_.sender.services).value());
    receiver_end_ = std::move(rig_.row->open(rig_.receiver_spec, rig_.receiver.services).value());
    const Bytes from_sender = sender_end_->describe(soon()).value();
    const Bytes from_receiver = receiver_end_->describe(soon()).value();
    out_ = std::move(sender_end_->connect(from_receiver, soon()).value());
    in_ = std::move(receiver_end_->connect(from_sender, soon()).value());
    Fifo& fifo = *out_->fifo(Protocol::simple);
    std::memset(fifo.slots, 1, size_t(fifo.slot_bytes) * fifo.slot_count);
  }
  void send() {
    Fifo& fifo = *out_->fifo(Protocol::simple);
    while (load64(fifo.head) + fifo.slot_count <= fifo.step) move();
    fifo.records[fifo.step % fifo.slot_count].bytes = bytes_;
    publish(fifo.tail, ++fifo.step, nullptr, -1);
  }
  void take() {
    Fifo& fifo = *in_->fifo(Protocol::simple);
    while (load64(fifo.tail) <= fifo.step) move();
    publish(fifo.head, ++fifo.step, nullptr, -1);
  }
  const std::string& via() const { return out_->via(); }

 private:
  void move() {
    COLL_CHECK(out_->progress());
    COLL_CHECK(in_->progress());
  }
  uint32_t bytes_;
  Rig rig_;
  std::unique_ptr<transport::Endpoint> sender_end_, receiver_end_;
  std::unique_ptr<Link> out_, in_;
};

// Nanoseconds a message, with so many in flight.
template <class Loop>
double measure(Loop& loop, int messages, int in_flight) {
  const int64_t start = base::now_ns();
  for (int i = 0; i < messages; i += in_flight) {
    for (int k = 0; k < in_flight; ++k) loop.send();
    for (int k = 0; k < in_flight; ++k) loop.take();
  }
  return double(base::now_ns() - start) / messages;
}

void compare(const RowSetting& setting, uint32_t bytes, int messages, int in_flight) {
  TransportLoop transport(setting, bytes);  // first: it brings the fabric
  RawLoop raw(bytes);
  double raw_ns = 1e18, transport_ns = 1e18;
  std::vector<double> ratios;
  for (int run = 0; run < kRuns; ++run) {
    const double raw_run = measure(raw, messages, in_flight);
    const double transport_run = measure(transport, messages, in_flight);
    raw_ns = std::min(raw_ns, raw_run);
    transport_ns = std::min(transport_ns, transport_run);
    ratios.push_back(transport_run / raw_run);
  }
  std::nth_element(ratios.begin(), ratios.begin() + kRuns / 2, ratios.end());
  std::printf("%-12s %9u %9d %12.0f %12.0f %12.2f %13.2f\n", transport.via().c_str(), bytes,
              in_flight, raw_ns, transport_ns, transport_ns / raw_ns, ratios[kRuns / 2]);
  std::fflush(stdout);
}

}  // namespace

int main() {
  std::printf("%-12s %9s %9s %12s %12s %12s %13s\n", "via", "bytes", "in flight", "loop ns",
              "NET/IB ns", "ratio: best", "ratio: median");
  RowSetting setting{.name = "net"};
  setting.fabric = "fake_0:ib";
  for (const int in_flight : {1, 8}) {
    compare(setting, 8, 1600, in_flight);
    compare(setting, 1 << 20, 16, in_flight);
  }
  return 0;
}
