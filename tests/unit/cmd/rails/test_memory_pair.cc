// Memory of GPUs of the fake driver over sockets, between two ends in threads that act as two
// hosts: what is measured, compared and said.
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "base/format.h"
#include "cmd/rails/memory_pair.h"
#include "runtime/links/proxy.h"
#include "tests/catch.h"
#include "tests/fake_drivers/cuda_control.h"

namespace memory_pair_tests {

using namespace collctl;
using namespace collctl::runtime;

namespace {

constexpr uint32_t kBytes = 64 << 10;
constexpr double kPatience = 60;

// Words of each end that the other has not heard yet.
struct Wire {
  std::mutex mutex;
  std::condition_variable news;
  std::deque<Bytes> words[2];  // by who hears them
};
class Meeting : public RailMeeting {
 public:
  Meeting(Wire& wire, int self) : wire_(wire), self_(self) {}
  Status send(int peer, ByteView bytes, Deadline) override {
    const std::scoped_lock lock(wire_.mutex);
    wire_.words[peer].emplace_back(bytes.begin(), bytes.end());
    wire_.news.notify_all();
    return {};
  }
  Result<Bytes> receive(int peer, Deadline) override {
    std::unique_lock lock(wire_.mutex);
    auto& mine = wire_.words[self_];
    if (!wire_.news.wait_for(lock, std::chrono::duration<double>(kPatience),
                             [&] { return !mine.empty(); }))
      return Error(ErrorCode::deadline, "the other end says nothing").blame(peer);
    Bytes word = std::move(mine.front());
    mine.pop_front();
    return word;
  }
  Result<std::vector<Bytes>> gather(ByteView, Deadline) override { return std::vector<Bytes>{}; }
  void abort(const Error&) override {}
  Status finish(Deadline) override { return {}; }

 private:
  Wire& wire_;
  int self_;
};

struct Side {
  RailHost host;
  std::unique_ptr<ProxyEngine> listener;
  std::unique_ptr<MemoryAreas> areas;
};

struct Two {
  base::Secret secret{};
  uint32_t abort_word = 0;
  Side sides[2];

  explicit Two(int gpus) {
    fake_cuda::set_up({.devices = gpus});
    for (int s = 0; s < 2; ++s) {
      Side& side = sides[s];
      side.host.host = {HostId(int32_t(s)), format("n{}", s)};
      side.host.rank = s;
      side.host.hash = uint64_t(s + 1);
      side.host.network_namespace = 1;
      RailNic& nic = side.host.nics.emplace_back();
      nic.name = "lo";
      nic.mtu = 65536;
      ProxyEngine::Options options;
      options.listen_at = *base::parse_address("127.0.0.1:0");
      options.secret = secret;
      options.abort_word = &abort_word;
      auto listener = ProxyEngine::start(std::move(options));
      REQUIRE(listener);
      side.listener = std::move(*listener);
      nic.address = side.listener->address();
      std::vector<transport::DevicePointer> devices;
      for (int g = 0; g < gpus; ++g) {
        auto device = transport::Device::open(g);
        REQUIRE(device);
        RailGpu& gpu = side.host.gpus.list.emplace_back();
        gpu.ordinal = g;
        gpu.nics.resize(1);
        devices.push_back(std::move(*device));
      }
      side.areas = std::make_unique<MemoryAreas>(std::move(devices), kBytes);
    }
  }

  Status try_on(int self, Wire& wire, const MemorySizes& sizes, std::vector<MemoryTrial>& trials) {
    Meeting meeting(wire, self);
    RailSide side;
    side.meeting = &meeting;
    // Inside one network namespace no interface can be asked for.
    Side &mine = sides[self], &theirs = sides[1 - self];
    RailHost here = mine.host, there = theirs.host;
    here.hash = there.hash = 1;
    side.mine = &here;
    side.theirs = &there;
    side.first = self == 0;
    side.acceptors = {mine.listener.get()};
    side.secret = secret;
    side.seconds = 0;
    side.timeout_s = side.op_timeout_s = kPatience;
    side.beat = [] { return Status(); };
    return try_memories(side, *mine.areas, sizes, trials);
  }

