#include "cmd/rails/matrix.h"

#include <algorithm>
#include <set>

#include "base/format.h"
#include "base/host_facts.h"
#include "base/host_limits.h"
#include "cmd/judge/blame.h"
#include "cmd/measure/fields.h"
#include "cmd/rails/memory_pair.h"
#include "cmd/rails/pair.h"
#include "runtime/bootstrap/interfaces.h"
#include "runtime/links/proxy.h"
#include "runtime/plan/job_hosts.h"
#include "runtime/request/settings.h"
#include "transport/net/ib/settings.h"

namespace collctl::runtime {

namespace {

constexpr double kMemorySteps = 3, kMostCurveSeconds = 40;  // of a step of memory_pair.cc

}  // namespace

std::vector<std::vector<std::pair<int, int>>> rail_rounds(int hosts, int sparse_from) {
  if (sparse_from == 0 || hosts < sparse_from) return cmd::tournament(hosts);
  std::vector<std::vector<std::pair<int, int>>> rounds;
  for (const cmd::Round& round : cmd::pair_rounds(hosts, sparse_from)) {
    rounds.emplace_back();
    for (const cmd::HostGroup& pair : round) rounds.back().emplace_back(pair.at(0), pair.at(1));
  }
  return rounds;
}

void RailMatrix::add(RailPair pair) {
  for (RailPair& each : pairs)
    if (each.from == pair.from && each.to == pair.to) {
      before.push_back(std::exchange(each, std::move(pair)));
      return;
    }
  pairs.push_back(std::move(pair));
}

double rail_timeout(const RailMatrix& so_far, int a, int b, double timeout_s) {
  for (const int host : {a, b}) {
    std::set<int> silent;
    bool answered = false;
    for (const RailPair& pair : so_far.pairs) {
      if (pair.from != host && pair.to != host) continue;
      for (const RailResult& cell : pair.cells) {
        if (cell.end == RailEnd::silent) silent.insert(pair.from == host ? pair.to : pair.from);
        answered |= cell.end == RailEnd::ok || cell.end == RailEnd::large_lost;
      }
    }
    if (!answered && silent.size() >= 2) return std::min(timeout_s, kHopelessSeconds);
  }
  return timeout_s;
}

struct Rails::State {
  Options options;
  Settings settings;
  int roce_version = 2;
  std::unique_ptr<RailMeeting> meeting;
  std::vector<std::unique_ptr<ProxyEngine>> listeners;  // by NIC, or one for RDMA ports
  std::shared_ptr<void> devices;                        // held open
  uint32_t abort_word = 0;
  std::vector<uint8_t> memory;
  std::unique_ptr<MemoryAreas> areas;  // of a host that acts, where GPU memory is wanted
  RailMatrix matrix;
  HostGroups groups;        // ranks by host
  std::vector<int> acting;  // ranks, by host
  int self = -1;            // index of the host that this rank acts for
  bool all_done = false;    // with the round, as of the last beat

