/* SPDX-License-Identifier: MIT */
/*
** The loader's threads: the same batches whatever their number, rows of files, what goes wrong in
** them, and that they end.
*/
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "ridge.h"
#include "tap.h"

enum { ROWS = 50, NUMBERS = 3, BATCH = 7 };

static float numbers[ROWS * NUMBERS];
static int64_t labels[ROWS];

static void field_of(rg_field *f, const void *data, int64_t n, int32_t dtype)
{
  *f = (rg_field){
    .data = data, .rows = ROWS, .numbers = n, .scale = 1, .file = -1, .dtype = dtype, .out = dtype
  };
}

static rg_loader *loader_of(int32_t workers, const rg_transform *transform)
{
  rg_field fields[2];
  rg_loader *loader = NULL;

  field_of(&fields[0], numbers, NUMBERS, RG_F32);
  field_of(&fields[1], labels, 1, RG_I64);
  if (rg_loader_new(fields, 2, workers, 4, transform, &loader) != RG_OK) {
    tap_bail(rg_error_message());
  }
  return loader;
}

/* Order rows first, first + 1, ... modulo all. */
static rg_status order(rg_loader *loader, int64_t first, int64_t n)
{
  int64_t index[BATCH];
  int64_t shape[2] = { n, NUMBERS };
  rg_tensor *out[2] = { NULL, NULL };
  rg_status status;

  for (int64_t i = 0; i < n; i++) {
    index[i] = (first + i) % ROWS;
  }
  status = rg_empty(RG_F32, RG_CPU, shape, 2, &out[0]);
  status = status == RG_OK ? rg_empty(RG_I64, RG_CPU, shape, 1, &out[1]) : status;
  status = status == RG_OK ? rg_loader_order(loader, index, n, out) : status;
  rg_tensor_release(out[0]);
  rg_tensor_release(out[1]);
  return status;
}

static bool is_batch(rg_tensor *const *out, int64_t first, int64_t n, float factor)
{
  bool same = true;

  for (int64_t i = 0; i < n; i++) {
    int64_t row = (first + i) % ROWS;
    double value = 0;

    same = same && rg_tensor_get(out[1], (const int64_t[]){ i }, 1, &value) == RG_OK &&
           value == (double)labels[row];
    for (int64_t k = 0; k < NUMBERS; k++) {
      same = same && rg_tensor_get(out[0], (const int64_t[]){ i, k }, 2, &value) == RG_OK &&
             value == (double)(numbers[row * NUMBERS + k] * factor);
    }
  }
  return same;
}

static void test_batches(void)
{
  for (int32_t workers = 0; workers <= 3; workers++) {
    rg_loader *loader = loader_of(workers, NULL);
    bool same = true;
    int64_t taken = 0;

    for (int64_t at = 0; at < 40; at++) {
      rg_tensor *out[8] = { NULL };

      while (at + rg_loader_waiting(loader) < 40 && rg_loader_waiting(loader) < 4) {
        same = same && order(loader, (at + rg_loader_waiting(loader)) * BATCH, BATCH) == RG_OK;
      }
      same = same && rg_loader_next(loader, out) == RG_OK && is_batch(out, at * BATCH, BATCH, 1);
      taken++;
      rg_tensor_release(out[0]);
      rg_tensor_release(out[1]);
    }
    ok(same, "batches come in the order they were asked for, with the rows they were asked for");
    is_int(taken, 40, "all of them");
    is_status(rg_loader_next(loader, (rg_tensor *[8]){ NULL }), RG_EARG, "none is left");
    rg_loader_release(loader);
  }
}

static void test_ready(void)
{
  for (int workers = 0; workers < 2; workers++) {
    rg_loader *loader = loader_of(workers, NULL);
    rg_tensor *out[8] = { NULL };
    int64_t end_ns = rg_clock_ns() + 10000000000;

    is_int(rg_loader_ready(loader), 0, "nothing was ordered");
    is_status(order(loader, 0, BATCH), RG_OK, "a batch is ordered");
    while (!rg_loader_ready(loader) && rg_clock_ns() < end_ns) {
    }
    is_int(rg_loader_ready(loader), 1, "and is there after a while");
    is_status(rg_loader_next(loader, out), RG_OK, "taken");
    is_int(rg_loader_ready(loader), 0, "and nothing is left");
    rg_tensor_release(out[0]);
    rg_tensor_release(out[1]);
    rg_loader_release(loader);
  }
}

