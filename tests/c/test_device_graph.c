/* SPDX-License-Identifier: MIT */
/*
** CUDA graphs of plans (core/graph/device_graph.c) on a device whose driver and kernels only write
** down what they are asked for: when steps are captured, run as a CUDA graph, and go one by one
** again.
*/
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "op/list.h"
#include "op/op.h"
#include "ridge/graph.h"
#include "ridge/ir.h"
#include "ridge/ring.h"
#include "driver.h"
#include "tap.h"
#include "tensor/tensor.h"

enum { DEVICE = 3 };

/* -- A device that writes down ----------------------------------------------------------- */

static char told[512]; /* "add;begin;add;end;run;" */

static void tell(const char *what)
{
  size_t used = strlen(told);

  snprintf(told + used, sizeof(told) - used, "%s;", what);
}

static _Atomic bool quiet; /* another thread looks whether it may run */
static bool notes;         /* between begin and end */
static bool refuses;       /* a kernel cannot be captured */
static bool fails;         /* there is nothing to have at the end */
static bool breaks;        /* a kernel fails */
static int32_t n_graphs;
static rg_draw copied[2]; /* the first numbers that went to the device */
static rg_draw last;      /* of the kernel that drew last */

static rg_status take(int32_t device, int64_t bytes, void **out)
{
  (void)device;
  ok(!notes, "nothing is taken while a note is made");
  *out = aligned_alloc(256, (size_t)((bytes + 255) / 256 * 256));
  return *out != NULL ? RG_OK : rg_fail(RG_ENOMEM, "no memory");
}

static rg_status copy(int32_t to_device, void *to, int32_t from_device, const void *from,
                      int64_t bytes, bool behind)
{
  (void)from_device;
  memcpy(to, from, (size_t)bytes);
  if (to_device == DEVICE) {
    memcpy(copied, from, (size_t)rg_min_i64(bytes, sizeof(copied)));
    tell(behind ? "copy" : "copy and wait");
  }
  return RG_OK;
}

/* Only what changes something. */
static void enter(int32_t device, int32_t stream)
{
  static _Thread_local int32_t now;

  (void)device;
  if (stream != now && !quiet) {
    tell(stream == 0 ? "enter 0" : "enter 1");
  }
  now = stream;
}

static rg_status mark_between(int32_t device, void *from, void *to, double *ns)
{
  (void)device;
  (void)from;
  (void)to;
  *ns = 1;
  return RG_OK;
}

static rg_status graph_begin(int32_t device)
{
  (void)device;
  notes = true;
  tell("begin");
  return RG_OK;
}

static rg_status graph_end(int32_t device, void **graph)
{
  (void)device;
  notes = false;
  tell("end");
  *graph = fails ? NULL : calloc(1, 1);
  n_graphs += *graph != NULL;
  return fails ? rg_fail(RG_EDEVICE, "there is none to be had") : RG_OK;
}

static rg_status graph_run(int32_t device, void *graph)
{
  (void)device;
  (void)graph;
  tell("run");
  return fails ? rg_fail(RG_EDEVICE, "it does not run") : RG_OK;
}

static void graph_free(int32_t device, void *graph)
{
  (void)device;
  free(graph);
  n_graphs--;
  tell("free");
}

static void named(const char *name)
{
  char text[32];

  (void)snprintf(text, sizeof(text), name != NULL ? "<%s" : ">", name);
  tell(text);
}

static const rg_driver driver = { .take = take,
                                  .give = host_give,
                                  .lost = host_done,
                                  .copy = copy,
                                  .wait = host_done,
                                  .enter = enter,
                                  .join = host_join,
                                  .named = named,
                                  .mark_new = host_mark_new,
                                  .mark_free = host_mark_free,
                                  .mark_set = host_mark,
                                  .mark_wait = host_mark,
                                  .mark_between = mark_between,
                                  .graph_begin = graph_begin,
                                  .graph_end = graph_end,
                                  .graph_run = graph_run,
                                  .graph_free = graph_free };

