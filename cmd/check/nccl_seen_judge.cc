// Findings of the log and the RAS of the installed NCCL.
#include <algorithm>

#include "base/format.h"
#include "cmd/check/nccl.h"
#include "cmd/text/sizes.h"

namespace collctl::cmd {
namespace {

Finding log_finding(const NcclOnHost& host) {
  return host_finding("nccl/choice", host.host);
}

void judge_log(const NcclOnHost& host, const NcclReport& report, std::vector<Finding>& findings) {
  const NcclLog& log = host.log;
  if (log.empty()) {
    findings.push_back(log_finding(host).leave_out(format(
        "{}: what NCCL chose is not known: its log says nothing that can be read", host.host)));
    return;
  }
  const auto known = std::ranges::find(report.hosts, host.host, &NcclHost::host);
  const auto own_has = [&](std::string_view what) {
    return std::ranges::any_of(report.own_ways, [&](const OwnWay& way) {
      return way.via.find(what) != std::string::npos;
    });
  };
  if (log.network == "Socket" && log.crosses_hosts() && known != report.hosts.end() &&
      !known->facts.ports.empty()) {
    findings.push_back(log_finding(host).warn(
        format("{}: NCCL goes by sockets (\"{}\") although {} active ({})", host.host,
               log.network_line,
               known->facts.ports.size() == 1
                   ? std::string("an RDMA port is")
                   : format("{} RDMA ports are", known->facts.ports.size()),
               joined(known->facts.ports)),
        "look for NCCL_NET, NCCL_IB_DISABLE and NCCL_IB_HCA, and for libibverbs on the host"));
  }
  if (const NcclWay* way = log.no_gdr(); way != nullptr && own_has("/GDRDMA")) {
    findings.push_back(log_finding(host).warn(
        format("{}: NCCL does not use GPUDirect RDMA where collctl does: \"{}\"{}", host.host,
               way->line, log.no_gdr_line.empty() ? "" : format(", \"{}\"", log.no_gdr_line)),
        "look for NCCL_NET_GDR_LEVEL and NCCL_DMABUF_ENABLE; collctl doctor says what GPUDirect "
        "needs"));
  }
  if (!log.warnings.empty()) {
    findings.push_back(
        host_finding("nccl/warnings", host.host)
            .warn(format("{}: NCCL warned {}: \"{}\"", host.host,
                         log.warnings.size() == 1 ? std::string("once")
                                                  : format("{} times, first", log.warnings.size()),
                         log.warnings.front())));
  }
  if (log.cut) {
    Finding finding = log_finding(host);
    findings.push_back(
        finding.warn(format("{}: NCCL's log was longer than {}, the rest was not read", host.host,
                            human_bytes(kMostNcclLog))));
  }
}

// A process by the host whose rank it is; pids of several hosts may be alike.
std::string process_text(const RasProcess& process) {
  return format("process {} on {} (GPU {}){}", process.pid, process.host, process.gpus,
                process.dead ? ", given up" : "");
}

void judge_ras(const NcclOnHost& host, std::vector<Finding>& findings) {
  const RasAnswer& ras = host.ras;
  Finding finding = host_finding("nccl/ras", host.host);
  if (!ras.status) {
    finding.measured = "none";
    const std::string message = format("{}: NCCL's RAS was not read: {}", host.host, ras.missing);
    if (ras.address.empty())
      finding.message = message;  // it is off, or this NCCL has none
    else
      finding.warn(message,
                   "NCCL_RAS_ADDR gives a job a port of its own; ncclras reads it by hand");
    findings.push_back(std::move(finding));
    return;
  }
  const RasStatus& status = *ras.status;
  finding.measured = std::to_string(status.ranks);
  finding.unit = "ranks";
  finding.basis = format("RAS of NCCL {} at {}", status.version, ras.address);
  if (!status.missing.empty()) {
    std::vector<std::string> words;
    constexpr size_t kMostWords = 4;
    for (const RasProcess& process : status.missing)
      if (words.size() < kMostWords) words.push_back(process_text(process));
    const size_t more = status.missing.size() - words.size();
    finding.fail(
        ErrorCode::failed,
        format("by NCCL's RAS on {} {} not answer, while all ranks of the job live: {}{}",
               host.host,
               status.missing.size() == 1 ? std::string("a process does")
                                          : format("{} processes do", status.missing.size()),
               joined(words), more > 0 ? format(" and {} more", more) : ""),
        "RAS goes by the interface of NCCL's bootstrap (NCCL_SOCKET_IFNAME): look at its "
        "firewall and addresses");
    // Nobody is named for what one host cannot see.
    finding.at = {};
  } else if (!status.problems.empty()) {
    finding.warn(format(
        "by NCCL's RAS on {}: {}{}", host.host, status.problems.front(),
        status.problems.size() > 1 ? format(" (and {} more)", status.problems.size() - 1) : ""));
  } else if (status.timeouts > 0) {
    finding.warn(
        format("NCCL's RAS on {} waited {} times in vain for others", host.host, status.timeouts));
  }
  findings.push_back(std::move(finding));
}

}  // namespace

std::vector<Finding> nccl_seen_findings(const NcclReport& report) {
  std::vector<Finding> findings;
  for (const NcclOnHost& host : report.seen) {
    judge_log(host, report, findings);
    judge_ras(host, findings);
  }
  return findings;
}

}  // namespace collctl::cmd
