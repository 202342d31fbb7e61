// Start-up of a communicator: bootstrap, cards, links, executor. Every phase ends by the one
// deadline of start-up, and a rank that fails tells the others why before it leaves.
#include <algorithm>
#include <cstring>
#include <thread>

#include "base/format.h"
#include "base/host_facts.h"
#include "base/log.h"
#include "base/version.h"
#include "kernels/cuda/launcher/launcher.h"
#include "runtime/plan/choice_log.h"
#include "runtime/plan/comm_shape.h"
#include "runtime/communicator/state.h"
#include "runtime/executor/cpu.h"
#include "runtime/bootstrap/interfaces.h"
#include "runtime/plan/network_reduction.h"

namespace collctl::runtime {
namespace {

// With a core for every rank a turn takes less than this; longer only hurts, because the scheduler
// may have put two spinning ranks on one core, and only a yield tells it so.
constexpr int64_t kSpinNs = 5'000;
constexpr int64_t kCrowdedSpinNs = 0;  // ranks share cores: somebody else has work to do

// At level VERSION, which asks for just this, and from INFO on; not among the warnings.
bool wants_version() {
  return base::log_enabled(base::LogLevel::info, base::Subsystem::init) ||
         !base::log_enabled(base::LogLevel::warn, base::Subsystem::init);
}

// How a rank's start-up ended, for all to see.
struct Outcome {
  int32_t code = 0;  // 0: well
  int32_t blamed = -1;
  uint32_t fell_back = 0;
  uint32_t no_window = 0;  // this rank could not do its part of it
  char message[240] = {};
};
static_assert(sizeof(Outcome) == 256);

}  // namespace

Status Communicator::State::join(const UniqueId& id, const CommOptions& options,
                                 Deadline deadline) {
  const int64_t start = now_ns();
  hash = id.hash();
  if (options.device >= 0) {
    launcher = options.launcher != nullptr ? options.launcher : &kernels::cuda::launcher();
    if (!launcher->built) return Error(ErrorCode::unavailable, launcher->why_not);
    opening = std::make_unique<DeviceOpening>(options.device, *launcher);
  }
  if (size > 1) {
    COLL_ASSIGN(networks, transport::find_networks(settings.net, hash));
  }
  COLL_ASSIGN(const Interface interface,
              bootstrap_interface(settings.interfaces, settings.family, id.root_address()));
  Bootstrap::Options o;
  o.id = id;
  o.rank = rank;
  o.size = size;
  o.interface = interface;
  o.host = base::host_name();
  o.deadline = deadline;
  o.task = options.task;
  o.cancel = options.cancel;
  o.checks_in = options.checks_in;
  COLL_ASSIGN(bootstrap, Bootstrap::join(o));
  cancelling.emplace(options.cancel, [this](const Error& why) {
    fail(why, false);
    bootstrap->announce_abort(start_aborted(why, rank, base::host_name()));
  });
  ProxyEngine::Options p;
  p.listen_at = interface.address;
  if (size == 1) p.listen_at = {};
  p.secret = id.secret;
  p.abort_word = &abort_word;
  p.on_error = [this](const Error& error) { fail(error, true); };
  COLL_ASSIGN(proxy, ProxyEngine::start(std::move(p)));
  if (!networks.devices.empty())
    COLL_INFO(net, "NET/{} : Using {} ; OOB {}:{}<0>", networks.network, networks.devices,
              interface.name, interface.address.host_text());
  if (networks.plugin != nullptr && networks.plugin->reducer() == nullptr)
    COLL_INFO(net, "COLLNET : not used: {}", networks.plugin->why_no_reducer());
  if (!networks.why_no_ib.empty()) COLL_INFO(net, "NET/IB : not used: {}", networks.why_no_ib);
  COLL_INFO(net, "Using network {}", networks.network);
  times.bootstrap = base::seconds_since(start);
  return exchange_cards(id, options, deadline);
}

// All ranks know that they cannot go on together: they leave together, so that none takes another's
// leaving for the cause.
Status Communicator::State::part(Status reason, Deadline deadline) {
  // The reason is what matters; a rank that does not say goodbye changes nothing about it.
  (void)bootstrap->finish(deadline.earlier(Deadline::after_seconds(5)));
  return reason;
}

Status Communicator::State::exchange_cards(const UniqueId& id, const CommOptions& options,
                                           Deadline deadline) {
  const int64_t start = now_ns();
  std::vector<RankCard> cards((size_t(size)));
  cards[size_t(rank)] = make_card(rank, id.hash(), settings, options.local_ranks, proxy->address());
  if (!options.host_id.empty()) act_on_host(cards[size_t(rank)], options.host_id);
  describe_networks(cards[size_t(rank)]);
  if (opening != nullptr) {
    // Early enough that the others can still be told.
    const auto tenth = int64_t(settings.start_timeout_s * 1e8);
    const auto opened = opening->wait(Deadline::at_ns(deadline.at() - tenth));
    add_device(cards[size_t(rank)], opened, options.share_device);
    if (opened) {
      device = *opened;
      proxy->run_on_node(base::pci_numa_node(device->facts().bus_id));
      cards[size_t(rank)].info.gdr = nic_reaches_gpu() ? 1 : 0;
    }
    times.device = opening->seconds();
    opening.reset();
  }
  COLL_TRY(bootstrap->all_gather(cards.data(), sizeof(RankCard), deadline));
  if (Status checked = check_cards(cards); !checked) return part(std::move(checked), deadline);
  if (const int other = first_with_other_settings(cards); other >= 0) {
    // Every rank sees the difference; the texts say which setting it is.
    const std::string text = shared_settings_text(settings);
    COLL_ASSIGN(const auto texts,
                bootstrap->all_gather_blobs(
                    {reinterpret_cast<const uint8_t*>(text.data()), text.size()}, deadline));
    const auto text_of = [&](int r) {
      return std::string(texts[size_t(r)].begin(), texts[size_t(r)].end());
    };
    Error differ = Error(ErrorCode::usage,
                         "settings that all ranks must share differ: " +
                             first_difference(text_of(0), 0, text_of(other), other),
                         "give every rank the same options and COLLCTL_ variables")
                       .blame(other);
    return part(std::move(differ), deadline);
  }
  std::vector<uint64_t> hashes;
  for (const RankCard& card : cards) {
    peers.push_back(card.info);
    hashes.push_back(card.info.host_hash);
  }
  hosts = group_by_host(hashes);
  const auto mine = std::find_if(hosts.begin(), hosts.end(), [&](const auto& host) {
    return std::binary_search(host.begin(), host.end(), rank);
  });
  local_ranks = mine->size();
  bootstrap->set_local_ranks({mine->begin(), mine->end()});

  choices = settings.choices;
  if (device != nullptr)
    COLL_TRY(shape_gpus(cards, deadline));
  else
    shape = make_shape(rank, cards, hosts, settings);
  shape.network = join_reducers(rank, cards, hosts, int(shape.channels.size()), settings);
  times.peers = base::seconds_since(start);
  return {};
}

std::vector<Edge> Communicator::State::collective_edges() const {
  const bool ring = choices.allows(kernels::AlgorithmId::ring);
  const bool tree = choices.allows(kernels::AlgorithmId::tree) ||
                    choices.allows(kernels::AlgorithmId::tree_split);
  const bool chains =
      choices.allows(kernels::AlgorithmId::collnet) && wire != nullptr && wire->has_reducers();
  std::vector<Edge> edges;
  if (size == 1) return edges;
  // GPU ranks connect what an operation needs at its first use: their links are large. The first
  // ring shows how they reach each other, and what is wrong.
  const int channels = device != nullptr ? 1 : int(shape.channels.size());
  for (int c = 0; c < channels; ++c) {
    const ChannelShape& channel = shape.channels[size_t(c)];
    if (ring) {
      const auto& order = channel.ring;
      const size_t n = order.size();
      const auto at = size_t(std::find(order.begin(), order.end(), rank) - order.begin());
      edges.push_back({c, rank, order[(at + 1) % n]});
      edges.push_back({c, order[(at + n - 1) % n], rank});
    }
    if (ring && device != nullptr) continue;
    const auto both_ways = [&](int other) {
      if (other < 0 || other == rank) return;
      edges.push_back({c, rank, other});
      edges.push_back({c, other, rank});
    };
    const auto all_of = [&](const kernels::TreeLinks& links) {
      both_ways(links.up);
      for (const int d : links.down) both_ways(d);
    };
    if (tree) all_of(channel.tree);
    if (chains && size_t(c) < shape.network.chains.size()) all_of(shape.network.chains[size_t(c)]);
  }
  return edges;
}

// All ranks come here, whatever became of them, and leave with one answer: the first failed rank's.
Status Communicator::State::agree(Status mine, Deadline deadline) {
  std::vector<Outcome> outcomes((size_t(size)));
  Outcome& own = outcomes[size_t(rank)];
  if (!mine) {
    own.code = int32_t(mine.error().code);
    own.blamed = mine.error().rank;
    const std::string text =
        mine.error().chain() + (mine.error().hint.empty() ? "" : " (" + mine.error().hint + ")");
    std::memcpy(own.message, text.data(), std::min(text.size(), sizeof own.message - 1));
  }
  own.fell_back = wire->fallback().empty() ? 0 : 1;
  own.no_window = window_failure.empty() ? 0 : 1;
  Status gathered = bootstrap->all_gather(outcomes.data(), sizeof(Outcome), deadline);
  if (!mine) return gathered ? part(std::move(mine), deadline) : std::move(mine);
  if (!gathered) {
    if (Status known = error(); !known) return known;
    return gathered;
  }
  for (int r = 0; r < size; ++r) {
    Outcome& other = outcomes[size_t(r)];
    if (other.code == 0) continue;
    other.message[sizeof other.message - 1] = 0;
    return part(Error(ErrorCode(other.code), other.message)
                    .blame(other.blamed >= 0 ? other.blamed : r)
                    .within(format("rank {} (host {})", r, peers[size_t(r)].host)),
                deadline);
  }
  wire->settled();
  // Once for the whole job: by the lowest rank that has something to tell.
  for (int r = 0; r < size; ++r) {
    if (outcomes[size_t(r)].fell_back == 0) continue;
    if (r == rank) COLL_WARN("{}", wire->fallback());
    break;
  }
  for (int r = 0; r < size; ++r) {
    if (outcomes[size_t(r)].no_window == 0) continue;
    if (r == rank)
      COLL_WARN("no memory that all ranks map, links are used instead: rank {}: {}", r,
                window_failure);
    drop_window(format("rank {} could not do its part of it", r));
    break;
  }
  return {};
}

// Where ranks can share memory; a rank that cannot after all says so in the agreement that follows.
Status Communicator::State::make_window(Deadline deadline) {
  if (device != nullptr) return make_device_window(deadline);
  if (shape.window_bytes == 0) return {};
  HostWindow::Options o;
  o.rank = rank;
  o.nranks = size;
  o.channels = shape.window_channels;
  o.bank_bytes = shape.window_bytes;
  o.comm_hash = hash;
  o.bootstrap = bootstrap.get();
  COLL_ASSIGN(window, HostWindow::make(o, window_failure, deadline));
  return {};
}

void Communicator::State::drop_window(const std::string& why) {
  window.reset();
  device_window.reset();
  window_failure.clear();
  shape.gpu_window = false;
  shape.window_bytes = 0;
  shape.window_channels = 0;
  shape.no_window = why;
}

Status Communicator::State::connect(const UniqueId& id, Deadline deadline) {
  const int64_t start = now_ns();
  Wire::Options w;
  w.rank = rank;
  w.peers = &peers;
  w.settings = &settings;
  w.services.fds = bootstrap.get();
  w.services.acceptor = proxy.get();
  w.services.secret = id.secret;
  w.services.comm_hash = hash;
  w.services.sockets_per_thread = settings.sockets_per_thread;
  w.services.helper_threads = settings.helper_threads;
  w.services.abort_word = &abort_word;
  w.services.device = device;
  w.services.nics = nics;
  w.services.nic_gdr = nic_gdr;
  w.services.plugin = networks.plugin;
  w.bootstrap = bootstrap.get();
  w.proxy = proxy.get();
  w.wants_ll128 = [this](const Edge& edge) { return neighbours(edge); };
  wire = std::make_unique<Wire>(std::move(w));
  Status connected = make_user_windows(deadline);
  log_shape();
  if (connected) connected = make_window(deadline);
  if (Status made = make_reducers(deadline); !made && connected) connected = std::move(made);
  if (connected) connected = wire->connect(collective_edges(), 0, deadline);
  if (connected && device != nullptr) connected = make_gpu_executor();
  connected = heeded(std::move(connected));
  // Tell the ranks that may be waiting for this one's links before going to the agreement.
  if (!connected) fail(connected.error(), true);
  COLL_TRY(agree(std::move(connected), deadline));
  times.wire = base::seconds_since(start);
  if (device != nullptr) {
    COLL_TRY(test_lines(deadline));
    if (shape.gpu_window && settings.window_verbs)
      gpu->use_verbs(device_window->verbs());
    else if (shape.gpu_window)
      gpu->use_window(device_window->memory());
    if (rank == 0) log_choices(shape, choices);
    return {};
  }
  if (window != nullptr) wire->use_windows(window->windows());

  CpuExecutor::Options e;
  e.abort_word = &abort_word;
  e.op_timeout_s = settings.op_timeout_s;
  e.spin_ns = settings.spin_us >= 0      ? settings.spin_us * 1000
              : shape.ranks_per_core > 1 ? kCrowdedSpinNs
                                         : kSpinNs;
  e.fault = settings.fault;
  e.proxy = proxy.get();
  e.flat = &flat;
  executor = std::make_unique<CpuExecutor>(*wire, e);
  return {};
}

void Communicator::State::log_shape() const {
  if (!base::log_enabled(base::LogLevel::info, base::Subsystem::init)) return;
  const int channels = int(shape.channels.size());
  std::string trees = "Trees";
  for (int c = 0; c < channels; ++c) {
    if (rank == 0) {
      std::string order;
      for (const int32_t r : shape.channels[size_t(c)].ring) order += format(" {}", r);
      COLL_INFO(init, "Channel {:02}/{:02} :{}", c, channels, order);
    }
    const kernels::TreeLinks& t = shape.channels[size_t(c)].tree;
    trees += format(" [{}] {}/{}/{}->{}->{}", c, t.down[0], t.down[1], t.down[2], rank, t.up);
  }
  COLL_INFO(init, "{}", trees);
}

void Communicator::State::log_complete() const {
  const int channels = int(shape.channels.size());
  COLL_INFO(init, "{} coll channels, {} p2p channels, {} p2p channels per peer", channels, channels,
            shape.default_channels);
  COLL_INFO(init,
            "comm {:#x} rank {} nranks {} {} {} busId {} localRanks {} - Init COMPLETE in {:.3f} "
            "s (bootstrap {:.3f}, peers {:.3f}, links {:.3f}{})",
            hash, rank, size, device != nullptr ? "cudaDev" : "cpuDev", peers[size_t(rank)].device,
            device != nullptr ? format("{:x}", peers[size_t(rank)].bus_id) : "-", local_ranks,
            times.total, times.bootstrap, times.peers, times.wire,
            device != nullptr ? format(", device {:.3f}", times.device) : "");
}

Result<std::unique_ptr<Communicator>> Communicator::init(const UniqueId& id, int rank, int size,
                                                         const CommOptions& options) {
  if (size < 1 || rank < 0 || rank >= size)
    return Error(ErrorCode::usage, format("rank {} of {}: expected 0 <= rank < size", rank, size));
  const int64_t start = now_ns();
  base::log_set_thread_device(rank);
  if (rank == 0 && wants_version()) COLL_LOG(version, init, "collctl version {}", base::kVersion);
  std::unique_ptr<Communicator> communicator(new Communicator());
  State& s = *communicator->state_;
  s.rank = rank;
  s.size = size;
  COLL_ASSIGN(s.settings, read_settings(options));
  const Deadline deadline = Deadline::after_seconds(s.settings.start_timeout_s);
  COLL_TRY_IN(s.join(id, options, deadline), format("start of rank {}", rank));
  COLL_TRY_IN(s.bootstrap->start_watch([&s](const Bootstrap::AbortNotice& notice) {
    s.fail(notice.as_heard_by(s.rank), false);
  }),
              format("start of rank {}", rank));
  COLL_TRY_IN(s.connect(id, deadline), format("start of rank {}", rank));
  s.cancelling.reset();
  s.times.total = base::seconds_since(start);
  s.log_complete();
  return communicator;
}

Result<std::vector<std::unique_ptr<Communicator>>> Communicator::init_many(
    const UniqueId& id, std::span<const int> ranks, int size, const CommOptions& options) {
  std::vector<std::optional<Result<std::unique_ptr<Communicator>>>> results(ranks.size());
  std::vector<std::jthread> threads;
  for (size_t i = 0; i < ranks.size(); ++i)
    threads.emplace_back([&, i] { results[i] = init(id, ranks[i], size, options); });
  for (auto& thread : threads) thread.join();  // each init ends by its deadline
  std::vector<std::unique_ptr<Communicator>> communicators;
  std::optional<Error> worst;
  for (auto& result : results) {
    if (*result) {
      communicators.push_back(std::move(*result).value());
      continue;
    }
    Error& error = result->error();
    if (!worst || base::severity(error.code) > base::severity(worst->code)) worst = error;
  }
  if (worst) return std::move(*worst);
  return communicators;
}

}  // namespace collctl::runtime
