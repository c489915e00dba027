/* SPDX-License-Identifier: MIT */
/*
** How compute threads wait for each other: when they sleep, what that costs, what it leaves behind.
*/
#include <dirent.h>
#include <omp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "cpu/cpu.h"
#include "tap.h"

enum { MS = 1000000 };

/* -- When ------------------------------------------------------------------------------------ */

/* Looks, 10 ms apart, at which a thread was kept waiting for a share of the time: until the answer
** is another one, at most so many; their number. */
static int32_t looks(rg_waits *w, double share, int32_t most)
{
  bool was = w->asleep;
  int32_t n = 0;

  while (n < most && w->asleep == was) {
    rg_waits_decide(w, w->looked + 10 * MS, w->delayed + (int64_t)(share * 10 * MS));
    n++;
  }
  return n;
}

/* By hand: the average goes 1/31 of the way at each look. */
static void test_decide(void)
{
  rg_waits w = { 0 };

  ok(!rg_waits_decide(&w, 5 * MS, 700 * MS), "what there was before the first look says nothing");
  is_int(looks(&w, 0.45, 1000), 1000, "45 % of the time are borne for ten seconds");
  w.share = 0;
  is_int(looks(&w, 1, 20), 20, "and a fifth of a second without a processor");
  w.share = 0;
  is_int(looks(&w, 0.6, 1000), 55, "with 60 % waits are asleep after half a second");
  is_int(looks(&w, 0.35, 1000), 1000, "and stay so at 35 %");
  is_int(looks(&w, 0.1, 1000), 7, "until there is hardly anybody");
  is_int(looks(&w, 0.6, 1000) > 20, 1, "and again");
  ok(rg_waits_decide(&w, w.looked + 300 * MS, w.delayed), "a break is no calm");
  is_int(looks(&w, 0, 1000) < 20, 1, "calm is");
  ok(!rg_waits_decide(&w, w.looked + 300 * MS, w.delayed + 300 * MS), "nor is a break a crowd");
}

/* -- What it does ---------------------------------------------------------------------------- */

static int n_tasks(void)
{
  DIR *tasks = opendir("/proc/self/task");
  int n = 0;

  while (readdir(tasks) != NULL) {
    n++;
  }
  closedir(tasks);
  return n;
}

/* They leave a moment after the thread that they belong to. */
static int settled(int wanted)
{
  for (int i = 0; i < 2000 && n_tasks() != wanted; i++) {
    usleep(1000);
  }
  return n_tasks();
}

/* Processor time of a wait of 40 ms by one of two threads, the least of ten, in ms. */
static double cost(void)
{
  double least = 1e9;

  for (int i = 0; i < 10; i++) {
    struct timespec before;
    struct timespec after;
    double ms;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
#pragma omp parallel num_threads(2)
    {
      if (omp_get_thread_num() == 0) {
        usleep(40000);
      }
    }
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
    ms = (double)(after.tv_sec - before.tv_sec) * 1e3 +
         (double)(after.tv_nsec - before.tv_nsec) / 1e6;
    least = ms < least ? ms : least;
  }
  return least;
}

static void test_sleep(void)
{
  double spun = cost(); /* OpenMP's second thread is there from now on */
  double slept;
  int tasks = n_tasks();

  ok(!rg_waits_asleep() && rg_waits_set(true) && rg_waits_asleep(), "waits can be asleep");
  slept = cost();
  printf("# 40 ms of waiting: %.2f ms of processor time, asleep %.2f\n", spun, slept);
  ok(omp_get_num_procs() < 2 || omp_get_thread_limit() < 2 || slept < spun / 2,
     "which costs less than half the processor time");
  ok(rg_waits_set(true), "twice is once");
  for (int i = 0; i < 20; i++) {
    rg_waits_set(false);
    rg_waits_set(true);
  }
  ok(rg_waits_set(false) && !rg_waits_asleep(), "and busy again");
  is_int(settled(tasks), tasks, "twenty times, and no thread is left");
}

/* -- Beside others ----------------------------------------------------------------------------- */

static bool some(void *work, int64_t begin, int64_t end)
{
  volatile double *sum = work;

  for (int64_t i = begin * 20000; i < end * 20000; i++) {
    sum[begin * 8] = sum[begin * 8] + 1;
  }
  return true;
}

static void test_beside(void)
{
  enum { MOST = 512 };
  static double sums[16];
  int n = omp_get_num_procs() * 4 < MOST ? omp_get_num_procs() * 4 : MOST;
  pid_t neighbour[MOST];
  bool slept = false;

  for (int i = 0; i < n; i++) {
    neighbour[i] = fork();
    if (neighbour[i] == 0) {
      alarm(120);
      for (volatile long k = 0;; k++) {
      }
    }
  }
  for (int64_t until = rg_clock_ns() + 60000000000; !slept && rg_clock_ns() < until;) {
    slept = rg_parallel(2, 2, some, sums) == RG_OK && rg_waits_asleep();
  }
  for (int i = 0; i < n; i++) {
    kill(neighbour[i], SIGKILL);
    waitpid(neighbour[i], NULL, 0);
  }
  ok(slept, "beside four neighbours on each processor threads wait asleep");
  rg_waits_set(false);
}

int main(int argc, char **argv)
{
  /* tests run with waits that sleep, which libgomp reads before main */
  if (argc > 0 && (unsetenv("OMP_WAIT_POLICY") | unsetenv("GOMP_SPINCOUNT")) == 0 &&
      getenv("RIDGE_WAITS_AGAIN") == NULL) {
    setenv("RIDGE_WAITS_AGAIN", "1", 1);
    execv("/proc/self/exe", argv);
  }
  test_decide();
  test_sleep();
  test_beside();
  return done();
}
