// `version`: what this binary is and what built it.
#include "base/format.h"
#include "base/json_writer.h"
#include "base/version.h"
#include "cmd/root_commands.h"
#include "kernels/algo/algorithms.h"
#include "kernels/cuda/launcher/launcher.h"
#include "launcher/ssh/library.h"
#include "revision.h"  // written by the build
#include "transport/table/transports.h"

namespace collctl::cmd {
namespace {

constexpr int kProtocolVersion = 2;  // of UniqueId, blobs and frames: ranks must agree on it

std::string compiler() {
#if defined(__clang__)
  return format("clang {}.{}.{}", __clang_major__, __clang_minor__, __clang_patchlevel__);
#else
  return format("gcc {}", __VERSION__);
#endif
}

std::vector<std::string> features() {
  std::vector<std::string> list{"cpu"};
  if (kernels::cuda::launcher().built) list.push_back("cuda");
  for (const auto& transport : transport::transports())
    list.push_back(format("transport-{}", transport.name));
  for (const auto& row : kernels::algorithms()) list.push_back(format("algo-{}", row.name));
  return list;
}

}  // namespace

std::string version_text() {
  const std::string revision = COLLCTL_REVISION;
  return revision.empty() ? base::kVersion : format("{} ({})", base::kVersion, revision);
}

Result<int> version_command(const ParsedLine& line, Console& console) {
  const std::string revision = COLLCTL_REVISION;
  const kernels::cuda::Launcher& gpu = kernels::cuda::launcher();
  if (line.has("json")) {
    JsonWriter json;
    json.begin_object().field("schema", "collctl.version/1").field("version", base::kVersion);
    json.field_or_null("revision", !revision.empty(), revision);
    json.field("compiler", compiler()).field("protocol", kProtocolVersion);
    json.field("ssh", launcher::ssh_library());
    json.key("cuda").begin_object().field("built", gpu.built);
    json.field(gpu.built ? "architectures" : "why_not",
               gpu.built ? gpu.architectures : gpu.why_not);
    json.end_object();
    console.out(json.list("features", features()).end_object().take() + "\n");
    return 0;
  }
  std::string list;
  for (const auto& feature : features()) list += (list.empty() ? "" : " ") + feature;
  console.out(
      format("collctl {}\ncompiler  {}\nprotocol  {}\nssh       {}\ncuda      {}\nfeatures  {}\n",
             version_text(), compiler(), kProtocolVersion, launcher::ssh_library(),
             gpu.built ? format("kernels for {}", gpu.architectures) : gpu.why_not, list));
  return 0;
}

}  // namespace collctl::cmd
