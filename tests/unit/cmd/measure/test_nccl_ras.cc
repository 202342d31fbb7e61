// NCCL's RAS: its answers of both kinds, and a client against a server that plays it, keeps silent,
// breaks off, never ends, or is none.
#include <unistd.h>

#include <functional>
#include <thread>

#include "base/format.h"
#include "base/socket.h"
#include "cmd/measure/nccl_ras.h"
#include "cmd/measure/nccl_watch.h"
#include "tests/catch.h"

namespace nccl_ras_tests {

using namespace collctl;
using namespace collctl::cmd;

namespace {

// Composed after the format strings of NCCL 2.28 and 2.24.
std::string rank_json(int rank, int pid, int counts, int async = 0) {
  return format(
      R"({{"rank": {}, "host": "10.0.0.7", "pid": {}, "cuda_dev": {}, "nvml_dev": {}, "status":
      {{"init_state": 0, "async_error": {}, "finalize_called": false, "destroy_flag": false,
      "abort_flag": false}}, "collective_counts": {{"Broadcast": 0, "Reduce": 0, "AllGather": 0,
      "ReduceScatter": 0, "AllReduce": {}}}}})",
      rank, pid, rank, rank, async, counts);
}
std::string answer_json(const std::string& ranks, const std::string& missing, int timeouts = 0) {
  return format(
      R"({{"nccl_version": "2.28.9", "cuda_runtime_version": 13000, "cuda_driver_version": 13000,
      "timestamp": "2026-11-30 10:00:00", "communicators_count": 1, "communicators": [{{
      "hash": "0xae94423cfbb2ef4a", "secondary_hash": "0x1:0x2", "size": 2, "ranks_count": 1,
      "missing_ranks_count": 1, "ranks": [{}], "missing_ranks": [{}]}}], "ras":
      {{"collection_time_sec": 0.000, "timeouts_count": {}}}}})",
      ranks, missing, timeouts);
}
const std::string kMissing =
    R"({"rank": 1, "host": "10.0.0.8", "pid": 1524345, "cuda_dev": 1, "nvml_dev": 1, "status":
    {"unresponsive": true, "considered_dead": false}})";

const std::string kText =
    "NCCL version 2.24.3 compiled with CUDA 12.8\n"
    "CUDA runtime version 12080, driver version 12080\n\n"
    "Job summary\n===========\n\n"
    "  Nodes  Processes         GPUs  Processes     GPUs\n"
    "(total)   per node  per process    (total)  (total)\n"
    "      4          8            1         32       32\n\n"
    "Communicators... (2.05s)\n=============\n\n"
    "Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors\n"
    "    #  in group  per comm  per node  per comm  in group\n"
    "    0         1         4       7-8        32        32   RUNNING  INCOMPLETE\n"
    "    1         2         1         2         2         4   RUNNING      OK\n\n"
    "Errors\n======\n\n"
    "INCOMPLETE\n  Missing communicator data from 1 job process\n"
    "  Process 3487984 on node 172.16.64.213 managing GPU 5\n\n"
    "DEAD\n  1 job process is considered dead (unreachable via the RAS network)\n"
    "  Process 71 on node 172.16.64.214 managing GPUs 0,1\n\n"
    "#0-0 (cf264af53edbe986) INCOMPLETE\n  Missing communicator data from 1 rank\n"
    "  Rank 21 -- GPU 5 managed by process 3487984 on node 172.16.64.213\n\n"
    "Warnings\n========\n\n"
    "TIMEOUT\n  Encountered 2 communication timeouts while gathering communicator data\n\n"
    "#0-0 (27a079b828ff1a75) MISMATCH\n"
    "  Communicator ranks have different collective operation counts\n"
    "  Rank 0 -- GPU 0 managed by process 483072 on node 172.16.64.210\n";

// Serves one connection at a time with `serve`, for so many of them.
class Server {
 public:
  using Serve = std::function<void(int fd)>;
  explicit Server(const Serve& serve, int connections = 1) {
    const auto at = base::parse_address("127.0.0.1:0");
    REQUIRE(at);
    auto made = base::listen_tcp(*at);
    REQUIRE(made);
    listener_ = std::move(*made);
    address_ = base::local_address(listener_.get())->text();
    thread_ = std::thread([this, serve, connections] {
      for (int i = 0; i < connections; ++i) {
        pollfd wait{listener_.get(), POLLIN, 0};
        (void)base::poll_fds({&wait, 1}, base::Deadline::after_seconds(60));
        auto fd = base::accept_now(listener_.get());
        if (fd && *fd) serve(fd->get());
      }
    });
  }
  ~Server() { thread_.join(); }
  const std::string& address() const { return address_; }

