// The judgement of `rails` on matrices made by hand, and its record.
#include <functional>
#include <span>
#include <sstream>

#include "base/format.h"
#include "cmd/rails/rails.h"
#include "tests/catch.h"
#include "tests/unit/cmd/json_page.h"

namespace rails_rails_tests {

using namespace collctl;
using namespace collctl::cmd;

namespace {

struct Shape {
  int hosts = 2;
  std::vector<std::string> nics{"mlx5_0:1", "mlx5_1:1"};
  std::string link = "RoCE";
};
using Cell =
    std::function<RailResult(int from, int to, const std::string& nic, const std::string& peer)>;

RailResult good(double GBps = 40) {
  return {.end = RailEnd::ok,
          .GBps = GBps,
          .first_us = 5,
          .from_gid = 3,
          .to_gid = 3,
          .gid_type = "RoCE v2"};
}
RailResult bad(RailEnd end) {
  return {.end = end, .text = "why"};
}

// Hosts n0, n1, ... with the same NICs, and every way as in `cell`.
RailsReport matrix(const Shape& shape, const Cell& cell) {
  RailsReport report;
  report.message_bytes = 1 << 20;
  for (int h = 0; h < shape.hosts; ++h) {
    RailsHost& host = report.hosts.emplace_back();
    host.host = {HostId(int32_t(h)), format("n{}", h)};
    for (const std::string& name : shape.nics)
      host.nics.push_back({.name = name,
                           .link = shape.link,
                           .rdma = shape.link != "Ethernet",
                           .rate_Gbps = 320,
                           .mtu = 4096});
  }
  for (int a = 0; a < shape.hosts; ++a)
    for (int b = 0; b < shape.hosts; ++b) {
      if (a == b) continue;
      RailPair& pair = report.pairs.emplace_back();
      pair.from = a;
      pair.to = b;
      for (const std::string& nic : shape.nics)
        for (const std::string& peer : shape.nics) pair.cells.push_back(cell(a, b, nic, peer));
    }
  return report;
}

std::vector<Finding> failures(const RailsFindings& found) {
  std::vector<Finding> list;
  for (const Finding& finding : found.checks)
    if (finding.status == FindingStatus::fail && finding.name != "blame") list.push_back(finding);
  return list;
}

ErrorCode code(const RailsFindings& found) {
  return found.verdict(std::nullopt).code();
}

std::string text_of(const RailsReport& report, const RailsFindings& found,
                    const TextStyle& style = {}) {
  return document_text(
      rails_document(report, found, rails_json(report, found, found.verdict(std::nullopt))), style);
}

std::vector<std::string> kinds(const RailsFindings& found) {
  std::vector<std::string> list;
  for (const Finding& finding : failures(found)) list.push_back(finding.reason);
  return list;
}

}  // namespace

TEST_CASE("rails: all ways are good") {
  const auto report =
      matrix({.hosts = 3}, [](int, int, const auto&, const auto&) { return good(); });
  const RailsFindings v = judge_rails(report, 0.7);
  CHECK(code(v) == ErrorCode{});
  CHECK(v.tried == 24);  // 3 x 2 ordered pairs of hosts, 2 x 2 NICs
  CHECK(v.good == 24);
  CHECK(v.median_GBps == 40);
  CHECK(!v.rail_only);
  CHECK(v.recommended == "COLLCTL_IB_HCA==mlx5_0,mlx5_1 COLLCTL_IB_GID_INDEX=3");
  CHECK(text_of(report, v).find("\nrecommended for collctl, and for NCCL:\n"
                                "export COLLCTL_IB_HCA='=mlx5_0,mlx5_1' COLLCTL_IB_GID_INDEX='3'\n"
                                "export NCCL_IB_HCA='=mlx5_0,mlx5_1' NCCL_IB_GID_INDEX='3'\n") !=
        std::string::npos);
  RailsFindings odd = v;  // names are what hosts send: none may leave its quotes
  odd.recommended = "COLLCTL_SOCKET_IFNAME==e'$(reboot) x COLLCTL_CROSS_NIC";
  CHECK(text_of(report, odd).find("\nexport NCCL_SOCKET_IFNAME='=e'\\''$(reboot)'\n") !=
        std::string::npos);
}

TEST_CASE("rails: tables of many NICs fit the width in blocks") {
  Shape shape;
  shape.nics.clear();
  for (int i = 0; i < 16; ++i) shape.nics.push_back(format("mlx5_{}:1", i));
  const auto report = matrix(shape, [](int, int, const auto&, const auto&) { return good(); });
  const RailsFindings found = judge_rails(report, 0.7);
  for (const size_t width : {size_t{60}, size_t{80}, size_t{100}}) {
    INFO(width);
    const std::string text = text_of(report, found, {.width = width});
    std::istringstream lines(text.substr(text.find("n0 \\ n1")));
    size_t heads = 0, cells = 0;
    for (std::string line; std::getline(lines, line) && !line.ends_with(" GB/s");) {
      CHECK(line.size() <= width);
      heads += line.starts_with("n0 \\ n1") ? 1 : 0;
      for (size_t at = 0; (at = line.find(" 40", at)) != line.npos; ++at) ++cells;
    }
    CHECK(heads == (width == 60 ? 4 : width == 80 ? 3 : 2));
    CHECK(cells == 16 * 16);
  }
}

TEST_CASE("rails: what is slower than most is slow, by the rate of its NICs") {
  auto report = matrix({}, [](int from, int, const auto& nic, const auto&) {
    return good(from == 1 && nic == "mlx5_1:1" ? 20 : 40);
  });
  // Eight ways, two of them (from n1's second NIC) at half of what is usual.
  const RailsFindings v = judge_rails(report, 0.7);
  CHECK(code(v) == ErrorCode::failed);
  CHECK(v.slow.size() == 2);
  CHECK(kinds(v) == std::vector<std::string>{"slow", "slow"});
  CHECK(failures(v)[0].message == "n1 mlx5_1:1 -> n0 mlx5_0:1: 20 GB/s, 40 is usual");
  CHECK(v.recommended == "COLLCTL_IB_HCA==mlx5_0 COLLCTL_IB_GID_INDEX=3");
  CHECK(v.summary == std::vector<std::string>{"2 of 8 are below 0.7 of what is usual"});
  // Exactly the factor is not below it; and 0 asks for nothing.
  CHECK(judge_rails(report, 0.5).slow.empty());
  CHECK(code(judge_rails(report, 0)) == ErrorCode{});
  // Slower NICs are measured by their own kind.
  report.hosts[1].nics[1].rate_Gbps = 80;
  for (RailPair& pair : report.pairs)
    for (size_t c = 0; c < 4; ++c)
      pair.cells[c].GBps = (pair.from == 0 ? c % 2 == 1 : c / 2 == 1) ? 10 : 40;
  const RailsFindings kinds_apart = judge_rails(report, 0.7);
  CHECK(kinds_apart.slow.empty());
  CHECK(kinds_apart.usual == std::map<double, double>{{80, 10}, {320, 40}});
}

TEST_CASE("rails: a fabric of rails is no fault, a broken rail is") {
  const auto rails = [](bool broken) {
    return matrix({}, [broken](int from, int, const auto& nic, const auto& peer) {
      if (nic != peer) return bad(RailEnd::silent);
      return broken && from == 0 && nic == "mlx5_1:1" ? bad(RailEnd::silent) : good();
    });
  };
  const RailsFindings whole = judge_rails(rails(false), 0.7);
  CHECK(whole.rail_only);
  CHECK(code(whole) == ErrorCode{});
  CHECK(whole.tried == 4);
  CHECK(whole.recommended ==
        "COLLCTL_IB_HCA==mlx5_0,mlx5_1 COLLCTL_IB_GID_INDEX=3 COLLCTL_CROSS_NIC=0");
  const RailsFindings broken = judge_rails(rails(true), 0.7);
  CHECK(code(broken) == ErrorCode::failed);
  CHECK(kinds(broken) == std::vector<std::string>{"no-answer"});
  CHECK(broken.recommended == "COLLCTL_IB_HCA==mlx5_0 COLLCTL_IB_GID_INDEX=3 COLLCTL_CROSS_NIC=0");
}

TEST_CASE("rails: the recommendation follows from what is good") {
  // The ports differ in their GID indexes: none can be set for all.
  auto report = matrix({}, [](int from, int, const auto&, const auto&) {
    RailResult cell = good();
    (from == 0 ? cell.from_gid : cell.to_gid) = 5;
    return cell;
  });
  RailsFindings v = judge_rails(report, 0.7);
  CHECK(v.recommended == "COLLCTL_IB_HCA==mlx5_0,mlx5_1");
  CHECK(v.note.find("leave COLLCTL_IB_GID_INDEX unset") != std::string::npos);
  // Two ports of one device are two; InfiniBand without GIDs names none.
  report = matrix({.nics = {"mlx5_0:1", "mlx5_0:2"}, .link = "InfiniBand"},
                  [](int, int, const auto&, const auto&) {
                    return RailResult{.end = RailEnd::ok, .GBps = 40};
                  });
  v = judge_rails(report, 0.7);
  CHECK(v.recommended == "COLLCTL_IB_HCA==mlx5_0:1,mlx5_0:2");
  CHECK(v.note.empty());
  // Nothing works.
  report = matrix({}, [](int, int, const auto&, const auto&) { return bad(RailEnd::no_address); });
  v = judge_rails(report, 0.7);
  CHECK(v.recommended.empty());
  CHECK(v.note ==
        "no choice of NICs by name connects all hosts well: n0 mlx5_0:1 -> n1 mlx5_0:1 is bad");
  CHECK(code(v) == ErrorCode::failed);
  // One of the interfaces is used: the fastest that all hosts have.
  report = matrix({.nics = {"eth0", "eth1"}, .link = "Ethernet"}, [](int, int, const auto& nic,
                                                                     const auto& peer) {
    RailResult cell{.end = RailEnd::ok, .GBps = nic == "eth1" && peer == "eth1" ? 12.0 : 11.0};
    return cell;
  });
  CHECK(judge_rails(report, 0.7).recommended == "COLLCTL_SOCKET_IFNAME==eth1");
}

TEST_CASE("rails: one bad path takes one NIC out of what is recommended", "[rails]") {
  // With three NICs on three hosts one path of one direction fails.
  auto report = matrix({.hosts = 3, .nics = {"mlx5_0:1", "mlx5_1:1", "mlx5_2:1"}},
                       [](int from, int to, const auto& nic, const auto& peer) {
                         const bool lost =
                             from == 0 && to == 2 && nic == "mlx5_1:1" && peer == "mlx5_1:1";
                         return lost ? bad(RailEnd::silent) : good();
                       });
  for (int again = 0; again < 2; ++again)  // until it is sure
    report.before.insert(report.before.end(), report.pairs.begin(), report.pairs.end());
  const RailsFindings v = judge_rails(report, 0.7);
  CHECK(v.recommended == "COLLCTL_IB_HCA==mlx5_0,mlx5_2 COLLCTL_IB_GID_INDEX=3");
  CHECK(v.summary == std::vector<std::string>{"1 of 54 paths between NICs fail"});
  REQUIRE(v.culprits.size() == 1);
  CHECK(v.culprits[0].kind == SubjectKind::link);
  CHECK(v.culprits[0].name == "n0 mlx5_1:1 -> n2 mlx5_1:1");
  // Slow is as bad as lost.
  const auto slow = matrix({.hosts = 3}, [](int from, int to, const auto& nic, const auto& peer) {
    const bool late = from == 1 && to == 0 && nic == "mlx5_1:1" && peer == "mlx5_1:1";
    return good(late ? 10 : 40);
  });
  CHECK(judge_rails(slow, 0.7).recommended == "COLLCTL_IB_HCA==mlx5_0 COLLCTL_IB_GID_INDEX=3");
}

TEST_CASE("rails: where nothing works the fabric is not one of rails", "[rails]") {
  const auto report =
      matrix({}, [](int, int, const auto&, const auto&) { return bad(RailEnd::silent); });
  const RailsFindings v = judge_rails(report, 0.7);
  CHECK_FALSE(v.rail_only);
  CHECK(v.tried == 8);
  CHECK(v.good == 0);
  CHECK(v.summary == std::vector<std::string>{"8 of 8 paths between NICs fail"});
  CHECK(code(v) == ErrorCode::failed);
  // Nor where hosts have one NIC each: there is nothing across.
  const auto one =
      matrix({.nics = {"mlx5_0:1"}}, [](int, int, const auto&, const auto&) { return good(); });
  CHECK_FALSE(judge_rails(one, 0.7).rail_only);
  // One path across that works is enough for a fabric of all.
  const auto mixed = matrix({}, [](int from, int, const auto& nic, const auto& peer) {
    return nic == peer || (from == 0 && nic == "mlx5_0:1") ? good() : bad(RailEnd::silent);
  });
  CHECK_FALSE(judge_rails(mixed, 0.7).rail_only);
  CHECK(judge_rails(mixed, 0.7).good == 5);
}

TEST_CASE("rails: every path is a finding with what was expected of it, and who is behind it",
          "[rails]") {
  const auto report = matrix({}, [](int from, int to, const auto& nic, const auto& peer) {
    const bool port = (from == 1 && nic == "mlx5_1:1") || (to == 1 && peer == "mlx5_1:1");
    return port ? good(4) : good(40);
  });
  const RailsFindings v = judge_rails(report, 0.5);
  REQUIRE(v.checks.size() == 9);
  CHECK(v.checks[0].name == "blame");
  CHECK(v.checks[0].message.starts_with("nic n1 mlx5_1:1: 4 of 4 measurements"));
  CHECK(!v.checks[0].remedy.empty());
  for (const Finding& finding : std::span(v.checks).subspan(1)) {
    CHECK(finding.at.kind == SubjectKind::link);
    CHECK(finding.unit == "GB/s");
    CHECK(finding.expected == "20");  // of four at 4 and four at 40
    CHECK(finding.basis == "0.5 of what is usual of paths at 320 Gb/s");
    CHECK((finding.status == FindingStatus::fail) == (finding.measured == "4"));
  }
  REQUIRE(v.culprits.size() == 1);
  CHECK(v.culprits[0].kind == SubjectKind::nic);
  CHECK(v.culprits[0].name == "n1 mlx5_1:1");
  CHECK(v.culprits[0].confidence == 1);
  // A path that is none of a fabric of rails is not tested, and nothing against it.
  const auto rails = matrix({}, [](int, int, const auto& nic, const auto& peer) {
    return nic == peer ? good() : bad(RailEnd::silent);
  });
  size_t across = 0;
  for (const Finding& finding : judge_rails(rails, 0.5).checks)
    if (finding.at.device != finding.at.peer_device) {
      ++across;
      CHECK(finding.status == FindingStatus::not_tested);
      CHECK(finding.code == ErrorCode{});
    }
  CHECK(across == 4);
}

TEST_CASE("rails: no path at all is no pass", "[rails]") {
  // One of two hosts has no RDMA port: that is the finding.
  auto report = matrix({}, [](int, int, const auto&, const auto&) { return bad(RailEnd::unlike); });
  for (RailsNic& nic : report.hosts[1].nics) nic.rdma = false, nic.link = "Ethernet";
  CHECK(kinds(judge_rails(report, 0.7)) == std::vector<std::string>{"host"});
  CHECK(code(judge_rails(report, 0.7)) == ErrorCode::failed);
  // Nobody has a NIC.
  report = matrix({.nics = {}}, [](int, int, const auto&, const auto&) { return good(); });
  const RailsFindings bare = judge_rails(report, 0.7);
  CHECK(kinds(bare) == std::vector<std::string>{"host", "host"});
  CHECK(failures(bare)[0].message == "n0 has no network interface that can be used");
  CHECK(bare.summary[0] == "2 of 2 hosts without a NIC");
  // All have, and none goes with another.
  report = matrix({}, [](int, int, const auto&, const auto&) { return bad(RailEnd::unlike); });
  const RailsFindings none = judge_rails(report, 0.7);
  CHECK(kinds(none) == std::vector<std::string>{"none"});
  CHECK(code(none) == ErrorCode::failed);
  CHECK(none.summary == std::vector<std::string>{"there is no path between NICs to test"});
}

TEST_CASE("rails: wrong data is worse than a way that fails, a host without RDMA is named") {
  auto report = matrix({}, [](int from, int, const auto& nic, const auto&) {
    return from == 1 && nic == "mlx5_0:1" ? bad(RailEnd::bad_data) : good();
  });
  CHECK(code(judge_rails(report, 0.7)) == ErrorCode::bad_data);
  report = matrix({.hosts = 3}, [](int from, int to, const auto&, const auto&) {
    return from == 2 || to == 2 ? bad(RailEnd::unlike) : good();
  });
  for (RailsNic& nic : report.hosts[2].nics) nic.rdma = false, nic.link = "Ethernet";
  report.hosts[2].why_no_rdma = "no device";
  const RailsFindings v = judge_rails(report, 0.7);
  CHECK(kinds(v) == std::vector<std::string>{"host"});
  CHECK(failures(v)[0].at.host.name == "n2");
  CHECK(failures(v)[0].message.find("no device") != std::string::npos);
  CHECK(v.recommended.empty());
}

TEST_CASE("rails: while an end is busy a path is slow only below half of the limit") {
  double GBps = 20;
  const Cell cell = [&](int from, int, const auto& nic, const auto&) {
    return good(from == 1 && nic == "mlx5_1:1" ? GBps : 40);
  };
  for (const int host : {0, 1}) {
    INFO("host " << host);
    GBps = 20;
    auto report = matrix({}, cell);
    CHECK(judge_rails(report, 0.7).slow.size() == 2);
    report.hosts[size_t(host)].busy = "other processes took 1.6 of 2 cores beside 1 rank";
    RailsFindings spoilt = judge_rails(report, 0.7);
    CHECK(spoilt.slow.empty());
    CHECK(spoilt.verdict({}).code() == ErrorCode::incomplete);
    // The other is not: its own fault, once it has been measured again.
    BusyGuard guard(std::nullopt);
    CHECK(guard.again(spoilt.checks, busy_hosts(report)));
    CHECK(guard.again(spoilt.checks, busy_hosts(report)));
    CHECK_FALSE(guard.again(spoilt.checks, busy_hosts(report)));
    settle_busy(guard, report, spoilt);
    REQUIRE(spoilt.culprits.size() == 1);
    CHECK(spoilt.culprits[0].host == report.hosts[size_t(host)].host);
    CHECK(spoilt.verdict({}).code() == ErrorCode::failed);
    report.hosts[size_t(1 - host)].busy = "steal";
    spoilt = judge_rails(report, 0.7);
    CHECK_FALSE(guard.again(spoilt.checks, busy_hosts(report)));
    settle_busy(guard, report, spoilt);
    CHECK(spoilt.culprits.empty());
    CHECK(spoilt.verdict({}).code() == ErrorCode::incomplete);
    report.hosts[size_t(1 - host)].busy.clear();
    CHECK(text_of(report, judge_rails(report, 0.7))
              .find(": busy: other processes took 1.6 of 2 cores beside 1 rank\n") !=
          std::string::npos);
    GBps = 10;
    report = matrix({}, cell);
    report.hosts[size_t(host)].busy = "steal";
    CHECK(judge_rails(report, 0.7).slow.size() == 2);
    JsonWriter json;
    json.begin_object();
    write_rails(json, report);
    const auto back = read_rails(json.end_object().take());
    REQUIRE(back.ok());
    CHECK(back->hosts[size_t(host)].busy == "steal");
    CHECK(back->hosts[size_t(1 - host)].busy.empty());
  }
}

TEST_CASE("rails: the table marks what fails and what is slow") {
  const auto report = matrix({}, [](int from, int, const auto& nic, const auto& peer) {
    if (from == 0 && nic == "mlx5_0:1" && peer == "mlx5_1:1") return bad(RailEnd::large_lost);
    return good(from == 1 && nic == "mlx5_0:1" && peer == "mlx5_0:1" ? 10 : 40);
  });
  const std::string text = text_of(report, judge_rails(report, 0.7));
  INFO(text);
  // n0's first to n1's second fails only that way; n1's first is slow to n0's first.
  // Columns are as wide as their widest cell: 8 and 17.
  CHECK(text.find("\nn0 \\ n1   mlx5_0:1           mlx5_1:1\n"
                  "mlx5_0:1      10 *  > MTU 4096/4096 !\n"
                  "mlx5_1:1        40                 40\n") != std::string::npos);
  CHECK(text.find(": 1 of 8 paths between NICs fail, 1 of 8 are below 0.7 of what is usual\n") !=
        std::string::npos);
}

TEST_CASE("rails: hosts of one NIC each are one matrix, with what is bad in its place") {
  const auto report = matrix({.hosts = 3, .nics = {"eth0"}, .link = "Ethernet"},
                             [](int from, int to, const auto&, const auto&) {
                               if (from == 1 && to == 2) return bad(RailEnd::silent);
                               return good(from == 2 && to == 0 ? 10 : 40);
                             });
  const std::string text = text_of(report, judge_rails(report, 0.7));
  INFO(text);
  CHECK(text.find("\nfrom \\ to    n0  n1           n2\n"
                  "n0 eth0       -  40           40\n"
                  "n1 eth0      40   -  no answer !\n"
                  "n2 eth0    10 *  40            -\n") != std::string::npos);
}

TEST_CASE("rails: ends of the picture are each host's NICs, of one host once", "[rails]") {
  auto report = matrix({}, [](int, int, const auto&, const auto&) { return good(12.5); });
  const auto texts = [](const PathMatrix& paths) {
    std::vector<std::string> list;
    for (const PathEnd& end : paths.ends) list.push_back(end.text());
    return list;
  };
  using Texts = std::vector<std::string>;
  const PathMatrix two = rails_paths(report, judge_rails(report, 0.7));
  CHECK(texts(two) == Texts{"n0 mlx5_0:1", "n0 mlx5_1:1", "n1 mlx5_0:1", "n1 mlx5_1:1"});
  CHECK(two.GBps[0] == std::vector<double>{kNotTried, kNotTried, 12.5, 12.5});
  report.one_host = true;
  report.hosts[1].host = report.hosts[0].host;
  const PathMatrix one = rails_paths(report, judge_rails(report, 0.7));
  CHECK(texts(one) == Texts{"n0 mlx5_0:1", "n0 mlx5_1:1"});
  CHECK(one.GBps == std::vector(2, std::vector<double>(2, 12.5)));
}

TEST_CASE("rails: the record comes back as it was, and is not trusted") {
  auto report = matrix({}, [](int from, int, const auto&, const auto&) {
    return from == 0 ? good(12.5) : bad(RailEnd::silent);
  });
  report.before = {report.pairs[1]};
  JsonWriter json;
  json.begin_object();
  write_rails(json, report);
  const std::string text = json.end_object().take();
  const auto back = read_rails(text);
  REQUIRE(back.ok());
  REQUIRE(back->pairs.size() == 2);
  CHECK(back->hosts[1].nics[1].name == "mlx5_1:1");
  CHECK(back->pairs[0].cells[3].GBps == 12.5);
  CHECK(back->pairs[0].cells[3].from_gid == 3);
  CHECK(back->pairs[1].cells[0].end == RailEnd::silent);
  REQUIRE(back->before.size() == 1);
  CHECK(back->before[0].from == 1);
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    const size_t at = changed.find(from);
    REQUIRE(at != std::string::npos);
    return read_rails(changed.replace(at, from.size(), to));
  };
  CHECK(!with("\"end\":\"ok\"", "\"end\":\"fine\"").ok());
  CHECK(!with("\"to\":1", "\"to\":2").ok());
  CHECK(!with("\"before\":[{\"from\":1,\"to\":0", "\"before\":[{\"from\":0,\"to\":0").ok());
  CHECK(!with("\"to_gid\":3", "\"to_gid\":1e9").ok());
  // A host with a NIC more than its pairs have ways for.
  CHECK(!with("\"nics\":[",
              "\"nics\":[{\"name\":\"x\",\"link\":\"RoCE\",\"rdma\":true,\"rate_Gbps\":1,"
              "\"mtu\":1,\"lid\":0,\"address\":\"\",\"gids\":[]},")
             .ok());
}

