// THE table of the versions of the plugin interface that are understood, newest first.
#pragma once
#include <memory>
#include <span>

#include "transport/net/plugin/versions/calls.h"

namespace collctl::transport {

struct NetPluginVersion {
  int number;
  const char* nccl;  // the first NCCL that had it
  // `structure` is a library's, which stays where it is.
  std::shared_ptr<const NetPluginCalls> (*net)(const void* structure);
  std::shared_ptr<const CollNetPluginCalls> (*collective)(const void* structure);
};
std::span<const NetPluginVersion> net_plugin_versions();

}  // namespace collctl::transport
