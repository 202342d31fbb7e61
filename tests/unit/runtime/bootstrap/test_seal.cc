// Attacks on the frames of two ranks by somebody on the way between them: each is noticed.
#include <sys/socket.h>

#include "runtime/bootstrap/link.h"
#include "runtime/bootstrap/wire.h"
#include "tests/catch.h"

namespace bootstrap_seal_tests {

using namespace collctl;
using namespace collctl::runtime;

namespace {

// Two ends of one session with somebody in between: what `from` sends goes through this test.
struct Way {
  Way() {
    base::Session session;
    session.key.bytes.fill(7);
    Fd ends[2][2];
    for (auto& pair : ends) {
      int fds[2];
      REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
      pair[0] = Fd(fds[0]);
      pair[1] = Fd(fds[1]);
    }
    session.connector = true;
    from = {std::move(ends[0][0]), session};
    session.connector = false;
    to = {std::move(ends[1][0]), session};
    heard = std::move(ends[0][1]);
    said = std::move(ends[1][1]);
  }
  Bytes hear() {
    Bytes bytes(4096);
    const auto n = base::read_some(heard.get(), bytes.data(), bytes.size());
    REQUIRE(n.ok());
    bytes.resize(*n);
    return bytes;
  }
  void say(const Bytes& bytes) {
    REQUIRE(
        base::write_exact(said.get(), bytes.data(), bytes.size(), Deadline::after_seconds(5)).ok());
  }
  boot::SealedFd from, to;
  Fd heard, said;
};

const std::string kText = "rank 3 leaves";
const ByteView kPayload(reinterpret_cast<const uint8_t*>(kText.data()), kText.size());

Bytes frame_of(Way& way) {
  REQUIRE(boot::send_frame(way.from, boot::FrameType::notice, kPayload).ok());
  return way.hear();
}

void is_changed(const Status& state) {
  REQUIRE_FALSE(state.ok());
  CHECK(state.error().code == ErrorCode::lost);
  CHECK(state.error().message == boot::kChanged);
}

}  // namespace

TEST_CASE("control frames arrive as they were sent, in order and once", "[bootstrap][seal]") {
  Way way;
  boot::FrameReader reader;
  const Bytes first = frame_of(way), second = frame_of(way), third = frame_of(way);
  way.say(first);
  REQUIRE(reader.fill(way.to).ok());
  const auto frame = reader.next();
  REQUIRE(frame);
  CHECK(frame->type == boot::FrameType::notice);
  CHECK(std::equal(kPayload.begin(), kPayload.end(), frame->payload.begin(), frame->payload.end()));
  SECTION("one changed byte, anywhere but in the length") {
    // The length (bytes 4 to 7) makes the reader wait, or take the next frame's bytes for its own.
    const size_t at = GENERATE(size_t(0), size_t(8), size_t(12), size_t(21), size_t(36));
    Bytes changed = second;
    REQUIRE(at < changed.size());
    changed[at] ^= 1;
    way.say(changed);
    is_changed(reader.fill(way.to));
  }
  SECTION("a frame twice") {
    way.say(first);
    is_changed(reader.fill(way.to));
  }
  SECTION("a frame left out") {
    way.say(third);
    is_changed(reader.fill(way.to));
  }
  SECTION("the reader's own frame sent back") {
    way.from = {std::move(way.said), {}};
    REQUIRE(boot::send_frame(way.to, boot::FrameType::notice, kPayload).ok());
    Bytes own(4096);
    const auto n = base::read_some(way.from.get(), own.data(), own.size());
    REQUIRE(n.ok());
    REQUIRE(base::write_exact(way.from.get(), own.data(), *n, Deadline::after_seconds(5)).ok());
    is_changed(reader.fill(way.to));
  }
  SECTION("nothing") {
    way.say(second);
    CHECK(reader.fill(way.to).ok());
    CHECK(reader.next());
  }
  CHECK_FALSE(reader.next());
}

TEST_CASE("what data links carry is checked as well", "[bootstrap][seal]") {
  Way way;
  Bytes body(1000, 5);
  boot::DataLink out(std::move(way.from), 0, 4096), in(std::move(way.to), 1, 4096);
  out.post(77, body);
  REQUIRE(out.progress().ok());
  REQUIRE_FALSE(out.sending());
  Bytes sent = way.hear();
  const bool changes = GENERATE(false, true);
  const size_t at = GENERATE(size_t(0), size_t(16), size_t(1015), size_t(1016));
  if (changes) sent[at] ^= 0x80;
  way.say(sent);
  in.expect();
  const Status state = in.progress();
  if (changes) {
    is_changed(state);
    CHECK_FALSE(in.received());
    return;
  }
  REQUIRE(state.ok());
  REQUIRE(in.received());
  const boot::Message message = in.take();
  CHECK(message.tag == 77);
  CHECK(message.body == body);
}

}  // namespace bootstrap_seal_tests
