// Version 11 of the plugin interface (common.h): older than 12 by the facts of its devices.
#pragma once
#include "transport/net/plugin/versions/v12.h"

namespace collctl::transport {

struct NetPluginFacts10 : NetPluginFacts {
  NetPluginParts<4> parts;
  size_t most_message_bytes, most_collective_bytes;
};
struct NetPluginFacts11 : NetPluginFacts10 {
  int most_requests_at_once;
};
static_assert(sizeof(NetPluginFacts10) == 104 && sizeof(NetPluginFacts11) == 112);

using NetPlugin11 = NetPluginSince11<NetPluginFacts11>;
using CollNetPlugin11 = CollNetPluginSince11<NetPluginFacts11>;

struct NetVersion11 : NetVersion12 {
  static constexpr int kNumber = 11;
  using Net = NetPlugin11;
  using CollNet = CollNetPlugin11;
};

}  // namespace collctl::transport
