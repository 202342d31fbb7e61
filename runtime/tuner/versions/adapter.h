// The calls of calls.h by a version's row (common.h): one adapter for all versions.
#pragma once
#include "runtime/tuner/versions/calls.h"

namespace collctl::runtime {

template <class Version>
class TunerAdapter final : public TunerCalls {
  using Structure = typename Version::Structure;

 public:
  explicit TunerAdapter(const void* structure) : s_(*static_cast<const Structure*>(structure)) {}
  int version() const override { return Version::kNumber; }
  std::string name() const override { return base::drivers::plugin_name(s_.name); }
  const char* first_missing() const override {
    if (s_.name == nullptr) return "name";
    if (s_.init == nullptr) return "init";
    if (s_.cost == nullptr) return "getCollInfo";
    return s_.finalize == nullptr ? (Version::kDomains ? "finalize" : "destroy") : nullptr;
  }

  TunerCode init(void** context, TunerStart& start, TunerLog log) const override {
    if constexpr (Version::kDomains)
      return s_.init(context, start.communicator, start.ranks, start.nodes, log, &start.domains,
                     &start.constants);
    else
      return s_.init(start.ranks, start.nodes, log, context);
  }
  TunerCode cost(void* context, int collective, size_t bytes, float* table, bool registered,
                 int* channels) const override {
    constexpr int kOperations = 1;  // each is planned by itself
    // The interface's type; what it points to is the table.
    auto** const rows = reinterpret_cast<float**>(table);
    if constexpr (Version::kRegistered)
      return s_.cost(context, collective, bytes, kOperations, rows, kTunerAlgorithms,
                     kTunerProtocols, registered ? 1 : 0, channels);
    else
      return s_.cost(context, collective, bytes, kOperations, rows, kTunerAlgorithms,
                     kTunerProtocols, channels);
  }
  TunerCode finalize(void* context) const override { return s_.finalize(context); }

 private:
  const Structure& s_;
};

}  // namespace collctl::runtime