static void test_refused(void)
{
  rg_loader *loader = loader_of(2, NULL);
  rg_loader *other = NULL;
  rg_field fields[2];

  for (int i = 0; i < 4; i++) {
    is_status(order(loader, i, BATCH), RG_OK, "a batch is ordered");
  }
  is_status(order(loader, 0, BATCH), RG_EARG, "there is no room for a fifth");
  rg_loader_release(loader); /* with batches that nobody took */
  loader = loader_of(1, NULL);
  is_status(rg_loader_order(loader, (const int64_t[]){ ROWS }, 1, (rg_tensor *[2]){ NULL }),
            RG_EARG, "no such row");
  rg_loader_release(loader);
  field_of(&fields[0], numbers, NUMBERS, RG_F32);
  field_of(&fields[1], labels, 1, RG_I64);
  fields[1].rows--;
  is_status(rg_loader_new(fields, 2, 1, 1, NULL, &other), RG_EARG, "fields of one length");
  fields[1].rows++;
  fields[1].out = RG_F16;
  is_status(rg_loader_new(fields, 2, 1, 1, NULL, &other), RG_EDTYPE, "what it converts to");
  is_status(rg_loader_new(fields, 0, 1, 1, NULL, &other), RG_EARG, "a field at least");
  is_status(rg_loader_new(fields, 1, 1, 0, NULL, &other), RG_EARG, "room for a batch at least");
}

/* -- Files ---------------------------------------------------------------------------- */

enum { PAGES = 4, PAGE = 4096 };

/* A file of PAGES pages, byte i being i % 251. */
static int file_of(char *path)
{
  static unsigned char bytes[PAGES * PAGE];
  int fd = mkstemp(path);

  for (int i = 0; i < PAGES * PAGE; i++) {
    bytes[i] = (unsigned char)(i % 251);
  }
  ok(fd >= 0 && write(fd, bytes, sizeof bytes) == sizeof bytes, "a file");
  return fd;
}

/* One row through a loader, as the number it is or what became of it. */
static rg_status row_of(rg_loader *loader, int64_t row, double *value)
{
  rg_tensor *out[8] = { NULL };
  rg_tensor *x = NULL;
  rg_status status;

  is_status(rg_empty(RG_F32, RG_CPU, (const int64_t[]){ 1 }, 1, &x), RG_OK, "a place");
  is_status(rg_loader_order(loader, &row, 1, &x), RG_OK, "a row is ordered");
  status = rg_loader_next(loader, out);
  if (status == RG_OK) {
    status = rg_tensor_get(out[0], (const int64_t[]){ 0 }, 1, value);
    rg_tensor_release(out[0]);
  }
  rg_tensor_release(x);
  return status;
}

static void test_file(int32_t workers)
{
  char path[] = "/tmp/ridge_loader_XXXXXX";
  int fd = file_of(path);
  rg_map *map = NULL;
  rg_loader *loader = NULL;
  double value = 0;

  is_status(rg_map_open(path, &map), RG_OK, "is mapped");
  (void)unlink(path);
  is_int(map->_bytes, PAGES * PAGE, "all of it");
  /* numbers of 4 bytes from byte 1 on: nothing lies as its type does */
  rg_field f = { .data = map->_data + 1,
                 .offset = 1,
                 .rows = (PAGES * PAGE - 1) / 4,
                 .numbers = 1,
                 .scale = 2,
                 .shift = 1,
                 .file = map->_file,
                 .dtype = RG_I32,
                 .out = RG_F32 };

  is_status(rg_loader_new(&f, 1, workers, 2, NULL, &loader), RG_OK, "a loader over it");
  is_status(row_of(loader, 0, &value), RG_OK, "row 0 comes");
  close_to(value, 2.0 * (1 + 256 * (2 + 256 * (3 + 256 * 4.0))) + 1, 8, "scaled and shifted");
  ok(ftruncate(fd, 3 * PAGE + 20) == 0, "the file becomes shorter within its last page");
  is_status(row_of(loader, f.rows - 1, &value), RG_EFORMAT, "its last row is not there any more");
  ok(strstr(rg_error_message(), "cut off: 12308 bytes are there") != NULL, rg_error_message());
  ok(ftruncate(fd, PAGE) == 0, "and by pages");
  is_status(row_of(loader, f.rows - 2, &value), RG_EFORMAT, "the same, not a signal");
  ok(strstr(rg_error_message(), "row 4093 is cut off: 4096 bytes") != NULL, rg_error_message());
  is_status(row_of(loader, 0, &value), RG_OK, "what is there is read as before");
  rg_loader_release(loader);
  ok(rg_map_retain(map) == map, "a map is counted");
  rg_map_release(map);
  is_int(map->_data[1], 1, "and stays as long as somebody holds it");
  rg_map_release(map);
  (void)close(fd);
}

