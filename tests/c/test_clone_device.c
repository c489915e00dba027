/* SPDX-License-Identifier: MIT */
/*
** Clones that run side by side on one stream of a device, the simulated GPU where it is built: each
** thread has the bits of its inputs, also while another one's CUDA graph is captured.
*/
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "graph/record.h"

#include "ridge/device.h"
#include "ridge/graph.h"
#include "ridge/ir.h"
#include "tap.h"

enum { DEVICE = 1, ROWS = 32, COLS = 32, LAYERS = 12, THREADS = 4, CLONES = 24, RUNS = 4 };

static const char plugin[] = "build/libridge_gpusim.so";

static void must(rg_status status)
{
  if (status != RG_OK) {
    tap_bail(rg_error_message());
  }
}

static rg_tensor *drawn(uint64_t seed)
{
  rg_generator *generator;
  rg_tensor *x;

  must(rg_generator_new(seed, &generator));
  must(rg_empty(RG_F32, RG_CPU, (const int64_t[]){ ROWS, COLS }, 2, &x));
  must(rg_uniform_(x, -1, 1, generator));
  rg_generator_release(generator);
  return x;
}

/* Products whose activation is a pass of its own, with sums in a workspace between the two. */
static rg_tensor *forward(const rg_tensor *x, const rg_tensor *w)
{
  rg_tensor *y;
  rg_tensor *z;

  must(rg_cast(x, RG_BF16, &y));
  for (int32_t i = 0; i < LAYERS; i++) {
    must(rg_linear(y, w, NULL, RG_ACT_TANH, &z));
    rg_tensor_release(y);
    y = z;
  }
  must(rg_cast(y, RG_F32, &z));
  rg_tensor_release(y);
  return z;
}

static rg_plan *recorded(const rg_tensor *x, const rg_tensor *w)
{
  rg_tensor *outputs[1] = { NULL };
  rg_graph *g;
  rg_plan *plan;

  must(rg_capture_begin());
  must(rg_record_begin(0));
  rg_tensor *y = forward(x, w);

  must(rg_record_output(y, RG_OUTPUT_RETURNED, "y"));
  must(rg_record_end(&g));
  rg_capture_cancel();
  rg_tensor_release(y);
  must(rg_graph_plan(g, outputs, &plan));
  rg_tensor_release(outputs[0]);
  rg_graph_release(g);
  return plan;
}

typedef struct worker {
  rg_plan *plan; /* of all */
  pthread_barrier_t *begin;
  const rg_tensor *in; /* on the CPU */
  const rg_tensor *there;
  const rg_tensor *weight;
  float want[ROWS * COLS];
  int32_t n_wrong;
  int32_t n_graphs;
} worker;

static bool is_right(const worker *w, const rg_tensor *y)
{
  rg_tensor *here;

  if (rg_to_device(y, RG_CPU, &here) != RG_OK) {
    return false;
  }
  bool right = memcmp(here->_data, w->want, sizeof(w->want)) == 0;

  rg_tensor_release(here);
  return right;
}

/* Step by step, then as a CUDA graph that is captured while others run. */
static void run_clone(worker *w)
{
  rg_plan_facts facts;
  rg_plan *clone;

  must(rg_plan_clone(w->plan, &clone));
  must(rg_copy_(rg_plan_input(clone, 0), w->in));
  for (int32_t i = 0; i < RUNS; i++) {
    if (rg_plan_replay(clone, 1) != RG_OK || !is_right(w, rg_plan_output(clone, 0))) {
      w->n_wrong++;
    }
  }
  must(rg_plan_facts_of(clone, &facts));
  w->n_graphs += facts.device_graph;
  rg_plan_release(clone);
}

static void *work(void *data)
{
  worker *w = data;

  for (int32_t i = 0; i < CLONES; i++) {
    pthread_barrier_wait(w->begin);
    run_clone(w);
    for (int32_t k = 0; k < 2 * RUNS; k++) {
      rg_tensor *y = forward(w->there, w->weight);

      w->n_wrong += is_right(w, y) ? 0 : 1;
      rg_tensor_release(y);
    }
  }
  return NULL;
}

static void set_want(worker *w, const rg_tensor *there)
{
  rg_tensor *y = forward(there, w->weight);
  rg_tensor *here;

  must(rg_to_device(y, RG_CPU, &here));
  memcpy(w->want, here->_data, sizeof(w->want));
  rg_tensor_release(here);
  rg_tensor_release(y);
}

static void test_side_by_side(void)
{
  static worker workers[THREADS];
  rg_tensor *here = drawn(1);
  rg_tensor *there[THREADS];
  rg_tensor *x;
  rg_tensor *w;
  pthread_barrier_t begin;
  pthread_t thread[THREADS];

  must(rg_to_device(here, DEVICE, &x));
  must(rg_cast(x, RG_BF16, &w));
  rg_plan *plan = recorded(x, w);

  pthread_barrier_init(&begin, NULL, THREADS);
  for (int32_t t = 0; t < THREADS; t++) {
    workers[t] = (worker){ plan, &begin, drawn((uint64_t)t + 10), NULL, w, { 0 }, 0, 0 };
    must(rg_to_device(workers[t].in, DEVICE, &there[t]));
    workers[t].there = there[t];
    set_want(&workers[t], there[t]);
  }
  for (int32_t t = 0; t < THREADS; t++) {
    must(pthread_create(&thread[t], NULL, work, &workers[t]) == 0 ? RG_OK : RG_EBUG);
  }
  for (int32_t t = 0; t < THREADS; t++) {
    pthread_join(thread[t], NULL);
    is_int(workers[t].n_wrong, 0, "each thread has the bits of its inputs");
    is_int(workers[t].n_graphs, CLONES, "and its plans are CUDA graphs");
    rg_tensor_release((rg_tensor *)(uintptr_t)workers[t].in);
    rg_tensor_release(there[t]);
  }
  pthread_barrier_destroy(&begin);
  rg_plan_release(plan);
  rg_tensor_release(here);
  rg_tensor_release(x);
  rg_tensor_release(w);
}

int main(void)
{
  (void)setenv("RIDGE_GPU", plugin, 1);
  if (access(plugin, R_OK) != 0 || rg_device_open(DEVICE) != RG_OK) {
    ok(true, "the simulated GPU is not built: nothing to try");
    return done();
  }
  test_side_by_side();
  return done();
}