  Status join_bootstrap(const Interface& interface, Deadline deadline);
  Status share_busy(const base::HostLoad& before);
  Status gather_hosts();
  Status gather_nics();
  Status listen(RailHost& host);
  RailSide side_with(int other) const;
  Status try_pair(int a, int b, double seconds, std::vector<RailPair>& found);
  Status run_round(const std::vector<std::pair<int, int>>& pairs, double seconds);
  Result<std::vector<int>> agree_on(const std::vector<int>& open);
  Status measure_again(const base::HostLoad& before);
  template <class T>
  Status share(const std::vector<T>& found, const std::function<void(T)>& take);
  Status try_memory(int a, int b, double seconds, std::vector<MemoryTrial>& found);
  Status run_memory(const HostRounds& rounds, double seconds);
  Status run_memories();
  Status beat(bool done);
  Deadline patience() const;
  Status run();
};

Rails::Rails() : state_(std::make_unique<State>()) {}
Rails::~Rails() = default;

void Rails::abort(const Error& why) {
  state_->meeting->abort(why);
}

Result<std::unique_ptr<Rails>> Rails::join(const Options& options) {
  if (options.size < 2)
    return Error(ErrorCode::usage, "rails needs at least two ranks, one on each host",
                 "give the hosts: collctl run -H a,b rails");
  std::unique_ptr<Rails> rails(new Rails());
  State& s = *rails->state_;
  s.options = options;
  CommOptions comm;
  comm.net = options.net;
  comm.start_timeout_s = options.start_timeout_s;
  comm.op_timeout_s = options.op_timeout_s;
  COLL_ASSIGN(s.settings, read_settings(comm));
  if (s.settings.integrity)
    return Error(ErrorCode::unavailable,
                 "COLLCTL_INTEGRITY is set, and the test data of rails carries no MACs",
                 "unset it: rails sends nothing of a user's");
  COLL_ASSIGN(const transport::IbSettings ib, transport::read_ib_settings());
  s.roce_version = ib.roce_version;
  COLL_ASSIGN(
      const Interface interface,
      bootstrap_interface(s.settings.interfaces, s.settings.family, options.id.root_address()));
  const Deadline started = Deadline::after_seconds(
      options.start_left_s > 0 ? options.start_left_s : s.settings.start_timeout_s);
  if (options.relay != nullptr) {
    s.meeting = meet_through(*options.relay, options.rank, options.size);
    if (options.checks_in) options.checks_in();
    COLL_TRY_IN(s.meeting->gather({}, started), "check-in");
  } else {
    COLL_TRY(s.join_bootstrap(interface, started));
  }
  ProxyEngine::Options p;
  p.listen_at = interface.address;
  p.secret = options.id.secret;
  p.abort_word = &s.abort_word;
  COLL_ASSIGN(auto listener, ProxyEngine::start(std::move(p)));
  s.listeners.push_back(std::move(listener));
  return rails;
}

Status Rails::State::join_bootstrap(const Interface& interface, Deadline deadline) {
  Bootstrap::Options o;
  o.id = options.id;
  o.rank = options.rank;
  o.size = options.size;
  o.interface = interface;
  o.host = base::host_name();
  o.deadline = deadline;
  o.task = options.task;
  o.cancel = options.cancel;
  o.checks_in = options.checks_in;
  COLL_ASSIGN(auto bootstrap, Bootstrap::join(o));
  meeting = meet_over(std::move(bootstrap));
  return {};
}

// Which rank acts for which host.
Status Rails::State::gather_hosts() {
  ByteWriter w;
  w.put(base::host_hash(options.id.hash()));
  COLL_ASSIGN(const auto all,
              meeting->gather(w.bytes(), Deadline::after_seconds(settings.op_timeout_s)));
  std::vector<uint64_t> hashes;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    ByteReader r(all[rank]);
    hashes.push_back(r.get<uint64_t>());
    if (!r.ok())
      return Error(ErrorCode::lost, format("rank {} does not say what its host is", rank))
          .blame(int(rank));
  }
  groups = group_by_host(hashes);
  matrix.one_host = groups.size() == 1;
  if (matrix.one_host)
    acting = {groups[0][0], groups[0][1]};
  else
    for (const auto& group : groups) acting.push_back(group[0]);
  const auto mine = std::ranges::find(acting, options.rank);
  if (mine != acting.end()) self = int(mine - acting.begin());
  return {};
}

// Interfaces are listened on one by one, so that each accepts its own connections.
Status Rails::State::listen(RailHost& host) {
  if (host.nics.empty() || host.nics[0].rdma()) return {};
  listeners.clear();
  for (RailNic& nic : host.nics) {
    ProxyEngine::Options p;
    p.listen_at = nic.address;
    if (!matrix.one_host && host.nics.size() > 1) p.interface = nic.name;
    p.secret = options.id.secret;
    p.abort_word = &abort_word;
    auto listener = ProxyEngine::start(std::move(p));
    if (!listener) return std::move(listener.error()).within(nic.name);
    nic.address = (*listener)->address();
    listeners.push_back(std::move(*listener));
  }
  return {};
}

