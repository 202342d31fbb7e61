// P2P between GPUs: where its memory lies, what it shares, and what people are told when GPUs do
// not reach each other.
#include <fcntl.h>

#include <set>

#include "kernels/contract/fifo.h"
#include "tests/catch.h"
#include "tests/unit/transport/block.h"

namespace p2p_tests {

using namespace collctl;
using namespace collctl::test;
using transport::FifoGeometry;

namespace {

constexpr int kAtSender = 0, kAtReceiver = 1;  // ordinals in the rig

RowSetting p2p(bool one_process, bool read) {
  return {"p2p", 1, 0, true, one_process, read};
}

void want_ll128(Rig& rig) {
  rig.set_geometry({65536, 8}, {16384, 8});
  for (LinkSpec* spec : {&rig.sender_spec, &rig.receiver_spec})
    spec->geometry[int(Protocol::ll128)] = {7680, 8};
}

bool says(const Error& error, const char* text) {
  return error.chain().find(text) != std::string::npos ||
         error.hint.find(text) != std::string::npos;
}

}  // namespace

TEST_CASE("each side of a P2P link waits on its own memory") {
  for (const bool one_process : {false, true})
    for (const bool read : {false, true}) {
      INFO("one process " << one_process << " read " << read);
      Rig rig(p2p(one_process, read));
      want_ll128(rig);
      REQUIRE(rig.wire(soon()));
      for (int p = 0; p < kernels::kProtocolCount; ++p) {
        const bool fetched = read && p == int(Protocol::simple);
        for (const Fifo* fifo : {rig.out(Protocol(p)), rig.in(Protocol(p))}) {
          REQUIRE(fifo != nullptr);
          CHECK(fake_cuda::owner_of(fifo->tail) == kAtReceiver);
          CHECK(fake_cuda::owner_of(fifo->records) == kAtReceiver);
          CHECK(fake_cuda::owner_of(fifo->head) == kAtSender);
          CHECK(fake_cuda::owner_of(fifo->slots) == (fetched ? kAtSender : kAtReceiver));
          CHECK(fifo->consumer_sleeps == nullptr);
          CHECK(fifo->producer_sleeps == nullptr);
          CHECK(fifo->flags == 0);
          CHECK(reinterpret_cast<uintptr_t>(fifo->slots) % 128 == 0);
        }
      }
    }
}

TEST_CASE("the log says how GPUs talk") {
  {
    Rig rig(p2p(false, false));
    REQUIRE(rig.open({1024, 4}, {}));
    CHECK(rig.sender.link->via() == "P2P/CUMEM");
  }
  Rig rig(p2p(true, true));
  REQUIRE(rig.open({1024, 4}, {}));
  CHECK(rig.receiver.link->via() == "P2P/direct pointer/read");
}

TEST_CASE("shared memory and networks of GPUs are host memory") {
  for (const char* row : {"shm", "net"}) {
    INFO(row);
    Rig rig({row, 1, 0, true});
    want_ll128(rig);
    REQUIRE(rig.wire(soon()));
    for (const Protocol p : {Protocol::simple, Protocol::ll})
      for (const Fifo* fifo : {rig.out(p), rig.in(p)}) {
        REQUIRE(fifo != nullptr);
        CHECK(fake_cuda::owner_of(fifo->slots) == -1);
        CHECK(fifo->consumer_sleeps == nullptr);
      }
    CHECK(fake_cuda::counts().pinned == 2);
    CHECK(fake_cuda::counts().allocations + fake_cuda::counts().handles == 0);
    // LL128's lines would be torn on the way through sockets.
    CHECK((rig.out(Protocol::ll128) != nullptr) == (std::string_view(row) == "shm"));
  }
}

TEST_CASE("the heads of many links share one page on both sides") {
  Rig rig(p2p(false, false));
  std::vector<std::unique_ptr<Link>> links;
  constexpr int kLinks = 5;
  for (int channel = 0; channel < kLinks; ++channel) {
    rig.set_geometry({1024, 4}, {});
    rig.sender_spec.channel = rig.receiver_spec.channel = channel;
    REQUIRE(rig.wire(soon()));
    links.push_back(std::move(rig.sender.link));
    links.push_back(std::move(rig.receiver.link));
  }
  // A page of heads and a block for each link; all of them mapped by the other side as well.
  const fake_cuda::Counts held = fake_cuda::counts();
  CHECK(held.bytes == (1 + kLinks) * (uint64_t(2) << 20));
  CHECK(held.mappings == 2 * (1 + kLinks));
  uint64_t reported = 0;
  for (const auto& link : links) reported += link->device_bytes();
  CHECK(reported == held.bytes);
  std::set<const uint64_t*> heads;
  for (const auto& link : links) heads.insert(link->fifo(Protocol::simple)->head);
  CHECK(heads.size() == 2 * kLinks);  // each at its own place, seen from two sides
  rig.sender.endpoint.reset();
  rig.receiver.endpoint.reset();
  links.clear();
  CHECK(fake_cuda::counts().bytes == 0);
}

TEST_CASE("GPUs that do not reach each other are refused before anything is made") {
  Rig rig(p2p(false, false));
  rig.set_geometry({1024, 4}, {});
  const fake_cuda::Counts before = fake_cuda::counts();
  fake_cuda::set_up({.devices = 2, .peers = "none"});
  for (const bool sends : {true, false}) {
    auto endpoint = rig.row->open(sends ? rig.sender_spec : rig.receiver_spec,
                                  sends ? rig.sender.services : rig.receiver.services);
    REQUIRE_FALSE(endpoint);
    const Error& error = endpoint.error();
    CHECK(error.code == ErrorCode::unavailable);  // so that both ends try the next transport
    CHECK(says(error, "rank 2 -> rank 5 channel 1"));
    CHECK(says(error,
               sends ? "GPU 0 (0000:11:00.0) cannot access the memory of the GPU at 0000:10:00.0"
                     : "GPU 1 (0000:10:00.0) cannot access the memory of the GPU at "
                       "0000:11:00.0"));
    CHECK(says(error, "ACS"));
    CHECK(says(error, "MIG"));
  }
  CHECK(fake_cuda::counts() == before);
}

TEST_CASE("a GPU without room says so before the ends are wired") {
  for (const char* row : {"p2p", "net", "shm"}) {
    INFO(row);
    Rig rig({row, 1, 0, true});
    rig.set_geometry({1024, 4}, {});
    const bool memory = std::string_view(row) == "p2p";
    fake_cuda::fail(memory                           ? "cuMemCreate"
                    : std::string_view(row) == "shm" ? "cuMemHostRegister_v2"
                                                     : "cuMemHostAlloc",
                    2);
    Status wired = rig.wire(soon());
    REQUIRE_FALSE(wired);
    CHECK(wired.error().code == ErrorCode::unavailable);
    CHECK(says(wired.error(), "rank 2 -> rank 5 channel 1"));
    CHECK(says(wired.error(), "CUDA_ERROR_OUT_OF_MEMORY"));
  }
}

TEST_CASE("memory of a peer that cannot be mapped names both GPUs and what to look at") {
  for (const char* call : {"cuMemImportFromShareableHandle", "cuMemMap", "cuMemSetAccess"}) {
    INFO(call);
    Rig rig(p2p(false, false));
    rig.set_geometry({1024, 4}, {});
    // The own blocks are mapped first: one at each end.
    fake_cuda::fail(call, 217,
                    std::string_view(call).find("Import") != std::string_view::npos ? 0 : 2);
    Status wired = rig.wire(soon());
    REQUIRE_FALSE(wired);
    CHECK(wired.error().rank == 5);
    CHECK(says(wired.error(), "GPU 0 (0000:11:00.0)"));
    CHECK(says(wired.error(), "GPU 1 of rank 5 (host host5)"));
    CHECK(says(wired.error(), "--transport shm or net"));
  }
}

TEST_CASE("ends that disagree on reading or writing are told so") {
  for (const bool one_process : {false, true}) {
    Rig rig(p2p(one_process, false));
    rig.set_geometry({1024, 4}, {});
    rig.receiver_spec.p2p_read = true;
    Status wired = rig.wire(soon());
    REQUIRE_FALSE(wired);
    CHECK(wired.error().code == ErrorCode::usage);
    CHECK(says(wired.error(), "P2P_READ"));
  }
}

namespace {
int open_descriptors() {
  int count = 0;
  for (int fd = 0; fd < 4096; ++fd) count += ::fcntl(fd, F_GETFD) >= 0 ? 1 : 0;
  return count;
}
}  // namespace

TEST_CASE("an end that declines keeps nothing of what its peer has pushed") {
  struct Pusher {
    const char* row;
    bool sends;  // else the receiving end pushes
  };
  for (const Pusher& pusher : {Pusher{"p2p", true}, Pusher{"p2p", false}, Pusher{"shm", false}}) {
    INFO(pusher.row << (pusher.sends ? ", the sender's" : ", the receiver's"));
    Rig rig({pusher.row, 1, 0, true});
    rig.set_geometry({1024, 4}, {});
    auto sender = rig.row->open(rig.sender_spec, rig.sender.services);
    auto receiver = rig.row->open(rig.receiver_spec, rig.receiver.services);
    auto& pushes = pusher.sends ? *sender : *receiver;
    const Bytes blob = pushes->describe(soon()).value();
    const int before = open_descriptors();
    const LinkSpec& declining = pusher.sends ? rig.receiver_spec : rig.sender_spec;
    const auto& services = pusher.sends ? rig.receiver.services : rig.sender.services;
    CHECK(rig.row->decline(declining, services, blob, soon()));
    CHECK(open_descriptors() == before - 1);
  }
}

TEST_CASE("a place outside of the peer's memory is refused") {
  Rig rig(p2p(false, false));
  rig.set_geometry({1024, 4}, {});
  auto sender = rig.row->open(rig.sender_spec, rig.sender.services);
  auto receiver = rig.row->open(rig.receiver_spec, rig.receiver.services);
  REQUIRE((*receiver)->describe(soon()));
  const Bytes blob = (*sender)->describe(soon()).value();
  // Way, read, bytes, page id, then the offset: 1 + 1 + 8 + 8 bytes before it.
  for (const uint64_t offset :
       {uint64_t(2) << 20, (uint64_t(2) << 20) - 128, uint64_t(8), ~uint64_t(0) - 127}) {
    INFO("offset " << offset);
    Bytes lie = blob;
    std::memcpy(lie.data() + 18, &offset, sizeof offset);
    auto link = (*receiver)->connect(lie, Deadline::after_ms(300));
    REQUIRE_FALSE(link);
    CHECK(link.error().code == ErrorCode::lost);
    CHECK(says(link.error(), "but 384 were agreed"));  // three protocols' counters of 128 bytes
  }
}

}  // namespace p2p_tests
