// The machine that the tests of `topo` and `plan` share. Two H100 joined by 18 NVLinks (18 x 20.6 =
// 370.8 GB/s); a NIC of 400 Gb/s (50 GB/s) beside GPU 0 below a switch of gen5 x16 (48 GB/s).
#pragma once
#include <fstream>
#include <string>

#include "tests/cli/run_binary.h"

inline const char* const kPair = R"(<system version="1">
  <cpu numaid="0" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">
    <pci busid="0000:10:00.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16">
      <pci busid="0000:11:00.0" class="0x030200" vendor="0x10de" device="0x2330" link_speed="32.0 GT/s PCIe" link_width="16">
        <gpu dev="0" sm="90" rank="0" gdr="1">
          <nvlink target="0000:21:00.0" count="18" tclass="0x030200"/>
        </gpu>
      </pci>
      <pci busid="0000:12:00.0" class="0x020000" link_speed="32.0 GT/s PCIe" link_width="16">
        <nic>
          <net name="mlx5_0" dev="0" speed="400000" port="1" guid="0x1" gdr="1"/>
        </nic>
      </pci>
    </pci>
  </cpu>
  <cpu numaid="1" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">
    <pci busid="0000:21:00.0" class="0x030200" vendor="0x10de" device="0x2330" link_speed="32.0 GT/s PCIe" link_width="16">
      <gpu dev="1" sm="90" rank="1" gdr="1">
        <nvlink target="0000:11:00.0" count="18" tclass="0x030200"/>
      </gpu>
    </pci>
  </cpu>
</system>
)";

inline std::string write(const TemporaryFolder& folder, const std::string& text) {
  const std::string path = folder / "node.xml";
  std::ofstream(path) << text;
  return path;
}
