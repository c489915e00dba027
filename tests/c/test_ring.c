/* SPDX-License-Identifier: MIT */
/*
** The ring of events and its readers: what each hears, what is kept, ranges, threads, forks,
** failures, and the steps of plans.
*/
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tap.h"
#include "op/op.h"
#include "ridge/graph.h"

enum { OP = 1 << RG_EVENT_OP, STEP = 1 << RG_EVENT_STEP, PLAN = 1 << RG_EVENT_PLAN };

static rg_tensor *made(int64_t n)
{
  rg_tensor *x = NULL;

  is_status(rg_empty(RG_F32, RG_CPU, &n, 1, &x), RG_OK, "a tensor");
  return x;
}

static int32_t opened(int32_t kinds, int32_t how, int64_t capacity)
{
  int32_t reader = -1;

  is_status(rg_reader_open(kinds, how, capacity, &reader), RG_OK, "a reader");
  return reader;
}

static void fill(rg_tensor *x, int n)
{
  for (int i = 0; i < n; i++) {
    if (rg_fill_(x, i) != RG_OK) {
      ok(false, "a call");
    }
  }
}

/* How many events a reader has, and the last of them. */
static int64_t read_all(int32_t reader, rg_happening *last)
{
  rg_happening event;
  int64_t at = 0;
  int64_t n = 0;

  while (rg_reader_next(reader, &at, &event) == RG_OK && event.name != NULL) {
    *last = event;
    n++;
  }
  return n;
}

static rg_reader_facts facts_of(int32_t reader)
{
  rg_reader_facts facts = { 0 };

  is_status(rg_reader_facts_of(reader, &facts), RG_OK, "facts");
  return facts;
}

static void test_hearing(void)
{
  rg_tensor *x = made(4);
  rg_happening e = { 0 };
  int32_t a = opened(OP, 0, 100);

  fill(x, 2);
  int32_t b = opened(OP, 0, 100);

  fill(x, 3);
  rg_reader_hear(a, 0);
  fill(x, 5);
  rg_reader_hear(a, 1);
  rg_reader_hear(b, 0);
  fill(x, 1);
  is_int(read_all(a, &e), 6, "one hears what happens while it is on");
  is_int(read_all(b, &e), 8, "and so does another");
  ok(strcmp(e.name, "fill") == 0 && e.kind == RG_EVENT_OP && e.device == RG_CPU, "a call");
  ok(e.end_ns >= e.begin_ns && e.bytes == 16 && e.thread >= 1 && e.step == -1, "its facts");
  ok(strcmp(rg_shapes_text(e.shapes), "-> f32[4]") == 0, "its shapes");
  rg_reader_close(a);
  is_int(read_all(b, &e), 8, "what one closes the other still has");
  rg_reader_close(b);
  is_int(rg_ring_on, 0, "nobody looks on");
  a = opened(OP, 0, 100);
  is_int(read_all(a, &e), 0, "a new one hears nothing of before");
  rg_reader_close(a);
  rg_reader_close(a);
  rg_reader_hear(a, 1);
  is_int(rg_ring_on, 0, "what is closed does not come back");
  rg_tensor_release(x);
}

/* What an event that is no call begins with: nothing of the one whose place it took. */
static void test_fresh(void)
{
  rg_tensor *x = made(1);
  rg_tensor *y = NULL;
  rg_happening e = { 0 };
  int32_t calls = opened(OP, 0, 8);
  int32_t blocks = opened(1 << RG_EVENT_ALLOC, 0, 8);

  fill(x, 300);
  if (rg_add(x, x, &y) != RG_OK || read_all(calls, &e) < 8) {
    tap_bail("no calls");
  }
  ok(e.n_threads >= 1 && e.shapes >= 0 && e.step == -1 && e.block == 0, "a call, and its threads");
  if (read_all(blocks, &e) < 1) {
    tap_bail("no block");
  }
  ok(e.n_threads == 0 && e.shapes == -1 && e.step == -1 && e.flops == 0, "a block has none");
  ok(e.bytes > 0 && e.block != 0 && isnan(e.device_ns), "but its own place and size");
  rg_reader_close(calls);
  rg_reader_close(blocks);
  rg_tensor_release(y);
  rg_tensor_release(x);
}