static void test_no_file(void)
{
  char path[] = "/tmp/ridge_loader_XXXXXX";
  int fd = mkstemp(path);
  rg_map *map = NULL;

  is_status(rg_map_open("/tmp", &map), RG_EIO, "a folder is not mapped");
  is_status(rg_map_open("/tmp/ridge/no/such/file", &map), RG_EIO, "nor what is not there");
  is_status(rg_map_open("/dev/null", &map), RG_EIO, "nor a device");
  is_status(rg_map_open(path, &map), RG_OK, "an empty file is");
  is_int(map->_bytes, 0, "as nothing");
  rg_map_release(map);
  rg_map_release(NULL);
  (void)unlink(path);
  (void)close(fd);
}

/* A transform that doubles, and fails at row 13. */
static int32_t open_it(void *given, void **state, char *message, int64_t room)
{
  (void)message;
  (void)room;
  *state = given;
  return 0;
}

static int32_t run_it(void *state, void *const *fields, const int64_t *index, int64_t rows,
                      char *message, int64_t room)
{
  float *x = fields[0];

  (void)state;
  for (int64_t i = 0; i < rows; i++) {
    if (index[i] == 13) {
      (void)snprintf(message, (size_t)room, "thirteen");
      return -1;
    }
    for (int k = 0; k < NUMBERS; k++) {
      x[i * NUMBERS + k] *= 2;
    }
  }
  return 0;
}

static void close_it(void *state)
{
  (void)state;
}

static void test_transform(void)
{
  const rg_transform twice = { .open = open_it, .run = run_it, .close = close_it };

  for (int32_t workers = 0; workers <= 2; workers++) {
    rg_loader *loader = loader_of(workers, &twice);
    rg_tensor *out[8] = { NULL };

    is_status(order(loader, 0, BATCH), RG_OK, "a batch");
    is_status(order(loader, BATCH, BATCH), RG_OK, "one with row 13");
    is_status(order(loader, 20, BATCH), RG_OK, "and one behind it");
    is_status(rg_loader_next(loader, out), RG_OK, "the first comes");
    ok(is_batch(out, 0, BATCH, 2), "changed");
    rg_tensor_release(out[0]);
    rg_tensor_release(out[1]);
    is_status(rg_loader_next(loader, out), RG_EARG, "the second fails");
    ok(strstr(rg_error_message(), "thirteen") != NULL, "with what the transform said");
    is_status(rg_loader_next(loader, out), RG_OK, "the third comes");
    ok(is_batch(out, 20, BATCH, 2), "changed too");
    rg_tensor_release(out[0]);
    rg_tensor_release(out[1]);
    rg_loader_release(loader);
  }
}

/* How many allocations an order makes, by refusing one after the other. */
static int allocations(rg_loader *loader)
{
  rg_status status;
  int n = 0;

  do {
    rg_alloc_fail_at(++n);
    status = order(loader, 0, BATCH);
    rg_alloc_fail_at(0);
  } while (status == RG_ENOMEM && n < 100);
  is_status(status, RG_OK, "an order, once nothing is refused");
  return n - 1;
}

