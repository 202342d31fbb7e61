#include "tests/unit/transport/rig.h"
#include "tests/places.h"

#include <dlfcn.h>
#include <unistd.h>

#include "base/host_facts.h"
#include "base/wait.h"
#include "transport/net/plugin/versions/table.h"
#include "transport/table/nets.h"
#include "transport/table/transports.h"
#ifdef COLLCTL_HAVE_FABRIC
#include "tests/fake_verbs/control.h"
#endif

namespace collctl::test {

Status MemoryFds::send_fd(int peer, uint64_t tag, int fd, Deadline) {
  MemoryFds& h = hub();
  const std::scoped_lock lock(h.mutex_);
  Fd copy(::dup(fd));
  if (!copy) return base::errno_error(ErrorCode::unavailable, "dup", errno);
  h.waiting_[{{self_, peer}, tag}] = std::move(copy);
  h.arrived_.notify_all();
  return {};
}

Result<Fd> MemoryFds::recv_fd(int peer, uint64_t tag, Deadline deadline) {
  MemoryFds& h = hub();
  std::unique_lock lock(h.mutex_);
  const Key key{{peer, self_}, tag};
  if (!base::wait_for(h.arrived_, lock, deadline, [&] { return h.waiting_.contains(key); }))
    return Error(ErrorCode::deadline, "no descriptor arrived");
  return std::move(h.waiting_.extract(key).mapped());
}

namespace {

// NET/IB in its variants: kinds of ports, queue pairs, ways to announce, several ports.
void add_fabrics(std::vector<RowSetting>& settings, const char* name) {
#ifdef COLLCTL_HAVE_FABRIC
  const auto add = [&](const std::string& fabric,
                       std::vector<std::pair<std::string, std::string>> knobs, bool gpu = false) {
    RowSetting setting{.name = name, .gpu = gpu};
    setting.fabric = fabric;
    setting.knobs = std::move(knobs);
    settings.push_back(std::move(setting));
  };
  add("fake_0:ib", {});
  add("fake_0:roce", {});
  add("fake_0:roce:v6", {{"COLLCTL_IB_ADAPTIVE_ROUTING", "1"}, {"COLLCTL_IB_AR_THRESHOLD", "0"}});
  add("fake_0:ib", {{"COLLCTL_IB_QPS_PER_CONNECTION", "3"}});
  add("fake_0:roce",
      {{"COLLCTL_IB_QPS_PER_CONNECTION", "4"}, {"COLLCTL_IB_SPLIT_DATA_ON_QPS", "1"}});
  add("fake_0:ib:ports=2", {{"COLLCTL_IB_MERGE_NICS", "1"}, {"COLLCTL_IB_SPLIT_DATA_ON_QPS", "1"}});
  add("fake_0:ib:ports=2", {{"COLLCTL_IB_MERGE_NICS", "1"}, {"COLLCTL_IB_PORT_FAILOVER", "1"}});
  // GPUs: staged in host memory, and read and written by the adapter, by either way.
  add("fake_0:ib", {}, true);
  add("fake_0:ib:dmabuf", {}, true);
  add("fake_0:roce:peermem", {{"COLLCTL_IB_QPS_PER_CONNECTION", "2"}}, true);
  add("fake_0:ib:ports=2:dmabuf",
      {{"COLLCTL_IB_MERGE_NICS", "1"}, {"COLLCTL_IB_SPLIT_DATA_ON_QPS", "1"}}, true);
#else
  (void)settings;
  (void)name;
#endif
}

// By a plugin: each version of the interface, and a GPU's memory staged, given, and by DMA-BUF;
// staged is the same for all between the oldest and the newest.
void add_plugins(std::vector<RowSetting>& settings, const char* name) {
  const auto add = [&](const std::string& plugin, bool gpu, const char* pointers) {
    RowSetting setting{.name = name, .gpu = gpu};
    setting.plugin = plugin;
    setting.knobs = {{"FAKE_PLUGIN_POINTERS", pointers}};
    settings.push_back(std::move(setting));
  };
  for (const auto& version : transport::net_plugin_versions()) {
    const std::string plugin = "fake" + std::to_string(version.number);
    add(plugin, false, "1");
    const auto& all = transport::net_plugin_versions();
    if (version.number == all.front().number || version.number == all.back().number)
      add(plugin, true, "1");
    for (const char* pointers : {"3", "5"}) add(plugin, true, pointers);
  }
}

}  // namespace

std::vector<RowSetting> row_settings() {
  std::vector<RowSetting> settings;
  for (const transport::Transport& row : transport::transports()) {
    const std::string_view name = row.name;
    if (name == "p2p") {
      for (const bool one_process : {false, true})
        for (const bool read : {false, true})
          settings.push_back({row.name, 1, 0, true, one_process, read});
      continue;
    }
    settings.push_back({row.name});
    if (name == "net") {
      settings.push_back({row.name, 3, 0});
      settings.push_back({row.name, 1, 1});
      settings.push_back({row.name, 2, 2});
    }
    if (name != "loopback") settings.push_back({row.name, 1, 0, true});
    if (name == "net") {
      settings.push_back({row.name, 2, 2, true});
      settings.push_back({row.name, 1, -1, true});
      for (RowSetting setting : {RowSetting{row.name}, {row.name, 2, 2}, {row.name, 1, 1, true}}) {
        setting.macs = true;
        settings.push_back(setting);
      }
      add_fabrics(settings, row.name);
      add_plugins(settings, row.name);
    }
  }
  return settings;
}

bool Side::has_error() {
  return first_error().has_value();
}

std::optional<Error> Side::first_error() {
  const std::scoped_lock lock(mutex);
  if (errors.empty()) return std::nullopt;
  return errors.front();
}

FakeGpus::FakeGpus(const fake_cuda::Setup& setup) {
  COLL_CHECK(fake_cuda::counts() == fake_cuda::Counts{});
  fake_cuda::set_up(setup);
}

FakeGpus::~FakeGpus() {
  COLL_CHECK(fake_cuda::counts() == fake_cuda::Counts{});
}

#ifdef COLLCTL_HAVE_FABRIC
FakeFabric::FakeFabric(const std::string& devices) {
  const std::string wrong = fake_verbs::set_up({.devices = devices});
  COLL_CHECK_NOTE(wrong.empty(), wrong.c_str());
}

FakeFabric::~FakeFabric() {
  const std::vector<std::string> misuses = fake_verbs::violations();
  COLL_CHECK_NOTE(misuses.empty(), misuses[0].c_str());
  const std::string left = fake_verbs::counts().text();
  COLL_CHECK_NOTE(fake_verbs::counts() == fake_verbs::Counts{}, left.c_str());
}
#else
FakeFabric::FakeFabric(const std::string&) {}
FakeFabric::~FakeFabric() = default;
#endif

namespace {

template <class Function>
Function function_of(const std::string& name, const char* symbol) {
  void* library = ::dlopen(FakePlugin::path(name).c_str(), RTLD_NOW | RTLD_LOCAL);
  COLL_CHECK(library != nullptr);  // stays loaded, as the product's own use of it does
  void* found = ::dlsym(library, symbol);
  COLL_CHECK(found != nullptr);
  return reinterpret_cast<Function>(found);
}

}  // namespace

FakePlugin::FakePlugin(const std::string& name)
    : name_(name), knob_("COLLCTL_NET_PLUGIN", path(name)) {}

std::string FakePlugin::path(const std::string& name) {
  return test::fake_plugins() + "/libnccl-net-" + name + ".so";
}

fake_plugin::Counts FakePlugin::counts(const std::string& name) {
  return function_of<fake_plugin::CountsFunction>(name, fake_plugin::kCountsName)();
}

int FakePlugin::write_late(const std::string& name) {
  return function_of<fake_plugin::LateFunction>(name, fake_plugin::kLateName)();
}

FakePlugin::~FakePlugin() {
  const fake_plugin::Counts left = counts(name_);
  const int version = std::atoi(name_.c_str() + std::strlen("fake"));
  const bool once = version <= 10;  // its interface has no end
  COLL_CHECK(left.sessions == (once ? 1 : 0) && left.listeners == 0 && left.connections == 0);
  COLL_CHECK(left.memories == 0 && left.requests == 0);
}

Side::~Side() {
  if (engine != nullptr && link != nullptr) engine->remove(link.get());
  link.reset();
  endpoint.reset();
}

namespace {

constexpr int kSender = 2, kReceiver = 5;

void fill_side(Side& side, int rank, const RowSetting& setting, const base::Secret& secret) {
  const std::string_view name = setting.name;
  side.info.rank = rank;
  side.info.pid = int32_t(::getpid());
  side.info.host_hash = 7;
  // Other rows than loopback see two processes, unless asked for one.
  side.info.process_hash = name == "loopback" || setting.one_process ? 9 : 9 + uint64_t(rank);
  side.info.network_namespace = 3;
  side.info.shm_device = name == "net" ? 0 : base::shm_device();
  if (!setting.gpu) side.info.mark = base::memory_mark();
  if (setting.gpu) {
    auto device = transport::Device::open(rank == kReceiver ? 1 : 0);
    COLL_CHECK(device);
    side.services.device = std::move(*device);
    side.info.kind = transport::DeviceKind::cuda;
    side.info.device = side.services.device->facts().ordinal;
    side.info.bus_id = side.services.device->facts().bus_number;
  }
  std::snprintf(side.info.host, sizeof side.info.host, "host%d", rank);
  if (!setting.fabric.empty()) side.info.nets = transport::find_networks("ib").value().kinds;
  if (!setting.plugin.empty()) {
    auto found = transport::find_networks("").value();
    side.info.nets = found.kinds;
    side.services.plugin = std::move(found.plugin);
  }
  side.services.secret = secret;
  side.services.comm_hash = 0x1234;
  side.services.sockets_per_thread = setting.sockets;
  side.services.helper_threads = setting.helpers;
  side.services.abort_word = &side.abort_word;
  side.services.integrity = setting.macs;
  if (name != "net") return;
  auto engine =
      runtime::ProxyEngine::start({.listen_at = base::parse_address("127.0.0.1:0").value(),
                                   .secret = secret,
                                   .abort_word = &side.abort_word,
                                   .on_error = [&side](const Error& error) {
                                     const std::scoped_lock lock(side.mutex);
                                     side.errors.push_back(error);
                                   }});
  COLL_CHECK(engine);
  side.engine = std::move(*engine);
  side.services.acceptor = side.engine.get();
  if (setting.gpu) side.engine->busy(true);
  const Address at = side.engine->address();
  side.info.net_address = at.storage;
  side.info.net_address_length = uint32_t(at.length);
}

}  // namespace

Rig::Rig(const RowSetting& setting) : row(transport::find_transport(setting.name)) {
  COLL_CHECK(row != nullptr);
  if (setting.gpu) gpus.emplace();
  if (!setting.fabric.empty()) fabric.emplace(setting.fabric);
  for (const char* word : {"dmabuf", "peermem"})
    fabric_reaches_gpus |= setting.fabric.find(word) != std::string::npos;
  for (const auto& [knob, value] : setting.knobs) knobs.emplace_back(knob, value);
  if (!setting.plugin.empty()) plugin.emplace(setting.plugin);
  base::Secret secret;
  secret.bytes.fill(0x5a);
  fill_side(sender, kSender, setting, secret);
  fill_side(receiver, kReceiver, setting, secret);
  auto hub = std::make_shared<MemoryFds>(-1);
  for (Side* side : {&sender, &receiver}) {
    side->fds = std::make_shared<MemoryFds>(side->info.rank, hub);
    side->services.fds = side->fds.get();
  }
  sender_spec = {.channel = 1,
                 .direction = Direction::send,
                 .self = sender.info,
                 .peer = receiver.info,
                 .geometry = {},
                 .purpose = 0,
                 .p2p_read = setting.read};
  receiver_spec = sender_spec;
  receiver_spec.direction = Direction::recv;
  std::swap(receiver_spec.self, receiver_spec.peer);
}

void Rig::close(Deadline deadline) {
  closed = true;
  std::thread other([&] {
    if (sender.engine != nullptr) (void)sender.engine->stop(deadline);
  });
  if (receiver.engine != nullptr) (void)receiver.engine->stop(deadline);
  other.join();
}

// A plugin's ends part as those of a communicator do, else it keeps what it may still write to.
// Data that a test has left lying in the slots is nobody's.
Rig::~Rig() {
  if (!plugin || closed || sender.has_error() || receiver.has_error()) return;
  const Deadline deadline = Deadline::after_ms(300);  // data that nobody has taken stays
  for (Side* side : {&sender, &receiver}) {
    if (side->link == nullptr) return;
    side->engine->remove(side->link.get());
    side->link->say_goodbye();
  }
  while (!(sender.link->drained() && receiver.link->drained()) && !deadline.passed()) {
    if (!sender.link->progress() || !receiver.link->progress()) return;
    base::yield_thread();
  }
}

void Rig::set_geometry(transport::FifoGeometry simple, transport::FifoGeometry ll) {
  for (LinkSpec* spec : {&sender_spec, &receiver_spec}) {
    spec->geometry[int(Protocol::simple)] = simple;
    spec->geometry[int(Protocol::ll)] = ll;
  }
}

Status Rig::open(transport::FifoGeometry simple, transport::FifoGeometry ll) {
  set_geometry(simple, ll);
  return wire(soon());
}

Status Rig::wire(Deadline deadline) {
  COLL_ASSIGN(sender.endpoint, row->open(sender_spec, sender.services));
  COLL_ASSIGN(receiver.endpoint, row->open(receiver_spec, receiver.services));
  COLL_ASSIGN(const Bytes from_sender, sender.endpoint->describe(deadline));
  COLL_ASSIGN(const Bytes from_receiver, receiver.endpoint->describe(deadline));
  COLL_ASSIGN(sender.link, sender.endpoint->connect(from_receiver, deadline));
  COLL_ASSIGN(receiver.link, receiver.endpoint->connect(from_sender, deadline));
  for (Side* side : {&sender, &receiver}) {
    if (fabric) {
      const bool direct = side->services.device != nullptr && fabric_reaches_gpus;
      COLL_CHECK(side->link->via() == (direct ? "NET/IB/0/GDRDMA" : "NET/IB/0"));
    }
    if (side->services.integrity) COLL_CHECK(side->link->via() == "NET/Socket/0/MAC");
    if (plugin) COLL_CHECK(side->link->via().starts_with("NET/Wires/"));
    if (side->engine != nullptr) side->engine->add(side->link.get());
  }
  return {};
}

}  // namespace collctl::test
