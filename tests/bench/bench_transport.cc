// Latency and bandwidth of every row of the transport table between two threads of this process, as
// two ranks see them through the fifos: one-way time of a small step (half a round trip) by the
// best of several runs, and GB/s of full slots. Blocks drive the network themselves unless said
// otherwise.
#include <algorithm>
#include <cstdio>

#include "tests/unit/transport/block.h"

using namespace collctl;
using namespace collctl::test;

namespace {

constexpr int kRuns = 5;

struct Duplex {  // two connections, one each way, on the same engines
  Rig rig;
  std::unique_ptr<Link> back_out, back_in;

  explicit Duplex(const RowSetting& setting) : rig(setting) {
    const transport::FifoGeometry simple{131072, 8}, ll{16384, 8};
    Status opened = rig.open(simple, ll);
    COLL_CHECK(opened.ok());
    LinkSpec send = rig.receiver_spec, recv = rig.sender_spec;
    send.direction = Direction::send;
    recv.direction = Direction::recv;
    auto sender = std::move(rig.row->open(send, rig.receiver.services).value());
    auto receiver = std::move(rig.row->open(recv, rig.sender.services).value());
    const Bytes from_sender = sender->describe(soon()).value();
    const Bytes from_receiver = receiver->describe(soon()).value();
    back_out = std::move(sender->connect(from_receiver, soon()).value());
    back_in = std::move(receiver->connect(from_sender, soon()).value());
    if (rig.sender.engine == nullptr) return;
    rig.receiver.engine->add(back_out.get());
    rig.sender.engine->add(back_in.get());
  }
  ~Duplex() {
    if (rig.sender.engine == nullptr) return;
    rig.receiver.engine->remove(back_out.get());
    rig.sender.engine->remove(back_in.get());
  }
};

double one_way_us(Duplex& d, Protocol protocol, uint32_t bytes, int rounds, bool assisted) {
  const Waiting here{assisted ? d.rig.sender.engine.get() : nullptr};
  const Waiting there{assisted ? d.rig.receiver.engine.get() : nullptr};
  std::thread echo([&] {
    std::vector<uint8_t> data(bytes);
    for (int i = 0; i < rounds; ++i) {
      COLL_CHECK(take(*d.rig.in(protocol), data, soon(), there));
      COLL_CHECK(put(*d.back_out->fifo(protocol), data, soon(), there));
    }
    if (assisted) there.assist->finish_operation();
  });
  std::vector<uint8_t> data(bytes, 1);
  const int64_t start = now_ns();
  for (int i = 0; i < rounds; ++i) {
    COLL_CHECK(put(*d.rig.out(protocol), data, soon(), here));
    COLL_CHECK(take(*d.back_in->fifo(protocol), data, soon(), here));
  }
  const double us = double(now_ns() - start) / 2e3 / rounds;
  echo.join();
  return us;
}

double stream_gbps(Duplex& d, uint32_t bytes, int steps, bool assisted) {
  const Waiting here{assisted ? d.rig.sender.engine.get() : nullptr};
  const Waiting there{assisted ? d.rig.receiver.engine.get() : nullptr};
  std::thread sink([&] {
    std::vector<uint8_t> data(bytes);
    for (int i = 0; i < steps; ++i)
      COLL_CHECK(take(*d.rig.in(Protocol::simple), data, soon(), there));
    if (assisted) there.assist->finish_operation();
  });
  std::vector<uint8_t> data(bytes, 1);
  const int64_t start = now_ns();
  for (int i = 0; i < steps; ++i) COLL_CHECK(put(*d.rig.out(Protocol::simple), data, soon(), here));
  if (assisted) here.assist->finish_operation();
  sink.join();
  return double(bytes) * steps / double(now_ns() - start);
}

void measure(const RowSetting& setting, bool assisted) {
  const bool net = std::string_view(setting.name) == "net";
  Duplex duplex(setting);
  const int rounds = net ? 500 : 4000;
  double ll8 = 1e9, simple8 = 1e9, simple4k = 1e9, gbps = 0;
  for (int run = 0; run < kRuns; ++run) {
    ll8 = std::min(ll8, one_way_us(duplex, Protocol::ll, 8, rounds, assisted));
    simple8 = std::min(simple8, one_way_us(duplex, Protocol::simple, 8, rounds, assisted));
    simple4k = std::min(simple4k, one_way_us(duplex, Protocol::simple, 4096, rounds, assisted));
    gbps = std::max(gbps, stream_gbps(duplex, 131072, 1000, assisted));
  }
  std::printf("%-28s %-8s %10.2f %12.2f %12.2f %10.2f\n", setting.text().c_str(),
              !net       ? "-"
              : assisted ? "blocks"
                         : "thread",
              ll8, simple8, simple4k, gbps);
  std::fflush(stdout);
}

}  // namespace

int main() {
  std::printf("%-28s %-8s %10s %12s %12s %10s\n", "row", "driver", "LL 8 B us", "Simple 8 us",
              "Simple 4K us", "GB/s");
  for (const RowSetting& setting : row_settings()) {
    if (std::string_view(setting.name) == "net") measure(setting, true);
    measure(setting, false);
  }
  return 0;
}