Status Rails::State::gather_nics() {
  Bytes mine;
  if (self >= 0) {
    RailHost host;
    host.host = base::this_host();
    host.rank = options.rank;
    host.hash = base::host_hash(options.id.hash());
    host.network_namespace = base::network_namespace();
    Status found = find_rail_nics(
        {.net = settings.net, .interfaces = settings.interfaces, .family = settings.family}, host,
        devices);
    if (found && options.memory != MemoryChoice::host) {
      std::vector<transport::DevicePointer> gpus;
      find_rail_gpus(host, gpus);
      areas = std::make_unique<MemoryAreas>(std::move(gpus), options.message_bytes);
    }
    host.beside_rdma = listeners[0]->address();
    if (found) found = listen(host);
    if (!found) return std::move(found.error()).within(host.host.name);
    mine = base::encoded(host);
    memory.resize(RailPath::memory_bytes(options.message_bytes));
  }
  COLL_ASSIGN(const auto texts,
              meeting->gather(mine, Deadline::after_seconds(settings.op_timeout_s)));
  for (const int rank : acting) {
    auto host = base::decoded<RailHost>(texts[size_t(rank)]);
    if (!host) return std::move(host.error()).blame(rank);
    matrix.hosts.push_back(std::move(*host));
  }
  std::vector<Host> told(size_t(options.size));
  for (size_t i = 0; i < acting.size(); ++i)
    for (const int32_t rank : groups[matrix.one_host ? 0 : i])
      told[size_t(rank)] = matrix.hosts[i].host;
  const std::vector<Host> hosts = job_hosts(told, groups);
  for (size_t i = 0; i < acting.size(); ++i) matrix.hosts[i].host = hosts[size_t(acting[i])];
  return {};
}

RailSide Rails::State::side_with(int other) const {
  RailSide side;
  side.meeting = meeting.get();
  side.mine = &matrix.hosts[size_t(self)];
  side.theirs = &matrix.hosts[size_t(other)];
  side.first = self < other;
  side.both_ways = !matrix.one_host;
  for (const auto& listener : listeners) side.acceptors.push_back(listener.get());
  side.secret = options.id.secret;
  side.comm_hash = options.id.hash();
  side.timeout_s = rail_timeout(matrix, self, other, options.timeout_s);
  side.op_timeout_s = settings.op_timeout_s;
  side.roce_version = roce_version;
  return side;
}

// Both directions, the lower host's first.
Status Rails::State::try_pair(int a, int b, double seconds, std::vector<RailPair>& found) {
  RailSide side = side_with(self == a ? b : a);
  side.memory = {.data = memory.data(), .message_bytes = options.message_bytes};
  side.seconds = seconds;
  side.beat = [this] { return beat(false); };
  COLL_ASSIGN(auto results, try_rails(side));
  found.push_back({.from = a, .to = b, .cells = std::move(results[0])});
  if (side.both_ways) found.push_back({.from = b, .to = a, .cells = std::move(results[1])});
  return {};
}

// All ranks get what the lower host of each pair found.
template <class T>
Status Rails::State::share(const std::vector<T>& found, const std::function<void(T)>& take) {
  ByteWriter w;
  for (const T& one : found) w.put_bytes(base::encoded(one));
  COLL_ASSIGN(const auto texts, meeting->gather(w.bytes(), patience()));
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    ByteReader r(texts[rank]);
    while (r.ok() && !r.at_end()) {
      T one;
      Record io(r.get_bytes());
      fields(io, one);
      if (!io.status() || !io.rest().empty() || !is_of_hosts(one, matrix.hosts)) r.fail();
      if (r.ok()) take(std::move(one));
    }
    if (!r.ok())
      return Error(ErrorCode::lost, format("the results of rank {} are malformed", rank))
          .blame(int(rank));
  }
  return {};
}