/* The list of a batch's rows stays for those of its size that come after it. */
static void test_room(void)
{
  rg_loader *loader = loader_of(0, NULL);
  rg_tensor *out[8] = { NULL };
  int n[6];

  for (int i = 0; i < 6; i++) {
    n[i] = allocations(loader);
    is_status(rg_loader_next(loader, out), RG_OK, "the batch");
    ok(is_batch(out, 0, BATCH, 1), "as it was ordered");
    rg_tensor_release(out[0]);
    rg_tensor_release(out[1]);
  }
  is_int(n[5], n[0] - 1, "one allocation fewer than the first time");
  rg_loader_release(loader);
}

static void test_refusals(void)
{
  rg_field f;
  int n = 0;
  rg_status status;

  field_of(&f, numbers, NUMBERS, RG_F32);
  do {
    rg_loader *loader = NULL;

    rg_alloc_fail_at(++n);
    status = rg_loader_new(&f, 1, 1, 2, NULL, &loader);
    rg_alloc_fail_at(0);
    rg_loader_release(loader);
  } while (status == RG_ENOMEM && n < 100);
  is_status(status, RG_OK, "every refused allocation is an error, and leaves nothing behind");
}

/* A transform of which each row takes a while; Ctrl-C comes with the third. */
static _Atomic int32_t rows_done;
static _Atomic bool presses;

static int32_t run_slowly(void *state, void *const *fields, const int64_t *index, int64_t rows,
                          char *message, int64_t room)
{
  (void)state;
  (void)message;
  (void)room;
  for (int64_t i = 0; i < rows; i++) {
    float *row = (float *)fields[0] + i * NUMBERS;
    const int64_t *label = (const int64_t *)fields[1] + i;

    for (int64_t k = 0; k < NUMBERS; k++) {
      row[k] = *label == 100 + index[i] ? 2 * row[k] : -1;
    }
    nanosleep(&(struct timespec){ .tv_nsec = 11000000 }, NULL);
    if (++rows_done == 3 && presses) {
      rg_interrupt_set();
    }
  }
  return 0;
}

/* A batch is left in its middle, and made anew when it is asked for again. */
static void test_interrupt(int32_t workers)
{
  const rg_transform slow = { .open = open_it, .run = run_slowly, .close = close_it };
  rg_loader *loader = loader_of(workers, &slow);
  rg_tensor *out[2] = { NULL, NULL };

  rows_done = 0;
  presses = true;
  is_status(order(loader, 5, BATCH), RG_OK, "a slow batch");
  is_status(rg_loader_next(loader, out), RG_EINTR, "its transform is interrupted");
  nanosleep(&(struct timespec){ .tv_nsec = 50000000 }, NULL);
  ok(rows_done < BATCH, "before all rows are done");
  is_int(rg_loader_waiting(loader), 1, "and still ordered");
  presses = false;
  rg_interrupt_clear();
  is_status(rg_loader_next(loader, out), RG_OK, "asked for again");
  ok(is_batch(out, 5, BATCH, 2), "it is whole, and nothing is done to it twice");
  rg_tensor_release(out[0]);
  rg_tensor_release(out[1]);
  rows_done = 0;
  presses = true;
  is_status(order(loader, 0, BATCH), RG_OK, "another");
  is_status(rg_loader_next(loader, out), RG_EINTR, "is interrupted");
  rg_loader_release(loader);
  ok(rows_done < BATCH, "and not waited for at the end");
  rg_interrupt_clear();
}

/* One row that nobody can end: it goes on behind the loader's end, which gives everything back. */
static _Atomic bool row_may_end, row_ended, dropped;

static int32_t run_long(void *state, void *const *fields, const int64_t *index, int64_t rows,
                        char *message, int64_t room)
{
  (void)state;
  (void)fields;
  (void)index;
  (void)rows;
  (void)message;
  (void)room;
  rg_interrupt_set();
  for (int i = 0; i < 10000 && !row_may_end; i++) {
    nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
  }
  row_ended = true;
  return 0;
}

static void drop_it(void *given)
{
  (void)given;
  dropped = true;
}

