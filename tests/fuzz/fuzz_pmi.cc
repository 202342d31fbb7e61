// libFuzzer target: any bytes as all that an engine's PMI server ever sends.
#include <sys/socket.h>

#include "base/socket.h"
#include "launcher/adopt/pmi1.h"
#include "tests/fuzz/fuzz.h"

using namespace collctl;
using namespace collctl::launcher;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  int fds[2];
  fuzz::must(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) == 0);
  const Fd ours(fds[0]), server(fds[1]);
  if (size > 0) static_cast<void>(base::write_some(server.get(), data, size));
  ::shutdown(server.get(), SHUT_WR);
  const Lookup environment = [&](const char* name) -> std::optional<std::string> {
    const std::string_view which(name);
    if (which == "PMI_FD") return std::to_string(ours.get());
    if (which == "PMI_RANK") return "1";
    if (which == "PMI_SIZE") return "4";
    return std::nullopt;
  };
  // A short input is at its end, so nothing here waits.
  const auto soon = Deadline::after_seconds(5);
  auto client = Pmi1Client::open(environment, soon);
  if (!client) return 0;
  fuzz::must((*client)->size() > 0 && (*client)->rank() >= 0);
  const Status put = (*client)->put("key", "value", soon);
  if (!put || !(*client)->fence(soon)) return 0;
  if (const auto text = (*client)->get(0, "key", soon)) fuzz::must(text->size() <= size);
  static_cast<void>((*client)->finish(soon));
  fuzz::must(!soon.passed());
  return 0;
}