// While pairs of hosts are at it all ranks meet every so often: who waits hears that those who test
// go on, and a rank that hangs is known soon, however long a round takes.
Status Rails::State::beat(bool done) {
  const auto mine = uint8_t(done);
  COLL_ASSIGN(const auto all, meeting->gather({&mine, 1}, patience()));
  all_done =
      std::ranges::all_of(all, [](const Bytes& each) { return each.size() == 1 && each[0] != 0; });
  return {};
}

// From one beat to the next a rank takes one step beyond the second in which none is due. By that
// second the partner of a rank that hangs is first to say so.
Deadline Rails::State::patience() const {
  double step_s = 1 + std::max(options.seconds, options.again_seconds) + options.timeout_s;
  if (options.memory != MemoryChoice::host) step_s = kMemorySteps * step_s + kMostCurveSeconds;
  return Deadline::after_seconds(std::max(settings.op_timeout_s, step_s) + kRailBeatSeconds);
}

Status Rails::State::run_round(const std::vector<std::pair<int, int>>& pairs, double seconds) {
  std::vector<RailPair> found;
  for (const auto& [a, b] : pairs) {
    if (self != a && self != b) continue;
    COLL_TRY_IN(try_pair(a, b, seconds, found),
                format("{} and {}", matrix.hosts[size_t(a)].host, matrix.hosts[size_t(b)].host));
    if (self == b) found.clear();  // the other end says the same
  }
  for (all_done = false; !all_done;) COLL_TRY(beat(true));
  return share<RailPair>(found, [&](RailPair pair) { matrix.add(std::move(pair)); });
}

// Others that had a host's processors, or the hypervisor, made its paths slow; its own cgroup's
// quota is the host's own fault.
Status Rails::State::share_busy(const base::HostLoad& before) {
  std::string why;
  if (self >= 0 && !matrix.one_host)  // where the other end is no stranger
    why = cmd::busy_reason(before, 1).substr(0, kMostRailText);
  COLL_ASSIGN(const auto texts, meeting->gather(base::bytes_of(why), patience()));
  for (size_t host = 0; host < acting.size(); ++host) {
    const Bytes& text = texts[size_t(acting[host])];
    matrix.hosts[host].busy = std::string(text.begin(), text.end()).substr(0, kMostRailText);
  }
  return {};
}

// Rank 0 says which hosts are open; all do as it says.
Result<std::vector<int>> Rails::State::agree_on(const std::vector<int>& mine) {
  ByteWriter w;
  for (const int host : mine) w.put(int32_t(host));
  COLL_ASSIGN(const auto texts, meeting->gather(w.bytes(), patience()));
  std::vector<int> open;
  ByteReader r(texts[0]);
  while (r.ok() && !r.at_end()) {
    open.push_back(r.get<int32_t>());
    if (open.back() < 0 || open.back() >= int(matrix.hosts.size())) r.fail();
  }
  if (!r.ok())
    return Error(ErrorCode::lost, "rank 0 names hosts to try again that there are none").blame(0);
  return open;
}

// Sure is what is bad twice, and beside hosts that are good: one bad measurement is noise.
Status Rails::State::measure_again(const base::HostLoad& before) {
  for (int round = 0; round < kMostAgain; ++round) {
    std::vector<int> in_doubt;
    if (options.rank == 0 && options.again) in_doubt = options.again(matrix, round);
    COLL_ASSIGN(const std::vector<int> open, agree_on(in_doubt));
    if (open.size() < 2) return {};
    if (options.rank == 0 && options.progress)
      options.progress(format("rails: {} hosts once more", open.size()));
    for (std::vector<std::pair<int, int>> pairs : cmd::tournament(int(open.size()))) {
      for (auto& pair : pairs) {
        const int x = open[size_t(pair.first)], y = open[size_t(pair.second)];
        pair = {std::min(x, y), std::max(x, y)};
      }
      COLL_TRY(run_round(pairs, options.again_seconds));
    }
    COLL_TRY(share_busy(before));
  }
  return {};
}

