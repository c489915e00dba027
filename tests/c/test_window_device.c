/* SPDX-License-Identifier: MIT */
/*
** Timed windows of a plan on a device, whose driver writes down what it is asked for, and when:
** what stands before a window and around it, cold caches, streams, and what fails.
*/
#include <stdlib.h>
#include <string.h>

#include "measure/measure.h"
#include "op/list.h"
#include "op/op.h"
#include "ridge/graph.h"
#include "driver.h"
#include "tap.h"
#include "tensor/tensor.h"

enum { DEVICE = 3, ANOTHER = 4, BARE = 5 };

static char told[8192]; /* "copy 64;run;" */
static int32_t n_marks;
static int64_t n_taken;
static rg_status waits = RG_OK;
static int64_t copy_ns = 1000; /* what the device says of a copy */
static bool has_room = true;

static void tell(const char *what, int64_t a)
{
  size_t used = strlen(told);

  snprintf(told + used, sizeof(told) - used, a >= 0 ? "%s %lld;" : "%s;", what, (long long)a);
}

static rg_status take(int32_t device, int64_t bytes, void **out)
{
  (void)device;
  if (!has_room) {
    return rg_fail(RG_ENOMEM, "no room");
  }
  *out = aligned_alloc(256, (size_t)((bytes + 255) / 256 * 256));
  n_taken += *out != NULL;
  return *out != NULL ? RG_OK : rg_fail(RG_ENOMEM, "no memory");
}

static void give(int32_t device, void *data)
{
  (void)device;
  n_taken--;
  free(data);
}

static rg_status copy(int32_t to_device, void *to, int32_t from_device, const void *from,
                      int64_t bytes, bool behind)
{
  int64_t apart = (const char *)from - (char *)to;

  (void)behind;
  tell(to_device == from_device && apart == bytes ? "half" : "copy", bytes);
  memmove(to, from, (size_t)bytes);
  return RG_OK;
}

static rg_status wait(int32_t device)
{
  tell("wait", device == DEVICE ? -1 : device);
  return waits == RG_OK ? RG_OK : rg_fail(waits, "it fell over");
}

static rg_status facts(int32_t device, rg_device_facts *out)
{
  memset(out, 0, sizeof(*out));
  out->memory_bytes = (int64_t)6 << 30;
  out->cache_bytes = device == BARE ? 0 : device == ANOTHER ? (int64_t)1 << 30 : 3 << 20;
  return RG_OK;
}

static void state(int32_t device, rg_device_state *out)
{
  (void)device;
  memset(out, 0, sizeof(*out));
  out->clock_mhz = 1234;
  out->held = RG_HELD_HEAT;
  tell("state", -1);
}

static void enter(int32_t device, int32_t stream)
{
  (void)device;
  tell("enter", stream);
}

static rg_status mark_new(int32_t device, void **mark)
{
  (void)device;
  *mark = calloc(1, sizeof(int32_t));
  *(int32_t *)*mark = n_marks++;
  return RG_OK;
}

static void mark_free(int32_t device, void *mark)
{
  (void)device;
  n_marks--;
  free(mark);
}

static rg_status mark_set(int32_t device, void *mark)
{
  (void)device;
  tell("mark", *(int32_t *)mark);
  return RG_OK;
}

static rg_status mark_between(int32_t device, void *from, void *to, double *ns)
{
  (void)device;
  tell(*(int32_t *)to - *(int32_t *)from != 1 ? "wrong marks"
       : *(int32_t *)from == 0                ? "between"
                                              : "trial",
       -1);
  *ns = (double)(4 * copy_ns);
  return RG_OK;
}

static bool has_graphs;

static rg_status graph_begin(int32_t device)
{
  (void)device;
  return has_graphs ? RG_OK : rg_fail(RG_ENOSUP, "steps go one by one");
}

static rg_status graph_end(int32_t device, void **graph)
{
  (void)device;
  *graph = &has_graphs;
  return RG_OK;
}

