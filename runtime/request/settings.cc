#include "runtime/request/settings.h"

#include <algorithm>

#include "base/env.h"
#include "base/format.h"
#include "transport/table/transports.h"

namespace collctl::runtime {
namespace {

using base::KnobId;

// 64 KiB a slot: half a megabyte a link stays within a core's second-level cache together with the
// caller's chunk, and a slot is long enough that its hand-over does not show. LL is for small
// messages.
constexpr uint32_t kSimpleSlotBytes = 128 << 10;
constexpr uint32_t kLlSlotBytes = 16 << 10;
// GPU ranks use NCCL's: 4 MiB, 512 KiB and 4.69 MiB (whole lines of 128 bytes) in 8 slots.
constexpr uint32_t kGpuSlotBytes[kernels::kProtocolCount] = {512 << 10, 64 << 10, 600 << 10};
constexpr uint32_t kLeastSlotBytes = 256;
constexpr int64_t kLeastWindowBytes = 4096;

Result<uint32_t> slot_bytes(KnobId id, uint32_t planned, uint32_t slots) {
  COLL_ASSIGN(const int64_t total, base::knob_int(id));
  if (total == 0) return planned;
  const int64_t slot = total / slots / 64 * 64;
  if (slot < kLeastSlotBytes)
    return Error(ErrorCode::usage,
                 format("{} = '{}': its {} steps are {} bytes each, at least {} are needed",
                        base::knob_value(id).origin, base::knob_value(id).text, slots, slot,
                        kLeastSlotBytes));
  return uint32_t(slot);
}

// An error in a variable names the variable: nobody has typed it for this run.
Result<Choices> read_choices(const CommOptions& options) {
  base::KnobValue algo = base::knob_value(KnobId::algo);
  base::KnobValue proto = base::knob_value(KnobId::proto);
  // The user's choice for NCCL may speak of what only NCCL has; the command has told what is left
  // out.
  for (base::KnobValue* each : {&algo, &proto})
    if (each->variable.starts_with("NCCL_")) each->text = nccl_list(each->text).ours;
  if (options.algo.empty()) COLL_TRY_IN(parse_choices(algo.text, "", 0), algo.origin);
  if (options.proto.empty()) COLL_TRY_IN(parse_choices("", proto.text, 0), proto.origin);
  return parse_choices(options.algo.empty() ? algo.text : options.algo,
                       options.proto.empty() ? proto.text : options.proto, options.channels);
}

Status read_window(Settings& s) {
  COLL_ASSIGN(const int64_t bytes, base::knob_int(KnobId::window_bytes));
  if (bytes != 0 && bytes < kLeastWindowBytes)
    return Error(ErrorCode::usage,
                 format("{} = '{}': expected 0 (no windows) or at least {} bytes",
                        base::knob_value(KnobId::window_bytes).origin,
                        base::knob_value(KnobId::window_bytes).text, kLeastWindowBytes));
  s.window_bytes = uint64_t(bytes + 63) / 64 * 64;
  COLL_ASSIGN(const int64_t stride, base::knob_int(KnobId::window_stride));
  s.window_stride = uint64_t(stride);
  return {};
}

template <class T>
Status read_int(KnobId id, T& to) {
  COLL_ASSIGN(const int64_t value, base::knob_int(id));
  to = T(value);
  return {};
}

Status read_gpu(Settings& s, const CommOptions& options) {
  const base::KnobValue knob = base::knob_value(KnobId::p2p_read);
  const std::string& how = options.p2p.empty() ? knob.text : options.p2p;
  if (how != "auto" && how != "read" && how != "write")
    return Error(ErrorCode::usage, format("{} = '{}': expected auto, read or write",
                                          options.p2p.empty() ? knob.origin : "p2p", how));
  s.p2p_read = how == "read";  // writes are faster on every path that was measured
  const base::KnobValue kernels = base::knob_value(KnobId::gpu_kernels);
  if (kernels.text != "auto" && kernels.text != "verbs")
    return Error(ErrorCode::usage,
                 format("{} = '{}': expected auto or verbs", kernels.origin, kernels.text));
  s.window_verbs = kernels.text == "verbs";
  return {};
}

Status read_network(Settings& s, const CommOptions& options) {
  const base::KnobValue net = base::knob_value(KnobId::net);
  s.net = options.net.empty() ? net.text : options.net;
  std::string lower = s.net;
  for (char& c : lower) c = char(c >= 'A' && c <= 'Z' ? c + 32 : c);
  if (lower == "socket" || lower == "ib") s.net = lower;  // all else is the name of a plugin
  s.transport = options.transport.empty() ? base::knob_text(KnobId::transport) : options.transport;
  if (!s.transport.empty() && transport::find_transport(s.transport) == nullptr) {
    std::string known;
    for (const auto& t : transport::transports())
      known += (known.empty() ? "" : ", ") + std::string(t.name);
    return Error(ErrorCode::usage,
                 format("transport '{}': expected one of {}", s.transport, known));
  }
  COLL_TRY(read_gpu(s, options));
  COLL_TRY(read_int(KnobId::integrity, s.integrity));
  s.integrity = s.integrity || options.integrity;
  COLL_TRY(read_int(KnobId::calibrate, s.calibrate));
  s.calibrate = s.calibrate && options.calibrate;
  s.recalibrate = s.calibrate && options.recalibrate;
  COLL_ASSIGN(const int64_t fabric, base::knob_int(KnobId::mnnvl_enable));
  if (s.integrity && fabric == 1)
    return Error(ErrorCode::usage,
                 format("{} = '1' with --integrity (COLLCTL_INTEGRITY): data over NVLink between "
                        "hosts carries no MACs",
                        base::knob_value(KnobId::mnnvl_enable).origin),
                 "leave out one of the two");
  COLL_TRY(read_int(KnobId::p2p_disable, s.p2p_disabled));
  COLL_TRY(read_int(KnobId::shm_disable, s.shm_disabled));
  COLL_TRY(read_int(KnobId::single_copy, s.single_copy));
  COLL_TRY(read_int(KnobId::socket_nsocks, s.sockets_per_thread));
  COLL_TRY(read_int(KnobId::socket_nthreads, s.helper_threads));
  s.interfaces = base::knob_text(KnobId::socket_ifname);
  s.family = base::knob_text(KnobId::socket_family);
  return {};
}

}  // namespace

Result<Settings> read_settings(const CommOptions& options) {
  Settings s;
  s.count_waits = options.count_waits;
  COLL_TRY(read_int(KnobId::steps, s.slot_count));
  const bool gpu = options.device >= 0;
  COLL_ASSIGN(
      s.slot_bytes[int(kernels::Protocol::simple)],
      slot_bytes(KnobId::buffsize, gpu ? kGpuSlotBytes[0] : kSimpleSlotBytes, s.slot_count));
  COLL_ASSIGN(const int64_t asked, base::knob_int(KnobId::buffsize));
  s.plans_slots = asked == 0;
  COLL_ASSIGN(const int64_t asked_of_ll, base::knob_int(KnobId::ll_buffsize));
  s.plans_ll_slots = asked_of_ll == 0;
  COLL_ASSIGN(s.slot_bytes[int(kernels::Protocol::ll)],
              slot_bytes(KnobId::ll_buffsize, gpu ? kGpuSlotBytes[1] : kLlSlotBytes, s.slot_count));
  if (gpu) {
    COLL_ASSIGN(const uint32_t slot,
                slot_bytes(KnobId::ll128_buffsize, kGpuSlotBytes[2], s.slot_count));
    s.slot_bytes[int(kernels::Protocol::ll128)] = slot / 128 * 128;  // whole lines
  }
  COLL_TRY(read_window(s));
  if (s.window_stride == 0) s.window_stride = options.window_stride;
  COLL_ASSIGN(s.choices, read_choices(options));
  COLL_TRY(read_int(KnobId::min_nchannels, s.min_channels));
  COLL_TRY(read_int(KnobId::max_nchannels, s.max_channels));
  if (s.max_channels > 0 && s.min_channels > s.max_channels)
    return Error(ErrorCode::usage, format("MIN_NCHANNELS = {} is above MAX_NCHANNELS = {}",
                                          s.min_channels, s.max_channels));
  COLL_TRY(read_network(s, options));
  COLL_ASSIGN(s.start_timeout_s, base::knob_seconds(KnobId::start_timeout));
  COLL_ASSIGN(s.op_timeout_s, base::knob_seconds(KnobId::op_timeout));
  if (options.start_timeout_s > 0) s.start_timeout_s = options.start_timeout_s;
  if (options.op_timeout_s > 0) s.op_timeout_s = options.op_timeout_s;
  COLL_TRY(read_int(KnobId::spin_us, s.spin_us));
  COLL_TRY(read_int(KnobId::inline_blocking, s.inline_blocking));
  COLL_ASSIGN(s.fault, kernels::parse_fault(base::knob_text(KnobId::fault)));
  return s;
}

std::string shared_settings_text(const Settings& s) {
  return format(
      "STEPS={}\nBUFFSIZE={}\nLL_BUFFSIZE={}\nLL128_BUFFSIZE={}\nWINDOW_BYTES={}\nWINDOW_STRIDE={}"
      "\nALGO={}\nPROTO={}"
      "\nchannels={}\nMIN_"
      "NCHANNELS={}\n"
      "MAX_NCHANNELS={}\nTRANSPORT={}\nP2P_DISABLE={}\nSHM_DISABLE={}\nSINGLE_COPY={}\nP2P_READ={}"
      "\nGPU_KERNELS={}"
      "\nSOCKET_NSOCKS_"
      "PERTHREAD={}\n"
      "SOCKET_NTHREADS={}\nINTEGRITY={}\nCALIBRATE={}\nrecalibrate={}\n",
      s.slot_count, uint64_t(s.slot_bytes[0]) * s.slot_count,
      uint64_t(s.slot_bytes[1]) * s.slot_count, uint64_t(s.slot_bytes[2]) * s.slot_count,
      s.window_bytes, s.window_stride, s.choices.algo, s.choices.proto, s.choices.channels,
      s.min_channels, s.max_channels, s.transport, int(s.p2p_disabled), int(s.shm_disabled),
      int(s.single_copy), int(s.p2p_read), s.window_verbs ? "verbs" : "auto", s.sockets_per_thread,
      s.helper_threads, int(s.integrity), int(s.calibrate), int(s.recalibrate));
}

uint64_t hash_text(const std::string& text) {
  uint64_t h = 0xcbf29ce484222325;  // FNV-1a
  for (const char c : text) h = (h ^ uint8_t(c)) * 0x100000001b3;
  return h;
}

std::string first_difference(const std::string& a, int rank_a, const std::string& b, int rank_b) {
  const auto line = [](const std::string& text, size_t from) {
    return text.substr(from, std::min(text.find('\n', from), text.size()) - from);
  };
  for (size_t i = 0, j = 0; i < a.size() || j < b.size();) {
    const std::string x = i < a.size() ? line(a, i) : "", y = j < b.size() ? line(b, j) : "";
    if (x != y) {
      const size_t equals = std::min(x.find('='), x.size());
      const auto value = [](const std::string& text) {
        const size_t at = text.find('=');
        return at == std::string::npos ? std::string() : text.substr(at + 1);
      };
      return format("{} is '{}' on rank {} and '{}' on rank {}", x.substr(0, equals), value(x),
                    rank_a, value(y), rank_b);
    }
    i += x.size() + 1;
    j += y.size() + 1;
  }
  return "";
}

}  // namespace collctl::runtime
