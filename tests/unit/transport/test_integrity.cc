// NET/Socket with MACs (--integrity), and somebody on the way: a relay between the two ends that
// changes, drops, repeats, swaps and cuts what it passes on. All of it is an error that names both
// ends and the addresses between them, and nothing of it reaches the consumer.
#include <sys/socket.h>

#include "base/socket.h"
#include "base/stream_mac.h"
#include "tests/catch.h"
#include "tests/unit/transport/block.h"
#include "transport/net/socket/lane.h"
#include "transport/table/nets.h"

namespace integrity_tests {

using namespace collctl;
using namespace collctl::test;

namespace {

constexpr size_t kTagBytes = 16, kHeadBytes = 16 + kTagBytes;

size_t wire_bytes(size_t body) {
  return kHeadBytes + body + (body + transport::kLanePart - 1) / transport::kLanePart * kTagBytes;
}

// A connection through it whose data it keeps while it is told to hold.
class Relay {
 public:
  enum Way { there, back };  // from the connector, and to it
  explicit Relay(const Address& target) : target_(target) {
    auto listener = base::listen_tcp(base::parse_address("127.0.0.1:0").value());
    COLL_CHECK(listener);
    listener_ = std::move(*listener);
    thread_ = std::thread([this] { run(); });
  }
  ~Relay() {
    stop_ = true;
    thread_.join();
  }
  Address address() const { return base::local_address(listener_.get()).value(); }
  void hold(size_t connection, Way way) {
    const std::scoped_lock lock(mutex_);
    pipe(connection, way).holds = true;
  }
  // The next `bytes` that were held; all that come are awaited.
  Bytes take(size_t connection, Way way, size_t bytes) {
    std::unique_lock lock(mutex_);
    Pipe& p = pipe(connection, way);
    COLL_CHECK(base::wait_for(arrived_, lock, soon(), [&] { return p.held.size() >= bytes; }));
    const Bytes taken(p.held.begin(), p.held.begin() + ptrdiff_t(bytes));
    p.held.erase(p.held.begin(), p.held.begin() + ptrdiff_t(bytes));
    return taken;
  }
  void say(size_t connection, Way way, ByteView bytes) {
    const std::scoped_lock lock(mutex_);
    write(pipe(connection, way).to, bytes);
  }
  void cut(size_t connection) {
    const std::scoped_lock lock(mutex_);
    for (const Way way : {there, back}) ::shutdown(pipe(connection, way).to, SHUT_RDWR);
  }

 private:
  struct Pipe {
    int from, to;
    bool holds = false, ended = false;
    Bytes held = {};
  };
  Pipe& pipe(size_t connection, Way way) { return pipes_.at(2 * connection + way); }

