// Faults between two ends: peers that die, strangers, liars, a full /dev/shm.
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>
#include <string>

#include "tests/asleep.h"
#include "tests/catch.h"
#include "tests/skip.h"
#include "tests/unit/transport/block.h"
#include "transport/edge.h"
#include "transport/net/greeting.h"
#include "transport/net/socket/lane.h"

namespace faults_tests {

using namespace collctl;
using namespace collctl::test;

namespace {

std::optional<Error> wait_error(Side& side, Deadline deadline) {
  while (!side.has_error() && !deadline.passed()) base::sleep_until(Deadline::after_ms(5));
  return side.first_error();
}

void drop_link(Side& side) {
  side.engine->remove(side.link.get());
  side.link.reset();
}

std::vector<RowSetting> net_settings() {
  std::vector<RowSetting> settings;
  for (const RowSetting& setting : row_settings())
    if (std::string_view(setting.name) == "net") settings.push_back(setting);
  return settings;
}

// But for the folder of sockets, which jobs that run beside this test make and remove.
std::set<std::string> files_in_shm() {
  std::set<std::string> names;
  if (DIR* dir = ::opendir("/dev/shm")) {
    while (const dirent* entry = ::readdir(dir))
      if (std::string_view(entry->d_name).starts_with("collctl")) names.insert(entry->d_name);
    ::closedir(dir);
  }
  names.erase("collctl-" + std::to_string(::getuid()));
  return names;
}

// Runs `child` in a process of its own and returns how that ended; killed after 30 s.
template <class Child>
int in_child(Child child) {
  const pid_t pid = ::fork();
  REQUIRE(pid >= 0);
  if (pid == 0) ::_exit(child());
  int status = 0;
  const Deadline deadline = Deadline::after_seconds(30);
  while (::waitpid(pid, &status, WNOHANG) == 0) {
    if (deadline.passed()) ::kill(pid, SIGKILL);
    base::sleep_until(Deadline::after_ms(2));
  }
  return status;
}

int times(std::string_view text, std::string_view word) {
  int found = 0;
  for (size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) ++found;
  return found;
}

}  // namespace

TEST_CASE("a peer that dies is an error that names it") {
  for (const RowSetting& setting : net_settings())
    for (const bool receiver_dies : {true, false}) {
      INFO(setting.text() << " receiver dies " << receiver_dies);
      // It would keep, and rightly, what the plugin may still write to.
      if (receiver_dies && setting.gpu && !setting.plugin.empty()) continue;
      Rig rig(setting);
      REQUIRE(rig.open({4096, 4}, {1024, 4}));
      std::vector<uint8_t> data(4096, 1), got(4096);
      REQUIRE(put(*rig.out(Protocol::simple), data, soon()));
      REQUIRE(take(*rig.in(Protocol::simple), got, soon()));
      Side& survivor = receiver_dies ? rig.sender : rig.receiver;
      drop_link(receiver_dies ? rig.receiver : rig.sender);
      const auto error = wait_error(survivor, soon());
      REQUIRE(error);
      CHECK(error->code == ErrorCode::lost);
      CHECK(error->rank == (receiver_dies ? 5 : 2));
      CHECK(error->host == (receiver_dies ? "host5" : "host2"));
      CHECK(error->chain().find("rank 2 -> rank 5 channel 1") != std::string::npos);
      // Where it was: the address of the peer, or the network.
      const std::string where = setting.fabric.empty() ? "127.0.0.1:" : "NET/IB/";
      INFO(error->chain());
      CHECK((!setting.plugin.empty() || error->chain().find(where) != std::string::npos));
      // Plugins have a word of their own for it, or none.
      const int named = times(error->chain(), "(host " + error->host + ")");
      CHECK((named == 1 || (named == 0 && !setting.plugin.empty())));
    }
}

TEST_CASE("a peer that dies under a block that drives by itself") {
  Rig rig({"net"});
  REQUIRE(rig.open({65536, 4}, {}));
  std::vector<uint8_t> data(65536, 1);
  bool waits = false;
  std::thread killer([&] {
    waits = test::wait_until_others_sleep();
    drop_link(rig.receiver);
  });
  const Deadline deadline = soon();
  while (!rig.sender.has_error() && !deadline.passed())
    put(*rig.out(Protocol::simple), data, Deadline::after_ms(100), {rig.sender.engine.get()});
  killer.join();
  CHECK(waits);
  CHECK(rig.sender.has_error());
}

TEST_CASE("saying goodbye is no failure, vanishing afterwards neither") {
  for (const RowSetting& setting : net_settings()) {
    // A plugin's end waits 2 s for a peer that does not leave; where its data lies is all the same.
    if (!setting.plugin.empty() && setting.gpu) continue;
    INFO(setting.text());
    Rig rig(setting);
    REQUIRE(rig.open({65536, 8}, {1024, 4}));
    std::vector<uint8_t> data(65536, 3), got(65536);
    for (int i = 0; i < 8; ++i) REQUIRE(put(*rig.out(Protocol::simple), data, soon()));
    // The sender leaves with data under way: all of it still arrives.
    REQUIRE(rig.sender.engine->stop(soon()));
    rig.sender.link.reset();
    for (int i = 0; i < 8; ++i) {
      REQUIRE(take(*rig.in(Protocol::simple), got, soon()));
      CHECK(got == data);
    }
    CHECK(test::wait_until_others_sleep());
    CHECK_FALSE(rig.receiver.has_error());
    const Status stopped = rig.receiver.engine->stop(soon());
    INFO((stopped ? "" : stopped.error().chain()));
    REQUIRE(stopped);
  }
}

TEST_CASE("who expects the end is told of no connection that breaks, and does not wait for it") {
  for (const bool expected : {true, false}) {
    INFO("expected " << expected);
    Rig rig({"net"});
    REQUIRE(rig.open({65536, 4}, {}));
    std::vector<uint8_t> data(65536, 3), got(65536);
    REQUIRE(put(*rig.out(Protocol::simple), data, soon()));
    REQUIRE(take(*rig.in(Protocol::simple), got, soon()));
    if (expected) rig.receiver.engine->expect_close();
    drop_link(rig.sender);
    if (!expected) CHECK(wait_error(rig.receiver, soon()));
    CHECK(rig.receiver.engine->stop(soon()));
    CHECK(rig.receiver.has_error() != expected);
  }
}

TEST_CASE("stop ends at its deadline when the peer takes nothing") {
  Rig rig({"net"});
  REQUIRE(rig.open({65536, 2}, {}));
  std::vector<uint8_t> data(65536, 3);
  while (put(*rig.out(Protocol::simple), data, Deadline::after_ms(100))) {
  }
  Status stopped = rig.sender.engine->stop(Deadline::after_ms(200));
  REQUIRE_FALSE(stopped);
  CHECK(stopped.error().code == ErrorCode::deadline);
}

TEST_CASE("a peer without the secret gets nowhere") {
  Rig rig({"net"});
  rig.set_geometry({1024, 4}, {});
  rig.sender.services.secret.bytes.fill(1);
  auto sender = rig.row->open(rig.sender_spec, rig.sender.services);
  auto receiver = rig.row->open(rig.receiver_spec, rig.receiver.services);
  REQUIRE(sender);
  REQUIRE(receiver);
  const Bytes from_sender = (*sender)->describe(soon()).value();
  const Bytes from_receiver = (*receiver)->describe(soon()).value();
  auto refused = (*sender)->connect(from_receiver, soon());
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::lost);
  CHECK(refused.error().rank == 5);
  INFO(refused.error().chain());
  CHECK(times(refused.error().chain(), "127.0.0.1:") == 1);
  auto lonely = (*receiver)->connect(from_sender, Deadline::after_ms(200));
  REQUIRE_FALSE(lonely);
  CHECK(lonely.error().code == ErrorCode::deadline);
  CHECK(lonely.error().rank == 2);
  CHECK(lonely.error().chain().find("rank 2 (host host2)") != std::string::npos);
}