  // Both ends' results are one.
  std::vector<MemoryTrial> measured(const MemorySizes& sizes) {
    Wire wire;
    std::vector<MemoryTrial> trials[2];
    Status done[2];
    {
      std::vector<std::jthread> threads;
      for (int s = 0; s < 2; ++s) {
        trials[s] = plan_trials(sides[0].host, sides[1].host, {0, 1}, false, false, 2);
        threads.emplace_back([&, s] { done[s] = try_on(s, wire, sizes, trials[s]); });
      }
    }
    for (const Status& each : done) {
      INFO((each ? "" : each.error().chain()));
      REQUIRE(each);
    }
    REQUIRE(trials[0].size() == trials[1].size());
    for (size_t t = 0; t < trials[0].size(); ++t)
      CHECK(base::encoded(trials[0][t]) == base::encoded(trials[1][t]));
    return trials[0];
  }
};

}  // namespace

TEST_CASE("GPU memory over sockets goes through pinned memory, both ways and at every size",
          "[rails]") {
  {
    Two two(2);
    const std::vector<MemoryTrial> trials =
        two.measured({.steps = {8, 4096, 4 * kBytes}, .largest = 16 * kBytes, .large_s = 1e9});
    // Host memory, two GPUs of each host beside the other's host memory, two beside two.
    REQUIRE(trials.size() == 7);
    CHECK(trials[0].of_hosts());
    for (const MemoryTrial& trial : trials) {
      CAPTURE(trial.from_gpu, trial.to_gpu, trial.there.text, trial.back.text);
      CHECK(trial.ok());
      for (const double figure : {trial.there.GBps, trial.back.GBps, trial.there.both_GBps,
                                  trial.back.both_GBps, trial.latency_us})
        CHECK(figure > 0);
      REQUIRE(trial.curve.size() == 4);
      CHECK(trial.curve[3].bytes == 16 * kBytes);
      for (const MemoryPoint& point : trial.curve)
        for (const double figure : {point.there_GBps, point.back_GBps, point.both_GBps})
          CHECK(figure > 0);
      const auto way = [](int gpu) {
        return gpu == kHostMemory ? MemoryWay::host : MemoryWay::staged;
      };
      CHECK(trial.there.out.way == way(trial.from_gpu));
      CHECK(trial.there.in.way == way(trial.to_gpu));
      CHECK(trial.back.out.way == way(trial.to_gpu));
      CHECK(trial.back.in.way == way(trial.from_gpu));
    }
  }
  CHECK(fake_cuda::counts() == fake_cuda::Counts{});
}

TEST_CASE("a GPU that fails while it is measured is a result, and the rest goes on", "[rails]") {
  {
    Two two(1);
    // Host memory has been measured by then: the first memory of a GPU.
    fake_cuda::fail("cuMemAlloc_v2", 2);
    const std::vector<MemoryTrial> trials = two.measured({});
    REQUIRE(trials.size() == 4);
    CHECK(trials[0].ok());
    size_t bad = 0;
    for (const MemoryTrial& trial : trials) {
      if (trial.ok()) continue;
      ++bad;
      const MemoryFlow& flow = trial.there.end == RailEnd::ok ? trial.back : trial.there;
      CHECK(flow.end == RailEnd::failed);
      CHECK(flow.text.find("out of memory") != std::string::npos);
    }
    CHECK(bad >= 1);
    CHECK(trials.back().ok());
  }
  CHECK(fake_cuda::counts() == fake_cuda::Counts{});
}

TEST_CASE("what arrived is compared byte by byte, and what lies behind it", "[rails]") {
  fake_cuda::set_up({.devices = 1});
  {
    auto device = transport::Device::open(0);
    REQUIRE(device);
    auto area = MemoryArea::make(*device, 1024);
    REQUIRE(area);
    std::vector<uint8_t> bytes((*area)->bytes(), 7), back;
    REQUIRE((*area)->write(bytes));
    REQUIRE((*area)->read(back));
    CHECK(back == bytes);
    CHECK((*area)->beside(0)[0] != 7);  // nothing of it lies where data is staged
    CHECK(fake_cuda::owner_of((*area)->data(0)) == 0);
    CHECK(fake_cuda::owner_of((*area)->beside(0)) == -1);
  }
  CHECK(fake_cuda::counts() == fake_cuda::Counts{});
}

}  // namespace memory_pair_tests
