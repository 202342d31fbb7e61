// Memory of GPUs, with the fake driver: how it can be registered, and that what is written there is
// not seen before it was flushed.
#include <unistd.h>

#include "tests/fake_drivers/cuda_control.h"
#include "tests/unit/fake_verbs/side.h"

namespace gpu_memory_tests {

using namespace fake_verbs_test;

extern "C" {
int cuInit(unsigned);
int cuDevicePrimaryCtxRetain(void**, int);
int cuDevicePrimaryCtxRelease_v2(int);
int cuDeviceGet(int*, int);
int cuCtxSetCurrent(void*);
int cuMemAlloc_v2(unsigned long long*, size_t);
int cuMemFree_v2(unsigned long long);
int cuMemGetHandleForAddressRange(void*, unsigned long long, size_t, int, unsigned long long);
}

namespace {

constexpr size_t kBytes = 1 << 16;
constexpr int kRights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

struct GpuBlock {
  GpuBlock() {
    fake_cuda::set_up({.devices = 2});
    void* context = nullptr;
    REQUIRE(cuInit(0) == 0);
    REQUIRE(cuDeviceGet(&device, 1) == 0);
    REQUIRE(cuDevicePrimaryCtxRetain(&context, device) == 0);
    REQUIRE(cuCtxSetCurrent(context) == 0);
    REQUIRE(cuMemAlloc_v2(&at, kBytes) == 0);
  }
  ~GpuBlock() {
    cuMemFree_v2(at);
    cuCtxSetCurrent(nullptr);
    cuDevicePrimaryCtxRelease_v2(device);
  }
  int dmabuf() const {
    int fd = -1;
    REQUIRE(cuMemGetHandleForAddressRange(&fd, at, kBytes, 1, 0) == 0);
    return fd;
  }
  uint8_t byte(size_t i) const {
    return __atomic_load_n(reinterpret_cast<uint8_t*>(at) + i, __ATOMIC_ACQUIRE);
  }
  int device = 0;
  unsigned long long at = 0;
};

ibv_mr* register_dmabuf(Side& side, const GpuBlock& block) {
  const int fd = block.dmabuf();
  ibv_mr* mr = ibv_reg_dmabuf_mr(side.pd, 0, kBytes, block.at, fd, kRights);
  const int error = errno;
  ::close(fd);  // the registration holds its own reference
  errno = error;
  return mr;
}

Address at_gpu(const Side& side, const GpuBlock& block, const ibv_mr* mr) {
  Address out = side.address();
  out.memory = block.at;
  out.remote_key = mr->rkey;
  return out;
}

}  // namespace

TEST_CASE("GPU memory is registered by a descriptor, or by its address with the vendor's module") {
  GpuBlock block;
  SECTION("neither") {
    Fabric fabric;
    Side side;
    CHECK(ibv_reg_mr(side.pd, reinterpret_cast<void*>(block.at), kBytes, kRights) == nullptr);
    CHECK(errno == EFAULT);
    CHECK(register_dmabuf(side, block) == nullptr);
    CHECK(errno == EOPNOTSUPP);
  }
  SECTION("by address") {
    Fabric fabric({.devices = "fake_0:peermem"});
    Side side;
    ibv_mr* mr = ibv_reg_mr(side.pd, reinterpret_cast<void*>(block.at), kBytes, kRights);
    REQUIRE(mr != nullptr);
    CHECK(ibv_dereg_mr(mr) == 0);
  }
  SECTION("by descriptor: of a range, and no longer than it is") {
    Fabric fabric({.devices = "fake_0:dmabuf"});
    Side side;
    const int fd = block.dmabuf();
    CHECK(ibv_reg_dmabuf_mr(side.pd, 0, kBytes + 1, block.at, fd, kRights) == nullptr);
    CHECK(ibv_reg_dmabuf_mr(side.pd, 100, 8, block.at, fd, kRights) ==
          nullptr);  // not the address's page offset
    ibv_mr* mr = ibv_reg_dmabuf_mr(side.pd, 4096, kBytes - 4096, block.at + 4096, fd, kRights);
    REQUIRE(mr != nullptr);
    CHECK(ibv_dereg_mr(mr) == 0);
    ::close(fd);
    CHECK(ibv_reg_dmabuf_mr(side.pd, 0, 8, block.at, 0, kRights) == nullptr);  // the standard input
    CHECK(ibv_reg_dmabuf_mr(side.pd, 0, 8, block.at, -1, kRights) == nullptr);
  }
}

TEST_CASE(
    "what was written into a GPU's memory is seen after a read from it, not at the completion") {
  fake_verbs::Setup setup;
  setup.devices = "fake_0:dmabuf";
  setup.hold_us = 30'000'000;
  GpuBlock block;
  Fabric fabric(setup);
  Two two;
  Side flusher;  // connected to itself, as who flushes does
  REQUIRE(flusher.connect(flusher.address()) == 0);
  ibv_mr* mr = register_dmabuf(two.b, block);
  ibv_mr* for_flush = register_dmabuf(flusher, block);
  REQUIRE(mr != nullptr);
  REQUIRE(for_flush != nullptr);
  std::fill(two.a.memory.begin(), two.a.memory.end(), uint8_t(7));
  REQUIRE(two.b.receive(1) == 0);
  ibv_sge sge = two.a.piece(0, 5000);
  ibv_send_wr wr{}, *bad = nullptr;
  wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.wr.rdma.remote_addr = block.at + 8;
  wr.wr.rdma.rkey = mr->rkey;
  REQUIRE(ibv_post_send(two.a.qp, &wr, &bad) == 0);
  CHECK(two.b.one().status == IBV_WC_SUCCESS);
  CHECK(block.byte(8) == 0xa5);  // as it was allocated: the completion came, the data did not
  CHECK(block.byte(4095) == 0xa5);
  REQUIRE(flusher.send(IBV_WR_RDMA_READ, at_gpu(flusher, block, for_flush), 0, 1) == 0);
  CHECK(flusher.one().status == IBV_WC_SUCCESS);
  CHECK(block.byte(7) == 0xa5);
  CHECK(block.byte(8) == 7);
  CHECK(block.byte(5007) == 7);
  CHECK(ibv_dereg_mr(mr) == 0);
  CHECK(ibv_dereg_mr(for_flush) == 0);
}

TEST_CASE("without a flush the data comes some time, and before its memory is given back") {
  fake_verbs::Setup setup;
  setup.devices = "fake_0:peermem";
  const bool wait = GENERATE(true, false);
  setup.hold_us = wait ? 2'000'000 : 30'000'000;
  GpuBlock block;
  Fabric fabric(setup);
  Two two;
  ibv_mr* mr = ibv_reg_mr(two.b.pd, reinterpret_cast<void*>(block.at), kBytes, kRights);
  REQUIRE(mr != nullptr);
  two.a.memory[0] = 7;
  REQUIRE(two.a.send(IBV_WR_RDMA_WRITE, at_gpu(two.b, block, mr), 0, 1) == 0);
  CHECK(two.a.one().status == IBV_WC_SUCCESS);
  CHECK(block.byte(0) == 0xa5);
  for (int i = 0; wait && i < 30000 && block.byte(0) != 7; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  if (wait) CHECK(block.byte(0) == 7);
  CHECK(ibv_dereg_mr(mr) == 0);
  CHECK(block.byte(0) == 7);
}

TEST_CASE("an adapter that sends from a GPU's memory sees what was written there before") {
  fake_verbs::Setup setup;
  setup.devices = "fake_0:dmabuf";
  setup.hold_us = 30'000'000;
  GpuBlock block;
  Fabric fabric(setup);
  Two two;
  ibv_mr* mr = register_dmabuf(two.b, block);
  REQUIRE(mr != nullptr);
  two.a.memory[0] = 9;
  REQUIRE(two.a.send(IBV_WR_RDMA_WRITE, at_gpu(two.b, block, mr), 0, 1) == 0);
  CHECK(two.a.one().status == IBV_WC_SUCCESS);
  ibv_sge sge{block.at, 1, mr->lkey};
  ibv_send_wr wr{}, *bad = nullptr;
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.wr.rdma.remote_addr = two.a.address().memory + 100;
  wr.wr.rdma.rkey = two.a.mr->rkey;
  REQUIRE(ibv_post_send(two.b.qp, &wr, &bad) == 0);
  CHECK(two.b.one().status == IBV_WC_SUCCESS);
  CHECK(two.a.memory[100] == 9);
  CHECK(ibv_dereg_mr(mr) == 0);
}

}  // namespace gpu_memory_tests