/* Ranges in each other, more than a piece of a ring has room for: each has its end. */
static void test_deep(void)
{
  enum { DEEP = 700 };
  static rg_place before[DEEP];
  static int64_t serial[DEEP];
  int32_t reader = opened(1 << RG_EVENT_RANGE, 0, 1024);
  rg_happening e = { 0 };
  int64_t at = 0;
  int32_t n_ended = 0;

  for (int i = 0; i < DEEP; i++) {
    serial[i] = rg_range_begin("deep", 0, &before[i]);
  }
  for (int i = DEEP - 1; i >= 0; i--) {
    rg_range_end(serial[i], &before[i]);
  }
  for (int i = 0; rg_reader_next(reader, &at, &e) == RG_OK && e.name != NULL; i++) {
    n_ended += e.serial == serial[i] && e.end_ns >= e.begin_ns &&
               e.parent == (i > 0 ? serial[i - 1] : before[0].parent);
  }
  is_int(n_ended, DEEP, "ranges begin and end in each other");
  rg_reader_close(reader);
}

static void test_room(void)
{
  enum { MANY = 3000 };
  rg_tensor *x = made(1);
  rg_happening e = { 0 };
  int32_t first = opened(OP, RG_READ_FIRST, 10);
  int32_t last = opened(OP, 0, 1000);

  fill(x, MANY);
  rg_reader_facts f = facts_of(first);

  is_int(f.n_seen, MANY, "all are counted");
  is_int(read_all(first, &e), 10, "the first ones are kept");
  is_int(f.n_seen - f.n_dropped, read_all(first, &e), "and what is missing is known");
  f = facts_of(last);
  ok(read_all(last, &e) >= 1000 && f.n_dropped > 0, "or the last");
  is_int(f.n_seen - f.n_dropped, read_all(last, &e), "and known too");
  rg_reader_close(last);
  f = facts_of(first);
  fill(x, MANY);
  is_int(read_all(first, &e), f.n_seen - f.n_dropped, "where only the first count, no more come");
  is_int(facts_of(first).n_seen, 2 * MANY, "but they are counted");
  rg_reader_close(first);

  int32_t readers[24];

  for (int i = 0; i < 24; i++) {
    readers[i] = opened(OP, 0, 1);
  }
  is_status(rg_reader_open(OP, 0, 1, &first), RG_EARG, "one too many");
  for (int i = 0; i < 24; i++) {
    rg_reader_close(readers[i]);
  }
  is_status(rg_reader_open(OP, 0, 0, &first), RG_EARG, "a reader has room");
  is_status(rg_reader_open(0, 0, 1, &first), RG_EARG, "hears something");
  is_status(rg_reader_open(1 << RG_EVENT_COUNT, 0, 1, &first), RG_EARG, "that there is");
  is_status(rg_reader_open(OP, 4, 1, &first), RG_EARG, "in a way that there is");
  is_status(rg_reader_facts_of(99, &f), RG_EARG, "numbers of none");
  is_status(rg_reader_facts_of(-1, &f), RG_EARG, "are refused");
  rg_tensor_release(x);
}

/* 64 MB are the most, however much a reader asks for. */
static void test_limit(void)
{
  enum { MANY = 600000 };
  rg_happening e = { 0 };
  int32_t all = opened(1 << RG_EVENT_ALLOC, 0, 1 << 24);

  for (int i = 0; i < MANY; i++) {
    rg_ring_moment(RG_EVENT_ALLOC, RG_CPU, "alloc", i, NULL);
  }
  rg_reader_facts f = facts_of(all);
  int64_t n = read_all(all, &e);

  ok(n < 64e6 * 1.05 / RG_EVENT_BYTES && n > 100000, "a ring does not grow for ever");
  is_int(f.n_seen, MANY, "all were seen");
  is_int(f.n_dropped, MANY - n, "and it says how many are gone");
  ok(e.bytes == MANY - 1, "the last ones are kept");
  rg_reader_close(all);
}

