/* SPDX-License-Identifier: MIT */
/*
** Ways of one piece of work, measured: every way in turn, round by round, and what follows from it.
*/
#include <stdlib.h>
#include <time.h>

#include "cpu/choice.h"
#include "cpu/cpu.h"

enum { SAMPLE_NS = 200000 };

static int in_order(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;

  return (x > y) - (x < y);
}

/* How many of n sorted values lie outside of the interval of the median at each end: the most with
** which it covers 95 % (order statistics, binomial of 1/2; 0 of 6, 1 of 9, 3 of 15). */
static int32_t outside(int32_t n)
{
  double term = 1, tail = 0;

  for (int32_t i = 0; i < n; i++) {
    term /= 2;
  }
  for (int32_t i = 0; i < n; i++) {
    tail += term;
    if (tail > 0.025) {
      return i - 1;
    }
    term *= (double)(n - i) / (double)(i + 1);
  }
  return 0;
}

/* Median and ends of its interval; sorts. */
static void summarise(double *x, int32_t n, double *median, double *lo, double *hi)
{
  int32_t cut = outside(n);

  qsort(x, (size_t)n, sizeof(double), in_order);
  *median = (x[(n - 1) / 2] + x[n / 2]) / 2;
  *lo = x[cut];
  *hi = x[n - 1 - cut];
}

void rg_choice_decide(double *const ns[RG_WAYS], int32_t n, int32_t standard, rg_choice *choice)
{
  choice->path = choice->standard = standard;
  choice->rounds = n;
  for (int32_t path = 1; path < RG_WAYS; path++) {
    double ratio[RG_ROUNDS_MOST];

    if (ns[path] == NULL || path == standard) {
      continue;
    }
    for (int32_t i = 0; i < n; i++) {
      ratio[i] = ns[path][i] / ns[standard][i];
    }
    summarise(ratio, n, &choice->ratio[path], &choice->ratio_lo[path], &choice->ratio_hi[path]);
    summarise(ns[path], n, &choice->ns[path], &choice->lo[path], &choice->hi[path]);
    if (choice->ratio_hi[path] < 1 &&
        (choice->path == standard || choice->ns[path] < choice->ns[choice->path])) {
      choice->path = path;
    }
  }
  summarise(ns[standard], n, &choice->ns[standard], &choice->lo[standard], &choice->hi[standard]);
  choice->ratio[standard] = choice->ratio_lo[standard] = choice->ratio_hi[standard] = 1;
}

/* Microseconds since 1970. */
static int64_t now_us(void)
{
  struct timespec t;

  clock_gettime(CLOCK_REALTIME, &t);
  return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* Time of one run, over n. */
static rg_status sample(const rg_ways *w, int32_t way, int64_t n, double *ns)
{
  int64_t begun = rg_clock_ns();

  for (int64_t i = 0; i < n; i++) {
    RG_TRY(w->go(w->work, way));
  }
  *ns = (double)(rg_clock_ns() - begun) / (double)n;
  return RG_OK;
}

/* Prepared and warm; runs: how many make a sample. */
static rg_status begin(rg_ways *w, int32_t way, int64_t *runs)
{
  double ns = 0;
  rg_status status = w->begin(w->work, way);

  /* a library may have no such work for this processor */
  if (status == RG_ENOSUP && way != w->standard) {
    w->able[way] = false;
    return RG_OK;
  }
  RG_TRY(status);
  RG_TRY(sample(w, way, 1, &ns));
  *runs = ns >= SAMPLE_NS ? 1 : (int64_t)(SAMPLE_NS / (ns > 1 ? ns : 1));
  return RG_OK;
}

rg_status rg_ways_measure(rg_ways *w, int32_t rounds, rg_choice *choice)
{
  double *samples = rg_host_zeroed((size_t)RG_WAYS * RG_ROUNDS_MOST * sizeof(double));
  int64_t runs[RG_WAYS] = { 0 };
  rg_status status = RG_OK;

  if (samples == NULL) {
    return rg_fail(RG_ENOMEM, "choice: no memory to measure");
  }
  for (int32_t way = 1; way < RG_WAYS && status == RG_OK; way++) {
    status = w->able[way] ? begin(w, way, &runs[way]) : RG_OK;
  }
  for (int32_t i = 0; i < rounds && status == RG_OK; i++) {
    for (int32_t j = 0; j < RG_WAYS && status == RG_OK; j++) {
      int32_t way = (i + j) % RG_WAYS; /* each begins a round in its turn */

      status =
          runs[way] > 0 ? sample(w, way, runs[way], &samples[way * RG_ROUNDS_MOST + i]) : RG_OK;
    }
  }
  if (status == RG_OK) {
    double *ns[RG_WAYS];

    for (int32_t way = 0; way < RG_WAYS; way++) {
      ns[way] = runs[way] > 0 ? samples + way * RG_ROUNDS_MOST : NULL;
    }
    rg_choice_decide(ns, rounds, w->standard, choice);
    choice->at = now_us();
  }
  rg_host_free(samples);
  return status;
}
