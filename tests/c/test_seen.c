/* SPDX-License-Identifier: MIT */
/*
** What a recorder has seen: a table of storages that grows, or cannot, and which views are one.
*/
#include "graph/seen.h"
#include "tap.h"

#define SHAPE(...) ((const int64_t[]){ __VA_ARGS__ })

enum { FIRST = 64, MOST = 300, LARGEST_BITS = 24 };

static rg_tensor *made(const int64_t *shape, int32_t ndim)
{
  rg_tensor *x = NULL;

  if (rg_empty(RG_F32, RG_CPU, shape, ndim, &x) != RG_OK) {
    tap_bail("no tensor");
  }
  return x;
}

/* -- Storages ------------------------------------------------------------------------------ */

/* Is each of n tensors' storages found, and the one behind them not? */
static bool all_found(const rg_seen_storages *all, rg_tensor *const *x, int32_t n)
{
  bool found = n == MOST || rg_seen_find(all, x[n]->_storage) == NULL;

  for (int32_t i = 0; i < n; i++) {
    const stored *s = rg_seen_find(all, x[i]->_storage);

    found = found && s != NULL && s->storage == x[i]->_storage && s->number == i;
  }
  return found;
}

static int32_t longest(const rg_seen_storages *all)
{
  int32_t most = 0;

  for (int32_t i = 0; i < rg_seen_buckets(all); i++) {
    int32_t n = 0;

    for (const stored *s = all->bucket[i]; s != NULL; s = s->next) {
      n++;
    }
    most = n > most ? n : most;
  }
  return most;
}

static void test_storages(void)
{
  rg_seen_storages all = { 0 };
  rg_tensor *x[MOST];
  stored *s = NULL;
  bool found = true;
  bool begun = true;

  for (int32_t i = 0; i < MOST; i++) {
    x[i] = made(SHAPE(4), 1);
    for (int32_t k = 0; k < i % 3; k++) {
      rg_storage_wrote(x[i]->_storage);
    }
  }
  is_int(rg_seen_buckets(&all), 0, "nothing to look into");
  ok(rg_seen_find(&all, x[0]->_storage) == NULL, "and nothing is found");
  for (int32_t i = 0; i < MOST; i++) {
    is_status(rg_seen_add(&all, x[i]->_storage, &s), RG_OK, "one more");
    s->number = i;
    begun = begun && s->wrote == RG_IR_NONE && s->first == RG_IR_NONE && s->views == NULL &&
            s->version == 0 && s->output == 0 && !s->outside && !s->state && !s->placed &&
            s->counted == (uint64_t)(i % 3);
    found = found && all.n == i + 1 && all_found(&all, x, i + 1) &&
            rg_seen_buckets(&all) == (i < FIRST       ? FIRST
                                      : i < 4 * FIRST ? 4 * FIRST
                                                      : 16 * FIRST);
  }
  ok(begun, "each begins as it is");
  ok(found, "each is found while the table grows, as many buckets as there are storages");
  ok(longest(&all) < 8, "which are spread over it");
  is_int(atomic_load(&x[0]->_storage->weak), 2, "its struct is held");
  rg_seen_end(&all);
  is_int(atomic_load(&x[0]->_storage->weak), 1, "and not for longer");
  ok(all.bucket == NULL && all.bits == 0 && all.n == 0, "nothing is left");
  for (int32_t i = 0; i < MOST; i++) {
    rg_tensor_release(x[i]);
  }
}

/* A table that cannot grow takes more than it has buckets; without the first there is none. */
static void test_no_memory(void)
{
  rg_seen_storages all = { 0 };
  rg_tensor *x[MOST];
  stored *s = NULL;

  if (tap_refusing()) {
    return;
  }
  for (int32_t i = 0; i < MOST; i++) {
    x[i] = made(SHAPE(4), 1);
  }
  for (int64_t n = 1; n <= 2; n++) { /* the table, the entry */
    rg_alloc_fail_at(n);
    is_status(rg_seen_add(&all, x[0]->_storage, &s), RG_ENOMEM, "no memory for the first");
    rg_alloc_fail_at(0);
    is_int(all.n, 0, "it is not counted");
    ok(rg_seen_find(&all, x[0]->_storage) == NULL, "nor found");
    is_int(atomic_load(&x[0]->_storage->weak), 1, "nor held");
  }
  for (int32_t i = 0; i < FIRST + 2; i++) {
    rg_alloc_fail_at(i >= FIRST ? 1 : 0); /* at its second try */
    is_status(rg_seen_add(&all, x[i]->_storage, &s), RG_OK, "in a table that cannot grow");
    rg_alloc_fail_at(0);
    s->number = i;
  }
  is_int(rg_seen_buckets(&all), FIRST, "it has as many buckets as before");
  ok(all_found(&all, x, FIRST + 2), "and all is found");
  is_status(rg_seen_add(&all, x[FIRST + 2]->_storage, &s), RG_OK, "and where it can again");
  s->number = FIRST + 2;
  is_int(rg_seen_buckets(&all), 4 * FIRST, "it grows");
  ok(all_found(&all, x, FIRST + 3), "and all is found");
  rg_seen_end(&all);
  for (int32_t i = 0; i < MOST; i++) {
    rg_tensor_release(x[i]);
  }
}

