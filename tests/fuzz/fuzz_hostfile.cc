// libFuzzer target: any bytes as a hostfile, what it includes, and -H (parts with a 0 between).
// A file that is taken must survive being written and read.
#include "launcher/hosts/hostfile.h"
#include "tests/fuzz/fuzz.h"

using namespace collctl;
using namespace collctl::launcher;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto texts = fuzz::parts({data, size}, 3);
  size_t reads = 0;
  const auto read = [&](const std::string& path) -> Result<std::string> {
    if (++reads > 64) return Error(ErrorCode::usage, "enough");
    return path == "hosts" ? texts[0] : texts[2];
  };
  const auto list = read_hosts(texts[0].empty() ? "" : "hosts", texts[1], read);
  // Lists of a hundred thousand hosts are allowed, and slow to write.
  if (!list || list->hosts.size() > 1000) return 0;
  const std::string written = hostfile_text(*list);
  const auto again =
      read_hosts("hosts", "", [&](const std::string&) -> Result<std::string> { return written; });
  fuzz::must(again.ok() && hostfile_text(*again) == written);
  return 0;
}
