// Site files as the real binary takes them: precedence, origin, what is refused.
#include <sys/stat.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/catch.h"
#include "tests/cli/run_binary.h"

namespace site_files_tests {

using nlohmann::json;

namespace {

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

struct Home {
  TemporaryFolder folder;
  std::string conf = folder / ".nccl.conf", other = folder / "other.conf";
  std::string home = "HOME=" + folder.path();
  static void write(const std::string& path, const std::string& text, mode_t mode = 0644) {
    std::ofstream(path) << text;
    REQUIRE(::chmod(path.c_str(), mode) == 0);
  }
  json env(const std::string& variables = "") const {
    return json::parse(run_collctl("env --json", home + " " + variables).out);
  }
};

json knob_of(const json& env, const std::string& name) {
  for (const auto& knob : env["knobs"])
    if (knob["name"] == name) return knob;
  return {};
}

json file_of(const json& env, const std::string& path) {
  for (const auto& file : env["site_files"])
    if (file["path"] == path) return file;
  return {};
}

}  // namespace

TEST_CASE("env shows what a site file sets", "[cli]") {
  const Home home;
  Home::write(home.conf, "# site\nNCCL_ALGO=ring\nCOLLCTL_STEPS=4\nNCCL_NVLS_ENABLE=1\nFI_X=1\n");
  const json env = home.env();
  const json algo = knob_of(env, "COLLCTL_ALGO");
  CHECK(algo["value"] == "ring");
  CHECK(algo["origin"] == "NCCL_ALGO");
  CHECK(algo["file"] == home.conf);
  CHECK(knob_of(env, "COLLCTL_STEPS")["file"] == home.conf);
  CHECK(knob_of(env, "COLLCTL_PROTO")["file"].is_null());
  CHECK(file_of(env, home.conf)["variables"] ==
        json::array({"NCCL_ALGO", "COLLCTL_STEPS", "NCCL_NVLS_ENABLE", "FI_X"}));
  CHECK(env["nccl_variables"]["honoured"] == json::array({"NCCL_ALGO"}));
  CHECK(env["nccl_variables"]["without_effect"] == json::array({"NCCL_NVLS_ENABLE"}));
  const Ran text = run_collctl("env", home.home);
  CHECK(has(text.out, "NCCL_ALGO (" + home.conf + ")\n"));
  CHECK(has(text.out,
            "# set by " + home.conf + ": NCCL_ALGO, COLLCTL_STEPS, NCCL_NVLS_ENABLE, FI_X\n"));
  CHECK(text.err == "");
}

TEST_CASE("the environment goes before site files, NCCL_CONF_FILE in place of the one at home",
          "[cli]") {
  const Home home;
  Home::write(home.conf, "NCCL_ALGO=ring\nCOLLCTL_PROTO=ll\nNCCL_DEBUG=INFO\n");
  Home::write(home.other, "NCCL_ALGO=tree\n");
  // Also where the environment has NCCL's name and the file ours; an empty one hides a file's.
  const json mine = home.env("NCCL_ALGO=doubling NCCL_PROTO=simple NCCL_DEBUG=");
  CHECK(knob_of(mine, "COLLCTL_ALGO")["value"] == "doubling");
  CHECK(knob_of(mine, "COLLCTL_ALGO")["file"].is_null());
  CHECK(knob_of(mine, "COLLCTL_PROTO")["value"] == "simple");
  CHECK(knob_of(mine, "COLLCTL_DEBUG")["origin"] == "default");
  const json named = home.env("NCCL_CONF_FILE=" + home.other);
  CHECK(knob_of(named, "COLLCTL_ALGO")["value"] == "tree");
  CHECK(knob_of(named, "COLLCTL_PROTO")["origin"] == "default");
}

TEST_CASE("site files are honoured by plan, topo and runs", "[cli]") {
  const Home home;
  Home::write(home.conf, "NCCL_ALGO=ring\n");
  const std::string plan = "plan --nodes 2 --gpus 1 --device cpu --bytes 1M --json";
  const std::string run = "run -n 2 allreduce -b 1K -e 1K --iters 1 --json";
  const Ran ran = run_collctl(run, home.home);
  CHECK(ran.code == 0);
  CHECK(ran.err == "");
  CHECK(has(ran.out, "\"algorithm\":\"ring\""));
  Home::write(home.conf, "NCCL_TOPO_FILE=/nowhere/topo.xml\n");
  for (const char* line : {"topo", "plan --nodes 2"}) {
    INFO(line);
    const Ran topo = run_collctl(line, home.home);
    CHECK(topo.code != 0);
    CHECK(has(topo.err, "NCCL_TOPO_FILE (" + home.conf + ")"));
  }
  Home::write(home.conf, "NCCL_BUFFSIZE=much\n");
  const Ran doctor = run_collctl("doctor", home.home);
  CHECK(doctor.code == 2);
  CHECK(has(doctor.err, "NCCL_BUFFSIZE (" + home.conf + ") = 'much': expected a size"));
}

TEST_CASE("a named site file is obeyed and not called without effect; errors name what it set",
          "[cli]") {
  const Home home;
  const std::string named = home.conf + ".site";
  Home::write(named, "NCCL_SOCKET_IFNAME=nonexist0\n");
  const std::string with = home.home + " NCCL_CONF_FILE=" + named;
  const Ran ran = run_collctl("run -n 2 allreduce -b 1K -e 1K --iters 1", with);
  CHECK(ran.code == 3);
  CHECK_FALSE(has(ran.err, "without effect"));
  CHECK(has(ran.err, "no network interface matches NCCL_SOCKET_IFNAME=nonexist0"));
  const json env = json::parse(run_collctl("env --json", with).out);
  CHECK(env["nccl_variables"]["without_effect"] == json::array());
}

TEST_CASE("what NCCL alone has is left out of its lists with one note, and not of ours", "[cli]") {
  const Home home;
  const Ran ran = run_collctl("run -n 2 allreduce -b 1K -e 1K --iters 1",
                              home.home + " NCCL_ALGO=^NVLS,NVLSTree");
  CHECK(ran.code == 0);
  CHECK(ran.err ==
        "collctl: note: NCCL_ALGO = '^NVLS,NVLSTree': left out, as only NCCL has it: "
        "nvls,nvlstree\n");
  const Ran ours =
      run_collctl("run -n 2 allreduce -b 1K -e 1K --iters 1", home.home + " COLLCTL_ALGO=^NVLS");
  CHECK(ours.code == 2);
  CHECK(has(ours.err, "'nvls' is unknown"));
}

TEST_CASE("NCCL's variables that do nothing are told once, with their file", "[cli]") {
  const Home home;
  Home::write(home.conf, "NCCL_NVLS_ENABLE=1\n");
  const Ran ran = run_collctl("run -n 2 allreduce -b 1K -e 1K --iters 1",
                              home.home + " NCCL_LAUNCH_MODE=GROUP");
  CHECK(ran.code == 0);
  CHECK(ran.err ==
        "collctl: note: set and without effect here: NCCL_LAUNCH_MODE, NCCL_NVLS_ENABLE (" +
            home.conf + ")\n");
  CHECK(run_collctl("version", home.home).err == "");
}

TEST_CASE("site files that others could have written are not taken", "[cli]") {
  const Home home;
  Home::write(home.conf, "NCCL_ALGO=ring\n", 0666);
  const json env = home.env();
  CHECK(knob_of(env, "COLLCTL_ALGO")["origin"] == "default");
  CHECK(file_of(env, home.conf)["problems"] ==
        json::array({"not read: " + home.conf + ": others may write it (mode 666)"}));
  const Ran run = run_collctl("run -n 1 barrier --iters 1", home.home);
  CHECK(run.code == 0);
  CHECK(has(run.err, "collctl: note: " + home.conf + ": not read: "));
  // A file that was asked for by name is an error where it cannot serve.
  for (const char* what : {"/nonexistent/file", "/dev/null", "/"}) {
    INFO(what);
    const Ran named =
        run_collctl("run -n 1 barrier --iters 1", std::string("NCCL_CONF_FILE=") + what);
    CHECK(named.code == 2);
    CHECK(has(named.err, "NCCL_CONF_FILE: " + std::string(what)));
    CHECK(run_collctl("env", std::string("NCCL_CONF_FILE=") + what).code == 2);
    CHECK(run_collctl("version", std::string("NCCL_CONF_FILE=") + what).code == 0);
  }
  Home::write(home.conf, std::string(70'000, 'x'));
  CHECK(has(home.env()["site_files"].dump(), "longer than 65536 bytes"));
}

TEST_CASE("a site file does not say what belongs to one job, nor what is loaded", "[cli]") {
  const Home home;
  Home::write(home.conf,
              "NCCL_COMM_ID=127.0.0.1:9\nCOLLCTL_TOKEN=sesame-sesame-sesame\nCOLLCTL_RANK=1\n"
              "LD_PRELOAD=/x.so\nPATH=/x\nNCCL_ALGO\n");
  const Ran ran = run_collctl("run -n 2 barrier --iters 1", home.home);
  CHECK(ran.code == 0);
  CHECK(has(ran.err, home.conf + ": NCCL_COMM_ID belongs to one job, it is not taken\n"));
  CHECK(has(ran.err, home.conf + ": COLLCTL_TOKEN belongs to one job, it is not taken\n"));
  CHECK(has(ran.err, home.conf + ": LD_PRELOAD is not for such a file, it is not taken\n"));
  CHECK(has(ran.err, home.conf + ": line 6 is not NAME=VALUE\n"));
  CHECK_FALSE(has(ran.err, "sesame"));
}

}  // namespace site_files_tests