static rg_status graph_run(int32_t device, void *graph)
{
  (void)device;
  (void)graph;
  tell("graph", -1);
  return RG_OK;
}

static const rg_driver driver = { .take = take,
                                  .give = give,
                                  .lost = host_done,
                                  .copy = copy,
                                  .wait = wait,
                                  .facts = facts,
                                  .state = state,
                                  .enter = enter,
                                  .join = host_join,
                                  .mark_new = mark_new,
                                  .mark_free = mark_free,
                                  .mark_set = mark_set,
                                  .mark_follow = host_mark,
                                  .mark_wait = host_mark,
                                  .mark_between = mark_between,
                                  .graph_begin = graph_begin,
                                  .graph_end = graph_end,
                                  .graph_run = graph_run,
                                  .graph_free = host_graph_free };

static rg_status k_any(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  (void)call;
  (void)out;
  (void)frame;
  tell("run", -1);
  return RG_OK;
}

static rg_kernel *const kernels[RG_OP_COUNT] = { [RG_OP_ADD] = k_any };
static const rg_backend backend = { "written down", kernels, NULL, NULL };

static void is_told(const char *want, const char *what)
{
  ok(strcmp(told, want) == 0, what);
  if (strcmp(told, want) != 0) {
    printf("# told: %s\n# want: %s\n", told, want);
  }
  told[0] = 0;
}

static void must(rg_status status)
{
  if (status != RG_OK) {
    tap_bail(rg_error_message());
  }
}

/* A plan of one sum on a device. */
static rg_plan *planned(int32_t device)
{
  rg_tensor *x = NULL;
  rg_tensor *y = NULL;
  rg_plan *plan = NULL;

  must(rg_empty(RG_F32, device, (const int64_t[]){ 8 }, 1, &x));
  must(rg_capture_begin());
  must(rg_add(x, x, &y));
  must(rg_capture_end(&plan));
  rg_tensor_release(x);
  rg_tensor_release(y);
  told[0] = 0;
  return plan;
}

/* -- Cold caches ---------------------------------------------------------------------------- */

static void test_flush(rg_plan *plan)
{
  rg_flush *flush = NULL;
  rg_window window[2];
  int64_t before = n_taken;

  is_status(rg_flush_new(DEVICE, 0, &flush), RG_OK, "caches of a device");
  is_int(rg_flush_bytes(flush), 6 << 20, "are written over twice");
  is_int(n_taken, before + 1, "in memory of its own");
  is_told("half 3145728;", "one half by the other, at once");
  is_status(rg_measure_windows(plan, 1, 2, flush, window), RG_OK, "two cold windows");
  is_told("wait;half 3145728;mark 0;run;mark 1;state;wait;between;"
          "wait;half 3145728;mark 0;run;mark 1;state;wait;between;enter 0;",
          "the caches are flushed before each, and nothing runs between");
  ok(window[0].filled == 0 && window[1].filled == 0, "behind which the device waits");
  is_status(rg_measure_windows(plan, 2, 1, flush, window), RG_EARG, "only one call is cold");
  rg_flush_release(flush);
  is_int(n_taken, before, "the memory is given back");
  is_status(rg_flush_new(ANOTHER, 0, &flush), RG_OK, "caches of a gigabyte");
  is_int(rg_flush_bytes(flush), 256 << 20, "are not flushed whole");
  is_status(rg_measure_windows(plan, 1, 1, flush, window), RG_EARG, "another device's caches");
  ok(strstr(rg_error_message(), "the plan is not") != NULL, "it says so");
  rg_flush_release(flush);
  is_status(rg_flush_new(BARE, 0, &flush), RG_OK, "caches of an unknown size");
  is_int(rg_flush_bytes(flush), 128 << 20, "are taken for 64 MiB");
  rg_flush_release(flush);
  has_room = false;
  is_status(rg_flush_new(DEVICE, 4096, &flush), RG_ENOMEM, "no room on the device");
  has_room = true;
  rg_alloc_fail_at(1);
  is_status(rg_flush_new(DEVICE, 4096, &flush), RG_ENOMEM, "or on the host");
  rg_alloc_fail_at(0);
  is_int(n_taken, before, "takes none");
  told[0] = 0;
}

