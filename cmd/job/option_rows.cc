// The launch and host rows of THE table of options.
#include "cmd/cli/option_rows.h"
#include "cmd/job/options.h"

namespace collctl::cmd {

void add_launch_options(std::vector<Option>& t) {
  const Adder add{t, Group::launch, kLaunch};
  add({.name = "ranks",
       .letter = 'n',
       .kind = ValueKind::integer,
       .value = "N",
       .fallback = "every slot, or one per GPU or core",
       .minimum = 1,
       .maximum = 65536,
       .help = "how many ranks",
       .more =
           "With hosts: one for each slot; a host without slots has one for each of its GPUs, "
           "or of its cores where it has none. On this host: one per GPU, or per core; CPU ranks "
           "may outnumber the cores, which a note says. nccl-tests' -g GPUS -t THREADS means "
           "GPUS x THREADS ranks, on each host where there are several."});
  add({.name = "ngpus",
       .letter = 'g',
       .kind = ValueKind::integer,
       .value = "N",
       .fallback = "1",
       .minimum = 1,
       .maximum = 1024,
       .scopes = kCollectives,
       .hidden = true,
       .help = "as nccl-tests has it: GPUs of a thread"});
  add({.name = "nthreads",
       .letter = 't',
       .kind = ValueKind::integer,
       .value = "N",
       .fallback = "1",
       .minimum = 1,
       .maximum = 1024,
       .scopes = kCollectives,
       .hidden = true,
       .help = "as nccl-tests has it: threads of a process"});
  add({.name = "ranks-per-host",
       .letter = 'N',
       .kind = ValueKind::integer,
       .value = "K",
       .fallback = "by slots",
       .minimum = 1,
       .maximum = 65536,
       .help = "ranks on each host",
       .more = "Without hosts: at most K on this one."});
  add({.name = "map-by",
       .kind = ValueKind::choice,
       .value = "WHAT",
       .fallback = "slot",
       .allowed = {"slot", "host"},
       .help = "fill each host in turn, or deal ranks out one by one"});
  add({.name = "oversubscribe",
       .help = "allow more ranks than slots or GPUs",
       .more = "Never more than a host's max_slots. GPU ranks beyond a host's GPUs share them, as "
               "processes of their own."});
  add({.name = "rank-mode",
       .kind = ValueKind::choice,
       .value = "MODE",
       .fallback = "process",
       .allowed = {"process", "thread"},
       .scopes = kOnRanks | kTask,
       .help = "ranks as processes or as threads of one"});
  add({.name = "bind-to",
       .kind = ValueKind::choice,
       .value = "WHAT",
       .fallback = "device for GPU ranks, cores of its own for a CPU rank",
       .allowed = {"none", "core", "numa", "device"},
       .help = "bind each rank to a core or a NUMA node",
       .more = "device is for GPU ranks: the cores of the NUMA node of the rank's GPU. CPU ranks "
               "share a host's allowed cores out among themselves where there is one for each, "
               "else they are not bound. Programs are not bound by default."});
  add({.name = "env",
       .letter = 'x',
       .kind = ValueKind::text,
       .value = "NAME[=VALUE]",
       .fallback = "none",
       .repeatable = true,
       .help = "pass a variable to the ranks; NAME* passes a prefix"});
  add({.name = "timeout",
       .kind = ValueKind::duration,
       .value = "S",
       .fallback = "none",
       .minimum = 0.001,
       .maximum = 31536000,
       .scopes = kLaunch | kDoctor | kTopo,
       .help = "end the whole job after S seconds"});
  add({.name = "start-timeout",
       .kind = ValueKind::duration,
       .value = "S",
       .fallback = "60",
       .minimum = 0.001,
       .maximum = 86400,
       .scopes = kLaunch | kDoctor | kTopo,
       .help = "deadline for launch and bootstrap, seconds"});
  add({.name = "op-timeout",
       .kind = ValueKind::duration,
       .value = "S",
       .fallback = "30",
       .minimum = 0.001,
       .maximum = 86400,
       .scopes = kOnRanks | kTask | kCheck,
       .help = "fail a collective without progress after S seconds"});
  add({.name = "on-loss",
       .kind = ValueKind::choice,
       .value = "WHAT",
       .fallback = "abort",
       .allowed = {"abort", "shrink"},
       .scopes = kBench,
       .help = "when a rank or host is lost: end, or go on without it",
       .more =
           "shrink: the others form a smaller communicator, measure the row that broke again and "
           "go on; the verdict is incomplete (code 8) and names the lost. A rank that has not "
           "moved for --op-timeout is lost, too. A way that breaks between ranks that are all "
           "there ends the job, as does a loss that leaves one rank."});
  add({.name = "grace",
       .kind = ValueKind::duration,
       .value = "S",
       .fallback = "5",
       .minimum = 0,
       .maximum = 3600,
       .help = "seconds from SIGTERM to SIGKILL"});
  add({.name = "tag-output",
       .scopes = kOnRanks | kProgram,
       .help = "put [rank], on hosts [rank host], before every line of a rank"});
  add({.name = "no-tag-output", .scopes = kOnRanks | kProgram, .help = "undo --tag-output"});
  add({.name = "output-dir",
       .kind = ValueKind::directory,
       .value = "DIR",
       .fallback = "none",
       .scopes = kOnRanks | kProgram,
       .help = "write each rank's output to a file of its own"});
  add({.name = "stdin",
       .kind = ValueKind::choice,
       .value = "WHO",
       .fallback = "none",
       .allowed = {"none", "0", "all"},
       .scopes = kProgram,
       .help = "which ranks read standard input"});
  add({.name = "gather",
       .scopes = kProgram,
       .help = "print equal outputs of ranks once, at the end"});
  add({.name = "dry-run",
       .scopes = kLaunch & ~kCheck,
       .help = "print the placement and start nothing"});
  add({.name = "launcher",
       .kind = ValueKind::choice,
       .value = "KIND",
       .fallback = "ssh with hosts, else local",
       .allowed = {"ssh", "local", "adopt"},
       .scopes = kLaunch & ~kCheck,
       .help = "how ranks are started",
       .more =
           "ssh starts them on the hosts, local on this one. adopt starts none: this process is "
           "one rank of a job of Slurm, Open MPI, PMI or torchrun, by their variables."});
  add({.name = "join",
       .kind = ValueKind::text,
       .value = "HOST:PORT",
       .fallback = "none",
       .scopes = kOnRanks | kTask,
       .help = "be one rank of the job whose rank 0 is at this address",
       .more = "Needs --rank and --size, and a token from --token-file or COLLCTL_TOKEN "
               "unless the address is a loopback one, where ranks of one user find each other."});
  add({.name = "rank",
       .kind = ValueKind::integer,
       .value = "R",
       .fallback = "none",
       .minimum = 0,
       .maximum = 65535,
       .scopes = kOnRanks | kTask,
       .help = "this process's rank, with --join"});
  add({.name = "size",
       .kind = ValueKind::integer,
       .value = "N",
       .fallback = "none",
       .minimum = 1,
       .maximum = 65536,
       .scopes = kOnRanks | kTask,
       .help = "how many ranks join, with --join"});
  add({.name = "token-file",
       .kind = ValueKind::file,
       .value = "FILE",
       .fallback = "none",
       .scopes = kOnRanks | kTask,
       .help = "file with the job's secret, with --join",
       .more = "It must be its user's (or root's) and closed to others, and hold at least 16 "
               "characters; collctl token makes one."});
}

void add_host_options(std::vector<Option>& t) {
  const Adder add{t, Group::hosts, kLaunch | kDoctor | kTopo};
  add({.name = "hosts",
       .letter = 'H',
       .kind = ValueKind::text,
       .value = "LIST",
       .fallback = "this host",
       .help = "hosts: a:4,b:4,node[01-16]",
       .more = "Entries are [user@]HOST[:SLOTS], comma separated; HOST takes ranges such as "
               "node[01-16,20-24:2], an IPv6 address stands in brackets. Without SLOTS: a rank for "
               "each GPU of the host, or for each core without GPUs."});
  add({.name = "hostfile",
       .kind = ValueKind::file,
       .value = "FILE",
       .fallback = "none",
       .help = "hosts from a file, - for standard input",
       .more = "One entry a line: [user@]HOST[:N] and slots=N max_slots=M user=U port=P key=FILE "
               "jump=[USER@]HOST[:PORT] addr=IP devices=0,1|all|none nics=a,b rack=R path=P. "
               "!HOST excludes; @name = LIST defines a group and @name takes it; include FILE and "
               "slurm:LIST work too. Hostfiles of Open MPI, MPICH and DeepSpeed load. With -H and "
               "a file, -H picks from the file."});
  add({.name = "ssh-config",
       .kind = ValueKind::file,
       .value = "FILE",
       .fallback = "the user's and the system's",
       .help = "SSH configuration to use"});
  add({.name = "ssh-client",
       .kind = ValueKind::choice,
       .value = "WHICH",
       .fallback = "auto",
       .allowed = {"auto", "libssh2", "openssh"},
       .help = "SSH client",
       .more = "auto: the built-in one; the system's ssh where a server or key needs it."});
  add({.name = "ssh-user",
       .kind = ValueKind::text,
       .value = "USER",
       .fallback = "as configured",
       .help = "user on hosts that name none"});
  add({.name = "ssh-port",
       .kind = ValueKind::integer,
       .value = "PORT",
       .fallback = "as configured",
       .minimum = 1,
       .maximum = 65535,
       .help = "port on hosts that name none"});
  add({.name = "identity",
       .letter = 'i',
       .kind = ValueKind::file,
       .value = "FILE",
       .fallback = "as configured",
       .help = "private key for hosts that name none"});
  add({.name = "known-hosts",
       .kind = ValueKind::choice,
       .value = "HOW",
       .fallback = "strict",
       .allowed = {"strict", "accept-new", "off"},
       .help = "which host keys are accepted",
       .more = "strict: known ones. accept-new: unknown ones are added to known_hosts; a changed "
               "one is refused. off: any."});
  add({.name = "connect-timeout",
       .kind = ValueKind::duration,
       .value = "S",
       .fallback = "10",
       .minimum = 0.1,
       .maximum = 3600,
       .help = "deadline for connecting and logging in, seconds; twice that for the login shell's "
               "start-up files"});
  add({.name = "fanout",
       .kind = ValueKind::integer,
       .value = "K",
       .fallback = "64",
       .minimum = 1,
       .maximum = 4096,
       .help = "hosts to connect to at the same time"});
  add({.name = "tree-width",
       .kind = ValueKind::integer,
       .value = "N",
       .fallback = "0",
       .minimum = 0,
       .maximum = 4096,
       .scopes = kLaunch & ~kCheck,
       .help = "reach hosts in a tree, N from each",
       .more = "The launcher logs in to N hosts, each of these to up to N more, and so on: for "
               "hundreds of hosts. 0: to all itself. Hosts must be able to log in to each other "
               "without a question; "
               "--identity, --ssh-config and key= then name files of the host that logs in."});
  add({.name = "stage",
       .kind = ValueKind::choice,
       .value = "WHEN",
       .fallback = "auto",
       .allowed = {"auto", "never", "always"},
       .help = "copy this binary to hosts that lack it"});
  add({.name = "remote-path",
       .kind = ValueKind::text,
       .value = "PATH",
       .fallback = "the user's cache there",
       .help = "where the binary is on the hosts"});
  add({.name = "allow-missing",
       .kind = ValueKind::integer,
       .value = "N",
       .fallback = "0",
       .minimum = 0,
       .maximum = 65535,
       .scopes = kLaunch & ~kCheck,
       .help = "run without up to N hosts that fail",
       .more = "The exit code is 8, never 0, when hosts were left out."});
}

}  // namespace collctl::cmd
