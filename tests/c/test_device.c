/* SPDX-License-Identifier: MIT */
/*
** Streams and events: of the CPU, and of a device whose driver only writes down what it is asked
** for, so that it shows who waits for whom.
*/
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "driver.h"
#include "tap.h"
#include "op/op.h"
#include "tensor/tensor.h"

/* -- A driver that writes down ---------------------------------------------------- */

enum { DEVICE = 3, ANOTHER = 4 };

static char told[512]; /* "join 0 2;wait;" */

static void tell(const char *what, int32_t a, uint32_t b)
{
  size_t used = strlen(told);

  snprintf(told + used, sizeof(told) - used, "%s %d %u;", what, a, b);
}

static bool is_lost;

static rg_status lost(int32_t device)
{
  return is_lost ? rg_fail(RG_EDEVICE, "device %d went up in smoke", device) : RG_OK;
}

static rg_status take(int32_t device, int64_t bytes, void **out)
{
  RG_TRY(lost(device));
  *out = aligned_alloc(256, (size_t)((bytes + 255) / 256 * 256));
  return *out != NULL ? RG_OK : rg_fail(RG_ENOMEM, "device %d", device);
}

static rg_status pin(int64_t bytes, void **out)
{
  return take(DEVICE, bytes, out);
}

static rg_status copy(int32_t to_device, void *to, int32_t from_device, const void *from,
                      int64_t bytes, bool behind)
{
  (void)from_device;
  tell(behind ? "copy_behind" : "copy", to_device, (uint32_t)bytes);
  memcpy(to, from, (size_t)bytes);
  return RG_OK;
}

static rg_status wait(int32_t device)
{
  tell("wait", device, 0);
  return RG_OK;
}

static void enter(int32_t device, int32_t stream)
{
  (void)device;
  tell("enter", stream, 0);
}

static rg_status join(int32_t device, int32_t to, uint32_t streams)
{
  (void)device;
  tell("join", to, streams);
  return RG_OK;
}

static int64_t n_marks; /* that are there */

static rg_status mark_new(int32_t device, void **mark)
{
  n_marks++;
  *mark = calloc(1, 2);
  ((char *)*mark)[1] = (char)device;
  return RG_OK;
}

static void mark_free(int32_t device, void *mark)
{
  n_marks--;
  host_mark_free(device, mark);
}

static rg_status mark_set(int32_t device, void *mark)
{
  static char n_set;

  *(char *)mark = n_set++;
  tell(((char *)mark)[1] == device ? "set" : "set_elsewhere", device, 0);
  return RG_OK;
}

static rg_status mark_follow(int32_t device, void *mark)
{
  (void)mark;
  tell("follow", device, 0);
  return RG_OK;
}

static rg_status mark_wait(int32_t device, void *mark)
{
  (void)mark;
  tell("mark_wait", device, 0);
  return RG_OK;
}

/* Marks are set one microsecond after the other. */
static rg_status mark_between(int32_t device, void *from, void *to, double *ns)
{
  (void)device;
  *ns = 1000.0 * (*(char *)to - *(char *)from);
  return RG_OK;
}

static const rg_driver driver = { .take = take,
                                  .give = host_give,
                                  .lost = lost,
                                  .pin = pin,
                                  .unpin = free,
                                  .copy = copy,
                                  .wait = wait,
                                  .enter = enter,
                                  .join = join,
                                  .mark_new = mark_new,
                                  .mark_free = mark_free,
                                  .mark_set = mark_set,
                                  .mark_follow = mark_follow,
                                  .mark_wait = mark_wait,
                                  .mark_between = mark_between };

/* What the driver was told since the last time is `want`. */
static void is_told(const char *want, const char *what)
{
  ok(strcmp(told, want) == 0, what);
  if (strcmp(told, want) != 0) {
    printf("# told: %s\n# want: %s\n", told, want);
  }
  told[0] = 0;
}

static void enters(int32_t stream)
{
  is_status(rg_stream_enter(DEVICE, stream, NULL), RG_OK, "a stream is entered");
  told[0] = 0;
}