TEST_CASE("a connection of another communicator is not taken for ours") {
  Rig rig({"net"});
  rig.sender.services.comm_hash = 99;
  rig.set_geometry({1024, 4}, {});
  Status wired = rig.wire(Deadline::after_ms(300));
  REQUIRE_FALSE(wired);
  CHECK(wired.error().code == ErrorCode::deadline);
}

TEST_CASE("an aborted communicator does not wait for connections") {
  Rig rig({"net"});
  rig.set_geometry({1024, 4}, {});
  auto receiver = rig.row->open(rig.receiver_spec, rig.receiver.services);
  auto sender = rig.row->open(rig.sender_spec, rig.sender.services);
  REQUIRE((*receiver)->describe(soon()));
  const Bytes blob = (*sender)->describe(soon()).value();
  std::atomic_ref<uint32_t>(rig.receiver.abort_word).store(1, std::memory_order_release);
  const Deadline deadline = Deadline::after_seconds(60);
  CHECK_FALSE((*receiver)->connect(blob, deadline));
  CHECK_FALSE(deadline.passed());
}

// An authenticated peer that does not keep to the protocol. Each message must end the link, and
// nothing outside the slots may be touched.
namespace {

void check_refused(uint32_t slot_bytes, const std::vector<transport::WireHeader>& headers) {
  Rig rig({"net"});
  rig.set_geometry({slot_bytes, 2}, {512, 2});
  rig.receiver.endpoint =
      std::move(rig.row->open(rig.receiver_spec, rig.receiver.services).value());
  auto honest = rig.row->open(rig.sender_spec, rig.sender.services);
  const Bytes blob = (*honest)->describe(soon()).value();
  REQUIRE(rig.receiver.endpoint->describe(soon()));
  const transport::NetGreeting greeting{transport::kNetGreetingMagic,
                                        transport::edge_key(rig.sender_spec, 0x1234, 1), 2, 5};
  auto fd = base::auth_connect(transport::net_address(rig.receiver.info),
                               rig.receiver.services.secret, transport::encode(greeting), soon());
  REQUIRE(fd);
  auto link = rig.receiver.endpoint->connect(blob, soon());
  REQUIRE(link);
  rig.receiver.link = std::move(*link);
  rig.receiver.engine->add(rig.receiver.link.get());
  for (const transport::WireHeader& header : headers) {
    REQUIRE(base::write_exact(fd->get(), &header, sizeof header, soon()));
    const std::vector<uint8_t> body(std::min(header.bytes, 2 * slot_bytes), 0xee);
    // The link may be gone already.
    if (!base::write_exact(fd->get(), body.data(), body.size(), soon())) break;
  }
  const auto error = wait_error(rig.receiver, soon());
  REQUIRE(error);
  CHECK(error->code == ErrorCode::lost);
  CHECK(error->rank == 2);
}

}  // namespace

