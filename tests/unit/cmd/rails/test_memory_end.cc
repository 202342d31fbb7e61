// One end of a stream of GPU memory over a network of the test's own: who moves what where, and
// what is noticed of it.
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>

#include "base/wait.h"
#include "cmd/rails/memory_end.h"
#include "tests/catch.h"
#include "tests/fake_drivers/cuda_control.h"

namespace memory_end_tests {

using namespace collctl;
using namespace collctl::runtime;
using transport::NetDone;
using transport::NetRequest;

namespace {

constexpr uint32_t kMessage = 4096, kLess = 1000;
constexpr uint64_t kCount = 3 * MemoryEnd::kWindow + 1;

// A NIC that copies what is sent to where it is received, once both were posted.
struct Cable {
  std::mutex mutex;
  std::deque<std::pair<const uint8_t*, uint32_t>> sent;
  std::deque<uint8_t*> wanted;
  std::deque<uint32_t> arrived;
  uint64_t carried = 0, spoilt = ~0ull;  // this message
  bool loses = false;                    // what it says has arrived
  bool touched_device = false;
};
enum class Takes : uint8_t { host, device, refuses };

class CableEnd : public transport::NetConnection {
 public:
  CableEnd(Cable& cable, Takes takes) : cable_(cable), takes_(takes) {}
  const std::string& via() const override { return via_; }
  Result<uint64_t> register_memory(void* at, size_t) override {
    CHECK(fake_cuda::owner_of(at) == -1);
    return uint64_t{1};
  }
  Result<uint64_t> register_device_memory(void* at, size_t bytes, bool in_order,
                                          std::string& how) override {
    if (takes_ == Takes::refuses) return Error(ErrorCode::unavailable, "no module");
    CHECK(fake_cuda::owner_of(at) >= 0);
    CHECK(bytes % 4096 == 0);
    CHECK_FALSE(in_order);
    how = "DMA-BUF";
    return uint64_t{2};
  }
  bool may_reach_devices() const override { return takes_ != Takes::host; }
  Result<NetRequest> post_send(int, const void* data, uint32_t bytes, uint64_t) override {
    const std::scoped_lock lock(cable_.mutex);
    cable_.touched_device |= fake_cuda::owner_of(data) >= 0;
    cable_.sent.emplace_back(static_cast<const uint8_t*>(data), bytes);
    move();
    return NetRequest(posted_++ % MemoryEnd::kWindow);
  }
  Result<NetRequest> post_recv(int, void* data, uint32_t capacity, uint64_t) override {
    const std::scoped_lock lock(cable_.mutex);
    CHECK(capacity == kMessage);
    cable_.touched_device |= fake_cuda::owner_of(data) >= 0;
    receives_ = true;
    cable_.wanted.push_back(static_cast<uint8_t*>(data));
    move();
    return NetRequest(posted_++ % MemoryEnd::kWindow);
  }
  Result<NetDone> test(NetRequest) override {
    const std::scoped_lock lock(cable_.mutex);
    if (!receives_) return NetDone{.done = cable_.carried > tested_ && ++tested_ > 0};
    if (cable_.arrived.empty()) return NetDone{};
    const uint32_t bytes = cable_.arrived.front();
    cable_.arrived.pop_front();
    return NetDone{.done = true, .bytes = bytes};
  }
  Result<bool> progress() override { return false; }
  void add_interest(std::vector<pollfd>&) override {}
  bool arm() override { return true; }
  void disarm() override {}
  bool idle() const override { return true; }
  void attach_bell(int) override {}
  void say_goodbye() override {}
  bool delivered() const override { return true; }

 private:
  void move() {
    while (!cable_.sent.empty() && !cable_.wanted.empty()) {
      const auto [from, bytes] = cable_.sent.front();
      uint8_t* const to = cable_.wanted.front();
      cable_.sent.pop_front();
      cable_.wanted.pop_front();
      if (!cable_.loses) std::memcpy(to, from, bytes);
      if (cable_.carried++ == cable_.spoilt) to[bytes / 2] ^= 1;
      cable_.arrived.push_back(bytes);
    }
  }
  Cable& cable_;
  Takes takes_;
  std::string via_ = "NET/Test";
  bool receives_ = false;
  uint64_t posted_ = 0, tested_ = 0;
};

struct Stream {
  Cable cable;
  CableEnd out, in;
  std::unique_ptr<MemoryArea> from, to;
  std::unique_ptr<MemoryEnd> sender, receiver;

  explicit Stream(Takes takes, const std::string& forbidden = "")
      : out(cable, takes), in(cable, takes) {
    fake_cuda::set_up({.devices = 2});
    for (auto* const area : {&from, &to}) {
      auto device = transport::Device::open(area == &from ? 0 : 1);
      REQUIRE(device);
      auto made = MemoryArea::make(*device, kMessage);
      REQUIRE(made);
      *area = std::move(*made);
    }
    sender = std::make_unique<MemoryEnd>(out, *from, true, forbidden, uint8_t(1));
    receiver = std::make_unique<MemoryEnd>(in, *to, false, forbidden, uint8_t(1));
    for (MemoryEnd* end : {sender.get(), receiver.get()}) {
      REQUIRE(end->prepare(Deadline::after_seconds(60)));
      REQUIRE(end->fill());
    }
  }
  Status run(uint32_t bytes) {
    const Deadline deadline = Deadline::after_seconds(60);
    Status sent;
    {
      const std::jthread thread([&] { sent = sender->run(kCount, bytes, deadline); });
      COLL_TRY(receiver->run(kCount, bytes, deadline));
    }
    return sent;
  }
};

}  // namespace

TEST_CASE("GPU memory goes by the NIC where it may, else through pinned memory", "[rails]") {
  struct Case {
    Takes takes;
    const char* forbidden;
    MemoryWay way;
    const char* how;
  };
  const Case each =
      GENERATE(Case{Takes::device, "", MemoryWay::direct, "DMA-BUF"},
               Case{Takes::device, "SYS is too far", MemoryWay::by_rule, "SYS is too far"},
               Case{Takes::refuses, "", MemoryWay::refused, "no module"},
               Case{Takes::host, "", MemoryWay::staged, "sockets carry host memory"});
  {
    Stream stream(each.takes, each.forbidden);
    CHECK(stream.sender->use().way == each.way);
    CHECK(stream.receiver->use().how == each.how);
    for (const uint32_t bytes : {kMessage, kLess}) {
      REQUIRE(stream.receiver->fill());
      REQUIRE(stream.run(bytes));
      const Status same = stream.receiver->compare(bytes);
      INFO((same ? "" : same.error().chain()));
      CHECK(same);
    }
    CHECK(stream.cable.touched_device == (each.way == MemoryWay::direct));
    // The data sent before is none of that sent now.
    CHECK(!stream.receiver->compare(kMessage));
  }
  CHECK(fake_cuda::counts() == fake_cuda::Counts{});
}

TEST_CASE("wrong bytes in GPU memory are noticed, and those that never came", "[rails]") {
  const Takes takes = GENERATE(Takes::device, Takes::host);
  const bool lost = GENERATE(false, true);
  {
    Stream stream(takes);
    // The last one in its slot stays there.
    stream.cable.spoilt = lost ? ~0ull : kCount - 1;
    stream.cable.loses = lost;
    REQUIRE(stream.run(kMessage));
    const Status same = stream.receiver->compare(kMessage);
    REQUIRE(!same);
    CHECK(same.error().code == ErrorCode::bad_data);
  }
  CHECK(fake_cuda::counts() == fake_cuda::Counts{});
}

}  // namespace memory_end_tests
