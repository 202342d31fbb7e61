// THE table of the versions of the tuner interface that are understood, newest first.
#pragma once
#include <memory>
#include <span>

#include "runtime/tuner/versions/calls.h"

namespace collctl::runtime {

struct TunerVersion {
  int number;
  const char* nccl;  // the first NCCL that had it
  // `structure` is a library's, which stays where it is.
  std::shared_ptr<const TunerCalls> (*calls)(const void* structure);
};
std::span<const TunerVersion> tuner_versions();

}  // namespace collctl::runtime