/* -- Warm windows ----------------------------------------------------------------------------- */

static void test_first(rg_plan *plan)
{
  rg_window window = { .calls = -1 };

  is_status(rg_measure_window(plan, 1, &window), RG_OK, "a window of one call");
  is_told("wait;mark 0;run;mark 1;state;wait;between;enter 0;", "begins with an idle device");
  is_int(window.filled, 0, "which waits for it");
  ok(window.device_ns == 4000 && window.clock_mhz == 1234 && window.held == RG_HELD_HEAT,
     "it says what the device's clock says, and how it is");
  ok(window.begin_ns < window.issued_ns && window.issued_ns <= window.end_ns, "and the host's");
  is_int(n_marks, 0, "its marks are gone");
}

/* How often the transcript begins with a filler's copy; the rest stays. */
static int32_t fillers(void)
{
  static const char one[] = "half 3145728;";
  const char *at = told + strlen("wait;");
  int32_t n = 0;

  for (; strncmp(at, one, sizeof(one) - 1) == 0; at += sizeof(one) - 1) {
    n++;
  }
  memmove(told, at, strlen(at) + 1);
  return n;
}

static void test_filler(rg_plan *plan, rg_plan *other)
{
  static const char timed[] = "run;mark 0;run;run;run;mark 1;state;wait;between;enter 0;";
  static const char tried[] = "wait;half 3145728;mark 2;half 3145728;half 3145728;half 3145728;"
                              "half 3145728;mark 3;trial;";
  rg_window window = { .calls = -1 };

  is_status(rg_measure_window(other, 3, &window), RG_OK, "several calls of another plan");
  is_told("wait;run;mark 0;run;run;run;mark 1;state;wait;between;enter 0;",
          "stand behind one that is not timed");
  is_int(window.filled, 0, "of a plan that nobody has asked for nothing is known");
  copy_ns = (int64_t)1 << 40;
  is_status(rg_measure_window(other, 3, &window), RG_OK, "the same again");
  ok(strncmp(told, tried, sizeof(tried) - 1) == 0,
     "what keeps the device busy is timed once: one copy, and four");
  memmove(told + strlen("wait;"), told + sizeof(tried) - 1, strlen(told) - sizeof(tried) + 2);
  is_int(fillers(), 1, "one long copy keeps it busy");
  is_told(timed, "then comes a call that is not timed, and the timed ones");
  is_int(window.filled, 1, "the device was busy while all was asked for");
  is_status(rg_measure_window(plan, 2, &window), RG_OK, "of the first plan again");
  is_int(window.filled, 0, "nothing is known");
  told[0] = 0;
}

/* The filler is as long as asking for all calls of the window is expected to take, twice. */
static void test_length(void)
{
  rg_plan *plan = planned(BARE);
  rg_window window;
  int32_t n = 0;

  copy_ns = 2000;
  is_status(rg_measure_window(plan, 1, &window), RG_OK, "one call, which takes some hundred");
  told[0] = 0;
  is_status(rg_measure_window(plan, 1000, &window), RG_OK, "and a thousand");
  for (const char *at = told; (at = strstr(at, "half")) != NULL; at++) {
    n++;
  }
  ok(n > 100, "are behind many copies");
  ok(window.filled == 0 || window.filled == 1, "and it is said whether that was enough");
  rg_plan_release(plan);
  told[0] = 0;
}

