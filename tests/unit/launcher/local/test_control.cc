// Control frames and the error record: whole, cut, too large, malformed, closed.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "launcher/local/control.h"
#include "tests/catch.h"

namespace local_control_tests {

using namespace collctl;
using namespace collctl::launcher;

namespace {

struct Pair {
  std::unique_ptr<FrameChannel> a, b;
  Pair() {
    int fds[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
    a = std::make_unique<FrameChannel>(base::Fd(fds[0]));
    b = std::make_unique<FrameChannel>(base::Fd(fds[1]));
  }
};

Deadline soon() {
  return Deadline::after_seconds(20);
}

}  // namespace

TEST_CASE("frames arrive whole and in order") {
  Pair p;
  REQUIRE(p.a->send_text(FrameType::phase, "bootstrap", soon()).ok());
  REQUIRE(p.a->send(FrameType::data, {}, soon()).ok());
  REQUIRE(p.a->send_text(FrameType::id, "x", soon()).ok());
  auto first = p.b->receive(soon());
  REQUIRE(first.ok());
  CHECK(first->type == FrameType::phase);
  CHECK(first->text() == "bootstrap");
  auto second = p.b->poll_frame();
  REQUIRE(second.ok());
  REQUIRE(second->has_value());
  CHECK((*second)->payload.empty());
  auto third = p.b->poll_frame();
  REQUIRE(third.ok());
  REQUIRE(third->has_value());
  CHECK((*third)->text() == "x");
  auto none = p.b->poll_frame();
  REQUIRE(none.ok());
  CHECK_FALSE(none->has_value());
}

TEST_CASE("a frame that arrives byte by byte is one frame") {
  Pair p;
  const uint8_t wire[] = {3, 0, 0, 0, 4, 0, 0, 0, 'a', 'b', 'c'};
  for (const uint8_t byte : wire) {
    auto before = p.b->poll_frame();
    REQUIRE(before.ok());
    REQUIRE_FALSE(before->has_value());
    REQUIRE(::write(p.a->fd(), &byte, 1) == 1);
  }
  auto frame = p.b->poll_frame();
  REQUIRE(frame.ok());
  REQUIRE(frame->has_value());
  CHECK((*frame)->type == FrameType::data);
  CHECK((*frame)->text() == "abc");
}

TEST_CASE("a large frame passes while both sides work; several senders do not mix") {
  Pair p;
  const Bytes large(20u << 20, 0x5a);
  std::atomic<int> sent = 0;  // assertions belong to the test's own thread
  std::thread one([&] { sent += p.a->send(FrameType::data, large, soon()).ok(); });
  std::thread two([&] {
    for (int i = 0; i < 100; ++i) sent += p.a->send_text(FrameType::phase, "running", soon()).ok();
  });
  int small = 0, big = 0;
  for (int i = 0; i < 101; ++i) {
    auto frame = p.b->receive(soon());
    REQUIRE(frame.ok());
    if (frame->type == FrameType::data) {
      CHECK(frame->payload == large);
      ++big;
    } else {
      CHECK(frame->text() == "running");
      ++small;
    }
  }
  one.join();
  two.join();
  CHECK(sent == 101);
  CHECK(small == 100);
  CHECK(big == 1);
}

TEST_CASE("end, nonsense and silence are errors") {
  Pair p;
  SECTION("closed: frames sent before are still delivered") {
    REQUIRE(p.a->send_text(FrameType::phase, "done", soon()).ok());
    p.a.reset();
    REQUIRE(p.b->receive(soon()).ok());
    auto end = p.b->poll_frame();
    REQUIRE_FALSE(end.ok());
    CHECK(end.error().code == ErrorCode::lost);
  }
  SECTION("closed inside a frame") {
    const uint8_t wire[] = {9, 0, 0, 0, 4, 0, 0, 0, 'a'};
    REQUIRE(::write(p.a->fd(), wire, sizeof wire) == ssize_t(sizeof wire));
    p.a.reset();
    CHECK(p.b->poll_frame().error().code == ErrorCode::lost);
  }
  SECTION("too large") {
    const uint8_t wire[] = {1, 0, 0, 4, 4, 0, 0, 0};  // 64 MiB + 1
    REQUIRE(::write(p.a->fd(), wire, sizeof wire) == ssize_t(sizeof wire));
    auto bad = p.b->poll_frame();
    REQUIRE_FALSE(bad.ok());
    CHECK(bad.error().message.find("malformed") != std::string::npos);
    CHECK_FALSE(p.a->send(FrameType::data, Bytes(kMaxFrame + 1), soon()).ok());
  }
  SECTION("unknown type") {
    const uint8_t wire[] = {0, 0, 0, 0, 99, 0, 0, 0};
    REQUIRE(::write(p.a->fd(), wire, sizeof wire) == ssize_t(sizeof wire));
    CHECK_FALSE(p.b->poll_frame().ok());
  }
  SECTION("nothing comes") {
    CHECK(p.b->receive(Deadline::after_ms(20)).error().code == ErrorCode::deadline);
  }
  SECTION("nobody reads: the deadline ends the send, and nothing follows half a frame") {
    const Bytes large(8u << 20);
    CHECK(p.a->send(FrameType::data, large, Deadline::after_ms(50)).error().code ==
          ErrorCode::deadline);
    CHECK(p.a->send(FrameType::data, {}, soon()).error().code == ErrorCode::lost);
  }
}

TEST_CASE("the error record keeps every field and survives anything") {
  Error e(ErrorCode::deadline, "rank 2 does not answer", "look at rank 2");
  e.within("connect rank 3 -> rank 2").within("bootstrap");
  e.rank = 2;
  e.host = "b1";
  e.host_id = HostId{6};
  e.signal = 9;
  e.awaited = 4;
  e.from = 3;
  e.cause = Cause::late;
  const Bytes wire = encode_error(e);
  const Error back = decode_error(wire);
  CHECK(back.code == e.code);
  CHECK(back.message == e.message);
  CHECK(back.hint == e.hint);
  CHECK(back.contexts == e.contexts);
  CHECK(back.rank == 2);
  CHECK(back.host == "b1");
  CHECK(back.host_id == HostId{6});
  CHECK(back.signal == 9);
  CHECK(back.awaited == 4);
  CHECK(back.from == 3);
  CHECK(back.cause == Cause::late);
  CHECK(back.chain() == "bootstrap: connect rank 3 -> rank 2: rank 2 does not answer");
  for (size_t cut = 0; cut < wire.size(); ++cut) {
    const Error part = decode_error({wire.data(), cut});
    CHECK(part.code == ErrorCode::lost);
    CHECK(part.message.find("malformed") != std::string::npos);
  }
  Bytes wrong = wire;
  wrong[0] = 77;  // no such code
  CHECK(decode_error(wrong).message.find("malformed") != std::string::npos);
}

}  // namespace local_control_tests