static void test_long_row(int32_t workers)
{
  const rg_transform slow = {
    .open = open_it, .run = run_long, .close = close_it, .drop = drop_it
  };
  rg_tensor *x = NULL;
  rg_tensor *out[2] = { NULL, NULL };
  rg_loader *loader = NULL;
  rg_field f;
  int64_t before = rg_live_tensors();

  row_may_end = row_ended = dropped = false;
  is_status(rg_empty(RG_F32, RG_CPU, (const int64_t[]){ ROWS, NUMBERS }, 2, &x), RG_OK, "a source");
  field_of(&f, x->_data, NUMBERS, RG_F32);
  f.tensor = x;
  is_status(rg_loader_new(&f, 1, workers, 1, &slow, &loader), RG_OK, "a loader");
  rg_tensor_release(x);
  is_status(rg_empty(RG_F32, RG_CPU, (const int64_t[]){ 1, NUMBERS }, 2, &x), RG_OK, "a place");
  is_status(rg_loader_order(loader, (const int64_t[]){ 0 }, 1, &x), RG_OK, "a row");
  rg_tensor_release(x);
  is_status(rg_loader_next(loader, out), RG_EINTR, "Ctrl-C while it is under way");
  rg_interrupt_clear();
  rg_loader_release(loader);
  ok(!row_ended && !dropped, "its end is not waited for");
  is_int(rg_live_tensors(), before + 2, "what it reads and writes stays");
  row_may_end = true;
  for (int i = 0; i < 10000 && rg_live_tensors() > before; i++) {
    nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
  }
  ok(dropped && row_ended, "until it is done");
  is_int(rg_live_tensors(), before, "and is given back");
}

/* The loader waits a tenth of a second at a time, and looks again.  While `patient`, each wait is
** longer by 20 s: what is known at once was told, and nobody looked again. */
static atomic_bool patient;
static atomic_int ran_out;

int pthread_cond_timedwait(pthread_cond_t *restrict of, pthread_mutex_t *restrict lock,
                           const struct timespec *restrict until)
{
  struct timespec then = *until;

  then.tv_sec += patient ? 20 : 0;
  int code = pthread_cond_clockwait(of, lock, CLOCK_REALTIME, &then);

  ran_out += patient && code != 0;
  return code;
}

static void test_told(void)
{
  rg_loader *loader = loader_of(2, NULL);
  rg_tensor *out[2] = { NULL, NULL };

  patient = true;
  is_status(order(loader, 0, BATCH), RG_OK, "a batch");
  is_status(rg_loader_next(loader, out), RG_OK, "is waited for");
  is_int(ran_out, 0, "until a thread says that it is there");
  rg_tensor_release(out[0]);
  rg_tensor_release(out[1]);
  rg_loader_release(loader);
  is_int(ran_out, 0, "and threads say that they end");
  patient = false;
}

/* Rows without a transform, more than fit in a moment. */
static void test_interrupted_rows(void)
{
  rg_loader *loader = loader_of(0, NULL);
  rg_tensor *out[2] = { NULL, NULL };

  is_status(order(loader, 0, BATCH), RG_OK, "a batch");
  rg_interrupt_set();
  is_status(rg_loader_next(loader, out), RG_EINTR, "while Ctrl-C stands");
  rg_interrupt_clear();
  is_status(rg_loader_next(loader, out), RG_OK, "and afterwards");
  ok(is_batch(out, 0, BATCH, 1), "the same");
  rg_tensor_release(out[0]);
  rg_tensor_release(out[1]);
  rg_loader_release(loader);
}

int main(void)
{
  for (int i = 0; i < ROWS * NUMBERS; i++) {
    numbers[i] = (float)i;
  }
  for (int i = 0; i < ROWS; i++) {
    labels[i] = 100 + i;
  }
  test_batches();
  test_ready();
  test_refused();
  test_file(0);
  test_file(2);
  test_no_file();
  test_transform();
  test_interrupt(0);
  test_interrupt(2);
  test_long_row(0);
  test_long_row(2);
  test_interrupted_rows();
  test_told();
  if (!tap_refusing()) {
    test_refusals();
    test_room();
  }
  is_int(rg_live_tensors(), 0, "nothing is left");
  return done();
}