static rg_tensor *made(int32_t device)
{
  rg_tensor *x = NULL;

  is_status(rg_empty(RG_F32, device, (int64_t[]){ 8 }, 1, &x), RG_OK, "a tensor");
  return x;
}

/* -- Tests ------------------------------------------------------------------------ */

static void test_cpu(void)
{
  rg_event *a = NULL;
  rg_event *b = NULL;
  double ns = -1;
  int32_t before = -1;

  is_status(rg_stream_enter(RG_CPU, 2, &before), RG_OK, "the CPU has streams");
  is_int(before, 0, "one is in the first at first");
  is_int(rg_stream_now(RG_CPU), 2, "and now in another");
  is_status(rg_stream_enter(RG_CPU, RG_STREAMS, NULL), RG_EARG, "which end somewhere");
  ok(strstr(rg_error_message(), "there is no stream 8; they go from 0 to 7") != NULL, "at 7");
  is_status(rg_stream_enter(RG_CPU, -1, NULL), RG_EARG, "and begin at 0");
  is_status(rg_stream_enter(RG_CPU, 0, NULL), RG_OK, "back");
  is_status(rg_event_new(RG_CPU, &a), RG_OK, "an event");
  is_status(rg_event_new(RG_CPU, &b), RG_OK, "another one");
  is_status(rg_event_between(a, b, &ns), RG_EARG, "between marks that were not set is no time");
  is_status(rg_event_set(a), RG_OK, "set");
  is_status(rg_event_set(b), RG_OK, "and set");
  is_status(rg_event_between(a, b, &ns), RG_OK, "time passes");
  ok(ns >= 0, "forward");
  is_status(rg_event_wait(b), RG_OK, "and is over");
  is_status(rg_event_set(NULL), RG_EARG, "no event is no crash");
  is_status(rg_event_follow(NULL), RG_EARG, "to follow");
  is_status(rg_event_wait(NULL), RG_EARG, "to wait for");
  is_status(rg_event_between(NULL, b, &ns), RG_EARG, "to begin");
  is_status(rg_event_between(a, NULL, &ns), RG_EARG, "or to end");
  rg_event_release(a);
  rg_event_release(b);
  is_status(rg_empty(RG_F32, RG_PINNED, (int64_t[]){ 8 }, 1, &(rg_tensor *){ NULL }), RG_EDEVICE,
            "no pinned memory without a device that has it");
}

static void test_turns(void)
{
  rg_tensor *x;

  enters(1);
  x = made(DEVICE);
  is_status(rg_tensor_stream_order(x, true), RG_OK, "written on stream 1");
  is_told("", "by its first user, who waits for nobody");
  enters(0);
  is_status(rg_tensor_stream_order(x, false), RG_OK, "read on stream 0");
  is_told("join 0 2;", "behind the writer");
  is_status(rg_tensor_stream_order(x, false), RG_OK, "read again");
  is_told("", "behind it already");
  enters(2);
  is_status(rg_tensor_stream_order(x, true), RG_OK, "written on stream 2");
  is_told("join 2 3;", "behind the writer and the reader");
  enters(1);
  is_status(rg_tensor_stream_order(x, false), RG_OK, "read by who wrote it before");
  is_told("join 1 4;", "behind the new writer");
  rg_tensor_release(x);
  is_told("join 1 4;", "given back to stream 1 behind the other user");
  enters(0);
  rg_tensor_release(made(DEVICE));
  is_told("", "what one stream used alone waits for nobody");
}

static void *hold_elsewhere(void *stream)
{
  *(int32_t *)stream = rg_stream_hold(DEVICE);
  rg_stream_let_go(DEVICE, *(int32_t *)stream);
  return NULL;
}

