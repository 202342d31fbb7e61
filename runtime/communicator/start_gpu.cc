// The start of GPU ranks, where it differs: their shape, their window, their executor.
#include <algorithm>

#include "base/format.h"
#include "base/host_facts.h"
#include "base/log.h"
#include "runtime/communicator/start.h"
#include "runtime/executor/window_times.h"
#include "runtime/links/edges.h"
#include "runtime/plan/gpu_cost.h"
#include "runtime/plan/gpu_shape.h"
#include "runtime/plan/model.h"
#include "runtime/plan/reach.h"
#include "transport/net/ib/ib.h"

namespace collctl::runtime {
namespace {

// Whether the window algorithms by verbs serve this; the planner knows their collectives.
bool verbs_serve(Collective collective, kernels::AlgorithmId, kernels::Protocol protocol, DataType,
                 RedOp, int nranks, uint64_t) {
  return collective != Collective::send_recv && protocol == kernels::Protocol::simple && nranks > 1;
}

}  // namespace

// Waits for the GPU, early enough that the others can still be told.
void Communicator::Start::open_gpu(RankFacts& facts) {
  const auto tenth = int64_t(s_.settings.start_timeout_s * 1e8);
  const auto opened = opening_->wait(Deadline::at_ns(deadline_.at() - tenth));
  add_device(facts, opened, options_.share_device);
  if (opened) {
    s_.device = *opened;
    s_.proxy->run_on_node(base::pci_numa_node(s_.device->facts().bus_id));
    facts.info.gdr = nic_reaches_gpu() ? 1 : 0;
    // NVLink between hosts is a network, and has no MACs.
    if (s_.settings.integrity) std::ranges::fill(facts.info.fabric_cluster, uint8_t{0});
  }
  s_.times.device = opening_->seconds();
  opening_.reset();
}

bool Communicator::Start::nic_reaches_gpu() const {
  if ((s_.networks.kinds & (transport::kNetInfiniBand | transport::kNetRoce)) == 0) return false;
  const auto how = transport::ib_reaches_gpu(s_.device);
  if (how) {
    COLL_INFO(net, "NET/IB : GPU memory of {} by {}", s_.device->text(), *how);
  } else {
    COLL_INFO(net, "NET/IB : no GPU memory of {}: {}", s_.device->text(), how.error().chain());
  }
  return how.ok();
}

// Rings and trees from what the machines say of themselves.
Status Communicator::Start::shape_gpus(std::span<const RankFacts> all_facts) {
  for (const RankFacts& facts : all_facts)
    if (facts.info.compute_capability < s_.peers[size_t(s_.weakest)].compute_capability)
      s_.weakest = facts.info.rank;
  const Bytes mine = describe_gpus(s_.rank, all_facts, s_.hosts, s_.settings);
  COLL_ASSIGN(const auto blobs, s_.bootstrap->all_gather_blobs(mine, deadline_));
  CommShape& shape = s_.shape;
  COLL_ASSIGN(shape, make_gpu_shape(s_.rank, all_facts, s_.hosts, blobs, s_.settings));
  const bool verbs = s_.settings.window_verbs;
  shape.no_window = why_no_device_window(all_facts, s_.hosts, s_.settings, *s_.launcher);
  if (shape.no_window.empty()) shape.no_window = no_p2p_text(shape.no_p2p);
  shape.gpu_window = shape.no_window.empty();
  may_pin_ = may_have_pinned_window(all_facts, s_.hosts, s_.settings, *s_.launcher);
  shape.pinned_window = !shape.gpu_window && may_pin_;
  shape.window_serves = verbs ? &verbs_serve : s_.launcher->window_serves;
  shape.window_direct = verbs ? nullptr : s_.launcher->window_direct;
  // Links get no slots for what will not be used.
  constexpr int kLl128 = int(kernels::Protocol::ll128), kSimple = int(kernels::Protocol::simple);
  if (shape.slot_bytes[kLl128] == 0) s_.settings.slot_bytes[kLl128] = 0;
  for (const int each : {kSimple, int(kernels::Protocol::ll)})
    s_.settings.slot_bytes[each] = shape.slot_bytes[each];
  return {};
}

Status Communicator::Start::make_pinned_window() {
  COLL_ASSIGN(s_.pinned_window,
              PinnedWindow::make({.rank = s_.rank,
                                  .nranks = s_.size,
                                  .part_bytes = s_.launcher->window_host_bytes(s_.size),
                                  .own_bytes = s_.launcher->window_own_bytes(s_.size),
                                  .comm_hash = s_.hash,
                                  .device = s_.device,
                                  .bootstrap = s_.bootstrap.get()},
                                 s_.window_failure, deadline_));
  return {};
}

Status Communicator::Start::make_device_window() {
  if (s_.shape.pinned_window) return make_pinned_window();
  if (!s_.shape.gpu_window) return {};
  DeviceWindow::Options o;
  o.rank = s_.rank;
  o.nranks = s_.size;
  o.part_bytes = s_.settings.window_verbs ? DeviceWindow::kVerbsPartBytes
                                          : s_.launcher->window_part_bytes(s_.size);
  o.comm_hash = s_.hash;
  o.device = s_.device;
  o.peers = s_.peers;
  o.bootstrap = s_.bootstrap.get();
  COLL_ASSIGN(DeviceWindow::Made made, DeviceWindow::make(o, s_.window_failure, deadline_));
  s_.device_window = std::move(made.window);
  if (made.without < 0 || !may_pin_) return {};
  if (s_.rank == made.without)
    COLL_WARN("no GPU memory that all ranks map, host memory serves instead: rank {}: {}", s_.rank,
              s_.window_failure);
  s_.shape.gpu_window = false;
  s_.shape.no_window = s_.window_failure.empty()
                           ? format("rank {} could not do its part of it", made.without)
                           : s_.window_failure;
  s_.shape.pinned_window = true;
  goes_through_host(s_.shape);
  return make_pinned_window();
}

Status Communicator::Start::make_gpu_executor() {
  CudaExecutor::Options o;
  o.rank = s_.rank;
  o.nranks = s_.size;
  o.device = s_.device;
  o.launcher = s_.launcher;
  o.op_timeout_s = s_.settings.op_timeout_s;
  o.count_waits = s_.settings.count_waits;
  o.proxy = s_.proxy.get();
  o.flat = &s_.flat;
  o.on_failure = [&s = s_](Error error) { s.note_gpu_failure(std::move(error)); };
  auto made = CudaExecutor::make(*s_.wire, std::move(o));
  if (!made) return std::move(made.error()).blame(s_.rank);
  s_.gpu = std::move(*made);
  s_.errors.stop_gpu(s_.gpu.get());
  return {};
}

// LL128 only where lines come whole, which is tested: where all ranks map each other's memory
// there, else over the links of rings and trees.
Status Communicator::Start::test_lines() {
  CommShape& shape = s_.shape;
  if (shape.slot_bytes[int(kernels::Protocol::ll128)] == 0) return {};  // no_ll128 says why
  if (shape.model->nodes > 1)
    COLL_TRY(test_lines_of_links());
  else
    COLL_TRY(test_lines_in_window());
  shape.ll128_passed = shape.no_ll128.empty();
  if (s_.rank == 0) COLL_INFO(init, "LL128 : {}", shape.ll128_passed ? "in use" : shape.no_ll128);
  return {};
}

Result<TornStoreVerdict> Communicator::Start::test_lines_by(TornStoreOptions o) {
  o.device = s_.device;
  o.launcher = s_.launcher;
  o.bootstrap = s_.bootstrap.get();
  o.proxy = s_.proxy.get();
  COLL_ASSIGN(TornStoreVerdict verdict, test_torn_stores(o, deadline_));
  s_.shape.no_ll128 = verdict.why;
  s_.unended_test = std::move(verdict.unended);
  return verdict;
}

Status Communicator::Start::test_lines_in_window() {
  CommShape& shape = s_.shape;
  if (!shape.gpu_window) {
    shape.no_ll128 = "the ranks share no mapped memory to test its lines in: " + shape.no_window;
    return {};
  }
  COLL_ASSIGN(const TornStoreVerdict verdict,
              test_lines_by(torn_stores_in_window(s_.device_window->memory(),
                                                  s_.device_window->part_bytes())));
  if (!verdict.memory_lost) return {};
  if (s_.rank == 0)
    COLL_WARN("the memory that all ranks map is not used, links are used instead: {}", verdict.why);
  s_.lost_window = std::move(s_.device_window);
  s_.drop_window(verdict.why);
  return {};
}

Status Communicator::Start::test_lines_of_links() {
  CommShape& shape = s_.shape;
  const std::vector<std::vector<Edge>> tests = line_tests(s_.rank, shape, s_.hosts);
  std::vector<Edge> all;
  for (const auto& edges : tests) all.insert(all.end(), edges.begin(), edges.end());
  Status connected = s_.errors.with_reason(s_.wire->connect(all, kCollectiveLinks, deadline_));
  if (!connected) s_.errors.fail(connected.error(), true);
  COLL_TRY(s_.agree_on(std::move(connected), deadline_));
  for (size_t i = 0; i < tests.size() && shape.no_ll128.empty(); ++i) {
    TornStoreOptions o = lines_of_links(tests[i]);
    o.where = i == 0 ? "inside hosts" : "between hosts";
    COLL_ASSIGN(const TornStoreVerdict verdict, test_lines_by(std::move(o)));
    if (verdict.runs_on) return Error(ErrorCode::lost, verdict.why);
  }
  // Later links get no slots for what will not be used.
  constexpr int kLl128 = int(kernels::Protocol::ll128);
  if (!shape.no_ll128.empty()) s_.settings.slot_bytes[kLl128] = shape.slot_bytes[kLl128] = 0;
  return {};
}

TornStoreOptions Communicator::Start::lines_of_links(const std::vector<Edge>& edges) const {
  TornStoreOptions o;
  o.lines = torn_store_lines(s_.settings.slot_bytes[int(kernels::Protocol::ll128)]);
  for (const Edge& edge : edges) {
    const bool sends = edge.from == s_.rank;
    kernels::Fifo* const fifo = s_.wire->fifo(edge, kernels::Protocol::ll128);
    if (fifo == nullptr) {
      o.cannot = format("channel {} of rank {} -> rank {} has no LL128: {}", edge.channel,
                        edge.from, edge.to, s_.wire->why(edge));
      continue;
    }
    const bool network =
        (fifo->flags & (kernels::kFifoProxyReads | kernels::kFifoProxyWrites)) != 0;
    (sends ? o.writes : o.reads)
        .push_back({.peer = sends ? edge.to : edge.from,
                    .lines = fifo->slots,
                    .fifo = network ? fifo : nullptr});
  }
  return o;
}

// A stored measurement counts. On machines that the model has no table of, the first job measures,
// where the result can be stored: else every job would.
Status Communicator::Start::calibrate_windows() {
  CommShape& shape = s_.shape;
  const bool pinned = shape.pinned_window;
  if (!s_.settings.calibrate || s_.size < 2 || options_.share_device || s_.settings.window_verbs ||
      !(shape.gpu_window || pinned) || !shape.model->known) {
    if (s_.rank == 0 && s_.settings.recalibrate)
      COLL_WARN("--recalibrate: nothing to measure: {}",
                shape.no_window.empty() ? "these GPUs share no memory of a machine that is known"
                                        : shape.no_window);
    return {};
  }
  std::string signature;  // the first rank's, who alone reads and keeps
  struct Known {
    GpuCalibration found;
    int32_t wanted = 0;  // to be measured now
  };
  std::vector<Known> of_rank(size_t(s_.size));
  if (s_.rank == 0) {
    signature = window_signature(*shape.model, pinned, base::host_processors());
    const KeptWindows kept = kept_windows(signature);
    of_rank[0].found = kept.found;
    const bool unknown = !kept.found.measured() && !has_window_table(*shape.model, pinned);
    if (s_.settings.recalibrate || (unknown && try_to_keep_windows(signature)))
      of_rank[0].wanted = 1;
    if (of_rank[0].wanted != 0 && !kept.problem.empty())
      COLL_WARN("{}; it is measured anew", kept.problem);
  }
  COLL_TRY(s_.bootstrap->all_gather(of_rank.data(), sizeof(Known), deadline_));
  GpuCalibration found = of_rank[0].found;
  if (of_rank[0].wanted != 0) {
    COLL_ASSIGN(found, measured_windows(signature));
  }
  sanitize(found);
  if (found.measured()) count_with(shape, found);
  return {};
}

Result<GpuCalibration> Communicator::Start::measured_windows(const std::string& signature) {
  const int64_t start = now_ns();
  const bool pinned = s_.shape.pinned_window;
  WindowTimesOptions o;
  o.device = s_.device;
  o.launcher = s_.launcher;
  o.bootstrap = s_.bootstrap.get();
  o.memory = pinned ? s_.pinned_window->memory() : s_.device_window->memory();
  // More say more, where they are soon done.
  o.large_launches = std::clamp(int(path_of_windows(*s_.shape.model, pinned).gbps / 30), 2, 12);
  for (size_t i = 0; i < kCalibratedKernels.size(); ++i) {
    const CalibratedKernel& kernel = kCalibratedKernels[i];
    const auto serves = [&](uint64_t bytes) {
      return s_.launcher->window_serves(Collective::all_reduce, kernel.algorithm, kernel.protocol,
                                        DataType::float32, RedOp::sum, 2, bytes);
    };
    const bool may =
        kernel.protocol == kernels::Protocol::ll ||
        (!pinned && (kernel.protocol == kernels::Protocol::simple || s_.shape.ll128_passed));
    if (may && serves(kernel.small) && serves(kernel.large)) o.kernels |= 1u << i;
  }
  COLL_ASSIGN(WindowTimes times, time_windows(o, deadline_));
  if (times.unended != nullptr) s_.unended_test = std::move(times.unended);
  if (times.memory_lost)
    return Error(ErrorCode::lost, times.why, "COLLCTL_CALIBRATE=0 goes without");
  if (s_.rank != 0) return times.found;
  if (!times.found.measured()) {
    COLL_WARN("{}", times.why.empty() ? "--recalibrate: no kernel could be measured" : times.why);
    return times.found;
  }
  COLL_INFO(init, "calibration: {} ({:.3g} ms)", describe(times.found),
            double(now_ns() - start) / 1e6);
  const Status kept = keep_windows(times.found, signature);
  if (s_.settings.recalibrate && !kept)
    COLL_WARN("--recalibrate: it holds for this job only: {}", kept.error().message);
  return times.found;
}

void Communicator::Start::use_device_window() {
  if (s_.shape.pinned_window) s_.gpu->use_window(s_.pinned_window->memory());
  if (!s_.shape.gpu_window) return;
  if (s_.settings.window_verbs)
    s_.gpu->use_verbs(s_.device_window->verbs());
  else
    s_.gpu->use_window(s_.device_window->memory());
}

}  // namespace collctl::runtime
