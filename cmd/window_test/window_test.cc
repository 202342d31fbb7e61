#include "cmd/window_test/window_test.h"

#include <algorithm>
#include <cstring>

#include "base/env.h"
#include "base/format.h"
#include "cmd/measure/fields.h"
#include "cmd/measure/rank.h"
#include "cmd/measure/timing.h"
#include "kernels/cpu/launch.h"
#include "runtime/window/memory.h"

namespace collctl::cmd {
namespace {

constexpr size_t kMostCulprits = 8;
constexpr double kStageCopySeconds = 10;  // of a copy from or to a GPU

// Addresses of a rank for windows: so few that it can be seen what happens when they run out.
uint64_t window_test_stride(int ranks) {
  return std::max<uint64_t>(32 << 20, uint64_t(ranks) * (64 << 10));
}

Status run_window_test(const TaskContext& context) {
  COLL_ASSIGN(WindowTestSpec spec, record_of<WindowTestSpec>(context.spec.options,
                                                             "reading the options of window-test"));
  static_cast<RankSettings&>(spec) = context.spec.settings;
  context.sink.phase(context.rank, "connect");
  runtime::CommOptions options = comm_options(spec, context.sink);
  options.window_stride = window_test_stride(context.size);
  if (context.sink.every_rank())
    options.task = task_text("window-test", context.spec.options, {}) +
                   alike_lines<WindowTestSpec>(context.spec.options);
  return with_communicator(context, options, nullptr, [&](runtime::Communicator& communicator) {
    return WindowTest(spec, communicator, context.sink).run();
  });
}

}  // namespace

const RankTask kWindowTestTask{.name = "window-test",
                               .run = run_window_test,
                               .command = window_test_row,
                               .add_options = add_window_test_options};

void WindowFindings::fail(ErrorCode code, int accused, const std::string& text) {
  if (failed_++ < kMostKept) failures_.push_back({code, accused, text.substr(0, kMostText)});
}

void WindowFindings::not_tested(const std::string& why) {
  not_tested_ = why.substr(0, kMostText);
}

void WindowFindings::compare(std::span<const uint8_t> bytes, const PatternKey& key, uint64_t offset,
                             int ranks, const std::string& what) {
  looked();
  if (const auto fault = compare_pattern(bytes, key, offset, ranks))
    fail(ErrorCode::bad_data, key.writer, format("{}: {}", what, text_of(*fault)));
}

static void fields(Record& io, WindowFailure& failure) {
  auto code = int32_t(failure.code);
  io.field("code", code);
  if (io.reading()) failure.code = ErrorCode(code);
  io.field("accused", failure.accused);
  io.field("text", failure.text, WindowFindings::kMostText);
}

void fields(Record& io, WindowFindings& found) {
  io.field("looks", found.looks_);
  io.field("failed", found.failed_);
  io.field("not_tested", found.not_tested_, WindowFindings::kMostText);
  io.field("applies", found.applies_);
  io.field("failures", found.failures_, WindowFindings::kMostKept);
}

Finding merged_check(const std::string& name, std::span<const WindowFindings> ranks,
                     std::vector<Culprit>& culprits) {
  Finding check{.name = name};
  uint64_t failed = 0, looks = 0;
  size_t told = 0;
  const auto add = [&](const std::string& text) {
    if (told++ < WindowFindings::kMostKept)
      check.message += (check.message.empty() ? "" : "; ") + text;
  };
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const WindowFindings& found = ranks[rank];
    looks += found.looks();
    failed += found.failed();
    for (const WindowFailure& failure : found.failures()) {
      check.fail(failure.code, std::move(check.message));
      add(format("rank {}: {}", rank, failure.text));
      if (failure.accused < 0 || culprits.size() >= kMostCulprits) continue;
      const std::string link = format("rank {} -> rank {}", failure.accused, rank);
      const bool known =
          std::ranges::any_of(culprits, [&](const Culprit& c) { return c.name == link; });
      if (!known)
        culprits.push_back({.kind = SubjectKind::link,
                            .name = link,
                            .confidence = 1,
                            .evidence = name + " failed"});
    }
  }
  if (looks > 0) {
    check.measured = std::to_string(looks);
    check.unit = "comparisons";
  }
  if (failed > told) check.message += format("; and {} more", failed - told);
  if (check.status == FindingStatus::fail) return check;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const std::string& why = ranks[rank].why_not_tested();
    if (why.empty()) continue;
    const bool judged = ranks[rank].applies();
    if (check.status == FindingStatus::not_tested && !judged) continue;
    check.status = FindingStatus::not_tested;
    check.message = why;
    if (!judged) continue;
    check.leave_out(format("rank {}: {}", rank, why));
    break;
  }
  return check;
}

WindowTest::WindowTest(const WindowTestSpec& spec, runtime::Communicator& communicator,
                       TaskSink& sink)
    : spec_(spec),
      communicator_(communicator),
      sink_(sink),
      timeout_s_(op_timeout(spec)),
      budget_(Deadline::after_seconds(spec.budget_s)) {}

WindowTest::~WindowTest() = default;

Status WindowTest::write(void* to, std::span<const uint8_t> bytes) {
  if (communicator_.device() == nullptr) {
    std::memcpy(to, bytes.data(), bytes.size());
    return {};
  }
  COLL_TRY(stream_.copy(to, bytes.data(), bytes.size()));
  return stream_.synchronize(Deadline::after_seconds(kStageCopySeconds));
}