/* Who holds a stream may make a call in a call; then it is free for others. */
static void test_held(void)
{
  int32_t elsewhere = -1;
  pthread_t thread;

  alarm(60); /* whoever waits for itself waits for ever */
  is_int(rg_stream_hold(DEVICE), 0, "a stream is held");
  is_int(rg_stream_hold(DEVICE), 0, "and by the same thread again");
  rg_stream_let_go(DEVICE, 0);
  rg_stream_let_go(DEVICE, 0);
  pthread_create(&thread, NULL, hold_elsewhere, &elsewhere);
  pthread_join(thread, NULL);
  is_int(elsewhere, 0, "and by another one behind it");
  alarm(0);
}

static void test_pinned(void)
{
  rg_tensor *there = made(DEVICE);
  rg_tensor *here = made(RG_PINNED);
  rg_tensor *plain = made(RG_CPU);
  rg_tensor *beyond = made(ANOTHER);
  rg_tensor *view = NULL;
  float values[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };

  told[0] = 0;
  is_int(here->_device, RG_CPU, "a pinned tensor is the CPU's");
  is_status(rg_tensor_write(here, values, 32), RG_OK, "and written by it");
  told[0] = 0;
  is_status(rg_tensor_transfer(there, here), RG_OK, "from pinned memory");
  is_told("copy_behind 3 32;set 3 0;", "nobody waits for the copy");
  is_status(rg_transpose(here, 0, 0, &view), RG_OK, "a view of it");
  told[0] = 0;
  is_status(rg_tensor_read(view, values, 32), RG_OK, "whoever reads the view waits");
  is_told("mark_wait 3 0;", "for the copy");
  is_status(rg_tensor_transfer(here, there), RG_OK, "and back");
  is_told("mark_wait 3 0;copy_behind 0 32;follow 3 0;set 3 0;", "behind the first copy");
  is_status(rg_tensor_transfer(plain, there), RG_OK, "into memory that is not pinned");
  is_told("copy 0 32;", "it is waited for");
  is_status(rg_tensor_transfer(there, plain), RG_OK, "out of it");
  is_told("copy_behind 3 32;", "it has been read when the call returns");
  rg_tensor_release(view);
  told[0] = 0;
  is_status(rg_tensor_transfer(beyond, here), RG_OK, "to a second device");
  is_told("mark_wait 3 0;copy_behind 4 32;set 4 0;", "its copy is marked in its own stream");
  told[0] = 0;
  rg_tensor_release(here);
  is_told("mark_wait 3 0;mark_wait 4 0;", "memory is not given back under a copy");
  rg_tensor_release(beyond);
  rg_tensor_release(there);
  rg_tensor_release(plain);
  (void)rg_memory_trim(RG_PINNED);
}

/* An event orders after one write, not after everything queued on its stream. */
static void test_follow(void)
{
  rg_event *event = NULL;
  rg_event *here = NULL;
  rg_tensor *x;

  enters(1);
  x = made(DEVICE);
  is_status(rg_tensor_stream_order(x, true), RG_OK, "written on stream 1");
  is_status(rg_event_new(DEVICE, &event), RG_OK, "an event");
  is_status(rg_event_new(RG_CPU, &here), RG_OK, "one of the CPU");
  is_status(rg_event_set(event), RG_OK, "behind the write");
  enters(0);
  is_status(rg_tensor_follow(x, here), RG_EARG, "which is not the tensor's");
  is_status(rg_tensor_follow(x, event), RG_OK, "stream 0 follows the other");
  is_told("follow 3 0;", "and only that");
  is_status(rg_tensor_stream_order(x, false), RG_OK, "read on stream 0");
  is_told("", "behind it already");
  enters(2);
  is_status(rg_tensor_stream_order(x, false), RG_OK, "read on stream 2");
  is_told("join 2 2;", "which did not follow");
  rg_event_release(event);
  rg_event_release(here);
  rg_tensor_release(x);
  enters(0);
}

