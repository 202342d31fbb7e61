#include "cmd/check/xids.h"

#include <charconv>

namespace collctl::cmd {
namespace {

using enum XidCure;

struct XidRow {
  unsigned first, last;
  XidCure cure;
  const char* meaning;
};
// THE table of Xids, ascending; numbers that are not used are left out.
constexpr XidRow kXids[] = {
    {8, 8, program, "a program's work did not end in time"},
    {13, 13, program, "a program's kernel raised an exception"},
    {25, 25, program, "a program's commands were invalid"},
    {31, 31, program, "a program touched GPU memory that is not its own"},
    {32, 32, program, "a program's commands arrived damaged, or PCIe is bad"},
    {37, 38, nothing, "the driver's firmware reported an error"},
    {39, 41, program, "a copy engine raised an exception"},
    {43, 43, nothing, "a program was stopped after a fault of its own"},
    {44, 44, nothing, "a fault while programs took turns"},
    {45, 45, nothing, "a program's work was taken away after it ended or failed"},
    {46, 46, reset, "the GPU stopped answering"},
    {48, 48, reset, "memory had an error that could not be corrected"},
    {54, 54, hardware, "the board's auxiliary power is not connected"},
    {60, 60, program, "a video processor raised an exception"},
    {62, 62, reset, "a controller of the GPU has halted"},
    {63, 63, nothing, "a row of memory was remapped"},
    {64, 64, reset, "a row of memory could not be remapped"},
    {66, 67, nothing, "the driver made an access that is not allowed"},
    {68, 68, program, "a video decoder raised an exception"},
    {69, 69, program, "a program used an object that does not exist"},
    {70, 72, program, "a copy engine raised an exception"},
    {74, 74, link, "an NVLink failed, here or at its other end"},
    {75, 77, program, "a copy engine raised an exception"},
    {78, 78, watch, "a virtual GPU could not start: driver and firmware do not fit"},
    {79, 79, reboot, "the GPU has fallen off the bus"},
    {80, 80, program, "commands arrived damaged at the GPU"},
    {82, 84, program, "a video engine raised an exception"},
    {85, 85, program, "a copy engine raised an exception"},
    {86, 89, program, "a video engine raised an exception"},
    {92, 92, watch, "memory errors are corrected at a high rate"},
    {93, 93, nothing, "the GPU's own flash may not be written any more"},
    {94, 94, watch, "memory had an error that ended one program: reset when convenient"},
    {95, 95, reset, "memory had an error that reached several programs"},
    {96, 105, program, "a video engine raised an exception"},
    {106, 107, nothing, "a test message"},
    {108, 108, nothing, "an access over NVLink could not be translated"},
    {109, 109, reset, "the GPU did not change from one program to another in time"},
    {110, 110, reset, "a security fault, mostly of broken hardware"},
    {119, 119, reset, "the GPU's system processor (GSP) does not answer"},
    {120, 120, reset, "the GPU's system processor (GSP) has failed"},
    {121, 121, nothing, "errors on the link to the Grace CPU (C2C) were corrected"},
    {126, 135, program, "a copy engine raised an exception"},
    {136, 136, reset, "an NVLink could not be trained"},
    {137, 137, program, "a program's access over NVLink was not allowed"},
    {139, 139, program, "a video engine raised an exception"},
    {140, 140, reset, "memory errors were not corrected, and no row could be marked for them"},
    {141, 141, nothing, "a CUDA fast path reported an error"},
    {142, 142, watch, "a video encoder raised an exception"},
    {143, 143, reset, "the GPU could not be initialized"},
    {144, 144, reset, "NVLink 5: its switch interface (SAW) failed"},
    {145, 145, reset, "NVLink 5: its receiving side (RLW) failed"},
    {146, 146, reset, "NVLink 5: its sending side (TLW) failed"},
    {147, 147, nothing, "NVLink 5: an error of its test unit (TREX)"},
    {148, 148, nothing, "NVLink 5: an error of its control unit (NVLPW)"},
    {149, 149, reset, "NVLink 5: a link went down or is faulty (NETIR)"},
    {150, 150, reset, "NVLink 5: its management controller (MSE) failed"},
    {151, 151, reboot, "encryption keys could not be changed"},
    {154, 154, reset, "the driver asks for a recovery"},
    {155, 155, reset, "NVLink 5: software took a link down"},
    {156, 156, reset, "a broken part of the GPU was retired, which takes a reset"},
    {157, 157, watch, "a broken part of the GPU could not be retired"},
    {158, 158, reset, "the GPU did not answer in time, for good"},
    {159, 159, watch, "the link to the CPU (C2C) reported an error"},
    {160, 160, watch, "a memory channel was retired"},
    {161, 161, watch, "a memory channel could not be retired"},
    {162, 162, nothing, "power smoothing works again"},
    {163, 165, watch, "power smoothing is off or wears out"},
    {166, 166, watch, "NVLink traffic came before encryption was set up"},
    {167, 167, reset, "PCIe did not answer in time, for good"},
    {168, 168, reboot, "memory that the GPU needs itself has errors"},
    {169, 169, reset, "a controller of the GPU (SEC2) has halted"},
    {170, 170, watch, "NVLink reported an error of encrypted traffic"},
    {171, 171, reset, "GPU memory had an error that could not be corrected"},
    {172, 172, reset, "memory inside the GPU's chip had an error that could not be corrected"},
};

// The recovery that the driver asks for with 154, in its own words.
struct Recovery {
  const char* said;
  Xid xid;
};
constexpr Recovery kRecoveries[] = {
    {"None", {nothing, "the driver asks for no recovery any more"}},
    {"Drain P2P", {link, "the driver asks to end all traffic with this GPU"}},
    {"Drain and Reset", {reset, "the driver asks to drain this GPU and reset it"}},
    {"GPU Reset Required", {reset, "the driver asks to reset this GPU"}},
    {"Node Reboot Required", {reboot, "the driver asks to reboot this host"}},
};

}  // namespace

const char* Xid::remedy() const {
  switch (cure) {
    case nothing:
      return "nothing is to be done for it alone";
    case program:
      return "look at the program that ran then (dmesg has its pid), with compute-sanitizer";
    case watch:
      return "watch it; reset the GPU when convenient (nvidia-smi --gpu-reset)";
    case link:
      return "look at nvidia-smi nvlink -s and -e on both ends; drain the host, reset the GPU, and "
             "have board, bridge or cable exchanged if it comes again";
    case reset:
      return "unless that was done since: drain the host and reset the GPU (nvidia-smi "
             "--gpu-reset); if it comes again, dcgmi diag -r 3 and have it exchanged";
    case reboot:
      return "unless that was done since: drain the host and reboot it; if it comes again, look at "
             "slot, riser and power, and have the GPU exchanged";
    case hardware:
      return "drain the host, look at the board's power cables and its seat";
  }
  return "";
}

Xid xid_of(const std::string& name) {
  unsigned number = 0;
  const char* const end = name.data() + name.size();
  const char* const rest = std::from_chars(name.data(), end, number).ptr;
  const std::string said(rest == end ? rest : rest + 1, end);
  if (number == 154)
    for (const Recovery& recovery : kRecoveries)
      if (said == recovery.said) return recovery.xid;
  for (const XidRow& row : kXids) {
    if (number < row.first || number > row.last) continue;
    return {said == "nonfatal" ? watch : row.cure, row.meaning};
  }
  return {watch, "an error that NVIDIA's catalog does not have"};
}

}  // namespace collctl::cmd