static void test_bounds(void)
{
  double filled = -1;

  told[0] = 0;
  is_status(rg_fill(DEVICE, 1.5 * (double)copy_ns, &filled), RG_OK, "one and a half copies");
  is_told("half 3145728;half 3145728;", "are two");
  ok(filled == 2.0 * (double)copy_ns, "it says how long they take");
  is_status(rg_fill(DEVICE, 1e30, &filled), RG_OK, "more than all");
  ok(filled == 256.0 * (double)copy_ns, "ends at some");
  told[0] = 0;
  has_room = false;
  is_status(rg_fill(ANOTHER, 1e9, &filled), RG_OK, "a device without room");
  has_room = true;
  ok(filled == 0, "fills nothing");
  is_status(rg_fill(ANOTHER, 1e9, &filled), RG_OK, "and is not asked again");
  ok(filled == 0, "nor later");
  is_told("", "it is asked for no copy");
}

/* -- Streams, failures ------------------------------------------------------------------------ */

static void test_stream(rg_plan *plan)
{
  rg_window window;
  rg_plan *graph;

  must(rg_stream_enter(DEVICE, 1, NULL));
  told[0] = 0;
  is_status(rg_measure_window(plan, 1, &window), RG_OK, "a plan of calls");
  is_told("wait;mark 0;run;mark 1;state;wait;between;enter 1;", "is timed on the thread's stream");
  must(rg_stream_enter(DEVICE, 2, NULL));
  has_graphs = true;
  graph = planned(DEVICE);
  must(rg_plan_replay(graph, 2)); /* it is a graph of the device's by now, on this stream */
  has_graphs = false;
  must(rg_stream_enter(DEVICE, 1, NULL));
  told[0] = 0;
  is_status(rg_measure_window(graph, 1, &window), RG_OK, "a graph of another stream");
  is_told("enter 2;wait;mark 0;enter 2;graph;enter 2;mark 1;state;wait;between;enter 1;",
          "is timed there");
  is_int(rg_stream_now(DEVICE), 1, "and the thread goes on where it was");
  for (int steps = 0; steps < 2; steps++) {
    const int32_t kinds = 1 << (steps ? RG_EVENT_STEP : RG_EVENT_PLAN);
    rg_reader_facts heard = { .n_graphs = -1 };
    int32_t reader = -1;

    must(rg_reader_open(kinds, 0, 64, &reader));
    told[0] = 0;
    must(rg_plan_replay(graph, 3));
    must(rg_reader_facts_of(reader, &heard));
    ok((strstr(told, "graph") == NULL) == (steps != 0), "who hears steps has them one by one");
    is_int(heard.n_graphs, steps ? 3 : 0, "and is told how often");
    rg_reader_close(reader);
  }
  rg_plan_release(graph);
  must(rg_stream_enter(DEVICE, 0, NULL));
  told[0] = 0;
}

static void test_failures(rg_plan *plan)
{
  rg_window window = { .calls = -1 };

  waits = RG_EDEVICE;
  is_status(rg_measure_window(plan, 1, &window), RG_EDEVICE, "what the device's work ended in");
  waits = RG_OK;
  is_int(window.calls, -1, "nothing is written");
  is_int(n_marks, 0, "no mark is left");
  is_int(rg_stream_now(DEVICE), 0, "nor a stream");
  told[0] = 0;
}

int main(void)
{
  rg_plan *plan;
  rg_plan *other;

  ok(rg_memory_of(0) != NULL && rg_memory_of(DEVICE) == NULL && rg_memory_of(RG_PINNED) == NULL,
     "without a driver there is the CPU, and no memory is pinned");
  for (int32_t device = DEVICE; device <= BARE; device++) {
    rg_driver_register(device, &driver);
    rg_backend_register(device, &backend);
  }
  ok(rg_memory_of(DEVICE) != NULL && rg_memory_of(DEVICE - 1) == NULL,
     "then devices that are there have counters");
  is_int(rg_streams_used(DEVICE), 1, "stream 0 is always one of those that are used");
  plan = planned(DEVICE);
  other = planned(DEVICE);
  test_flush(plan);
  test_first(plan);
  test_filler(plan, other);
  test_bounds();
  test_length();
  test_stream(plan);
  test_failures(plan);
  rg_plan_release(plan);
  rg_plan_release(other);
  return done();
}
