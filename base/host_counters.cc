#include "base/host_counters.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/bus_id.h"
#include "base/fd.h"
#include "base/first_line.h"
#include "base/format.h"
#include "base/host_devices.h"
#include "base/host_files.h"
#include "base/nic_module.h"
#include "base/whole_number.h"

namespace collctl::base {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostEntriesRead = 65536;  // of one folder
constexpr size_t kMostMessages = 1 << 20;   // of the kernel's log
constexpr size_t kMostLines = 64;           // of a file of AER counts

// The kernel's error counters of a port.
constexpr const char* kPortErrors[] = {"symbol_error",
                                       "link_error_recovery",
                                       "link_downed",
                                       "port_rcv_errors",
                                       "port_rcv_remote_physical_errors",
                                       "port_rcv_switch_relay_errors",
                                       "port_xmit_discards",
                                       "port_xmit_constraint_errors",
                                       "port_rcv_constraint_errors",
                                       "local_link_integrity_errors",
                                       "excessive_buffer_overrun_errors",
                                       "VL15_dropped",
                                       "out_of_sequence",
                                       "packet_seq_err",
                                       "local_ack_timeout_err",
                                       "rnr_nak_retry_err",
                                       "implied_nak_seq_err",
                                       "duplicate_request",
                                       "req_cqe_error",
                                       "resp_cqe_error",
                                       "req_remote_access_errors",
                                       "roce_adp_retrans",
                                       "roce_adp_retrans_to",
                                       "roce_slow_restart",
                                       "rx_icrc_encapsulated",
                                       "out_of_buffer"};
constexpr const char* kInterfaceErrors[] = {
    "rx_errors",        "tx_errors",         "rx_dropped",       "tx_dropped",     "rx_crc_errors",
    "rx_frame_errors",  "rx_length_errors",  "rx_over_errors",   "rx_fifo_errors", "tx_fifo_errors",
    "rx_missed_errors", "tx_carrier_errors", "tx_aborted_errors"};

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> list;
  for (const fs::path& each : host_files::entries_of(folder, kMostEntriesRead))
    list.push_back(each.filename());
  return list;
}

class Reading {
 public:
  Reading(const std::string& root, DeviceCounters& to) : root_(root), to_(to) {}

  void rdma_ports() {
    const fs::path devices = root_ + "/sys/class/infiniband";
    for (const std::string& device : names_in(devices))
      for (const std::string& port : names_in(devices / device / "ports"))
        for (const char* folder : {"counters", "hw_counters"})
          for (const char* name : kPortErrors)
            file(CounterOf::nic, device + " port " + port, name,
                 devices / device / "ports" / port / folder / name);
  }

  void interfaces() {
    const fs::path all = root_ + "/sys/class/net";
    for (const std::string& name : names_in(all)) {
      if (name == "lo") continue;
      for (const char* counter : kInterfaceErrors)
        file(CounterOf::nic, name, counter, all / name / "statistics" / counter);
      file(CounterOf::nic, name, "carrier_down_count", all / name / "carrier_down_count");
      // The kernel is asked about this machine alone.
      if (root_.empty() && first_line(all / name / "operstate") == "up" &&
          !host_files::way_up(all / name / "device").empty())
        for (const auto& [counter, value] : port_counters(name))
          add(CounterOf::nic, name, counter, value);
    }
  }

  // "BadTLP 3" and the like, a line each; the last is their sum.
  void aer() {
    const fs::path devices = root_ + "/sys/bus/pci/devices";
    for (const std::string& device : names_in(devices))
      for (const char* kind : {"correctable", "nonfatal", "fatal"}) {
        std::ifstream in(devices / device / format("aer_dev_{}", kind));
        std::string line;
        for (size_t i = 0; i < kMostLines && std::getline(in, line); ++i) {
          const size_t space = line.find(' ');
          if (space == std::string::npos || line.starts_with("TOTAL_")) continue;
          if (const auto value = whole_number<uint64_t>(line.substr(space + 1)))
            add(CounterOf::pci, device, format("aer_{} {}", kind, line.substr(0, space)), *value);
        }
      }
  }

  // TCP counters of this network namespace: names in one line, values in the next.
  void tcp() {
    std::ifstream in(root_ + "/proc/net/snmp");
    std::string names, values;
    while (std::getline(in, names) && std::getline(in, values)) {
      if (!names.starts_with("Tcp:") || !values.starts_with("Tcp:")) continue;
      std::istringstream name_words(names), value_words(values);
      std::string name, value;
      while (name_words >> name && value_words >> value)
        if (name == "RetransSegs" || name == "OutSegs" || name == "InErrs")
          if (const auto number = whole_number<uint64_t>(value))
            add(CounterOf::host, "tcp", name, *number);
    }
  }