/* A block that is taken and given back is known by where it lies, and its line by its text. */
static void test_blocks(void)
{
  rg_happening e = { 0 };
  int32_t reader = opened(1 << RG_EVENT_ALLOC | 1 << RG_EVENT_FREE, 0, 100);
  int64_t at = 0;
  int64_t block;

  rg_line_set("user.lua:3");
  rg_tensor *x = made(16);
  rg_line_set(NULL);
  rg_tensor_release(x);
  is_status(rg_reader_next(reader, &at, &e), RG_OK, "the first event");
  ok(e.kind == RG_EVENT_ALLOC && e.block != 0, "is of a block that was taken");
  ok(e.line != NULL && strcmp(e.line, "user.lua:3") == 0, "by this line");
  block = e.block;
  do {
    is_status(rg_reader_next(reader, &at, &e), RG_OK, "those behind it");
  } while (e.name != NULL && e.kind != RG_EVENT_FREE);
  ok(e.name != NULL && e.block == block && e.line == NULL, "end with its return, by no line");
  rg_reader_close(reader);
}

static void test_ranges(void)
{
  rg_tensor *x = made(1);
  rg_happening e = { 0 };
  rg_place outer;
  rg_place inner;
  int32_t reader = opened(OP | 1 << RG_EVENT_RANGE, 0, 100);
  char name[] = "net";
  int64_t a = rg_range_begin(name, 1, &outer);

  strcpy(name, "???");
  int64_t b = rg_range_begin("loop", 0, &inner);

  fill(x, 1);
  is_int(read_all(reader, &e), 3, "ranges are events");
  is_int(e.parent, b, "a call knows the range it is in");
  ok(strcmp(e.module, "net") == 0, "and the module, by the name it had");
  rg_range_end(b, &inner);
  fill(x, 1);
  (void)read_all(reader, &e);
  is_int(e.parent, a, "then the one around it");
  rg_range_end(a, &outer);
  fill(x, 1);
  (void)read_all(reader, &e);
  ok(e.parent == -1 && e.module == NULL, "then none");
  a = rg_range_begin("left open", 1, &outer); /* an error goes by */
  rg_range_end(-1, &outer);
  fill(x, 1);
  (void)read_all(reader, &e);
  ok(e.parent == -1 && e.module == NULL, "a place is put back whatever happened in it");
  rg_reader_close(reader);
  rg_range_end(a, &outer); /* of a ring that is gone */
  a = rg_range_begin("unheard", 1, &outer);
  is_int(a, -1, "a range that nobody hears is none");
  ok(strcmp(rg_place_now.module, "unheard") == 0, "but where it is, is known to a capture");
  rg_range_end(a, &outer);
  rg_tensor_release(x);
}

static void *in_thread(void *data)
{
  rg_tensor *x = data;
  rg_happening e = { 0 };
  int32_t reader = opened(OP, 0, 100);
  int64_t *numbers;

  fill(x, 7);
  is_int(read_all(reader, &e), 7, "a thread hears itself");
  numbers = malloc(sizeof(*numbers));
  *numbers = e.thread; /* the reader is left open: its ring goes with the thread */
  return numbers;
}

static void test_threads(void)
{
  rg_tensor *x = made(1);
  rg_happening e = { 0 };
  pthread_t thread;
  void *number = NULL;
  int32_t reader = opened(OP, 0, 100);

  fill(x, 1);
  pthread_create(&thread, NULL, in_thread, x);
  pthread_join(thread, &number);
  fill(x, 1);
  is_int(read_all(reader, &e), 2, "and nobody else");
  ok(*(int64_t *)number != e.thread, "each has a number");
  free(number);
  rg_reader_close(reader);
  rg_tensor_release(x);
}

