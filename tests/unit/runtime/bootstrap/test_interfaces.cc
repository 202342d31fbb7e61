#include "runtime/bootstrap/interfaces.h"

#include "base/host_devices.h"

#include "tests/catch.h"

namespace bootstrap_interfaces_tests {

using namespace collctl;
using runtime::choose_interfaces;
using runtime::InterfaceFact;
using runtime::name_matches;

namespace {

Address at(const std::string& host) {
  return *base::parse_address((host.find(':') == std::string::npos ? host : "[" + host + "]") +
                              ":0");
}

InterfaceFact fact(const char* name, const char* address, const char* mask, bool up = true) {
  // As judge_interfaces says of a name.
  return {name, at(address), at(mask), up, base::is_inner_interface(name) ? "by its name" : ""};
}

const char* const kMask6 = "ffff:ffff:ffff:ffff::";

std::vector<InterfaceFact> machine() {
  return {fact("lo", "127.0.0.1", "255.0.0.0"),
          fact("docker0", "172.17.0.1", "255.255.0.0"),
          fact("eth0", "10.0.0.5", "255.255.255.0"),
          fact("eth1", "10.1.0.5", "255.255.255.0"),
          fact("eth2", "10.2.0.5", "255.255.255.0", false),
          fact("virbr0", "192.168.122.1", "255.255.255.0"),
          fact("lo", "::1", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
          fact("eth0", "fe80::1", kMask6),
          fact("eth0", "fd00::5", kMask6)};
}

std::string names(const std::vector<runtime::Interface>& list) {
  std::string text;
  for (const auto& i : list) text += (text.empty() ? "" : " ") + i.name;
  return text;
}

std::string chosen(const std::vector<InterfaceFact>& facts, const std::string& list = "",
                   const std::string& family = "", const Address* near = nullptr,
                   size_t at_most = 16) {
  return names(choose_interfaces(facts, {list, family, near, at_most}));
}

std::vector<InterfaceFact> without(std::vector<InterfaceFact> facts, const std::string& prefix) {
  std::erase_if(facts, [&](const auto& f) { return f.name.rfind(prefix, 0) == 0; });
  return facts;
}

}  // namespace

TEST_CASE("interface lists match by prefix, exactly, or not", "[interfaces]") {
  CHECK(name_matches("eth", "eth0"));
  CHECK_FALSE(name_matches("eth", "veth0"));
  CHECK(name_matches("ib,eth1", "eth1"));
  CHECK(name_matches("=eth1", "eth1"));
  CHECK_FALSE(name_matches("=eth1", "eth10"));
  CHECK_FALSE(name_matches("=eth1,ib0", "ib01"));
  CHECK(name_matches("=eth1,ib0", "ib0"));
  CHECK_FALSE(name_matches("^docker,lo", "lo"));
  CHECK_FALSE(name_matches("^docker,lo", "docker0"));
  CHECK(name_matches("^docker,lo", "eth0"));
  CHECK(name_matches("^=eth0", "eth01"));
  CHECK_FALSE(name_matches("^=eth0", "eth0"));
  CHECK(name_matches("eth,^=eth1", "eth0"));
  CHECK_FALSE(name_matches("eth,^=eth1", "eth1"));
  CHECK_FALSE(name_matches("eth,^=eth1", "ib0"));
  CHECK(name_matches("ib,=eth1", "eth1"));
  CHECK_FALSE(name_matches("ib,=eth1", "eth10"));
  CHECK(name_matches("eth,,", "eth0"));
}

TEST_CASE("the default order", "[interfaces]") {
  auto facts = machine();
  CHECK(chosen(facts) == "eth0 eth1");
  facts.push_back(fact("ib0", "10.9.0.5", "255.255.255.0"));
  CHECK(chosen(facts) == "ib0");
  facts = without(machine(), "eth");
  CHECK(chosen(facts) == "docker0");
  facts = without(facts, "docker");
  CHECK(chosen(facts) == "lo");
  facts = without(facts, "lo");
  CHECK(chosen(facts) == "virbr0");
  CHECK(chosen(without(facts, "virbr")).empty());
}

TEST_CASE("the root's subnet comes before the rest and after ib", "[interfaces]") {
  auto facts = machine();
  const Address near = at("10.1.0.77"), docker = at("172.17.3.3"), local = at("127.0.0.1"),
                nowhere = at("11.0.0.1"), six = at("fd00::77");
  CHECK(chosen(facts, "", "", &near) == "eth1");
  CHECK(chosen(facts, "", "", &docker) == "docker0");
  CHECK(chosen(facts, "", "", &local) == "lo");
  CHECK(chosen(facts, "", "", &nowhere) == "eth0 eth1");
  const auto list = choose_interfaces(facts, {"", "", &six, 16});
  REQUIRE(names(list) == "eth0");
  CHECK(list[0].address.host_text() == "fd00::5");
  facts.push_back(fact("ib0", "10.9.0.5", "255.255.255.0"));
  CHECK(chosen(facts, "", "", &near) == "ib0");
}

TEST_CASE("interfaces that lead nowhere come after all that count", "[interfaces]") {
  std::vector<InterfaceFact> facts = {fact("ib0", "fe80::5", "ffff:ffff:ffff:ffff::"),
                                      fact("br-x", "10.0.0.6", "255.255.255.0"),
                                      fact("eth0", "10.0.0.5", "255.255.255.0")};
  facts[1].aside = "a bridge without a network card";
  CHECK(chosen(facts) == "eth0");
  const Address near = at("10.0.0.9");
  CHECK(chosen(facts, "", "", &near) == "eth0");
  facts.pop_back();
  CHECK(chosen(facts, "", "", &near) == "br-x");
}

TEST_CASE("each interface once, dialable addresses first, at most so many", "[interfaces]") {
  const auto facts = machine();
  const auto list = choose_interfaces(facts, {"eth0", "", nullptr, 16});
  REQUIRE(list.size() == 1);
  CHECK(list[0].address.host_text() == "10.0.0.5");
  const auto six = choose_interfaces(facts, {"eth0", "AF_INET6", nullptr, 16});
  REQUIRE(six.size() == 1);
  CHECK(six[0].address.host_text() == "fd00::5");
  CHECK(chosen(facts, "", "", nullptr, 1) == "eth0");
}

TEST_CASE("IPv6 loopback is skipped unless the root is there", "[interfaces]") {
  const auto facts = machine();
  CHECK(chosen(facts, "lo", "AF_INET6").empty());
  const Address one = at("::1");
  CHECK(chosen(facts, "", "", &one) == "lo");
}

TEST_CASE("names override the order; what is down is not there", "[interfaces]") {
  const auto facts = machine();
  CHECK(chosen(facts, "docker,virbr") == "docker0 virbr0");
  CHECK(chosen(facts, "=eth1") == "eth1");
  CHECK(chosen(facts, "eth2").empty());
  CHECK(chosen(facts, "^eth,docker") == "virbr0");
}

TEST_CASE("a list that only excludes does not ask for loopback, nor for what leads nowhere",
          "[interfaces]") {
  auto facts = machine();
  facts.push_back(fact("cni0", "10.244.1.1", "255.255.255.0"));
  facts.back().aside = "a bridge that no network card is a port of";
  CHECK(chosen(facts) == "eth0 eth1");
  CHECK(chosen(facts, "^docker0") == "eth0 eth1");
  CHECK(chosen(facts, "^=docker0,eth0") == "eth1");
  CHECK(chosen(facts, "cni,eth0") == "eth0 cni0");
  CHECK(chosen(facts, "^eth,docker,virbr") == "cni0");
  CHECK(chosen(facts, "^eth,docker,virbr,cni") == "lo");
  // A host may have no way but a tunnel.
  CHECK(chosen(without(facts, "eth")) == "cni0");
}

TEST_CASE("this machine has an interface, and a wrong name is answered with the list",
          "[interfaces]") {
  const auto found = runtime::find_interfaces("lo", "", nullptr);
  REQUIRE(found.ok());
  CHECK(found->front().address.is_loopback());
  const auto missing = runtime::find_interfaces("nosuch", "", nullptr);
  REQUIRE_FALSE(missing.ok());
  CHECK(missing.error().code == ErrorCode::unavailable);
  CHECK(missing.error().message.find("COLLCTL_SOCKET_IFNAME=nosuch") != std::string::npos);
  CHECK(missing.error().message.find("127.0.0.1") != std::string::npos);
  const auto family = runtime::find_interfaces("", "AF_UNIX", nullptr);
  REQUIRE_FALSE(family.ok());
  CHECK(family.error().code == ErrorCode::usage);
}

TEST_CASE("data goes by what is named, else by what the rules take on purpose", "[interfaces]") {
  const auto facts = machine();
  const auto used = [&](const std::string& list, const std::string& root) {
    const Address at_root = at(root);
    const auto matching = choose_interfaces(facts, {list, "", &at_root, 16});
    return names(runtime::data_interfaces(matching, matching[0], !list.empty(), at_root));
  };
  CHECK(used("eth", "10.0.0.9") == "eth0 eth1");
  CHECK(used("eth,virbr", "10.0.0.9") == "eth0 eth1 virbr0");
  // Loopback is nobody's to be reached at, but alone.
  CHECK(used("eth,lo", "10.0.0.9") == "lo");
  CHECK(used("lo", "127.0.0.1") == "lo");
  CHECK(used("", "10.0.0.9") == "eth0");
  // The root is not known here: by the first, as the bootstrap.
  CHECK(used("", "192.0.2.1") == "eth0");
}

TEST_CASE("data goes by one family, and not by link-local addresses", "[interfaces]") {
  const Address root = at("fd00::9");
  const std::vector<InterfaceFact> facts = {
      fact("eth0", "fd00::5", kMask6), fact("eth1", "fd01::5", kMask6),
      fact("eth2", "10.0.0.5", "255.255.255.0"), fact("eth3", "fe80::5", kMask6)};
  const auto matching = choose_interfaces(facts, {"eth", "", &root, 16});
  const auto used = runtime::data_interfaces(matching, matching[0], true, root);
  CHECK(names(used) == "eth0 eth1");
  CHECK(used[1].prefix_bits == 64);
  const std::vector<InterfaceFact> infiniband = {fact("ib0", "10.0.0.5", "255.255.255.0"),
                                                 fact("ib1", "10.1.0.5", "255.255.255.0")};
  const Address far = at("10.0.0.9");
  const auto ports = choose_interfaces(infiniband, {"", "", &far, 16});
  CHECK(names(runtime::data_interfaces(ports, ports[0], false, far)) == "ib0 ib1");
}

}  // namespace bootstrap_interfaces_tests
