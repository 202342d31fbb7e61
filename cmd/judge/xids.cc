#include "cmd/judge/xids.h"

#include <charconv>

namespace collctl::cmd {
namespace {

struct XidRow {
  unsigned first, last;
  XidCure cure;
  const char* meaning;
};
// THE table of Xids, ascending; numbers that are not used are left out.
constexpr XidRow kXids[] = {
    {8, 8, XidCure::program, "a program's work did not end in time"},
    {13, 13, XidCure::program, "a program's kernel raised an exception"},
    {25, 25, XidCure::program, "a program's commands were invalid"},
    {31, 31, XidCure::program, "a program touched GPU memory that is not its own"},
    {32, 32, XidCure::program, "a program's commands arrived damaged, or PCIe is bad"},
    {37, 38, XidCure::nothing, "the driver's firmware reported an error"},
    {39, 41, XidCure::program, "a copy engine raised an exception"},
    {43, 43, XidCure::nothing, "a program was stopped after a fault of its own"},
    {44, 44, XidCure::nothing, "a fault while programs took turns"},
    {45, 45, XidCure::nothing, "a program's work was taken away after it ended or failed"},
    {46, 46, XidCure::reset, "the GPU stopped answering"},
    {48, 48, XidCure::reset, "memory had an error that could not be corrected"},
    {54, 54, XidCure::hardware, "the board's auxiliary power is not connected"},
    {60, 60, XidCure::program, "a video processor raised an exception"},
    {62, 62, XidCure::reset, "a controller of the GPU has halted"},
    {63, 63, XidCure::nothing, "a row of memory was remapped"},
    {64, 64, XidCure::reset, "a row of memory could not be remapped"},
    {66, 67, XidCure::nothing, "the driver made an access that is not allowed"},
    {68, 68, XidCure::program, "a video decoder raised an exception"},
    {69, 69, XidCure::program, "a program used an object that does not exist"},
    {70, 72, XidCure::program, "a copy engine raised an exception"},
    {74, 74, XidCure::link, "an NVLink failed, here or at its other end"},
    {75, 77, XidCure::program, "a copy engine raised an exception"},
    {78, 78, XidCure::watch, "a virtual GPU could not start: driver and firmware do not fit"},
    {79, 79, XidCure::reboot, "the GPU has fallen off the bus"},
    {80, 80, XidCure::program, "commands arrived damaged at the GPU"},
    {82, 84, XidCure::program, "a video engine raised an exception"},
    {85, 85, XidCure::program, "a copy engine raised an exception"},
    {86, 89, XidCure::program, "a video engine raised an exception"},
    {92, 92, XidCure::watch, "memory errors are corrected at a high rate"},
    {93, 93, XidCure::nothing, "the GPU's own flash may not be written any more"},
    {94, 94, XidCure::watch, "memory had an error that ended one program: reset when convenient"},
    {95, 95, XidCure::reset, "memory had an error that reached several programs"},
    {96, 105, XidCure::program, "a video engine raised an exception"},
    {106, 107, XidCure::nothing, "a test message"},
    {108, 108, XidCure::nothing, "an access over NVLink could not be translated"},
    {109, 109, XidCure::reset, "the GPU did not change from one program to another in time"},
    {110, 110, XidCure::reset, "a security fault, mostly of broken hardware"},
    {119, 119, XidCure::reset, "the GPU's system processor (GSP) does not answer"},
    {120, 120, XidCure::reset, "the GPU's system processor (GSP) has failed"},
    {121, 121, XidCure::nothing, "errors on the link to the Grace CPU (C2C) were corrected"},
    {126, 135, XidCure::program, "a copy engine raised an exception"},
    {136, 136, XidCure::reset, "an NVLink could not be trained"},
    {137, 137, XidCure::program, "a program's access over NVLink was not allowed"},
    {139, 139, XidCure::program, "a video engine raised an exception"},
    {140, 140, XidCure::reset,
     "memory errors were not corrected, and no row could be marked for them"},
    {141, 141, XidCure::nothing, "a CUDA fast path reported an error"},
    {142, 142, XidCure::watch, "a video encoder raised an exception"},
    {143, 143, XidCure::reset, "the GPU could not be initialized"},
    {144, 144, XidCure::reset, "NVLink 5: its switch interface (SAW) failed"},
    {145, 145, XidCure::reset, "NVLink 5: its receiving side (RLW) failed"},
    {146, 146, XidCure::reset, "NVLink 5: its sending side (TLW) failed"},
    {147, 147, XidCure::nothing, "NVLink 5: an error of its test unit (TREX)"},
    {148, 148, XidCure::nothing, "NVLink 5: an error of its control unit (NVLPW)"},
    {149, 149, XidCure::reset, "NVLink 5: a link went down or is faulty (NETIR)"},
    {150, 150, XidCure::reset, "NVLink 5: its management controller (MSE) failed"},
    {151, 151, XidCure::reboot, "encryption keys could not be changed"},
    {154, 154, XidCure::reset, "the driver asks for a recovery"},
    {155, 155, XidCure::reset, "NVLink 5: software took a link down"},
    {156, 156, XidCure::reset, "a broken part of the GPU was retired, which takes a reset"},
    {157, 157, XidCure::watch, "a broken part of the GPU could not be retired"},
    {158, 158, XidCure::reset, "the GPU did not answer in time, for good"},
    {159, 159, XidCure::watch, "the link to the CPU (C2C) reported an error"},
    {160, 160, XidCure::watch, "a memory channel was retired"},
    {161, 161, XidCure::watch, "a memory channel could not be retired"},
    {162, 162, XidCure::nothing, "power smoothing works again"},
    {163, 165, XidCure::watch, "power smoothing is off or wears out"},
    {166, 166, XidCure::watch, "NVLink traffic came before encryption was set up"},
    {167, 167, XidCure::reset, "PCIe did not answer in time, for good"},
    {168, 168, XidCure::reboot, "memory that the GPU needs itself has errors"},
    {169, 169, XidCure::reset, "a controller of the GPU (SEC2) has halted"},
    {170, 170, XidCure::watch, "NVLink reported an error of encrypted traffic"},
    {171, 171, XidCure::reset, "GPU memory had an error that could not be corrected"},
    {172, 172, XidCure::reset,
     "memory inside the GPU's chip had an error that could not be corrected"},
};

// The recovery that the driver asks for with 154, in its own words.
struct Recovery {
  const char* said;
  Xid xid;
};
constexpr Recovery kRecoveries[] = {
    {"None", {XidCure::nothing, "the driver asks for no recovery any more"}},
    {"Drain P2P", {XidCure::link, "the driver asks to end all traffic with this GPU"}},
    {"Drain and Reset", {XidCure::reset, "the driver asks to drain this GPU and reset it"}},
    {"GPU Reset Required", {XidCure::reset, "the driver asks to reset this GPU"}},
    {"Node Reboot Required", {XidCure::reboot, "the driver asks to reboot this host"}},
};

}  // namespace

const char* Xid::remedy() const {
  switch (cure) {
    case XidCure::nothing:
      return "nothing is to be done for it alone";
    case XidCure::program:
      return "look at the program that ran then (dmesg has its pid), with compute-sanitizer";
    case XidCure::watch:
      return "watch it; reset the GPU when convenient (nvidia-smi --gpu-reset)";
    case XidCure::link:
      return "look at nvidia-smi nvlink -s and -e on both ends; drain the host, reset the GPU, and "
             "have board, bridge or cable exchanged if it comes again";
    case XidCure::reset:
      return "unless that was done since: drain the host and reset the GPU (nvidia-smi "
             "--gpu-reset); if it comes again, dcgmi diag -r 3 and have it exchanged";
    case XidCure::reboot:
      return "unless that was done since: drain the host and reboot it; if it comes again, look at "
             "slot, riser and power, and have the GPU exchanged";
    case XidCure::hardware:
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
    return {said == "nonfatal" ? XidCure::watch : row.cure, row.meaning};
  }
  return {XidCure::watch, "an error that NVIDIA's catalog does not have"};
}

}  // namespace collctl::cmd
