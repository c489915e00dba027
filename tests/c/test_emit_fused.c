/* SPDX-License-Identifier: MIT */
/*
** Fused chains through the dispatcher: tensors with gaps, which their kernels do not take, are
** copied, and no others; what is as before where that fails.
*/
#include "graph/emit.h"
#include "graph/plan.h"
#include "op/fused.h"
#include "op/list.h"
#include "ridge/graph.h"
#include "tap.h"

#define SHAPE(...) ((const int64_t[]){ __VA_ARGS__ })

enum { ROWS = 2, COLS = 3, COUNT = ROWS * COLS };

extern const rg_op rg_op_fused;

static void must(rg_status status)
{
  if (status != RG_OK) {
    tap_bail(rg_error_message());
  }
}

/* ROWS x COLS numbers from begin on; transposed: they lie in the other order. */
static rg_tensor *numbers(float begin, bool transposed)
{
  rg_tensor *x = NULL;
  rg_tensor *view = NULL;

  must(rg_empty(RG_F32, RG_CPU, transposed ? SHAPE(COLS, ROWS) : SHAPE(ROWS, COLS), 2, &x));
  must(rg_transpose(x, 0, 1, &view));
  for (int64_t i = 0; i < COUNT; i++) {
    const int64_t at = transposed ? i % COLS * ROWS + i / COLS : i;

    ((float *)x->_data)[at] = begin + (float)i;
  }
  if (!transposed) {
    rg_tensor_release(view);
    return x;
  }
  rg_tensor_release(x);
  return view;
}

/* Number i of a tensor, in the order of its axes. */
static float number(const rg_tensor *x, int64_t i)
{
  return ((const float *)x->_data)[i / COLS * x->_stride[0] + i % COLS * x->_stride[1]];
}

/* y1 = -x, y2 = y1 + z. */
static rg_call chain(const rg_tensor *const *in, rg_fused_args *args)
{
  *args = (rg_fused_args){ .links = { .n = 2 } };
  args->links.at[0] =
      (rg_link){ .id = RG_OP_NEG, .dtype = RG_F32, .load = 0, .with = RG_FUSED_NONE, .store = 0 };
  args->links.at[1] =
      (rg_link){ .id = RG_OP_ADD, .dtype = RG_F32, .load = RG_FUSED_NONE, .with = 1, .store = 1 };
  return (rg_call){ .op = &rg_op_fused, .in = in, .n_in = 2, .args = args };
}

static bool is_right(rg_tensor *const *y)
{
  bool right = true;

  for (int64_t i = 0; i < COUNT; i++) {
    right = right && number(y[0], i) == -(10 + (float)i) && number(y[1], i) == 90;
  }
  return right;
}

/* Each of two inputs and two results with gaps or without; results that are there or not. */
static void test_gaps(void)
{
  for (int32_t which = 0; which < 64; which++) {
    rg_tensor *const in[2] = { numbers(10, which & 1), numbers(100, which & 2) };
    rg_tensor *y[RG_MAX_OUT] = { NULL };
    rg_tensor *given[2] = { NULL, NULL };
    int32_t copies = (which & 1) + (which >> 1 & 1);
    rg_plan *plan = NULL;
    rg_plan_facts facts;
    rg_fused_args args;
    const char *names[5] = { NULL };

    for (int32_t i = 0; i < 2; i++) {
      if (which >> (2 + i) & 1) {
        given[i] = y[i] = numbers(0, which >> (4 + i) & 1);
        copies += which >> (4 + i) & 1;
      }
    }
    const rg_call call = chain((const rg_tensor *const[]){ in[0], in[1] }, &args);

    must(rg_capture_begin());
    must(rg_emit_fused(&call, y));
    must(rg_capture_end(&plan));
    must(rg_plan_facts_of(plan, &facts));
    must(rg_plan_step_names(plan, names, 5));
    ok(is_right(y), "the numbers of the chain");
    is_int(facts.n_steps, 1 + copies, "a step, and a copy of each that has gaps");
    ok((given[0] == NULL || y[0] == given[0]) && (given[1] == NULL || y[1] == given[1]) &&
           y[2] == NULL,
       "in the tensors that were there");
    for (int32_t i = 0; i < 2; i++) {
      for (int64_t k = 0; k < COUNT; k++) {
        ((float *)y[i]->_data)[k] = 0;
      }
    }
    must(rg_plan_replay(plan, 1));
    ok(is_right(y), "in a replay too");
    rg_plan_release(plan);
    for (int32_t i = 0; i < 2; i++) {
      rg_tensor_release(in[i]);
      rg_tensor_release(y[i]);
    }
  }
}

/* A link of an activation's gradient takes each activation that there is, and no other number. */
static void test_activations(void)
{
  rg_tensor *const in[2] = { numbers(10, false), numbers(100, false) };

  for (int32_t act = -1; act <= RG_ACT_COUNT + 1; act++) {
    rg_tensor *y[RG_MAX_OUT] = { NULL };
    rg_fused_args args;
    rg_plan *plan = NULL;
    const rg_call call = chain((const rg_tensor *const[]){ in[0], in[1] }, &args);

    args.links.at[1].id = RG_OP_ACT_BACK;
    args.links.at[1].act = (int8_t)act;
    must(rg_capture_begin());
    is_status(rg_emit_fused(&call, y), act > RG_ACT_NONE && act < RG_ACT_COUNT ? RG_OK : RG_EARG,
              "an activation, or none");
    ok(y[0] != NULL || strstr(rg_error_message(), "has no such activation") != NULL,
       rg_error_message());
    must(rg_capture_end(&plan));
    rg_plan_release(plan);
    rg_tensor_release(y[0]);
    rg_tensor_release(y[1]);
  }
  rg_tensor_release(in[0]);
  rg_tensor_release(in[1]);
}

/* Where memory ends what was given is what it was, and nothing else is left. */
static void test_memory(void)
{
  rg_tensor *const in[2] = { numbers(10, true), numbers(100, true) };
  rg_tensor *given = numbers(0, true);
  const int64_t tensors = rg_live_tensors();
  const int64_t bytes = rg_memory_of(RG_CPU)->live_bytes;
  rg_status status = RG_ENOMEM;
  bool clean = true;
  int64_t n = 0;

  if (!tap_refusing()) {
    while (status != RG_OK && n < 200) {
      rg_tensor *y[RG_MAX_OUT] = { given };
      rg_fused_args args;
      const rg_call call = chain((const rg_tensor *const[]){ in[0], in[1] }, &args);

      rg_alloc_fail_at(++n);
      status = rg_emit_fused(&call, y);
      clean = clean && (status != RG_OK || rg_alloc_injected());
      rg_alloc_fail_at(0);
      clean = clean && y[0] == given && (status == RG_OK) == (y[1] != NULL) &&
              (status == RG_OK || status == RG_ENOMEM);
      clean = clean && (status != RG_OK || is_right(y));
      rg_tensor_release(y[1]);
      clean = clean && rg_live_tensors() == tensors && rg_memory_of(RG_CPU)->live_bytes == bytes;
    }
    ok(clean && n > 5 && status == RG_OK, "allocation after allocation is refused");
  }
  rg_tensor_release(in[0]);
  rg_tensor_release(in[1]);
  rg_tensor_release(given);
}

int main(void)
{
  test_gaps();
  test_activations();
  test_memory();
  is_int(rg_live_tensors(), 0, "no tensor is left");
  return done();
}