TEST_CASE("messages that cannot be are refused") {
  using transport::kWireMagic;
  using transport::WireHeader;
  using transport::WireKind;
  const std::vector<std::vector<WireHeader>> lies = {
      {{0x1111, WireKind::data, 0, 16, 0}},                 // no message
      {{kWireMagic, WireKind(9), 0, 16, 0}},                // no such kind
      {{kWireMagic, WireKind::data, 2, 16, 0}},             // unused stream
      {{kWireMagic, WireKind::data, 200, 16, 0}},           // no such stream
      {{kWireMagic, WireKind::data, 0, 1025, 0}},           // too long
      {{kWireMagic, WireKind::data, 0, ~0u, 0}},            // far too long
      {{kWireMagic, WireKind::data, 0, 16, 1}},             // out of order
      {{kWireMagic, WireKind::data, 0, 16, ~uint64_t(0)}},  //
      {{kWireMagic, WireKind::credit, 0, 0, 1}},            // wrong direction
      {{kWireMagic, WireKind::goodbye, 0, 8, 0}},           // with a body
      {{kWireMagic, WireKind::data, 1, 12, 0}},             // half a line
      {{kWireMagic, WireKind::data, 0, 0, 0}, {kWireMagic, WireKind::data, 0, 0, 0}},  // twice
      {{kWireMagic, WireKind::goodbye, 0, 0, 0}, {kWireMagic, WireKind::data, 0, 0, 0}},
  };
  for (size_t i = 0; i < lies.size(); ++i) {
    INFO("lie " << i);
    check_refused(1024, lies[i]);
  }
  // More than any credit allows, by number and by bytes: two slots, and what may be early.
  std::vector<WireHeader> many, large;
  for (uint64_t i = 0; i < 9; ++i) many.push_back({kWireMagic, WireKind::data, 0, 0, i});
  for (uint64_t i = 0; i < 6; ++i) large.push_back({kWireMagic, WireKind::data, 0, 64 << 10, i});
  check_refused(64 << 10, many);
  check_refused(64 << 10, large);
}

TEST_CASE("a credit that was never earned is refused") {
  Rig rig({"net"});
  rig.set_geometry({1024, 2}, {});
  rig.sender.endpoint = std::move(rig.row->open(rig.sender_spec, rig.sender.services).value());
  auto honest = rig.row->open(rig.receiver_spec, rig.receiver.services);
  const Bytes blob = (*honest)->describe(soon()).value();
  REQUIRE(rig.sender.endpoint->describe(soon()));
  auto link = rig.sender.endpoint->connect(blob, soon());
  REQUIRE(link);
  rig.sender.link = std::move(*link);
  rig.sender.engine->add(rig.sender.link.get());
  auto fd = rig.receiver.engine->take(transport::edge_key(rig.sender_spec, 0x1234, 1), soon());
  REQUIRE(fd);
  const transport::WireHeader lie{transport::kWireMagic, transport::WireKind::credit, 0, 0, 1000};
  REQUIRE(base::write_exact(fd->get(), &lie, sizeof lie, soon()));
  const auto error = wait_error(rig.sender, soon());
  REQUIRE(error);
  CHECK(error->code == ErrorCode::lost);
  CHECK(error->rank == 5);
}