static rg_status k_add(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  (void)call;
  (void)out;
  (void)frame;
  tell("add");
  return breaks             ? rg_fail(RG_EDEVICE, "it went up in smoke")
         : notes && refuses ? rg_fail(RG_ENOSUP, "this kernel waits for the host")
                            : RG_OK;
}

/* Where a draw begins is in the call, and in a note in the device's memory. */
static rg_status k_normal(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  (void)out;
  (void)frame;
  ok((call->draw_at != NULL) == notes, "a draw is read on the device in a note alone");
  tell("normal");
  last = call->draw;
  return notes && refuses ? rg_fail(RG_ENOSUP, "this kernel waits for the host") : RG_OK;
}

static rg_kernel *const kernels[RG_OP_COUNT] = { [RG_OP_ADD] = k_add, [RG_OP_NORMAL] = k_normal };
static const bool varies[RG_OP_COUNT] = { [RG_OP_ADD] = true };
static const rg_backend backend = { "written down", kernels, varies, NULL };

/* What was written down since the last time is `want`. */
static void is_told(const char *want, const char *what)
{
  ok(strcmp(told, want) == 0, what);
  if (strcmp(told, want) != 0) {
    printf("# told: %s\n# want: %s\n", told, want);
  }
  told[0] = 0;
}

/* -- Plans ------------------------------------------------------------------------------- */

static rg_tensor *made(void)
{
  rg_tensor *x = NULL;

  if (rg_empty(RG_F32, DEVICE, (const int64_t[]){ 8 }, 1, &x) != RG_OK) {
    tap_bail(rg_error_message());
  }
  return x;
}

/* y = x + x, z = y + x; or one draw into x. */
static rg_plan *captured(rg_tensor *x, bool draws)
{
  rg_plan *plan = NULL;
  rg_tensor *y = NULL;
  rg_tensor *z = NULL;
  bool good = rg_capture_begin() == RG_OK;

  if (draws) {
    good = good && rg_normal_(x, 0, 1, NULL) == RG_OK;
  } else {
    good = good && rg_add(x, x, &y) == RG_OK && rg_add(y, x, &z) == RG_OK;
  }
  good = good && rg_capture_end(&plan) == RG_OK;
  if (!good) {
    tap_bail(rg_error_message());
  }
  rg_tensor_release(y);
  rg_tensor_release(z);
  return plan;
}

static void *hold(void *unused)
{
  for (int32_t i = 0; i < 2; i++) {
    if (rg_stream_enter(DEVICE, i, NULL) != RG_OK) {
      tap_bail("no stream");
    }
    rg_stream_let_go(DEVICE, rg_stream_hold(DEVICE));
  }
  return unused;
}

/* May other threads use the device's streams? */
static bool is_free(void)
{
  struct timespec until;
  pthread_t thread;

  quiet = true;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += 20;
  pthread_create(&thread, NULL, hold, NULL);
  const bool ended = pthread_timedjoin_np(thread, NULL, &until) == 0;

  quiet = false;
  return ended;
}

static void replays(rg_plan *plan, int64_t n, const char *want, const char *what)
{
  told[0] = 0;
  is_status(rg_plan_replay(plan, n), RG_OK, "a replay");
  is_told(want, what);
  if (!ok(is_free(), "and others may use its stream")) {
    tap_bail("nobody else can run");
  }
}

static void check_facts(const rg_plan *plan, int32_t captured, const char *why)
{
  rg_plan_facts facts;

  is_status(rg_plan_facts_of(plan, &facts), RG_OK, "facts");
  is_int(facts.device_graph, captured, "whether it is captured");
  if (!ok(strstr(facts.why, why) != NULL && (why[0] != 0) == (facts.why[0] != 0), "and why not")) {
    printf("# %s\n", facts.why);
  }
}

/* -- Tests ------------------------------------------------------------------------------- */