static void test_fork(void)
{
  rg_tensor *x = made(1);
  rg_happening e = { 0 };
  int32_t reader = opened(OP, 0, 100);
  int status = -1;
  pid_t child;

  fill(x, 2);
  fflush(stdout);
  child = fork();
  if (child == 0) {
    fill(x, 1);
    int64_t n = read_all(reader, &e);

    rg_reader_close(reader);
    _exit(n == 3 && rg_ring_on == 0 ? 0 : 1);
  }
  waitpid(child, &status, 0);
  is_int(status, 0, "a child goes on with a ring of its own");
  is_int(read_all(reader, &e), 2, "and its parent does not hear it");
  rg_reader_close(reader);
  rg_tensor_release(x);
}

static void test_failures(void)
{
  rg_tensor *x = made(1);
  rg_happening e = { 0 };
  int32_t reader = -1;

  rg_alloc_fail_at(1);
  is_status(rg_reader_open(OP, 0, 600, &reader), RG_OK, "a thread that has a ring needs no more");
  fill(x, 1);
  rg_alloc_fail_at(0);
  fill(x, 2);
  is_int(facts_of(reader).n_seen, 3, "all are seen");
  is_int(facts_of(reader).n_dropped, 1, "one of them without memory for it");
  is_int(read_all(reader, &e), 2, "the others are there");
  rg_interrupt_set();
  is_status(rg_fill_(x, 1), RG_EINTR, "what is interrupted");
  rg_interrupt_clear();
  is_int(read_all(reader, &e), 2, "before it began is no event");
  rg_reader_close(reader);
  rg_tensor_release(x);
}

static void test_plans(void)
{
  rg_tensor *x = made(6);
  rg_tensor *y = NULL;
  rg_tensor *z = NULL;
  rg_plan *plan = NULL;
  rg_plan_facts facts;
  rg_happening e = { 0 };
  rg_place before;
  rg_place inside;
  int32_t during = opened(OP | STEP | PLAN, 0, 100);

  is_status(rg_capture_begin(), RG_OK, "a capture");
  (void)rg_range_begin("layer", 1, &before);
  is_status(rg_exp(x, &y), RG_OK, "a step");
  (void)rg_range_begin("layer.act", 1, &inside);
  is_status(rg_relu(y, &z), RG_OK, "another");
  rg_range_end(-1, &inside);
  rg_range_end(-1, &before);
  is_status(rg_capture_end(&plan), RG_OK, "a plan");
  is_int(read_all(during, &e), 2, "what is captured are calls");
  rg_reader_close(during);

  int32_t spans = opened(OP | PLAN, 0, 100);

  is_status(rg_plan_replay(plan, 2), RG_OK, "unheard steps");
  is_int(read_all(spans, &e), 1, "all replays are one event");
  ok(e.kind == RG_EVENT_PLAN && e.step >= 1, "which knows its plan");
  is_status(rg_plan_facts_of(plan, &facts), RG_OK, "what that costs");
  ok(facts.flops > 0 && e.flops == 2 * facts.flops, "twice its operations");
  ok(facts.bytes == 2 * 2 * 24 && e.bytes == 2 * facts.bytes, "and its bytes");

  int32_t steps = opened(STEP | PLAN, 0, 100);

  is_status(rg_plan_replay(plan, 3), RG_OK, "heard ones");
  is_int(read_all(spans, &e), 2, "who does not hear steps has none");
  is_int(read_all(steps, &e), 7, "a plan and six steps");
  ok(e.kind == RG_EVENT_STEP && e.step == 1 && strcmp(e.name, "relu") == 0, "the last of them");
  ok(strcmp(e.module, "layer.act") == 0, "knows the module it was captured in");
  ok(strcmp(rg_shapes_text(e.shapes), "f32[6] -> f32[6]") == 0, "and its shapes");
  rg_interrupt_set();
  is_status(rg_plan_replay(plan, 3), RG_EINTR, "interrupted");
  rg_interrupt_clear();
  ok(rg_place_now.parent == -1 && rg_place_now.module == NULL, "it leaves its place");
  rg_reader_close(spans);
  rg_reader_close(steps);
  rg_plan_release(plan);
  rg_tensor_release(x);
  rg_tensor_release(y);
  rg_tensor_release(z);
}

