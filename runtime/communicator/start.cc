#include "runtime/communicator/start.h"

#include <algorithm>
#include <cstdlib>
#include <thread>

#include "base/format.h"
#include "base/host_devices.h"
#include "base/host_facts.h"
#include "base/log.h"
#include "base/peer_closed.h"
#include "base/route.h"
#include "base/version.h"
#include "kernels/cuda/launcher/launcher.h"
#include "runtime/bootstrap/interfaces.h"
#include "runtime/communicator/agreement.h"
#include "runtime/communicator/calibrate.h"
#include "runtime/plan/comm_shape.h"
#include "runtime/plan/job_hosts.h"
#include "runtime/plan/network_reduction.h"

namespace collctl::runtime {
namespace {

// At level VERSION, which asks for just this, and from INFO on; not among the warnings.
bool wants_version() {
  return base::log_enabled(base::LogLevel::info, base::Subsystem::init) ||
         !base::log_enabled(base::LogLevel::warn, base::Subsystem::init);
}

// The bandwidth of the rank's network: its RDMA ports together, or the interfaces of its sockets.
void describe_rate(const transport::NetPresence& networks, std::span<const Interface> interfaces,
                   RankFacts& facts) {
  double gbps = 0;
  std::string name;
  int sockets = 0;
  if ((networks.kinds & (transport::kNetInfiniBand | transport::kNetRoce)) != 0) {
    int ports = 0;
    for (const base::RdmaPort& port : base::rdma_ports()) {
      if (port.state != "ACTIVE") continue;
      gbps += std::strtod(port.rate.c_str(), nullptr) / 8;
      if (ports++ == 0) name = port.device;
    }
    if (ports > 1) name += format(" and {} more", ports - 1);
  } else if ((networks.kinds & transport::kNetPlugin) == 0) {
    name = interfaces[0].name;
    sockets = int(interfaces.size());
    if (sockets > 1) name += format(" and {} more", sockets - 1);
    std::vector<double> rates;
    for (const base::NetInterface& each : base::net_interfaces())
      for (const Interface& used : interfaces)
        if (each.name == used.name && each.speed_mbps > 0)
          rates.push_back(double(each.speed_mbps) / 8e3);
    // Each carries as many channels as the others.
    if (rates.size() == interfaces.size()) gbps = sockets * std::ranges::min(rates);
  }
  add_network(facts, name, gbps, sockets);
}

// Routes prefer one of two interfaces in a subnet, unless a rule goes by the source address.
void warn_of_routes(const std::vector<Interface>& all) {
  for (size_t i = 1; i < all.size(); ++i)
    for (size_t j = 0; j < i; ++j) {
      if (!base::in_one_subnet(all[i].address, all[j].address, all[i].prefix_bits)) continue;
      const std::string by = base::route_device(base::neighbour_of(all[i].address), all[i].address);
      if (by.empty() || by == all[i].name) continue;
      COLL_WARN(
          "NET/Socket : {} and {} are in one subnet and this host's routes send by {} what comes "
          "from "
          "{}: give each a subnet or a rule of its own (ip rule), or name one "
          "(COLLCTL_SOCKET_IFNAME)",
          all[j].name, all[i].name, by, all[i].address.host_text());
      break;
    }
}

}  // namespace

Status Communicator::Start::run() {
  const int64_t start = now_ns();
  COLL_TRY(join());
  s_.times.bootstrap = base::seconds_since(start);
  COLL_TRY(exchange_facts());
  COLL_TRY(s_.bootstrap->start_watch([&s = s_](const Bootstrap::AbortNotice& notice) {
    s.errors.fail(notice.as_heard_by(s.rank), false);
  }));
  COLL_TRY(connect());
  cancelling_.reset();
  return {};
}

Status Communicator::Start::join() {
  s_.hash = id_.hash();
  if (options_.device >= 0) {
    s_.launcher = options_.launcher != nullptr ? options_.launcher : &kernels::cuda::launcher();
    if (!s_.launcher->built) return Error(ErrorCode::unavailable, s_.launcher->why_not);
    opening_ =
        std::make_unique<DeviceOpening>(options_.device, *s_.launcher, s_.settings.count_waits);
  }
  if (s_.size > 1) {
    COLL_ASSIGN(s_.networks, transport::find_networks(s_.settings.net, s_.hash));
    COLL_TRY(find_tuner());
  }
  COLL_ASSIGN(const auto matching,
              bootstrap_interfaces(s_.settings.interfaces, s_.settings.family, id_.root_address()));
  const Interface& interface = matching[0];
  s_.bootstrap_at = interface.address;
  s_.bootstrap_at.set_port(0);
  Bootstrap::Options o;
  o.id = id_;
  o.rank = s_.rank;
  o.size = s_.size;
  o.interface = interface;
  o.host = base::host_name();
  o.deadline = deadline_;
  o.task = options_.task;
  o.cancel = options_.cancel;
  o.checks_in = options_.checks_in;
  COLL_ASSIGN(s_.bootstrap, Bootstrap::join(o));
  s_.errors.announce_by(s_.bootstrap.get());
  cancelling_.emplace(options_.cancel, [&s = s_](const Error& why) {
    s.errors.fail(why, false);
    s.bootstrap->announce_abort(start_aborted(why, s.rank, base::host_name()));
  });
  COLL_TRY(start_proxy(matching));
  const transport::NetPresence& networks = s_.networks;
  if (!networks.devices.empty())
    COLL_INFO(net, "NET/{} : Using {} ; OOB {}:{}<0>", networks.network, networks.devices,
              interface.name, interface.address.host_text());
  if (networks.plugin != nullptr && networks.plugin->reducer() == nullptr)
    COLL_INFO(net, "COLLNET : not used: {}", networks.plugin->why_no_reducer());
  if (!networks.why_no_ib.empty()) COLL_INFO(net, "NET/IB : not used: {}", networks.why_no_ib);
  COLL_INFO(net, "Using network {}", networks.network);
  return {};
}

// A listener on every interface that sockets may use.
Status Communicator::Start::start_proxy(const std::vector<Interface>& matching) {
  const Interface& first = matching[0];
  ProxyEngine::Options p;
  p.secret = id_.secret;
  p.abort_word = s_.errors.abort_word();
  p.on_error = [&s = s_](const Error& error) {
    // The peer that found the fault may already be gone, and is not the one to blame.
    if (base::only_says_closed(error)) s.errors.wait_for_reason(error);
    s.errors.fail(error, true);
  };
  std::vector<Interface> all{first};
  if (s_.size > 1) {
    const std::string& names = s_.settings.interfaces;
    const Address& root = id_.root_address();
    all = data_interfaces(matching, first, !names.empty(), root);
    p.listen_at = first.address;
    for (size_t i = 1; i < all.size(); ++i) p.also_listen_at.push_back(all[i].address);
  }
  warn_of_routes(all);
  COLL_ASSIGN(s_.proxy, ProxyEngine::start(std::move(p)));
  if (s_.size == 1) return {};
  std::string text;
  const std::vector<Address> addresses = s_.proxy->addresses();
  for (size_t i = 0; i < all.size(); ++i) {
    all[i].address = addresses[i];
    text += format(" [{}]{}:{}<0>", i, all[i].name, all[i].address.host_text());
  }
  COLL_INFO(net, "NET/Socket : Using{}", text);
  s_.interfaces = std::make_shared<const std::vector<Interface>>(std::move(all));
  return {};
}

Status Communicator::Start::find_tuner() {
  const transport::NetPlugin* const net = s_.networks.plugin.get();
  COLL_ASSIGN(s_.tuner_plugin, find_tuner_plugin(net != nullptr ? net->entry().library : ""));
  return {};
}

void Communicator::Start::describe_networks(RankFacts& facts) const {
  const transport::NetPresence& networks = s_.networks;
  facts.info.nets = networks.kinds;
  if (opening_ == nullptr && s_.size > 1) describe_rate(networks, *s_.interfaces, facts);
  if ((networks.kinds & transport::kNetCollNet) != 0)
    facts.reducer = {hash_text(networks.plugin->reducer()->entry().name),
                     networks.plugin->reductions(), networks.plugin->most_reduced_bytes()};
}

namespace {

base::WaitPolicy::Terms wait_terms(const CommShape& shape, bool own_cores,
                                   const Settings& settings) {
  using base::WaitPolicy;
  if (settings.spin_us >= 0) return WaitPolicy::fixed(settings.spin_us * 1000);
  if (shape.ranks_per_core > 1) return WaitPolicy::crowded();
  const int64_t wakeup_ns = base::wakeup_ns();
  return own_cores ? WaitPolicy::own_core(wakeup_ns) : WaitPolicy::somewhere(wakeup_ns);
}

}  // namespace

Status Communicator::Start::exchange_facts() {
  const int64_t start = now_ns();
  std::vector<RankFacts> all_facts((size_t(s_.size)));
  RankFacts& own = all_facts[size_t(s_.rank)];
  own = own_facts(s_.rank, s_.hash, s_.settings, options_.local_ranks, s_.proxy->address());
  own.core_ranks = options_.core_ranks;
  KeptCalibration kept;
  if (s_.settings.calibrate && opening_ == nullptr && s_.size > 1)
    kept = kept_calibration(base::host_processors());
  own.place.calibration = kept.found;
  if (!options_.host_id.empty()) put_on_host(own, options_.host_id);
  describe_networks(own);
  add_tuner(own, s_.tuner_plugin.identity());
  if (opening_ != nullptr) open_gpu(own);
  COLL_TRY(s_.bootstrap->all_gather(all_facts.data(), sizeof(RankFacts), deadline_));
  if (Status checked = check_facts(all_facts); !checked)
    return leave_together(*s_.bootstrap, std::move(checked), deadline_);
  COLL_TRY(check_settings(all_facts));
  std::vector<uint64_t> hashes;
  for (const RankFacts& facts : all_facts) {
    s_.peers.push_back(facts.info);
    hashes.push_back(facts.info.host_hash);
  }
  s_.hosts = group_by_host(hashes);
  name_hosts(s_.peers, s_.hosts);
  const auto mine = std::find_if(s_.hosts.begin(), s_.hosts.end(), [&](const auto& host) {
    return std::binary_search(host.begin(), host.end(), s_.rank);
  });
  s_.local_ranks = mine->size();
  s_.core_ranks = core_ranks(all_facts, *mine, s_.rank);
  s_.bootstrap->set_local_ranks({mine->begin(), mine->end()});

  s_.choices = s_.settings.choices;
  if (s_.device != nullptr) {
    COLL_TRY(shape_gpus(all_facts));
  } else {
    COLL_TRY(calibrate_hosts(all_facts, kept));
    s_.shape = make_shape(s_.rank, all_facts, s_.hosts, s_.settings);
    std::copy(std::begin(s_.shape.slot_bytes), std::end(s_.shape.slot_bytes),
              s_.settings.slot_bytes);
    s_.waiting.emplace(wait_terms(s_.shape, has_own_cores(all_facts, *mine, s_.rank), s_.settings));
    s_.bootstrap->wait_by(&*s_.waiting);
  }
  s_.shape.network = join_reducers(s_.rank, all_facts, s_.hosts, s_.shape.channels, s_.settings);
  s_.times.peers = base::seconds_since(start);
  return {};
}

// All ranks see alike whether some host's first rank knows nothing of its machine; then these look,
// and all learn what they found.
Status Communicator::Start::calibrate_hosts(std::vector<RankFacts>& all_facts,
                                            const KeptCalibration& kept) {
  bool wanted = false;
  const std::vector<int32_t>* mine = nullptr;
  for (const auto& host : s_.hosts) {
    const Calibration& known = all_facts[size_t(host.front())].place.calibration;
    wanted |= host.size() > 1 && (s_.settings.recalibrate || !known.measured());
    if (host.front() == s_.rank) mine = &host;
  }
  if (!s_.settings.calibrate || !wanted) return {};
  std::vector<Calibration> of_rank(all_facts.size());
  Calibration& own = of_rank[size_t(s_.rank)];
  own = kept.found;
  if (mine != nullptr && mine->size() > 1 && (s_.settings.recalibrate || !own.measured())) {
    const base::Processors& processors = base::host_processors();
    if (!kept.problem.empty()) COLL_WARN("{}; it is measured anew", kept.problem);
    std::vector<int> allowed;
    for (const base::Processor& each : processors.online)
      if (std::any_of(mine->begin(), mine->end(), [&](int32_t r) {
            const int bit = each.id % RankFacts::kCoreBits;
            return (all_facts[size_t(r)].core_bits[bit / 64] >> bit % 64 & 1) != 0;
          }))
        allowed.push_back(each.id);
    // Where it cannot be kept every job would measure: constants do, unless it was asked for.
    Status kept_there = try_to_keep(processors);
    if (kept_there || s_.settings.recalibrate) {
      if (const Calibration now = calibrate(processors, allowed); now.measured()) own = now;
      if (kept_there && own.measured()) kept_there = keep_calibration(own, processors);
      COLL_INFO(init, "calibration: {}", own.measured() ? describe(own) : "no two free cores");
    }
    if (s_.settings.recalibrate && !own.measured())
      COLL_WARN("--recalibrate: this job has no two cores of {} to itself", base::host_name());
    if (s_.settings.recalibrate && !kept_there)
      COLL_WARN("--recalibrate: it holds for this job only: {}", kept_there.error().message);
  }
  COLL_TRY(s_.bootstrap->all_gather(of_rank.data(), sizeof(Calibration), deadline_));
  for (size_t r = 0; r < of_rank.size(); ++r) {
    sanitize(of_rank[r]);
    all_facts[r].place.calibration = of_rank[r];
  }
  return {};
}

// Every rank sees a difference; the texts say which setting it is.
Status Communicator::Start::check_settings(std::span<const RankFacts> all_facts) {
  const int other = first_with_other_settings(all_facts);
  if (other < 0) return {};
  const std::string text = shared_settings_text(s_.settings);
  COLL_ASSIGN(const auto texts, s_.bootstrap->all_gather_blobs(base::bytes_of(text), deadline_));
  const auto text_of = [&](int r) {
    return std::string(texts[size_t(r)].begin(), texts[size_t(r)].end());
  };
  Error differ = Error(ErrorCode::usage,
                       "settings that all ranks must share differ: " +
                           first_difference(text_of(0), 0, text_of(other), other),
                       "give every rank the same options and COLLCTL_ variables")
                     .blame(other);
  return leave_together(*s_.bootstrap, std::move(differ), deadline_);
}

void Communicator::Start::log_complete() const {
  const int channels = int(s_.shape.channels.size());
  const bool gpu = s_.device != nullptr;
  const transport::PeerInfo& own = s_.peers[size_t(s_.rank)];
  const InitTimes& times = s_.times;
  COLL_INFO(init, "{} coll channels, {} p2p channels, {} p2p channels per peer", channels, channels,
            s_.shape.default_channels);
  COLL_INFO(init,
            "comm {:#x} rank {} nranks {} {} {} busId {} localRanks {} - Init COMPLETE in {:.3f} "
            "s (bootstrap {:.3f}, peers {:.3f}, links {:.3f}{})",
            s_.hash, s_.rank, s_.size, gpu ? "cudaDev" : "cpuDev", own.device,
            gpu ? format("{:x}", own.bus_id) : "-", s_.local_ranks, times.total, times.bootstrap,
            times.peers, times.wire, gpu ? format(", device {:.3f}", times.device) : "");
}

Result<std::unique_ptr<Communicator>> Communicator::init(const UniqueId& id, int rank, int size,
                                                         const CommOptions& options) {
  if (size < 1 || rank < 0 || rank >= size)
    return Error(ErrorCode::usage, format("rank {} of {}: expected 0 <= rank < size", rank, size));
  base::log_set_thread_device(rank);
  if (rank == 0 && wants_version()) COLL_LOG(version, init, "collctl version {}", base::kVersion);
  return make(id, rank, size, options);
}

Result<std::unique_ptr<Communicator>> Communicator::make(const UniqueId& id, int rank, int size,
                                                         const CommOptions& options) {
  const int64_t begin = now_ns();
  std::unique_ptr<Communicator> communicator(new Communicator(rank, size));
  State& s = *communicator->state_;
  s.options = options;
  s.members = options.members;
  COLL_ASSIGN(s.settings, read_settings(options));
  const double left_s =
      options.start_left_s > 0 ? options.start_left_s : s.settings.start_timeout_s;
  Start start(s, id, options, Deadline::after_seconds(left_s));
  COLL_TRY_IN(start.run(), "start-up");
  s.times.total = base::seconds_since(begin);
  start.log_complete();
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
