/* SPDX-License-Identifier: MIT */
/*
** When the events of a ring were, by the host's clock; rings that become long; and one whose first
** event is a call with a body.
*/
#include <pthread.h>
#include <string.h>

#include "tap.h"
#include "op/op.h"

static int32_t opened(int32_t kinds, int32_t how, int64_t capacity)
{
  int32_t reader = -1;

  is_status(rg_reader_open(kinds, how, capacity, &reader), RG_OK, "a reader");
  return reader;
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

/* Times are on the host's clock, wherever they come from. */
static void test_time(void)
{
  enum { WAIT_NS = 5000000, NEAR_NS = 2000 };
  rg_happening e[2];
  int32_t reader = opened(1 << RG_EVENT_ALLOC, 0, 100);
  int64_t at = 0;
  int64_t before = rg_clock_ns();

  rg_ring_moment(RG_EVENT_ALLOC, RG_CPU, "first", 1, NULL);
  while (rg_clock_ns() < before + WAIT_NS) {
  }
  int64_t between = rg_clock_ns();

  rg_ring_moment(RG_EVENT_ALLOC, RG_CPU, "second", 2, NULL);
  int64_t after = rg_clock_ns();

  for (int i = 0; i < 2; i++) {
    is_status(rg_reader_next(reader, &at, &e[i]), RG_OK, "an event");
  }
  ok(e[0].begin_ns > before - NEAR_NS && e[0].end_ns >= e[0].begin_ns, "the first is where it was");
  ok(e[0].end_ns < between && e[1].begin_ns > between - NEAR_NS, "the second is behind the wait");
  ok(e[1].end_ns < after + NEAR_NS, "and has an end");
  rg_happening again = { 0 };

  at = 0;
  is_status(rg_reader_next(reader, &at, &again), RG_OK, "it again");
  is_int(again.begin_ns, e[0].begin_ns, "who reads it twice reads the same");
  rg_reader_close(reader);
}

/* What began many chunks ago ends, in memory that was there before and in memory that was not. */
static void test_long_ring(void)
{
  enum { MANY = 60000 };
  rg_happening e = { 0 };
  rg_happening range = { 0 };
  rg_range outer = { .name = rg_range_name("long") };
  int64_t at = 0;
  int32_t reader = opened(1 << RG_EVENT_ALLOC | 1 << RG_EVENT_RANGE, 0, 1 << 20);

  rg_reader_reserve(reader, 5000);
  rg_reader_reserve(reader, 0);
  rg_reader_reserve(-1, 5000);
  int64_t serial = rg_ring_serial();
  rg_range_enter(&outer);
  int64_t begun = outer.serial;

  is_int(begun, serial, "the serial that was told");
  for (int i = 0; i < MANY; i++) {
    rg_ring_moment(RG_EVENT_ALLOC, RG_CPU, "alloc", i, NULL);
  }
  rg_range_leave(&outer);
  is_status(rg_reader_next(reader, &at, &range), RG_OK, "the range");
  is_int(read_all(reader, &e), MANY + 1, "nothing is lost");
  ok(e.bytes == MANY - 1 && e.parent == begun, "the last one is in the range");
  ok(strcmp(range.name, "long") == 0 && range.end_ns >= e.end_ns, "which ends behind it");
  ok(range.module == NULL, "and is no module's");
  ok(rg_range_name(NULL) == NULL, "nothing has no name");
  rg_reader_close(reader);
}

/* The process keeps so many names: ranges of others are told under one, and none is left out.
** Behind all other tests, which want names. */
static void test_many_names(void)
{
  enum { MANY = 20000 };
  rg_happening e = { 0 };
  rg_place before;
  char name[32];
  int64_t at = 0;
  int32_t n = 0, n_others = 0;
  int32_t reader = opened(1 << RG_EVENT_RANGE, 0, 1 << 16);

  for (int i = 0; i < MANY; i++) {
    (void)snprintf(name, sizeof(name), "name %d", i);
    rg_range_end(rg_range_begin(name, i % 2, &before), &before);
  }
  while (rg_reader_next(reader, &at, &e) == RG_OK && e.name != NULL) {
    n++;
    if (strcmp(e.name, "(too many names)") == 0) {
      n_others++;
    }
  }
  is_int(n, MANY, "each range is there");
  ok(n_others > 0 && n_others < MANY, "some under one name");
  rg_range_end(rg_range_begin("name 1", 0, &before), &before);
  is_status(rg_reader_next(reader, &at, &e), RG_OK, "one more");
  ok(e.name != NULL && strcmp(e.name, "name 1") == 0, "whose name is kept");
  rg_reader_close(reader);
}

/* A ring of its own, whose first event is a call with a body: number 0, which is its parent. */
static void *body_in_thread(void *x)
{
  int32_t reader = opened(1 << RG_EVENT_OP | 1 << RG_EVENT_RANGE, 0, 100);
  rg_happening e = { 0 };
  rg_tensor *y = NULL;
  int64_t at = 0;
  int n = 0;

  is_status(rg_reshape(x, (const int64_t[]){ 6 }, 1, &y), RG_OK, "a copy in another shape");
  while (rg_reader_next(reader, &at, &e) == RG_OK && e.name != NULL) {
    if (e.kind == RG_EVENT_OP) {
      is_int(e.parent, 0, "what runs in the first call knows it");
      n++;
    } else {
      ok(strcmp(e.name, "reshape") == 0 && e.parent == -1, "which is in none");
    }
  }
  is_int(n, 1, "the copy itself");
  rg_tensor_release(y);
  rg_reader_close(reader);
  return NULL;
}

static void test_first_body(void)
{
  rg_tensor *x = NULL;
  rg_tensor *across = NULL;
  pthread_t thread;

  is_status(rg_empty(RG_F32, RG_CPU, (const int64_t[]){ 2, 3 }, 2, &x), RG_OK, "a matrix");
  is_status(rg_transpose(x, 0, 1, &across), RG_OK, "which no view makes one axis");
  if (pthread_create(&thread, NULL, body_in_thread, across) != 0) {
    tap_bail("no thread");
  }
  (void)pthread_join(thread, NULL);
  rg_tensor_release(across);
  rg_tensor_release(x);
}

int main(void)
{
  test_time();
  test_long_ring();
  test_many_names();
  test_first_body();
  return done();
}