static void test_events(void)
{
  rg_tensor *there = made(DEVICE);
  rg_tensor *here = made(RG_CPU);
  rg_happening event = { 0 };
  rg_reader_facts facts = { 0 };
  int32_t kinds = 1 << RG_EVENT_OP | 1 << RG_EVENT_COPY;
  int32_t reader;
  int64_t at = 0;
  int64_t opened[2] = { rg_clock_ns(), 0 };

  told[0] = 0;
  is_status(rg_reader_open(kinds, RG_READ_FIRST | RG_READ_AXIS, 2, &reader), RG_OK, "recording");
  opened[1] = rg_clock_ns();
  is_told("wait 3 0;set 3 0;mark_wait 3 0;wait 4 0;set 4 0;mark_wait 4 0;",
          "the axis of a device begins where it has nothing left to do");
  is_status(rg_fill_(here, 1), RG_OK, "a call on the CPU");
  enters(1);
  is_status(rg_tensor_transfer(there, here), RG_OK, "a copy on stream 1");
  is_status(rg_fill_(here, 2), RG_OK, "a call too many");
  enters(0);
  rg_reader_hear(reader, 0);
  is_status(rg_reader_facts_of(reader, &facts), RG_OK, "the end");
  is_int(facts.n_seen, 3, "three calls");
  is_int(facts.n_dropped, 1, "and one is known to be missing");
  is_status(rg_reader_next(reader, &at, &event), RG_OK, "the first");
  ok(strcmp(event.name, "fill") == 0 && event.device == RG_CPU && event.stream == 0, "of the CPU");
  ok(event.to_ns >= event.from_ns && event.begin_ns >= facts.begin_ns, "time goes on");
  is_status(rg_reader_next(reader, &at, &event), RG_OK, "the second");
  ok(strcmp(event.name, "copy") == 0 && event.device == DEVICE && event.stream == 1, "of stream 1");
  is_int((int64_t)(event.to_ns - event.from_ns + 0.5), 1000, "by the device's clock");
  /* marks of both devices were set, then the copy's */
  ok(event.from_ns >= (double)opened[0] + 2000 && event.from_ns <= (double)opened[1] + 2000,
     "counted from where its axis begins, on the clock of the core");
  is_int((int64_t)(event.device_ns + 0.5), 1000, "and what the device needed");
  is_int((int64_t)event.bytes, rg_tensor_bytes(here), "what was copied");
  is_status(rg_reader_next(reader, &at, &event), RG_OK, "there is no third");
  ok(event.name == NULL, "it says so");
  rg_reader_close(reader);
  is_status(rg_reader_next(reader, &at, &event), RG_EARG, "it is closed");
  is_status(rg_reader_open(1 << RG_EVENT_WAIT, 0, 8, &reader), RG_OK, "one of waits");
  is_status(rg_device_wait(DEVICE), RG_OK, "a wait");
  is_status(rg_fill_(here, 2), RG_OK, "no wait");
  at = 0;
  is_status(rg_reader_next(reader, &at, &event), RG_OK, "the wait");
  ok(event.name != NULL && event.kind == RG_EVENT_WAIT && event.device == DEVICE, "is an event");
  is_status(rg_reader_next(reader, &at, &event), RG_OK, "reading waits too");
  ok(event.name == NULL, "which is none");
  rg_reader_close(reader);
  rg_tensor_release(there);
  rg_tensor_release(here);
  told[0] = 0;
}

/* Few events of a device among those of the CPU: their marks go with the chunks they lie in. */
static void test_marks_go(void)
{
  enum { EVENTS = 8192, OF_DEVICE = 100, MOST = 32 };
  const int32_t kinds = 1 << RG_EVENT_OP | 1 << RG_EVENT_COPY;
  const int64_t before = n_marks;
  rg_tensor *there = made(DEVICE);
  rg_tensor *here = made(RG_CPU);
  int32_t reader = -1;
  int64_t most = 0;
  int n_failed = 0;

  is_status(rg_reader_open(kinds, 0, 8, &reader), RG_OK, "the last eight events");
  for (int i = 0; i < EVENTS; i++) {
    n_failed += (i % OF_DEVICE == OF_DEVICE - 1 ? rg_tensor_transfer(there, here)
                                                : rg_fill_(here, 1)) != RG_OK;
    most = n_marks - before > most ? n_marks - before : most;
  }
  is_int(n_failed, 0, "thousands of calls");
  ok(most >= 2 && most <= MOST, "marks of chunks that went are gone");
  rg_reader_close(reader);
  is_int(n_marks, before, "and with the last reader all");
  rg_tensor_release(there);
  rg_tensor_release(here);
  told[0] = 0;
}