Status Rails::State::try_memory(int a, int b, double seconds, std::vector<MemoryTrial>& found) {
  RailSide side = side_with(self == a ? b : a);
  side.seconds = seconds;
  side.beat = [this] { return beat(false); };
  std::vector<MemoryTrial> trials =
      plan_trials(matrix.hosts[size_t(a)], matrix.hosts[size_t(b)], {a, b}, matrix.one_host,
                  options.every_nic, roce_version);
  COLL_TRY(try_memories(side, *areas, options.sizes, trials));
  if (self == a) std::move(trials.begin(), trials.end(), std::back_inserter(found));
  return {};
}

Status Rails::State::run_memory(const HostRounds& rounds, double seconds) {
  for (size_t i = 0; i < rounds.size(); ++i) {
    if (options.rank == 0 && options.progress)
      options.progress(format("GPU memory: round {} of {}", i + 1, rounds.size()));
    std::vector<MemoryTrial> found;
    for (const auto& [a, b] : rounds[i]) {
      if (self != a && self != b) continue;
      COLL_TRY_IN(try_memory(a, b, seconds, found),
                  format("{} and {}", matrix.hosts[size_t(a)].host, matrix.hosts[size_t(b)].host));
    }
    for (all_done = false; !all_done;) COLL_TRY(beat(true));
    COLL_TRY(share<MemoryTrial>(
        found, [&](MemoryTrial trial) { matrix.trials.push_back(std::move(trial)); }));
  }
  return {};
}

Status Rails::State::run_memories() {
  std::vector<bool> with_gpus;
  for (const RailHost& host : matrix.hosts) with_gpus.push_back(!host.gpus.list.empty());
  const HostRounds rounds = memory_rounds(with_gpus);
  options.sizes.large_s /= double(std::max<size_t>(rounds.size(), 1));
  COLL_TRY(run_memory(rounds, options.seconds));
  if (matrix.trials.empty()) return {};
  for (int round = 0; round < kMostMemoryAgain; ++round) {
    std::vector<int> in_doubt;
    if (options.rank == 0 && options.memory_again) in_doubt = options.memory_again(matrix);
    COLL_ASSIGN(const std::vector<int> open, agree_on(in_doubt));
    if (open.empty()) return {};
    COLL_TRY(run_memory(memory_rounds_again(open, int(matrix.hosts.size()), round),
                        options.again_seconds));
  }
  return {};
}

Status Rails::State::run() {
  COLL_TRY_IN(gather_hosts(), "finding the hosts");
  COLL_TRY_IN(gather_nics(), "finding the NICs");
  HostRounds rounds;
  if (options.memory != MemoryChoice::gpu)
    rounds = rail_rounds(int(matrix.hosts.size()), options.sparse_from);
  const base::HostLoad before = base::host_load();
  for (size_t i = 0; i < rounds.size(); ++i) {
    if (options.rank == 0 && options.progress)
      options.progress(format("rails: round {} of {}", i + 1, rounds.size()));
    COLL_TRY(run_round(rounds[i], options.seconds));
  }
  COLL_TRY(share_busy(before));
  if (!rounds.empty()) COLL_TRY(measure_again(before));
  if (options.memory != MemoryChoice::host) {
    COLL_TRY(run_memories());
    COLL_TRY(share_busy(before));
  }
  std::ranges::stable_sort(matrix.pairs, [](const RailPair& a, const RailPair& b) {
    return std::pair(a.from, a.to) < std::pair(b.from, b.to);
  });
  COLL_TRY_IN(meeting->finish(patience()), "finish");
  return {};
}

Result<RailMatrix> Rails::run() {
  if (Status found = state_->run(); !found) {
    abort(found.error());
    return std::move(found.error());
  }
  return std::move(state_->matrix);
}

}  // namespace collctl::runtime
