// Options of the launch: hosts, and how they are reached.
#include "tests/unit/cmd/cli/option_lines.h"

namespace job_option_rows_tests {

using namespace collctl;
using namespace collctl::cmd;
using kernels::Collective;
using namespace collctl::cmd::testing;

TEST_CASE("a line becomes launch options", "[cmd]") {
  auto launch = interpret_launch(
      good("run -n 3 --bind-to core --rank-mode thread --timeout 9 --grace 0 --tag-output "
           "--output-dir d -x A -v allreduce"));
  REQUIRE(launch.ok());
  CHECK(launch->ranks == 3);
  CHECK(launch->bind_to == "core");
  CHECK(launch->rank_mode == "thread");
  CHECK(launch->timeout_s == 9);
  CHECK(launch->grace_s == 0);
  CHECK(launch->tag_output);
  CHECK(launch->output_dir == "d");
  CHECK(launch->verbosity == 1);
  auto untagged = interpret_launch(good("run --tag-output --no-tag-output allreduce"));
  REQUIRE(untagged.ok());
  CHECK_FALSE(untagged->tag_output);
}

TEST_CASE("hosts and how they are reached", "[cmd]") {
  auto launch = interpret_launch(good(
      "run -H bob@a:2,b:2 --map-by host --oversubscribe --ssh-client openssh --ssh-user al "
      "--ssh-port 2222 -i key --known-hosts accept-new --connect-timeout 2.5 --fanout 8 --stage "
      "never --remote-path /opt/c --binary-for mips64=m --ssh-config cfg allreduce"));
  REQUIRE(launch.ok());
  CHECK(launch->launcher == LauncherKind::ssh);
  REQUIRE(launch->hosts.hosts.size() == 2);
  CHECK(launch->hosts.hosts[0].user == "bob");
  CHECK(launch->ranks == 4);
  CHECK(launch->map_by == launcher::MapBy::host);
  CHECK(launch->oversubscribe);
  CHECK(launch->ssh.client == launcher::SshClient::openssh);
  CHECK(launch->ssh.known_hosts == launcher::KnownHosts::accept_new);
  CHECK(
      launch->hosts.warnings ==
      std::vector<std::string>{"--identity key: No such file or directory; other keys are tried"});
  CHECK(launch->ssh.config_file == "cfg");
  CHECK(launch->ssh.user == "al");
  CHECK(launch->ssh.port == 2222);
  CHECK(launch->ssh.identity == "key");
  CHECK(launch->ssh.connect_timeout_s == 2.5);
  CHECK(launch->fanout == 8);
  CHECK(launch->stage == launcher::Staging::never);
  CHECK(launch->remote_path == "/opt/c");
  CHECK(launch->binary_for == std::vector<std::string>{"mips64=m"});
  auto defaults = interpret_launch(good("run -H a,b allreduce"));
  REQUIRE(defaults.ok());
  CHECK(defaults->ranks == 0);  // the hosts will say
  CHECK(defaults->ssh.client == launcher::SshClient::automatic);
  CHECK(defaults->ssh.known_hosts == launcher::KnownHosts::strict);
  CHECK(defaults->ssh.connect_timeout_s == 10);
  CHECK(defaults->fanout == 64);
  CHECK(interpret_launch(good("run -H a:2,b:2 --allow-missing 1 allreduce"))->ranks == 0);
  CHECK(interpret_launch(good("run -H a:3 --launcher local allreduce"))->ranks == 3);
  CHECK(interpret_launch(good("run allreduce"))->launcher == LauncherKind::local);
}

TEST_CASE("options about hosts that do not go together", "[cmd]") {
  CHECK(bench_error("run --launcher ssh allreduce") ==
        "--launcher ssh needs hosts: -H LIST or --hostfile FILE");
  CHECK(bench_error("run --launcher local -H a,b allreduce") ==
        "--launcher local starts ranks on this host; -H names 2 hosts");
  CHECK(bench_error("run --launcher local -H a:2 -n 3 allreduce") ==
        "3 ranks requested, 2 slots on 1 host (a 2)");
  CHECK(bench_error("run --launcher adopt -H a allreduce") ==
        "--launcher adopt starts no ranks; it excludes -H");
  CHECK(bench_error("run -H a --join 127.0.0.1:5000 --rank 0 --size 2 allreduce") ==
        "--join makes this process one rank of a job; it excludes -H");
  CHECK(bench_error("run --rank-mode thread -H a allreduce") ==
        "--rank-mode thread keeps the ranks in one process here; it excludes -H");
  CHECK(bench_error("run --fanout 3 allreduce") ==
        "--fanout is about hosts: expected -H LIST or --hostfile FILE");
  CHECK(bench_error("run -H a:4,b:4 -n 9 allreduce") ==
        "9 ranks requested, 8 slots on 2 hosts (a 4, b 4)");
  CHECK(bench_error("run -H a, allreduce") == "-H:1:3: expected a host, got the end");
  // Whether ranks have a GPU to be bound to is known when they are placed.
  auto device = interpret_launch(good("run --bind-to device allreduce"));
  REQUIRE(device.ok());
  CHECK(device->bind_to == "device");
  CHECK(interpret_launch(good("run allreduce"))->bind_to.empty());
}

}  // namespace job_option_rows_tests
