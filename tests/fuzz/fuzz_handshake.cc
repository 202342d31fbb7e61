// libFuzzer target: any bytes from a stranger who calls an authenticated listener, and from one who
// listens where a rank calls. Neither is ever taken for one of the job.
#include <sys/socket.h>

#include "base/auth.h"
#include "base/log.h"
#include "tests/fuzz/fuzz.h"

using namespace collctl;
using namespace collctl::base;

namespace {

constexpr int kTurns = 4;

Address loopback() {
  return parse_address("127.0.0.1:0").value();
}

Secret secret() {
  Secret made;
  made.bytes.fill(42);
  return made;
}

// A reset instead of an orderly end: no port stays occupied for a minute.
void drop(Fd& fd) {
  const linger at_once{1, 0};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  fd.reset();
}

void say(const Fd& fd, ByteView& input, size_t bytes) {
  bytes = std::min(bytes, input.size());
  if (bytes > 0) static_cast<void>(write_some(fd.get(), input.data(), bytes));
  input = input.subspan(bytes);
}

void calls(ByteView input) {
  static const auto listener = AuthListener::listen(loopback(), secret()).value();
  auto stranger = connect_tcp(listener->address(), Deadline::after_seconds(5), false);
  fuzz::must(stranger.ok());
  const size_t piece = 1 + fuzz::choose(input, 255);
  for (int i = 0; i < kTurns; ++i) {
    say(*stranger, input, i + 1 < kTurns ? piece : input.size());
    listener->handle();
    fuzz::must(!listener->next());
  }
  drop(*stranger);
  listener->handle();
}

void listens(ByteView input) {
  static const Fd listener = listen_tcp(loopback()).value();
  static const Address at = local_address(listener.get()).value();
  const uint8_t greeting[] = {1, 2, 3};
  auto connector = AuthConnector::start(at, secret(), greeting);
  fuzz::must(connector.ok());
  const size_t piece = 1 + fuzz::choose(input, 255);
  Fd stranger;
  for (int i = 0; i < kTurns; ++i) {
    const auto done = (*connector)->progress();
    fuzz::must(!done || !*done);
    if (!done) break;
    if (!stranger)
      if (auto fd = accept_now(listener.get())) stranger = std::move(*fd);
    if (stranger) say(stranger, input, i + 1 < kTurns ? piece : input.size());
  }
  if (stranger) drop(stranger);
  connector->reset();
  while (true) {  // it may have called again
    auto fd = accept_now(listener.get());
    if (!fd || !*fd) break;
    drop(*fd);
  }
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  LogOptions quiet;
  quiet.level = LogLevel::none;
  fuzz::must(log_configure(quiet, 0).ok());
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ByteView input(data, size);
  if (fuzz::choose(input, 2) == 0)
    calls(input);
  else
    listens(input);
  return 0;
}
