// Machines of every kind, made at random: switch trees, islands of NVLink, NVSwitch, several
// sockets, all makers, attributes that are missing. The same seed gives the same machine.
#pragma once
#include <random>
#include <string>
#include <vector>

struct RandomMachine {
  std::mt19937 random;
  int gpus, nets;
  int next_bus = 0x10;
  std::vector<std::string> gpu_texts = {}, net_texts = {};

  RandomMachine(unsigned seed, int most_gpus, int most_nets) : random(seed) {
    gpus = 1 + below(most_gpus);
    nets = below(most_nets + 1);
  }
  int below(int limit) { return int(random() % unsigned(limit)); }
  bool one_in(int n) { return below(n) == 0; }

  static std::string bus(int number) {
    static const char* const kDigits = "0123456789abcdef";
    return std::string("0000:") + kDigits[number / 16] + kDigits[number % 16] + ":00.0";
  }
  std::string pci_open() {
    static const char* const kSpeeds[] = {"8.0 GT/s PCIe", "16.0 GT/s PCIe", "32.0 GT/s PCIe"};
    std::string text = "<pci busid=\"" + bus(next_bus++) + "\"";
    if (!one_in(8)) text += std::string(" link_speed=\"") + kSpeeds[below(3)] + "\"";
    if (!one_in(8)) text += one_in(4) ? " link_width=\"8\"" : " link_width=\"16\"";
    return text + ">";
  }

  // GPU g sits at bus 0x80 + g, so that links can name it before it is placed.
  void make_gpus() {
    static const int kSm[] = {70, 80, 86, 90, 100};
    const int sm = kSm[below(5)], kind = below(4), island = 1 + below(gpus), count = 1 + below(12);
    for (int g = 0; g < gpus; ++g) {
      const std::string n = std::to_string(g);
      std::string text = "<pci busid=\"" + bus(0x80 + g) + "\" link_speed=\"16.0 GT/s PCIe\" " +
                         "link_width=\"16\"><gpu dev=\"" + n + "\" rank=\"" + n + "\"";
      if (!one_in(12)) text += " sm=\"" + std::to_string(sm) + "\"";
      if (!one_in(6)) text += " gdr=\"1\"";
      text += ">";
      if (kind == 1)  // NVSwitch
        text += "<nvlink target=\"0000:ff:00.0\" count=\"" + std::to_string(count) +
                "\" tclass=\"0x068000\"/>";
      if (kind == 2)  // islands
        for (int other = 0; other < gpus; ++other)
          if (other != g && other / island == g / island)
            text += "<nvlink target=\"" + bus(0x80 + other) + "\" count=\"" +
                    std::to_string(count) + "\" tclass=\"0x030200\"/>";
      gpu_texts.push_back(text + "</gpu></pci>");
    }
  }
  void make_nets() {
    static const int kSpeeds[] = {10000, 25000, 100000, 200000, 400000};
    const int speed = kSpeeds[below(5)];
    const bool coll = one_in(3);
    for (int n = 0; n < nets; ++n) {
      const std::string number = std::to_string(n);
      std::string text = pci_open() + "<nic><net name=\"n" + number + "\" dev=\"" + number + "\"";
      if (!one_in(10)) text += " speed=\"" + std::to_string(speed) + "\"";
      if (!one_in(4)) text += " gdr=\"1\"";
      if (coll) text += " coll=\"1\"";
      if (one_in(4)) text += " guid=\"0x77\" port=\"1\"";
      net_texts.push_back(text + "/></nic></pci>");
    }
  }

  std::string branch(std::vector<std::string>& devices, int depth) {
    std::string text;
    while (!devices.empty()) {
      if (depth < 3 && one_in(3)) {
        text += pci_open() + branch(devices, depth + 1) + "</pci>";
        continue;
      }
      text += devices.back();
      devices.pop_back();
      if (one_in(3)) break;
    }
    return text;
  }

  std::string xml() {
    make_gpus();
    make_nets();
    std::vector<std::string> devices = gpu_texts;
    devices.insert(devices.end(), net_texts.begin(), net_texts.end());
    for (size_t i = devices.size(); i > 1; --i)
      std::swap(devices[i - 1], devices[size_t(below(int(i)))]);
    static const char* const kCpus[] = {
        "arch=\"x86_64\" vendor=\"GenuineIntel\" familyid=\"6\" modelid=\"85\"",
        "arch=\"x86_64\" vendor=\"GenuineIntel\" familyid=\"6\" modelid=\"143\"",
        "arch=\"x86_64\" vendor=\"AuthenticAMD\" familyid=\"25\" modelid=\"1\"",
        "arch=\"arm64\" vendor=\"ARM\"", ""};
    const std::string maker = kCpus[below(5)];
    std::string text = "<system version=\"1\">";
    for (int cpu = 0; cpu < 4 && (cpu == 0 || !devices.empty()); ++cpu) {
      text += "<cpu numaid=\"" + std::to_string(cpu) + "\" " + maker + ">";
      do {
        text += branch(devices, 0);
      } while (!devices.empty() && (cpu == 3 || !one_in(3)));
      text += "</cpu>";
    }
    return text + "</system>";
  }
};
