// The launch and host rows of THE table of options.
#include "cmd/cli/option_rows.h"
#include "cmd/job/options.h"

namespace collctl::cmd {

void add_launch_options(std::vector<Option>& t) {
  using namespace kinds;
  const Adder add{t, Group::launch, kLaunch};
  const Adder hosts = add.in(kLaunch | kDoctor | kTopo);
  const Adder ranks = add.in(kOnRanks | kTask);
  const Adder started = add.in(kOnRanks | kProgram);
  const Adder program = add.in(kProgram);
  const Adder launch = add.in(kLaunch & ~kCheck);
  const Adder nccl = add.in(kCollectives);
  add("n,ranks", integer("N", 1, 65536, "every slot, or one per GPU or core"),
      to<&LaunchOptions::ranks>, "how many ranks",
      "With hosts: one for each slot; a host without slots has one for each of its GPUs, or of its "
      "cores where it has none. On this host: one per GPU, or per core; CPU ranks may outnumber "
      "the cores, which a note says. nccl-tests' -g GPUS -t THREADS means GPUS x THREADS ranks, on "
      "each host where there are several.");
  nccl("g,ngpus", integer("N", 1, 1024, "1"), "as nccl-tests has it: GPUs of a thread").hidden =
      true;
  nccl("t,nthreads", integer("N", 1, 1024, "1"), "as nccl-tests has it: threads of a process")
      .hidden = true;
  add("N,ranks-per-host", integer("K", 1, 65536, "by slots"), to<&LaunchOptions::per_host>,
      "ranks on each host", "Without hosts: at most K on this one.");
  add("map-by", one_of("WHAT", {"slot", "host"}, "slot"), to<&LaunchOptions::map_by>,
      "fill each host in turn, or deal ranks out one by one");
  add("oversubscribe", flag(), to<&LaunchOptions::oversubscribe>,
      "allow more ranks than slots or GPUs",
      "Never more than a host's max_slots. GPU ranks beyond a host's GPUs share them, as processes "
      "of their own.");
  ranks("rank-mode", one_of("MODE", {"process", "thread"}, "process"),
        to<&LaunchOptions::rank_mode>, "ranks as processes or as threads of one");
  add("bind-to",
      one_of("WHAT", {"none", "core", "numa", "device"},
             "device for GPU ranks, cores of its own for a CPU rank"),
      to<&LaunchOptions::bind_to>, "bind each rank to a core or a NUMA node",
      "device is for GPU ranks: the cores of the NUMA node of the rank's GPU. CPU ranks share a "
      "host's allowed cores out among themselves where there is one for each, else they are not "
      "bound. Programs are not bound by default.");
  add("x,env", repeatable(text("NAME[=VALUE]")), to<&LaunchOptions::export_env>,
      "pass a variable to the ranks; NAME* passes a prefix");
  hosts("timeout", seconds("S", 0.001, 31536000), to<&LaunchOptions::timeout_s>,
        "end the whole job after S seconds");
  hosts("start-timeout", seconds("S", 0.001, 86400, "60"), to<&LaunchOptions::start_timeout_s>,
        "deadline for launch and bootstrap, seconds");
  add.in(kOnRanks | kTask | kCheck)("op-timeout", seconds("S", 0.001, 86400, "30"),
                                    to<&LaunchOptions::op_timeout_s>,
                                    "fail a collective without progress after S seconds");
  add.in(kBench)("on-loss", one_of("WHAT", {"abort", "shrink"}, "abort"),
                 to<&LaunchOptions::shrink>,
                 "when a rank or host is lost: end, or go on without it",
                 "shrink: the others form a smaller communicator, measure the row that broke again "
                 "and go on; the verdict is incomplete (code 8) and names the lost. A rank that "
                 "has not moved for --op-timeout is lost, too. A way that breaks between ranks "
                 "that are all there ends the job, as does a loss that leaves one rank.");
  add("grace", seconds("S", 0, 3600, "5"), to<&LaunchOptions::grace_s>,
      "seconds from SIGTERM to SIGKILL");
  started("tag-output", flag(), to<&LaunchOptions::tag_output>,
          "put [rank], on hosts [rank host], before every line of a rank");
  started("no-tag-output", flag(), "undo --tag-output");
  started("output-dir", directory(), to<&LaunchOptions::output_dir>,
          "write each rank's output to a file of its own");
  program("stdin", one_of("WHO", {"none", "0", "all"}, "none"), to<&LaunchOptions::stdin_mode>,
          "which ranks read standard input");
  program("gather", flag(), to<&LaunchOptions::gather>,
          "print equal outputs of ranks once, at the end");
  launch("dry-run", flag(), to<&LaunchOptions::dry_run>, "print the placement and start nothing");
  launch("launcher", one_of("KIND", {"ssh", "local", "adopt"}, "ssh with hosts, else local"),
         to<&LaunchOptions::launcher>, "how ranks are started",
         "ssh starts them on the hosts, local on this one. adopt starts none: this process is one "
         "rank of a job of Slurm, Open MPI, PMI or torchrun, by their variables.");
  ranks(
      "join", text("HOST:PORT"), to<&LaunchOptions::join>,
      "be one rank of the job whose rank 0 is at this address",
      "Needs --rank and --size, and a token from --token-file or COLLCTL_TOKEN unless the address "
      "is a loopback one, where ranks of one user find each other.");
  ranks("rank", integer("R", 0, 65535), to<&LaunchOptions::join_rank>,
        "this process's rank, with --join");
  ranks("size", integer("N", 1, 65536), to<&LaunchOptions::join_size>,
        "how many ranks join, with --join");
  ranks("token-file", file(), to<&LaunchOptions::token_file>,
        "file with the job's secret, with --join",
        "It must be its user's (or root's) and closed to others, and hold at "
        "least 16 characters; collctl token makes one.");
}

void add_host_options(std::vector<Option>& t) {
  using namespace kinds;
  const Adder add{t, Group::hosts, kLaunch | kDoctor | kTopo};
  const Adder launch = add.in(kLaunch & ~kCheck);
  add("H,hosts", text("LIST", "this host"), "hosts: a:4,b:4,node[01-16]",
      "Entries are [user@]HOST[:SLOTS], comma separated; HOST takes ranges such as "
      "node[01-16,20-24:2], an IPv6 address stands in brackets. Without SLOTS: a rank for each GPU "
      "of the host, or for each core without GPUs.");
  add("hostfile", file(), "hosts from a file, - for standard input",
      "One entry a line: [user@]HOST[:N] and slots=N max_slots=M user=U port=P key=FILE "
      "jump=[USER@]HOST[:PORT] addr=IP devices=0,1|all|none nics=a,b rack=R path=P. !HOST "
      "excludes; @name = LIST defines a group and @name takes it; include FILE and slurm:LIST work "
      "too. Hostfiles of Open MPI, MPICH and DeepSpeed load. With -H and a file, -H picks from the "
      "file.");
  add("ssh-config", file("FILE", "the user's and the system's"),
      to<&LaunchOptions::ssh, &launcher::ChannelOptions::config_file>, "SSH configuration to use");
  add("ssh-client", one_of("WHICH", {"auto", "libssh2", "openssh"}, "auto"),
      to<&LaunchOptions::ssh, &launcher::ChannelOptions::client>, "SSH client",
      "auto: the built-in one; the system's ssh where a server or key needs it.");
  add("ssh-user", text("USER", "as configured"),
      to<&LaunchOptions::ssh, &launcher::ChannelOptions::user>, "user on hosts that name none");
  add("ssh-port", integer("PORT", 1, 65535, "as configured"),
      to<&LaunchOptions::ssh, &launcher::ChannelOptions::port>, "port on hosts that name none");
  add("i,identity", file("FILE", "as configured"),
      to<&LaunchOptions::ssh, &launcher::ChannelOptions::identity>,
      "private key for hosts that name none");
  add("known-hosts", one_of("HOW", {"strict", "accept-new", "off"}, "strict"),
      to<&LaunchOptions::ssh, &launcher::ChannelOptions::known_hosts>,
      "which host keys are accepted",
      "strict: known ones. accept-new: unknown ones are added to known_hosts; a changed one is "
      "refused. off: any.");
  add("connect-timeout", seconds("S", 0.1, 3600, "10"),
      to<&LaunchOptions::ssh, &launcher::ChannelOptions::connect_timeout_s>,
      "deadline for connecting and logging in, seconds; twice that for the login shell's start-up "
      "files");
  add("fanout", integer("K", 1, 4096, "64"), to<&LaunchOptions::fanout>,
      "hosts to connect to at the same time");
  launch(
      "tree-width", integer("N", 0, 4096, "0"), to<&LaunchOptions::tree_width>,
      "reach hosts in a tree, N from each",
      "The launcher logs in to N hosts, each of these to up to N more, and so on: for hundreds of "
      "hosts. 0: to all itself. Hosts must be able to log in to each other without a question; "
      "--identity, --ssh-config and key= then name files of the host that logs in.");
  add("stage", one_of("WHEN", {"auto", "never", "always"}, "auto"), to<&LaunchOptions::stage>,
      "copy this binary to hosts that lack it");
  add("remote-path", text("PATH", "the user's cache there"), to<&LaunchOptions::remote_path>,
      "where the binary is on the hosts");
  add("binary-for", repeatable(text("MACHINE=PATH", "beside this one")),
      to<&LaunchOptions::binary_for>, "the binary for hosts of another architecture",
      "MACHINE is what uname -m says there: aarch64=build/aarch64/collctl. Without it the file "
      "beside this binary with the machine behind its name, collctl-aarch64, is sent.");
  launch("allow-missing", integer("N", 0, 65535, "0"), to<&LaunchOptions::allow_missing>,
         "run without up to N hosts that fail",
         "The exit code is 8, never 0, when hosts were left out.");
}

}  // namespace collctl::cmd
