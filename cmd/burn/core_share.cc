// Cores that burn beside GPUs, and those that are left to drive them.
#include <algorithm>
#include <map>
#include <thread>

#include "base/host_devices.h"
#include "base/host_facts.h"
#include "cmd/burn/burn.h"
#include "transport/device/device.h"

namespace collctl::cmd {

namespace {

constexpr double kShareBesideGpus = 0.5;   // of the cores, at most
constexpr double kMemoryBesideGpus = 0.5;  // of what is available

}  // namespace

CoreShare share_cores(const std::vector<int>& allowed, const base::Processors& processors,
                      const std::vector<int>& gpu_nodes, size_t most) {
  std::map<int, std::vector<int>> whole;  // threads of a physical core stay together
  std::map<int, int> node_of;             // by core; -1: not known
  for (const int id : allowed) {
    const base::Processor* const known = processors.find(id);
    const int core = known != nullptr ? known->core : id;
    whole[core].push_back(id);
    const bool numbered = known != nullptr && size_t(known->numa) < processors.nodes.size();
    node_of[core] = numbered ? processors.nodes[size_t(known->numa)].id : -1;
  }
  CoreShare share;
  const auto take = [&](int node) {
    auto core = std::ranges::find_if(
        whole, [&](const auto& each) { return node >= 0 && node_of[each.first] == node; });
    if (core == whole.end()) core = whole.begin();
    if (core == whole.end()) return false;
    share.drivers.insert(share.drivers.end(), core->second.begin(), core->second.end());
    whole.erase(core);
    return true;
  };
  // A core for each GPU, near to it, and one for the launcher, the agent and who samples.
  bool enough = take(-1);
  for (const int node : gpu_nodes) enough = enough && take(node);
  std::vector<int> left;
  for (const auto& [core, ids] : whole) left.insert(left.end(), ids.begin(), ids.end());
  most = std::min({left.size(), size_t(double(most) * kShareBesideGpus),
                   most > gpu_nodes.size() ? most - gpu_nodes.size() - 1 : 0});
  if (!enough || most == 0) return {};
  for (size_t i = 0; i < most; ++i) share.burn.push_back(left[i * left.size() / most]);
  std::ranges::sort(share.drivers);
  std::ranges::sort(share.burn);
  return share;
}

Result<std::vector<BurnDevice>> burn_gpus_and_cores(const BurnRun& run) {
  COLL_ASSIGN(const int count, transport::Device::count());  // before anything burns beside them
  std::vector<int> nodes;
  for (const base::NvidiaGpu& gpu : base::nvidia_gpus_here()) nodes.push_back(gpu.numa);
  nodes.resize(std::max(nodes.size(), size_t(count)), -1);
  const CoreShare share = share_cores(base::affinity_cores(), base::host_processors(), nodes,
                                      size_t(base::usable_cores()));
  BurnRun gpus = run, beside = run;
  gpus.drivers = share.drivers;
  beside.cores = share.burn;
  beside.memory_share = kMemoryBesideGpus;
  beside.look = {};
  // A fault that is asked for in memory is the GPU's.
  if (beside.fault.what != "core") beside.fault = {};
  Result<std::vector<BurnDevice>> cores = std::vector<BurnDevice>{};
  std::thread thread;
  if (!share.burn.empty()) thread = std::thread([&] { cores = burn_cores(beside); });
  auto devices = burn_gpus(gpus);
  if (thread.joinable()) thread.join();
  if (!devices) return devices.error();
  if (!cores) return cores.error();
  if (share.burn.empty())
    cores->push_back(
        {.device = kBurnHost, .model = {}, .why_not = "its GPUs need all of its cores"});
  devices->insert(devices->end(), std::make_move_iterator(cores->begin()),
                  std::make_move_iterator(cores->end()));
  return devices;
}

}  // namespace collctl::cmd
