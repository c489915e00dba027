/* SPDX-License-Identifier: MIT */
/*
** Plans beside other streams, of devices whose drivers write down who waits for whom: before a
** replay for whatever reads or writes its tensors, pinned ones too, and behind it.
*/
#include <stdlib.h>
#include <string.h>

#include "op/list.h"
#include "op/op.h"
#include "ridge/graph.h"
#include "driver.h"
#include "tap.h"
#include "tensor/tensor.h"

enum { DEVICE = 3, ANOTHER = 4 };

static char told[512]; /* "join 0 2;wait;" */

static void tell(const char *what, int32_t a, uint32_t b)
{
  size_t used = strlen(told);

  snprintf(told + used, sizeof(told) - used, "%s %d %u;", what, a, b);
}

static bool joins_fail;

static rg_status join(int32_t device, int32_t to, uint32_t streams)
{
  tell(device == DEVICE ? "join" : "join_another", to, streams);
  return joins_fail ? rg_fail(RG_EDEVICE, "streams cannot be joined") : RG_OK;
}

static rg_status mark_wait(int32_t device, void *mark)
{
  (void)mark;
  tell("mark_wait", device, 0);
  return RG_OK;
}

static rg_status graph_begin(int32_t device)
{
  (void)device;
  return rg_fail(RG_ENOSUP, "steps go one by one");
}

static const rg_driver driver = { .take = host_take,
                                  .give = host_give,
                                  .lost = host_done,
                                  .pin = host_pin,
                                  .unpin = free,
                                  .copy = host_copy,
                                  .wait = host_done,
                                  .enter = host_enter,
                                  .join = join,
                                  .mark_new = host_mark_new,
                                  .mark_free = host_mark_free,
                                  .mark_set = host_mark,
                                  .mark_follow = host_mark,
                                  .mark_wait = mark_wait,
                                  .graph_begin = graph_begin };

static rg_status k_any(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  (void)call;
  (void)out;
  (void)frame;
  tell("run", 0, 0);
  return RG_OK;
}

static rg_kernel *const kernels[RG_OP_COUNT] = { [RG_OP_ADD] = k_any, [RG_OP_FILL] = k_any };
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

static rg_tensor *made(int32_t device)
{
  rg_tensor *x = NULL;

  must(rg_empty(RG_F32, device, (const int64_t[]){ 8 }, 1, &x));
  return x;
}

/* -- Streams ----------------------------------------------------------------------------- */

/* Another stream writes x, or reads it; back on the first one. */
static void used_elsewhere(const rg_tensor *x, bool written)
{
  must(rg_stream_enter(DEVICE, 1, NULL));
  must(rg_tensor_stream_order(x, written));
  must(rg_stream_enter(DEVICE, 0, NULL));
  told[0] = 0;
}

static void replays(rg_plan *plan, const char *want, const char *what)
{
  told[0] = 0;
  is_status(rg_plan_replay(plan, 1), RG_OK, "a replay");
  is_told(want, what);
}

/* The host reads behind who wrote, and writes behind who wrote or reads. */
static void test_host(void)
{
  rg_tensor *x = made(DEVICE);
  const int64_t index[1] = { 3 };
  float values[8] = { 0 };
  double wide[8];
  double one = 0;

  for (int written = 0; written < 2; written++) {
    const char *const read = written ? "join 0 2;" : "";

    used_elsewhere(x, written);
    must(rg_tensor_read(x, values, sizeof(values)));
    is_told(read, "who reads all waits for who wrote");
    used_elsewhere(x, written);
    must(rg_tensor_to_doubles(x, wide, 8));
    is_told(read, "in doubles, too");
    used_elsewhere(x, written);
    must(rg_tensor_get(x, index, 1, &one));
    is_told(read, "or one element");
    used_elsewhere(x, written);
    must(rg_tensor_write(x, values, sizeof(values)));
    is_told("join 0 2;", "who writes all waits for both");
    used_elsewhere(x, written);
    must(rg_tensor_set(x, index, 1, 5));
    is_told("join 0 2;", "and who writes one element");
  }
  rg_tensor_release(x);
}

/* y = a + b, z = y + c. */
static void test_streams(void)
{
  rg_tensor *x[3] = { made(DEVICE), made(DEVICE), made(DEVICE) };
  rg_tensor *y = NULL;
  rg_tensor *z = NULL;
  rg_plan *plan = NULL;

  must(rg_capture_begin());
  must(rg_add(x[0], x[1], &y));
  must(rg_add(y, x[2], &z));
  must(rg_capture_end(&plan));
  rg_tensor_release(y);
  replays(plan, "run 0 0;run 0 0;", "nobody is waited for while there is one stream");
  for (int32_t i = 0; i < 3; i++) {
    used_elsewhere(x[i], true);
    replays(plan, "join 0 2;run 0 0;run 0 0;", "who wrote an input is waited for");
    replays(plan, "run 0 0;run 0 0;", "once");
    used_elsewhere(x[i], false);
    replays(plan, "run 0 0;run 0 0;", "who reads it is not");
  }
  used_elsewhere(z, true);
  replays(plan, "join 0 2;run 0 0;run 0 0;", "who wrote a result is waited for");
  used_elsewhere(z, false);
  replays(plan, "join 0 2;run 0 0;run 0 0;", "and who reads it");
  must(rg_stream_enter(DEVICE, 1, NULL));
  told[0] = 0;
  must(rg_tensor_stream_order(z, false));
  is_told("join 1 1;", "who reads it behind a replay waits for that");
  for (int32_t i = 0; i < 3; i++) {
    must(rg_tensor_stream_order(x[i], true));
    is_told("join 1 1;", "and so does who writes what it reads");
  }
  must(rg_stream_enter(DEVICE, 0, NULL));
  used_elsewhere(x[2], true);
  joins_fail = true;
  is_status(rg_plan_replay(plan, 1), RG_EDEVICE, "a device that cannot order them");
  is_told("join 0 2;", "runs nothing");
  joins_fail = false;
  told[0] = 0;
  rg_plan_release(plan);
  is_told("", "a plan of one stream goes as it is");
  for (int32_t i = 0; i < 3; i++) {
    rg_tensor_release(x[i]);
  }
  rg_tensor_release(z);
}

