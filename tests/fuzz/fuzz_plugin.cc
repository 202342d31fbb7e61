// libFuzzer target: any bytes as what a network plugin says of its devices, in each version of the
// interface and for both of a library's structures.
#include <memory>

#include "tests/fuzz/fuzz.h"
#include "transport/net/plugin/library.h"
#include "transport/net/plugin/versions/table.h"
#include "transport/net/plugin/versions/v6.h"

using namespace collctl;
using namespace collctl::transport;

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

template <class Net, class CollNet, class Facts>
void ask(int number, bool collective) {
  NetPluginEntry entry{
      .library = "libfuzz.so", .calls = nullptr, .collective = collective, .name = "fuzz"};
  for (const NetPluginVersion& version : net_plugin_versions()) {
    if (version.number != number) continue;
    if (collective)
      entry.calls = version.collective(&structure<CollNet, Facts>());
    else
      entry.calls = version.net(&structure<Net, Facts>());
  }
  fuzz::must(entry.calls != nullptr);
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
  const int which = fuzz::choose(left, 14);
  const bool collective = which % 2 != 0;
  switch (6 + which / 2) {
    case 6:
      ask<NetPlugin6, CollNetPlugin6, NetPluginFacts6>(6, collective);
      break;
    case 7:
      ask<NetPlugin7, CollNetPlugin7, NetPluginFacts7>(7, collective);
      break;
    case 8:
      ask<NetPlugin8, CollNetPlugin8, NetPluginFacts8>(8, collective);
      break;
    case 9:
      ask<NetPlugin9, CollNetPlugin10, NetPluginFacts10>(9, collective);
      break;
    case 10:
      ask<NetPlugin10, CollNetPlugin10, NetPluginFacts10>(10, collective);
      break;
    case 11:
      ask<NetPlugin11, CollNetPlugin11, NetPluginFacts11>(11, collective);
      break;
    default:
      ask<NetPlugin12, CollNetPlugin12, NetPluginFacts12>(12, collective);
  }
  return 0;
}