static void test_captured(void)
{
  rg_tensor *x = made();
  rg_plan *plan;

  told[0] = 0;
  plan = captured(x, false);
  is_told("add;add;", "a capture runs its steps");
  check_facts(plan, 0, "");
  replays(plan, 1, "begin;add;add;end;run;", "the capture was a run: it is captured at once");
  check_facts(plan, 1, "");
  replays(plan, 3, "run;run;run;", "and runs as a CUDA graph");

  rg_device_modes_now()->tf32 ^= 1;
  replays(plan, 1, "run;", "in whatever modes: it keeps its own");
  rg_device_modes_now()->tf32 ^= 1;

  is_status(rg_stream_enter(DEVICE, 1, NULL), RG_OK, "another stream");
  replays(plan, 1, "enter 0;run;enter 1;", "it goes on running on its own");
  is_status(rg_stream_enter(DEVICE, 0, NULL), RG_OK, "back");
  told[0] = 0;
  rg_plan_release(plan);
  is_told("free;", "it goes with its plan");
  is_int(n_graphs, 0, "none is left");
  rg_tensor_release(x);
}

/* Steps that ran on one stream are warm there alone. */
static void test_streams(void)
{
  rg_tensor *x = made();
  rg_plan *plan = captured(x, false);

  is_status(rg_stream_enter(DEVICE, 1, NULL), RG_OK, "another stream");
  replays(plan, 1, "add;add;", "what was captured on another stream runs first");
  replays(plan, 1, "begin;add;add;end;run;", "then it is captured there");
  is_status(rg_stream_enter(DEVICE, 0, NULL), RG_OK, "back");
  rg_plan_release(plan);
  rg_tensor_release(x);
}

static void test_refused(void)
{
  rg_tensor *x = made();
  rg_plan *plan = captured(x, false);

  refuses = true;
  replays(plan, 2, "begin;add;end;free;add;add;add;add;", "a kernel that cannot be captured");
  check_facts(plan, 0, "waits for the host");
  replays(plan, 1, "add;add;", "it is not asked again");
  refuses = false;
  is_status(rg_stream_enter(DEVICE, 1, NULL), RG_OK, "another stream");
  replays(plan, 1, "add;add;", "on another stream it may be had");
  replays(plan, 1, "begin;add;add;end;run;", "and is");
  is_status(rg_stream_enter(DEVICE, 0, NULL), RG_OK, "back");
  rg_plan_release(plan);

  plan = captured(x, false);
  fails = true;
  replays(plan, 1, "begin;add;add;end;add;add;", "a note that the device does not give");
  check_facts(plan, 0, "none to be had");
  fails = false;
  rg_plan_release(plan);
  is_int(n_graphs, 0, "none is left");
  rg_tensor_release(x);
}

/* Numbers go to the device before each run, and are others each time. */
static void test_draws(void)
{
  rg_tensor *x = made();
  rg_plan *plan = captured(x, true);
  rg_draw first;

  replays(plan, 1, "begin;normal;end;copy;run;", "where a draw begins is copied first");
  first = copied[0];
  replays(plan, 1, "copy;run;", "each time");
  ok(copied[0].seed == first.seed && copied[0].offset > first.offset, "and goes on");
  const uint64_t version = rg_tensor_version(x);

  replays(plan, 3, "copy;run;copy;run;copy;run;", "however often");
  is_int(rg_tensor_version(x) - version, 3, "each run is a write");
  fails = true;
  is_status(rg_plan_replay(plan, 2), RG_EDEVICE, "a device that does not run it");
  fails = false;
  is_int(rg_tensor_version(x) - version, 3, "is none");
  ok(is_free(), "and others may use its stream");
  told[0] = 0;
  replays(plan, 1, "copy;run;", "then it runs again");
  rg_plan_release(plan);
  rg_tensor_release(x);
}