/* Memory that other streams computed in is given back behind them. */
static void test_given_back(void)
{
  for (int32_t captured = 0; captured < 2; captured++) {
    rg_tensor *x = made(DEVICE);
    rg_tensor *y = NULL;
    rg_plan *plan = NULL;

    must(rg_stream_enter(DEVICE, captured, NULL));
    must(rg_capture_begin());
    must(rg_add(x, x, &y));
    must(rg_capture_end(&plan));
    must(rg_stream_enter(DEVICE, 1 - captured, NULL));
    must(rg_plan_replay(plan, 1));
    must(rg_stream_enter(DEVICE, 0, NULL));
    rg_tensor_release(y);
    told[0] = 0;
    rg_plan_release(plan);
    is_told("join 0 2;", captured == 1 ? "a plan that was captured on another stream"
                                       : "a plan that ran on another stream");
    rg_tensor_release(x);
  }
}

/* Each device has streams of its own. */
static void test_devices(void)
{
  rg_tensor *x[2] = { made(DEVICE), made(ANOTHER) };
  rg_tensor *y[2] = { NULL, NULL };
  rg_plan *plan = NULL;
  rg_plan_facts facts;

  must(rg_capture_begin());
  must(rg_add(x[0], x[0], &y[0]));
  must(rg_add(x[1], x[1], &y[1]));
  must(rg_capture_end(&plan));
  must(rg_plan_facts_of(plan, &facts));
  is_int(facts.device, -1, "a plan of two devices is of none");
  replays(plan, "run 0 0;run 0 0;", "nobody is waited for");
  for (int32_t i = 0; i < 2; i++) {
    const int32_t device = i == 0 ? DEVICE : ANOTHER;

    must(rg_stream_enter(device, 2, NULL));
    must(rg_tensor_stream_order(x[i], true));
    must(rg_stream_enter(device, 0, NULL));
    replays(plan, i == 0 ? "join 0 4;run 0 0;run 0 0;" : "join_another 0 4;run 0 0;run 0 0;",
            "a write on another stream of either is waited for");
  }
  must(rg_stream_enter(ANOTHER, 3, NULL));
  must(rg_plan_replay(plan, 1));
  must(rg_stream_enter(ANOTHER, 0, NULL));
  rg_tensor_release(y[0]);
  rg_tensor_release(y[1]);
  told[0] = 0;
  rg_plan_release(plan);
  is_told("join 0 8;join_another 0 8;", "what ran on another stream is given back behind it");
  rg_tensor_release(x[0]);
  rg_tensor_release(x[1]);
}

/* -- Pinned memory ----------------------------------------------------------------------- */

/* Whoever reads or writes it on the CPU waits for the copies that use it. */
static void test_pinned(void)
{
  rg_tensor *there = made(DEVICE);
  rg_tensor *here = made(RG_PINNED);
  rg_tensor *plain = made(RG_CPU);

  for (int32_t i = 0; i < 4; i++) {
    rg_tensor *y = NULL;
    rg_plan *plan = NULL;

    must(rg_capture_begin());
    must(i == 0   ? rg_add(here, plain, &y)
         : i == 1 ? rg_add(plain, here, &y)
         : i == 2 ? rg_fill_(here, 1)
                  : rg_add(plain, plain, &y));
    must(rg_capture_end(&plan));
    must(rg_tensor_transfer(there, here));
    replays(plan, i < 3 ? "mark_wait 3 0;" : "",
            i < 2    ? "a pinned tensor is read behind the copy"
            : i == 2 ? "and written behind it"
                     : "what has none to do with it waits for nothing");
    rg_plan_release(plan);
    rg_tensor_release(y);
  }
  rg_tensor_release(here);
  rg_tensor_release(there);
  rg_tensor_release(plain);
  (void)rg_memory_trim(RG_PINNED);
}

int main(void)
{
  for (int32_t i = DEVICE; i <= ANOTHER; i++) {
    rg_driver_register(i, &driver);
    rg_backend_register(i, &backend);
  }
  test_host();
  test_streams();
  test_given_back();
  test_devices();
  test_pinned();
  is_int(rg_live_tensors(), 0, "no tensor is left");
  return done();
}
