// libFuzzer target: any bytes as what a network plugin says of its devices, in each version of the
// interface and for both of a library's structures.
#include <memory>

#include "base/drivers/net_plugin.h"
#include "tests/fuzz/fuzz.h"

using namespace collctl;
using namespace collctl::base::drivers;

namespace {

ByteView left;     // of the input
std::string name;  // of the device that was asked about last
bool nameless = false;

template <class T>
T take() {
  T value{};
  const size_t n = std::min(sizeof value, left.size());
  if (n > 0) std::memcpy(&value, left.data(), n);
  left = left.subspan(n);
  return value;
}

NetPluginCode devices(int* count) {
  *count = take<int16_t>();
  return take<uint8_t>() % 16 == 0 ? kNetPluginSystemError : kNetPluginOk;
}

template <class Facts>
NetPluginCode facts(int, Facts* to) {
  *to = take<Facts>();
  nameless = take<uint8_t>() % 8 == 0;
  const size_t length = std::min<size_t>(take<uint16_t>() % 300, left.size());
  name.assign(fuzz::text_of(left.first(length)));
  left = left.subspan(length);
  // A plugin's pointers cannot be checked; what they point at is.
  to->name = nameless ? nullptr : name.c_str();
  to->pci_path = to->name;
  return take<uint8_t>() % 16 == 0 ? kNetPluginRemoteError : kNetPluginOk;
}

template <class Plugin, class Facts>
const Plugin& structure() {
  static Plugin plugin = [] {
    Plugin p{};
    p.name = "fuzz";
    p.init = [](auto...) -> NetPluginCode { return kNetPluginOk; };
    p.devices = devices;
    p.facts = facts<Facts>;
    return p;
  }();
  return plugin;
}

void ask(int version, bool collective, const void* which) {
  const NetPluginEntry entry{.library = "libfuzz.so",
                             .structure = which,
                             .version = version,
                             .collective = collective,
                             .name = "fuzz"};
  const auto session = NetPluginSession::start(entry, 4711);
  if (!session) return;
  fuzz::must(!(*session)->devices().empty());
  for (const NetPluginDevice& device : (*session)->devices()) {
    fuzz::must(!device.name.empty() && device.name.size() < 256);
    fuzz::must((device.pointers & kNetPluginHost) != 0 && device.most_message_bytes > 0);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  left = {data, size};
  switch (fuzz::choose(left, 6)) {
    case 0:
      ask(10, false, &structure<NetPlugin10, NetPluginFacts10>());
      break;
    case 1:
      ask(11, false, &structure<NetPlugin11, NetPluginFacts11>());
      break;
    case 2:
      ask(12, false, &structure<NetPlugin12, NetPluginFacts12>());
      break;
    case 3:
      ask(10, true, &structure<CollNetPlugin10, NetPluginFacts10>());
      break;
    case 4:
      ask(11, true, &structure<CollNetPlugin11, NetPluginFacts11>());
      break;
    default:
      ask(12, true, &structure<CollNetPlugin12, NetPluginFacts12>());
  }
  return 0;
}
