#include "runtime/tuner/versions/table.h"

#include "runtime/tuner/versions/adapter.h"
#include "runtime/tuner/versions/v3.h"

namespace collctl::runtime {

namespace {

template <class Version>
constexpr TunerVersion tuner_row(const char* nccl) {
  return {.number = Version::kNumber,
          .nccl = nccl,
          .calls = [](const void* structure) -> std::shared_ptr<const TunerCalls> {
            return std::make_shared<TunerAdapter<Version>>(structure);
          }};
}

constexpr TunerVersion kTunerVersions[] = {
    tuner_row<TunerVersion6>("2.30"),
    tuner_row<TunerVersion5>("2.28"),
    tuner_row<TunerVersion4>("2.26"),
    tuner_row<TunerVersion3>("2.22"),
};

}  // namespace

std::span<const TunerVersion> tuner_versions() {
  return kTunerVersions;
}

}  // namespace collctl::runtime
