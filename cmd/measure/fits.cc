#include "cmd/measure/fits.h"

#include "base/format.h"
#include "cmd/text/sizes.h"

namespace collctl::cmd {

Status fits_in_memory(const std::string& what, uint64_t each, const HostMemory& memory) {
  const auto too_much = [&](uint64_t ranks, const std::string& place, const std::string& hint) {
    return Error{ErrorCode::unavailable,
                 format("{} needs {} of buffers for each of the {} ranks of this host{}", what,
                        human_bytes(each), ranks, place),
                 hint};
  };
  if (memory.bytes != 0 && each > memory.bytes / memory.ranks)
    return too_much(memory.ranks, format(", which has {} of memory", human_bytes(memory.bytes)),
                    "use a smaller --max-bytes or fewer ranks on this host");
  if (memory.group_bytes != 0 && each > memory.group_bytes / memory.group_ranks)
    return too_much(memory.group_ranks,
                    format(" in one control group (container, job), which may use {} of memory",
                           human_bytes(memory.group_bytes)),
                    "raise the limit of the container or the job (collctl doctor shows it), or use "
                    "a smaller --max-bytes or fewer ranks on this host");
  return {};
}

}  // namespace collctl::cmd