/* Where it cannot be captured a draw brings its numbers itself again; nothing is kept for it. */
static void test_draws_refused(void)
{
  static const struct {
    const char *told;
    const char *why;
  } ways[] = {
    { "begin;normal;end;free;normal;", "waits for the host" },
    { "begin;normal;end;normal;", "none to be had" },
    { "normal;", "no memory for the random numbers of 1 steps" },
    { "normal;", "16 bytes refused" },
  };

  for (int32_t i = 0; i < 4; i++) {
    rg_tensor *x = made();
    rg_plan *plan = captured(x, true);
    const int64_t bytes = rg_memory_of(DEVICE)->live_bytes;

    refuses = i == 0;
    fails = i == 1;
    rg_alloc_fail_at(i >= 2 ? i - 1 : 0); /* on the host, on the device */
    replays(plan, 1, ways[i].told, "it cannot be had");
    rg_alloc_fail_at(0);
    check_facts(plan, 0, ways[i].why);
    is_int(rg_memory_of(DEVICE)->live_bytes, bytes, "nothing is kept on the device");
    const uint64_t offset = last.offset;

    replays(plan, 2, "normal;normal;", "steps go one by one");
    is_int(last.offset - offset, 16, "and draw each time");
    refuses = fails = false;
    is_status(rg_stream_enter(DEVICE, 1, NULL), RG_OK, "another stream");
    replays(plan, 1, "normal;", "once more");
    replays(plan, 1, "begin;normal;end;copy;run;", "then it can be had");
    is_int(rg_memory_of(DEVICE)->live_bytes - bytes, (int64_t)sizeof(last), "with its numbers");
    is_status(rg_stream_enter(DEVICE, 0, NULL), RG_OK, "back");
    rg_plan_release(plan);
    rg_tensor_release(x);
    is_int(rg_memory_of(DEVICE)->live_bytes, 0, "which go with it");
  }
}

/* A draw that is repeated gets the numbers of its first run, and takes none from the stream. */
static void test_repeats(void)
{
  rg_recomputed part = { .on = 1 };
  rg_tensor *x = made();
  rg_generator *g = rg_generator_default();
  rg_plan *plan = NULL;
  rg_draw first;
  int64_t recording;
  const uint64_t before = rg_generator_offset(g);

  is_status(rg_capture_begin(), RG_OK, "a capture");
  is_status(rg_record_begin(0), RG_OK, "is recorded");
  is_status(rg_normal_(x, 0, 1, NULL), RG_OK, "a draw");
  part.end = rg_record_draws(&recording);
  rg_generator_set(g, rg_generator_seed(g), before);
  rg_record_recomputed(&part);
  is_status(rg_normal_(x, 0, 1, NULL), RG_OK, "and the same again");
  rg_record_recomputed(&part);
  rg_record_cancel();
  is_status(rg_capture_end(&plan), RG_OK, "captured");
  replays(plan, 1, "begin;normal;normal;end;copy;run;", "both are copied");
  ok(memcmp(&copied[0], &copied[1], sizeof(copied[0])) == 0, "and begin where the first one does");
  first = copied[0];
  replays(plan, 1, "copy;run;", "each time");
  ok(memcmp(&copied[0], &copied[1], sizeof(copied[0])) == 0, "at the same number");
  ok(copied[0].seed == first.seed && copied[0].offset == first.offset + 8, "which is another one");
  is_int(rg_generator_offset(g) - before, 24, "eight are drawn a run");
  rg_plan_release(plan);
  rg_tensor_release(x);
}

/* While somebody hears steps they go one by one, on the stream of the CUDA graph, with numbers of
** their own; then it runs again. */
static void test_heard(void)
{
  for (int32_t draws = 0; draws < 2; draws++) {
    rg_tensor *x = made();
    rg_plan *plan = captured(x, draws);
    int32_t reader = 0;

    replays(plan, 1, draws ? "begin;normal;end;copy;run;" : "begin;add;add;end;run;", "a graph");
    is_status(rg_stream_enter(DEVICE, 1, NULL), RG_OK, "another stream");
    is_status(rg_reader_open(1 << RG_EVENT_STEP, 0, 100, &reader), RG_OK, "a reader");
    replays(plan, 2, draws ? "enter 0;normal;normal;enter 1;" : "enter 0;add;add;add;add;enter 1;",
            "is steps where they are heard");
    rg_reader_close(reader);
    replays(plan, 1, draws ? "enter 0;copy;run;enter 1;" : "enter 0;run;enter 1;", "and one again");
    is_status(rg_stream_enter(DEVICE, 0, NULL), RG_OK, "back");
    rg_plan_release(plan);
    rg_tensor_release(x);
  }
}

