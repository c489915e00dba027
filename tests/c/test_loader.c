/* SPDX-License-Identifier: MIT */
/*
** The loader's threads: the same batches whatever their number, rows of files, what goes wrong in
** them, and that they end.
*/
#include <fcntl.h>
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

static void test_file(void)
{
  char path[] = "/tmp/ridge_loader_XXXXXX";
  unsigned char bytes[ROWS];
  int fd = mkstemp(path);
  rg_field f = {
    .rows = ROWS, .numbers = 1, .scale = 2, .shift = 1, .file = fd, .dtype = RG_U8, .out = RG_F32
  };
  rg_loader *loader = NULL;
  rg_tensor *out[8] = { NULL };
  rg_tensor *x = NULL;
  double value = 0;

  for (int i = 0; i < ROWS; i++) {
    bytes[i] = (unsigned char)i;
  }
  ok(fd >= 0 && write(fd, bytes, ROWS) == ROWS, "a file");
  (void)unlink(path);
  is_status(rg_loader_new(&f, 1, 2, 2, NULL, &loader), RG_OK, "a loader over it");
  is_status(rg_empty(RG_F32, RG_CPU, (const int64_t[]){ 1 }, 1, &x), RG_OK, "a place");
  is_status(rg_loader_order(loader, (const int64_t[]){ 7 }, 1, &x), RG_OK, "row 7");
  is_status(rg_loader_next(loader, out), RG_OK, "comes");
  is_status(rg_tensor_get(out[0], (const int64_t[]){ 0 }, 1, &value), RG_OK, "and is read");
  close_to(value, 15, 0, "scaled and shifted");
  ok(ftruncate(fd, 20) == 0, "the file becomes shorter");
  is_status(rg_loader_order(loader, (const int64_t[]){ 30 }, 1, out), RG_OK, "row 30");
  rg_tensor_release(out[0]);
  is_status(rg_loader_next(loader, out), RG_EFORMAT, "is cut off");
  ok(strstr(rg_error_message(), "row 30") != NULL, "and it says which");
  rg_tensor_release(x);
  rg_loader_release(loader);
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

int main(void)
{
  for (int i = 0; i < ROWS * NUMBERS; i++) {
    numbers[i] = (float)i;
  }
  for (int i = 0; i < ROWS; i++) {
    labels[i] = 100 + i;
  }
  test_batches();
  test_refused();
  test_file();
  test_transform();
  if (!tap_refusing()) {
    test_refusals();
  }
  is_int(rg_live_tensors(), 0, "nothing is left");
  return done();
}
