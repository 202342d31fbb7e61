// The folder of a history: what is kept of a check, who may write there, what is read of it.
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <thread>
#include <tuple>

#include "base/format.h"
#include "base/whole_file.h"
#include "cmd/check/history.h"
#include "cmd/text/sizes.h"
#include "tests/catch.h"

namespace check_history_tests {

using namespace collctl;
using namespace collctl::cmd;

namespace {

// Removed at the end.
struct Folder {
  Folder() {
    char name[] = "/tmp/collctl-history-XXXXXX";
    path = ::mkdtemp(name);
  }
  ~Folder() { std::filesystem::remove_all(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string path;
};

CheckReport check_of(size_t hosts) {
  CheckReport report;
  report.level = CheckLevel::quick;
  for (size_t i = 0; i < hosts; ++i)
    report.hosts.push_back(base::saved_host(format("node{:02}", i + 1)));
  for (const Suite& suite : suites())
    report.suites.push_back({.suite = &suite, .end = SuiteEnd::done, .seconds = 1, .why = ""});
  for (const Host& host : report.hosts) {
    report.paths.ends.push_back({host, "eth0"});
    report.paths.GBps.emplace_back(hosts, 2.0);
    report.paths.GBps.back()[report.paths.ends.size() - 1] = kNotTried;
    const Subject at{.kind = SubjectKind::host, .host = host};
    Finding& speed = report.findings.emplace_back(Finding{.name = "node/memory"});
    speed.at = at;
    speed.measured = "10";
    speed.unit = "GB/s";
    Finding& fact = report.findings.emplace_back(Finding{.name = "doctor/cores"});
    fact.at = at;
    fact.measured = "2";
  }
  return report;
}

Verdict verdict_of(const CheckReport& report) {
  return {report.findings, std::nullopt};
}

// As check_json() writes it, made at that time; provenance of a test has none.
std::string dated(const CheckReport& report, int64_t unix_s) {
  std::string json = check_json(report, verdict_of(report));
  const std::string schema = "{\"schema\":\"collctl.check/1\"";
  REQUIRE(json.starts_with(schema));
  return json.insert(schema.size(), format(",\"date\":\"{}\"", utc_date(unix_s)));
}

void write(const Folder& folder, const std::string& name, const std::string& text) {
  REQUIRE(base::write_file_atomically(folder.path + "/" + name, text));
}

struct Read {
  HistoryFiles files;
  std::vector<PastCheck> checks;
};
Read read(const Folder& folder, size_t last = 1000) {
  Read made;
  auto files = read_history(folder.path, last,
                            [&](PastCheck past) { made.checks.push_back(std::move(past)); });
  REQUIRE(files.ok());
  made.files = std::move(*files);
  return made;
}

size_t files_in(const Folder& folder) {
  const std::filesystem::directory_iterator begin(folder.path), end;
  return size_t(std::distance(begin, end));
}

const Finding* finding_of(const CheckReport& report, const std::string& name,
                          const std::string& host) {
  for (const Finding& finding : report.findings)
    if (finding.name == name && finding.at.host == base::saved_host(host)) return &finding;
  return nullptr;
}

}  // namespace

TEST_CASE("a history keeps what is no pass, and speeds", "[check]") {
  CheckReport report = check_of(3);
  report.machine = "<system/>";
  report.findings.push_back(
      Finding{.name = "doctor/mtu", .at = {SubjectKind::host, report.hosts[0]}}.fail(
          ErrorCode::failed, "it is odd"));
  report.paths.GBps[1][0] = 0.5;
  report.paths.busy = {report.hosts[2]};
  GpuReport& gpus = report.gpus.emplace_back();
  gpus.host = report.hosts[1];
  for (const char* device : {"0000:10:00.0", "0000:20:00.0", "0000:30:00.0"})
    gpus.gpus.emplace_back().device = device;
  for (const auto& [from, to, GBps] :
       {std::tuple{0, 1, 390.0}, {0, 2, 80.0}, {1, 0, 390.0}, {1, 2, 390.0}}) {
    GpuPair& pair = gpus.pairs.emplace_back();
    pair.from = from;
    pair.to = to;
    pair.figures[size_t(PairFigure::write)] = GBps;
  }
  report.burnt.emplace_back();
  const CheckReport kept = kept_in_history(report);
  CHECK(kept.machine.empty());
  CHECK(finding_of(kept, "doctor/cores", "node01") == nullptr);
  REQUIRE(finding_of(kept, "node/memory", "node01") != nullptr);
  REQUIRE(finding_of(kept, "doctor/mtu", "node01") != nullptr);
  REQUIRE(finding_of(kept, kSends, "node02") != nullptr);
  CHECK(finding_of(kept, kSends, "node02")->measured == "1.25");  // of 0.5 and 2
  CHECK(finding_of(kept, kReceives, "node01")->measured == "1.25");
  CHECK(finding_of(kept, kReceives, "node02")->measured == "2");
  CHECK(finding_of(kept, kSends, "node02")->reason.empty());
  CHECK(finding_of(kept, kSends, "node03")->reason == kBusyHost);
  // The worst of each GPU that has written anything.
  CHECK(kept.burnt.empty());
  CHECK(kept.gpus.empty());
  std::vector<std::string> written;
  for (const Finding& finding : kept.findings)
    if (finding.name == "gpus/write") written.push_back(finding.at.device + " " + finding.measured);
  CHECK(written == std::vector<std::string>{"0000:10:00.0 80", "0000:20:00.0 390"});
  CHECK(kept.paths.ends.size() == 3);
  CHECK(kept_in_history(kept).findings.size() == kept.findings.size());
}

TEST_CASE("a history of many NICs has their medians and no matrix", "[check]") {
  CHECK(kept_in_history(check_of(kMostKeptEnds)).paths.ends.size() == kMostKeptEnds);
  const CheckReport kept = kept_in_history(check_of(kMostKeptEnds + 1));
  CHECK(kept.paths.ends.empty());
  CHECK(finding_of(kept, kSends, "node65") != nullptr);
}

TEST_CASE("what was added to a history is read back", "[check]") {
  const Folder folder;
  CheckReport report = check_of(2);
  report.findings.push_back(
      Finding{.name = "node/memory", .at = {SubjectKind::host, report.hosts[1]}}.fail(
          ErrorCode::bad_data, "node02: wrong", "replace it"));
  report.out[report.hosts[1]] = "node";
  const std::string text = dated(kept_in_history(report), 1'800'000'000);
  write(folder, "a.json", text);
  const Read read_back = read(folder);
  REQUIRE(read_back.checks.size() == 1);
  CHECK(read_back.files.skipped.empty());
  const PastCheck& past = read_back.checks[0];
  CHECK(past.file == "a.json");
  CHECK(past.unix_s == 1'800'000'000);
  CHECK(past.exit_code == int(ErrorCode::bad_data));
  CHECK(dated(past.report, past.unix_s) == text);
}

TEST_CASE("checks that add to one history at the same time leave a whole file each", "[check]") {
  const Folder folder;
  const CheckReport report = check_of(2);
  std::vector<std::thread> threads;
  std::vector<Status> ends(4);
  for (Status& end : ends)
    threads.emplace_back([&] {
      for (int i = 0; i < 8 && end.ok(); ++i)
        end = add_to_history(folder.path + "/new", report, verdict_of(report), 0);
    });
  for (std::thread& thread : threads) thread.join();
  for (const Status& end : ends) CHECK(end.ok());
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path + "/new")) {
    ++files;
    const auto text = base::read_file(entry.path(), Record::kMostDocument);
    REQUIRE(text.ok());
    CHECK(*text == check_json(kept_in_history(report), verdict_of(report)));
  }
  CHECK(files == 32);
}

TEST_CASE("a history is as long as it is to be, and loses nothing that it has not written",
          "[check]") {
  const Folder folder;
  const CheckReport report = check_of(1);
  write(folder, "20200101T000000Z.json", "somebody's");
  write(folder, "19990101T000000Z-0123456789abcdef.json", "the oldest");
  write(folder, "20000101T000000Z-0123456789abcdef.json", "the oldest but one");
  REQUIRE(add_to_history(folder.path, report, verdict_of(report), 2));
  CHECK(files_in(folder) == 3);
  CHECK(std::filesystem::exists(folder.path + "/20200101T000000Z.json"));
  CHECK(std::filesystem::exists(folder.path + "/20000101T000000Z-0123456789abcdef.json"));
  REQUIRE(add_to_history(folder.path, report, verdict_of(report), 0));
  CHECK(files_in(folder) == 4);
}

TEST_CASE("checks of one second are in their order", "[check]") {
  const Folder folder;
  for (const double seconds : {1.0, 2.0, 3.0, 4.0}) {
    CheckReport report = check_of(1);
    report.seconds = seconds;
    REQUIRE(add_to_history(folder.path, report, verdict_of(report), 2));
  }
  std::set<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path))
    files.insert(entry.path());
  REQUIRE(files.size() == 2);
  CHECK(base::read_file(*files.begin(), 1 << 20)->find("\"seconds\":3,") != std::string::npos);
  CHECK(base::read_file(*files.rbegin(), 1 << 20)->find("\"seconds\":4,") != std::string::npos);
}

TEST_CASE("a history that cannot be written is an error with its path", "[check]") {
  const Folder folder;
  write(folder, "file", "");
  const CheckReport report = check_of(1);
  for (const char* bad : {"/file", "/none/inner"}) {
    const Status end = add_to_history(folder.path + bad, report, verdict_of(report), 0);
    REQUIRE_FALSE(end.ok());
    CHECK(end.error().code == ErrorCode::unavailable);
    CHECK(end.error().message.find(folder.path + bad) != std::string::npos);
  }
}

TEST_CASE("what is no check in a history is skipped and named", "[check]") {
  const Folder folder;
  const std::string text = dated(check_of(1), 1'800'000'000);
  write(folder, "good.json", text);
  write(folder, "README", "hello");
  write(folder, "cut.json", text.substr(0, text.size() / 2));
  write(folder, "other.json", R"({"schema":"collctl.rails/1"})");
  write(folder, "undated.json", check_json(check_of(1), verdict_of(check_of(1))));
  REQUIRE(::mkdir((folder.path + "/folder.json").c_str(), 0777) == 0);
  REQUIRE(::mkfifo((folder.path + "/pipe.json").c_str(), 0666) == 0);
  const Read made = read(folder);
  REQUIRE(made.checks.size() == 1);
  CHECK(made.checks[0].file == "good.json");
  std::string skipped;
  for (const auto& file : made.files.skipped) {
    CHECK_FALSE(file.why.empty());
    skipped += format("{}{} ", file.file, file.damaged ? "!" : "");
  }
  CHECK(skipped == "README cut.json! folder.json! other.json pipe.json! undated.json! ");
}

TEST_CASE("of a history the newest are read", "[check]") {
  const Folder folder;
  for (int day = 1; day <= 5; ++day)
    write(folder, format("2026010{}T000000Z-0123456789abcdef.json", day),
          dated(check_of(1), 1'800'000'000 + 86'400 * day));
  const Read made = read(folder, 2);
  CHECK(made.files.older == 3);
  REQUIRE(made.checks.size() == 2);
  CHECK(made.checks[0].file.starts_with("20260104"));
  const auto none = read_history(folder.path + "/none", 2, [](const PastCheck&) {});
  REQUIRE_FALSE(none.ok());
  CHECK(none.error().code == ErrorCode::usage);
}

TEST_CASE("a date with any zone is a time", "[check]") {
  CHECK(unix_of("2027-01-15T08:00:00Z") == 1'800'000'000);
  CHECK(unix_of("2027-01-15T09:30:00+01:30") == 1'800'000'000);
  CHECK(unix_of("2027-01-15T03:00:00-05:00") == 1'800'000'000);
  for (const char* none : {"", "2027-01-15", "2027-01-15T08:00:00", "2027-01-15T08:00:00Z!"})
    CHECK(unix_of(none) == 0);
}

}  // namespace check_history_tests
