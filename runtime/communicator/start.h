// Start-up of a communicator: bootstrap and GPU, what all ranks tell each other, windows and links,
// executor. Every phase ends by the one deadline of start-up, and a rank that fails tells the
// others why before it leaves. Private to runtime/communicator.
//
// Threads: start-up's. Lives as long as start-up, fills in the State that it is given.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "runtime/communicator/calibrate.h"
#include "runtime/communicator/device_opening.h"
#include "runtime/communicator/state.h"
#include "runtime/plan/rank_facts.h"

namespace collctl::runtime {

class Communicator::Start {
 public:
  Start(State& state, const UniqueId& id, const CommOptions& options, Deadline deadline)
      : s_(state), id_(id), options_(options), deadline_(deadline) {}
  Status run();
  void log_complete() const;

 private:
  // start.cc, in this order
  Status join();
  Status exchange_facts();
  Status start_proxy(const std::vector<Interface>& matching);
  void describe_networks(RankFacts& facts) const;
  Status find_tuner();
  Status check_settings(std::span<const RankFacts> all_facts);
  Status calibrate_hosts(std::vector<RankFacts>& all_facts, const KeptCalibration& kept);
  // start_links.cc
  Status connect();
  void make_wire();
  Status make_window();
  Status make_user_windows();
  Status start_tuner();
  void make_cpu_executor();
  void log_shape() const;
  // start_gpu.cc
  void open_gpu(RankFacts& facts);
  bool nic_reaches_gpu() const;
  Status shape_gpus(std::span<const RankFacts> all_facts);
  Status make_pinned_window();
  Status make_device_window();
  Status make_gpu_executor();
  Status test_lines();
  Status test_lines_in_window();
  Status test_lines_of_links();
  TornStoreOptions lines_of_links(const std::vector<Edge>& edges) const;
  Result<TornStoreVerdict> test_lines_by(TornStoreOptions options);
  Status calibrate_windows();
  Result<GpuCalibration> measured_windows(const std::string& signature);
  void use_device_window();

  State& s_;
  const UniqueId& id_;
  const CommOptions& options_;
  const Deadline deadline_;
  std::unique_ptr<DeviceOpening> opening_;
  bool may_pin_ = false;  // GPU ranks: a window in host memory, where there is no other
  std::optional<base::Cancel::Listener> cancelling_;
};

}  // namespace collctl::runtime