static void test_tags(void)
{
  rg_tag_memory m = { 0 };
  int32_t one = 0;
  int32_t same = 0;
  int32_t more = 0;
  char name[16];
  rg_tensor *x;

  is_status(rg_memory_tag("weights", &one), RG_OK, "a tag");
  is_status(rg_memory_tag("weights", &same), RG_OK, "and again");
  is_int(same, one, "is the same");
  ok(strcmp(rg_memory_tag_name(one), "weights") == 0, "it has its name");
  is_int(rg_memory_tag_enter(one), 0, "no tag was set");
  x = made(DEVICE);
  is_int(rg_memory_tag_enter(0), one, "now one was");
  rg_tensor_release(made(DEVICE));
  is_status(rg_memory_tag_of(DEVICE, one, &m), RG_OK, "its counts");
  is_int(m.live_bytes, 32, "what was taken under it");
  is_int(m.n_blocks, 1, "and nothing else");
  is_status(rg_memory_tag_of(RG_CPU, one, &m), RG_OK, "of another device");
  is_status(rg_memory_tag_of(RG_CPU, 200, &m), RG_EARG, "a tag that nobody made");
  is_status(rg_memory_tag_of(RG_CPU, 0, &m), RG_EARG, "nor is 0 one");
  is_status(rg_memory_tag_of(-1, one, &m), RG_EARG, "a device that there is not");
  is_status(rg_memory_tag_of(RG_CPU, one, NULL), RG_EARG, "nowhere to put them");
  is_int(m.live_bytes, 0, "nothing");
  rg_tensor_release(x);
  is_status(rg_memory_tag_of(DEVICE, one, &m), RG_OK, "when it was given back");
  ok(m.live_bytes == 0 && m.peak_bytes == 32 && m.n_blocks == 0, "only the peak is left");
  for (int i = 2; i < 64; i++) {
    snprintf(name, sizeof(name), "tag %d", i);
    if (rg_memory_tag(name, &more) != RG_OK || more != i) {
      ok(false, "63 tags are possible");
    }
  }
  is_status(rg_memory_tag("one more", &more), RG_EARG, "and not one more");
  is_status(rg_memory_tag("", &more), RG_EARG, "a tag has a name");
  ok(rg_memory_tag_name(64) == NULL, "they end");
  (void)rg_memory_tag_enter(1000);
  is_int(rg_memory_tag_enter(0), 0, "a number that is none is no tag");
}

/* A device that is gone is no device that is full. */
static void test_lost(void)
{
  rg_block block;

  is_lost = true;
  ok(rg_block_alloc(DEVICE, 1 << 20, &block) == RG_EDEVICE, "a lost device has no memory");
  ok(strstr(rg_error_message(), "went up in smoke") != NULL, "the error is the device's own");
  ok(rg_block_alloc(RG_PINNED, 1 << 20, &block) == RG_EDEVICE, "nor any that is pinned");
  is_lost = false;
}

/* Devices are counted from 0, the CPU is none of them. */
static void test_names(void)
{
  ok(strcmp(rg_device_name(RG_CPU_DEVICE), "cpu") == 0, "the CPU");
  for (int32_t i = RG_CPU_DEVICE + 1; i < RG_DEVICES; i++) {
    char want[32];

    snprintf(want, sizeof(want), "%s:%d", rg_device_prefix(), (int)(i - RG_CPU_DEVICE - 1));
    ok(strcmp(rg_device_name(i), want) == 0, want);
  }
}

int main(void)
{
  test_names();
  test_cpu();
  rg_driver_register(DEVICE, &driver);
  rg_driver_register(ANOTHER, &driver);
  test_turns();
  test_held();
  test_pinned();
  test_follow();
  test_events();
  test_marks_go();
  test_tags();
  test_lost();
  return done();
}
