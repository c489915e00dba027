/* SPDX-License-Identifier: MIT */
/*
** What a clone takes of its plan: inputs of every size and place, streams of random numbers; what
** is said where it cannot be made, and what is as before then.
*/
#include "graph/record.h"

#include "ridge/graph.h"
#include "ridge/ir.h"
#include "tap.h"

#define SHAPE(...) ((const int64_t[]){ __VA_ARGS__ })

static void must(rg_status status)
{
  if (status != RG_OK) {
    tap_bail(rg_error_message());
  }
}

/* n bytes: 1, 2, ... */
static rg_tensor *bytes_of(int64_t n)
{
  rg_tensor *x = NULL;

  must(rg_empty(RG_U8, RG_CPU, &n, 1, &x));
  for (int64_t i = 0; i < n; i++) {
    ((uint8_t *)x->_data)[i] = (uint8_t)(i % 60 + 1);
  }
  return x;
}

static rg_plan *plan_of(rg_graph *g)
{
  rg_tensor *outputs[4] = { NULL };
  rg_plan *plan;

  must(rg_graph_plan(g, outputs, &plan));
  for (int i = 0; i < 4; i++) {
    rg_tensor_release(outputs[i]);
  }
  rg_graph_release(g);
  return plan;
}

static void begin(void)
{
  must(rg_capture_begin());
  must(rg_record_begin(0));
}

static rg_graph *end(void)
{
  rg_graph *g;

  must(rg_record_end(&g));
  rg_capture_cancel();
  return g;
}

/* y = contiguous x + 1, of n inputs. */
static rg_plan *recorded(rg_tensor *const *x, int32_t n)
{
  begin();
  for (int32_t i = 0; i < n; i++) {
    rg_tensor *y = NULL;

    must(rg_add_scalar(x[i], 1, 0, &y));
    must(rg_record_output(y, RG_OUTPUT_RETURNED, NULL));
    rg_tensor_release(y);
  }
  return plan_of(end());
}

static bool same(const rg_tensor *a, const rg_tensor *b)
{
  return a->_dtype == b->_dtype && rg_tensor_shaped(a, b->_shape, b->_ndim) &&
         (a->_count == 0 || memcmp(a->_data, b->_data, (size_t)rg_tensor_bytes(b)) == 0);
}

/* -- Inputs ------------------------------------------------------------------------------ */

typedef struct window {
  int64_t offset; /* bytes */
  int32_t dtype;
  int32_t ndim;
  int64_t shape[3];
  int64_t stride[3];
  int64_t first; /* bytes of the storage that the clone's own has, from a line of 64 on */
  int64_t behind;
} window;

/* A window of 1024 bytes: what it shows is the clone's own, and no more of the storage. */
static void test_windows(void)
{
  static const window windows[] = {
    { 0, RG_F32, 1, { 256 }, { 1 }, 0, 1024 },
    { 64, RG_F32, 2, { 2, 3 }, { 3, 1 }, 64, 64 + 24 },
    { 68, RG_F32, 2, { 2, 3 }, { 3, 1 }, 64, 68 + 24 },
    { 124, RG_F32, 1, { 1 }, { 1 }, 64, 128 },
    { 128, RG_F32, 0, { 0 }, { 0 }, 128, 132 },
    { 60, RG_U8, 1, { 5 }, { 1 }, 0, 65 },
    { 512, RG_F32, 2, { 3, 2 }, { 1, 3 }, 512, 512 + 24 },
    { 512, RG_F32, 2, { 2, 2 }, { 16, 4 }, 512, 512 + 4 * 21 },
    { 200, RG_F64, 3, { 2, 1, 2 }, { 8, 50, 2 }, 192, 200 + 8 * 11 },
    { 256, RG_F32, 2, { 3, 2 }, { 0, 1 }, 256, 264 },
    { 256, RG_F32, 2, { 0, 3 }, { 3, 1 }, 256, 256 },
    { 256, RG_F32, 2, { 0, 5 }, { 1, 1 }, 256, 256 },
    { 1020, RG_F32, 1, { 1 }, { 1 }, 960, 1024 },
  };

  for (size_t i = 0; i < sizeof(windows) / sizeof(windows[0]); i++) {
    const window *w = &windows[i];
    rg_tensor *all = bytes_of(1024);
    rg_tensor *x = NULL;
    rg_plan *clone = NULL;

    must(rg_tensor_view_of(all->_storage, w->dtype, w->shape, w->stride, w->ndim, w->offset, &x));
    rg_plan *plan = recorded(&x, 1);

    is_status(rg_plan_clone(plan, &clone), RG_OK, "a clone");
    const rg_tensor *own = rg_plan_input(clone, 0);

    ok(own != NULL && own != x && own->_storage != all->_storage, "has an input of its own");
    is_int(own->_storage->bytes, w->behind - w->first, "of no more than is shown");
    ok((char *)own->_data - (char *)own->_storage->block.data == w->offset - w->first,
       "at the same place of a line");
    ok(own->_dtype == x->_dtype && rg_tensor_shaped(own, x->_shape, x->_ndim) &&
           memcmp(own->_stride, x->_stride, (size_t)x->_ndim * sizeof(int64_t)) == 0,
       "that looks the same");
    must(rg_plan_replay(plan, 1));
    must(rg_plan_replay(clone, 1));
    ok(same(rg_plan_output(clone, 0), rg_plan_output(plan, 0)), "and holds the same");
    must(rg_fill_(all, 0));
    must(rg_plan_replay(clone, 1));
    ok(same(rg_plan_output(clone, 0), rg_plan_output(plan, 0)), "whatever becomes of the other");
    ok(rg_plan_input(clone, -1) == NULL && rg_plan_input(clone, 1) == NULL &&
           rg_plan_input(NULL, 0) == NULL && rg_plan_output(clone, -1) == NULL &&
           rg_plan_output(clone, 1) == NULL && rg_plan_output(NULL, 0) == NULL,
       "there are no others");
    rg_plan_release(plan);
    rg_plan_release(clone);
    rg_tensor_release(x);
    rg_tensor_release(all);
  }
}