 private:
  base::Fd listener_;
  std::string address_;
  std::thread thread_;
};

std::string line_of(int fd) {
  std::string line;
  for (char c = 0; base::read_exact(fd, &c, 1, base::Deadline::after_seconds(60)) && c != '\n';)
    line += c;
  return line;
}
void say(int fd, const std::string& text) {
  (void)base::write_exact(fd, text.data(), text.size(), base::Deadline::after_seconds(60));
}
// As NCCL does; `json`: it knows the format, and sends this.
Server::Serve nccl(const std::string& answer, bool json) {
  return [=](int fd) {
    if (line_of(fd) != "CLIENT PROTOCOL 2") return;
    say(fd, "SERVER PROTOCOL 2\n");
    if (!line_of(fd).starts_with("TIMEOUT ")) return;
    say(fd, "OK\n");
    if (line_of(fd) != "SET FORMAT json") return;
    say(fd, json ? "OK\n" : "ERROR: Unknown command SET FORMAT json\n");
    if (line_of(fd) != "VERBOSE STATUS") return;
    say(fd, answer);
  };
}
// As 2.28 does where a rank is missing; then it is asked for its text.
Server::Serve broken_nccl(const std::string& json, const std::string& text) {
  return [=, asked = std::make_shared<int>(0)](int fd) {
    if ((*asked)++ == 0) {
      nccl(json, true)(fd);
      return;
    }
    (void)line_of(fd);
    say(fd, "SERVER PROTOCOL 2\n");
    (void)line_of(fd);
    say(fd, "OK\n");
    if (line_of(fd) == "VERBOSE STATUS") say(fd, text);
  };
}
base::Deadline soon() {
  return base::Deadline::after_seconds(20);
}

}  // namespace

TEST_CASE("RAS: JSON, of ranks that are well and of one that does not answer", "[nccl]") {
  const auto well = read_ras_json(answer_json(rank_json(0, 70, 5) + "," + rank_json(1, 71, 5), ""));
  INFO((well ? "" : well.error().chain()));
  REQUIRE(well);
  CHECK(well->version == "2.28.9");
  CHECK(well->communicators == 1);
  CHECK(well->ranks == 2);
  CHECK(well->pids == std::vector<int>{70, 71});
  CHECK(well->missing.empty());
  CHECK(well->problems.empty());
  const auto missing = read_ras_json(answer_json(rank_json(0, 70, 5), kMissing, 3));
  REQUIRE(missing);
  REQUIRE(missing->missing.size() == 1);
  CHECK(missing->missing[0].host == "10.0.0.8");
  CHECK(missing->missing[0].pid == 1524345);
  CHECK(missing->missing[0].rank == 1);
  CHECK_FALSE(missing->missing[0].dead);
  CHECK(missing->timeouts == 3);
  const auto late =
      read_ras_json(answer_json(rank_json(0, 70, 6) + "," + rank_json(1, 71, 5, 6), ""));
  REQUIRE(late);
  REQUIRE(late->problems.size() == 2);
  CHECK(late->problems[0] ==
        "communicator 0xae94423cfbb2ef4a: rank 1 on 10.0.0.7 has failed (code 6)");
  CHECK(late->problems[1] ==
        "communicator 0xae94423cfbb2ef4a: of 6 AllReduce rank 1 on 10.0.0.7 has begun 5");
}

TEST_CASE("RAS: the text of versions before 2.28.7", "[nccl]") {
  const auto status = read_ras_text(kText);
  REQUIRE(status);
  CHECK(status->version == "2.24.3");
  CHECK(status->communicators == 3);
  CHECK(status->ranks == 36);
  REQUIRE(status->missing.size() == 2);
  CHECK(status->missing[0].host == "172.16.64.213");
  CHECK(status->missing[0].pid == 3487984);
  CHECK(status->missing[0].gpus == "5");
  CHECK(status->missing[0].rank == 21);
  CHECK_FALSE(status->missing[0].dead);
  CHECK(status->missing[1].dead);
  CHECK(status->missing[1].gpus == "0,1");
  CHECK(status->timeouts == 2);
  REQUIRE(status->problems.size() == 2);
  CHECK(status->problems[0] ==
        "#0-0 (27a079b828ff1a75) MISMATCH: Communicator ranks have different collective operation "
        "counts");
}

