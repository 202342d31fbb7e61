// Ports that go and come, devices that die, processes that are killed or fork.
#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <ctime>

#include "tests/unit/fake_verbs/side.h"

namespace events_tests {

using namespace fake_verbs_test;

namespace {
ibv_async_event event_of(ibv_context* context) {
  ibv_async_event event{};
  REQUIRE(ibv_get_async_event(context, &event) == 0);
  ibv_ack_async_event(&event);
  return event;
}
bool no_event(ibv_context* context) {
  ::fcntl(context->async_fd, F_SETFL, O_NONBLOCK);
  ibv_async_event event{};
  // time is what is tested: no event comes
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  return ibv_get_async_event(context, &event) != 0 && errno == EAGAIN;
}
}  // namespace

TEST_CASE("every context of the device hears of its port, once for each change") {
  Fabric fabric({.devices = "fake_0:ports=2,fake_1"});
  ibv_context* first = open_device("fake_0");
  ibv_context* second = open_device("fake_0");
  ibv_context* other = open_device("fake_1");
  fake_verbs::set_port("fake_0", 2, false);
  fake_verbs::set_port("fake_0", 2, false);
  for (ibv_context* context : {first, second}) {
    const ibv_async_event event = event_of(context);
    CHECK(event.event_type == IBV_EVENT_PORT_ERR);
    CHECK(event.element.port_num == 2);
  }
  ibv_port_attr port{};
  REQUIRE(ibv_query_port(first, 2, &port) == 0);
  CHECK(port.state == IBV_PORT_DOWN);
  REQUIRE(ibv_query_port(first, 1, &port) == 0);
  CHECK(port.state == IBV_PORT_ACTIVE);
  fake_verbs::set_port("fake_0", 2, true);
  CHECK(event_of(first).event_type == IBV_EVENT_PORT_ACTIVE);
  CHECK(no_event(first));
  CHECK(no_event(other));
  for (ibv_context* context : {first, second, other}) CHECK(ibv_close_device(context) == 0);
}

TEST_CASE(
    "a device that dies says so and refuses every call; its objects can still be given back") {
  Fabric fabric;
  Two two;
  fake_verbs::break_device("fake_0");
  CHECK(event_of(two.a.context).event_type == IBV_EVENT_DEVICE_FATAL);
  CHECK(two.a.send(IBV_WR_RDMA_WRITE, {}, 0, 8) == EIO);
  CHECK(two.a.receive(1) == EIO);
  ibv_wc wc{};
  CHECK(ibv_poll_cq(two.a.cq, 1, &wc) == -1);
  ibv_port_attr port{};
  CHECK(ibv_query_port(two.a.context, 1, &port) == EIO);
  CHECK(ibv_reg_mr(two.a.pd, two.a.memory.data(), 8, IBV_ACCESS_LOCAL_WRITE) == nullptr);
  CHECK(ibv_create_cq(two.a.context, 4, nullptr, nullptr, 0) == nullptr);
  CHECK(open_device("fake_0") == nullptr);
}

TEST_CASE("an event that is not acknowledged would hang the end of its object") {
  Fabric fabric;
  fabric.misuse_expected = true;
  {
    Two two;
    Address wrong = two.b.address();
    wrong.remote_key ^= 0x100;
    REQUIRE(two.a.send(IBV_WR_RDMA_WRITE, wrong, 0, 8) == 0);
    ibv_async_event event{};
    REQUIRE(ibv_get_async_event(two.b.context, &event) == 0);
  }
  const auto said = fake_verbs::violations();
  REQUIRE(said.size() == 1);
  CHECK(said[0] == "ibv_destroy_qp before all of its events are acknowledged: hangs");
}

TEST_CASE("events of an object that is gone are not handed out") {
  Fabric fabric;
  Side watcher;  // keeps the device in use
  {
    Two two;
    Address wrong = two.b.address();
    wrong.remote_key ^= 0x100;
    REQUIRE(two.a.send(IBV_WR_RDMA_WRITE, wrong, 0, 8) == 0);
    pollfd p{two.b.context->async_fd, POLLIN, 0};
    REQUIRE(::poll(&p, 1, 2000) == 1);  // it is there, and nobody takes it
    REQUIRE(ibv_destroy_qp(two.b.qp) == 0);
    CHECK(no_event(two.b.context));
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = two.b.cq;
    init.cap = {1, 1, 1, 1, 0};
    init.qp_type = IBV_QPT_RC;
    two.b.qp = ibv_create_qp(two.b.pd, &init);
    CHECK(no_event(two.b.context));
  }
}

TEST_CASE("a failed pair with nothing posted keeps nobody busy") {
  Fabric fabric;
  Two two;
  Address wrong = two.b.address();
  wrong.remote_key ^= 0x100;
  REQUIRE(two.a.send(IBV_WR_RDMA_WRITE, wrong, 0, 8) == 0);
  CHECK(two.a.one().status == IBV_WC_REM_ACCESS_ERR);
  (void)event_of(two.b.context);
  const std::clock_t before = std::clock();  // of the processor, all threads
  const auto began = std::chrono::steady_clock::now();
  // time is what is tested: of the processor, by all threads meanwhile
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - began;
  CHECK(double(std::clock() - before) / CLOCKS_PER_SEC < 0.5 * passed.count());
}

TEST_CASE("the end of a queue pair waits for who is looking at its event") {
  Fabric fabric;
  Two two;
  Address wrong = two.b.address();
  wrong.remote_key ^= 0x100;
  REQUIRE(two.a.send(IBV_WR_RDMA_WRITE, wrong, 0, 8) == 0);
  ibv_async_event event{};
  REQUIRE(ibv_get_async_event(two.b.context, &event) == 0);
  std::atomic<bool> acknowledged{false};
  std::thread looker([&] {
    // time is what is tested: one who looks at an event for long
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    acknowledged = true;
    ibv_ack_async_event(&event);
  });
  REQUIRE(ibv_destroy_qp(two.b.qp) == 0);
  CHECK(acknowledged);
  looker.join();
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = two.b.cq;
  init.cap = {1, 1, 1, 1, 0};
  init.qp_type = IBV_QPT_RC;
  two.b.qp = ibv_create_qp(two.b.pd, &init);
}

TEST_CASE("objects are given back in order, and a context after them all") {
  Fabric fabric;
  fabric.misuse_expected = true;
  ibv_context* context = open_device("fake_0");
  static ibv_pd* left = nullptr;  // nobody can free it any more
  left = ibv_alloc_pd(context);
  CHECK(left != nullptr);
  CHECK(ibv_close_device(context) == 0);
  const auto said = fake_verbs::violations();
  REQUIRE(said.size() == 1);
  CHECK(said[0] == "ibv_close_device with 1 objects left");
}

TEST_CASE("a device that cannot be opened, and a host's own devices only") {
  Fabric fabric({.host = 3, .devices = "fake_0:noopen,fake_7"});
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  REQUIRE(count == 2);
  CHECK(std::string(ibv_get_device_name(list[1])) == "fake_7");
  CHECK(list[2] == nullptr);
  CHECK(ibv_open_device(list[0]) == nullptr);
  CHECK(errno == EACCES);
  ibv_free_device_list(list);
}

TEST_CASE("the child of a fork may not use its parent's context, but one of its own") {
  Fabric fabric;
  fabric.misuse_expected = true;
  {
    Two two;
    const pid_t child = ::fork();
    if (child == 0) {
      int wrong = 0;
      wrong += two.a.send(IBV_WR_RDMA_WRITE, {}, 0, 8) != EPERM;
      wrong += two.a.receive(1) != EPERM;
      ibv_wc wc{};
      wrong += ibv_poll_cq(two.a.cq, 1, &wc) != -1;
      wrong += ibv_alloc_pd(two.a.context) != nullptr;
      wrong += ibv_reg_mr(two.a.pd, two.a.memory.data(), 8, 0) != nullptr;
#ifndef __SANITIZE_THREAD__  // which lets no child of a process with threads have its own
      {
        Two own;
        wrong += own.a.send(IBV_WR_RDMA_WRITE, own.b.address(), 0, 8) != 0;
        wrong += own.a.one().status != IBV_WC_SUCCESS;
      }
#endif
      ::_exit(wrong == 0 ? 0 : 1);
    }
    int status = -1;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(status == 0);
    const auto said = fake_verbs::violations();
    REQUIRE(said.size() == 5);
    CHECK(said[0] == "ibv_post_send by the child of a fork, on its parent's context");
    // The parent is as it was.
    REQUIRE(two.a.send(IBV_WR_RDMA_WRITE, two.b.address(), 0, 8) == 0);
    CHECK(two.a.one().status == IBV_WC_SUCCESS);
  }
}

TEST_CASE("a process that is killed is silence, and what it held is taken back later") {
  Fabric fabric;
  (void)fake_verbs::counts();
  int pipes[2];
  REQUIRE(::pipe(pipes) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    Side side;
    const Address mine = side.address();
    // Connected to a pair that the parent will make: the child only has to be there.
    if (::write(pipes[1], &mine, sizeof mine) != ssize_t(sizeof mine)) ::_exit(1);
    for (;;) ::pause();
  }
  {
    Side a;
    Address peer{};
    REQUIRE(::read(pipes[0], &peer, sizeof peer) == ssize_t(sizeof peer));
    REQUIRE(a.connect(peer) == 0);
    REQUIRE(::kill(child, SIGKILL) == 0);
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    REQUIRE(a.send(IBV_WR_RDMA_WRITE, peer, 0, 0) == 0);
    CHECK(a.one().status == IBV_WC_RETRY_EXC_ERR);
    CHECK(fake_verbs::counts().pairs == 2);
  }
  // The next process that comes cleans up; a context counts until then.
  { Side again; }
  CHECK(fake_verbs::counts().pairs == 0);
  ::close(pipes[0]);
  ::close(pipes[1]);
}

}  // namespace events_tests
