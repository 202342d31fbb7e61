// Counters out of recorded trees of the kernel's files, and Xids out of its log.
#include "base/host_counters.h"

#include "tests/catch.h"
#include "tests/unit/base/root_folder.h"

namespace host_counters_tests {

using namespace collctl::base;
using collctl::base::testing::Root;
namespace fs = std::filesystem;

namespace {

uint64_t value(const DeviceCounters& all, const std::string& device, const std::string& name) {
  for (const DeviceCounter& counter : all.counters)
    if (counter.device == device && counter.name == name) return counter.value;
  return 0;
}

}  // namespace

TEST_CASE("Counters of ports, interfaces, PCI devices and TCP", "[host_counters]") {
  const Root tree;
  const std::string port = "sys/class/infiniband/mlx5_0/ports/1/";
  tree.file(port + "counters/symbol_error", "3\n");
  tree.file(port + "counters/link_downed", "0\n");
  tree.file(port + "counters/port_rcv_data", "123456\n");  // no error
  tree.file(port + "hw_counters/out_of_sequence", "7\n");
  tree.file(port + "hw_counters/rnr_nak_retry_err", "many\n");  // no number
  tree.file("sys/class/net/eth0/statistics/rx_crc_errors", "18446744073709551615\n");
  tree.file("sys/class/net/eth0/statistics/rx_bytes", "99\n");
  tree.file("sys/class/net/eth0/carrier_down_count", "2\n");
  tree.file("sys/class/net/lo/statistics/rx_errors", "5\n");
  tree.file("sys/bus/pci/devices/0000:3b:00.0/aer_dev_correctable",
            "RxErr 0\nBadTLP 4\nBadDLLP 1\nTOTAL_ERR_COR 5\n");
  tree.file("sys/bus/pci/devices/0000:3b:00.0/aer_dev_fatal", "Undefined 0\nTOTAL_ERR_FATAL 0\n");
  tree.file("proc/net/snmp",
            "Ip: Forwarding DefaultTTL\nIp: 1 64\n"
            "Tcp: RtoMin OutSegs RetransSegs InErrs\nTcp: 200 1000 12 0\n");
  tree.file("sys/devices/system/edac/mc/mc1/ce_count", "6\n");
  tree.file("sys/devices/system/edac/mc/mc1/ue_count", "0\n");
  tree.file("sys/devices/system/edac/mc/power/ce_count", "9\n");
  const DeviceCounters read = device_counters(0, tree.text());
  CHECK(value(read, "mlx5_0 port 1", "symbol_error") == 3);
  CHECK(value(read, "mc1", "ce_count") == 6);
  CHECK(value(read, "mlx5_0 port 1", "out_of_sequence") == 7);
  CHECK(value(read, "eth0", "rx_crc_errors") == ~uint64_t{0});
  CHECK(value(read, "eth0", "carrier_down_count") == 2);
  CHECK(value(read, "0000:3b:00.0", "aer_correctable BadTLP") == 4);
  CHECK(value(read, "tcp", "RetransSegs") == 12);
  size_t here = 0;
  for (const DeviceCounter& counter : read.counters) here += counter.kind != CounterOf::gpu;
  CHECK(here == 9);  // and BadDLLP, OutSegs: what is 0, no error or of lo is not there
  CHECK(read.looked_at >= 12);
  CHECK(read.log_missing.find("/dev/kmsg") == 0);

  const auto again = record_of<DeviceCounters>(json_of(read));
  REQUIRE(again.ok());
  CHECK(again->counters == read.counters);
  CHECK(again->looked_at == read.looked_at);
}

TEST_CASE("Xids out of the kernel's log, from a message on", "[host_counters]") {
  DeviceCounters read;
  count_xids("3,100,555,-;NVRM: Xid (PCI:0000:3B:00): 79, pid=1, GPU has fallen off the bus.\n",
             101, read);
  CHECK(value(read, "0000:3b:00.0", "xid 79") == 0);  // older
  CHECK(value(read, "0000:3b:00.0", "earlier_xid 79") == 1);
  CHECK(read.log_end == 101);
  count_xids("3,101,556,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.\n",
             101, read);
  count_xids("3,102,557,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=1\n", 101, read);
  count_xids("3,103,558,-;NVRM: Xid (PCI:0000:5e:00): 48, pid=1\n", 101, read);
  CHECK(value(read, "0000:3b:00.0", "xid 79") == 2);
  CHECK(value(read, "0000:5e:00.0", "xid 48") == 1);
  CHECK(read.log_end == 104);
  count_xids(
      "3,104,559,-;NVRM: Xid (PCI:0000:5e:00): 149, NETIR_LINK_EVT Nonfatal XC0 i0 Link 00\n", 101,
      read);
  CHECK(value(read, "0000:5e:00.0", "xid 149 nonfatal") == 1);
  count_xids("3,105,560,-;NVRM: Xid (PCI:0000:5e:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 00\n",
             101, read);
  CHECK(value(read, "0000:5e:00.0", "xid 149") == 1);
  count_xids(
      "3,106,561,-;NVRM: Xid (PCI:0000:5e:00): 154, GPU recovery action changed from 0x0 "
      "(None) to 0x2 (Node Reboot Required)\n",
      101, read);
  CHECK(value(read, "0000:5e:00.0", "xid 154 Node Reboot Required") == 1);
  for (const char* cut : {"3,107,562,-;NVRM: Xid (PCI:0000:5e:00): 154, to 0x2 (Node",
                          "3,108,563,-;NVRM: Xid (PCI:0000:5e:00): 154"})
    count_xids(cut, 101, read);
  CHECK(value(read, "0000:5e:00.0", "xid 154") == 2);
  for (const char* odd : {"", ";", "6,x,1,-;NVRM: Xid (PCI:1): 3", "6,200,1,-;NVRM: Xid (PCI:",
                          "6,201,1,-;NVRM: Xid (PCI:0000:3b:00): none", "no commas; here"})
    count_xids(odd, 0, read);
  CHECK(read.counters.size() == 7);
}

}  // namespace host_counters_tests