TEST_CASE("a sender killed in the middle leaves nothing in /dev/shm") {
  const std::set<std::string> before = files_in_shm();
  Rig rig({"shm"});
  rig.set_geometry({4096, 4}, {});
  rig.receiver.endpoint =
      std::move(rig.row->open(rig.receiver_spec, rig.receiver.services).value());
  rig.sender.endpoint = std::move(rig.row->open(rig.sender_spec, rig.sender.services).value());
  const Bytes from_receiver = rig.receiver.endpoint->describe(soon()).value();
  const Bytes from_sender = rig.sender.endpoint->describe(soon()).value();
  const int status = in_child([&] {  // the descriptor is inherited with the exchange's table
    auto link = rig.sender.endpoint->connect(from_receiver, soon());
    if (!link) return 1;
    std::vector<uint8_t> data;
    for (uint64_t step = 0; step < 3; ++step) {
      pattern(data, 4000, step);
      if (!put(*(*link)->fifo(Protocol::simple), data, soon())) return 2;
    }
    ::kill(::getpid(), SIGKILL);
    return 3;
  });
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGKILL);
  auto link = rig.receiver.endpoint->connect(from_sender, soon());
  REQUIRE(link);
  std::vector<uint8_t> data, got(4000);
  for (uint64_t step = 0; step < 3; ++step) {
    pattern(data, 4000, step);
    REQUIRE(take(*(*link)->fifo(Protocol::simple), got, soon()));
    CHECK(got == data);
  }
  CHECK_FALSE(take(*(*link)->fifo(Protocol::simple), got, Deadline::after_ms(100)));
  for (const std::string& name : files_in_shm()) CHECK(before.contains(name));
}

TEST_CASE("a descriptor that is too small is refused, not a SIGBUS") {
  Rig rig({"shm"});
  rig.set_geometry({65536, 4}, {});
  auto sender = rig.row->open(rig.sender_spec, rig.sender.services);
  auto receiver = rig.row->open(rig.receiver_spec, rig.receiver.services);
  const Bytes blob = (*receiver)->describe(soon()).value();
  const uint64_t tag = transport::edge_key(rig.sender_spec, 0x1234, 0);
  Fd small(::open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  REQUIRE(small);
  REQUIRE(::ftruncate(small.get(), 4096) == 0);
  REQUIRE(rig.receiver.fds->send_fd(2, tag, small.get(), soon()));
  auto link = (*sender)->connect(blob, soon());
  REQUIRE_FALSE(link);
  CHECK(link.error().code == ErrorCode::lost);
  CHECK(link.error().chain().find("rank 5 (host host5): a descriptor was passed") !=
        std::string::npos);
}

TEST_CASE("a /dev/shm that is too small is an error with numbers and a remedy", "[may_skip]") {
  const int status = in_child([] {
    if (::unshare(CLONE_NEWNS) != 0 ||
        ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=256k") != 0)
      return 77;
    Rig rig({"shm"});
    rig.set_geometry({65536, 8}, {});
    auto receiver = rig.row->open(rig.receiver_spec, rig.receiver.services);
    auto blob = (*receiver)->describe(soon());
    if (blob) return 1;
    const Error& error = blob.error();
    if (error.code != ErrorCode::unavailable) return 2;
    if (error.message.find("256 KiB are free") == std::string::npos &&
        error.message.find("of 256 KiB") == std::string::npos)
      return 3;
    if (error.hint.find("remount,size=") == std::string::npos ||
        error.hint.find("--shm-size=") == std::string::npos)
      return 4;
    rig.set_geometry({4096, 4}, {});  // a smaller one still fits: nothing was left behind
    auto smaller = rig.row->open(rig.receiver_spec, rig.receiver.services);
    return (*smaller)->describe(soon()) ? 0 : 5;
  });
  REQUIRE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77)
    return skip("a small /dev/shm needs the right to mount in a namespace of its own");
  CHECK(WEXITSTATUS(status) == 0);
}

}  // namespace faults_tests
