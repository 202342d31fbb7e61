// Comparing machines: nothing against itself, and exactly the edit against an edited copy; groups
// of hosts and what is said of them.
#include <nlohmann/json.hpp>

#include "cmd/judge/verdict.h"
#include "cmd/topo/diff.h"
#include "cmd/topo/hosts.h"
#include "tests/unit/cmd/topo/topo_machines.h"

namespace topo_diff_tests {

using namespace collctl;
using namespace collctl::cmd;
using namespace collctl::topology;
using nlohmann::json;

namespace {

// `to` against `from`, as sentences.
std::vector<std::string> changes(const std::string& from, const std::string& to,
                                 const CompareOptions& options = {}) {
  std::vector<std::string> list;
  for (const Difference& each :
       compare_machines(document(from, "a.xml").system, document(to, "b.xml").system, options))
    list.push_back(difference_text(each));
  return list;
}

using Lines = std::vector<std::string>;

std::string without(std::string text, const std::string& from, const std::string& to) {
  const size_t begin = text.find(from), end = text.find(to, begin);
  REQUIRE(begin != std::string::npos);
  REQUIRE(end != std::string::npos);
  return text.erase(begin, end + to.size() - begin);
}

// The same machine whose devices the kernel found at other addresses.
std::string moved(std::string text) {
  for (size_t at = text.find("0000:1"); at != std::string::npos; at = text.find("0000:1", at + 1))
    text[at + 5] = '7';
  return text;
}

ErrorCode code_of(const std::vector<HostTopology>& hosts,
                  const std::vector<std::vector<int>>& groups, bool strict = false) {
  return Verdict(hosts_findings(hosts, groups, strict), {}).code();
}

HostTopology reached(const std::string& host, const std::string& text) {
  return {base::saved_host(host), {}, view(text, host)};
}

}  // namespace

TEST_CASE("every file against itself has no differences", "[topo]") {
  for (const std::string& path : data_files()) {
    INFO(path);
    const System system = document(data_text(path), "f.xml").system;
    CHECK(compare_machines(system, system).empty());
    CHECK(compare_machines(system, system, {MatchBy::place, false}).empty());
    CHECK(shared_bus_ids(system, system) == 1);
    // Written and read again it is the same machine.
    const System again = document(write_xml(system), "g.xml").system;
    CHECK(compare_machines(system, again).empty());
  }
}

TEST_CASE("an edit is named with what was and what is", "[topo]") {
  const std::string text = worn_machine();
  CHECK(changes(text, replaced(text, "link_width_now=\"8\"", "link_width_now=\"4\"")) ==
        Lines{"GPU 0 H100 0000:11:00.0: link width now x8 -> x4"});
  CHECK(changes(text, replaced(text, "speed=\"400000\"", "speed=\"200000\"")) ==
        Lines{"network device mlx5_0: speed 400 Gb/s -> 200 Gb/s"});
  CHECK(changes(text, replaced(text, "count=\"16\"", "count=\"15\"")) ==
        Lines{"GPU 0 H100 0000:11:00.0: NVLinks to NVSwitch 16 -> 15"});
  CHECK(changes(text, replaced(text, " ports_down=\"mlx5_0:2\"", "")) ==
        Lines{"NIC ConnectX-7 0000:12:00.0: ports without a link mlx5_0:2 -> none"});
  CHECK(changes(text, replaced(text, "affinity=\"0000ffff\"", "affinity=\"000000ff\"")) ==
        Lines{"CPU 0: threads 16 -> 8", "CPU 0: affinity 0000ffff -> 000000ff"});
  CHECK(changes(text, replaced(text, "guid=\"0x1\"", "guid=\"0x2\"")) ==
        Lines{"network device mlx5_0: GUID 0x1 -> 0x2"});
}

TEST_CASE("what is gone or new is named once, with what hangs below", "[topo]") {
  const std::string text = worn_machine();
  const std::string less = without(text, "<pci busid=\"0000:12", "</nic>\n</pci>\n");
  CHECK(changes(text, less) ==
        Lines{"NIC ConnectX-7 0000:12:00.0, below switch 0000:10:00.0: missing, with network "
              "device mlx5_0"});
  CHECK(changes(less, text) ==
        Lines{"NIC ConnectX-7 0000:12:00.0, below switch 0000:10:00.0: added, with network device "
              "mlx5_0"});
  const std::string nothing = without(text, "<pci busid=\"0000:10", "</pci>\n</pci>\n");
  CHECK(changes(text, nothing) ==
        Lines{"switch 0000:10:00.0, below CPU 0: missing, with GPU 0 H100 0000:11:00.0, NIC "
              "ConnectX-7 0000:12:00.0, network device mlx5_0"});
  // The switch under another address: one is gone, one is new, and two devices hang elsewhere.
  CHECK(changes(text, replaced(text, "<pci busid=\"0000:10", "<pci busid=\"0000:20")).size() == 4);
}

TEST_CASE("what only detection knows, and what changes by itself, is no difference", "[topo]") {
  const std::string text = worn_machine();
  CHECK(changes(replaced(text, " link_width_now=\"8\"", ""), text).empty());
  CHECK(changes(replaced(text, " nvlinks_able=\"18\"", ""), text).empty());
  const std::string idle = replaced(text, "link_width_now=\"8\"",
                                    "link_width_now=\"8\" link_speed_now=\"2.5 GT/s PCIe\"");
  CHECK(changes(text, idle).empty());
  CHECK(changes(idle, replaced(idle, "2.5 GT/s", "32.0 GT/s")).empty());
}

TEST_CASE("by place a machine is the same at other addresses, and its fault is not", "[topo]") {
  const std::string text = worn_machine(), other = moved(text);
  CHECK(changes(text, other, {MatchBy::place, false}).empty());
  CHECK(changes(text, replaced(other, "count=\"16\"", "count=\"18\""), {MatchBy::place, false}) ==
        Lines{"GPU 0 H100 0000:71:00.0: NVLinks to NVSwitch 16 -> 18"});
  CHECK_FALSE(changes(text, other).empty());
  CHECK(shared_bus_ids(document(text, "a").system, document(other, "b").system) == 0);
}

TEST_CASE("differences as text and as JSON", "[topo]") {
  const std::string text = worn_machine();
  const auto list = compare_machines(
      document(text, "a").system,
      document(replaced(text, "link_width_now=\"8\"", "link_width_now=\"4\""), "b").system);
  CHECK(diff_text(list, {"a.xml", "b.xml"}) ==
        "~ GPU 0 H100 0000:11:00.0: link width now x8 -> x4\n"
        "1 difference from a.xml to b.xml\n");
  CHECK(diff_text({}, {"a.xml", "b\x1b.xml"}) == "no differences from a.xml to b?.xml\n");
  const json all = json::parse(diff_json(list, {"a.xml", "b.xml"}));
  CHECK(all["schema"] == "collctl.topo-diff/1");
  CHECK(all["equal"] == false);
  CHECK(all["differences"][0]["kind"] == "changed");
  CHECK(all["differences"][0]["attribute"] == "link width now");
  CHECK(all["differences"][0]["was"] == "x8");
  CHECK(all["differences"][0]["is"] == "x4");
  CHECK(json::parse(diff_json({}, {"a", "b"}))["equal"] == true);
}

TEST_CASE("hosts are grouped by their machines, and the odd one stands out", "[topo]") {
  const std::string text = worn_machine();
  const std::string slow = replaced(text, "speed=\"400000\"", "speed=\"200000\"");
  std::vector<HostTopology> hosts{reached("a", slow), reached("b", text),
                                  reached("c", moved(text))};
  hosts.push_back({{HostId{3}, "d"}, Error(ErrorCode::launch, "cannot connect", "is it up?"), {}});
  const auto groups = group_hosts(hosts);
  CHECK(groups == std::vector<std::vector<int>>{{1, 2}, {0}});
  CHECK(code_of(hosts, groups) == ErrorCode::launch);
  const std::string said = hosts_text(hosts, groups, {.colours = true});
  CHECK(said.rfind("# 4 hosts: 2 different machines, 1 could not be asked\nb, c:\nb: 1 NUMA", 0) ==
        0);
  CHECK(said.find("\n\x1b[1ma\x1b[0m: 1 difference from b\n"
                  "  \x1b[1;31m! network device mlx5_0: speed 400 Gb/s -> 200 Gb/s\x1b[0m\n"
                  "\x1b[1;31mFAIL d\x1b[0m: cannot connect\n"
                  "  remedy: is it up?\n") != std::string::npos);
  const json all = json::parse(hosts_json(hosts, groups));
  CHECK(all["schema"] == "collctl.topo-hosts/1");
  CHECK(all["hosts"].size() == 4);
  CHECK(all["hosts"][1]["topo"]["gpus"].size() == 1);
  CHECK(all["hosts"][3]["error"]["code"] == "launch");
  CHECK_FALSE(all["hosts"][3].contains("topo"));
  CHECK(all["groups"][1]["hosts"] == json{"a"});
  CHECK(all["groups"][1]["differences"] ==
        json{"network device mlx5_0: speed 400 Gb/s -> 200 Gb/s"});
  hosts.pop_back();
  CHECK(code_of(hosts, group_hosts(hosts)) == ErrorCode::failed);
  hosts.erase(hosts.begin());
  const auto equal = group_hosts(hosts);
  CHECK(code_of(hosts, equal) == ErrorCode{});
  // The worn machine's own warnings count when it is asked to be strict.
  CHECK(code_of(hosts, equal, true) == ErrorCode::failed);
  CHECK(hosts_text(hosts, equal, {}).rfind("# 2 hosts: all equal\n", 0) == 0);
}

TEST_CASE("an agent's answer is read with suspicion", "[topo]") {
  const json good = {
      {"schema", "collctl.topo-answer/1"},
      {"xml", worn_machine()},
      {"findings",
       {{{"severity", "warning"}, {"what", "a\x1b"}, {"where", "b"}, {"remedy", "c"}}}}};
  const auto read = view_of_answer(good.dump(), "node01");
  REQUIRE(read.ok());
  CHECK(read->live);
  CHECK(read->source == "node01");
  CHECK(read->graph.gpus.size() == 1);
  CHECK(read->findings ==
        std::vector<topology::Finding>{{topology::Severity::warning, "a?", "b", "c"}});
  for (const std::string& bad : {std::string("{"), std::string("{}"), std::string("[]"),
                                 json{{"xml", 1}, {"findings", json::array()}}.dump(),
                                 json{{"xml", "<system"}, {"findings", json::array()}}.dump(),
                                 json{{"xml", worn_machine()}, {"findings", {1}}}.dump()}) {
    INFO(bad);
    const auto refused = view_of_answer(bad, "node01");
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().message.rfind("node01", 0) == 0);
  }
}

}  // namespace topo_diff_tests