/* A ring of its own, whose first event is a step. */
/* The first event of a thread, if it is a range. */
static void *range_in_thread(void *unused)
{
  rg_happening e = { 0 };
  int32_t ranges = opened(1 << RG_EVENT_RANGE, 0, 100);
  rg_place before;
  int64_t range = rg_range_begin("first", 0, &before);

  (void)unused;
  is_int(range, 0, "the first range is number 0");
  rg_range_end(range, &before);
  is_int(read_all(ranges, &e), 1, "one range");
  ok(e.end_ns >= e.begin_ns && e.begin_ns > 0, "which has an end");
  rg_reader_close(ranges);
  return NULL;
}

static void test_first_range(void)
{
  pthread_t thread;

  if (pthread_create(&thread, NULL, range_in_thread, NULL) != 0) {
    tap_bail("no thread");
  }
  (void)pthread_join(thread, NULL);
}

static void *step_in_thread(void *plan)
{
  rg_happening e = { 0 };
  int32_t steps = opened(STEP, 0, 100);

  is_status(rg_plan_replay(plan, 1), RG_OK, "a replay");
  is_int(read_all(steps, &e), 1, "one step");
  ok(e.kind == RG_EVENT_STEP && e.end_ns >= e.begin_ns && e.begin_ns > 0, "which has an end");
  rg_reader_close(steps);
  return NULL;
}

static void test_first_step(void)
{
  rg_tensor *x = made(1 << 16);
  rg_tensor *y = NULL;
  rg_plan *plan = NULL;
  pthread_t thread;

  is_status(rg_capture_begin(), RG_OK, "a capture");
  is_status(rg_exp(x, &y), RG_OK, "a step");
  is_status(rg_capture_end(&plan), RG_OK, "a plan");
  pthread_create(&thread, NULL, step_in_thread, plan);
  pthread_join(thread, NULL);
  rg_plan_release(plan);
  rg_tensor_release(x);
  rg_tensor_release(y);
}

static void test_memory(void)
{
  rg_happening e = { 0 };
  int32_t reader = opened(1 << RG_EVENT_ALLOC | 1 << RG_EVENT_FREE, 0, 100);
  rg_tensor *x = made(1000);

  is_int(read_all(reader, &e), 1, "a block");
  ok(e.kind == RG_EVENT_ALLOC && e.bytes == 4000, "is taken");
  rg_tensor_release(x);
  is_int(read_all(reader, &e), 2, "and given back");
  ok(e.kind == RG_EVENT_FREE && e.bytes == 4000, "as large");
  rg_reader_close(reader);
}

static void test_shapes(void)
{
  const rg_tensor *many[20];
  rg_tensor *x = made(2);
  rg_tensor *y = NULL;
  rg_happening e = { 0 };
  int32_t reader = opened(OP, 0, 100);

  for (int i = 0; i < 20; i++) {
    many[i] = x;
  }
  is_status(rg_concat(many, 20, 0, &y), RG_OK, "a call of many tensors");
  (void)read_all(reader, &e);
  ok(strstr(rg_shapes_text(e.shapes), "f32[2] and 5 more -> f32[40]") != NULL, "says how many");
  ok(strcmp(rg_shapes_text(-1), "") == 0 && strcmp(rg_shapes_text(1 << 30), "") == 0, "of none");
  rg_reader_close(reader);
  rg_tensor_release(x);
  rg_tensor_release(y);
}