  // Memory controllers of the host (EDAC): errors of their modules that were corrected, or not.
  void memory() {
    const fs::path all = root_ + "/sys/devices/system/edac/mc";
    for (const std::string& name : names_in(all))
      if (name.starts_with("mc"))
        for (const char* counter : {"ce_count", "ue_count"})
          file(CounterOf::host, name, counter, all / name / counter);
  }

  void log(uint64_t from) {
    const base::Fd fd(
        ::open((root_ + "/dev/kmsg").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
    if (!fd) {
      to_.log_missing = format("/dev/kmsg: {}", std::strerror(errno));
      return;
    }
    char message[8192];
    for (size_t i = 0; i < kMostMessages; ++i) {
      const ssize_t n = ::read(fd.get(), message, sizeof message);
      if (n < 0 && (errno == EINTR || errno == EPIPE)) continue;  // EPIPE: some were overwritten
      if (n < 0 && errno != EAGAIN) to_.log_missing = format("/dev/kmsg: {}", std::strerror(errno));
      if (n <= 0) return;
      count_xids({message, size_t(n)}, from, to_);
    }
  }

  void add(CounterOf kind, const std::string& device, const std::string& name, uint64_t value) {
    ++to_.looked_at;
    if (value > 0) to_.counters.push_back({kind, device, name, value});
  }

 private:
  void file(CounterOf kind, const std::string& device, const char* name, const fs::path& path) {
    if (const auto value = whole_number<uint64_t>(first_line(path)))
      add(kind, device, name, *value);
  }

  const std::string root_;
  DeviceCounters& to_;
};

}  // namespace

const char* counter_kind_word(CounterOf kind) {
  constexpr const char* kWords[] = {"gpu", "nic", "pci", "host"};
  return kWords[size_t(kind)];
}

static void fields(Record& io, DeviceCounter& counter) {
  io.name("kind", counter.kind, kCounterKinds, counter_kind_word);
  io.field("device", counter.device, 256);
  io.field("name", counter.name, 256);
  io.field("value", counter.value);
}

void fields(Record& io, DeviceCounters& counters) {
  io.field("counters", counters.counters, 1 << 18);
  io.field("looked_at", counters.looked_at);
  io.field("log_end", counters.log_end);
  io.field("log_missing", counters.log_missing, 1024);
  io.field("nvml_missing", counters.nvml_missing, 1024);
}

// A part of an Xid's text that says how bad it is: of 154 the recovery that is asked for ("154, GPU
// recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"), of NVLink 5 that the link
// goes on ("149, NETIR_LINK_EVT Nonfatal XC0 i0 Link 00 (...)").
static std::string detail_of(uint64_t code, const std::string& text) {
  if (code >= 144 && code <= 150)
    return text.find(" Nonfatal ") == std::string::npos ? "" : " nonfatal";
  if (code != 154) return {};
  const size_t to = text.find(" to 0x"), open = text.find('(', to == text.npos ? text.size() : to);
  const size_t close = text.find(')', open);
  if (close == text.npos || close - open > 40) return {};
  return " " + text.substr(open + 1, close - open - 1);
}

void count_xids(const std::string& message, uint64_t from, DeviceCounters& to) {
  const size_t comma = message.find(','), text = message.find(';');
  if (comma == std::string::npos || text == std::string::npos || comma > text) return;
  const auto number =
      whole_number<uint64_t>(message.substr(comma + 1, message.find(',', comma + 1) - comma - 1));
  if (!number) return;
  to.log_end = std::max(to.log_end, *number + 1);
  constexpr std::string_view kXid = "NVRM: Xid (";
  const size_t xid = message.find(kXid, text);
  if (xid == std::string::npos) return;
  const size_t where = xid + kXid.size(), close = message.find("): ", where);
  if (close == std::string::npos || close - where > 64) return;
  std::string device = message.substr(where, close - where);
  if (device.starts_with("PCI:")) device.erase(0, 4);
  if (std::ranges::count(device, '.') == 0) device += ".0";
  if (const auto bus = bus_number(device)) device = bus_text(*bus);
  const size_t first = close + 3, end = message.find_first_not_of("0123456789", first);
  const auto code = whole_number<uint64_t>(message.substr(first, end - first));
  if (!code) return;
  const std::string name =
      format("{}xid {}{}", *number < from ? "earlier_" : "", *code,
             end == std::string::npos ? "" : detail_of(*code, message.substr(end)));
  for (DeviceCounter& counter : to.counters)
    if (counter.kind == CounterOf::gpu && counter.device == device && counter.name == name) {
      ++counter.value;
      return;
    }
  to.counters.push_back({CounterOf::gpu, device, name, 1});
}

DeviceCounters device_counters(uint64_t log_from, const std::string& root) {
  DeviceCounters counters;
  Reading reading(root, counters);
  reading.rdma_ports();
  reading.interfaces();
  reading.aer();
  reading.tcp();
  reading.memory();
  reading.log(log_from);
  read_gpu_counters(counters);
  return counters;
}

}  // namespace collctl::base