/* However many there are, 2^24 buckets are enough. */
static void test_largest(void)
{
  const size_t n = (size_t)1 << LARGEST_BITS;
  rg_seen_storages all = { .bits = LARGEST_BITS, .n = (int32_t)n };
  rg_tensor *x = made(SHAPE(4), 1);
  stored *s = NULL;

  all.bucket = rg_host_zeroed(n * sizeof(stored *));
  if (all.bucket == NULL) {
    tap_bail("no table");
  }
  is_status(rg_seen_add(&all, x->_storage, &s), RG_OK, "one more than buckets");
  is_int(all.bits, LARGEST_BITS, "of a table that is as large as they get");
  ok(rg_seen_find(&all, x->_storage) == s, "is found");
  rg_seen_end(&all);
  rg_tensor_release(x);
}

/* -- Views --------------------------------------------------------------------------------- */

/* A window of x, which is long enough. */
static rg_tensor *window(const rg_tensor *x, int32_t dtype, const int64_t *shape,
                         const int64_t *stride, int32_t ndim, int64_t offset)
{
  rg_tensor *view = NULL;

  if (rg_tensor_view_of(x->_storage, dtype, shape, stride, ndim, offset, &view) != RG_OK) {
    tap_bail(rg_error_message());
  }
  return view;
}

static void test_views(void)
{
  enum { N = 11 };
  rg_seen_storages all = { 0 };
  rg_tensor *x = made(SHAPE(64), 1);
  rg_tensor *view[N] = {
    window(x, RG_F32, SHAPE(2, 3), SHAPE(3, 1), 2, 0),
    window(x, RG_F32, SHAPE(2, 3), SHAPE(3, 1), 2, 4),       /* another place */
    window(x, RG_I32, SHAPE(2, 3), SHAPE(3, 1), 2, 0),       /* type */
    window(x, RG_F32, SHAPE(3, 3), SHAPE(3, 1), 2, 0),       /* first axis */
    window(x, RG_F32, SHAPE(2, 2), SHAPE(3, 1), 2, 0),       /* last axis */
    window(x, RG_F32, SHAPE(2, 3), SHAPE(4, 1), 2, 0),       /* first stride */
    window(x, RG_F32, SHAPE(2, 3), SHAPE(3, 2), 2, 0),       /* last stride */
    window(x, RG_F32, SHAPE(2, 3, 1), SHAPE(3, 1, 1), 3, 0), /* one axis more */
    window(x, RG_F32, SHAPE(2), SHAPE(3), 1, 0),             /* and fewer */
    window(x, RG_F32, NULL, NULL, 0, 0),
    window(x, RG_F32, SHAPE(0), SHAPE(1), 1, 0),
  };
  rg_tensor *same[3] = {
    window(x, RG_F32, SHAPE(2, 3), SHAPE(3, 1), 2, 0),       /* the first again */
    window(x, RG_F32, SHAPE(2, 3, 1), SHAPE(3, 1, 7), 3, 0), /* along one number none is taken */
    window(x, RG_F32, SHAPE(0), SHAPE(5), 1, 0),             /* nor along none */
  };
  const int32_t of[3] = { 0, 7, 10 };
  stored *s = NULL;
  bool right = true;

  is_int(rg_seen_offset(view[1]), 4, "where a view begins, in bytes");
  is_status(rg_seen_add(&all, x->_storage, &s), RG_OK, "a storage");
  for (int32_t i = 0; i < N; i++) {
    right = right && rg_seen_view(s, view[i]) == NULL;
    is_status(rg_seen_set(s, view[i], 10 + i), RG_OK, "a view");
    right = right && s->views == rg_seen_view(s, view[i]) &&
            s->views->offset == rg_seen_offset(view[i]);
  }
  ok(right, "each is another one, the newest first");
  for (int32_t i = 0; i < N; i++) {
    right = right && rg_seen_view(s, view[i])->value == 10 + i;
  }
  ok(right, "and has its value");
  for (int32_t i = 0; i < 3; i++) {
    right = right && rg_seen_view(s, same[i]) == rg_seen_view(s, view[of[i]]);
    is_status(rg_seen_set(s, same[i], 20 + i), RG_OK, "the same view");
    right = right && rg_seen_view(s, view[of[i]])->value == 20 + i;
  }
  ok(right, "what shows the same numbers is one view, whose value is the newest");
  rg_tensor *again = window(x, RG_F32, SHAPE(5), SHAPE(1), 1, 8);

  rg_alloc_fail_at(1);
  is_status(rg_seen_set(s, again, 1), RG_ENOMEM, "no memory for one more");
  rg_alloc_fail_at(0);
  rg_seen_end(&all);
  for (int32_t i = 0; i < N; i++) {
    rg_tensor_release(view[i]);
    rg_tensor_release(i < 3 ? same[i] : NULL);
  }
  rg_tensor_release(again);
  rg_tensor_release(x);
}

int main(void)
{
  test_storages();
  test_no_memory();
  test_largest();
  test_views();
  is_int(rg_live_tensors(), 0, "no tensor is left");
  return done();
}