/* Several windows of one storage, in any order, an empty one among them. */
static void test_together(void)
{
  static const int64_t offset[][3] = { { 64, 128, 512 }, { 512, 128, 64 }, { 128, 512, 64 } };

  for (int32_t i = 0; i < 3; i++) {
    for (int32_t empty = 0; empty <= 3; empty++) {
      rg_tensor *all = bytes_of(1024);
      rg_tensor *x[3];
      rg_plan *clone = NULL;
      int64_t first = 1024;
      int64_t behind = 0;

      for (int32_t k = 0; k < 3; k++) {
        const int64_t n = k == empty ? 0 : 4;
        const int64_t last = offset[i][k] + 4 * n;

        must(rg_tensor_view_of(all->_storage, RG_F32, &n, SHAPE(1), 1, offset[i][k], &x[k]));
        first = offset[i][k] < first ? offset[i][k] : first;
        behind = last > behind ? last : behind;
      }
      rg_plan *plan = recorded(x, 3);

      must(rg_plan_clone(plan, &clone));
      must(rg_plan_replay(plan, 1));
      must(rg_plan_replay(clone, 1));
      bool right = true;

      for (int32_t k = 0; k < 3; k++) {
        right = right && same(rg_plan_output(clone, k), rg_plan_output(plan, k)) &&
                rg_plan_input(clone, k)->_storage == rg_plan_input(clone, 0)->_storage;
      }
      ok(right, "windows of one storage are so in the clone");
      is_int(rg_plan_input(clone, 0)->_storage->bytes, behind - first, "of no more than is shown");
      rg_plan_release(plan);
      rg_plan_release(clone);
      for (int32_t k = 0; k < 3; k++) {
        rg_tensor_release(x[k]);
      }
      rg_tensor_release(all);
    }
  }
}

/* -- Random numbers ------------------------------------------------------------------------ */

/* The default stream is a stream: the clone has one of its own in its place. */
static void test_default_stream(void)
{
  rg_generator *g = rg_generator_default();
  rg_tensor *y = NULL;
  rg_plan *clone = NULL;

  rg_seed(5);
  begin();
  must(rg_empty(RG_F32, RG_CPU, SHAPE(8), 1, &y));
  must(rg_neg_(y)); /* a node that draws nothing */
  must(rg_uniform_(y, 0, 1, NULL));
  must(rg_uniform_(y, 0, 1, NULL));
  must(rg_record_output(y, RG_OUTPUT_RETURNED, NULL));
  rg_plan *plan = plan_of(end());
  const uint64_t before = rg_generator_offset(g);

  rg_tensor_release(y);
  must(rg_plan_clone(plan, &clone));
  is_int(rg_generator_offset(g) - before, 1, "a seed is drawn from it, once");
  must(rg_plan_replay(clone, 2));
  is_int(rg_generator_offset(g) - before, 1, "and nothing else");
  must(rg_plan_replay(plan, 1));
  is_int(rg_generator_offset(g) - before, 17, "the plan goes on drawing from it");
  ok(!same(rg_plan_output(plan, 0), rg_plan_output(clone, 0)), "other numbers");
  rg_plan_release(plan);
  rg_plan_release(clone);
}

