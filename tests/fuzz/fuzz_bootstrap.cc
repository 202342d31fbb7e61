// libFuzzer target: any bytes as what ranks and roots say to each other (greetings, frames and what
// is in them), and frames that something on the way changes.
#include <sys/socket.h>

#include "runtime/bootstrap/wire.h"
#include "tests/fuzz/fuzz.h"

using namespace collctl;
using namespace collctl::runtime::boot;

namespace {

struct Line {
  SealedFd one, other;
};

Line make_line() {
  int fds[2];
  fuzz::must(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) == 0);
  base::Session session;
  session.key.bytes.fill(7);
  Line line;
  session.connector = true;
  line.one = SealedFd(Fd(fds[0]), session);
  session.connector = false;
  line.other = SealedFd(Fd(fds[1]), session);
  return line;
}

void unsealed(ByteView input) {
  Line line = make_line();
  if (!input.empty())
    static_cast<void>(base::write_some(line.one.get(), input.data(), input.size()));
  FrameReader reader;
  static_cast<void>(reader.fill(line.other));
  fuzz::must(!reader.next());  // nobody guesses a MAC
}

// Frames of which one bit is changed: what arrives is what was sent, up to that frame.
void changed(ByteView input) {
  Line line = make_line();
  ByteReader r(input);
  const auto at = r.get<uint16_t>();
  const auto bit = r.get<uint8_t>();
  std::vector<Bytes> sent;
  while (r.ok() && !r.at_end() && sent.size() < 8) {
    const auto size = r.get<uint8_t>();
    Bytes payload;
    for (int i = 0; i < size && r.ok() && !r.at_end(); ++i) payload.push_back(r.get<uint8_t>());
    fuzz::must(send_frame(line.one, FrameType::notice, payload).ok());
    sent.push_back(std::move(payload));
  }
  Bytes wire(1 << 14);
  const auto n = base::read_some(line.other.get(), wire.data(), wire.size());
  if (!n || *n == 0) return;
  const bool harmed = (bit & 8) != 0;
  if (harmed) wire[at % *n] ^= uint8_t(1u << (bit & 7));
  fuzz::must(base::write_some(line.one.get(), wire.data(), *n).ok());
  FrameReader reader;
  const Status read = reader.fill(line.other);
  size_t arrived = 0;
  while (const auto frame = reader.next()) {
    fuzz::must(arrived < sent.size() && frame->payload == sent[arrived]);
    ++arrived;
  }
  fuzz::must(harmed ? arrived < sent.size() : read.ok() && arrived == sent.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ByteView input(data, size);
  switch (fuzz::choose(input, 9)) {
    case 0:
      fuzz::survives<CheckIn>(input);
      break;
    case 1:
      fuzz::survives<Decline>(input);
      break;
    case 2:
      fuzz::survives<PeerGreeting>(input);
      break;
    case 3:
      fuzz::survives<Place>(input);
      break;
    case 4:
      fuzz::survives<GroupReport>(input);
      break;
    case 5:
      fuzz::survives<Leaders>(input);
      break;
    case 6: {
      const Bytes sent = encode_brief(decode_error(input));
      fuzz::must(encode_brief(decode_error(sent)) == sent);
      break;
    }
    case 7:
      unsealed(input);
      break;
    default:
      changed(input);
  }
  return 0;
}