Status WindowTest::read(const void* from, std::span<uint8_t> bytes) {
  if (communicator_.device() == nullptr) {
    std::memcpy(bytes.data(), from, bytes.size());
    return {};
  }
  COLL_TRY(stream_.copy(bytes.data(), from, bytes.size()));
  return stream_.synchronize(Deadline::after_seconds(kStageCopySeconds));
}

Status WindowTest::look_at(const Memory& memory, int owner, uint64_t offset,
                           std::span<uint8_t> bytes) {
  if (!one_sided_->direct(owner))
    return one_sided_->get({memory.window, owner, offset}, bytes.data(), bytes.size(), deadline());
  COLL_ASSIGN(const uint8_t* const at, memory.window->peer(owner, offset, bytes.size()));
  return read(at, bytes);
}

// A rank without memory takes part in the registration all the same: then all ranks learn of it at
// once.
Result<std::vector<WindowTest::Memory>> WindowTest::make_all(std::span<const uint64_t> sizes) {
  std::vector<Memory> memories(sizes.size());
  std::vector<runtime::WindowRange> ranges;
  std::optional<Error> missing;
  for (size_t i = 0; i < sizes.size(); ++i) {
    auto memory = runtime::allocate_window_memory(sizes[i], communicator_.device());
    if (memory) memories[i].address = *memory;
    ranges.push_back({.address = memories[i].address, .bytes = sizes[i]});
    if (memory || missing) continue;
    missing = std::move(memory.error());
    ranges.back().missing = &*missing;
  }
  auto windows = communicator_.register_windows(ranges, deadline());
  if (!windows) {
    for (const Memory& memory : memories)
      if (memory.address != nullptr) COLL_TRY(runtime::free_window_memory(memory.address));
    return std::move(windows.error());
  }
  for (size_t i = 0; i < sizes.size(); ++i) memories[i].window = (*windows)[i];
  COLL_TRY(one_sided_->share(*windows, deadline()));
  return memories;
}

Result<WindowTest::Memory> WindowTest::make(uint64_t bytes) {
  COLL_ASSIGN(const std::vector<Memory> one, make_all({&bytes, 1}));
  return one[0];
}

Status WindowTest::give_back(std::span<Memory> memories) {
  std::vector<runtime::WindowPointer> windows;
  for (const Memory& memory : memories) windows.push_back(memory.window);
  COLL_TRY(one_sided_->withdraw(windows, deadline()));
  COLL_TRY(communicator_.deregister_windows(windows, deadline()));
  for (const Memory& memory : memories) COLL_TRY(runtime::free_window_memory(memory.address));
  return {};
}

// Runs one stage and tells all ranks what each has found.
Status WindowTest::stage(const char* name, Stage what) {
  if (rank() == 0) sink_.progress(name);
  std::vector<WindowFindings> all;
  if (spent_) {
    all.emplace_back().not_tested("it did not begin within " + budget_words());
  } else {
    WindowFindings mine;
    COLL_TRY_IN((this->*what)(mine), name);
    COLL_ASSIGN(const auto blobs, communicator_.gather_blobs(encoded(mine), deadline()));
    for (const Bytes& blob : blobs) {
      COLL_ASSIGN(WindowFindings one, decoded<WindowFindings>(blob));
      all.push_back(std::move(one));
    }
    COLL_ASSIGN(spent_, over_budget());
  }
  report_.checks.push_back(merged_check(name, all, report_.culprits));
  // Now, so that what was found is known when a later stage is the job's end.
  return rank() == 0 || sink_.every_rank() ? sink_.record(json_of(report_)) : Status();
}

Result<bool> WindowTest::over_budget() {
  ByteWriter mine;
  mine.put(uint8_t(budget_.passed()));
  COLL_ASSIGN(const auto all, communicator_.gather_blobs(mine.bytes(), deadline()));
  ByteReader reader(all[0]);
  return reader.get<uint8_t>() != 0;
}

std::string WindowTest::budget_words() const {
  return format("the budget of {:g} s (--budget)", spec_.budget_s);
}

Status WindowTest::run() {
  COLL_ASSIGN(const BenchHeader header, gather_header(spec_, {}, communicator_, deadline()));
  if (rank() == 0) COLL_TRY(sink_.record(encode_record(header)));
  sink_.phase(rank(), "measure");
  if (communicator_.device() != nullptr) {
    COLL_ASSIGN(stream_, transport::DeviceStream::make(communicator_.device()));
  }
  COLL_ASSIGN(const kernels::Fault fault,
              kernels::parse_fault(base::knob_text(base::KnobId::fault)));
  COLL_ASSIGN(one_sided_, runtime::OneSided::open(communicator_, deadline(), fault));
  COLL_TRY(stage("aliasing", &WindowTest::aliasing));
  COLL_TRY(stage("strides and offsets", &WindowTest::strides));
  COLL_TRY(stage("mixed sizes", &WindowTest::sizes));
  COLL_TRY(stage("repeated registration", &WindowTest::repeated));
  COLL_TRY(stage("concurrent windows", &WindowTest::concurrent));
  COLL_TRY(stage("exhaustion", &WindowTest::exhaustion));
  COLL_TRY(stage("misuse", &WindowTest::misuse));
  COLL_TRY(stage("put and get", &WindowTest::moves));
  COLL_TRY(stage("ordering", &WindowTest::ordering));
  COLL_TRY(stage("barrier", &WindowTest::barriers));
  COLL_TRY(stage("times", &WindowTest::matrix));
  COLL_TRY(stage("collectives", &WindowTest::collectives));
  COLL_TRY(barrier());
  one_sided_.reset();
  return {};
}

}  // namespace collctl::cmd
