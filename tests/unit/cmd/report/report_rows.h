// Rows and reports by hand, and a reporter whose output is kept.
#pragma once
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "base/json_writer.h"
#include "cmd/report/report.h"
#include "cmd/text/sizes.h"
#include "tests/catch.h"

namespace collctl::cmd::testing {

using nlohmann::json;
namespace fs = std::filesystem;

class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "collctl-report-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~Folder() { fs::remove_all(path_); }
  std::string file(const std::string& name) const { return (path_ / name).string(); }
  size_t entries() const {
    return size_t(std::distance(fs::directory_iterator(path_), fs::directory_iterator{}));
  }

 private:
  fs::path path_;
};

inline std::string content(const std::string& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

inline Timing timing(double time_us, double busbw, int64_t wrong = 0) {
  Timing t;
  t.measured = true;
  t.time_us = time_us;
  t.algbw_GBps = busbw / 1.5;
  t.busbw_GBps = busbw;
  t.wrong = wrong;
  t.slowest_rank = 1;
  return t;
}

inline BenchRow row(uint64_t bytes, double time_us, double busbw) {
  BenchRow r;
  r.bytes = bytes;
  r.count = bytes / 4;
  r.type = kernels::DataType::float32;
  r.algorithm = "ring";
  r.protocol = "simple";
  r.channels = 2;
  r.out_of_place = timing(time_us, busbw);
  r.in_place = timing(time_us * 1.1, busbw * 0.9);
  return r;
}

inline BenchHeader header_of(int ranks) {
  BenchHeader header;
  header.version = "0.1.0";
  header.collective = kernels::Collective::all_reduce;
  header.ranks = ranks;
  HostLine host;
  host.host = {HostId{0}, "elsewhere"};
  for (int rank = 0; rank < ranks; ++rank) host.ranks.push_back(rank);
  header.hosts.push_back(host);
  header.links = {{0, 0, 1, "SHM"}, {0, 1, 0, "SHM"}};
  header.init_seconds = 0.25;
  return header;
}

inline BenchReport report_of(std::vector<BenchRow> rows) {
  BenchReport report;
  report.spec.min_bytes = 8;
  report.spec.max_bytes = 1u << 30;
  report.header = header_of(4);
  report.rows = std::move(rows);
  return report;
}

inline Limit limit(double value, std::optional<uint64_t> at = {}) {
  return {value, at};
}

// Runs a reporter over the rows with standard output and error in files.
struct Captured {
  int code;
  std::string out, err;
};
template <class Feed>
Captured capture(const OutputOptions& output, const JobOutcome& outcome, Feed feed,
                 const char* out_path = nullptr, BenchSpec spec = {}) {
  Folder folder;
  const std::string out = out_path != nullptr ? out_path : folder.file("out");
  const std::string err = folder.file("err");
  const Fd out_fd(::open(out.c_str(), O_CREAT | O_WRONLY, 0600));
  const Fd err_fd(::open(err.c_str(), O_CREAT | O_WRONLY, 0600));
  REQUIRE(out_fd);
  Console console(out_fd.get(), err_fd.get());
  spec.max_bytes = 16;
  Reporter reporter(console, output, spec, true);
  feed(reporter);
  const int code = reporter.finish(outcome);
  if (out_path != nullptr) {
    CHECK_FALSE(console.out_status().ok());
    return {code, "", content(err)};
  }
  return {code, content(out), content(err)};
}

inline void two_rows(Reporter& reporter) {
  reporter.on(header_of(4));
  reporter.on(row(8, 5, 0.01));
  reporter.on(row(16, 5, 0.02));
}

}  // namespace collctl::cmd::testing
