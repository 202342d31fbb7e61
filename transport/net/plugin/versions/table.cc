#include "transport/net/plugin/versions/table.h"

#include "transport/net/plugin/versions/adapter.h"
#include "transport/net/plugin/versions/v6.h"

namespace collctl::transport {

namespace {

template <class Version>
constexpr NetPluginVersion row(const char* nccl) {
  return {.number = Version::kNumber,
          .nccl = nccl,
          .net = [](const void* structure) -> std::shared_ptr<const NetPluginCalls> {
            return std::make_shared<NetAdapter<Version>>(structure);
          },
          .collective = [](const void* structure) -> std::shared_ptr<const CollNetPluginCalls> {
            return std::make_shared<CollNetAdapter<Version>>(structure);
          }};
}

constexpr NetPluginVersion kVersions[] = {
    row<NetVersion12>("2.30"), row<NetVersion11>("2.28"), row<NetVersion10>("2.26"),
    row<NetVersion9>("2.24"),  row<NetVersion8>("2.20"),  row<NetVersion7>("2.19"),
    row<NetVersion6>("2.13"),
};

}  // namespace

std::span<const NetPluginVersion> net_plugin_versions() {
  return kVersions;
}

}  // namespace collctl::transport
