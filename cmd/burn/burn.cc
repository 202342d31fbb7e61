#include "cmd/burn/burn.h"

#include "base/clock.h"
#include "base/env.h"
#include "base/format.h"
#include "base/host_devices.h"
#include "base/host_facts.h"
#include "base/whole_number.h"
#include "cmd/burn/error_watch.h"
#include "cmd/cli/option_rows.h"
#include "cmd/report/one_rank.h"
#include "cmd/report/options.h"
#include "kernels/cuda/launcher/launcher.h"

namespace collctl::cmd {

Result<BurnFaultSpec> parse_burn_fault(const std::string& text, const std::string& host) {
  BurnFaultSpec fault;
  if (text.empty()) return fault;
  const Error malformed(ErrorCode::usage,
                        format("burn fault \"{}\": expected "
                               "bf16|fp8|fp32|fp64|memory|core:device=N[:round=R][:host=NAME]",
                               text));
  const size_t first = text.find(':');
  fault.what = text.substr(0, first);
  bool known = false, here = true;
  for (const char* what : {"bf16", "fp8", "fp32", "fp64", "memory", "core"})
    known |= fault.what == what;
  for (size_t at = first; at != std::string::npos;) {
    const size_t end = text.find(':', at + 1);
    const std::string word = text.substr(at + 1, end - at - 1);
    at = end;
    const size_t equals = word.find('=');
    if (equals == std::string::npos) return malformed;
    const std::string name = word.substr(0, equals), value = word.substr(equals + 1);
    const auto number = [&value](auto& to) {
      const auto read = base::whole_number<std::remove_reference_t<decltype(to)>>(value);
      to = read.value_or(to);
      return read && *read >= 0;
    };
    if (name == "host")
      here = value == host;
    else if (!(name == "device" && number(fault.device)) &&
             !(name == "round" && number(fault.round)))
      return malformed;
  }
  if (!known || fault.device < 0) return malformed;
  return here ? fault : BurnFaultSpec{};
}

namespace {

Result<std::string> burn_record(const TaskContext& context) {
  COLL_ASSIGN(const BurnSpec spec, BurnSpec::from_json(context.spec.options));
  COLL_ASSIGN(const BurnFaultSpec fault,
              parse_burn_fault(base::knob_text(base::KnobId::burn_fault), base::host_name()));
  const auto* launcher = context.spec.settings.launcher;
  ErrorWatch watch;
  const int64_t began = now_ns();
  const BurnRun run{.spec = spec,
                    .fault = fault,
                    .until = Deadline::after_seconds(spec.seconds),
                    .launcher = launcher != nullptr ? launcher : &kernels::cuda::launcher(),
                    .progress = [&](const std::string& text) { context.sink.progress(text); },
                    .look = [&] { watch.look(base::seconds_since(began)); }};
  BurnReport report{.host = base::host_name(), .seconds = spec.seconds, .devices = {}};
  const bool on_gpus = !spec.cores && (!base::nvidia_gpus_here().empty() ||
                                       context.spec.settings.launcher != nullptr);
  COLL_ASSIGN(report.devices, !spec.part.what.empty() ? burn_gpus(run)
                              : on_gpus               ? burn_gpus_and_cores(run)
                                                      : burn_cores(run));
  watch.look(base::seconds_since(began), true);
  watch.give(report.devices);
  return burn_json(report);
}

Status run_burn(const TaskContext& context) {
  return run_one_rank(context, [&] { return burn_record(context); });
}

Command burn_row(uint32_t own) {
  return {
      .name = "burn-test",
      .kind = CommandKind::task,
      .arguments = "[-H HOST] [--burn-for TIME] [--json]",
      .scopes = kTask | own,
      .summary = "load on a host's GPUs or cores, every bit of the results looked at",
      .description =
          "One rank multiplies matrices on all GPUs of the host, fills the vector units of "
          "cores (beside GPUs of half of them), writes and reads their memory, and compares every "
          "result bit by bit with the earlier ones and with those of the other devices. "
          "Clocks and power settings are never changed.",
      .examples = {{"collctl burn-test --burn-for 5m", "this host"}},
      .hidden = true,
      .run = burn_command};
}

void add_burn_options(std::vector<Option>& t, uint32_t own) {
  using namespace kinds;
  add_file_option(t, own, FileKinds{}, kWholeFiles);
  const Adder add{t, Group::measure, own};  // hidden, as the command is
  add("burn-for", seconds("TIME", 0, 31622400, "60"), to<&BurnSpec::seconds>,
      "how long (burn-test): 90s, 15m, 2h")
      .hidden = true;
  add("memory", size("what is free", 1 << 20), to<&BurnSpec::most_memory>,
      "at most so much memory of each GPU, or of the host (burn-test)")
      .hidden = true;
  add("cores", flag(), to<&BurnSpec::cores>, "the host's cores in place of its GPUs (burn-test)")
      .hidden = true;
  add("part", text("TYPE"), to<&BurnSpec::part, &BurnPart::what>,
      "words of that product of each GPU, in place of load (burn-test)")
      .hidden = true;
  add("part-from", integer("WORD", 0, 1e15, "0"), to<&BurnSpec::part, &BurnPart::from>,
      "the first of them (burn-test)")
      .hidden = true;
  add("part-words", integer("N", 1, 1e15), to<&BurnSpec::part, &BurnPart::words>,
      "how many (burn-test)")
      .hidden = true;
}

}  // namespace

const RankTask kBurnTask{
    .name = "burn-test", .run = run_burn, .command = burn_row, .add_options = add_burn_options};

Result<int> burn_command(const ParsedLine& given, Console& console) {
  BurnSpec spec;
  COLL_TRY(fill(given, spec));
  return one_rank_command(given, console, kBurnTask, spec.to_json(),
                          [](const std::string& record) -> Result<Document> {
                            COLL_ASSIGN(const BurnReport report, read_burn(record));
                            return burn_document(report, burn_json(report));
                          });
}

}  // namespace collctl::cmd
