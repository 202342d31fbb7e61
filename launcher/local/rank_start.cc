#include "launcher/local/rank_start.h"

#include "base/env.h"
#include "base/host_facts.h"
#include "base/rank_env.h"
#include "launcher/adopt/adopt.h"

namespace collctl::launcher {
namespace {

void unset_variable(std::vector<std::string>& list, const std::string& name) {
  std::erase_if(list, [&](const std::string& e) { return e.rfind(name + "=", 0) == 0; });
}

}  // namespace

RankProcess rank_process(const std::vector<std::string>& argv) {
  RankProcess process;
  process.control = argv.empty();
  process.argv = argv;
  if (!process.control) return process;
  process.path = base::kSelfPath;
  process.argv = {"collctl", base::kRankCommand};
  return process;
}

void set_variable(std::vector<std::string>& list, const std::string& entry) {
  unset_variable(list, entry.substr(0, entry.find('=')));
  list.push_back(entry);
}

std::optional<std::string> find_variable(const std::vector<std::string>& list,
                                         const std::string& name) {
  for (const std::string& entry : list)
    if (entry.rfind(name + "=", 0) == 0) return entry.substr(name.size() + 1);
  return std::nullopt;
}

std::vector<std::string> inherited_environment(bool comm_id) {
  std::vector<std::string> list = base::environment_list();
  unset_variable(list, "COLLCTL_TOKEN");
  for (const char* name : inner_rank_variables()) unset_variable(list, name);
  if (base::nvidia_gpus() > 0 && !find_variable(list, "CUDA_DEVICE_ORDER"))
    list.push_back("CUDA_DEVICE_ORDER=PCI_BUS_ID");
  if (comm_id) return list;
  unset_variable(list, "COLLCTL_COMM_ID");
  unset_variable(list, "NCCL_COMM_ID");
  return list;
}

}  // namespace collctl::launcher