/* -- What is refused ----------------------------------------------------------------------- */

static void test_states(void)
{
  for (int32_t how = 0; how < 4; how++) {
    rg_tensor *x[2];
    rg_plan *clone = NULL;
    char want[200];

    begin();
    for (int32_t i = 0; i < (how & 2 ? 2 : 1); i++) {
      must(rg_empty(RG_F32, RG_CPU, SHAPE(2, 3), 2, &x[i]));
      rg_tensor_release(x[i]);
      rg_plan *aside = rg_capture_swap(NULL);

      must(rg_empty(RG_F32, RG_CPU, SHAPE(2, 3), 2, &x[i]));
      must(rg_fill_(x[i], 1));
      (void)rg_capture_swap(aside);
      must(rg_relu_(x[i]));
    }
    if (how & 1) {
      must(rg_record_name(x[0], "average"));
    }
    rg_plan *plan = plan_of(end());

    (void)snprintf(
        want, sizeof(want),
        "plan: it writes to %s%%%d (f32[2,3])%s, and so would its clone: one that writes "
        "to what is outside is not cloned",
        how & 1 ? "average, " : "", how == 3 /* inputs come first */, how & 2 ? " and others" : "");
    is_status(rg_plan_clone(plan, &clone), RG_ENOSUP, "a plan that writes what was there");
    if (!ok(strcmp(rg_error_message(), want) == 0, want)) {
      printf("# %s\n", rg_error_message());
    }
    ok(clone == NULL, "has no clone");
    rg_plan_release(plan);
    rg_tensor_release(x[0]);
    rg_tensor_release(how & 2 ? x[1] : NULL);
  }
}

static void test_refused(void)
{
  rg_tensor *x = bytes_of(8);
  rg_plan *plan = recorded(&x, 1);
  rg_plan *clone = NULL;

  is_status(rg_plan_clone(plan, NULL), RG_EARG, "no place for a clone");
  must(rg_capture_begin());
  is_status(rg_plan_clone(plan, &clone), RG_ECAPTURE, "none is made inside a capture");
  ok(rg_capturing() && clone == NULL, "which goes on");
  rg_capture_cancel();
  rg_plan_release(plan);
  rg_tensor_release(x);
}

static void test_memory(void)
{
  rg_tensor *x = bytes_of(8);
  rg_tensor *y = NULL;

  begin();
  must(rg_empty(RG_F32, RG_CPU, SHAPE(8), 1, &y));
  must(rg_uniform_(y, 0, 1, NULL));
  must(rg_record_output(y, RG_OUTPUT_RETURNED, NULL));
  rg_tensor_release(y);
  must(rg_add_scalar(x, 1, 0, &y));
  must(rg_record_output(y, RG_OUTPUT_RETURNED, NULL));
  rg_tensor_release(y);
  rg_plan *plan = plan_of(end());
  const int64_t tensors = rg_live_tensors();
  const int64_t bytes = rg_memory_of(RG_CPU)->live_bytes;
  rg_status status = RG_ENOMEM;
  bool clean = true;
  int64_t n = 0;

  while (status != RG_OK && n < 2000 && !tap_refusing()) {
    rg_plan *clone = NULL;

    rg_alloc_fail_at(++n);
    status = rg_plan_clone(plan, &clone);
    clean = clean && (status != RG_OK || rg_alloc_injected());
    rg_alloc_fail_at(0);
    clean =
        clean && (status == RG_OK || status == RG_ENOMEM) && (clone != NULL) == (status == RG_OK);
    rg_plan_release(clone);
    clean = clean && rg_live_tensors() == tensors && rg_memory_of(RG_CPU)->live_bytes == bytes;
  }
  ok(clean && (n > 20 || tap_refusing()), "allocation after allocation is refused");
  rg_plan_release(plan);
  rg_tensor_release(x);
}

int main(void)
{
  test_windows();
  test_together();
  test_default_stream();
  test_states();
  test_refused();
  test_memory();
  is_int(rg_live_tensors(), 0, "no tensor is left");
  return done();
}
