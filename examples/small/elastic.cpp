// Fault-tolerant all-reduce: four processes train, one fails, and a new one joins. They find each
// other through a shared directory.
//
//   ucx=$(pkg-config --cflags --libs ucx)
//   g++ -std=c++20 -Iinclude -Iplugins examples/small/elastic.cpp -o elastic $ucx
//   ./elastic
//
// Prints, e.g.:
// step 100: a mean over 5 ranks
// step 200: a mean over 4 ranks
// step 300: a mean over 4 ranks
// 4 ranks at the end, the same parameters everywhere: yes
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <hcomp/elastic/group.hpp>
#include <hcomp/elastic/plan.hpp>
#include <hcomp/hcomp.hpp>
#include <memory>
#include <span>
#include <string>
#include <vector>

struct model {
  long step = 0;
  float parameters[1000] = {};
};

void train(hcomp::elastic::group& group, bool is_new) {
  hcomp::host_executor executor;
  model state;
  auto const bytes = std::as_writable_bytes(std::span(&state, 1));
  std::size_t const values = std::size(state.parameters);
  hcomp::elastic::plan<float> sum("thc:bits=4", values, group, executor);
  hcomp::error_feedback<float> feedback(values);

  if (is_new) group.share(bytes);  // receives the model of the other ranks
  while (state.step < 300) {
    if (group.name() == 2 && state.step == 100) raise(SIGKILL);
    std::vector<float> gradient(values, 1.0f);
    auto const report = sum.all_reduce(gradient, feedback, {.op = hcomp::reduce_op::mean});
    for (std::size_t i = 0; i < values; ++i) state.parameters[i] += gradient[i];
    ++state.step;
    if (group.rank() == 0 && state.step % 100 == 0)
      std::printf("step %ld: a mean over %d ranks\n", state.step, static_cast<int>(report.weight));
    usleep(5000);                                                   // computes a gradient
    if (state.step % 10 == 0 && group.admit()) group.share(bytes);  // or load a checkpoint
  }
  if (group.rank() == 0)
    std::printf("%d ranks at the end, the same parameters everywhere: ", group.size());
  bool const same = hcomp::digest(state.parameters, group.transport()).same();
  if (group.rank() == 0) std::printf("%s\n", same ? "yes" : "no");
  group.close();
}

int main() {
  char directory[] = "/tmp/hcomp_elastic.XXXXXX";
  if (!mkdtemp(directory)) return 1;
  for (int process = 0; process < 5; ++process) {
    std::fflush(stdout);
    if (fork() != 0) continue;
    try {
      bool const is_new = process == 4;
      hcomp::elastic::directory_store store(directory);
      std::unique_ptr<hcomp::elastic::group> group;
      if (is_new) {
        sleep(1);
        group = hcomp::elastic::group::join(store, {});
      } else {
        group = std::make_unique<hcomp::elastic::group>(store, process, 4);
      }
      train(*group, is_new);
    } catch (std::exception const& error) {
      std::fprintf(stderr, "%s\n", error.what());
      std::exit(1);
    }
    std::exit(0);
  }
  while (wait(nullptr) > 0) {
  }
  std::filesystem::remove_all(directory);
}