TEST_CASE("RAS: answers that are none", "[nccl]") {
  CHECK_FALSE(read_ras_text(""));
  CHECK_FALSE(read_ras_text("HTTP/1.1 400 Bad Request\n"));
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("[]"), std::string("{}"),
        answer_json(R"({"rank": -1, "host": "x", "pid": 1})", ""),
        answer_json("", R"({"rank": 1, "host": 7, "pid": 1})"),
        std::string(R"({"nccl_version": "2", "communicators": 7})")})
    CHECK_FALSE(read_ras_json(text));
}

TEST_CASE("RAS: asked by its protocol, with either format", "[nccl]") {
  {
    const Server server(nccl(answer_json(rank_json(0, 70, 5), kMissing), true));
    const auto status = ask_ras(server.address(), soon());
    INFO((status ? "" : status.error().chain()));
    REQUIRE(status);
    CHECK(status->ranks == 1);
    CHECK(status->missing.size() == 1);
  }
  {
    std::string broken = answer_json(rank_json(0, 70, 5), kMissing);
    const size_t comma = broken.find(", \"status\"", broken.find("missing_ranks\""));
    REQUIRE(comma != std::string::npos);
    broken.erase(comma, 1);
    REQUIRE_FALSE(read_ras_json(broken));
    const Server server(broken_nccl(broken, kText), 2);
    const auto status = ask_ras(server.address(), soon());
    INFO((status ? "" : status.error().chain()));
    REQUIRE(status);
    CHECK(status->missing.size() == 2);
  }
  const Server server(nccl(kText, false));
  const auto status = ask_ras(server.address(), soon());
  REQUIRE(status);
  CHECK(status->version == "2.24.3");
}

TEST_CASE("RAS: silent, broken off, endless, another service, nobody", "[nccl]") {
  const auto error_of = [](const Server::Serve& serve, base::Deadline deadline) {
    const Server server(serve);
    const auto status = ask_ras(server.address(), deadline);
    REQUIRE_FALSE(status);
    INFO(status.error().chain());
    CHECK(status.error().chain().find(server.address()) != std::string::npos);
    return status.error();
  };
  const auto silent = [](int fd) {
    while (!line_of(fd).empty()) continue;
  };
  CHECK(error_of(silent, base::Deadline::after_seconds(0.3)).code == ErrorCode::deadline);
  CHECK(error_of([](int fd) { (void)line_of(fd); }, soon()).code == ErrorCode::lost);
  const auto web = [](int fd) {
    (void)line_of(fd);
    say(fd, "HTTP/1.1 400\n");
  };
  const Error other = error_of(web, soon());
  CHECK(other.code == ErrorCode::lost);
  CHECK(other.message.find("no RAS of NCCL's") != std::string::npos);
  const auto endless = [](int fd) {
    const std::string much(1 << 20, 'x');
    for (bool on = true; on;)
      on = base::write_exact(fd, much.data(), much.size(), base::Deadline::after_seconds(60)).ok();
  };
  CHECK(error_of(endless, soon()).code == ErrorCode::lost);
  const auto nobody = ask_ras("127.0.0.1:1", soon());
  REQUIRE_FALSE(nobody);
  CHECK(nobody.error().code == ErrorCode::unavailable);
}

TEST_CASE("RAS: of this process's job, not of another's on the port", "[nccl]") {
  constexpr int kVersion = 22809;
  const Server server(nccl(answer_json(rank_json(0, int(::getpid()), 5), ""), true));
  {
    const base::ScopedVariable at("NCCL_RAS_ADDR", server.address());
    const RasAnswer own = ask_own_ras(kVersion, soon());
    CHECK(own.address == server.address());
    CHECK(own.missing.empty());
    REQUIRE(own.status);
    CHECK(own.status->ranks == 1);
  }
  {
    const Server foreign(nccl(answer_json(rank_json(0, 1, 5), ""), true), 4);
    const base::ScopedVariable at("NCCL_RAS_ADDR", foreign.address());
    const RasAnswer other = ask_own_ras(kVersion, soon());
    CHECK_FALSE(other.status);
    CHECK(other.missing ==
          format("another job of NCCL's answers at {} (pid 1)", foreign.address()));
  }
  const base::ScopedVariable off("NCCL_RAS_ENABLE", "0");
  const RasAnswer none = ask_own_ras(kVersion, soon());
  CHECK(none.address.empty());
  CHECK(none.missing == "NCCL_RAS_ENABLE=0");
}

}  // namespace nccl_ras_tests
