// One end of a connection for the tests of the stand-in: a device, a domain, queues, a queue pair
// and a piece of memory. Connects to another end with attributes that a test can change first.
#pragma once
#include <infiniband/verbs.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/catch.h"
#include "tests/fake_verbs/control.h"

namespace fake_verbs_test {

// A fabric of its own for a test; at the end everything was given back and nothing was misused.
struct Fabric {
  explicit Fabric(const fake_verbs::Setup& setup = {});
  ~Fabric();
  bool misuse_expected = false;
};

struct Options {
  std::string device = "fake_0";
  int port = 1;
  int gid_index = -1;  // -1: no global address on IB, entry 3 (RoCE v2, IPv4) on RoCE
  uint32_t send_depth = 16, receive_depth = 16, pieces = 2, inline_bytes = 64;
  int queue_depth = 64;
  size_t bytes = 1 << 16;
  int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  bool channel = false, all_signaled = false;
};

// The address that the other end has to know.
struct Address {
  uint32_t number, remote_key;
  uint64_t memory;
  uint16_t lid;
  ibv_gid gid;
  ibv_mtu mtu;
  bool roce;
};

struct Side {
  explicit Side(const Options& options = {});
  ~Side();
  Side(const Side&) = delete;

  Address address() const;
  // The attributes of the three steps as they are usually given.
  ibv_qp_attr init_attr() const;
  ibv_qp_attr rtr_attr(const Address& peer) const;
  ibv_qp_attr rts_attr() const;
  static constexpr int kInit = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
  static constexpr int kRtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                              IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  static constexpr int kRts = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                              IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
  // To RTS; `change` may alter the attributes of any step.
  int connect(const Address& peer, const std::function<void(ibv_qp_attr&)>& change = {});

  // One request over [offset, offset + bytes) of the memory.
  ibv_sge piece(size_t offset, size_t bytes) const;
  int send(ibv_wr_opcode opcode, const Address& to, size_t offset, size_t bytes, uint64_t id = 1,
           unsigned flags = IBV_SEND_SIGNALED, uint32_t immediate = 0);
  int receive(uint64_t id, size_t offset = 0, size_t bytes = 0);
  // Completions, waiting at most so long.
  std::vector<ibv_wc> poll(int count, int ms = 30000);
  ibv_wc one(int ms = 30000);  // fails the test when none comes
  bool silent(int ms = 20);    // none comes

  Options options;
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_comp_channel* channel = nullptr;
  ibv_cq* cq = nullptr;
  ibv_qp* qp = nullptr;
  ibv_mr* mr = nullptr;
  std::vector<uint8_t> memory;
};

// Two ends, connected to each other.
struct Two {
  explicit Two(const Options& a_options = {}, const Options& b_options = {},
               const std::function<void(ibv_qp_attr&)>& change = {});
  Side a, b;
};

ibv_context* open_device(const std::string& name);

}  // namespace fake_verbs_test