TEST_CASE("rails: docs/json.md knows every key of the report") {
  auto report = matrix({.hosts = 3}, [](int from, int, const auto&, const auto&) {
    return from == 1 ? bad(RailEnd::silent) : good();
  });
  report.hosts[0].nics[0].gids = {{3, "RoCE v2", "::ffff:10.0.0.1"}};
  report.hosts[0].nics[0].network = "10.0.0.0/24";
  report.hosts[0].unused = {"mlx5_7:1 is DOWN"};
  report.hosts[1].busy = "steal";
  report.pairs[2].cells[0].lost = runtime::RailLost::there;
  report.pairs[2].cells[0].resent = 0;
  report.before = report.pairs;
  report.memory = runtime::MemoryChoice::both;
  report.sizes = {8};
  for (RailsHost& host : report.hosts)
    host.gpus.list = {{.bus_id = "0000:10:00.0", .nics = {{.path = "PIX"}, {.path = "SYS"}}}};
  report.hosts[0].gpus.facts = {{"", "ACS redirects", "turn it off"}};
  runtime::MemoryTrial& trial = report.trials.emplace_back();
  trial.to = 1;
  trial.from_gpu = 0;
  trial.there.end = trial.back.end = RailEnd::ok;
  trial.there.GBps = trial.back.GBps = 40;
  trial.curve = {{8, 0.1, 0.1, 0.15}};
  const auto keys = testing::documented("collctl.rails/1");
  REQUIRE(keys.size() > 30);
  std::set<std::string> seen;
  const RailsFindings judged = judge_rails(report, 0.7);
  CHECK(testing::problems(rails_json(report, judged, judged.verdict({})), keys, seen) == "");
  auto nic = matrix({}, [](int from, int to, const auto& mine, const auto& peers) {
    const bool slow = (from == 1 && mine == "mlx5_1:1") || (to == 1 && peers == "mlx5_1:1");
    return slow ? good(4) : good(40);
  });
  nic.hosts[0].nics[0].gids = report.hosts[0].nics[0].gids;
  const RailsFindings of_nic = judge_rails(nic, 0.5);
  CHECK(testing::problems(rails_json(nic, of_nic, of_nic.verdict({})), keys, seen) == "");
  // Nothing on the page is there for nothing.
  CHECK(seen.size() == keys.size());
}

}  // namespace rails_rails_tests
