// NET by external plugins: each version, each call that fails, each answer that makes no sense.
#include "tests/catch.h"
#include "tests/places.h"
#include "tests/unit/transport/block.h"
#include "transport/net/plugin/versions/table.h"
#include "transport/table/nets.h"

namespace plugin_tests {

using namespace collctl;
using namespace collctl::test;

namespace {

RowSetting by_plugin(const std::string& plugin) {
  RowSetting setting{.name = "net"};
  setting.plugin = plugin;
  return setting;
}

void pass_one(Rig& rig, uint32_t bytes) {
  std::vector<uint8_t> data, got(bytes);
  pattern(data, bytes, 3);
  REQUIRE(put(*rig.out(Protocol::simple), data, soon()));
  REQUIRE(take(*rig.in(Protocol::simple), got, soon()));
  CHECK(got == data);
}

// The error of a link when the plugin's call fails; empty when it works.
std::string failure_of(const std::string& plugin, const char* call, const char* nonsense = "",
                       Deadline deadline = soon()) {
  const base::ScopedVariable fail("FAKE_PLUGIN_FAIL", call);
  const base::ScopedVariable answer("FAKE_PLUGIN_NONSENSE", nonsense);
  FakePlugin one(plugin);
  auto found = transport::find_networks("");
  if (!found) return found.error().chain();
  found->plugin.reset();
  Rig rig(by_plugin(plugin));
  rig.set_geometry({4096, 4}, {});
  if (Status wired = rig.wire(deadline); !wired) return wired.error().chain();
  std::vector<uint8_t> data(4096, 5), got(4096);
  const Deadline until = soon();
  const bool gone = put(*rig.out(Protocol::simple), data, until);
  bool moved = false;
  while (!moved && !rig.sender.has_error() && !rig.receiver.has_error() && !until.passed())
    moved = gone && take(*rig.in(Protocol::simple), got, Deadline::after_ms(20));
  for (Side* side : {&rig.sender, &rig.receiver})
    if (side->has_error()) return side->first_error()->chain();
  return moved ? "" : "nothing moved, and nobody said why";
}

// The plugin of each version of the interface, newest first.
std::vector<std::string> each_version() {
  std::vector<std::string> names;
  for (const auto& version : transport::net_plugin_versions())
    names.push_back("fake" + std::to_string(version.number));
  return names;
}

bool has(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a plugin of each version carries data") {
  CHECK(each_version().front() == "fake12");
  CHECK(each_version().back() == "fake6");
  for (const std::string& plugin : each_version()) {
    INFO(plugin);
    Rig rig(by_plugin(plugin));
    REQUIRE(rig.open({4096, 4}, {1024, 4}));
    pass_one(rig, 1000);
  }
}

TEST_CASE("more steps than a plugin takes requests") {
  for (const std::string& plugin : each_version()) {
    INFO(plugin);
    Rig rig(by_plugin(plugin));
    REQUIRE(rig.open({1024, 64}, {}));
    std::vector<uint8_t> data(1024), got(1024);
    std::thread sender([&] {
      for (int i = 0; i < 300; ++i) {
        std::vector<uint8_t> step;
        pattern(step, 1024, uint64_t(i));
        put(*rig.out(Protocol::simple), step, soon());
      }
    });
    int wrong = 0;
    for (int i = 0; i < 300; ++i) {
      pattern(data, 1024, uint64_t(i));
      if (!take(*rig.in(Protocol::simple), got, soon()) || got != data) ++wrong;
    }
    sender.join();
    CHECK(wrong == 0);
  }
}

TEST_CASE("of a plugin that does not say how much has arrived the send end says it") {
  const base::ScopedVariable silent("FAKE_PLUGIN_NONSENSE", "no-size");
  constexpr int kSteps = 300;  // more than either end remembers
  for (const std::string& plugin : each_version()) {
    INFO(plugin);
    Rig rig(by_plugin(plugin));
    REQUIRE(rig.open({1024, 64}, {1024, 8}));
    const auto bytes_of = [](int step) { return size_t(step * 37 % 1025); };
    std::thread sender([&] {
      for (int i = 0; i < kSteps; ++i) {
        std::vector<uint8_t> step;
        pattern(step, bytes_of(i), uint64_t(i));
        put(*rig.out(Protocol::simple), step, soon());
        pattern(step, 8 + size_t(i) % 60 * 8, uint64_t(i));
        put(*rig.out(Protocol::ll), step, soon());
      }
    });
    int wrong = 0;
    std::vector<uint8_t> data, got;
    for (int i = 0; i < kSteps; ++i) {
      Fifo& simple = *rig.in(Protocol::simple);
      const uint32_t index = uint32_t(simple.step % simple.slot_count);
      pattern(data, bytes_of(i), uint64_t(i));
      got.assign(data.size(), 0);
      if (!take(simple, got, soon()) || got != data) ++wrong;
      if (simple.records[index].bytes != data.size()) ++wrong;
      pattern(data, 8 + size_t(i) % 60 * 8, uint64_t(i));
      got.assign(data.size(), 0);
      if (!take(*rig.in(Protocol::ll), got, soon()) || got != data) ++wrong;
    }
    sender.join();
    CHECK(wrong == 0);
    for (Side* side : {&rig.sender, &rig.receiver}) CHECK_FALSE(side->has_error());
  }
}

// Plugins up to version 10 are initialised once in a process: tests/e2e/plugins.sh has that one.
TEST_CASE("each call of a plugin that fails is an error with its name, and what the plugin said") {
  for (const std::string& plugin : each_version()) {
    INFO(plugin);
    const bool session = plugin > "fake10" && plugin.size() == 6;
    for (const char* call : {"init", "devices", "getProperties", "listen", "connect", "regMr",
                             "isend", "irecv", "test", "test:3"}) {
      if (!session && std::string(call) == "init") continue;
      INFO(call);
      const std::string name = std::string(call).substr(0, std::string(call).find(':'));
      const std::string said = failure_of(plugin, call);
      INFO(said);
      CHECK(has(said, (name + " failed: system error (2)").c_str()));
      CHECK(has(said, (name + " was to fail").c_str()));
      CHECK(has(said, "network plugin Wires"));
    }
    for (const char* call : {"closeSend", "closeRecv", "closeListen", "finalize"}) {
      INFO(call);
      CHECK(failure_of(plugin, call) == "");  // what was to be carried has been
    }
  }
}

TEST_CASE("answers of a plugin that make no sense are refused") {
  for (const std::string& plugin : each_version()) {
    INFO(plugin);
    const auto of = [&](const char* nonsense) { return failure_of(plugin, "", nonsense); };
    CHECK(has(of("devices"), "it has 1048576 devices; expected 1 to 256"));
    CHECK(has(of("no-devices"), "it has 0 devices"));
    CHECK(has(of("no-host"), "wire0 does not support host memory"));
    // Older plugins do not report how much they send.
    const bool says = plugin == "fake9" || plugin.size() == 6;
    if (says) CHECK(has(of("no-bytes"), "wire0 sends at most 0 bytes at once"));
    CHECK(has(of("null-listener"), "listen returned nothing to accept from"));
    CHECK(has(of("size"), "a message of 1073741824 bytes arrived, but there is room for 4096"));
  }
}

TEST_CASE("a plugin that never connects ends at the deadline, and names the peer") {
  for (const std::string& plugin : each_version()) {
    INFO(plugin);
    const std::string said = failure_of(plugin, "", "silent", Deadline::after_seconds(1));
    INFO(said);
    CHECK(has(said, "waits for the connection of rank 5 (host host5) by network plugin Wires"));
  }
}

TEST_CASE("an accept that fails is the receiver's error") {
  for (const std::string& plugin : each_version()) {
    INFO(plugin);
    const base::ScopedVariable fail("FAKE_PLUGIN_FAIL", "accept");
    Rig rig(by_plugin(plugin));
    rig.set_geometry({4096, 4}, {});
    auto sender = rig.row->open(rig.sender_spec, rig.sender.services);
    auto receiver = rig.row->open(rig.receiver_spec, rig.receiver.services);
    REQUIRE(sender);
    REQUIRE(receiver);
    REQUIRE((*receiver)->describe(soon()));
    const Bytes blob = (*sender)->describe(soon()).value();
    auto refused = (*receiver)->connect(blob, soon());
    REQUIRE_FALSE(refused);
    CHECK(has(refused.error().chain(), "accept failed: system error (2); it said: accept was to"));
  }
}

TEST_CASE("a plugin whose accept waits for the peer does not hold up connects") {
  const base::ScopedVariable waits("FAKE_PLUGIN_NONSENSE", "waits");
  for (const std::string& plugin : each_version()) {
    INFO(plugin);
    Rig rig(by_plugin(plugin));
    rig.set_geometry({4096, 4}, {1024, 4});
    REQUIRE(rig.wire(Deadline::after_seconds(10)));
    pass_one(rig, 1000);
  }
}

// The receive end has receives posted for whatever might come.
TEST_CASE("a plugin has no request left when both ends have said goodbye") {
  for (const std::string& plugin : each_version()) {
    INFO(plugin);
    FakePlugin::write_late(plugin);  // of the tests before
    {
      Rig rig(by_plugin(plugin));
      REQUIRE(rig.open({4096, 4}, {1024, 4}));
      for (int i = 0; i < 3; ++i) pass_one(rig, 1000);
      rig.close(soon());
      CHECK_FALSE(rig.sender.has_error());
      CHECK_FALSE(rig.receiver.has_error());
    }
    CHECK(FakePlugin::write_late(plugin) == 0);
  }
}

TEST_CASE("memory that a plugin may still write to stays when its connection has gone") {
  for (const std::string& plugin : each_version()) {
    INFO(plugin);
    FakePlugin::write_late(plugin);
    {
      const base::ScopedVariable stuck("FAKE_PLUGIN_NONSENSE", "stuck-receive");
      Rig rig(by_plugin(plugin));
      REQUIRE(rig.open({4096, 4}, {}));
      std::vector<uint8_t> data(4096, 5), got(4096);
      REQUIRE(put(*rig.out(Protocol::simple), data, soon()));
      CHECK_FALSE(take(*rig.in(Protocol::simple), got, Deadline::after_ms(50)));
      const int64_t start = now_ns();
      rig.close(soon());
      CHECK(now_ns() - start < 15'000'000'000);  // it does not wait for ever
    }
    CHECK(FakePlugin::write_late(plugin) == 4);  // into the slots of the link that is gone
  }
}

// The plugin shows the GPU what came only when it is asked to flush.
TEST_CASE("what a GPU receives by a plugin is flushed where it is asked for") {
  for (const std::string& plugin : each_version())
    for (const bool chosen : {false, true}) {  // by the topology, else by the knob
      INFO(plugin << ", chosen " << chosen);
      RowSetting setting = by_plugin(plugin);
      setting.gpu = true;
      setting.knobs = {{"FAKE_PLUGIN_POINTERS", "3"},
                       {"COLLCTL_NET_FORCE_FLUSH", chosen ? "0" : "1"}};
      const int before = FakePlugin::counts(plugin).flushes;
      Rig rig(setting);
      rig.receiver_spec.nic.gdr.flush = chosen;
      REQUIRE(rig.open({4096, 4}, {}));
      CHECK(rig.receiver.link->via().ends_with("/GDRDMA"));
      CHECK(FakePlugin::counts(plugin).flushes == before);
      pass_one(rig, 4096);
      CHECK(FakePlugin::counts(plugin).flushes == before + 1);
    }
}

TEST_CASE("a plugin whose own GPU code puts together what arrives gets host memory") {
  const base::ScopedVariable unpacks("FAKE_PLUGIN_NONSENSE", "unpacks");
  for (const std::string& plugin : each_version()) {
    INFO(plugin);
    RowSetting setting = by_plugin(plugin);
    setting.gpu = true;
    setting.knobs = {{"FAKE_PLUGIN_POINTERS", "3"}};
    Rig rig(setting);
    REQUIRE(rig.open({4096, 4}, {}));
    const bool knows = plugin != "fake6";  // its interface has no such word
    CHECK(rig.receiver.link->via().ends_with("/GDRDMA") == !knows);
    pass_one(rig, 4096);
  }
}

// A size that an older version's int does not hold is not cut off.
TEST_CASE("sizes that a version of the interface cannot say are refused") {
  using namespace transport;
  for (const auto& version : net_plugin_versions()) {
    INFO(version.number);
    // Nothing is called: all that is not a size is missing.
    const std::vector<void*> empty(32, nullptr);
    const auto calls = version.net(empty.data());
    CHECK(calls->version() == version.number);
    CHECK(calls->most_requests() == (version.number == 6 ? 8 : 32));
    CHECK(std::string(calls->first_missing()) == "name");
    void* request = nullptr;
    if (version.number <= 8)
      CHECK(calls->send(nullptr, nullptr, 1ull << 31, 0, nullptr, &request) ==
            kNetPluginInvalidArgument);
    if (version.number <= 8)
      CHECK(calls->receive(nullptr, nullptr, 1ull << 32, 0, nullptr, &request) ==
            kNetPluginInvalidArgument);
    if (version.number <= 7)
      CHECK(calls->register_memory(nullptr, nullptr, 1ull << 31, kNetPluginHost, &request) ==
            kNetPluginInvalidArgument);
    if (version.number <= 8)
      CHECK(version.collective(empty.data())
                ->all_reduce(nullptr, nullptr, nullptr, 1ull << 31, 0, 0, nullptr, nullptr,
                             &request) == kNetPluginInvalidArgument);
  }
}

TEST_CASE("which networks a rank has with a plugin, and what two ranks use") {
  using transport::find_networks;
  const auto peer = [](int rank, uint8_t nets) {
    transport::PeerInfo info{};
    info.rank = rank;
    info.nets = nets;
    std::snprintf(info.host, sizeof info.host, "h%d", rank);
    return info;
  };
  uint8_t preferred = 0, only = 0;
  {
    FakePlugin plugin("fake11");
    auto both = find_networks("");
    REQUIRE(both);
    CHECK(both->network == "Wires");
    CHECK(both->devices.find("wire0 (10000 Mb/s), wire1 (10000 Mb/s), version 11 of") == 0);
    preferred = both->kinds;
    auto named = find_networks("wires");  // as the plugin calls it, in any case
    REQUIRE(named);
    only = named->kinds;
    auto other = find_networks("ropes");
    REQUIRE_FALSE(other);
    CHECK(other.error().code == ErrorCode::unavailable);
    CHECK(has(other.error().chain(), "is the network 'Wires'"));
    CHECK(find_networks("socket")->plugin == nullptr);
  }
  std::string why;
  const auto name = [&](uint8_t a, uint8_t b) -> std::string {
    const auto* x = transport::choose_net(peer(1, a), peer(2, b), why);
    const auto* y = transport::choose_net(peer(2, b), peer(1, a), why);
    CHECK(x == y);
    return x != nullptr ? x->name : "";
  };
  CHECK(name(preferred, preferred) == "plugin");
  CHECK(name(preferred, only) == "plugin");
  CHECK(name(0, 0) == "socket");
  CHECK(name(only, 0) == "");
  CHECK(name(preferred, 0) == "");  // named by its user: not left for sockets silently
  CHECK(has(why, "rank 2 (host h2) has no network plugin, and rank 1 (host h1) is to use one"));
}

TEST_CASE("libraries that are no plugin are refused in words") {
  const auto why = [](const char* library) {
    const base::ScopedVariable knob("COLLCTL_NET_PLUGIN", library);
    auto found = transport::find_networks("");
    REQUIRE_FALSE(found);
    CHECK(found.error().code == ErrorCode::unavailable);
    CHECK(has(found.error().hint, "COLLCTL_NET_PLUGIN=none"));
    CHECK(transport::find_networks("socket")->plugin == nullptr);  // nobody asks for it then
    return found.error().chain();
  };
  CHECK(has(why("nowhere"), "network plugin 'nowhere': libnccl-net-nowhere.so: cannot open"));
  CHECK(has(why("/nowhere/x.so"), "network plugin '/nowhere/x.so'"));
  const std::string other = test::fake_drivers() + "/libcuda.so.1";
  CHECK(has(why(other.c_str()),
            "is not a network plugin: it has no ncclNetPlugin_v12, nor one of versions 6 to 12"));
  const base::ScopedVariable none("COLLCTL_NET_PLUGIN", "none");
  CHECK(transport::find_networks("")->plugin == nullptr);
  auto named = transport::find_networks("nowhere");
  REQUIRE_FALSE(named);
  CHECK(has(named.error().chain(), "network 'nowhere', which is neither ib nor socket"));
}

}  // namespace plugin_tests