/* Which step may give other bits, as the error says it; a call that failed is none. */
static void test_varying(void)
{
  for (int32_t i = 0; i < 3; i++) {
    rg_tensor *x = made();
    rg_tensor *y = NULL;
    rg_plan *plan = NULL;
    char want[300];

    rg_place_now.module = i == 1 ? "encoder.2" : NULL;
    is_status(rg_capture_begin(), RG_OK, "a capture");
    is_status(rg_normal_(x, 0, 1, NULL), RG_OK, "a step that gives the same bits");
    notes = refuses = i == 2; /* the kernel of a sum fails */
    is_status(rg_add(x, x, &y), i == 2 ? RG_ENOSUP : RG_OK, "and one that may not, if it can");
    notes = refuses = false;
    rg_tensor_release(y);
    if (i < 2) {
      is_status(rg_add(x, x, &y), RG_OK, "another one");
      rg_tensor_release(y);
    }
    is_status(rg_capture_end(&plan), RG_OK, "the end");
    rg_place_now.module = NULL;
    (void)snprintf(want, sizeof(want),
                   "plan: deterministic is on, and step 2 of 3 (add%s on %s) was captured with it "
                   "off and may give other bits each time; capture the plan again, or turn it off "
                   "to run the plan as it is",
                   i == 1 ? ", encoder.2" : "", rg_device_name(DEVICE));
    rg_device_modes_now()->deterministic = 1;
    is_status(rg_plan_replay(plan, 1), i == 2 ? RG_OK : RG_ECAPTURE, "the same bits are asked for");
    ok(i == 2 || strcmp(rg_error_message(), want) == 0, want);
    is_status(rg_plan_replay(plan, 0), RG_OK, "of no run there are none");
    rg_device_modes_now()->deterministic = 0;
    is_status(rg_plan_replay(plan, 1), RG_OK, "or not");
    rg_plan_release(plan);
    rg_tensor_release(x);
  }
}

/* Calls are named to the device whether or not anybody reads their events, and one that fails keeps
** its name only until the next. */
static void test_names(void)
{
  const int32_t op = 1 << RG_EVENT_OP;
  rg_tensor *x = made();
  rg_tensor *y = NULL;
  rg_happening event = { 0 };
  int32_t reader = -1;
  int64_t at = 0;

  told[0] = 0;
  is_int(rg_call_names(1), 0, "names are off");
  is_int(rg_call_names(1), 1, "and on");
  for (int heard = 0; heard < 2; heard++) {
    is_status(heard ? rg_reader_open(op, 0, 8, &reader) : RG_OK, RG_OK,
              "nobody reads, or one does");
    is_status(rg_add(x, x, &y), RG_OK, "a call");
    rg_tensor_release(y);
    is_told("<add;add;>;", "has a name, which ends");
    breaks = true;
    is_status(rg_add(x, x, &y), RG_EDEVICE, "a call that fails");
    is_told("<add;add;", "has a name");
    breaks = false;
    is_status(rg_normal_(x, 0, 1, NULL), RG_OK, "the next call");
    is_told(">;<normal;normal;>;", "ends it first");
  }
  is_status(rg_reader_next(reader, &at, &event), RG_OK, "an event");
  ok(event.name != NULL && strcmp(event.name, "add") == 0, "of the call");
  breaks = true;
  is_status(rg_add(x, x, &y), RG_EDEVICE, "one more that fails");
  breaks = false;
  told[0] = 0;
  is_int(rg_call_names(0), 1, "they were on");
  is_told(">;", "its name ends with all names");
  is_status(rg_normal_(x, 0, 1, NULL), RG_OK, "a call");
  is_told("normal;", "has none");
  rg_reader_close(reader);
  rg_tensor_release(x);
}

int main(void)
{
  rg_driver_register(DEVICE, &driver);
  rg_backend_register(DEVICE, &backend);
  test_captured();
  test_streams();
  test_refused();
  test_draws();
  test_draws_refused();
  test_repeats();
  test_heard();
  test_varying();
  test_names();
  return done();
}