  static void write(int fd, ByteView bytes) {
    const Deadline deadline = Deadline::after_seconds(10);
    while (!bytes.empty() && !deadline.passed()) {
      auto wrote = base::write_some(fd, bytes.data(), bytes.size());
      if (!wrote) return;  // this end has heard enough
      bytes = bytes.subspan(*wrote);
      pollfd p{fd, POLLOUT, 0};
      if (!bytes.empty()) (void)base::poll_fds({&p, 1}, deadline);
    }
  }
  void accept_one() {
    Fd near(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!near) return;
    Fd far(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    COLL_CHECK(::connect(far.get(), target_.raw(), target_.length) == 0);
    COLL_CHECK(base::set_non_blocking(far.get()));
    pipes_.push_back({near.get(), far.get()});
    pipes_.push_back({far.get(), near.get()});
    ends_.push_back(std::move(near));
    ends_.push_back(std::move(far));
  }
  void run() {
    Bytes chunk(1 << 16);
    while (!stop_) {
      std::vector<pollfd> fds{{listener_.get(), POLLIN, 0}};
      for (const Pipe& p : pipes_) fds.push_back({p.ended ? -1 : p.from, POLLIN, 0});
      (void)base::poll_fds(fds, Deadline::after_ms(20));
      const std::scoped_lock lock(mutex_);
      for (size_t i = 0; i + 1 < fds.size(); ++i) {
        Pipe& p = pipes_[i];
        if (fds[i + 1].revents == 0) continue;
        const auto got = base::read_some(p.from, chunk.data(), chunk.size());
        p.ended = !got;
        if (!got) {
          ::shutdown(p.to, SHUT_WR);
        } else if (p.holds) {
          p.held.insert(p.held.end(), chunk.begin(), chunk.begin() + ptrdiff_t(*got));
          arrived_.notify_all();
        } else {
          write(p.to, {chunk.data(), *got});
        }
      }
      if (fds[0].revents != 0) accept_one();
    }
  }

  Address target_;
  Fd listener_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<Pipe> pipes_;
  std::vector<Fd> ends_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

RowSetting with_macs(int lanes, int helpers) {
  RowSetting setting{"net", lanes, helpers};
  setting.macs = true;
  return setting;
}

// Two ends with the relay between them, over which one message has passed on each lane.
struct Watched {
  Rig rig;
  Relay relay;
  std::vector<uint8_t> data, got;
  uint64_t sent = 0;

  explicit Watched(const RowSetting& setting, uint32_t slot_bytes = 4096)
      : rig(setting), relay(rig.receiver.engine->address()) {
    const Address at = relay.address();
    rig.sender_spec.peer.net_address = at.storage;
    rig.sender_spec.peer.net_address_length = uint32_t(at.length);
    const Status opened = rig.open({slot_bytes, 4}, {1024, 4});
    REQUIRE(opened);
    for (int lane = 0; lane < setting.sockets * std::max(setting.helpers, 1); ++lane) {
      send(100);
      got.resize(data.size());
      REQUIRE(test::take(*rig.in(Protocol::simple), got, soon()));
      REQUIRE(got == data);
    }
  }
  void send(size_t bytes) {
    pattern(data, bytes, sent++);
    REQUIRE(put(*rig.out(Protocol::simple), data, soon()));
  }
  // The number of messages that the consumer may see.
  uint64_t handed_on() { return load64(rig.in(Protocol::simple)->tail); }

  void check_error(Side& side, const char* from, const char* to, const char* what) {
    const Deadline deadline = soon();
    while (!side.has_error() && !deadline.passed()) base::sleep_until(Deadline::after_ms(2));
    const auto error = side.first_error();
    REQUIRE(error);
    const std::string chain = error->chain();
    INFO(chain);
    CHECK(error->code == ErrorCode::lost);
    CHECK(chain.find("NET/Socket/0/MAC") != std::string::npos);
    CHECK(chain.find("rank 2 -> rank 5 channel 1") != std::string::npos);
    CHECK(chain.find(std::string(from) + " at 127.0.0.1:") != std::string::npos);
    CHECK(chain.find(std::string(" to ") + to + " at 127.0.0.1:") != std::string::npos);
    CHECK(chain.find(what) != std::string::npos);
  }
  void check_receiver(const char* what) {
    check_error(rig.receiver, "rank 2 (host host2)", "rank 5 (host host5)", what);
  }
};

constexpr const char* kChangedText = "was changed on the way";

}  // namespace

TEST_CASE("the same piece has another MAC by key, direction and number") {
  base::Session session;
  session.key.bytes.fill(7);
  base::Session other = session;
  other.key.bytes[15] ^= 1;
  const Bytes piece(1000, 3);
  std::vector<base::StreamMac::Tag> tags;
  for (const auto& [of, from_connector] :
       {std::pair{session, true}, std::pair{session, false}, std::pair{other, true}}) {
    auto mac = base::StreamMac::make(of, from_connector);
    REQUIRE(mac);
    for (int i = 0; i < 3; ++i) tags.push_back(mac->next(piece).value());
    tags.push_back(mac->next({}).value());
  }
  for (size_t i = 0; i < tags.size(); ++i)
    for (size_t j = 0; j < i; ++j) CHECK(tags[i] != tags[j]);
  auto again = base::StreamMac::make(session, true);
  REQUIRE(again);
  CHECK(again->next(piece).value() == tags[0]);
}

TEST_CASE("a byte that is flipped on the way, wherever it is") {
  constexpr size_t kBody = 101;
  for (const int helpers : {0, 1})
    for (const size_t at : {size_t{0}, size_t{4}, size_t{7}, size_t{8}, size_t{15}, size_t{16},
                            size_t{31}, size_t{32}, size_t{132}, size_t{133}, size_t{148}}) {
      INFO("byte " << at << " helpers " << helpers);
      Watched w(with_macs(1, helpers));
      w.relay.hold(0, Relay::there);
      w.send(kBody);
      Bytes wire = w.relay.take(0, Relay::there, wire_bytes(kBody));
      REQUIRE(wire.size() == 149);
      wire[at] ^= 0x20;
      w.relay.say(0, Relay::there, wire);
      w.check_receiver(kChangedText);
      CHECK(w.handed_on() == 1);
    }
}

TEST_CASE("what is passed on as it was is taken, whatever its size and in whatever pieces") {
  for (const int lanes : {1, 3})
    for (const size_t body : {size_t{0}, size_t{1}, size_t{8191}, size_t{transport::kLanePart - 1},
                              size_t{transport::kLanePart}, size_t{transport::kLanePart + 1},
                              size_t{3 * transport::kLanePart + 7}})
      for (const size_t piece : {size_t{37}, size_t{16000}}) {
        if (body > 8191 && piece == 37) continue;
        INFO("lanes " << lanes << " body " << body << " pieces " << piece);
        Watched w(with_macs(lanes, 0), 4 * transport::kLanePart);
        w.relay.hold(0, Relay::there);
        w.send(body);
        const Bytes wire = w.relay.take(0, Relay::there, wire_bytes(body));
        CHECK(w.handed_on() == uint64_t(lanes));
        for (size_t from = 0; from < wire.size(); from += piece)
          w.relay.say(0, Relay::there,
                      ByteView(wire).subspan(from, std::min(piece, wire.size() - from)));
        w.got.assign(body, 0);
        REQUIRE(take(*w.rig.in(Protocol::simple), w.got, soon()));
        CHECK(w.got == w.data);
        CHECK_FALSE(w.rig.receiver.has_error());
      }
}

TEST_CASE("records that are dropped, doubled, swapped or from another place") {
  constexpr size_t kBody = 64, kWire = kHeadBytes + kBody + kTagBytes;
  enum What { drop_message, drop_body, twice, swap, old, other_lane, parts, kCount };
  for (int what = 0; what < kCount; ++what) {
    INFO("what " << what);
    Watched w(with_macs(what == other_lane ? 2 : 1, 0), 4 * transport::kLanePart);
    const uint64_t before = w.handed_on();
    const size_t lanes = what == other_lane ? 2 : 1;
    for (size_t lane = 0; lane < lanes; ++lane) w.relay.hold(lane, Relay::there);
    if (what == parts) {
      w.send(2 * transport::kLanePart);
      Bytes wire = w.relay.take(0, Relay::there, wire_bytes(w.data.size()));
      const auto first = wire.begin() + kHeadBytes;
      const auto second = first + transport::kLanePart + kTagBytes;
      std::swap_ranges(first, second, second);
      w.relay.say(0, Relay::there, wire);
      w.check_receiver(kChangedText);
      CHECK(w.handed_on() == before);
      continue;
    }
    for (int i = 0; i < 2; ++i) w.send(kBody);
    const Bytes a = w.relay.take(0, Relay::there, kWire);
    const Bytes b = w.relay.take(lanes - 1, Relay::there, kWire);
    const auto say = [&](ByteView bytes, size_t lane = 0) {
      w.relay.say(lane, Relay::there, bytes);
    };
    const auto await = [&](uint64_t steps) {
      const Deadline deadline = soon();
      while (w.handed_on() < before + steps && !deadline.passed()) base::yield_thread();
    };
    uint64_t genuine = 0;
    if (what == drop_message) say(b);
    if (what == drop_body) {
      say(ByteView(a).first(kHeadBytes));
      say(b);
    }
    if (what == twice || what == old) {
      say(a);
      if (what == old) say(b);
      genuine = what == old ? 2 : 1;
      await(genuine);
      say(a);
    }
    if (what == swap) {
      say(b);
      say(a);
    }
    if (what == other_lane) {
      say(b, 0);
      say(a, 1);
    }
    w.check_receiver(kChangedText);
    CHECK(w.handed_on() == before + genuine);
  }
}

TEST_CASE("a connection that is cut on the way, between records and inside") {
  constexpr size_t kBody = 64, kWire = kHeadBytes + kBody + kTagBytes;
  for (const size_t passed :
       {size_t{0}, size_t{5}, kHeadBytes, kHeadBytes + 10, kWire - 1, kWire}) {
    INFO("passed " << passed);
    Watched w(with_macs(1, 0));
    w.relay.hold(0, Relay::there);
    w.send(kBody);
    const Bytes wire = w.relay.take(0, Relay::there, kWire);
    w.relay.say(0, Relay::there, ByteView(wire).first(passed));
    w.relay.cut(0);
    w.check_receiver("closed");
    CHECK(w.handed_on() == (passed == kWire ? 2 : 1));
    w.check_error(w.rig.sender, "rank 5 (host host5)", "rank 2 (host host2)", "rank 5");
  }
}

TEST_CASE("what the receiver says is checked, too, and what a side said itself is nothing") {
  for (const bool reflected : {false, true}) {
    INFO("reflected " << reflected);
    Watched w(with_macs(1, 0));
    w.relay.hold(0, Relay::back);
    Bytes said;
    if (reflected) {
      w.relay.hold(0, Relay::there);
      w.send(64);
      said = w.relay.take(0, Relay::there, kHeadBytes);
    } else {
      for (int i = 0; i < 7; ++i) {  // then two windows are told as free
        w.send(64);
        w.got.resize(64);
        REQUIRE(take(*w.rig.in(Protocol::simple), w.got, soon()));
      }
      said = w.relay.take(0, Relay::back, kHeadBytes);
      said[8] ^= 1;
    }
    w.relay.say(0, Relay::back, said);
    // The sending end reads when it looks; it has nothing to wait for yet.
    const Deadline deadline = soon();
    while (!w.rig.sender.has_error() && !deadline.passed()) {
      w.rig.sender.engine->assist();
      base::yield_thread();
    }
    w.check_error(w.rig.sender, "rank 5 (host host5)", "rank 2 (host host2)", kChangedText);
  }
}

TEST_CASE("lines of LL are written when their MAC was right, not before") {
  Watched w(with_macs(1, 0));
  w.relay.hold(0, Relay::there);
  pattern(w.data, 64, 1);
  REQUIRE(put(*w.rig.out(Protocol::ll), w.data, soon()));
  Bytes wire = w.relay.take(0, Relay::there, wire_bytes(64));
  wire[wire.size() - 1] ^= 1;
  w.relay.say(0, Relay::there, wire);
  w.check_receiver(kChangedText);
  w.got.resize(64);
  CHECK_FALSE(take(*w.rig.in(Protocol::ll), w.got, Deadline::after_ms(50)));
}

TEST_CASE("a network without MACs is refused where they are asked for") {
  transport::PeerInfo a{}, b{};
  a.rank = 3;
  b.rank = 4;
  for (const transport::Net& net : transport::nets()) {
    INFO(net.name);
    const Status status = transport::refuse_without_macs(net, a, b);
    if (std::string_view(net.name) == "socket") {
      CHECK(status);
      continue;
    }
    REQUIRE_FALSE(status);
    CHECK(status.error().code == ErrorCode::unavailable);
    CHECK(status.error().message.find("rank 3 and rank 4") != std::string::npos);
    CHECK(status.error().hint.find("--net socket") != std::string::npos);
  }
}

}  // namespace integrity_tests
