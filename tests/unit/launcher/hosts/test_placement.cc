#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "base/format.h"
#include "launcher/hosts/placement.h"
#include "tests/catch.h"

namespace hosts_placement_tests {

using namespace collctl;
using namespace collctl::launcher;

namespace {

// Rank by rank: the letter of its host.
std::string placed(const std::vector<HostSlots>& hosts, const PlaceOptions& options) {
  const auto placement = place_ranks(hosts, options);
  if (!placement.ok()) return placement.error().message + "; " + placement.error().hint;
  std::string text;
  std::vector<int> counts(hosts.size());
  for (size_t rank = 0; rank < placement->host_of.size(); ++rank) {
    const auto host = size_t(placement->host_of[rank]);
    text += hosts[host].name;
    // The other two tables hold the same.
    CHECK(placement->local_rank[rank] == counts[host]);
    CHECK(placement->ranks_of[host][size_t(counts[host]++)] == int(rank));
  }
  for (size_t host = 0; host < hosts.size(); ++host)
    CHECK(placement->ranks_of[host].size() == size_t(counts[host]));
  return text;
}

const std::vector<HostSlots> kThree = {{"a", 2}, {"b", 1}, {"c", 3}};
const std::vector<HostSlots> kLimited = {{"a", 2, 2}, {"b", 1, 4}, {"c", 1}};
const std::vector<HostSlots> kUnsaid = {{"a", 1, 0, false}, {"b", 1, 3, false}};

struct Case {
  const std::vector<HostSlots>* hosts;
  PlaceOptions options;
  const char* result;
};

constexpr MapBy kSlot = MapBy::slot, kHost = MapBy::host;

const Case kCases[] = {
    {&kThree, {0, 0, kSlot, false}, "aabccc"},
    {&kThree, {0, 0, kHost, false}, "abcacc"},
    {&kThree, {3, 0, kSlot, false}, "aab"},
    {&kThree, {1, 0, kSlot, false}, "a"},
    {&kThree, {4, 0, kHost, false}, "abca"},
    {&kThree,
     {7, 0, kSlot, false},
     "7 ranks requested, 6 slots on 3 hosts (a 2, b 1, c 3); use --oversubscribe, fewer -n, or "
     "more "
     "slots="},
    {&kThree, {7, 0, kSlot, true}, "aaabccc"},
    {&kThree, {9, 0, kSlot, true}, "aaabbcccc"},
    {&kThree, {8, 0, kHost, true}, "abcaccab"},
    {&kThree, {0, 1, kSlot, false}, "abc"},
    {&kThree, {2, 1, kSlot, false}, "ab"},
    {&kThree,
     {4, 1, kSlot, false},
     "4 ranks requested, 1 per host on 3 hosts make 3; use fewer -n, a larger -N, or more hosts"},
    {&kThree,
     {0, 2, kSlot, false},
     "2 ranks per host requested, fewer slots on b 1; use --oversubscribe, a smaller -N, or more "
     "slots="},
    {&kThree, {0, 2, kSlot, true}, "aabbcc"},
    {&kThree, {5, 2, kHost, true}, "abcab"},
    {&kLimited, {0, 0, kSlot, true}, "aabc"},
    {&kLimited, {7, 0, kSlot, true}, "aabbbcc"},
    {&kLimited,
     {0, 3, kSlot, true},
     "3 ranks per host requested, fewer slots on a 2; use a smaller -N, or larger max_slots="},
    {&kUnsaid, {0, 0, kSlot, false}, "ab"},
    {&kUnsaid, {0, 3, kSlot, false}, "aaabbb"},
    {&kUnsaid,
     {0, 4, kSlot, false},
     "4 ranks per host requested, fewer slots on b 3; use --oversubscribe, a smaller -N, or more "
     "slots="},
    {&kUnsaid,
     {3, 0, kSlot, false},
     "3 ranks requested, 2 slots on 2 hosts (a 1, b 1); use --oversubscribe, fewer -n, or more "
     "slots="},
};

}  // namespace

TEST_CASE("ranks are placed by slots or hosts, within their bounds", "[placement]") {
  for (const Case& c : kCases) {
    INFO(c.result);
    CHECK(placed(*c.hosts, c.options) == c.result);
  }
}

TEST_CASE("max_slots is never exceeded", "[placement]") {
  const std::vector<HostSlots> hosts = {{"a", 2, 2}, {"b", 1, 4}};
  CHECK(placed(hosts, {6, 0, kSlot, true}) == "aabbbb");
  CHECK(placed(hosts, {7, 0, kSlot, true}) ==
        "7 ranks requested, the max_slots of 2 hosts allow 6 (a 2, b 4); use fewer -n, larger "
        "max_slots=, or more hosts");
}

TEST_CASE("many hosts and ranks", "[placement]") {
  std::vector<HostSlots> many;
  for (int i = 0; i < 6; ++i) many.push_back({format("n{}", i), 1});
  CHECK(placed(many, {7, 0, kSlot, false}) ==
        "7 ranks requested, 6 slots on 6 hosts (n0 1, n1 1, n2 1, n3 1, ...); use --oversubscribe, "
        "fewer -n, or more slots=");
  CHECK(placed({}, {1, 0, kSlot, false}) ==
        "no host to place ranks on; give hosts with -H or --hostfile");
  // One host with all the slots among many with one: in time that does not grow with the product.
  std::vector<HostSlots> uneven(10000, {"n", 1});
  uneven[0].slots = 55537;
  auto placement = place_ranks(uneven, {0, 0, kHost, false});
  REQUIRE(placement.ok());
  CHECK(placement->ranks_of[0].size() == 55537);
  uneven[0].slots = 55538;
  CHECK(placed(uneven, {0, 0, kHost, false}) ==
        "65537 ranks on 10000 hosts, more than 65536; use -n or -N");
}

TEST_CASE("the slots of hosts", "[placement]") {
  HostSpec said, unsaid, limited;
  said.name = "a", said.slots = 4, said.max_slots = 6;
  unsaid.name = "b";
  limited.name = "c", limited.max_slots = 2;
  const auto slots = host_slots({said, unsaid, limited}, 8);
  REQUIRE(slots.size() == 3);
  CHECK((slots[0].slots == 4 && slots[0].max_slots == 6 && slots[0].slots_said));
  CHECK((slots[1].slots == 8 && slots[1].max_slots == 0 && !slots[1].slots_said));
  CHECK((slots[2].slots == 2 && slots[2].max_slots == 2 && !slots[2].slots_said));
}

TEST_CASE("what ranks can be bound to", "[placement]") {
  CHECK(*parse_bind_to("none") == BindTo::none);
  CHECK(*parse_bind_to("core") == BindTo::core);
  CHECK(*parse_bind_to("numa") == BindTo::numa);
  CHECK(*parse_bind_to("device") == BindTo::device);
  CHECK(parse_bind_to("socket").error().code == ErrorCode::usage);
  CHECK(*bind_of("", true) == BindTo::device);
  CHECK(*bind_of("", false) == BindTo::own);
  CHECK(*parse_bind_to(name_of(BindTo::own)) == BindTo::own);  // what an agent is sent
  CHECK(*bind_of("none", true) == BindTo::none);
  CHECK(*bind_of("device", true) == BindTo::device);
  CHECK(bind_of("device", false).error().code == ErrorCode::unavailable);
  CHECK(bind_of("socket", true).error().code == ErrorCode::usage);
}

TEST_CASE("the GPUs that CUDA_VISIBLE_DEVICES leaves", "[placement]") {
  const std::vector<base::NvidiaGpu> gpus{{"0000:01:00.0", "GPU-aa11", 0},
                                          {"0000:02:00.0", "GPU-aa22", 0},
                                          {"0000:81:00.0", "GPU-bb33", 1},
                                          {"0000:82:00.0", "GPU-cc44", -1}};
  using List = std::vector<int>;
  CHECK(visible_gpus(std::nullopt, gpus) == List{0, 1, 2, 3});
  // The same of a host whose UUIDs are not known here.
  CHECK(gpus_left("", 4) == 0);
  CHECK(gpus_left("2,0", 4) == 2);
  CHECK(gpus_left(" 3 , 1", 4) == 2);
  CHECK(gpus_left("1,4,0", 4) == 1);  // ends at what is not there
  CHECK(gpus_left("0,1,2,3,4", 4) == 4);
  CHECK(gpus_left("0,1,01", 4) == 0);  // one stands there twice
  CHECK(gpus_left("-1", 4) == 0);
  CHECK(gpus_left("GPU-1a,GPU-2b", 4) == 2);
  CHECK(gpus_left("GPU-1a,GPU-2b", 1) == 1);  // no more than it has
  CHECK(gpus_left("MIG-1,nonsense,0", 4) == 1);
  CHECK(visible_gpus("", gpus).empty());
  CHECK(visible_gpus("2,0", gpus) == List{2, 0});
  CHECK(visible_gpus(" 3 , 1", gpus) == List{3, 1});
  // The list ends where an entry names none.
  CHECK(visible_gpus("1,4,0", gpus) == List{1});
  CHECK(visible_gpus("1,-1,0", gpus) == List{1});
  CHECK(visible_gpus("NoDevFiles", gpus).empty());
  CHECK(visible_gpus("99999999999999999999", gpus).empty());
  CHECK(visible_gpus("0,,1", gpus) == List{0});
  // UUIDs may be cut short, but not so that two fit.
  CHECK(visible_gpus("GPU-bb33,GPU-cc", gpus) == List{2, 3});
  CHECK(visible_gpus("GPU-aa", gpus).empty());
  CHECK(visible_gpus("GPU-dd", gpus).empty());
  CHECK(visible_gpus("MIG-1/2/3,MIG-4/5/6", gpus) == List{-1, -1});
  // The same GPU twice leaves none.
  CHECK(visible_gpus("0,1,0", gpus).empty());
  CHECK(visible_gpus("0,GPU-aa11", gpus).empty());

  CHECK(gpu_nodes(4, std::nullopt, gpus) == List{0, 0, 1, -1});
  CHECK(gpu_nodes(3, "2,0", gpus) == List{1, 0, 1});  // the third shares the first's
  CHECK(gpu_nodes(2, "MIG-1/2/3", gpus) == List{-1, -1});
  CHECK(gpu_nodes(2, "", gpus) == List{-1, -1});
  CHECK(gpu_nodes(2, std::nullopt, {}) == List{-1, -1});
}

TEST_CASE("ranks are bound next to their GPUs", "[placement]") {
  // The kernel calls the two nodes 0 and 4; processors 0-3 and 4-7.
  base::Processors machine;
  for (int id = 0; id < 8; ++id)
    machine.online.push_back(
        {.id = id, .package = id / 4, .core = id, .numa = id / 4, .cache_domain = id / 4 * 4});
  for (const int node : {0, 4}) {
    base::NumaDomain& domain = machine.nodes.emplace_back();
    domain.id = node;
  }
  using Places = std::vector<std::vector<int>>;
  const std::vector<int> allowed{0, 1, 2, 4, 5};
  CHECK(place_local(3, BindTo::device, allowed, machine, {4, 0, 4}) ==
        Places{{4, 5}, {0, 1, 2}, {4, 5}});
  // Unknown, or with no processor that is allowed: free.
  CHECK(place_local(3, BindTo::device, allowed, machine, {-1, 1, 0}) == Places{{}, {}, {0, 1, 2}});
  CHECK(place_local(2, BindTo::device, {0, 1}, machine, {4, 4}) == Places{{}, {}});
  CHECK(place_local(2, BindTo::device, allowed, {}, {0, 0}) == Places{{}, {}});
  CHECK(place_local(2, BindTo::device, allowed, machine) == Places{{}, {}});
}

TEST_CASE("the GPUs of a host as its driver shows them", "[placement]") {
  namespace fs = std::filesystem;
  std::string folder = (fs::temp_directory_path() / "collctl-gpus-XXXXXX").string();
  REQUIRE(::mkdtemp(folder.data()) != nullptr);
  const auto write = [&](const std::string& path, const std::string& text) {
    fs::create_directories(fs::path(folder + path).parent_path());
    std::ofstream(folder + path) << text;
  };
  const auto gpu = [&](const std::string& bus, const std::string& text) {
    write("/proc/driver/nvidia/gpus/" + bus + "/information", text);
  };
  gpu("0000:81:00.0", "Model: \t\t NVIDIA H200\nGPU UUID: \t GPU-22\nDevice Minor: \t 1\n");
  gpu("0000:0a:00.0", "Model: \t\t NVIDIA H200\nGPU UUID: \t GPU-11\nDevice Minor: \t 0\n");
  gpu("0000:91:00.0", "GPU UUID: \t GPU-33\nDevice Minor: \t 7\n");
  gpu("0000:a1:00.0", "");
  gpu("0000:b1:00.0", "GPU UUID: \t GPU-44\nDevice Minor: \t 0\n");
  write("/sys/bus/pci/devices/0000:91:00.0/vendor", "0x10de\n");
  write("/sys/bus/pci/devices/0000:a1:00.0/vendor", "0x10de\n");
  write("/dev/nvidia0", "");
  write("/dev/nvidia1", "");
  write("/sys/bus/pci/devices/0000:81:00.0/numa_node", "1\n");
  write("/sys/bus/pci/devices/0000:0a:00.0/numa_node", "-1\n");
  const auto found = base::nvidia_gpus_here(folder);
  fs::remove_all(folder);
  REQUIRE(found.size() == 3);
  CHECK((found[0].bus_id == "0000:0a:00.0" && found[0].uuid == "GPU-11" && found[0].numa == -1));
  CHECK((found[1].bus_id == "0000:81:00.0" && found[1].uuid == "GPU-22" && found[1].numa == 1));
  // 0000:91:00.0 was not handed in: it has no device file; 0000:b1:00.0 has one, and is not on PCI.
  // A fact that the driver lacks is open.
  CHECK((found[2].bus_id == "0000:a1:00.0" && found[2].uuid.empty() && found[2].numa == -1));
}

TEST_CASE("what is known of the placement before hosts are asked", "[placement]") {
  HostSpec said, unsaid;
  said.name = "a", said.slots = 4;
  unsaid.name = "b", unsaid.max_slots = 8;
  const auto known = [](const std::vector<HostSpec>& hosts, const PlaceOptions& options) {
    const auto placement = place_before_asking(hosts, options);
    if (!placement.ok()) return std::string("error");
    if (!*placement) return std::string("?");
    std::string text;
    for (const int host : (*placement)->host_of) text += hosts[size_t(host)].name;
    return text;
  };
  CHECK(known({said, unsaid}, {0, 0, kSlot, false}) == "?");
  CHECK(known({said, unsaid}, {0, 2, kSlot, false}) == "aabb");
  CHECK(known({said, unsaid}, {5, 0, kSlot, false}) == "aaaab");
  CHECK(known({said, unsaid}, {6, 0, kSlot, false}) == "?");
  CHECK(known({said, unsaid}, {12, 0, kSlot, false}) == "?");
  CHECK(known({said, unsaid}, {13, 0, kSlot, false}) == "error");
  CHECK(known({unsaid, said}, {2, 0, kSlot, false}) == "?");
  CHECK(known({unsaid, said}, {2, 0, kHost, false}) == "ba");
  CHECK(known({said, said}, {9, 0, kSlot, false}) == "error");
  CHECK(known({said, said}, {0, 0, kSlot, false}) == "aaaaaaaa");
}

}  // namespace hosts_placement_tests
