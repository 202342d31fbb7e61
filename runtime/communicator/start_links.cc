// The second half of start-up: windows, links and the executor over them.
#include "base/format.h"
#include "base/log.h"
#include "runtime/communicator/start.h"
#include "runtime/executor/cpu.h"
#include "runtime/links/edges.h"
#include "runtime/plan/choice_log.h"
#include "runtime/plan/model.h"
#include "runtime/window/team_windows.h"

namespace collctl::runtime {

void Communicator::Start::make_wire() {
  Wire::Options w;
  w.rank = s_.rank;
  w.peers = &s_.peers;
  w.settings = &s_.settings;
  w.services.fds = s_.bootstrap.get();
  w.services.acceptor = s_.proxy.get();
  w.services.secret = id_.secret;
  w.services.interfaces = s_.interfaces;
  w.services.comm_hash = s_.hash;
  w.services.sockets_per_thread = s_.settings.sockets_per_thread;
  w.services.helper_threads = s_.settings.helper_threads;
  w.services.timed = s_.settings.count_waits;
  w.services.integrity = s_.settings.integrity;
  w.services.abort_word = s_.errors.abort_word();
  w.services.device = s_.device;
  w.services.plugin = s_.networks.plugin;
  w.bootstrap = s_.bootstrap.get();
  w.proxy = s_.proxy.get();
  w.network_ll128 = s_.shape.gpu && s_.shape.model->nodes > 1;
  w.wants_ll128 = [&s = s_](const Edge& edge) { return are_neighbours(s.rank, edge, s.shape); };
  w.no_p2p = [&s = s_](int a, int b) { return no_p2p_between(s.shape.no_p2p, a, b); };
  w.relay_of = [&s = s_](const Edge& edge) { return relay_of(s.rank, edge, s.shape); };
  w.nic_of = [&s = s_](const Edge& edge) { return nic_of(s.rank, edge, s.shape); };
  s_.wire = std::make_unique<Wire>(std::move(w));
  s_.blame.emplace(Blame::Options{.rank = s_.rank,
                                  .peers = s_.peers,
                                  .op_timeout_s = s_.settings.op_timeout_s,
                                  .bootstrap = s_.bootstrap.get(),
                                  .bootstrap_mutex = &s_.bootstrap_mutex,
                                  .wire = s_.wire.get(),
                                  .calls = &s_.calls,
                                  .errors = &s_.errors});
}

// Where ranks can share memory; a rank that cannot after all says so in the agreement that follows.
Status Communicator::Start::make_window() {
  if (s_.device != nullptr) return make_device_window();
  if (s_.shape.window_bytes == 0) return {};
  HostWindow::Options o;
  o.rank = s_.rank;
  o.nranks = s_.size;
  o.channels = s_.shape.window_channels;
  o.bank_bytes = s_.shape.window_bytes;
  o.comm_hash = s_.hash;
  o.bootstrap = s_.bootstrap.get();
  COLL_ASSIGN(s_.window, HostWindow::make(o, s_.window_failure, deadline_));
  return {};
}

Status Communicator::Start::make_user_windows() {
  COLL_ASSIGN(s_.user_windows, runtime::make_user_windows({.rank = s_.rank,
                                                           .peers = &s_.peers,
                                                           .settings = &s_.settings,
                                                           .comm_hash = s_.hash,
                                                           .device = s_.device,
                                                           .no_p2p = &s_.shape.no_p2p,
                                                           .bootstrap = s_.bootstrap.get()},
                                                          deadline_));
  return {};
}

Status Communicator::Start::start_tuner() {
  if (s_.tuner_plugin.calls == nullptr) return {};
  COLL_ASSIGN(s_.tuner, PluginTuner::start(s_.tuner_plugin, s_.hash, s_.hosts, s_.rank,
                                           [&s = s_](const Error& why) {
                                             Error mine = why;
                                             if (mine.rank < 0) mine.rank = s.rank;
                                             s.errors.fail(mine, true);
                                           }));
  s_.shape.tuner = s_.tuner.get();
  if (s_.rank == 0) COLL_INFO(tuning, "TUNER/Plugin : Using {}", s_.tuner->text());
  return {};
}

void Communicator::Start::make_cpu_executor() {
  CpuExecutor::Options e;
  e.abort_word = s_.errors.abort_word();
  e.op_timeout_s = s_.settings.op_timeout_s;
  e.waiting = &*s_.waiting;
  e.fault = s_.settings.fault;
  e.proxy = s_.proxy.get();
  e.flat = &s_.flat;
  s_.waits.emplace(s_.size, s_.settings.count_waits);
  e.waits = &*s_.waits;
  s_.executor = std::make_unique<CpuExecutor>(*s_.wire, e);
}

Status Communicator::Start::connect() {
  const int64_t start = now_ns();
  make_wire();
  Status connected = make_user_windows();
  log_shape();
  if (connected) connected = start_tuner();
  if (connected) connected = make_window();
  // Also a rank that has failed takes part in this exchange: the others wait for it there.
  if (Status made = s_.make_reducers(deadline_); !made && connected) connected = std::move(made);
  if (connected && s_.shape.nics != nullptr)
    connected = s_.wire->open_relays(s_.shape.nics->relays, s_.shape.nics->relayed_for, deadline_);
  if (connected) connected = s_.wire->connect(s_.collective_edges(), kCollectiveLinks, deadline_);
  if (connected && s_.device != nullptr) connected = make_gpu_executor();
  connected = s_.errors.with_reason(std::move(connected));
  // Tell the ranks that may be waiting for this one's links before going to the agreement.
  if (!connected) s_.errors.fail(connected.error(), true);
  COLL_TRY(s_.agree_on(std::move(connected), deadline_));
  s_.times.wire = base::seconds_since(start);
  if (s_.device != nullptr) {
    COLL_TRY(test_lines());
    COLL_TRY(calibrate_windows());
    use_device_window();
    if (s_.rank == 0) log_choices(s_.shape, s_.choices);
    return {};
  }
  if (s_.window != nullptr) s_.wire->use_windows(s_.window->windows());
  make_cpu_executor();
  if (s_.rank == 0 && s_.tuner != nullptr) log_choices(s_.shape, s_.choices);
  return {};
}

void Communicator::Start::log_shape() const {
  if (!base::log_enabled(base::LogLevel::info, base::Subsystem::init)) return;
  const int channels = int(s_.shape.channels.size());
  std::string trees = "Trees";
  for (int c = 0; c < channels; ++c) {
    const ChannelShape& channel = s_.shape.channels[size_t(c)];
    if (s_.rank == 0) {
      std::string order;
      for (const int32_t r : channel.ring) order += format(" {}", r);
      COLL_INFO(init, "Channel {:02}/{:02} :{}", c, channels, order);
    }
    const kernels::TreeLinks& t = channel.tree;
    trees += format(" [{}] {}/{}/{}->{}->{}", c, t.down[0], t.down[1], t.down[2], s_.rank, t.up);
  }
  COLL_INFO(init, "{}", trees);
}

}  // namespace collctl::runtime
