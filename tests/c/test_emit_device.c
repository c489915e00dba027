/* SPDX-License-Identifier: MIT */
/*
** Where results of a graph on a device are made that are to be held by a tensor somewhere else.
*/
#include "driver.h"
#include "graph/plan.h"
#include "ir.h"
#include "ridge/graph.h"

enum { DEVICE = 1 };

static const rg_driver driver = { .take = host_take,
                                  .give = host_give,
                                  .lost = host_done,
                                  .pin = host_pin,
                                  .unpin = free,
                                  .copy = host_copy,
                                  .wait = host_done,
                                  .enter = host_enter,
                                  .join = host_join,
                                  .mark_new = host_mark_new,
                                  .mark_free = host_mark_free,
                                  .mark_set = host_mark,
                                  .mark_follow = host_mark,
                                  .mark_wait = host_mark,
                                  .graph_free = host_graph_free };

static rg_status k_neg(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  (void)frame;
  for (int64_t i = 0; i < out[0]->_count; i++) {
    ((float *)out[0]->_data)[i] = -((const float *)call->in[0]->_data)[i];
  }
  return RG_OK;
}

static rg_kernel *const kernels[RG_OP_COUNT] = { [RG_OP_NEG] = k_neg };
static const rg_backend backend = { "of the host", kernels, NULL, NULL };

static rg_tensor *square_on(int32_t device)
{
  const int64_t shape[] = { 3, 3 };
  rg_tensor *x = NULL;

  must(rg_empty(RG_F32, device, shape, 2, &x));
  for (int64_t i = 0; i < 9; i++) {
    ((float *)x->_data)[i] = (float)(1 + i); /* its memory is the host's */
  }
  return x;
}

/* The negated input, held by `into`: the step makes it there only on the same device. */
static void test_elsewhere(void)
{
  for (int32_t device = RG_CPU; device <= DEVICE; device++) {
    rg_graph *g;
    rg_tensor *in = square_on(DEVICE);
    rg_tensor *into = square_on(device);
    rg_tensor *out[1] = { NULL };
    rg_plan *plan = NULL;

    must(rg_ir_new(&g));
    const int32_t x = outside(g, RG_VALUE_INPUT, "x", 3, 3);

    rg_ir_value_at(g, x)->device = DEVICE;
    must(rg_ir_bind(g, x, in));
    const int32_t y = unary(g, &rg_op_neg, x);

    rg_ir_value_at(g, y)->device = DEVICE;
    must(
        rg_ir_graph_output(g, &(rg_ir_output){ .value = y, .kind = RG_OUTPUT_KEPT, .into = into }));
    must(rg_graph_check(g));
    if (device == RG_CPU) { /* it would have to be copied there */
      is_status(rg_graph_plan(g, out, &plan), RG_ECAPTURE, "not into memory of another device");
      ok(SAYS("a plan stays on one device"), "which is said");
    } else {
      must(rg_graph_plan(g, out, &plan));
      ok(plan->first->out[0]->_storage == into->_storage, "into memory of its device");
      is_int(plan->n_steps, 1, "in one step");
    }
    rg_tensor_release(out[0]);
    rg_plan_release(plan);
    rg_graph_release(g);
    rg_tensor_release(in);
    rg_tensor_release(into);
  }
}

int main(void)
{
  rg_driver_register(DEVICE, &driver);
  rg_backend_register(DEVICE, &backend);
  test_elsewhere();
  is_int(rg_live_tensors(), 0, "no tensor is left");
  return done();
}