static void test_orders(void)
{
  enum { N = 300 }; /* more than a thread remembers: in order, the other way, each one twice */
  int32_t reader = opened(OP, 0, 4);
  rg_tensor *y = NULL;
  int n_right = 0;
  for (int i = 0; i < 4 * N; i++) {
    const int n = 1 + (i / N == 1 ? N - 1 - i % N : i / N == 3 ? i % N / 2 : i % N);
    rg_tensor *x = made(n);
    rg_happening e = { 0 };
    char text[64];

    (void)snprintf(text, sizeof(text), "f32[%d] -> f32[%d]", n, n);
    n_right += rg_exp(x, &y) == RG_OK && read_all(reader, &e) > 0 &&
               strcmp(rg_shapes_text(e.shapes), text) == 0;
    rg_tensor_release(x);
    rg_tensor_release(y);
  }
  is_int(n_right, 4 * N, "each call has its own shapes");
  rg_reader_close(reader);
}

/* As many tensors as a text names, of as many axes as there may be. */
static void test_long_shapes(void)
{
  const int64_t size = 100;
  const int64_t shape[8] = { 0, size, size, size, size, size, size, size };
  const rg_tensor *many[17];
  rg_tensor *x = NULL;
  rg_tensor *y = NULL;
  rg_happening e = { 0 };
  int32_t reader = opened(OP, 0, 100);
  const char *text;
  int n = 0;

  is_status(rg_empty(RG_BF16, RG_CPU, shape, 8, &x), RG_OK, "a tensor of eight axes");
  for (int i = 0; i < 17; i++) {
    many[i] = x;
  }
  is_status(rg_concat(many, 17, 0, &y), RG_OK, "a call of seventeen");
  (void)read_all(reader, &e);
  text = rg_shapes_text(e.shapes);
  for (const char *at = text; (at = strstr(at, "bf16[0,100,")) != NULL; at++) {
    n++;
  }
  is_int(n, 16, "fifteen of them and what comes of it are named");
  ok(strstr(text, " and 2 more -> bf16[0,") != NULL, "and that there are two more");
  rg_reader_close(reader);
  rg_tensor_release(x);
  rg_tensor_release(y);
}

/* What ran a product is told of a call that is captured, of one that is not, and of its step. */
static void test_paths(void)
{
  const int64_t shape[2] = { 24, 24 };
  const char *path[3] = { "", "", "" };
  rg_tensor *x = NULL;
  rg_tensor *y = NULL;
  rg_plan *plan = NULL;
  rg_happening e = { 0 };
  int32_t a = opened(OP | STEP, 0, 10);

  is_status(rg_empty(RG_F32, RG_CPU, shape, 2, &x), RG_OK, "a matrix");
  is_status(rg_fill_(x, 1), RG_OK, "of ones");
  for (int i = 0; i < 3; i++) {
    is_status(i == 1 ? rg_capture_begin() : RG_OK, RG_OK, "a capture, or none");
    is_status(i < 2 ? rg_matmul(x, x, &y) : rg_plan_replay(plan, 1), RG_OK, "a product");
    is_status(i == 1 ? rg_capture_end(&plan) : RG_OK, RG_OK, "its end");
    (void)read_all(a, &e);
    path[i] = e.path;
    ok(strcmp(e.name, "matmul") == 0 && e.kind == (i < 2 ? RG_EVENT_OP : RG_EVENT_STEP),
       "is heard");
    if (i < 2) {
      rg_tensor_release(y);
    }
  }
  ok(path[0][0] != '\0', "what ran it has a name");
  ok(strcmp(path[1], path[0]) == 0, "the same where it is captured");
  ok(strcmp(path[2], path[0]) == 0, "and where it is replayed");
  rg_reader_close(a);
  rg_plan_release(plan);
  rg_tensor_release(x);
}

int main(void)
{
  test_hearing();
  test_fresh();
  test_first_range();
  test_deep();
  test_room();
  test_limit();
  test_blocks();
  test_ranges();
  test_threads();
  test_fork();
  test_failures();
  test_plans();
  test_first_step();
  test_memory();
  test_shapes();
  test_orders();
  test_long_shapes();
  test_paths();
  return done();
}
