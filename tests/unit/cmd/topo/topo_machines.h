// Views of machines for the tests of topo: from text, and of all committed files.
#pragma once
#include <string>
#include <vector>

#include "cmd/topo/view.h"
#include "tests/catch.h"
#include "tests/unit/topology/data_files.h"
#include "topology/xml/xml.h"

inline collctl::topology::Document document(const std::string& text, const std::string& name) {
  auto read = collctl::topology::read_xml(text, name);
  if (!read.ok()) FAIL(read.error().message);
  return std::move(*read);
}

inline collctl::cmd::TopoView view(const std::string& text, const std::string& name = "f.xml") {
  auto read = document(text, name);
  auto made = collctl::cmd::view_of(std::move(read.system), name, std::move(read.findings));
  if (!made.ok()) FAIL(made.error().message);
  return std::move(*made);
}

// Every attribute that only detection knows; what is wrong with it can be replaced.
inline std::string worn_machine() {
  return R"(<system version="1">
<cpu numaid="0" affinity="0000ffff" arch="x86_64" vendor="AuthenticAMD" familyid="25" modelid="17">
<pci busid="0000:10:00.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16">
<pci busid="0000:11:00.0" class="0x030200" vendor="0x10de" device="0x2330" link_speed="32.0 GT/s PCIe" link_width="16" link_width_now="8">
<gpu dev="0" sm="90" rank="0" gdr="1" nvlinks_able="18"><nvlink target="0000:f0:00.0" count="16" tclass="0x068000"/></gpu>
</pci>
<pci busid="0000:12:00.0" class="0x020000" vendor="0x15b3" device="0x1021" link_speed="32.0 GT/s PCIe" link_width="16" link_speed_now="8.0 GT/s PCIe">
<nic ports_down="mlx5_0:2"><net name="mlx5_0" dev="0" speed="400000" port="1" guid="0x1" gdr="1"/></nic>
</pci>
</pci>
</cpu>
</system>)";
}

// The text with the first `from` replaced, which must be there.
inline std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}
