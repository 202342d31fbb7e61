#include <map>

#include "base/format.h"
#include "launcher/hosts/hostfile.h"
#include "launcher/hosts/ranges.h"
#include "tests/catch.h"

namespace hosts_hostfile_tests {

using namespace collctl;
using namespace collctl::launcher;

namespace {

using Files = std::map<std::string, std::string>;

ReadFile reader(const Files& files) {
  return [files](const std::string& path) -> Result<std::string> {
    const auto found = files.find(path);
    if (found == files.end()) return Error(ErrorCode::usage, path + ": No such file or directory");
    return found->second;
  };
}

HostList good(const std::string& text, const std::string& option = "") {
  auto list = read_hosts(text.empty() ? "" : "h", option, reader({{"h", text}}));
  INFO(text << " -H " << option << ": " << (list.ok() ? "" : list.error().message));
  REQUIRE(list.ok());
  return *list;
}

Error wrong(const std::string& text, const std::string& option = "") {
  auto list = read_hosts(text.empty() ? "" : "h", option, reader({{"h", text}}));
  INFO(text << " -H " << option);
  REQUIRE_FALSE(list.ok());
  CHECK(list.error().code == ErrorCode::usage);
  return list.error();
}

// "a:4 b c:1": names with the slots that were said.
std::string summary(const HostList& list) {
  std::string text;
  for (const HostSpec& host : list.hosts)
    text += format("{}{}{}", text.empty() ? "" : " ", host.name,
                   host.slots ? format(":{}", *host.slots) : "");
  return text;
}

std::string hosts_of(const std::string& option) {
  return summary(good("", option));
}

}  // namespace

TEST_CASE("host ranges expand", "[hostfile]") {
  CHECK(hosts_of("node[01-03]") == "node01 node02 node03");
  CHECK(hosts_of("node[8-11]") == "node8 node9 node10 node11");
  CHECK(hosts_of("node[008-10]") == "node008 node009 node010");
  CHECK(hosts_of("node[01-02,20-24:2,7]") == "node01 node02 node20 node22 node24 node7");
  CHECK(hosts_of("r[1-2]n[1-2].lan") == "r1n1.lan r1n2.lan r2n1.lan r2n2.lan");
  CHECK(hosts_of("[1-2]x") == "1x 2x");
  CHECK(hosts_of("[1-3:2]x") == "1x 3x");
  CHECK(hosts_of("10.0.0.[1-2]:3") == "10.0.0.1:3 10.0.0.2:3");
  CHECK(hosts_of("a:4,b:4,n[1,3]") == "a:4 b:4 n1 n3");
  CHECK(hosts_of(" a , b ") == "a b");
  CHECK(expand_ranges("n[1-100000]", 100000).names.size() == 100000);
  CHECK(expand_ranges("n[1-100001]", 100000).at == 1);
  CHECK(expand_ranges("n[1-1000]m[1-1000]", 100000).at == 10);
}

TEST_CASE("a byte order mark at the beginning of a file is no part of a name", "[hostfile]") {
  CHECK(summary(good("\xef\xbb\xbfnode1 slots=2\nnode2")) == "node1:2 node2");
  CHECK(summary(good("\xef\xbb\xbf# a remark\nnode1")) == "node1");
  CHECK(summary(good("\xef\xbb\xbf\nnode1")) == "node1");
}

TEST_CASE("every option of a host is read", "[hostfile]") {
  const HostList list = good(
      "# all of them\n"
      "\n"
      "bob@node01:4 max_slots=8 port=2222 key=\"/home/bob/my key\" jump=al@[fe80::1]:22 "
      "addr=10.0.0.7 devices=0,2,1 nics=eth0,mlx5_0 rack=r1 path=/opt/collctl # comment\r\n"
      "\tnode02 slots=2 user=CORP\\eve key=a#b devices=all\n"
      "[::0001]:2 devices=none addr=[::1]\n"
      "[fe80::1%eth0]\n");
  REQUIRE(list.hosts.size() == 4);
  const HostSpec& a = list.hosts[0];
  CHECK(a.name == "node01");
  CHECK(a.user == "bob");
  CHECK(a.slots == 4);
  CHECK(a.max_slots == 8);
  CHECK(a.port == 2222);
  CHECK(a.key == "/home/bob/my key");
  CHECK(a.jump == "al@[fe80::1]:22");
  CHECK(a.address == "10.0.0.7");
  CHECK(a.devices == HostSpec::Devices::listed);
  CHECK(a.device_list == std::vector{0, 2, 1});
  CHECK(a.nics == std::vector<std::string>{"eth0", "mlx5_0"});
  CHECK(a.rack == "r1");
  CHECK(a.path == "/opt/collctl");
  CHECK(a.where == "h:3:1");
  const HostSpec& b = list.hosts[1];
  CHECK(b.user == "CORP\\eve");
  CHECK(b.key == "a#b");
  CHECK(b.devices == HostSpec::Devices::all);
  CHECK(b.where == "h:4:2");
  CHECK(list.hosts[2].name == "::1");
  CHECK(list.hosts[2].slots == 2);
  CHECK(list.hosts[2].address == "::1");
  CHECK(list.hosts[2].devices == HostSpec::Devices::none);
  CHECK(list.hosts[3].name == "fe80::1%eth0");
  CHECK_FALSE(list.hosts[3].slots);
  CHECK(list.warnings.empty());
}

TEST_CASE("a host that is named again adds its slots", "[hostfile]") {
  CHECK(summary(good("a slots=2\nb\na slots=3\n")) == "a:5 b");
  CHECK(summary(good("a\na\na\nb\n")) == "a:3 b");
  CHECK(hosts_of("a:2,a:1") == "a:3");
  CHECK(wrong("a slots=2\nb\na\n").message ==
        "h:3:1: a has no number of slots here but 2 slots at h:1:1: expected slots on both lines "
        "or on none");
  CHECK(
      wrong("a\na:2\n").message ==
      "h:2:1: a has 2 slots here but no number of slots at h:1:1: expected slots on both lines or "
      "on none");
  const HostList list = good("a:1 port=22\na:1 user=bob\na:1 rack=x port=22\n");
  CHECK(list.hosts[0].user == "bob");
  CHECK(list.hosts[0].rack == "x");
  CHECK(list.hosts[0].port == 22);
}

TEST_CASE("a contradiction names both lines", "[hostfile]") {
  CHECK(wrong("a user=al\nb\n a user=bob\n").message ==
        "h:3:2: a has user=bob here but user=al at h:1:1");
  CHECK(wrong("a:1\nn[1-3] port=5\na:1 key=k\nn2 port=6").message ==
        "h:4:1: n2 has port=6 here but port=5 at h:2:1");
  // The line that said it, not the first that named the host.
  CHECK(wrong("a\na key=x\na key=y\n").message == "h:3:1: a has key=y here but key=x at h:2:1");
  CHECK(wrong("al@a user=bob").message ==
        "h:1:1: a has both the user al before its name and user=bob");
  CHECK(wrong("a:2 slots=2").message == "h:1:1: a has both 2 slots in its name and slots=2");
  CHECK(wrong("a slots=2 slots=2").message == "h:1:11: slots= is given twice");
  CHECK(wrong("a port=2 port=2").message == "h:1:10: port= is given twice");
  CHECK(wrong("a slots=3 max_slots=2").message == "h:1:1: 3 slots are more than max_slots=2");
  CHECK(wrong("a:2 max_slots=3\na:2\n").message ==
        "h:2:1: a has 4 slots in all, more than max_slots=3 at h:1:1");
}

TEST_CASE("hosts can be left out, grouped, included and listed by Slurm", "[hostfile]") {
  CHECK(summary(good("!n2\nn[1-4]\n!n[3-3]\n")) == "n1 n4");
  CHECK(hosts_of("n[1-4],!n[2-3]") == "n1 n4");
  CHECK(summary(good("@left = n[1-2], n3:2\n@all=@left bob@r1\n@all rack=x\n")) == "n1 n2 n3:2 r1");
  CHECK(good("@all=bob@r1\n@all rack=x\n").hosts[0].rack == "x");
  CHECK(good("@all=bob@r1\n@all rack=x\n").hosts[0].user == "bob");
  CHECK(summary(good("@bad = n2\nn[1-3]\n!@bad\n")) == "n1 n3");
  CHECK(summary(good("slurm:sn[01-02,04],login1 slots=2\n")) == "sn01:2 sn02:2 sn04:2 login1:2");
  CHECK(hosts_of("slurm:sn[1-2],x") == "sn1 sn2 x");
  const Files files = {{"d/h", "a\ninclude more/x\ninclude /abs\n"},
                       {"d/more/x", "b\ninclude \"y z\"\n"},
                       {"d/more/y z", "c\n@g = q r\n"},
                       {"/abs", "@g"}};
  auto list = read_hosts("d/h", "", reader(files));
  REQUIRE(list.ok());
  CHECK(summary(*list) == "a b c q r");
  CHECK(list->hosts[2].where == "d/more/y z:1:1");
  CHECK(good("n1\n!m[1-2]\n!n2\n").warnings ==
        std::vector<std::string>{"h:2:1: !m1 excludes no host, nor do 2 others"});
}

TEST_CASE("with a hostfile -H picks among its hosts", "[hostfile]") {
  const std::string file = "@g = n2 n3\nn[1-4]:4 user=al rack=x\nm\nm\n";
  const HostList list = good(file, "n3,bob@n1:2,m");
  CHECK(summary(list) == "n3:4 n1:2 m:2");
  CHECK(list.hosts[0].user == "al");
  CHECK(list.hosts[1].user == "bob");
  CHECK(list.hosts[1].rack == "x");
  CHECK(list.hosts[1].where == "h:2:1");
  CHECK(summary(good(file, "@g")) == "n2:4 n3:4");
  CHECK(summary(good(file, "!n2,!m")) == "n1:4 n3:4 n4:4");
  CHECK(summary(good(file + "!n3\n", "@g")) == "n2:4");
  CHECK(wrong(file, "n1,n9").message == "-H:1:4: n9 is not a host of h");
  CHECK(wrong("a:1 max_slots=2\n", "a:3").message ==
        "-H:1:1: 3 slots of a are more than its max_slots=2 (h:1:1)");
}

TEST_CASE("hostfiles of other launchers load", "[hostfile]") {
  const HostList open_mpi = good(
      "# Open MPI\nnode1 slots=2 max_slots=4\nnode2  slots = 3  max-slots=8\nbob@node3 count=1\n"
      "node4 slots=2 boards=1 sockets=2\n+n0\n+e:2\n^node2\n");
  CHECK(summary(open_mpi) == "node1:2 node3:1 node4:2");
  CHECK(open_mpi.hosts[0].max_slots == 4);
  CHECK(open_mpi.warnings ==
        std::vector<std::string>{
            "h:5:15: boards= has no effect here, ignored",
            "h:5:24: sockets= has no effect here, ignored",
            "h:6:1: relative hosts (+n0, +e) has no effect here, ignored (2 times)"});
  const HostList mpich = good("host1:4 binding=user:0,1\nhost2:2 binding=rr\nhost3\n");
  CHECK(summary(mpich) == "host1:4 host2:2 host3");
  CHECK(mpich.warnings ==
        std::vector<std::string>{"h:1:9: binding= has no effect here, ignored (2 times)"});
  const HostList hydra = good("host1:4 ifhn=10.1.0.1\nhost2 ifhn=host2-ib binding=rr\n");
  CHECK(summary(hydra) == "host1:4 host2");
  CHECK(hydra.hosts[0].address == "10.1.0.1");
  CHECK(hydra.hosts[1].address.empty());
  CHECK(hydra.warnings == std::vector<std::string>{"h:2:7: ifhn= has no effect here, ignored",
                                                   "h:2:21: binding= has no effect here, ignored"});
  CHECK(summary(good("worker-1 slots=4\nworker-2 slots=4\n")) == "worker-1:4 worker-2:4");
}

TEST_CASE("a mistake names its place, what was expected and what stands there", "[hostfile]") {
  const std::pair<const char*, const char*> cases[] = {
      {"a slots=x", "h:1:9: expected a number 1..65536, got 'x'"},
      {"a slots=0", "h:1:9: expected a number 1..65536, got '0'"},
      {"a slots=", "h:1:9: expected a number 1..65536, got the end"},
      {"a\nb port=70000", "h:2:8: expected a port 1..65535, got '70000'"},
      {"a slots", "h:1:3: expected option=value or the end of the line, got 'slots'"},
      {"a colour=red",
       "h:1:3: expected one of the options slots, max_slots, user, port, key, jump, addr, devices, "
       "nics, rack, path, got 'colour=red'"},
      {"a key=\"x", "h:1:9: expected '\"', got the end"},
      {"a key=x\"y", "h:1:8: expected a value without quotes inside, got '\"y'"},
      {"a jump=b@", "h:1:8: expected one [user@]host[:port], got 'b@'"},
      {"a jump=x,y", "h:1:8: expected one [user@]host[:port], got 'x,y'"},
      {"a addr=10.0.0.300", "h:1:8: expected an IPv4 or IPv6 address, got '10.0.0.300'"},
      {"a devices=0,0", "h:1:11: expected 0,1,2, all or none, got '0,0'"},
      {"n[1-2] addr=10.0.0.1", "h:1:1: addr= is the address of one host, but 2 are listed here"},
      {"node[01-", "h:1:9: expected the last number of the range, got the end"},
      {"node[]", "h:1:6: expected a number, got ']'"},
      {"node[5-4]", "h:1:8: expected a number not below 5, got '4]'"},
      {"node[1-4:0]", "h:1:10: expected a step, 1 or more, got '0]'"},
      {"node[1;4]", "h:1:7: expected ',' or ']', got ';4]'"},
      {"node1]", "h:1:6: expected '[' before ']', got ']'"},
      {"a[1-99999999]", "h:1:2: expected at most 100000 hosts of one range, got '[1-99999999]'"},
      {"a[1-1000][1-1000]", "h:1:10: expected at most 100000 hosts of one name, got '[1-1000]'"},
      {"a[1-9999999999]", "h:1:5: expected a number of at most 9 digits, got '9999999999]'"},
      {"fe80::1", "h:1:1: expected brackets around an IPv6 address, got 'fe80::1'"},
      {"[fe80::z]", "h:1:2: expected an IPv6 address, got 'fe80::z]'"},
      {"[::1]x", "h:1:6: expected ':' or a blank, got 'x'"},
      {"a:", "h:1:3: expected a number of slots 1..65536, got the end"},
      {"a:x b", "h:1:3: expected a number of slots 1..65536, got 'x'"},
      {"@a,b", "h:1:1: expected a group that was defined before, got '@a,b'"},
      {"a,b", "h:1:2: expected letters, digits, '.', '-' or '_', got ',b'"},
      {"-oProxyCommand=x", "h:1:1: expected a host name, got '-oProxyCommand=x'"},
      {"x@-oProxy", "h:1:3: expected a host name, got '-oProxy'"},
      {"-l@host", "h:1:1: expected a user name before '@', got '-l@host'"},
      {"us;er@host", "h:1:1: expected a user name before '@', got 'us;er@host'"},
      {"n\xc3\xb6"
       "de",
       "h:1:2: expected letters, digits, '.', '-' or '_', got '\xc3\xb6"
       "de'"},
      {"@g = a\n@g = b", "h:2:1: the group @g was defined at h:1:1"},
      {"@g =", "h:1:5: expected the hosts of the group, got the end"},
      {"@ = a", "h:1:2: expected the name of a group, got ' '"},
      {"!a b", "h:1:4: expected the end of the line, got 'b'"},
      {"!", "h:1:2: expected a host to exclude, got the end"},
      {"!a:4", "h:1:2: expected a host to exclude by its name alone, got 'a:4'"},
      {"include", "h:1:8: expected the name of a file, got the end"},
      {"include no/where", "h:1:9: cannot be included: no/where: No such file or directory"},
      {"slurm:4",
       "h:1:7: expected Slurm's list of hosts (slots of a host with this name: slurm "
       "slots=N), got '4'"},
      {"slurm:a,b:2", "h:1:9: expected the plain name of a host, got 'b:2'"},
      {"a\x01", "h:1:2: expected text, got the byte 0x01"},
  };
  for (const auto& [text, sentence] : cases) CHECK(wrong(text).message == sentence);
  CHECK(wrong("", "a,,b").message == "-H:1:3: expected a host, got ',b'");
  CHECK(wrong("", "a,").message == "-H:1:3: expected a host, got the end");
  CHECK(wrong("", "a b").message == "-H:1:3: expected ',' or the end, got 'b'");
  CHECK(wrong("", "!a").message == "-H: no host is left");
  CHECK(wrong("a\n!a\n").message == "h: no host is left");
  CHECK(wrong("# nothing\n").message == "h: there is no host in it");
  CHECK(wrong("a slots=4\nnode7 slots=x # no").hint ==
        "the mark shows the place\n  node7 slots=x\n              ^");
}

TEST_CASE("all mistakes of a file are told at once", "[hostfile]") {
  const Error two = wrong("a slots=x\nb\nc color=red\nd");
  CHECK(two.message == "h:1:9: expected a number 1..65536, got 'x'");
  CHECK(two.hint.find("\nh:3:3: expected one of the options slots") != std::string::npos);
  CHECK(two.hint.ends_with("\n2 mistakes in all"));
  CHECK(wrong("a slots=x").hint.find("mistakes") == std::string::npos);
  // A line that uses a group with a mistake makes none of its own.
  CHECK(wrong("@g = a b[\n@g slots=2\n@g").hint.find("mistakes") == std::string::npos);
  // As many as a person reads.
  std::string many;
  for (int i = 0; i < 100; ++i) many += format("n{} slots=x\n", i);
  const Error all = wrong(many);
  CHECK(all.hint.find("h:20:") != std::string::npos);
  CHECK(all.hint.find("h:21:") == std::string::npos);
  CHECK(all.hint.ends_with("\nthe first 20 mistakes; what follows was not read"));
}

TEST_CASE("a group's definition is one sentence per mistake", "[hostfile]") {
  CHECK(wrong("@g = a b:x\n").message == "h:1:10: expected a number of slots 1..65536, got 'x'");
  CHECK(wrong("@g = a @h\n").message ==
        "h:1:8: expected a group that was defined before, got '@h'");
  CHECK(wrong("@g = a,,b\n").message == "h:1:8: expected a host name, got ',b'");
}

TEST_CASE("what is read is bounded", "[hostfile]") {
  Files circle = {{"x/a", "include b\n"}, {"x/b", "h1\ninclude ./../x/a\n"}};
  auto list = read_hosts("x/a", "", reader(circle));
  REQUIRE_FALSE(list.ok());
  CHECK(list.error().message == "x/b:2:9: files include each other: x/a -> x/b -> x/a");
  Files chain;
  for (int i = 0; i < 40; ++i) chain[format("f{}", i)] = format("include f{}\n", i + 1);
  list = read_hosts("f0", "", reader(chain));
  REQUIRE_FALSE(list.ok());
  CHECK(list.error().message == "f15:1:9: files include each other 16 deep");
  std::string wide;
  for (int i = 0; i < 1100; ++i) wide += "include e\n";
  list = read_hosts("h", "", reader({{"h", wide}, {"e", "a\n"}}));
  REQUIRE_FALSE(list.ok());
  CHECK(list.error().message == "h:1000:9: more than 1000 files");
  CHECK(wrong(std::string(kMostHostfileBytes + 1, '#')).message ==
        "h: more than 16 MiB: this is not a hostfile");
  CHECK(wrong("a " + std::string(1 << 18, 'x')).message ==
        "h:1:1: expected lines of at most 131072 bytes, got 262146");
  CHECK(wrong("n[1-60000]\nm[1-60000]\n").message == "h:2:1: more than 100000 hosts");
  std::string again = "@g = n[1-100000]\n";
  for (int i = 0; i < 20; ++i) again += "@g\n";
  CHECK(wrong(again).message == "h:11:1: more than 1000000 hosts are listed");
  std::string slots;
  for (int i = 0; i < 3; ++i) slots += "a slots=30000\n";
  CHECK(wrong(slots).message == "h:3:1: a has more than 65536 slots in all");
  CHECK(wrong(std::string(300, 'a')).message.find("expected a name of at most 255 characters") !=
        std::string::npos);
  CHECK(good("n[1-100000]\n").hosts.size() == 100000);
}

}  // namespace hosts_hostfile_tests
